"""The data model: numbers, indices, and JSON that comes back as it was or is refused with a reason."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import viz
from tinygrad_tf import Tensor
from viz.graph import FORMAT, Edge, Graph, Module, Node, Numbers, Skip

AWKWARD = ['"', "\\", "\n", "\r\n", "\t", "\u2028", "漢字", "♂ é", "<b>", "{a|b}", "\\N", "", " ", "\x00", "𝄞", "# 2", "a/b"]


def small(name="x", **more):
    nodes = (
        Node("input/x", "input", name, name=name, shape=(2,), dtype="float32", value=Numbers.of([1.0, 2.0]), ops=0),
        Node("f/add", "op", "add", op="add", shape=(2,), module="f", order=1, settings={"dim": "1"}, line="a.py:3", kept=8),
    )
    edges = (Edge("input/x", "f/add", 0, "a", ("s",), Numbers.of([0.5])), Edge("input/x", "f/add", 1, "b"))
    return Graph(nodes, edges, (Module("f", "f", "F", parameters=3),), (Skip("s", "input/x", "f/add"),), **more)


# ------------------------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64, np.uint8, bool])
def test_numbers_are_those_of_the_array(dtype):
    a = (np.random.default_rng(0).standard_normal((5, 7)) * 3).astype(dtype)
    n = Numbers.of(a)
    b = a.astype(np.float64)
    want = np.linalg.norm(b), b.mean(), b.std(), b.min(), b.max()
    np.testing.assert_allclose((n.norm, n.mean, n.std, n.min, n.max), want, rtol=6e-6, atol=1e-12)
    np.testing.assert_allclose(n.first, b.ravel()[:6], rtol=6e-6)
    assert (n.size, n.nonfinite, n.item) == (35, 0, None)


def test_full_numbers_hold_every_element():
    assert len(Numbers.of(np.arange(50.0), full=True).first) == 50


@pytest.mark.parametrize("array", [[1e200, -1e200], [1.7e308, 1.7e308, 1.7e308], [3e38, 3e38], [1e-200, 1e-200], [5e-324]])
def test_no_sum_of_squares_overflows(array):
    n = Numbers.of(array)
    assert n.norm == pytest.approx(math.hypot(*array) if max(array) < 1e308 else n.norm, rel=1e-5)
    assert n.mean == pytest.approx(sum(x / len(array) for x in array), rel=1e-5, abs=1e-300)
    assert n.nonfinite == 0
    graph = Graph((Node("a", "op", "a", value=n),), ())
    assert Graph.from_json(graph.to_json()) == graph


def test_numbers_far_from_zero_have_a_spread():
    assert Numbers.of(1e8 + np.array([0.0, 1.0, 2.0])).std == pytest.approx(math.sqrt(2 / 3), rel=1e-5)
    assert Numbers.of(np.full(1000, 0.1, np.float32)).std == pytest.approx(0, abs=1e-8)


def test_what_is_not_finite_is_counted_and_left_out():
    n = Numbers.of([math.nan, math.inf, -math.inf, 3.0, 4.0])
    assert (n.nonfinite, n.norm, n.mean, n.min, n.max) == (3, 5.0, 3.5, 3.0, 4.0)
    assert math.isnan(n.first[0]) and n.first[1:3] == (math.inf, -math.inf)
    empty = Numbers.of(np.zeros((0, 3)))
    assert (empty.size, empty.norm, empty.first, empty.item) == (0, 0.0, (), None)
    assert Numbers.of([math.nan]).nonfinite == 1


def test_minus_zero_is_zero():
    n = Numbers.of(-0.0)
    assert all(math.copysign(1, x) == 1 for x in (n.item, n.mean, n.min, n.max, n.norm))


# ------------------------------------------------------------------------------------------------ indices


def test_indices():
    g = small()
    assert g["f/add"].op == "add"
    assert [e.slot for e in g.incoming["f/add"]] == [0, 1]
    assert g.outgoing["f/add"] == [] and len(g.outgoing["input/x"]) == 2
    assert [m.id for m in g.modules_around("f")] == ["f"] and list(g.modules_around("")) == []
    with pytest.raises(KeyError):
        g["nothing"]


def test_a_changed_copy_has_indices_of_its_own():
    g = small()
    assert len(g.by_id) == 2
    fewer = g.replace(nodes=g.nodes[:1], edges=(), skips=())
    assert list(fewer.by_id) == ["input/x"] and list(fewer.incoming) == ["input/x"] and len(g.by_id) == 2


def test_a_badge_counts_as_its_skips():
    g = small()
    assert g.skip_count == 1
    hidden = g.replace(skips=(), nodes=(g.nodes[0], replace(g.nodes[1], kind="module", badge=2)))
    assert hidden.skip_count == 2
    assert "2 skips" in repr(hidden)


# ------------------------------------------------------------------------------------------------ JSON


@pytest.mark.parametrize("text", AWKWARD)
def test_awkward_text_comes_back(text):
    g = small(name=text, title=text, notes=(text, text))
    assert Graph.from_json(g.to_json()) == g
    assert Graph.from_json(g.to_json().replace("\n", "\r\n")) == g


@given(st.text(), st.lists(st.floats(width=32), max_size=8), st.integers(0, 10**12))
def test_any_text_and_any_numbers_come_back(text, numbers, kept):
    if any("\ud800" <= c <= "\udfff" for c in text):
        return
    g = small(name=text, title=text)
    node = replace(g.nodes[1], value=Numbers.of(np.array(numbers, np.float32), full=True), kept=kept, settings={text: text})
    g = g.replace(nodes=(g.nodes[0], node))
    back = Graph.from_json(g.to_json())
    assert repr(back.nodes) == repr(g.nodes)  # repr: a NaN is not equal to itself
    assert back.to_json() == g.to_json()


def test_json_is_strict_and_one_item_a_line():
    g = small()
    node = replace(g.nodes[1], value=Numbers.of([math.nan, math.inf, -math.inf, -0.0]))
    text = g.replace(nodes=(g.nodes[0], node)).to_json()
    first = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))["nodes"][1]["value"]["first"]
    assert first == ["nan", "inf", "-inf", 0.0]
    assert len(text.splitlines()) == 4 + sum(map(len, (g.nodes, g.edges, g.modules, g.skips))) + 2 * 4 + 1
    assert text.endswith("}\n")


def test_an_empty_graph_comes_back():
    assert Graph.from_json(Graph((), ()).to_json()) == Graph((), ())


def test_load_reads_utf_8(tmp_path):
    path = tmp_path / "a b é.json"
    g = small(name="漢")
    path.write_text(g.to_json(), encoding="utf-8")
    assert Graph.load(path) == g == Graph.load(str(path))


def damage(change):
    data = json.loads(small().to_json())
    return json.dumps(change(data) or data)


DAMAGED = {
    "no JSON": ("{", "not JSON"),
    "empty": ("", "not JSON"),
    "a list": ("[]", FORMAT),
    "another file": ('{"format": "netron", "version": 1}', FORMAT),
    "a number": ("3", FORMAT),
    "a newer version": (damage(lambda d: d.update(version=2)), "version 2"),
    "no version": (damage(lambda d: d.pop("version") and None), "version None"),
    "no nodes": (damage(lambda d: d.pop("nodes") and None), "nodes"),
    "nodes is a word": (damage(lambda d: d.update(nodes="abc")), "damaged"),
    "nodes is null": (damage(lambda d: d.update(nodes=None)), "damaged"),
    "a node is a number": (damage(lambda d: d["nodes"].append(3)), "damaged"),
    "a node without id": (damage(lambda d: d["nodes"][0].pop("id") and None), "id"),
    "an unknown field": (damage(lambda d: d["nodes"][0].update(colour="red")), "colour"),
    "an id twice": (damage(lambda d: d["nodes"].append(d["nodes"][0])), "twice"),
    "an edge to nowhere": (damage(lambda d: d["edges"][0].update(target="gone")), "'gone'"),
    "an edge from nowhere": (damage(lambda d: d["edges"][0].update(source="gone")), "'gone'"),
    "a skip to nowhere": (damage(lambda d: d["skips"][0].update(target="gone")), "'gone'"),
    "a module that is not there": (damage(lambda d: d["nodes"][1].update(module="gone")), "'gone'"),
    "a parent that is not there": (damage(lambda d: d["modules"][0].update(parent="gone")), "'gone'"),
    "a module inside itself": (damage(lambda d: d["modules"][0].update(parent="f")), "inside itself"),
    "numbers that are none": (damage(lambda d: d["nodes"][0]["value"].update(first=["x"])), "damaged"),
    "numbers without a norm": (damage(lambda d: d["nodes"][0]["value"].pop("norm") and None), "norm"),
    "a value that is a word": (damage(lambda d: d["nodes"][0].update(value="big")), "damaged"),
    "an id that is a list": (damage(lambda d: d["nodes"][0].update(id=["a"])), "damaged"),
    "a title that is none": (damage(lambda d: d.pop("title") and None), "title"),
    "a label that is a number": (damage(lambda d: d["nodes"][0].update(label=3)), "damaged"),
    "an order that is a word": (damage(lambda d: d["nodes"][0].update(order="first")), "damaged"),
    "a shape with words": (damage(lambda d: d["nodes"][0].update(shape=["a"])), "damaged"),
    "a norm that is a word": (damage(lambda d: d["nodes"][0]["value"].update(norm="big")), "damaged"),
    "settings that are a list": (damage(lambda d: d["nodes"][1].update(settings=[1])), "damaged"),
    "a title that is a number": (damage(lambda d: d.update(title=3)), "damaged"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_json_is_refused_with_a_reason(name):
    text, reason = DAMAGED[name]
    with pytest.raises(ValueError, match=re.escape(reason)) as caught:
        Graph.from_json(text)
    assert str(caught.value).startswith(("this is no graph", "this graph"))


def test_modules_in_a_circle_are_refused():
    def circle(d):
        d["modules"][0]["parent"] = "g"
        d["modules"].append({"id": "g", "path": "g", "kind": "G", "parent": "f"})

    with pytest.raises(ValueError, match="inside itself"):
        Graph.from_json(damage(circle))


def test_deep_nesting_is_checked_without_recursion_and_quickly():
    modules = tuple(Module(f"m{i}", f"m{i}", "M", f"m{i - 1}" if i else "") for i in range(3000))
    g = Graph((Node("a", "op", "a", module="m2999"),), (), modules)
    assert Graph.from_json(g.to_json()) == g


def test_a_graph_is_saved_and_loaded(tmp_path):
    graph = viz.trace(Tensor(2.0, requires_grad=True) * 3.0)
    graph.save(tmp_path / "graph 漢.json")
    assert Graph.load(tmp_path / "graph 漢.json") == graph


def test_means_of_float16_are_told():
    assert Numbers.of(np.eye(1, 300, dtype=np.float16)).mean == pytest.approx(1 / 300, rel=1e-3)


@pytest.mark.parametrize("what", ["nodes", "skips"])
def test_a_kind_that_is_none_is_damage(what):
    x = Tensor(np.ones(3), requires_grad=True)
    data = json.loads(viz.trace(x + (x * 2).tanh()).to_json())
    if what == "skips" and not data["skips"]:
        node = data["nodes"][0]["id"]
        data["skips"] = [{"id": "s", "source": node, "target": data["nodes"][-1]["id"], "kind": "?"}]
    data[what][0]["kind"] = "curious"
    with pytest.raises(ValueError, match="this graph is damaged"):
        Graph.from_json(json.dumps(data))
