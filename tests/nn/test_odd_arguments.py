"""Layers, losses, schedules and optimizers that are given what cannot be say so in one line that names them."""

import numpy as np
import pytest

from tinygrad_tf import Tensor, lr_phases, lr_scheduler, nn, ones, optim, randn, tensor, zeros
from tinygrad_tf.nn import functional as F

X = Tensor(np.arange(12, dtype=np.float32).reshape(3, 4))
V = Tensor(np.arange(3, dtype=np.float32))
IDS = tensor([0, 1, 2])
B = ones(2, 3, 4)
LEAF = nn.Parameter(np.ones((3, 4), np.float32))


def refused(call, kind, words):
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)


def named(cases):
    return pytest.mark.parametrize("call, kind, words", cases, ids=[words for *_, words in cases])


# ------------------------------------------------------------------------------------------------ layers


@named([
    (lambda: nn.Linear("a", 3), TypeError, "Linear: in_features is a whole number, not 'a' (str)"),
    (lambda: nn.Linear(4, 2.5), TypeError, "Linear: out_features is a whole number, not 2.5 (float)"),
    (lambda: nn.Linear(4, -1), ValueError, "Linear: out_features is a whole number from 0 on, not -1"),
    (lambda: nn.Embedding(None, 3), TypeError, "Embedding: num_embeddings is a whole number, not None"),
    (lambda: nn.Embedding(5, 3, padding_idx="a"), TypeError, "Embedding: padding_idx is a whole number"),
    (lambda: nn.Embedding.from_pretrained(V), ValueError, "from_pretrained: a table (V, d), not a Tensor of shape (3,)"),
    (lambda: nn.LayerNorm(4.0), TypeError, "LayerNorm: normalized_shape is a whole number"),
    (lambda: nn.LayerNorm(4, eps="a"), TypeError, "LayerNorm: eps is a number"),
    (lambda: nn.RMSNorm(-1), ValueError, "RMSNorm: normalized_shape is a whole number from 0 on"),
    (lambda: nn.BatchNorm1d("a"), TypeError, "BatchNorm1d: a size is a whole number"),
    (lambda: nn.GroupNorm("a", 4), TypeError, "GroupNorm: num_groups is a whole number"),
    (lambda: nn.Conv1d("a", 2, 3), TypeError, "Conv1d: in_channels is a whole number"),
    (lambda: nn.Conv2d(4, 2, 2, groups="a"), TypeError, "Conv2d: groups is a whole number"),
    (lambda: nn.Conv1d(3, 2, 2, stride=0), ValueError, "Conv1d: stride is whole numbers from 1 on, not 0"),
    (lambda: nn.Conv1d(3, 2, 2, padding=-1), ValueError, "Conv1d: padding is whole numbers from 0 on, not -1"),
    (lambda: nn.Dropout("a"), TypeError, "Dropout: p is a number, not 'a' (str)"),
    (lambda: nn.MultiheadAttention(4, "a"), TypeError, "MultiheadAttention: num_heads is a whole number"),
    (lambda: nn.MultiheadAttention(5, 2), ValueError, "MultiheadAttention: a width of 5 does not divide into 2 heads"),
    (lambda: nn.TransformerEncoder(nn.Identity(), "a"), TypeError, "TransformerEncoder: num_layers is a whole number"),
    (lambda: nn.Unflatten(1, 3), TypeError, "Unflatten: unflattened_size is a tuple of sizes, not 3 (int)"),
    (lambda: nn.ModuleList(nn.Linear(2, 2)), TypeError, "ModuleList takes a list of modules, not a Linear"),
    (lambda: nn.ModuleList([nn.ReLU()])[3], IndexError, "ModuleList holds 1 modules and none at 3"),
    (lambda: nn.ModuleDict([3]), TypeError, "ModuleDict takes a dict of modules by name, not [3] (list)"),
    (lambda: nn.ModuleDict({1: nn.ReLU()}), TypeError, "ModuleDict: the name of a module is a string, not 1 (int)"),
    (lambda: nn.ParameterList(3), TypeError, "ParameterList takes a list of tensors, not 3 (int)"),
    (lambda: nn.Sequential([nn.ReLU()]), TypeError, "Sequential holds modules, not a list of ReLU"),
    (lambda: nn.Module().load_state_dict(3), TypeError, "load_state_dict takes a dict of tensors"),
    (lambda: nn.Module().register_buffer(3, X), TypeError, "the name of a buffer is a string, not 3 (int)"),
    (lambda: nn.init.xavier_uniform_(3), TypeError, "xavier_uniform_: tensor is a tensor, not 3 (int)"),
    (lambda: nn.init.zeros_(3), TypeError, "zeros_: tensor is a tensor, not 3 (int)"),
    (lambda: nn.init.normal_(ones(2), std=-1), ValueError, "normal_: std must not be negative: -1"),
    (lambda: nn.init.uniform_(ones(2), 3, 1), ValueError, "uniform_: there is no number from 3 up to 1"),
    (lambda: nn.init.trunc_normal_(ones(2), std=0), ValueError, "trunc_normal_: a standard deviation above 0"),
])  # fmt: skip
def test_a_layer_that_cannot_be(call, kind, words):
    refused(call, kind, words)


@pytest.mark.parametrize("layer", [nn.LayerNorm(4), nn.BatchNorm1d(4), nn.GroupNorm(2, 4), nn.Dropout(), nn.ReLU(), nn.GELU(),
                                   nn.Softmax(0), nn.Flatten(), nn.Conv1d(4, 2, 1), nn.MaxPool2d(2), nn.GLU(), nn.ELU(),
                                   nn.Softsign(), nn.MultiheadAttention(4, 2), nn.LSTM(4, 5), nn.GRUCell(4, 5),
                                   nn.Linear(4, 2), nn.Embedding(5, 2)], ids=lambda layer: type(layer).__name__)
@pytest.mark.parametrize("x", ["a", (LEAF, LEAF), {"a": X}], ids=["word", "tuple", "dict"])
def test_a_layer_takes_a_tensor(layer, x):
    args = (x, x, x) if isinstance(layer, nn.MultiheadAttention) else (x,)
    with pytest.raises(TypeError) as caught:
        layer(*args)
    message = str(caught.value)
    assert type(layer).__name__.lower().strip("12d") in message.lower().replace("_", "")
    assert any(word in message for word in ("tensor", "ids"))
    assert "\n" not in message


def test_the_state_of_a_layer_is_no_input_of_the_next():
    net = nn.Sequential(nn.LSTM(4, 2), nn.Linear(2, 2))
    with pytest.raises(TypeError, match=r"linear: tuple.*take one of its parts, as in out, state = lstm\(x\).* \[1\]$"):
        net(B)
    with pytest.raises(TypeError, match=r"^Flatten takes a tensor, not a tuple of Tensor, tuple: take one of its parts"):
        nn.Sequential(nn.LSTM(4, 2), nn.Flatten())(B)


def test_what_a_class_of_the_users_does_is_its_own():
    class Net(nn.Module):
        def forward(self, x):
            return x.nowhere

    for net in (Net(), nn.Sequential(Net())):
        with pytest.raises(AttributeError, match="^'dict' object has no attribute 'nowhere'"):
            net({})


def test_a_convolution_takes_an_array_as_a_linear_layer_does():
    layer = nn.Conv1d(3, 2, 2)
    x = np.ones((2, 3, 5), np.float32)
    np.testing.assert_array_equal(layer(x).detach().array, layer(Tensor(x)).detach().array)


@named([
    (lambda: F.conv1d(X, V), ValueError, "conv1d takes weights (out, in / groups, K), not (3,)"),
    (lambda: F.conv1d(ones(2, 3, 5), 3), TypeError, "conv1d: weight is a tensor, not 3 (int)"),
    (lambda: F.conv1d(ones(2, 3, 5), ones(2, 3, 2), ones(7)), ValueError, "conv1d: a bias of shape (7,) for 2 channels out"),
    (lambda: F.max_pool2d(ones(1, 2, 4, 4), 9), ValueError, "max_pool2d: 4 positions, padding included"),
    (lambda: F.pad(X, 1), ValueError, "pad: (1,) is no list of pairs"),
    (lambda: F.pad(X, ("a", 1)), TypeError, "pad: pad is a whole number, not 'a' (str)"),
    (lambda: F.pad(X, (-9, 0)), ValueError, "pad: (-9, 0) crops more than there is"),
    (lambda: F.layer_norm(X, [5]), ValueError, "layer_norm: a norm over (5,) does not fit"),
    (lambda: F.group_norm(X, 2, ones(3)), ValueError, "group_norm: weight of shape (3,) for 4 channels"),
    (lambda: F.embedding(IDS, V), ValueError, "embedding: a table (V, d), not a Tensor of shape (3,)"),
    (lambda: F.embedding(tensor([7]), X), IndexError, "embedding: id 7 at position (0,)"),
    (lambda: nn.Embedding(5, 3)(V), TypeError, "Embedding: a tensor of ids is int64 or int32 here, not float32"),
    (lambda: F.one_hot(zeros(0).long()), TypeError, "one_hot: ids are integers"),
    (lambda: F.one_hot(IDS, "a"), TypeError, "one_hot: num_classes is a whole number"),
    (lambda: F.softmax(np.ones(3), 0), TypeError, "softmax: input is a tensor, not a ndarray of shape (3,)"),
    (lambda: F.gumbel_softmax(X, 0), ValueError, "gumbel_softmax: tau divides, so it is above 0"),
    (lambda: F.scaled_dot_product_attention(V, V, V), ValueError, "scaled_dot_product_attention: (..., T, D)"),
    (lambda: F.scaled_dot_product_attention(B, B, B, dropout_p=2), ValueError, "scaled_dot_product_attention: (..., T, D)"),
    (lambda: F.cosine_similarity(X, V), ValueError, "cosine_similarity: shapes (3, 4) and (3,) do not go together"),
])  # fmt: skip
def test_a_function_of_a_layer_given_what_cannot_be(call, kind, words):
    refused(call, kind, words)


# ------------------------------------------------------------------------------------------------ recurrent states

H = zeros(1, 3, 5)


@named([
    (lambda: nn.LSTM(4, 5)(B, (H,)), ValueError, "LSTM takes as its state h and c of shape (1, 3, 5), not of (1, 3, 5) alone"),
    (lambda: nn.LSTM(4, 5)(B, H), TypeError, "LSTM takes as its state a tuple (h, c) of shape (1, 3, 5) each, not a Tensor"),
    (lambda: nn.LSTM(4, 5)(B, ()), ValueError, "LSTM takes as its state h and c of shape (1, 3, 5), not of nothing"),
    (lambda: nn.LSTM(4, 5)(B, (H, H, H)), ValueError, "LSTM takes as its state h and c of shape"),
    (lambda: nn.LSTM(4, 5)(B, (H, zeros(1, 2, 5))), ValueError, "LSTM takes as its state h and c of shape"),
    (lambda: nn.LSTM(4, 5)(B, (None, None)), TypeError, "LSTM takes as its state h and c of shape (1, 3, 5), not None, None"),
    (lambda: nn.LSTM(4, 5)(B, (3, "a")), TypeError, "LSTM takes as its state h and c of shape (1, 3, 5), not 3 (int)"),
    (lambda: nn.LSTM(4, 5)(B, (H.long(), H.long())), TypeError, "LSTM takes a state of the dtype of its weights, not of int64"),
    (lambda: nn.GRU(4, 5)(B, 3), TypeError, "GRU takes as its state h of shape (1, 3, 5), not 3 (int)"),
    (lambda: nn.GRU(4, 5)(B, (H, H)), TypeError, "GRU takes as its state a tensor h of shape (1, 3, 5), not a tuple"),
    (lambda: nn.LSTMCell(4, 5)(X, (H[0],)), ValueError, "LSTMCell takes as its state h and c of shape (3, 5), not of (3, 5)"),
    (lambda: nn.LSTMCell(4, 5)(X, (3, 3)), TypeError, "LSTMCell takes as its state h and c of shape (3, 5), not 3 (int)"),
    (lambda: nn.GRUCell(4, 5)(X, 3), TypeError, "GRUCell takes as its state h of shape (3, 5), not 3 (int)"),
    (lambda: nn.RNNCell(4, 5)(3), TypeError, "RNNCell: input is a tensor, not 3 (int)"),
    (lambda: nn.LSTM("a", 5), TypeError, "LSTM: input_size is a whole number"),
    (lambda: nn.GRU(4, 5, 1.5), TypeError, "GRU: num_layers is a whole number"),
    (lambda: nn.LSTM(4, 5, dropout="a"), TypeError, "LSTM: dropout is a number"),
])  # fmt: skip
def test_a_state_that_cannot_be(call, kind, words):
    refused(call, kind, words)


# ------------------------------------------------------------------------------------------------ losses


@named([
    (lambda: F.cross_entropy(X, IDS, ignore_index="a"), TypeError, "cross_entropy: ignore_index is a whole number"),
    (lambda: F.cross_entropy(X, IDS, ignore_index=1.5), TypeError, "cross_entropy: ignore_index is a whole number"),
    (lambda: nn.CrossEntropyLoss(ignore_index="a"), TypeError, "CrossEntropyLoss: ignore_index is a whole number"),
    (lambda: nn.NLLLoss(ignore_index=None), TypeError, "NLLLoss: ignore_index is a whole number"),
    (lambda: F.cross_entropy(X.long(), IDS), TypeError, "cross_entropy: logits and log-probabilities are floats, not int64"),
    (lambda: F.nll_loss(X.long(), IDS), TypeError, "nll_loss: logits and log-probabilities are floats, not int64"),
    (lambda: nn.CrossEntropyLoss()(X > 0, IDS), TypeError, "CrossEntropyLoss: logits and log-probabilities are floats"),
    (lambda: F.cross_entropy(3, IDS), TypeError, "cross_entropy: input is a tensor, not 3 (int)"),
    (lambda: F.cross_entropy(X, "a"), TypeError, "cross_entropy: a tensor holds numbers, not <U1 (from 'a' (str))"),
    (lambda: F.cross_entropy(X, V), TypeError, "cross_entropy: a tensor of ids is int64 or uint8 here, not float32"),
    (lambda: F.cross_entropy(X, tensor([0, 1])), ValueError, "cross_entropy: 3 rows of logits and 2 targets"),
    (lambda: F.cross_entropy(X, tensor([0, 1, 9])), IndexError, "cross_entropy: target 9 at position (2,)"),
    (lambda: F.cross_entropy(X, IDS, weight=V), ValueError, "cross_entropy: weights of shape (3,) for 4 classes"),
    (lambda: F.cross_entropy(X, IDS, label_smoothing="a"), TypeError, "cross_entropy: label_smoothing is a number"),
    (lambda: F.mse_loss(X, X, "all"), ValueError, 'mse_loss: reduction is "none", "mean" or "sum", not \'all\''),
    (lambda: nn.L1Loss("all"), ValueError, 'L1Loss: reduction is "none"'),
    (lambda: F.mse_loss(3, X), TypeError, "mse_loss: input is a tensor, not 3 (int)"),
    (lambda: nn.L1Loss()(3, X), TypeError, "L1Loss: input is a tensor, not 3 (int)"),
    (lambda: F.huber_loss(X, X, delta="a"), TypeError, "huber_loss: delta is a number"),
    (lambda: F.smooth_l1_loss(X, X, beta="a"), TypeError, "smooth_l1_loss: beta is a number"),
    (lambda: F.kl_div(3, X), TypeError, "kl_div: input is a tensor"),
    (lambda: F.binary_cross_entropy(3, V), TypeError, "binary_cross_entropy: input is a tensor"),
    (lambda: F.binary_cross_entropy(V / 3, X), ValueError, "binary_cross_entropy: targets of shape (3, 4) for probabilities"),
    (lambda: F.binary_cross_entropy_with_logits(X, V), ValueError, "binary_cross_entropy_with_logits: targets of shape (3,)"),
    (lambda: F.binary_cross_entropy_with_logits(V, IDS), TypeError, "binary_cross_entropy_with_logits: target takes"),
    (lambda: F.binary_cross_entropy_with_logits(V, V, pos_weight="a"), TypeError, "binary_cross_entropy_with_logits: pos_w"),
    (lambda: F.margin_ranking_loss(V, 3, V), TypeError, "margin_ranking_loss: input2 is a tensor"),
    (lambda: F.triplet_margin_loss(X, X, 3), TypeError, "triplet_margin_loss: negative is a tensor"),
    (lambda: F.cosine_embedding_loss(3, X, V), TypeError, "cosine_embedding_loss: input1 is a tensor"),
])  # fmt: skip
def test_a_loss_of_what_cannot_be(call, kind, words):
    refused(call, kind, words)


# ------------------------------------------------------------------------------------------------ schedules and optimizers


def sgd(**settings):
    return optim.SGD([nn.Parameter([1.0])], **{"lr": 0.1, "momentum": 0.9, **settings})


@named([
    (lambda: lr_scheduler.StepLR(sgd(), 0), ValueError, "StepLR: step_size counts steps, so it is not 0"),
    (lambda: lr_scheduler.StepLR(sgd(), -1), ValueError, "StepLR: step_size must not be negative: -1"),
    (lambda: lr_scheduler.StepLR(sgd(), "a"), TypeError, "StepLR: step_size is a number, not 'a' (str)"),
    (lambda: lr_scheduler.StepLR(sgd(), None), TypeError, "StepLR: step_size is a number, not None"),
    (lambda: lr_scheduler.StepLR(sgd(), 5, gamma="a"), TypeError, "StepLR: gamma is a number"),
    (lambda: lr_scheduler.StepLR([1], 5), TypeError, "StepLR: an optimizer comes first, not [1] (list)"),
    (lambda: lr_scheduler.StepLR(sgd(), 5, last_epoch="a"), TypeError, "StepLR: last_epoch is a whole number"),
    (lambda: lr_scheduler.CosineAnnealingLR(sgd(), 0), ValueError, "CosineAnnealingLR: T_max counts steps, so it is not 0"),
    (lambda: lr_scheduler.CosineAnnealingLR(sgd(), -3), ValueError, "CosineAnnealingLR: T_max must not be negative"),
    (lambda: lr_scheduler.CosineAnnealingLR(sgd(), 5, eta_min="a"), TypeError, "CosineAnnealingLR: eta_min is a number"),
    (lambda: lr_scheduler.LambdaLR(sgd(), 0.5), TypeError, "LambdaLR: lr_lambda is a function of the step, not 0.5 (float)"),
    (lambda: lr_phases.MultiplicativeLR(sgd(), 0.5), TypeError, "MultiplicativeLR: lr_lambda is a function"),
    (lambda: lr_scheduler.LambdaLR(sgd(), lambda step: None), TypeError, "LambdaLR: lr_lambda(step) is a number, not None"),
    (lambda: lr_phases.MultiStepLR(sgd(), 5), TypeError, "MultiStepLR: milestones is a list of steps, as [30, 80], not 5"),
    (lambda: lr_phases.MultiStepLR(sgd(), ["a"]), TypeError, "MultiStepLR: a milestone is a number"),
    (lambda: lr_phases.MultiStepLR(sgd(), [-1]), ValueError, "MultiStepLR: a milestone must not be negative"),
    (lambda: lr_phases.ExponentialLR(sgd(), None), TypeError, "ExponentialLR: gamma is a number"),
    (lambda: lr_phases.LinearLR(sgd(), "a"), TypeError, "LinearLR: start_factor is a number"),
    (lambda: lr_phases.ConstantLR(sgd(), 0.5, "a"), TypeError, "ConstantLR: total_iters is a number"),
    (lambda: lr_phases.PolynomialLR(sgd(), "a"), TypeError, "PolynomialLR: total_iters is a number"),
    (lambda: lr_phases.CosineAnnealingWarmRestarts(sgd(), "a"), TypeError, "CosineAnnealingWarmRestarts: T_0 is a number"),
    (lambda: lr_phases.SequentialLR(sgd(), 3, [5]), TypeError, "SequentialLR takes a list of schedules, not 3 (int)"),
    (lambda: lr_phases.ChainedScheduler(sgd()), TypeError, "ChainedScheduler takes a list of schedules"),
    (lambda: lr_scheduler.OneCycleLR(sgd(), 0.1, total_steps=1.5), TypeError, "OneCycleLR: total_steps is a whole number"),
    (lambda: lr_scheduler.OneCycleLR(sgd(), "a", total_steps=5), TypeError, "OneCycleLR: max_lr is a number"),
    (lambda: lr_scheduler.OneCycleLR(sgd(), 0.1, total_steps=5, div_factor=0), ValueError, "OneCycleLR: rates are divided by"),
    (lambda: lr_scheduler.ReduceLROnPlateau(sgd(), patience="a"), TypeError, "ReduceLROnPlateau: patience is a whole number"),
    (lambda: lr_scheduler.ReduceLROnPlateau(sgd()).step("a"), TypeError, "step: metrics is a number, not 'a' (str)"),
    (lambda: lr_scheduler.StepLR(sgd(), 5).load_state_dict(3), TypeError, "load_state_dict: a dict, which state_dict() gave"),
    (lambda: sgd(lr="a"), TypeError, "SGD: lr is a number, not 'a' (str)"),
    (lambda: sgd(lr=None), TypeError, "SGD: lr is a number, not None"),
    (lambda: sgd(momentum=-1), ValueError, "SGD: momentum must not be negative: -1"),
    (lambda: optim.Adam([nn.Parameter([1.0])], 0.1, 0.9), TypeError, "Adam: betas are two numbers, as (0.9, 0.999), not 0.9"),
    (lambda: optim.Adam([nn.Parameter([1.0])], betas=(0.9,)), TypeError, "Adam: betas are two numbers"),
    (lambda: optim.AdamW([nn.Parameter([1.0])], betas=(0.9, "a")), TypeError, "AdamW: a beta is a number"),
    (lambda: optim.AdamW([nn.Parameter([1.0])], betas=(0.9, 1.0)), ValueError, "AdamW: a beta lies in [0, 1), not at 1.0"),
    (lambda: optim.RMSprop([nn.Parameter([1.0])], alpha="a"), TypeError, "RMSprop: alpha is a number"),
    (lambda: optim.Muon([nn.Parameter([[1.0]])], lr="a"), TypeError, "Muon: lr is a number"),
    (lambda: optim.SGD(None), TypeError, "SGD: params are a list of tensors, as model.parameters(), or of groups, not None"),
    (lambda: optim.SGD(nn.Linear(1, 1).parameters), TypeError, "SGD: params are a list of tensors, as model.parameters()"),
    (lambda: optim.AdamW([{"lr": 0.1}]), TypeError, 'AdamW: a group is a dict with its tensors as "params", not {'),
    (lambda: sgd().add_param_group(3), TypeError, 'add_param_group: a group is a dict with its tensors as "params", not 3'),
    (lambda: sgd().step(3), TypeError, "step: closure is a function that computes the loss, not 3 (int)"),
    (lambda: sgd().load_state_dict(3), TypeError, 'load_state_dict: a state is a dict with "state" and "param_groups"'),
    (lambda: sgd().load_state_dict({}), TypeError, 'load_state_dict: a state is a dict with "state" and "param_groups"'),
    (lambda: randn(2, generator=3), TypeError, "randn: a generator is one that np.random.default_rng(seed) makes, not 3"),
    (lambda: F.dropout(tensor([1.0]), "a"), TypeError, "dropout: p is a number, not 'a' (str)"),
    (lambda: nn.utils.clip_grad_norm_(3, 1.0), TypeError, "clip_grad_norm_: parameters are a list of tensors"),
    (lambda: nn.utils.clip_grad_norm_([nn.Parameter([1.0])], "a"), TypeError, "clip_grad_norm_: max_norm is a number"),
])  # fmt: skip
def test_a_schedule_or_an_optimizer_that_cannot_be(call, kind, words):
    refused(call, kind, words)


def test_steps_that_are_no_whole_numbers_are_pytorchs_too():
    schedule = lr_phases.MultiStepLR(sgd(), [0.5 * 4, 3.0])
    rates = []
    for _ in range(4):
        schedule.step()
        rates += schedule.get_last_lr()
    np.testing.assert_allclose(rates, [0.1, 0.01, 0.001, 0.001])


def test_a_constant_rate_of_nothing_ends_at_the_starting_rate():
    schedule = lr_phases.ConstantLR(sgd(), factor=0.0, total_iters=2)
    rates = list(schedule.get_last_lr())
    for _ in range(3):
        schedule.step()
        rates += schedule.get_last_lr()
    assert rates == [0.0, 0.0, 0.1, 0.1]


# ------------------------------------------------------------------------------------------------ gradients that are set


@pytest.mark.parametrize("gradient", [np.ones(2, np.float32), 1.0, [1.0, 1.0], "a"], ids=["array", "number", "list", "word"])
def test_a_gradient_that_is_no_tensor_is_refused_at_once(gradient):
    p = nn.Parameter([1.0, 2.0])
    with pytest.raises(TypeError, match=r"^the gradient of a parameter is a tensor or None, not .*: Tensor\(\.\.\.\) makes"):
        p.grad = gradient
    assert p.grad is None


def test_a_gradient_of_another_shape_is_refused_at_once():
    p = nn.Parameter([1.0, 2.0])
    p.grad = ones(2)
    with pytest.raises(RuntimeError, match=r"^a gradient of shape \(3,\) for a parameter of shape \(2,\)$"):
        p.grad = ones(3)
    assert p.grad.tolist() == [1, 1]
    p.grad = None
    assert p.grad is None
