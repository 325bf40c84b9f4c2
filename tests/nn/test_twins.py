"""A model on its composed twins is the same model: loss and every gradient. And float32 stays float32 throughout."""

import numpy as np
import pytest

from tests.nn import decoders
from tinygrad_tf import Tensor, composed, nn, optim
from tinygrad_tf.engine import registry, state
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.nn import functional as F

CONFIGS = {
    **decoders.CONFIGS,
    "silu": {**decoders.SMALL, "ffn": "silu", "positions": "none"},
    "relu2": {**decoders.SMALL, "ffn": "relu2", "bias": True},
    "dropout": {**decoders.SMALL, "dropout": 0.3},
}
IDS = np.random.default_rng(3).integers(0, 23, (2, 12))
TARGETS = np.random.default_rng(4).integers(0, 23, (2, 12))


def built(name):
    model = Decoder(DecoderConfig(**CONFIGS[name]), np.random.default_rng(1))
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.generator = np.random.default_rng(7)
    return model


@pytest.fixture
def observed():
    """Every node that is recorded while the test runs, with its value."""
    found = []
    state.observer = lambda node, value: found.append((node, value))
    yield found
    state.observer = None


@pytest.mark.parametrize("name", CONFIGS)
def test_composed_is_fused(name, observed):
    losses, grads, ops = [], [], []
    for switch in (None, composed):
        model = built(name).double()
        observed.clear()
        if switch is None:
            loss = model.loss(IDS, TARGETS)
            loss.backward()
        else:
            with switch():
                loss = model.loss(IDS, TARGETS)
                loss.backward()
        losses.append(loss.array)
        grads.append({n: p.grad.array for n, p in model.named_parameters()})
        ops.append({node.op.name for node, _ in observed})
    fused = {n for n, op in registry.items() if op.twin is not None}
    assert {"linear", "attention", "cross_entropy", "embedding"} <= ops[0]
    assert not ops[1] & fused, "a fused op ran inside composed()"
    np.testing.assert_allclose(losses[1], losses[0], rtol=1e-12)
    for n, g in grads[0].items():
        np.testing.assert_allclose(grads[1][n], g, rtol=0, atol=1e-12 * max(1, abs(g).max()), err_msg=n)


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", CONFIGS)
def test_DT02_everything_in_a_training_step_is_float32(name, inside, observed):
    model = built(name)
    optimizer = optim.AdamW(model.parameters(), lr=np.float64(1e-2), weight_decay=0.1)
    grads = []
    for p in model.parameters():
        p.register_hook(lambda g: grads.append(g.dtype))
    with composed() if inside else state_unchanged():
        loss = model.loss(IDS, TARGETS) * np.float64(0.5) / np.sqrt(16)
        loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()

    assert len(observed) > 30
    assert {(node.op.name, value.dtype) for node, value in observed if value.dtype != np.float32} == set()
    assert {(node.op.name, node.dtype) for node, _ in observed if node.dtype != np.float32} == set()
    assert set(grads) == {np.dtype(np.float32)}
    assert {p.dtype for p in model.parameters()} == {p.grad.dtype for p in model.parameters()} == {np.dtype(np.float32)}
    assert {v.dtype for e in optimizer.state_dict()["state"].values() for v in e.values() if isinstance(v, Tensor)} == {
        np.dtype(np.float32)
    }
    kept = {a.dtype for node, _ in observed if node.rule for a in node.kept() if a.dtype.kind == "f"}
    assert kept <= {np.dtype(np.float32)}


class state_unchanged:
    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


def test_DT02_what_a_rule_keeps_is_float32(observed):
    """Before backward frees it: no float64 array waits in memory for a float32 model."""
    for name in CONFIGS:
        built(name).loss(IDS, TARGETS)
    kept = [(node.op.name, a.shape) for node, _ in observed for a in node.kept() if a.dtype == np.float64]
    assert kept == []


@pytest.mark.parametrize("make", [
    lambda x: x / np.sqrt(16), lambda x: x * np.float64(0.5), lambda x: x * np.array(2.0), lambda x: x * np.array([1, 2]),
    lambda x: np.float64(3) - x, lambda x: x.mean(), lambda x: x.var(), lambda x: x.softmax(0),
    lambda x: F.gelu(x), lambda x: x**2.0, lambda x: F.dropout(x, 0.5),
    lambda x: nn.RMSNorm(2, eps=np.float64(1e-6))(x), lambda x: F.layer_norm(x, 2, eps=1e-5),
])  # fmt: skip
def test_DT02_numpys_numbers_do_not_widen(make):
    x = Tensor(np.ones(2, np.float32), requires_grad=True)
    y = make(x)
    assert y.dtype == np.float32
    y.sum().backward()
    assert x.grad.dtype == np.float32


@pytest.mark.parametrize("p", [0.0, 0.5])
def test_DT02_a_mask_of_float64_numbers_does_not_widen_attention(p):
    layer = nn.MultiHeadAttention(8, 2, dropout=p)
    x = Tensor(np.ones((1, 3, 8), np.float32))
    bias = np.where(np.tri(3, dtype=bool), 0.0, -np.inf)
    assert bias.dtype == np.float64
    assert layer(x, mask=bias).dtype == np.float32
    q = Tensor(np.ones((1, 2, 3, 4), np.float32))
    assert F.scaled_dot_product_attention(q, q, q, attn_mask=bias, dropout_p=p).dtype == np.float32
