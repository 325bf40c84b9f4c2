"""nn.RNN, nn.LSTM and nn.GRU against PyTorch's, from its state dicts: outputs, states and every gradient.

nn.utils.rnn.pack_padded_sequence nn.utils.rnn.pad_packed_sequence nn.utils.rnn.pack_sequence nn.utils.rnn.unpack_sequence
"""

from functools import partial

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


LENGTHS = [[5, 3, 3, 1], [1], [4], [3, 3, 3], [1, 1], [7, 1], [2, 5, 1], [1, 4], [3, 1, 3, 2], [6, 5, 6, 1, 2, 3]]


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_packed_sequences(oracle, against, randn, dtype, kind, options, given):
    """torch.nn.utils.rnn: packed, through the layer, padded again; every text's state is that at its own end."""
    import tinygrad_tf.torch as door

    first = options.get("batch_first", False)

    def through(lengths, module, x, *states):
        torch = door if isinstance(x, Tensor) else oracle
        rnn, in_order = torch.nn.utils.rnn, lengths == sorted(lengths, reverse=True)
        packed = rnn.pack_padded_sequence(x, torch.tensor(lengths), batch_first=first, enforce_sorted=in_order)
        hx = () if not states else (states,) if len(states) > 1 else states
        out, last = module(packed, *hx)
        padded, counts = rnn.pad_packed_sequence(out, batch_first=first, padding_value=0.5, total_length=max(lengths) + 2)
        assert counts.tolist() == lengths
        assert out.batch_sizes.tolist() == packed.batch_sizes.tolist()
        return [packed.data * 1, out.data, padded, *(last if isinstance(last, tuple) else [last])]

    for lengths in LENGTHS:
        ours, theirs = pair(oracle, kind, **options)
        x = randn(*((len(lengths), max(lengths) + 1) if first else (max(lengths) + 1, len(lengths))), 4, dtype)
        rows = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
        states = [randn(rows, len(lengths), 6, dtype) for _ in range(2 if kind == "LSTM" else 1)] if given else []
        against.same_layer(oracle, ours, theirs, x, *states, call=partial(through, lengths), times=4)


@pytest.mark.parametrize("lengths", LENGTHS)
def test_sequences_are_packed_and_unpacked(oracle, lengths):
    import tinygrad_tf.torch as door

    answers = []
    for torch in (door, oracle):
        rnn = torch.nn.utils.rnn
        parts = [torch.arange(2 * n).reshape(n, 2) + 100 * i for i, n in enumerate(lengths)]
        packed = rnn.pack_sequence(parts, enforce_sorted=lengths == sorted(lengths, reverse=True))
        indices = [None if i is None else i.tolist() for i in packed[2:]]
        back = [x.tolist() for x in rnn.unpack_sequence(packed)]
        assert back == [x.tolist() for x in parts]
        answers.append([packed.data.tolist(), packed.batch_sizes.tolist(), indices, packed.to(torch.float64).data.tolist()])
    assert answers[0][:2] + answers[0][3:] == answers[1][:2] + answers[1][3:] or len(set(lengths)) < len(lengths)
    assert (answers[0][2][0] is None) == (answers[1][2][0] is None)


@pytest.mark.parametrize("lengths, words", [
    ([1, 2], "enforce_sorted=False"), ([2, 0], r"from 1 to T, not \[2, 0\]"), ([4, 1], r"from 1 to T, not \[4, 1\]"),
    ([2], "takes B lengths"),
])  # fmt: skip
def test_what_is_no_packed_sequence_is_refused(lengths, words):
    from tinygrad_tf.nn.packed import pack_padded_sequence, pad_packed_sequence

    with pytest.raises(RuntimeError, match=words):
        pack_padded_sequence(Tensor(np.ones((3, 2, 4))), lengths)
    packed = pack_padded_sequence(Tensor(np.ones((3, 2, 4))), [3, 1])
    with pytest.raises(ValueError, match="longest text"):
        pad_packed_sequence(packed, total_length=2)
    with pytest.raises(ValueError, match="5 numbers a position"):
        nn.GRU(5, 2)(packed)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(2,), (1,), (0,), (7,), ()], ids=str)
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("kind", ["RNNCell", "LSTMCell", "GRUCell"])
def test_cells(oracle, against, randn, dtype, kind, shape, given, bias):
    """nn.RNNCell, nn.LSTMCell, nn.GRUCell: three positions, each from the state that the one before it left."""
    for size in ((4, 6), (1, 1), (3, 2)):
        ours, theirs = pair(oracle, kind, size, bias=bias)
        states = [randn(*shape, size[1], dtype) for _ in range(2 if kind == "LSTMCell" else 1)] if given else []

        def call(module, x, *states):
            state = (states if kind == "LSTMCell" else states[0]) if states else None
            for _ in range(3):
                state = module(x, state)
            return state

        against.same_layer(oracle, ours, theirs, randn(*shape, size[0], dtype), *states, call=call, times=4)


def test_a_cell_with_relu_and_what_it_refuses(oracle, against, randn):
    against.same_layer(oracle, *pair(oracle, "RNNCell", nonlinearity="relu"), randn(3, 4, np.float64), times=4)
    with pytest.raises(ValueError, match=r"\(B, 4\)"):
        nn.GRUCell(4, 6)(Tensor(np.ones((2, 3))))
    with pytest.raises(ValueError, match=r"takes as its state h and c of shape \(2, 6\)"):
        nn.LSTMCell(4, 6)(Tensor(np.ones((2, 4))), (Tensor(np.ones((2, 5))),) * 2)
    with pytest.raises(ValueError, match="nonlinearity"):
        nn.RNNCell(4, 6, nonlinearity="gelu")


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
