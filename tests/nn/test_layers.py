"""Each small layer against PyTorch's: values, input gradients and parameter gradients."""

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn


def compare(torch, against, module, torch_module, x, names=None):
    """Run both on x, send the same gradient back, compare everything."""
    names = {n: n for n, _ in torch_module.named_parameters()} if names is None else names
    module.to(x.dtype)
    torch_module.to(getattr(torch, str(x.dtype)))
    against.copy_weights(torch, module, torch_module, names)
    ours, theirs = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    y, expected = module(ours), torch_module(theirs)
    against.close(y, expected, "output")
    g = np.random.default_rng(9).standard_normal(y.shape).astype(x.dtype)
    y.backward(g)
    expected.backward(torch.from_numpy(g))
    against.close(ours.grad, theirs.grad, "input gradient")
    against.same_gradients(module, torch_module, names)


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 5), (2, 0, 5)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(oracle, against, randn, dtype, shape, bias):
    compare(oracle, against, nn.Linear(5, 7, bias), oracle.nn.Linear(5, 7, bias), randn(*shape, dtype))


def test_linear_starts_on_the_same_interval(oracle):
    oracle.manual_seed(0)
    for layer in (nn.Linear(100, 400, generator=np.random.default_rng(0)), oracle.nn.Linear(100, 400)):
        for p in (layer.weight, layer.bias):
            values = np.asarray(p.detach())
            assert 0.098 < values.max() <= 0.1
            assert -0.1 <= values.min() < -0.098
            np.testing.assert_allclose(values.std(), 0.2 / 12**0.5, rtol=0.08)


@pytest.mark.parametrize("rows", [6, 700])  # the two ways of adding up rows
def test_embedding(oracle, against, dtype, rows):
    layer, theirs = nn.Embedding(rows, 4).to(dtype), oracle.nn.Embedding(rows, 4, dtype=getattr(oracle, str(dtype)))
    against.copy_weights(oracle, layer, theirs, {"weight": "weight"})
    ids = np.random.default_rng(0).integers(0, rows, (3, 40))
    ids[0, :10] = rows - 1  # a row that is read often
    y, expected = layer(ids), theirs(oracle.from_numpy(ids))
    against.close(y, expected)
    g = np.random.default_rng(9).standard_normal(y.shape).astype(dtype)
    y.backward(g)
    expected.backward(oracle.from_numpy(g))
    against.same_gradients(layer, theirs, {"weight": "weight"})


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint16, np.int32, np.uint64, np.int64])
def test_embedding_takes_ids_of_every_integer_type(kind):
    for rows in (6, 700):
        layer = nn.Embedding(rows, 3)
        ids = np.array([[5, 0, 5]])
        layer(ids.astype(kind)).sum().backward()
        small = layer.weight.grad.array.copy()
        layer.zero_grad()
        layer(Tensor(ids)).sum().backward()
        np.testing.assert_array_equal(small, layer.weight.grad.array)
        assert small[5].tolist() == [2, 2, 2]


@pytest.mark.parametrize("shape, over", [((3, 5), 5), ((2, 3, 5), 5), ((2, 3, 5), (3, 5)), ((5,), (5,))])
@pytest.mark.parametrize("options", [{}, {"bias": False}, {"elementwise_affine": False}, {"eps": 0.1}])
def test_layer_norm(oracle, against, randn, dtype, shape, over, options):
    ours, theirs = nn.LayerNorm(over, **options), oracle.nn.LayerNorm(over, **options)
    for p in ours.parameters():
        nn.init.uniform_(p, -1, 1)
    compare(oracle, against, ours, theirs, 3 + randn(*shape, dtype))


@pytest.mark.parametrize("shape, over", [((3, 5), 5), ((2, 3, 5), 5), ((2, 3, 5), (3, 5))])
@pytest.mark.parametrize("options", [{"eps": 1e-6}, {"eps": None}, {"elementwise_affine": False, "eps": 0.1}])
def test_rms_norm(oracle, against, randn, dtype, shape, over, options):
    ours, theirs = nn.RMSNorm(over, **options), oracle.nn.RMSNorm(over, **options)
    for p in ours.parameters():
        nn.init.uniform_(p, -1, 1)
    compare(oracle, against, ours, theirs, 3 + randn(*shape, dtype))


def test_a_norm_names_the_shape_that_does_not_fit():
    for norm in (nn.LayerNorm(5), nn.RMSNorm(5)):
        with pytest.raises(ValueError, match=r"\(5,\).*\(2, 4\)"):
            norm(Tensor(np.ones((2, 4), np.float32)))


@pytest.mark.parametrize("name", ["ReLU", "GELU", "SiLU", "Tanh", "Sigmoid", "gelu_tanh", "Softmax"])
def test_activations(oracle, against, randn, dtype, name):
    options = {"approximate": "tanh"} if name == "gelu_tanh" else {"dim": -1} if name == "Softmax" else {}
    name = name if name != "gelu_tanh" else "GELU"
    x = 3 * randn(4, 6, dtype)
    x[0, :2] = 0, -0.0
    compare(oracle, against, getattr(nn, name)(**options), getattr(oracle.nn, name)(**options), x)


@pytest.mark.parametrize("kind", ["relu", "relu2", "gelu", "gelu_tanh", "silu", "swiglu", "geglu"])
@pytest.mark.parametrize("bias", [True, False])
def test_feed_forward(oracle, against, randn, dtype, kind, bias):
    functional = oracle.nn.functional

    class Theirs(oracle.nn.Module):
        def __init__(self):
            super().__init__()
            if kind in ("swiglu", "geglu"):
                self.gate = oracle.nn.Linear(6, 10, bias)
            self.up, self.down = oracle.nn.Linear(6, 10, bias), oracle.nn.Linear(10, 6, bias)

        def forward(self, x):
            up = self.up(x)
            hidden = {
                "relu": lambda: functional.relu(up),
                "relu2": lambda: functional.relu(up) ** 2,
                "gelu": lambda: functional.gelu(up),
                "gelu_tanh": lambda: functional.gelu(up, approximate="tanh"),
                "silu": lambda: functional.silu(up),
                "swiglu": lambda: functional.silu(self.gate(x)) * up,
                "geglu": lambda: functional.gelu(self.gate(x)) * up,
            }[kind]()
            return self.down(hidden)

    compare(oracle, against, nn.FeedForward(6, 10, kind, bias), Theirs(), randn(2, 3, 6, dtype))


def test_feed_forward_refuses_an_unknown_kind():
    with pytest.raises(ValueError, match=r"'swish'.*relu.*swiglu"):
        nn.FeedForward(4, 8, "swish")


def test_sequential(oracle, against, randn, dtype):
    ours = nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.GELU(), nn.Linear(4, 2))
    theirs = oracle.nn.Sequential(oracle.nn.Linear(5, 4), oracle.nn.LayerNorm(4), oracle.nn.GELU(), oracle.nn.Linear(4, 2))
    compare(oracle, against, ours, theirs, randn(3, 5, dtype))


@pytest.mark.parametrize("name, options", [
    ("xavier_uniform_", {}), ("xavier_normal_", {"gain": 2.0}), ("kaiming_uniform_", {}), ("kaiming_uniform_", {"a": 5**0.5}),
    ("kaiming_normal_", {"a": 0.2}), ("normal_", {"mean": 1.0, "std": 3.0}), ("uniform_", {"a": -1.0, "b": 3.0}),
    ("zeros_", {}), ("ones_", {}), ("constant_", {"val": 2.5}),
])  # fmt: skip
@pytest.mark.parametrize("shape", [(300, 200), (60, 50, 4)])
def test_starting_values_are_spread_as_pytorchs(oracle, name, options, shape):
    ours, theirs = Tensor(np.empty(shape, np.float32)), oracle.empty(shape)
    assert getattr(nn.init, name)(ours, **options) is ours
    oracle.manual_seed(0)
    getattr(oracle.nn.init, name)(theirs, **options)
    for measure in (np.mean, np.std):
        assert measure(ours.array) == pytest.approx(float(measure(theirs.numpy())), rel=0.03, abs=0.05 * theirs.std().item())
    if "normal" not in name:
        assert ours.array.max() == pytest.approx(theirs.max().item(), rel=0.01)


def test_fan_in_needs_two_axes():
    with pytest.raises(ValueError, match=r"\(5,\)"):
        nn.init.xavier_uniform_(Tensor(np.ones(5, np.float32)))
