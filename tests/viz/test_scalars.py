"""micrograd's picture: one box a value, one circle an op, every edge, and names letter by letter."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

import viz
from tinygrad_tf import Tensor, nn
from viz import layout
from viz.graph import Numbers
from viz.scalars import four, scalars_dot
from viz.style import Options

SVG = "{http://www.w3.org/2000/svg}"


def leaf(x):
    return Tensor(x, requires_grad=True)


def neuron():
    x1, x2, w1, w2, b = leaf(2.0), leaf(0.0), leaf(-3.0), leaf(1.0), leaf(6.8813735870195432)
    n = x1 * w1 + x2 * w2 + b
    o = n.tanh()
    names = {"x1": x1, "x2": x2, "w1": w1, "w2": w2, "b": b, "n": n, "o": o}
    return o, names


def fields(dot):
    """Id of a box -> what stands in it."""
    found = re.findall(r'^  "((?:[^"\\]|\\.)*)" \[id="n\d+".*?label="\{((?:[^"\\]|\\.)*)\}"', dot, re.M)
    return {id: [re.sub(r"\\(.)", r"\1", part) for part in re.split(r"(?<!\\)\|", text)] for id, text in found}


def texts(dot):
    """What the layout engine shows: id of a part -> its texts."""
    root = ET.fromstring(layout.run(dot, "svg"))
    shown = {}
    for g in root.iter(f"{SVG}g"):
        if g.attrib.get("class", "").startswith("node"):
            shown[g.attrib["id"]] = [t.text for t in g.iter(f"{SVG}text")]
    return shown


def test_the_neuron_of_micrograd():
    o, names = neuron()
    o.backward()
    boxes = fields(scalars_dot(viz.trace(o, names=names)))
    assert boxes == {
        "input/x1": ["x1", "data 2.0000", "grad −1.5000"], "input/w1": ["w1", "data −3.0000", "grad 1.0000"],
        "mul": ["data −6.0000", "grad 0.5000"], "input/x2": ["x2", "data 0.0000", "grad 0.5000"],
        "input/w2": ["w2", "data 1.0000", "grad 0.0000"], "mul#2": ["data 0.0000", "grad 0.5000"],
        "add": ["data −6.0000", "grad 0.5000"], "input/b": ["b", "data 6.8814", "grad 0.5000"],
        "add#2": ["n", "data 0.8814", "grad 0.5000"], "tanh": ["o", "data 0.7071", "grad 1.0000"],
    }  # fmt: skip


def test_it_goes_from_left_to_right_with_a_circle_for_each_op():
    o, names = neuron()
    dot = scalars_dot(viz.trace(o, names=names))
    assert 'rankdir="LR"' in dot
    assert re.findall(r'^  "([^"]*)/op" \[.*?label="([^"]*)"', dot, re.M) == [
        ("mul", "*"), ("mul#2", "*"), ("add", "+"), ("add#2", "+"), ("tanh", "tanh")
    ]  # fmt: skip
    assert '"input/x1" -> "mul/op"' in dot and '"mul/op" -> "mul"' in dot and '"mul" -> "add/op"' in dot
    assert 'rankdir="TB"' in scalars_dot(viz.trace(o), Options(direction="down"))


def test_an_unset_gradient_is_a_dash_and_backward_is_named():
    o, names = neuron()
    dot = scalars_dot(viz.trace(o, names=names))
    assert all(box[-1] == "grad –" for box in fields(dot).values())
    assert "no gradient yet; backward() computes them" in dot
    o.backward()
    after = scalars_dot(viz.trace(o, names=names))
    assert "–" not in after and "no gradient yet" not in after
    unused = leaf(1.0)
    both = viz.trace([o, unused * 2])
    assert fields(scalars_dot(both))["input/unused"][-1] == "grad –"


def test_gradients_asked_for_are_shown_before_backward():
    x = leaf(3.0)
    y = x * x
    boxes = fields(scalars_dot(viz.trace(y), Options(grads="labels", direction="right")))
    assert boxes["mul"] == ["y", "data 9.0000", "grad 1.0000"] and boxes["input/x"][-1] == "grad –"
    assert "grad" not in scalars_dot(viz.trace(y), Options(grads="none"))


def test_both_edges_of_a_square():
    x = leaf(3.0)
    y = x * x
    dot = scalars_dot(viz.trace(y))
    assert dot.count('"input/x" -> "mul/op"') == 2


def test_a_constant_is_a_box_without_name_and_gradient():
    x, t = leaf(3.0), Tensor(7.5)
    y = (x - t) ** 2
    boxes = fields(scalars_dot(viz.trace(y)))
    assert boxes["pow/b"] == ["2"]
    assert boxes["input/t"] == ["t", "data 7.5000"]  # takes no gradient either, and has a name


def test_a_skip_is_drawn_as_one():
    h, w = leaf(0.5), leaf(0.7)
    y = nn.residual(h, (h * w).tanh())
    dot = scalars_dot(viz.trace(y))
    assert re.search(r'"input/h" -> "residual/op" \[.*class="skip".*penwidth="4"', dot)
    assert 'class="skip"' not in scalars_dot(viz.trace(y), Options(skips=False))


@pytest.mark.parametrize("name", [
    "{a|b}", "<b>", "a\\b", 'say "x"', "two  blanks", "漢字 ♂", "&amp; &", "\\N", "\\l", "", " ", "| }", "<p0> x", "a\\",
    "$x_1$",
])  # fmt: skip
def test_names_are_shown_letter_by_letter(name):
    x = leaf(3.0)
    y = x * x
    dot = scalars_dot(viz.trace(y, names={name: x}))
    shown = texts(dot)["n0"]
    assert " ".join(shown).replace("\xa0", " ").split() == [*(name or "a").split(), "data", "3.0000", "grad", "–"]
    assert len(shown) == 3


def test_line_breaks_in_a_name_stay_in_the_box():
    x = leaf(3.0)
    assert texts(scalars_dot(viz.trace(x * x, names={"a\nb\x00": x})))
    assert "a↵b" in scalars_dot(viz.trace(x * x, names={"a\nb\x00": x}))


@pytest.mark.parametrize("x,shown", [
    (6.0, "6.0000"), (-3.0, "−3.0000"), (-0.0, "0.0000"), (0.0, "0.0000"), (99.99999, "100"), (123.456, "123.456"),
    (1234567.0, "1.23457e+06"), (0.001, "0.0010"), (0.00012345, "0.00012345"), (-9.5e-7, "−9.5e−07"), (float("nan"), "nan"),
    (float("inf"), "inf"), (float("-inf"), "−inf"),
])  # fmt: skip
def test_numbers_neither_vanish_nor_invent_digits(x, shown):
    assert four(Numbers.of(np.float64(x))) == shown


def test_what_is_no_number_is_refused_with_the_next_step():
    x = Tensor(np.ones((2, 3), np.float32), requires_grad=True)
    with pytest.raises(ValueError, match=r"'input/x' has shape \(2, 3\): draw it with view=\"ops\""):
        scalars_dot(viz.trace(x.sum()))
    one = Tensor([[2.0]], requires_grad=True)
    assert fields(scalars_dot(viz.trace(one * one)))["input/one"][1] == "data 2.0000"


def test_collapsed_modules_are_refused():
    from viz.collapse import view

    g = view(viz.trace(nn.Linear(1, 1), inputs=np.ones((1, 1), np.float32)), depth=0)
    with pytest.raises(ValueError, match="draws single ops"):
        scalars_dot(g)


def test_parts_have_the_ids_of_the_graph():
    o, names = neuron()
    g = viz.trace(o, names=names)
    dot = scalars_dot(g)
    assert re.findall(r'\[id="n(\d+)"', dot) == [str(i) for i in range(len(g.nodes))]
    assert re.findall(r'\[id="e(\d+)"', dot) == [str(i) for i in range(len(g.edges))]
    assert dot == scalars_dot(viz.trace(o, names=names)) and dot.endswith("}\n")


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_every_theme_is_laid_out(theme):
    o, names = neuron()
    shown = texts(scalars_dot(viz.trace(o, names=names), Options(theme=theme, direction="right")))
    assert len(shown) == 10 + 5


def test_a_chain_of_5_000_ops_needs_no_recursion():
    x = y = leaf(1.0)
    for _ in range(5000):
        y = y * 1.001
    assert scalars_dot(viz.trace(y)).count('class="maker"') == 5000
    assert x.grad is None
