"""Whole models of PyTorch's layers, trained side by side from one state dict; and what must hold of each such layer."""

from contextlib import nullcontext

import numpy as np
import pytest

import tinygrad_tf
from tinygrad_tf import Tensor, composed, lr_scheduler, manual_seed, nn, optim
from tinygrad_tf.engine import state

V, T, B, D = 11, 6, 4, 8


def text_model(m, kind):
    """A model of next characters under m.nn: ids (B, T) -> logits (B, V, T)."""

    class Model(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = m.nn.Embedding(V, D, padding_idx=0)
            if kind == "Transformer":
                layer = m.nn.TransformerEncoderLayer(D, 2, 16, 0.0, "gelu", batch_first=True, norm_first=True)
                self.body = m.nn.TransformerEncoder(layer, 2, m.nn.LayerNorm(D), enable_nested_tensor=False)
            else:
                self.body = getattr(m.nn, kind)(D, D, 2, batch_first=True)
            self.norm, self.head = m.nn.BatchNorm1d(D), m.nn.Linear(D, V)

        def forward(self, ids, mask):
            x = self.embedding(ids)
            x = self.body(x, mask=mask) if kind == "Transformer" else self.body(x)[0]
            return self.head(self.norm(x.transpose(1, 2)).transpose(1, 2)).transpose(1, 2)

    return Model()


OPTIMIZERS = {
    "AdamW": {"lr": 3e-2, "weight_decay": 0.1}, "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True}, "RMSprop": {"lr": 1e-2},
    "Adagrad": {"lr": 5e-2},
}  # fmt: skip


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", ["Transformer", "RNN", "LSTM", "GRU"])
def test_twelve_steps_of_training(oracle, kind, optimizer):
    theirs = text_model(oracle, kind).double()
    ours = text_model(tinygrad_tf, kind).double()
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    losses, batch = ([], []), np.random.default_rng(0).integers(0, V, (B, T + 1))
    hidden = ~np.tri(T, dtype=bool)
    for found, model, m, optims, schedules, make in (
        (losses[0], ours, nn, optim, lr_scheduler, Tensor),
        (losses[1], theirs, oracle.nn, oracle.optim, oracle.optim.lr_scheduler, oracle.from_numpy),
    ):
        stepper = getattr(optims, optimizer)(model.parameters(), **OPTIMIZERS[optimizer])
        schedule = schedules.CosineAnnealingLR(stepper, 12, 1e-3)
        loss_of = m.CrossEntropyLoss(ignore_index=0, label_smoothing=0.1)
        for _ in range(12):
            loss = loss_of(model(make(batch[:, :-1].copy()), make(hidden)), make(batch[:, 1:].copy()))
            stepper.zero_grad()
            loss.backward()
            m.utils.clip_grad_norm_(model.parameters(), 1.0)
            stepper.step()
            schedule.step()
            found.append(loss.item())
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)
    assert losses[0][-1] < losses[0][0]
    for (name, p), q in zip(ours.state_dict().items(), theirs.state_dict().values()):
        np.testing.assert_allclose(p.array, q.numpy(), rtol=1e-4, atol=1e-5, err_msg=name)


X = np.random.default_rng(1).standard_normal((T, B, D)).astype(np.float32)
LAYERS = {
    "RNN": lambda x: nn.RNN(D, D, nonlinearity="relu")(x)[0],
    "LSTM": lambda x: nn.LSTM(D, D, bidirectional=True)(x)[0],
    "GRU": lambda x: nn.GRU(D, D, 2, dropout=0.5)(x)[0],
    "attention": lambda x: nn.MultiheadAttention(D, 2, dropout=0.5, add_bias_kv=True)(x, x, x)[0],
    "attention with masks": lambda x: nn.MultiheadAttention(D, 2)(
        x, x, x, np.arange(T) >= 4 + np.zeros((B, 1)), False, nn.Transformer.generate_square_subsequent_mask(T))[0],
    "transformer": lambda x: nn.Transformer(D, 2, 1, 1, 16)(x, x),
    "batch norm": lambda x: nn.BatchNorm1d(D)(x.reshape(-1, D)),
    "convolution": lambda x: nn.Conv1d(B, B, 3, dilation=2, groups=2)(x.transpose(0, 1).transpose(1, 2).reshape(D, B, T)),
    "softplus": lambda x: nn.Softplus(2.0)(x),
    "cross entropy": lambda x: nn.CrossEntropyLoss(np.ones(D), label_smoothing=0.1)(x[0], np.zeros(B, int)),
    "distribution": lambda x: nn.CrossEntropyLoss(label_smoothing=0.1)(x[0], np.full((B, D), 1 / D, np.float32)),
    "nll": lambda x: nn.NLLLoss()(x[0], np.zeros(B, int)),
    "kl": lambda x: nn.KLDivLoss(reduction="batchmean")(x[0], np.full((B, D), 1 / D, np.float32)),
    "bce": lambda x: nn.BCEWithLogitsLoss(pos_weight=np.ones(D, np.float32))(x[0], np.ones((B, D), np.float32)),
    "mse": lambda x: nn.MSELoss()(x[0], np.ones((B, D), np.float32)),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_float32_stays_float32(name):
    found = []
    state.observer = lambda node, value: found.append((node.op.name, value.dtype))
    try:
        x = Tensor(X, requires_grad=True)
        LAYERS[name](x).sum().backward()
    finally:
        state.observer = None
    assert len(found) > 2
    assert {dtype for _, dtype in found} == {np.dtype(np.float32)}, found
    assert x.grad.dtype == np.float32


@pytest.mark.parametrize("name", LAYERS)
def test_composed_is_fused(name):
    values = []
    for switch in (nullcontext, composed):
        manual_seed(3)
        x = Tensor(X, requires_grad=True)
        with switch():
            y = LAYERS[name](x)
            y.sum().backward()
        values.append((y.array, x.grad.array))
    for a, b in zip(*values):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5)
