"""DOT: that Graphviz reads back what is there, that no name breaks it, and that the stream comes out straight."""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import viz
from tests.viz.models import MODELS, decoder_loss, marked, plain, run
from tinygrad_tf import Tensor, nn
from tinygrad_tf.models import Decoder, DecoderConfig
from viz import layout
from viz.arrange import Arrangement
from viz.graph import Edge, Graph, Module, Node, Skip
from viz.quoting import quoted
from viz.stream import stream
from viz.style import Options

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"


def laid_out(drawing):
    return json.loads(layout.run(drawing.dot, "json"))


def places(drawing):
    """Node name -> (x, y) in points."""
    return {item["name"]: tuple(map(float, item["pos"].split(","))) for item in laid_out(drawing)["objects"] if "pos" in item}


def spread(drawing, line="stream"):
    """How far apart the nodes of a line stand, across the direction in which the graph runs."""
    axis = 0 if drawing.options.direction in ("down", "up") else 1
    at = places(drawing)
    on_it = [id_ for id_, name in stream(drawing.graph).group.items() if name == line and not drawing.graph[id_].rail]
    across = [at[id_][axis] for id_ in on_it]
    return max(across) - min(across)


DECODERS = {
    "pre": {},
    "twelve blocks": {"layers": 12},
    "post": {"norm_order": "post", "dropout": 0.1},
    "both sides": {"norm_order": "both", "tied": False},
    "llama": {"norm": "rms", "ffn": "swiglu", "positions": "rotary", "layers": 3},
    "scaled": {"layer_scale": 0.1, "positions": "none"},
}


@pytest.mark.parametrize("view", ["ops", "modules", "blocks"])
@pytest.mark.parametrize("name", DECODERS)
def test_the_stream_of_a_decoder_is_one_straight_line(name, view):
    settings = dict(DECODERS[name])
    drawing = viz.draw(decoder_loss(settings.pop("layers", 2), **settings), view=view)
    assert len(stream(drawing.graph).nodes) >= 6
    assert spread(drawing) <= 0.5


@pytest.mark.parametrize("direction", ["up", "right", "left"])
def test_it_is_straight_in_every_direction(direction):
    assert spread(viz.draw(decoder_loss(), direction=direction)) <= 0.5


OPTIONS = [{"values": "stats"}, {"grads": "edges"}, {"depth": 2}, {"collapse": ["blocks.*.attn"]}, {"params": False}]


@pytest.mark.parametrize("options", OPTIONS)
def test_it_is_straight_with_every_option(options):
    assert spread(viz.draw(decoder_loss(), **options)) <= 0.5


def test_both_streams_of_an_encoder_and_a_decoder_are_straight():
    drawing = viz.draw(run("encoder_decoder", marked))
    assert len(set(stream(drawing.graph).group.values())) >= 2
    assert [spread(drawing, line) <= 0.5 for line in set(stream(drawing.graph).group.values())] == [True] * 2


def test_the_sums_stay_in_line_when_the_fused_ops_are_opened():
    drawing = viz.draw(decoder_loss(2, norm="rms", dropout=0.1), fused=False)
    at, ends = places(drawing), [skip.target for skip in drawing.graph.skips] + [drawing.graph.skips[0].source]
    assert len(ends) == 5
    assert max(at[id_][0] for id_ in ends) - min(at[id_][0] for id_ in ends) <= 0.5


@pytest.mark.parametrize("plus", [plain, marked])
@pytest.mark.parametrize("name", MODELS)
def test_graphviz_reads_back_every_node_and_edge(name, plus):
    drawing = viz.draw(run(name, plus), legend=False)
    graph, out = drawing.graph, laid_out(drawing)
    names = {item["_gvid"]: item["name"] for item in out["objects"]}
    assert {item["name"] for item in out["objects"] if item.get("id", "").startswith("n")} == set(graph.by_id)
    found = {item["id"]: item for item in out.get("edges", ()) if "id" in item}
    assert sorted(found) == sorted(f"e{i}" for i in range(len(graph.edges)))
    for i, edge in enumerate(graph.edges):
        ends = [names[found[f"e{i}"][end]] for end in ("tail", "head")]
        if found[f"e{i}"].get("dir") == "back":
            ends.reverse()  # a leaf on the other side of its op
        assert ends[1] == edge.target
        around = {module.id for module in graph.modules_around(graph[edge.target].module)}
        assert ends[0] == edge.source or ends[0].split("/in")[0] in around


NASTY = ["<lambda>", "<b>", "<> <>", "a>b", 'say "hi"', "back\\slash", "\\N\\G", "{x|y}", "two\nlines", "漢字", "♂ é", "",
         "&lt;&amp;", "a:b:c", "]; x -> y [", "cluster_1", "%s", "node"]  # fmt: skip


def labels_of(nodes):
    """What an SVG of these labels says, in the order of the ids."""
    graph = Graph(tuple(Node(f"n{i}", "op", name) for i, name in enumerate(nodes)), ())
    svg = layout.run(viz.Drawing(graph, graph, "ops", Options(legend=False)).dot, "svg").decode()
    space = "{http://www.w3.org/2000/svg}"
    groups = {g.get("id"): g for g in ET.fromstring(svg).iter(f"{space}g")}
    return ["".join(t.text or "" for t in groups[f"n{i}"].iter(f"{space}text")) for i in range(len(nodes))]


def test_every_name_appears_letter_by_letter():
    shown = labels_of(NASTY)
    assert [text.replace("\xa0", " ") for text in shown] == [name.replace("\n", "↵") for name in NASTY]


VISIBLE = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=30)


@given(st.lists(VISIBLE, min_size=1, max_size=5))
def test_any_text_appears_letter_by_letter(names):
    assert labels_of(names) == names


@pytest.mark.parametrize("name", NASTY)
def test_ids_and_titles_may_hold_anything(name):
    a, b = Node(f"a/{name}", "input", name, name=name), Node(f"b/{name}", "op", name, op="add")
    graph = Graph((a, b), (Edge(a.id, b.id),), title=name)
    out = json.loads(layout.run(viz.Drawing(graph, graph, "ops", Options()).dot, "json"))
    assert {item["id"]: item["name"] for item in out["objects"] if item.get("id") in ("n0", "n1")} == {
        "n0": a.id.replace("\n", "↵").replace("\\", "\\\\"), "n1": b.id.replace("\n", "↵").replace("\\", "\\\\"),
    }  # fmt: skip


def test_no_text_becomes_a_link():
    x = Tensor([1.0], requires_grad=True)
    drawing = viz.draw((x * 2).exp().sum(), names={"http://example.org": x}, title="https://example.org")
    assert "URL" not in drawing.dot and "href" not in drawing.dot
    assert "<a " not in drawing.svg()


def test_one_statement_a_line():
    for line in viz.draw(decoder_loss()).dot.splitlines():
        assert line.count(" -> ") <= 1
        assert line.strip().endswith(("]", "{", "}", '"'))


def test_quoted():
    assert quoted('a"b\\c\nd') == '"a\\"b\\\\c↵d"'


def test_an_edge_twice_is_drawn_twice():
    x = Tensor(3.0, requires_grad=True)
    assert viz.draw(x * x, params=False).dot.count('"input/x" -> "mul"') == 2


def test_an_unset_gradient_is_a_dash_and_zero_has_no_sign():
    w = Tensor([[2.0]], requires_grad=True)
    loss = (w * 0.0).sum()
    before = viz.draw(loss, values="stats").dot
    assert "grad –" in before and "grad 0" not in before
    (loss * -1.0).backward()
    after = viz.draw(loss, values="stats").dot
    assert "grad 0" in after and "−0" not in after and "-0" not in after


def test_parameters_are_bold_once_they_have_a_gradient():
    loss = decoder_loss(1)
    assert 'penwidth="2.5"' not in viz.draw(loss, legend=False).dot
    loss.backward()
    drawing = viz.draw(loss, legend=False)
    assert drawing.dot.count('penwidth="2.5"') == sum(node.kind == "parameter" for node in drawing.graph.nodes)


def test_the_width_of_an_edge_tells_the_size_of_its_gradient():
    x = Tensor([1.0], requires_grad=True)
    a = x * 1.0
    loss = (a * 100.0 + a).sum()
    drawing = viz.draw(loss, grads="edges", legend=False)
    widths = {}
    for i, edge in enumerate(drawing.graph.edges):
        line = next(line for line in drawing.dot.splitlines() if f'id="e{i}"' in line)
        if "penwidth" in line:
            widths[edge.source, edge.target, edge.grad.norm] = float(line.split('penwidth="')[1].split('"')[0])
    by_norm = {norm: width for (_, _, norm), width in widths.items()}
    assert by_norm[101.0] == 4 and by_norm[100.0] == pytest.approx(4, abs=0.01)
    assert by_norm[1.0] == pytest.approx(4 - np.log10(101), abs=0.01)


def test_a_folded_run_has_a_rail_that_says_its_skips():
    model = Decoder(DecoderConfig(11, block_size=4, n_layer=12, n_head=2, n_embd=8))
    drawing = viz.draw(model, inputs=np.array([[1, 2, 3]]), view="blocks")
    rails = [line for line in drawing.dot.splitlines() if 'class="skip rail"' in line]
    assert len(rails) == 1 and "24 skips" in rails[0]
    assert "Block ×12 (blocks.0 … 11)" in drawing.dot


def test_the_legend_lists_what_occurs_and_nothing_else():
    x = Tensor([1.0], requires_grad=True)
    dot = viz.draw((x * x).sum()).dot
    assert '"legend/input"' in dot and '"legend/loss"' in dot
    assert '"legend/norm"' not in dot and '"legend/sum"' not in dot and '"legend/skip/from"' not in dot


def in_another_process(seed, code):
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=environment, cwd=ROOT)
    return done.stdout


CODE = """
import sys
import viz
from tests.viz.models import decoder_loss
from tinygrad_tf import manual_seed
manual_seed(0)
for options in ({}, {"view": "modules", "values": "stats"}, {"view": "blocks", "grads": "edges"}, {"fused": False}):
    drawing = viz.draw(decoder_loss(3), **options)
    sys.stdout.buffer.write((drawing.dot + drawing.json() + drawing.svg()).encode())
"""


def test_the_same_bytes_in_every_process():
    assert in_another_process(0, CODE) == in_another_process(7, CODE)


GOLDENS = {
    "pre_norm": {},
    "nested": {"values": "stats", "theme": "dark"},
    "tied_weights": {"view": "modules", "direction": "right"},
    "projection": {"grads": "edges", "theme": "print"},
}


@pytest.mark.parametrize("name", GOLDENS)
def test_golden(name, request):
    """`pytest --golden tests/viz/test_dot.py` writes them anew; look at the difference before you keep it."""
    drawing = viz.draw(run(name, marked), **GOLDENS[name])
    for suffix, text in (("dot", drawing.dot), ("json", drawing.json())):
        text = re.sub(r"-?\d[.\d]*e-1[3-9]", "0", text)  # what is zero but for rounding, which each machine does in its own way
        path = GOLDEN / f"{name}.{suffix}"
        if request.config.getoption("--golden"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        assert path.read_text(encoding="utf-8") == text


@st.composite
def graphs(draw):
    """Any graph that the data model allows: calls in calls, edges forward in time, sums with a skip, names of any text."""
    modules = [Module(f"m{i}", f"m{i}", draw(VISIBLE), draw(st.sampled_from(["", *(f"m{j}" for j in range(i))])), order=i)
               for i in range(draw(st.integers(0, 4)))]  # fmt: skip
    kind = st.sampled_from(["op", "op", "op", "input", "parameter", "constant", "module"])
    kinds = draw(st.lists(kind, min_size=2, max_size=9))
    inside = st.sampled_from(["", *(module.id for module in modules)])
    nodes = [Node(f"n{i}", kind, draw(VISIBLE), op="add" if kind == "op" else "", module=draw(inside), order=4 + i, badge=i % 3)
             for i, kind in enumerate(kinds)]  # fmt: skip
    edges, skips = [], []
    for i, node in enumerate(nodes):
        if node.kind in ("op", "module"):
            for slot in range(draw(st.integers(0, min(i, 3)))):
                edges.append(Edge(f"n{draw(st.integers(0, i - 1))}", node.id, slot, name="x"))
    for edge in draw(st.lists(st.sampled_from(edges), max_size=2, unique_by=lambda e: e.target)) if edges else ():
        skips.append(Skip(f"skip/{edge.target}", edge.source, edge.target))
        edges[edges.index(edge)] = replace(edge, skips=(f"skip/{edge.target}",))
    return Graph(tuple(nodes), tuple(edges), tuple(modules), tuple(skips), title=draw(VISIBLE))


@given(graphs(), st.sampled_from(["down", "right"]), st.sampled_from(["light", "dark", "print"]))
def test_any_graph_is_read_back_with_its_nodes_edges_and_words(graph, direction, theme):
    drawing = viz.Drawing(graph, graph, "ops", Options(direction=direction, theme=theme))
    out = laid_out(drawing)
    names = {item["_gvid"]: item["name"] for item in out["objects"]}
    ids = {item["id"]: item["name"] for item in out["objects"] if item.get("id", "")[:1] == "n"}
    assert ids == {f"n{i}": node.id for i, node in enumerate(graph.nodes)}
    found = {item["id"]: item for item in out.get("edges", ()) if "id" in item}
    assert len(found) == len(graph.edges)
    for i, edge in enumerate(graph.edges):
        ends = [names[found[f"e{i}"][end]] for end in ("tail", "head")]
        ends = ends[::-1] if found[f"e{i}"].get("dir") == "back" else ends
        assert ends[1] == edge.target
        doors = [door for (source, _), door in Arrangement(graph).doors.items() if source == edge.source]
        assert ends[0] in (edge.source, *doors)
    said = " ".join(ET.fromstring(drawing.svg()).itertext())
    sums = {skip.target for skip in graph.skips}
    for node in graph.nodes:
        assert node.label in said or node.id in sums


@given(st.integers(0, 2**32 - 1))
def test_drawing_changes_no_value_and_no_gradient(seed):
    generator = np.random.default_rng(seed)
    leaves = [Tensor(generator.normal(size=(2, 2)), requires_grad=True) for _ in range(3)]
    values = list(leaves)
    for _ in range(generator.integers(1, 12)):
        a, b = (values[generator.integers(len(values))] for _ in range(2))
        values.append([a + b, a * b, a.tanh(), a @ b, nn.residual(a, b)][generator.integers(5)])
    loss = values[-1].sum()
    loss.backward()
    before = [(t.array.copy(), None if t.grad is None else t.grad.array.copy()) for t in leaves], loss.item()
    for options in ({"values": "stats"}, {"grads": "edges"}, {"fused": False}):
        viz.draw(loss, **options).dot  # noqa: B018
    after = [(t.array, None if t.grad is None else t.grad.array) for t in leaves], loss.item()
    assert before[1] == after[1]
    for (value, g), (value_after, g_after) in zip(before[0], after[0], strict=True):
        assert np.array_equal(value, value_after)
        assert (g is None) == (g_after is None)
        assert g is None or np.array_equal(g, g_after)
