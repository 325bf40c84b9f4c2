"""Small layers and starting values against PyTorch's, from its state dicts."""

import copy

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn, optim

# ------------------------------------------------------------------------------------------------ batch norm

SHAPES = [(4, 3), (2, 3), (5, 1), (4, 3, 6), (1, 3, 5), (2, 3, 1), (2, 1, 1), (3, 7), (3, 2, 2), (50, 3)]


@pytest.mark.parametrize("options", [
    {}, {"momentum": 0.5}, {"momentum": None}, {"affine": False}, {"track_running_stats": False}, {"eps": 0.1}, {"bias": False},
    {"affine": False, "track_running_stats": False},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("shape", SHAPES)
def test_batch_norm(oracle, against, randn, dtype, shape, options):
    """Three batches of training, then evaluation; buffers and gradients each time."""
    ours, theirs = nn.BatchNorm1d(shape[1], **options), oracle.nn.BatchNorm1d(shape[1], **options)
    for p in theirs.parameters():
        oracle.nn.init.uniform_(p, -1, 1)
    for training in (True, True, True, False):
        ours.train(training)
        theirs.train(training)
        against.same_layer(oracle, ours, theirs, 3 + 2 * randn(*shape, dtype), times=60 if shape[0] == 2 else 4)
    assert [name for name, _ in ours.named_buffers()] == [name for name, _ in theirs.named_buffers()]


def test_batch_norm_of_equal_numbers_is_the_shift():
    layer, x = nn.BatchNorm1d(2), Tensor(np.full((4, 2), 0.1, np.float32), requires_grad=True)
    nn.init.constant_(layer.bias, 3)
    assert (layer(x).array == 3).all()
    layer(x).sum().backward()
    assert not x.grad.array.any()


def test_functional_batch_norm(oracle, against, randn, dtype):
    mean, var = np.ones(3, dtype), np.full(3, 2, dtype)
    for module, make in ((nn.functional, Tensor), (oracle.nn.functional, oracle.from_numpy)):
        y = module.batch_norm(make(np.arange(12, dtype=dtype).reshape(4, 3)), make(mean), make(var))
        np.testing.assert_allclose(y.numpy()[0], (np.arange(3) - 1) / np.sqrt(2 + 1e-5), rtol=1e-6)
    with pytest.raises(ValueError, match="running mean"):
        nn.functional.batch_norm(Tensor(np.ones((4, 3))), None, None)


def test_batch_norm_refuses_what_it_cannot_norm():
    layer = nn.BatchNorm1d(3)
    refused = {(3,): r"\(3,\)", (2, 4): r"3 channels .*\(2, 4\)", (2, 3, 4, 5): "takes inputs", (1, 3): "alone"}
    for shape, words in refused.items():
        with pytest.raises(ValueError, match=words):
            layer(Tensor(np.ones(shape, np.float32)))
    assert layer.eval()(Tensor(np.ones((1, 3), np.float32))).shape == (1, 3)


def test_batch_norm_starts_anew():
    layer = nn.BatchNorm1d(2)
    before = {name: value.array.copy() for name, value in layer.state_dict().items()}
    layer(Tensor(np.arange(8, dtype=np.float32).reshape(4, 2)))
    layer.weight.detach().zero_()
    assert layer.num_batches_tracked.item() == 1
    layer.reset_parameters()
    for name, value in layer.state_dict().items():
        np.testing.assert_array_equal(value.array, before[name])


# ------------------------------------------------------------------------------------------------ lazy layers


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5), (0, 5), (2, 1)])
def test_lazy_linear(oracle, against, randn, dtype, shape, bias):
    x = randn(*shape, dtype)
    ours, theirs = nn.LazyLinear(4, bias), oracle.nn.LazyLinear(4, bias, dtype=getattr(oracle, str(dtype)))
    ours.to(dtype)(Tensor(x))
    theirs(oracle.from_numpy(x))
    assert type(ours) is nn.Linear
    assert (ours.in_features, ours.weight.shape, ours.weight.dtype) == (shape[-1], (4, shape[-1]), dtype)
    assert np.abs(ours.weight.array).max() > 0
    against.same_layer(oracle, ours, theirs, x)


@pytest.mark.parametrize("options", [{}, {"affine": False}, {"track_running_stats": False}, {"momentum": None}], ids=str)
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 5)])
def test_lazy_batch_norm(oracle, against, randn, dtype, shape, options):
    x = randn(*shape, dtype)
    ours, theirs = nn.LazyBatchNorm1d(**options), oracle.nn.LazyBatchNorm1d(**options, dtype=getattr(oracle, str(dtype)))
    ours.to(dtype)(Tensor(x))
    theirs(oracle.from_numpy(x))
    assert type(ours) is nn.BatchNorm1d
    for (name, b), (other, t) in zip(ours.state_dict().items(), theirs.state_dict().items()):
        assert name == other
        against.close(b, t, name, times=2)
    against.same_layer(oracle, ours, theirs, randn(*shape, dtype), times=4)


def test_lazy_layers_take_over_a_state_before_their_first_input(oracle, against, randn):
    ours = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d(), nn.ReLU())
    theirs = oracle.nn.Sequential(oracle.nn.Linear(3, 4), oracle.nn.BatchNorm1d(4), oracle.nn.ReLU())
    copied = copy.deepcopy(ours)
    against.same_layer(oracle, ours, theirs, randn(5, 3, np.dtype(np.float32)), times=40)
    assert [type(layer) for layer in ours] == [nn.Linear, nn.BatchNorm1d, nn.ReLU]
    assert copied[0].weight.__class__ is nn.LazyLinear(1).weight.__class__


def test_a_lazy_layer_says_that_it_has_no_shape_yet():
    model = nn.Sequential(nn.LazyLinear(4), nn.LazyBatchNorm1d())
    assert "weight (still to come)" in repr(model)
    with pytest.raises(ValueError, match="call the model once"):
        optim.SGD(model.parameters())
    with pytest.raises(RuntimeError, match="no shape yet"):
        sum(p.numel() for p in model.parameters())
    for start in (nn.init.zeros_, nn.init.normal_, nn.init.xavier_uniform_):
        with pytest.raises((RuntimeError, ValueError)):
            start(model[0].weight)
    optimizer = optim.SGD((model(Tensor(np.ones((2, 3), np.float32))), model.parameters())[1])
    assert sum(p.numel() for group in optimizer.param_groups for p in group["params"]) == 4 * 3 + 4 + 4 + 4


# ------------------------------------------------------------------------------------------------ convolution


@pytest.mark.parametrize("shape", [(2, 4, 9), (1, 4, 9), (4, 9), (0, 4, 9), (2, 4, 6)])
@pytest.mark.parametrize("options", [
    {}, {"bias": False}, {"stride": 2}, {"padding": 2}, {"dilation": 2}, {"groups": 2}, {"groups": 2, "dilation": 2},
    {"stride": 3, "padding": 1, "dilation": 2, "groups": 2},
], ids=str)  # fmt: skip
def test_conv1d(oracle, against, randn, dtype, shape, options):
    ours, theirs = (m.Conv1d(4, 6, 3, **options) for m in (nn, oracle.nn))
    against.same_layer(oracle, ours, theirs, randn(*shape, dtype), times=4)


def test_conv1d_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="3 groups"):
        nn.Conv1d(4, 6, 3, groups=3)
    with pytest.raises(ValueError, match="a kernel of 3 needs: 5"):
        nn.Conv1d(4, 6, 3, dilation=2)(Tensor(np.ones((1, 4, 4), np.float32)))


# ------------------------------------------------------------------------------------------------ without parameters


@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (2, 3, 4), (2, 0)])
@pytest.mark.parametrize("name, options", [
    ("LogSoftmax", {"dim": -1}), ("LogSoftmax", {"dim": 0}), ("Softplus", {}), ("Softplus", {"beta": 2.0}),
    ("Softplus", {"beta": 0.5, "threshold": 1.0}),
])  # fmt: skip
def test_without_parameters(oracle, against, randn, dtype, shape, name, options):
    x = np.asarray(8 * randn(*shape, dtype), dtype)
    against.same(oracle, getattr(nn, name)(**options), getattr(oracle.nn, name)(**options), x)


def test_softplus_far_from_zero_and_at_zero(oracle, against, dtype):
    x = np.array([-1e4, -90, -20, -1e-3, 0, 1e-3, 19.9, 20.1, 90, 1e4], dtype)
    against.same(oracle, nn.Softplus(), oracle.nn.Softplus(), x)


@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 3, 4), (2, 3, 4, 5), (0, 2, 3), (2, 0, 3)])
@pytest.mark.parametrize("options", [{}, {"start_dim": 0}, {"start_dim": -2}, {"start_dim": 0, "end_dim": 1}], ids=str)
def test_flatten(oracle, against, randn, dtype, shape, options):
    ours, theirs, x = nn.Flatten(**options), oracle.nn.Flatten(**options), randn(*shape, dtype)
    try:
        theirs(oracle.from_numpy(x))
    except (IndexError, RuntimeError):
        with pytest.raises((IndexError, ValueError)):
            ours(Tensor(x))
    else:
        against.same(oracle, ours, theirs, x)


# ------------------------------------------------------------------------------------------------ starting values


@pytest.mark.parametrize("shape", [(2, 3), (5, 1), (1, 1), (4, 3, 2), (2, 3, 4, 5), (0, 3), (3, 0)])
def test_fans(oracle, shape):
    fans = nn.init._calculate_fan_in_and_fan_out(Tensor(np.zeros(shape)))
    assert fans == oracle.nn.init._calculate_fan_in_and_fan_out(oracle.zeros(shape))


@pytest.mark.parametrize("name, param", [
    *[(name, None) for name in ("linear", "conv1d", "conv2d", "conv3d", "sigmoid", "tanh", "relu", "leaky_relu", "selu")],
    ("leaky_relu", 0), ("leaky_relu", 0.2), ("leaky_relu", 5**0.5),
])  # fmt: skip
def test_gain(oracle, name, param):
    assert nn.init.calculate_gain(name, param) == pytest.approx(oracle.nn.init.calculate_gain(name, param), rel=1e-15)


@pytest.mark.parametrize("name", ["kaiming_uniform_", "kaiming_normal_", "kaiming_uniform", "kaiming_normal"])
@pytest.mark.parametrize("options", [
    {}, {"a": 1.0}, {"mode": "fan_out"}, {"nonlinearity": "relu"}, {"nonlinearity": "tanh", "mode": "fan_out"},
    {"nonlinearity": "linear"},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("shape", [(60, 100), (100, 60), (20, 30, 10)])
@pytest.mark.filterwarnings("ignore:.*is now deprecated")
def test_kaiming(oracle, shape, options, name):
    ours, theirs = Tensor(np.empty(shape, np.float32)), oracle.empty(shape)
    getattr(nn.init, name)(ours, **options)
    getattr(oracle.nn.init, name)(theirs, **options)
    assert ours.array.std() == pytest.approx(theirs.std().item(), rel=0.05)
    if "uniform" in name:
        assert np.abs(ours.array).max() == pytest.approx(theirs.abs().max().item(), rel=0.01)


def test_kaiming_takes_its_numbers_from_the_generator_and_refuses_what_it_does_not_know():
    drawn = [nn.init.kaiming_uniform_(Tensor(np.empty((3, 4))), generator=np.random.default_rng(1)).tolist() for _ in range(2)]
    assert drawn[0] == drawn[1]
    with pytest.raises(ValueError, match="mode"):
        nn.init.kaiming_uniform_(Tensor(np.empty((3, 4))), mode="fan_avg")
    with pytest.raises(ValueError, match="no gain"):
        nn.init.kaiming_normal_(Tensor(np.empty((3, 4))), nonlinearity="swish")
    assert nn.init.kaiming_normal_(Tensor(np.empty((3, 0)))).shape == (3, 0)


# ------------------------------------------------------------------------------------------------ what every layer has

MADE = {
    "Linear": lambda m, **o: m.Linear(4, 3, **o), "Embedding": lambda m, **o: m.Embedding(5, 3, **o),
    "Embedding with padding": lambda m, **o: m.Embedding(5, 3, padding_idx=2, **o),
    "LayerNorm": lambda m, **o: m.LayerNorm(4, **o), "RMSNorm": lambda m, **o: m.RMSNorm(4, **o),
    "BatchNorm1d": lambda m, **o: m.BatchNorm1d(4, **o), "Conv1d": lambda m, **o: m.Conv1d(4, 3, 2, **o),
    "MultiheadAttention": lambda m, **o: m.MultiheadAttention(4, 2, kdim=3, add_bias_kv=True, **o),
    "RNN": lambda m, **o: m.RNN(4, 3, **o), "LSTM": lambda m, **o: m.LSTM(4, 3, 2, bidirectional=True, **o),
    "GRU": lambda m, **o: m.GRU(4, 3, **o),
    "TransformerEncoderLayer": lambda m, **o: m.TransformerEncoderLayer(4, 2, 5, **o),
    "TransformerDecoderLayer": lambda m, **o: m.TransformerDecoderLayer(4, 2, 5, **o),
    "Transformer": lambda m, **o: m.Transformer(4, 2, 1, 1, 5, **o),
}  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_names_shapes_and_dtypes_are_pytorchs(oracle, name):
    for options in ({}, {"dtype": "float64", "device": "cpu"}):
        converted = {**options, "dtype": oracle.float64} if options else {}
        ours, theirs = MADE[name](nn, **options), MADE[name](oracle.nn, **converted)
        for mine, torchs in ((ours.state_dict(), theirs.state_dict()),
                             (dict(ours.named_parameters()), dict(theirs.named_parameters()))):  # fmt: skip
            described = [(key, tuple(t.shape), str(t.dtype).removeprefix("torch.")) for key, t in torchs.items()]
            assert [(key, t.shape, str(t.dtype)) for key, t in mine.items()] == described
    with pytest.raises(RuntimeError, match="CUDA"):
        MADE[name](nn, device="cuda")


@pytest.mark.parametrize("name", [name for name in MADE if not name.startswith("Transformer")])
def test_parameters_start_anew(name):
    """reset_parameters writes every parameter, and the padding row of an embedding is zero again."""
    layer = MADE[name](nn)
    for p in layer.parameters(recurse=False):
        nn.init.constant_(p, 77)
    layer.reset_parameters()
    assert not any((p.array == 77).any() for p in layer.parameters(recurse=False))
    if "padding" in name:
        assert not layer.weight.array[2].any()
        assert layer.weight.array[1].any()


@pytest.mark.parametrize("padding", [0, 3, -1])
@pytest.mark.parametrize("shape", [(), (1,), (7,), (2, 9), (2, 0)])
def test_embedding_with_a_padding_row(oracle, against, dtype, shape, padding):
    ours, theirs = (m.Embedding(4, 3, padding_idx=padding) for m in (nn, oracle.nn))
    oracle.nn.init.normal_(theirs.weight)  # the row need not be zero
    ids = np.asarray(np.random.default_rng(0).integers(0, 4, shape))
    scale = np.asarray(np.random.default_rng(1).standard_normal((*shape, 1)), dtype)
    against.same_layer(oracle, ours, theirs, ids, scale, call=lambda module, ids, scale: module(ids) * scale)


def test_parameters_without_recursion_and_buffers_that_are_not_saved():
    class Both(nn.Module):
        def __init__(self):
            self.own, self.inner = nn.Parameter(np.ones(2)), nn.Linear(2, 2)
            self.register_buffer("saved", Tensor(np.ones(1)))
            self.register_buffer("left_out", Tensor(np.ones(1)), persistent=False)

    both = Both()
    assert [name for name, _ in both.named_parameters(recurse=False)] == ["own"]
    assert len(list(both.parameters(recurse=False))) == 1
    assert len(list(both.parameters())) == 3
    assert [name for name, _ in both.named_buffers()] == ["saved", "left_out"]
    assert list(both.state_dict()) == ["own", "saved", "inner.weight", "inner.bias"]
