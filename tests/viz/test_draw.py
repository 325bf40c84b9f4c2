"""draw(), its options, the formats, and the SVG that a page can hold."""

import xml.etree.ElementTree as ET

import numpy as np
import pytest

import viz
from tests.viz.models import decoder_loss, marked, run
from tinygrad_tf import Tensor, nn
from viz import layout
from viz.collapse import GraphTooLarge

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def loss():
    return decoder_loss(2)


def test_every_format_is_written(loss, tmp_path):
    drawing = viz.draw(loss, view="modules")
    starts = {".svg": b"<svg", ".html": b"<!doctype html", ".png": b"\x89PNG", ".dot": b"digraph", ".json": b"{"}
    for suffix, start in starts.items():
        path = drawing.save(tmp_path / f"picture{suffix}")
        assert path.read_bytes()[: len(start)].lower() == start.lower()
    assert viz.Graph.load(tmp_path / "picture.json") == drawing.graph


def test_names_of_files_may_hold_anything(loss, tmp_path):
    folder = tmp_path / "tmp dir"
    folder.mkdir()
    path = viz.draw(loss, view="blocks", title="♂ é 漢").save(folder / "å b.svg")
    assert "♂ é 漢" in path.read_text(encoding="utf-8")


def test_nothing_is_lost_if_the_picture_cannot_be_made(loss, tmp_path, monkeypatch):
    path = tmp_path / "picture.svg"
    path.write_text("mine")
    monkeypatch.setenv("TINYGRAD_TF_DOT", str(tmp_path / "nothing"))
    with pytest.raises(layout.EngineNotFound):
        viz.draw(loss).save(path)
    assert path.read_text() == "mine"


def test_without_an_engine_dot_and_json_are_written_and_a_notebook_gets_words(loss, tmp_path, monkeypatch):
    monkeypatch.setenv("TINYGRAD_TF_DOT", str(tmp_path / "nothing"))
    drawing = viz.draw(loss)
    drawing.save(tmp_path / "a.dot"), drawing.save(tmp_path / "a.json")
    assert drawing._repr_svg_() is None
    assert "unset TINYGRAD_TF_DOT" in repr(drawing)


@pytest.mark.parametrize("name", ["picture", "picture.gif", "picture.svg.txt"])
def test_another_ending_is_refused(loss, tmp_path, name):
    with pytest.raises(ValueError, match=r"\.svg \.html \.png \.pdf \.dot \.json"):
        viz.draw(loss).save(tmp_path / name)


def test_a_missing_folder_is_named(loss, tmp_path):
    with pytest.raises(ValueError, match="there is no folder"):
        viz.draw(loss).save(tmp_path / "no" / "picture.svg")


@pytest.mark.parametrize(
    "option", ["view", "values", "grads", "direction", "theme"]
)
def test_a_wrong_option_names_what_is_allowed(loss, option):
    with pytest.raises(ValueError, match=f"{option}='loud' is none of"):
        viz.draw(loss, **{option: "loud"})


def test_what_cannot_be_drawn_is_named():
    for what, words in ((3, "not int"), (nn.Linear(2, 2), "give inputs="), (Tensor([1.0]), "no graph behind")):
        with pytest.raises(TypeError, match=words):
            viz.draw(what)
    with pytest.raises(TypeError, match="inputs= goes with a module"):
        viz.draw(Tensor([1.0], requires_grad=True) * 2, inputs=1)


def test_too_large_a_graph_names_the_next_step():
    x = y = Tensor(1.0, requires_grad=True)
    for _ in range(2100):
        y = y + 1.0
    with pytest.raises(GraphTooLarge, match="max_nodes"):
        viz.draw(y)
    assert len(viz.draw(y, max_nodes=None).graph.nodes) == 4201
    assert x.grad is None


def test_a_chain_of_5_000_ops_is_written_without_recursion():
    y = Tensor(1.0, requires_grad=True)
    for _ in range(5_000):
        y = y.sin()
    assert viz.draw(y, max_nodes=None).dot.count("\n") > 10_000


def test_a_hundred_doublings():
    y = Tensor(1.0, requires_grad=True)
    for _ in range(100):
        y = y + y
    drawing = viz.draw(y)
    assert (drawing.graph.skip_count, len(drawing.graph.edges)) == (0, 200)


def test_a_fold_survives_json_and_is_drawn_again(tmp_path):
    drawing = viz.draw(decoder_loss(4), view="blocks")
    again = viz.draw(viz.Graph.from_json(drawing.json()))
    assert drawing.graph.skip_count == again.graph.skip_count == 8
    assert [node.kind for node in again.graph.nodes].count("fold") == 1


def test_drawing_changes_no_value_and_no_gradient():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    x = np.ones((2, 3), np.float32)
    before = [p.array.copy() for p in model.parameters()]
    viz.draw(model, inputs=x, values="full", grads="edges").dot  # noqa: B018
    assert all(p.grad is None for p in model.parameters())
    model(Tensor(x)).sum().backward()
    grads = [p.grad.array.copy() for p in model.parameters()]
    viz.draw(model, inputs=x, values="stats", fused=False).svg()
    assert all(np.array_equal(a, p.array) for a, p in zip(before, model.parameters(), strict=True))
    assert all(np.array_equal(g, p.grad.array) for g, p in zip(grads, model.parameters(), strict=True))


def test_opening_a_fused_op_gives_a_module_of_its_name():
    graph = viz.draw(run("pre_norm", marked), fused=False).graph
    assert {"rms_norm", "gelu", "linear"} & {module.kind for module in graph.modules}
    assert not any(node.op in ("linear", "rms_norm", "layer_norm") for node in graph.nodes)


# ---------------------------------------------------------------------------------------------------- SVG


def test_every_part_of_an_svg_says_what_it_stands_for(loss):
    drawing = viz.draw(loss)
    root = ET.fromstring(drawing.svg("fig1"))
    groups = list(root.iter(f"{SVG}g"))
    assert {g.get("data-id") for g in groups} - {None} == set(drawing.graph.by_id)
    edges = {(g.get("data-source"), g.get("data-target"), int(g.get("data-slot"))) for g in groups if g.get("data-slot")}
    assert edges == {edge.key for edge in drawing.graph.edges}
    inner = {module.id for module in drawing.graph.modules if module.parent}
    assert {g.get("data-module") for g in groups} - {None} == inner
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids)) and all(id_.startswith("fig1-") for id_ in ids)


def test_two_figures_share_no_id(loss):
    drawing = viz.draw(loss, view="blocks")
    first, second = ({e.get("id") for e in ET.fromstring(drawing.svg(prefix)).iter()} - {None} for prefix in ("a", "b"))
    assert not first & second


def test_an_svg_is_described_for_screen_readers(loss):
    root = ET.fromstring(viz.draw(loss, title="my model").svg())
    assert root.get("role") == "img" and root.get("aria-labelledby") == "g-title g-desc"
    assert root.find(f"{SVG}title").text == "my model"
    words = root.find(f"{SVG}desc").text
    assert words.startswith(f"{len(viz.trace(loss).nodes)} nodes, 4 skips. Skip from Decoder/add to blocks.0/residual.")
    assert ET.fromstring(viz.draw(loss, desc="in my words").svg()).find(f"{SVG}desc").text == "in my words"


def test_an_svg_fits_its_container(loss):
    root = ET.fromstring(viz.draw(loss).svg())
    assert "max-width: 100%" in root.get("style") and root.get("viewBox")


@pytest.mark.parametrize("theme", ["light", "dark", "print"])
def test_fonts_are_those_that_every_reader_has(loss, theme):
    families = {e.get("font-family") for e in ET.fromstring(viz.draw(loss, theme=theme).svg()).iter()} - {None}
    assert families <= {"Helvetica,sans-Serif", "Courier,monospace"}


def test_print_has_no_colour(loss):
    svg = ET.fromstring(viz.draw(loss, theme="print").svg())
    colours = {e.get(name) for e in svg.iter() for name in ("fill", "stroke")} - {None, "none", "transparent", "white", "black"}
    assert all(c[1:3] == c[3:5] == c[5:7] for c in colours)
