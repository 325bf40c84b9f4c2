"""The line of the user's code, and the names of an op's inputs."""

import sys
from types import SimpleNamespace

import numpy as np

from tinygrad_tf import Tensor, composed, engine, fused, nn, ops, stack
from tinygrad_tf.lines import operand, operands, quoted, title, user_line
from tinygrad_tf.nonfinite import detect_anomaly


def here():
    return f"{__file__}:{sys._getframe(1).f_lineno}"


def inside_the_package():
    """A function that calls `user_line` as if the package had called it."""
    space = {"__name__": "tinygrad_tf.somewhere", "user_line": user_line}
    exec("def call(f, *args): return f(*args)\ndef line(): return user_line()", space)
    return space


def test_the_line_is_the_innermost_one_outside_the_package():
    space = inside_the_package()
    assert space["line"]() == here()

    def user():
        return space["line"](), here()

    assert len(set(space["call"](user))) == 1


def test_through_layers_numpy_and_composed_twins():
    x, layer = Tensor([1.0, 2.0], requires_grad=True), nn.Linear(2, 2)
    with detect_anomaly():
        one, where_one = layer(x), here()
        two, where_two = np.exp(x), here()
        with composed():
            three, where_three = stack([x, x]).softmax(-1), here()
    assert [one.node.line, two.node.line, three.node.line] == [where_one, where_two, where_three]


def test_the_text_of_a_line_follows_it():
    line = here()  # this text
    assert quoted(line) == f"{line}: line = here()  # this text"
    assert quoted("no such file.py:3") == "no such file.py:3"
    assert quoted("C:\\no such file.py:3") == "C:\\no such file.py:3"
    assert quoted(None) == "an unknown line"


def test_inputs_have_the_names_of_the_definition():
    assert [operand(ops.mul, i) for i in range(2)] == ["`a`", "`b`"]
    assert [operand(fused.linear, i) for i in range(3)] == ["`x`", "`w`", "`bias[0]`"]
    assert [operand(ops.cat, i) for i in range(2)] == ["`parts[0]`", "`parts[1]`"]


def test_inputs_of_every_kind_have_a_shape():
    x = Tensor(np.ones((2, 3)), requires_grad=True)
    assert operands((x.exp() * x).node) == "`a` (2, 3), `b` (2, 3)"
    assert operands((x * np.ones(3)).node) == "`a` (2, 3), `b` (3,)"
    assert operands((x * 2).node) == "`a` (2, 3), `b` ()"


def test_the_title_has_the_path_only_if_there_is_one():
    x = Tensor([1.0], requires_grad=True)
    assert title((x * 2).node) == "`mul`"
    with engine.scope("blocks", "X"), engine.scope("0", "Y"):
        assert title((x * 2).node) == "`mul` [blocks.0]"
    assert title(SimpleNamespace(op=SimpleNamespace(name="<lambda>"), scope=None)) == "`<lambda>`"
