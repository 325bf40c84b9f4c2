"""detect_anomaly names the first op that makes NaN or inf, and stays silent about masks."""

import gc
import threading
import weakref

import numpy as np
import pytest

from tinygrad_tf import Tensor, cat, composed, engine, nn, no_grad
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nonfinite import NonFiniteError, detect_anomaly

INF, NAN = np.inf, np.nan


def leaf(*values):
    return Tensor(np.array(values, np.float32), requires_grad=True)


def failure(function):
    with np.errstate(all="ignore"), pytest.raises(NonFiniteError) as caught, detect_anomaly():
        function()
    return caught.value


# ------------------------------------------------------------------------------------------------ what is found


FORWARD = [
    (lambda: leaf(1, 0, 2).log(), "log", (1,), "log of 0 is -inf"),
    (lambda: leaf(1, 2, -3).log(), "log", (2,), "log of a negative number is NaN"),
    (lambda: leaf(1, -2).sqrt(), "sqrt", (1,), "square root of a negative number"),
    (lambda: leaf(1, 100).exp(), "exp", (1,), "exp of 100 overflows float32, which ends at exp of 88.72"),
    (lambda: leaf(1, 2) / leaf(1, 0), "div", (1,), "division by 0"),
    (lambda: leaf(0, 2) ** -1, "pow", (0,), "0 to a negative power is inf"),
    (lambda: leaf(1e30, 2) * 1e30, "mul", (0,), "overflow: the largest input is 1e+30, and float32 ends at 3.403e+38"),
    (lambda: leaf(1, 2) + np.array([-INF, 0]) - np.array([-INF, 0]), "sub", (0,), "`a`, `b` holds inf, and inf - inf"),
    (lambda: (leaf(1, 2) + np.array([-INF, 0])) * 0, "mul", (0,), "`a` holds inf, and inf - inf, 0 * inf"),
    (lambda: Tensor(0.0, requires_grad=True).log(), "log", (), "1 of 1 elements"),
]


@pytest.mark.parametrize("function, name, element, words", FORWARD, ids=[case[1] for case in FORWARD])
def test_the_op_that_makes_it_is_named(function, name, element, words):
    error = failure(function)
    assert (error.when, error.op, error.element) == ("forward", name, element)
    assert f"`{name}` made " in str(error)
    assert words in str(error)
    assert "Inputs: `" in str(error)


BACKWARD = [
    (lambda: leaf(1, 0).sqrt().sum(), "sqrt", (1,), "holds inf"),
    (lambda: (leaf(1, 0) ** 0.5).sum(), "pow", (1,), "the slope of x ** b at 0 is infinite"),
    (lambda: (leaf(1e-30, 1) ** -1).sum() * 1e-20, "pow", (0,), "holds -inf"),
    (lambda: leaf(1, 1e-39).log().sum(), "log", (1,), "or overflows on a gradient of 1"),
    (lambda: (leaf(0, 1e-30) * 1e20).sum() * 1e20, "mul", (0,), "or overflows on a gradient of 1e+20"),
]


@pytest.mark.parametrize("function, name, element, words", BACKWARD, ids=[case[1] for case in BACKWARD])
def test_the_op_whose_gradient_is_not_finite_is_named(function, name, element, words):
    error = failure(lambda: function().backward())
    assert (error.when, error.op, error.element) == ("backward", name, element)
    assert f"The gradient that `{name}` sends to input 0" in str(error)
    assert words in str(error)


def test_the_branch_that_was_not_chosen():
    x = leaf(16, 0)
    error = failure(lambda: (x / 2).where(x.array == 0, x.sqrt() + 1).sum().backward())
    assert (error.when, error.op, error.element) == ("backward", "sqrt", (1,))
    assert "x.where(x > 0, 1).sqrt()" in str(error)
    with detect_anomaly():  # the advice, taken
        (x / 2).where(x.array == 0, x.where(x > 0, 1).sqrt() + 1).sum().backward()
    assert x.grad.tolist() == [0.125, 0.5]


def test_an_op_with_one_rule_for_all_inputs():
    x, gain = leaf(1, 2), leaf(3e38, 3e38)
    error = failure(lambda: (F.layer_norm(x, 2, gain) * 1e-3).sum().backward(np.float32(1e38)))
    assert (error.when, error.op) == ("backward", "layer_norm")
    assert "sends to input 0, `x` (2,)" in str(error)


class Inner(nn.Module):
    def forward(self, x):
        return (x - x).log()  # here


class Root(nn.Module):
    def forward(self, x):
        return (x - x).sqrt()  # or here


class Outer(nn.Module):
    def __init__(self, last):
        self.blocks = nn.ModuleList([nn.Linear(3, 3), nn.Sequential(nn.Tanh(), last)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.sum()


def test_module_path_and_source_line():
    error = failure(lambda: Outer(Inner())(leaf(1, 2, 3)))
    assert (error.op, error.path) == ("log", "blocks.1.1")
    assert "`log` [blocks.1.1] made -inf: 3 of 3 elements, the first at [0]" in str(error)
    assert "return (x - x).log()  # here" in str(error)
    assert error.line == f"{__file__}:{Inner.forward.__code__.co_firstlineno + 1}"


def test_module_path_and_source_line_backward():
    error = failure(lambda: Outer(Root())(leaf(1, 2, 3)).backward())
    assert (error.when, error.op, error.path) == ("backward", "sqrt", "blocks.1.1")
    assert "return (x - x).sqrt()  # or here" in str(error)
    assert error.line == f"{__file__}:{Root.forward.__code__.co_firstlineno + 1}"


def test_inside_a_decoder():
    model = decoder()
    model.blocks[1].ffn.up.weight.array[:] = 3e38
    error = failure(lambda: model.loss(IDS, IDS))
    assert (error.when, error.op) == ("forward", "linear")
    assert error.path == "blocks.1.ffn.up"
    assert "model.loss(IDS, IDS)" in str(error)  # the line outside of the package


def test_backward_after_the_block():
    with detect_anomaly():
        y = leaf(1, 0).sqrt().sum()
    with np.errstate(all="ignore"), pytest.raises(NonFiniteError, match="`sqrt` sends to input 0"):
        y.backward()


def test_a_recorded_backward():
    x = leaf(4, 0)
    error = failure(lambda: x.sqrt().sum().backward(create_graph=True))
    assert (error.when, error.op) == ("forward", "div")


# ------------------------------------------------------------------------------------------------ what it was given


def test_a_constant_that_holds_nan():
    error = failure(lambda: leaf(1, 2, 3) * np.array([1, 1, NAN]))
    assert (error.when, error.op, error.element) == ("input", "mul", (2,))
    assert "was given NaN: 1 of 3 elements, the first at [2], in input 1, `b` (3,)" in str(error)
    assert "a constant: look at the data" in str(error)


@pytest.mark.parametrize("value, word", [(NAN, "NaN"), (INF, "inf"), (-INF, "-inf")])
def test_a_parameter_that_is_not_finite(value, word):
    layer = nn.Linear(2, 2)
    layer.weight.array[1, 0] = value
    error = failure(lambda: layer(Tensor([1.0, 1.0])))
    assert (error.when, error.op, error.element) == ("input", "linear", (1, 0))
    assert f"was given {word}: 1 of 4 elements" in str(error)
    assert "input 1, `w` (2, 2)" in str(error)


def test_a_gradient_passed_to_backward():
    error = failure(lambda: (leaf(1, 2) * 2).backward(np.array([1, NAN], np.float32)))
    assert (error.when, error.op, error.element) == ("backward", "mul", (1,))
    assert "The gradient that arrives at `mul` (2,) holds NaN" in str(error)


def test_finite_shares_whose_sum_overflows():
    def function():
        y = leaf(1e-30) * 1
        (cat([y, y, y]) * np.array([2e38, 2e38, 2e38])).sum().backward()

    error = failure(function)
    assert "overflowed in their sum" in str(error)


def test_what_was_computed_before_the_block():
    with np.errstate(all="ignore"):
        h = leaf(1, 0).log()
    error = failure(lambda: h * 2)
    assert "`a` was computed before detect_anomaly(): look there first" in str(error)


# ------------------------------------------------------------------------------------------------ masks


IDS = np.array([[0, 3, 1], [4, 4, 2]])
HIDDEN = np.array([[False, True, True], [False, False, True], [True, True, True]])  # the last row may look nowhere
X = np.random.default_rng(0).standard_normal((3, 3)).astype(np.float32)
MASKED = [
    lambda x: (x + np.where(HIDDEN, -INF, 0)).softmax(-1),
    lambda x: x.masked_fill(HIDDEN, -INF).softmax(-1),
    lambda x: x[:2].masked_fill(HIDDEN[:2], -INF).log_softmax(-1)[:, 0],
    lambda x: x.masked_fill(HIDDEN, -INF).exp(),
    lambda x: x.masked_fill(HIDDEN, -INF).max(dim=-1).values[:2],
    lambda x: x[:2].masked_fill(HIDDEN[:2], -INF).logsumexp(-1),
    lambda x: (-(x.masked_fill(HIDDEN, -INF))).masked_fill(HIDDEN, 0),
    lambda x: (x.masked_fill(HIDDEN, -INF).view(9).flip(0).reshape(3, 3).T * 0.5).softmax(0),
    lambda x: x.masked_fill(HIDDEN, -INF).sigmoid(),
    lambda x: x.clamp(-INF, INF),
    lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None], attn_mask=~HIDDEN),
    lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None], attn_mask=np.where(HIDDEN, -INF, 0)),
]


@pytest.mark.parametrize("twins", [False, True], ids=["fused", "composed"])
@pytest.mark.parametrize("function", MASKED)
def test_a_mask_is_no_anomaly(function, twins):
    x = Tensor(X, requires_grad=True)
    with detect_anomaly(), composed() if twins else np.errstate():
        function(x).sum().backward()
    assert np.isfinite(x.grad.array).all()


def decoder(**settings):
    return Decoder(DecoderConfig(5, block_size=4, n_layer=2, n_head=2, n_embd=8, **settings), np.random.default_rng(0))


@pytest.mark.parametrize("twins", [False, True], ids=["fused", "composed"])
@pytest.mark.parametrize("settings", [{}, {"norm": "rms", "ffn": "swiglu", "positions": "rotary", "qk_norm": True}])
def test_a_decoder_is_silent_and_its_gradients_are_the_same(settings, twins):
    plain, watched = decoder(**settings), decoder(**settings)
    with composed() if twins else np.errstate():
        plain.loss(IDS, IDS).backward()
        with detect_anomaly():
            watched.loss(IDS, IDS).backward()
    for a, b in zip(plain.parameters(), watched.parameters(), strict=True):
        assert a.grad.array.tobytes() == b.grad.array.tobytes()


def test_an_overflow_beside_a_mask_is_found():
    error = failure(lambda: (leaf(1, 100) + np.array([-INF, 0])).exp())
    assert (error.op, error.element) == ("exp", (1,))
    assert "`exp` made inf: 1 of 2" in str(error)


# ------------------------------------------------------------------------------------------------ on and off


def test_off_again_afterwards_and_after_an_exception():
    with detect_anomaly():
        assert engine.state.observer is not None
    assert engine.state.observer is None
    failure(lambda: leaf(0.0).log())
    assert engine.state.observer is None
    with np.errstate(all="ignore"):
        y = leaf(0.0).log()
    assert y.node.line is None
    assert y.item() == -INF


def test_nested_blocks_and_another_observer():
    seen = []
    engine.state.observer = lambda node, value: seen.append(node.op.name)
    try:
        with detect_anomaly():
            with detect_anomaly():
                leaf(1).exp()
            with np.errstate(all="ignore"), pytest.raises(NonFiniteError):
                leaf(0.0).log()
        leaf(1).sin()
    finally:
        engine.state.observer = None
    assert seen == ["exp", "sin"]


def test_only_in_this_thread():
    done = []

    def other():
        with np.errstate(all="ignore"):
            done.append(leaf(0.0).log().item())

    with detect_anomaly():
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert done == [-INF]


def test_as_a_decorator():
    @detect_anomaly()
    def step(x):
        return x.log()

    for _ in range(2):
        with np.errstate(all="ignore"), pytest.raises(NonFiniteError):
            step(leaf(0.0))
    assert engine.state.observer is None


def test_nothing_is_seen_without_a_tape():
    with detect_anomaly(), no_grad(), np.errstate(all="ignore"):
        assert leaf(0.0).log().item() == -INF


def test_memory_is_freed_without_the_collector_and_the_ledger_is_the_same():
    def kept(node):
        return sorted(array.nbytes for array in node.kept())

    x = Tensor(X, requires_grad=True)
    plain = [(x * 2).node, x.softmax(-1).node, F.layer_norm(x, 3).node, (x @ x).node]
    gc.disable()
    try:
        with detect_anomaly():
            y, z, n, m = x * 2, x.softmax(-1), F.layer_norm(x, 3), x @ x
            assert [kept(t.node) for t in (y, z, n, m)] == [kept(node) for node in plain]
            nodes = [weakref.ref(t.node) for t in (y, z, n, m)]
            del y, z, n, m
            assert [node() for node in nodes] == [None] * 4
    finally:
        gc.enable()
