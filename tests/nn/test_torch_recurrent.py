"""nn.RNN, nn.LSTM and nn.GRU against PyTorch's, from its state dicts: outputs, states and every gradient."""

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn

KINDS = ["RNN", "LSTM", "GRU"]
OPTIONS = [
    {}, {"bias": False}, {"num_layers": 2}, {"bidirectional": True}, {"batch_first": True},
    {"num_layers": 3, "bidirectional": True, "batch_first": True}, {"num_layers": 2, "bidirectional": True, "bias": False},
]  # fmt: skip
SHAPES = [(5, 3), (1, 3), (5, 1), (1, 1), (8, 2), (17, 2), (5, 0), (5,), (1,)]


def pair(torch, kind, size=(4, 6), **options):
    return getattr(nn, kind)(*size, **options), getattr(torch.nn, kind)(*size, **options)


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_recurrent(oracle, against, randn, dtype, kind, options, shape, given):
    ours, theirs = pair(oracle, kind, **options)
    x = randn(*(shape[::-1] if options.get("batch_first") else shape), 4, dtype)
    rows = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    states = [randn(rows, *shape[1:], 6, dtype) for _ in range(2 if kind == "LSTM" else 1)] if given else []

    def call(module, x, *states):
        return module(x, states if len(states) > 1 else states[0]) if states else module(x)

    against.same_layer(oracle, ours, theirs, x, *states, call=call, times=4)


@pytest.mark.parametrize("shape", SHAPES[:6])
def test_an_rnn_with_relu(oracle, against, randn, dtype, shape):
    against.same_layer(oracle, *pair(oracle, "RNN", nonlinearity="relu", num_layers=2), randn(*shape, 4, dtype), times=4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(1, 1), (3, 1), (1, 5)])
def test_narrow_ones(oracle, against, randn, dtype, kind, size):
    against.same_layer(oracle, *pair(oracle, kind, size), randn(4, 2, size[0], dtype), times=4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_state_goes_on_where_it_stopped(kind, randn):
    layer, x = getattr(nn, kind)(4, 6, num_layers=2).double(), randn(9, 2, 4, np.float64)
    whole, end = layer(Tensor(x))
    first, state = layer(Tensor(x[:5]))
    second, last = layer(Tensor(x[5:]), state)
    np.testing.assert_allclose(np.concatenate([first.array, second.array]), whole.array, rtol=1e-12)
    for a, b in zip(last, end):
        np.testing.assert_allclose(a.array, b.array, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_is_between_layers_and_in_training_alone(kind, randn):
    layer, x = getattr(nn, kind)(4, 6, num_layers=2, dropout=0.5), Tensor(randn(9, 2, 4, np.float32))
    below = getattr(nn, kind)(4, 6)
    below.load_state_dict({name: p for name, p in layer.state_dict().items() if "l0" in name})
    assert not np.allclose(layer(x)[0].array, layer(x)[0].array)
    for state, alone in zip(layer(x)[1], below(x)[1]):
        np.testing.assert_array_equal(state.array[0], alone.array[0])
    layer.eval()
    np.testing.assert_array_equal(layer(x)[0].array, layer(x)[0].array)
    with pytest.warns(UserWarning, match="only one"):
        getattr(nn, kind)(4, 6, dropout=0.5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_text(kind):
    """No recursion along the positions, and the gradient arrives at the first one."""
    layer = getattr(nn, kind)(1, 1)
    x = Tensor(np.ones((2000, 1, 1), np.float32), requires_grad=True)
    layer(x)[0].sum().backward()
    assert np.isfinite(x.grad.array).all()
    assert x.grad.array[0] != 0


@pytest.mark.parametrize("kind", KINDS)
def test_parameters_start_on_the_same_interval_and_start_anew(kind):
    layer = getattr(nn, kind)(30, 100)
    layer.flatten_parameters()
    for _ in range(2):
        for p in layer.parameters():
            assert 0.095 < np.abs(p.array).max() <= 0.1
        nn.init.zeros_(layer.weight_ih_l0)
        layer.reset_parameters()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_text_is_refused(kind):
    layer = getattr(nn, kind)(4, 6)
    for shape, words in [((4,), r"not \(4,\)"), ((5, 2, 3), r"\(T, B, 4\)"), ((0, 2, 4), "at least one position")]:
        with pytest.raises(ValueError, match=words):
            layer(Tensor(np.ones(shape, np.float32)))
    wrong = Tensor(np.ones((2, 2, 6), np.float32))
    with pytest.raises(ValueError, match=r"of shape \(1, 2, 6\)"):
        layer(Tensor(np.ones((5, 2, 4), np.float32)), (wrong, wrong) if kind == "LSTM" else wrong)
    with pytest.raises(TypeError, match="pad texts"):
        layer([Tensor(np.ones((5, 4), np.float32))])
    for options in ({"num_layers": 0}, {"dropout": 2.0}):
        with pytest.raises(ValueError, match="positive"):
            getattr(nn, kind)(4, 6, **options)


def test_an_unknown_nonlinearity_is_refused():
    with pytest.raises(ValueError, match="nonlinearity"):
        nn.RNN(4, 6, nonlinearity="gelu")


def test_a_projected_state_says_what_to_take_instead():
    with pytest.raises(NotImplementedError, match="smaller hidden_size"):
        nn.LSTM(4, 6, proj_size=2)
