"""gradcheck passes what is right, and names what is wrong: op, module, input, element, both numbers, cause, line."""

import re

import numpy as np
import pytest

from tinygrad_tf import Tensor, activations, composed, engine, nn, no_grad
from tinygrad_tf.check import GradientError, gradcheck, gradgradcheck
from tinygrad_tf.engine import op
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.nn import functional as F


@pytest.fixture(autouse=True)
def registry():
    """The ops of these tests do not stay among the real ones."""
    before = dict(engine.registry)
    yield
    engine.registry.clear()
    engine.registry.update(before)


@pytest.fixture
def draw():
    random = np.random.default_rng(0)
    return lambda *shape: Tensor(random.standard_normal(shape), requires_grad=True)


def doubled(model):
    """The model in float64."""
    for p in model.parameters():
        p.array = p.array.astype(np.float64)
    return model


def failure(function, inputs, check=gradcheck):
    with pytest.raises(GradientError) as caught:
        check(function, inputs)
    return caught.value


def both_numbers(error):
    found = re.search(r"gives (\S+), finite differences give (\S+);", str(error))
    return float(found[1]), float(found[2])


# ------------------------------------------------------------------------------------------------ wrong ops


def sign(a, b):
    return a - b, (lambda g: g, lambda g: g)


def half(x):
    return x * x, (lambda g: g * x,)


def fifth(x):
    return x.mean(0), (lambda g: np.broadcast_to(g, x.shape),)


def mean_for_sum(x):
    return x.sum(1), (lambda g: np.broadcast_to(g[:, None] / x.shape[1], x.shape),)


def constant(x):
    return 3 * x, (lambda g: g,)


def transposed(a, b):
    return a @ b, (lambda g: g @ b.T, lambda g: (a.T @ g).T)


def column(x, c):
    return x + c[:, None], (lambda g: g, lambda g: g)


def tiled(x):
    return np.tile(x, 3), (lambda g: g,)


def too_short(x):
    return x * 2, (lambda g: (g * 2).sum(0),)


def zeros(a, b):
    return a * b, (lambda g: g * b, lambda g: g * 0)


def nothing(a, b):
    return a * b, lambda g: (g * b, None)


def swapped(a, b):
    return a * b, (lambda g: g * a, lambda g: g * b)


def reversed_(x):
    return x[::-1], (lambda g: g,)


def centred(x):
    return x - x.mean(-1, keepdims=True), (lambda g: g,)


def one_element(x):
    def rule(g):
        d = g * np.cos(x)
        d[2, 1] += 1
        return d

    return np.sin(x), (rule,)


def one_sign(x):
    def rule(g):
        d = g * np.cos(x)
        d[2, 1] *= -1
        return d

    return np.sin(x), (rule,)


def nonsense(x):
    return np.sin(x), (lambda g: g * np.exp(x),)


def not_a_number(x):
    return x * 2, (lambda g: g * 2 * np.where(x == x.max(), np.nan, 1),)


def raises(x):
    return x * 2, (lambda g: g.reshape(7, 7),)


def writes(x):
    def rule(g):
        g *= 2
        return g

    return x * 2, (rule,)


def one_rule_for_two(a, b):
    return a + b, (lambda g: g,)


WRONG = [
    (sign, [(4, 3), (3,)], "sign", 1, "sign is flipped"),
    (half, [(4, 3)], "factor", 0, "half of the gradient: a factor 2 is missing, or the input is used twice"),
    (fifth, [(5, 3)], "factor", 0, "5 times too large, and 5 is the size of axis 0"),
    (mean_for_sum, [(2, 7)], "factor", 0, "7 times too small, and 7 is the size of axis 1"),
    (constant, [(2, 5)], "factor", 0, "the right gradient is 3 times as large"),
    (transposed, [(3, 3), (3, 3)], "transposed", 1, "transposed"),
    (transposed, [(5, 3), (3, 4)], "transposed", 1, "transposed"),
    (column, [(4, 3), (4,)], "broadcast", 1, "(4, 3) is not summed over axis 1"),
    (column, [(3, 3), (3,)], "broadcast", 1, "(3, 3) is not summed over axis 1"),
    (too_short, [(4, 3)], "shape", 0, "does not bring the gradient back to the input's shape"),
    (zeros, [(4, 3), (4, 3)], "zero", 1, "nothing flows to this input"),
    (nothing, [(4, 3), (3,)], "zero", 1, "nothing flows to this input"),
    (swapped, [(4, 3), (4, 3)], "swapped", 0, "the gradient of `b`, and the other way round"),
    (reversed_, [(5,)], "order", 0, "the right numbers stand in the wrong places"),
    (centred, [(4, 3)], "missing", 0, "the same all along axis 1"),
    (one_element, [(4, 3)], "elements", 0, "what is special about these places"),
    (one_sign, [(4, 3)], "elements", 0, "There: the sign is flipped"),
    (nonsense, [(4, 3)], "unknown", 0, "derive the rule again"),
    (not_a_number, [(4, 3)], "nonfinite", 0, "inside the rule"),
    (raises, [(4, 3)], "raised", 0, "cannot reshape array of size 12"),
    (writes, [(4, 3)], "raised", 0, "it writes into the gradient that it is given"),
    (one_rule_for_two, [(3,), (3,)], "raised", 1, "1 rules for 2 inputs"),
]  # fmt: skip


@pytest.mark.parametrize("function, shapes, cause, place, words", WRONG, ids=[f"{w[0].__name__}-{w[2]}" for w in WRONG])
def test_a_wrong_rule_is_named_with_its_cause(function, shapes, cause, place, words, draw):
    error = failure(op(function), [draw(*shape) for shape in shapes])
    assert (error.op, error.cause, error.input) == (function.__name__, cause, place)
    name = list(function.__code__.co_varnames)[place]
    assert f"`{function.__name__}`" in str(error)
    assert f"input {place}, `{name}` {shapes[place]}" in str(error)
    assert words in str(error)
    assert 4 <= len(str(error).splitlines()) <= 5


def test_a_repeated_input_whose_gradient_is_not_added_up_does_not_fit(draw):
    error = failure(op(tiled), draw(2))
    assert error.cause == "shape"
    assert "gradient of shape (6,), the input has (2,)" in str(error)


def test_both_numbers_stand_in_the_message(draw):
    ours, right = both_numbers(failure(op(sign), (draw(4, 3), draw(3))))
    assert ours == -right != 0
    x = Tensor(3.0, dtype=np.float64, requires_grad=True)
    assert both_numbers(failure(op(half), x)) == pytest.approx((3, 6))  # one output: the gradient itself, not a projection


def test_the_wrong_element_is_named(draw):
    error = failure(op(one_element), draw(4, 3))
    assert error.element == (2, 1)
    assert "at element [2, 1]" in str(error)
    assert "wrong in 1 of 12 elements" in str(error)
    ours, right = both_numbers(error)
    assert ours == pytest.approx(right + 1, rel=1e-4)


class Middle(nn.Module):
    def __init__(self, wrong):
        self.wrong = wrong
        self.inner = nn.Linear(3, 3)

    def forward(self, x):
        return self.inner(self.wrong(x))  # the line to be named


class Model(nn.Module):
    """Right ops before and after a wrong one."""

    def __init__(self, wrong):
        self.blocks = nn.ModuleList([nn.Linear(3, 3), Middle(wrong), nn.Linear(3, 3)])
        self.norm = nn.LayerNorm(3)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.norm(x.tanh()).exp().sum()


# Those of one input that keep its shape and take any; `writes` does no harm where nobody else reads the gradient.
ONE_INPUT = [case for case in WRONG if case[0] in (half, constant, nonsense, not_a_number, raises, too_short)]


@pytest.mark.parametrize("function, shapes, cause, place, words", ONE_INPUT, ids=[w[0].__name__ for w in ONE_INPUT])
def test_it_is_found_inside_a_bigger_model(function, shapes, cause, place, words, draw):
    model = doubled(Model(op(function)))
    x = draw(5, 3)
    error = failure(model, (x, model))
    assert (error.op, error.cause, error.path) == (function.__name__, cause, "blocks.1")
    assert f"`{function.__name__}` [blocks.1]" in str(error)
    assert "return self.inner(self.wrong(x))  # the line to be named" in str(error)
    assert re.search(r"test_gradcheck\.py:\d+: return self", str(error))


def test_the_first_of_two_wrong_ops_is_named(draw):
    first, second = op(half), op(nonsense)
    assert failure(lambda x: second(first(x.tanh()) + x), draw(3)).op == "half"
    assert failure(lambda x: first(second(x.tanh()) + x), draw(3)).op == "nonsense"


def test_a_wrong_op_in_a_decoder(monkeypatch):
    def gelu(x):
        y, (rule,) = right.raw(x)
        return y, (lambda g: -rule(g),)

    right = activations.gelu
    monkeypatch.setattr(activations, "gelu", op(gelu))
    model = decoder()
    error = failure(lambda: model.loss(IDS, IDS), model)
    assert (error.op, error.cause) == ("gelu", "sign")
    assert error.path.startswith("blocks.0.ffn")


# ------------------------------------------------------------------------------------------------ right ops

IDS = np.array([[0, 3, 1], [4, 4, 2]])
CONFIGS = [
    {},
    {"bias": True, "norm_order": "both", "ffn": "geglu", "positions": "none"},
    {"norm": "rms", "ffn": "swiglu", "positions": "rotary", "qk_norm": True, "n_kv_head": 1, "tied": False, "layer_scale": 0.5},
]


def decoder(**settings):
    config = DecoderConfig(5, block_size=4, n_layer=1, n_head=2, n_embd=4, init_std=0.5, **settings)
    return doubled(Decoder(config, np.random.default_rng(0)))


@pytest.mark.parametrize("settings", CONFIGS)
def test_all_of_a_small_decoder_is_right(settings):
    model = decoder(**settings)
    assert gradcheck(lambda: model.loss(IDS, IDS), model)


def test_a_decoder_on_its_composed_twins_is_right():
    model = decoder(n_hidden=4)
    with composed():
        assert gradcheck(lambda: model.loss(IDS, IDS), model)


@pytest.mark.parametrize("settings", CONFIGS)
def test_no_right_op_of_a_decoder_is_blamed_when_the_tape_is_cut(settings):
    model = decoder(**settings)
    embed = model.token_embedding.forward
    model.token_embedding.forward = lambda ids: embed(ids) + embed(ids).detach()
    error = failure(lambda: model.loss(IDS, IDS), model)
    assert (error.cause, error.input) == ("cut", "token_embedding.weight")


def test_several_inputs_and_outputs(draw):
    def function(x, scale, w):
        assert scale == 2
        return x @ w * scale, (x * x).sum(), x.argmax()

    assert gradcheck(function, (draw(2, 3), 2, draw(3, 2)))
    wrong = op(half)
    assert failure(lambda x, y: (x * y, wrong(y)), (draw(3), draw(3))).op == "half"


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0), (1, 3)])
def test_small_and_empty_inputs(shape, draw):
    assert gradcheck(lambda x: x.exp() * x, draw(*shape))


def test_an_input_given_twice(draw):
    x = draw(3)
    assert gradcheck(lambda a, b: a * b, (x, x))


def test_minus_infinity_as_a_mask(draw):
    mask = np.triu(np.ones((3, 3), bool), 1)
    assert gradcheck(lambda x: x.masked_fill(mask, -np.inf).softmax(-1), draw(3, 3))
    assert gradcheck(lambda x: x.masked_fill(mask, -np.inf), draw(3, 3))


def test_nothing_is_left_behind(draw):
    x, calls = draw(3, 2), []
    before = x.array.copy()
    engine.state.observer = lambda node, value: calls.append(node.op.name)
    try:
        observer = engine.state.observer
        assert gradcheck(lambda x: x.sin(), x)
        failure(op(half), x)
        assert engine.state.observer is observer
        assert {"sin", "half"} <= set(calls)
    finally:
        engine.state.observer = None
    assert x.array.tobytes() == before.tobytes()
    assert x.grad is None


def test_inputs_come_back_after_an_exception(draw):
    x = draw(3)
    before, calls = x.array.copy(), []

    def function(x):
        calls.append(0)
        if len(calls) > 4:
            raise KeyError("stop")
        return x * 2

    with pytest.raises(KeyError):
        gradcheck(function, x)
    assert engine.state.observer is None
    assert (x.array == before).all()


# ------------------------------------------------------------------------------------------------ points without a slope


@pytest.mark.parametrize(
    "function, values, element",
    [
        (lambda x: x.relu(), [1.0, 0.0, -1.0], (1,)),
        (lambda x: x.abs(), [1.0, 2.0, 0.0], None),
        (lambda x: x.clamp(0.5, 1), [0.2, 1.0, 3.0], (1,)),
        (lambda x: x.amax(), [2.0, 2.0, 2.0], (0,)),
    ],
)
def test_a_kink_is_no_bug(function, values, element):
    x = Tensor(np.array(values), requires_grad=True)
    if element is None:  # the rule's 0 is the mean of the two slopes
        assert gradcheck(function, x)
        return
    error = failure(function, x)
    assert (error.cause, error.element) == ("kink", element)
    assert "is no bug, but it has a kink" in str(error)
    assert "on the left" in str(error)


def test_a_wrong_rule_is_named_before_a_kink():
    x, wrong = Tensor(np.array([1.0, 0.0, -1.0]), requires_grad=True), op(half)
    assert failure(lambda x: wrong(x.relu()), x).op == "half"
    assert failure(lambda x: wrong(x).relu(), x).op == "half"


def test_a_wrong_number_at_a_kink_is_a_bug():
    relu = op(lambda x: (np.maximum(x, 0), (lambda g: g * np.where(x == 0, 5, x > 0),)))
    error = failure(relu, Tensor(np.array([1.0, 0.0]), requires_grad=True))
    assert error.cause != "kink"
    assert error.element == (1,)


def test_no_slope_at_the_edge_of_the_domain():
    x = Tensor(np.array([1.0, 0.0]), requires_grad=True)
    error = failure(lambda x: x.sqrt(), x)
    assert (error.op, error.cause, error.element) == ("sqrt", "edge", (1,))
    error = failure(lambda x: x.where(x.array == 0, x.sqrt()), x)
    assert (error.op, error.cause) == ("sqrt", "edge")
    assert "a where() after it comes too late" in str(error)


def test_a_jump_that_no_op_has():
    error = failure(lambda x: x.where(x.array > 0.5, 0), Tensor(np.array([1.0, 0.5]), requires_grad=True))
    assert (error.cause, error.element) == ("kink", (1,))
    assert "a comparison or a mask made from the inputs" in str(error)


# ------------------------------------------------------------------------------------------------ right rules, cut tape


def test_a_detached_use_is_missing(draw):
    error = failure(lambda x: x * x.detach(), draw(3))
    assert (error.cause, error.input) == ("cut", "input 0")
    assert "used more than once, and a use is missing" in str(error)
    ours, right = both_numbers(error)
    assert ours == pytest.approx(right / 2, rel=1e-4)
    assert "takes a path off the tape" in str(failure(lambda x: x.sin() * Tensor(np.exp(x.array)), draw(3)))


def test_everything_detached_or_without_grad(draw):
    def unrecorded(x):
        with no_grad():
            return x * 2

    for function in (lambda x: x.detach() * 2, unrecorded):
        error = failure(function, draw(3))
        assert error.cause == "cut"
        assert "nothing flows back" in str(error)


def test_a_kink_elsewhere_does_not_excuse_a_cut(draw):
    zeros = Tensor(np.zeros(2), requires_grad=True)
    error = failure(lambda x, z: x * x.detach() + z.relu().sum() * 0, (draw(3), zeros))
    assert error.cause == "cut"


def test_a_part_computed_before_the_check(draw):
    x = draw(3)
    h = x.sin()
    error = failure(lambda x: h * x, x)
    assert "`sin` was called before the check" in str(error)


def test_a_hook_that_changes_the_gradient(draw):
    def function(x):
        y = x.sin()
        y.register_hook(lambda g: g * 3)
        return y

    assert "a hook on `sin` changes the gradient" in str(failure(function, draw(3)))


def test_a_parameter_is_named_by_its_path(draw):
    model = doubled(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)))
    x = Tensor(np.ones((2, 3)))

    def function():
        return model[1](model[0](x).detach())

    error = failure(function, model)
    assert error.input == "0.weight"


# ------------------------------------------------------------------------------------------------ what cannot be checked


@pytest.mark.parametrize(
    "function, inputs, words",
    [
        (lambda x: x, Tensor(np.ones(2, np.float32), requires_grad=True), "input 0 is float32"),
        (lambda x: x, Tensor(np.ones(2)), "no input requires a gradient"),
        (lambda x: x, Tensor(np.ones(2), requires_grad=True) * 2, "input 0 is the result of an op"),
        (lambda x: x, Tensor(np.broadcast_to(np.float64(1), 3), requires_grad=True), "input 0 is read-only"),
        (lambda x: x.argmax(), Tensor(np.ones(2), requires_grad=True), "must return tensors of a float dtype"),
        (lambda x: x.float(), Tensor(np.ones(2), requires_grad=True), "`cast` gives float32"),
        (lambda x: F.dropout(x), Tensor(np.ones(20), requires_grad=True), "switch dropout off with model.eval()"),
        (lambda: None, nn.Linear(2, 2), "weight is float32"),
    ],
)
def test_what_cannot_be_checked_gets_a_clear_line(function, inputs, words):
    with pytest.raises(ValueError, match="gradcheck: ") as caught:
        gradcheck(function, inputs)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_error_of_the_engine_that_is_no_rules_fault_passes_through(draw):
    def function(x):
        y = x * 2
        z = y.exp()
        z.array *= 2
        engine.mark_written(z.array)
        return z

    with pytest.raises(RuntimeError, match="changed in place"):
        gradcheck(function, draw(3))


# ------------------------------------------------------------------------------------------------ second derivatives


@pytest.mark.parametrize(
    "function, shapes",
    [
        (lambda x: x.sin() * x, [(3,)]),
        (lambda a, b: (a @ b).tanh(), [(2, 3), (3, 2)]),
        (lambda x, w: F.layer_norm((x @ w).exp(), 3, w[0]), [(2, 3), (3, 3)]),
        (lambda x: (x.softmax(-1) * x).sum(), [(2, 3)]),
        (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), [(1, 1, 2, 2)] * 3),
    ],
)
def test_right_second_derivatives(function, shapes, draw):
    assert gradgradcheck(function, [draw(*shape) for shape in shapes])


def test_a_rule_on_plain_arrays_is_named_by_the_second_check(draw):
    def cube(x):
        plain = np.asarray(x)
        return x * x * x, (lambda g: g * 3 * plain * plain,)

    wrong = op(cube)
    assert gradcheck(wrong, draw(3))
    error = failure(lambda x: wrong(x.sin()).sum(), draw(3), gradgradcheck)
    assert (error.op, error.cause) == ("cube", "second")
    assert "plain arrays" in str(error)
    assert "wrong(x.sin())" in str(error)


def test_a_rule_that_takes_no_tensor_is_named_by_the_second_check(draw):
    def twice(x):
        return x * 2, (lambda g: np.einsum("i->i", g) * 2,)

    error = failure(op(twice), draw(3), gradgradcheck)
    assert (error.op, error.cause) == ("twice", "second")
    assert "numpy.einsum does not take a Tensor" in str(error)


def test_the_second_check_begins_with_the_first(draw):
    assert failure(op(half), draw(3), gradgradcheck).cause == "factor"
