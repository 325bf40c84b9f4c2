"""The words for each op: there for every op, their formulas true, their numbers the engine's."""

import ast
import importlib
import inspect
import math
import pkgutil
import re

import numpy as np
import pytest

import tinygrad_tf
import viz
from tinygrad_tf import Tensor, nn
from tinygrad_tf.engine import op, registry, unbroadcast
from tinygrad_tf.ops import residual
from viz import explain, rules
from viz.style import number

for found in pkgutil.walk_packages(tinygrad_tf.__path__, "tinygrad_tf."):
    if not found.name.endswith("__main__") and not found.name.startswith("tinygrad_tf.kernels."):  # no ops there, and numba
        importlib.import_module(found.name)
OPS = sorted(name for name, each in registry.items() if each.raw.__module__.startswith("tinygrad_tf."))


@pytest.mark.parametrize("name", OPS)
def test_every_op_has_words_for_its_value_and_for_each_input(name):
    words = rules.TABLE[name]
    assert words.forward and words.back
    assert explain.shape_line(name).count("->") == 1


def test_the_table_names_no_op_that_does_not_exist():
    assert set(rules.TABLE) == set(OPS)


# ------------------------------------------------------------------------------- the formulas, computed as they are written

RNG = np.random.default_rng(3)
X, W, G = (RNG.uniform(0.2, 1.8, shape) for shape in ((4, 5), (3, 5), (4, 5)))
Y = RNG.normal(size=(4, 5))
ROW, BIAS = RNG.normal(size=5), RNG.normal(size=3)
Q, K, V = (RNG.normal(size=(2, 2, n, 3)) for n in (4, 5, 5))
CASES = {  # op -> (inputs, settings)
    "add": ((X, Y), {}), "sub": ((X, Y), {}), "mul": ((X, Y), {}), "div": ((Y, X), {}), "neg": ((Y,), {}), "pow": ((X, Y), {}),
    "residual": ((X, Y), {}), "dropout": ((X,), {"keep": (Y > 0) * 2.0}), "exp": ((Y,), {}), "log": ((X,), {}),
    "log1p": ((X,), {}), "log2": ((X,), {}), "log10": ((X,), {}), "expm1": ((Y,), {}), "logsigmoid": ((Y,), {}),
    "remainder": ((Y, X), {}),
    "sqrt": ((X,), {}), "sin": ((Y,), {}), "cos": ((Y,), {}), "tanh": ((Y,), {}), "sigmoid": ((Y,), {}), "abs": ((Y,), {}),
    "relu": ((Y,), {}), "maximum": ((X, Y), {}), "minimum": ((X, Y), {}), "logsumexp": ((Y,), {"dim": -1, "keepdim": True}),
    "matmul": ((X, W.T), {}), "linear": ((X, W, BIAS), {}), "softmax": ((Y,), {"dim": -1}), "log_softmax": ((Y,), {"dim": -1}),
    "layer_norm": ((Y, ROW, ROW + 1), {"eps": 1e-5}), "rms_norm": ((Y, ROW), {"eps": 1e-6}), "gelu": ((Y,), {}),
    "normal_below": ((Y,), {}), "gelu_tanh": ((Y,), {}), "silu": ((Y,), {}), "swiglu": ((Y, X), {}),
    "attention": ((Q, K, V, RNG.normal(size=(4, 5))), {}),
}  # fmt: skip
ONLY_WORDS = {  # what no formula says: read, not computed
    "clamp", "cast", "where", "sum", "amax", "cumsum", "prod", "reshape", "permute", "expand", "getitem", "diagonal", "clone",
    "unindex", "put", "cat", "embedding", "cross_entropy", "rotary", "split_heads",
    "join_heads", "lstm", "replay", "erf",
}  # fmt: skip


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


FUNCTIONS = {
    "exp": np.exp, "ln": np.log, "sqrt": np.sqrt, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "sign": np.sign,
    "softmax": softmax, "floor": np.floor, "max": np.maximum, "min": np.minimum, "abs": np.abs,
    "T": lambda x: np.swapaxes(x, -1, -2),
    "total": lambda x: x.sum(-1, keepdims=True), "rows": lambda x: x.sum(0), "mean": lambda x: x.mean(-1, keepdims=True),
    "var": lambda x: x.var(-1, keepdims=True),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "P": np.vectorize(lambda x: math.erfc(-x / math.sqrt(2)) / 2),
    "p": lambda x: np.exp(-x * x / 2) / math.sqrt(2 * math.pi),
}  # fmt: skip
OPERATORS = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide, ast.Pow: np.power, ast.MatMult: np.matmul,
    ast.USub: np.negative, ast.Gt: np.greater, ast.Lt: np.less,
}  # fmt: skip


def as_python(formula: str) -> str:
    formula = re.sub(r"[{}]", "", formula).partition(", 0 where")[0]
    formula = re.sub(r"\|(\w+)\|", r"abs(\1)", re.sub(r"(\w+)ᵀ", r"T(\1)", formula))
    formula = re.sub(r"^Σ (.*)$", r"rows(\1)", formula)
    formula = re.sub(r"Σ (\w+(\([^()]*\))?)", r"total(\1)", formula).replace("Σ(", "total(")
    signs = {"−": "-", "·": "*", "²": "**2", "³": "**3", "^": "**", "[": "(", "]": ")", "π": repr(math.pi)}
    return "".join(signs.get(letter, letter) for letter in formula)


def compute(formula: str, values: dict, terms: dict):
    """The value of a formula of the table."""

    def walk(node):
        match node:
            case ast.Expression(body):
                return walk(body)
            case ast.Constant(value):
                return value
            case ast.Name(name):
                return values[name] if name in values else compute(terms[name][0], values, terms)
            case ast.BinOp(left, sign, right):
                return OPERATORS[type(sign)](walk(left), walk(right))
            case ast.UnaryOp(sign, operand):
                return OPERATORS[type(sign)](walk(operand))
            case ast.Compare(left, [sign], [right]):
                return OPERATORS[type(sign)](walk(left), walk(right))
            case ast.Call(ast.Name(name), arguments):
                return FUNCTIONS[name](*map(walk, arguments))
        raise AssertionError(f"{formula}: {ast.dump(node)}")

    return walk(ast.parse(as_python(formula), mode="eval"))


def test_each_op_is_either_computed_or_read():
    assert set(CASES) | ONLY_WORDS == set(OPS) and not set(CASES) & ONLY_WORDS


@pytest.mark.parametrize("name", CASES)
def test_the_formulas_give_what_the_op_gives(name):
    inputs, settings = CASES[name]
    words, (y, rule) = rules.TABLE[name], registry[name].raw(*inputs, **settings)
    g = np.random.default_rng(5).normal(size=y.shape)
    given = rule(g) if not isinstance(rule, tuple) else [each(g) for each in rule]
    own = [p.name for p in inspect.signature(registry[name].raw).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    names = words.names or own
    values = dict(zip(names, inputs, strict=True)) | settings | {"y": y, "g": g, "scale": 1 / math.sqrt(3)}
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(compute(words.forward, values, words.terms), y, rtol=1e-6, atol=1e-9)
        for formula, share, array in zip(words.back, given, inputs, strict=True):
            got = compute(formula, values, words.terms)
            np.testing.assert_allclose(unbroadcast(got, array.shape), unbroadcast(share, array.shape), rtol=1e-5, atol=1e-8)


# ------------------------------------------------------------------------------------------------ the numbers


def texts(graph, how):
    return {node.id: how(node, graph) for node in graph.nodes}


def test_single_numbers_are_written_out():
    a, b = Tensor(2.0, requires_grad=True), Tensor(-3.0, requires_grad=True)
    loss = a * b
    loss.backward(retain_graph=True)
    graph = viz.trace(loss)
    assert texts(graph, explain.forward)["mul"] == "mul: y = a · b = 2 · −3 = −6"
    assert texts(graph, explain.backward)["mul"] == "mul: g = 1 arrives; a gets g · b = 1 · −3 = −3; b gets g · a = 1 · 2 = 2"


def test_a_scalar_expression_tells_the_numbers_of_the_engine():
    a, b = Tensor(0.75, requires_grad=True), Tensor(-1.25, requires_grad=True)
    with viz.record():
        c = a * b
        d = (c - b).tanh()
        loss = d * d / a
    loss.backward()
    graph = viz.trace(loss)
    forward, backward = texts(graph, explain.forward), texts(graph, explain.backward)
    for id_, tensor in (("mul", c), ("tanh", d), ("div", loss)):
        assert forward[id_].endswith(f" = {number(tensor.item())}")
    assert f"together {number(a.grad.item())}" in backward["input/a"]
    assert f"together {number(b.grad.item())}" in backward["input/b"]
    assert f"its .grad holds {number(a.grad.item())}" in backward["input/a"]
    two = 2 * d.item() / a.item()
    assert backward["tanh"].splitlines()[0].endswith(f"together {number(two)}")  # d * d sends two shares
    assert f"g = {number(two)} arrives" in backward["tanh"]


def test_a_residual_block_tells_both_shares_and_their_sum():
    x = Tensor(np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32), requires_grad=True)
    w = nn.Linear(4, 4)
    with viz.record():
        y = residual(x, w(x).tanh())
        loss = (y * y).sum()
    loss.backward()
    graph = viz.trace(loss)
    g = 2 * y.detach().numpy()
    skip, branch, whole = (number(float(np.linalg.norm(v))) for v in (g, x.grad.numpy() - g, x.grad.numpy()))
    backward = texts(graph, explain.backward)
    told = backward["input/x"].splitlines()[0]
    shown = re.fullmatch(r"x: g \+ Jᵀg: (\S+) along the skip, (\S+) through the branch, together (\S+) \(norms\)", told)
    assert shown and (shown[1], shown[3]) == (skip, whole)
    assert float(shown[2]) == pytest.approx(float(branch), rel=1e-3)
    assert "y = x + branch: the gradient goes down both ways unchanged." in backward["residual"]
    assert f"x (3, 4) gets g: norm {skip}, " in backward["residual"]
    assert f"the branch (3, 4) gets g: norm {skip}, " in backward["residual"]


def test_an_unset_gradient_is_a_dash_and_minus_zero_is_zero():
    a = Tensor(-0.0, requires_grad=True)
    graph = viz.trace(a * 1.0)
    assert texts(graph, explain.forward)["mul"] == "mul: y = a · b = 0 · 1 = 0"
    assert texts(graph, explain.backward)["input/a"].endswith("its .grad is –: backward() has not filled it")
    bare = viz.trace(a * 1.0, numbers=False)
    assert texts(bare, explain.backward)["mul"].startswith("mul: g = –: no gradient has arrived")


def test_both_uses_of_one_value_are_told_apart():
    x = Tensor(3.0, requires_grad=True)
    told = texts(viz.trace(x * x), explain.backward)["input/x"]
    assert told.startswith("x: 2 shares meet: 3 through mul as a, 3 through mul as b, together 6")


def test_a_repeated_input_says_that_its_gradient_is_summed():
    x, b = Tensor(np.ones((2, 3), np.float32), requires_grad=True), Tensor(np.ones(3, np.float32), requires_grad=True)
    graph = viz.trace((x + b).sum())
    told = texts(graph, explain.backward)["add"]
    assert "b (3,) gets g, summed over the axes along which it was repeated: norm 3.464" in told


def test_an_op_of_the_readers_own_has_words_too():
    @op
    def cube_of_mine(x):
        return x**3, (lambda g: g * 3 * x * x,)

    try:
        graph = viz.trace(cube_of_mine(Tensor(2.0, requires_grad=True)))
        assert texts(graph, explain.forward)["cube_of_mine"].startswith("cube_of_mine: y = cube_of_mine(x)")
        assert texts(graph, explain.backward)["cube_of_mine"].endswith("x gets what its own rule gives = 12")
    finally:
        del registry["cube_of_mine"]


def test_inputs_that_are_not_there_are_not_named():
    x = Tensor(np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32), requires_grad=True)
    for bias, said in ((True, "linear: y = x @ wᵀ + bias\n"), (False, "linear: y = x @ wᵀ\n")):
        graph = viz.trace(nn.Linear(4, 3, bias=bias)(x).sum())
        (told,) = [explain.forward(node, graph) for node in graph.nodes if node.op == "linear"]
        assert told.startswith(said)


def test_an_op_that_failed_reads_as_failed():
    x, w = (Tensor(np.ones(shape, np.float32), requires_grad=True) for shape in ((2, 3), (4, 4)))
    with pytest.raises(ValueError, match="matmul"), viz.record() as tape:
        x @ w
    graph = viz.trace(tape)
    first, then, *values = explain.forward(graph["matmul"], graph).splitlines()
    assert first == "matmul failed: inner sizes 3 and 4 differ" and then == "it was to compute y = a @ b"
    assert [line.partition(":")[0] for line in values] == ["a (2, 3)", "b (4, 4)"]
