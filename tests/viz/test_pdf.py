"""What an installed Graphviz is there for: PDF, and drawings by another version than the one that pip brings."""

import json
import shutil
import xml.etree.ElementTree as ET

import pytest

import viz
from tests.viz.models import decoder_loss
from viz import layout
from viz.stream import stream

pytestmark = [
    pytest.mark.graphviz,
    pytest.mark.skipif(shutil.which("dot") is None, reason="PDF not made (needs an installed Graphviz: no dot on the PATH)"),
]
OPTIONS = [
    {},
    {"view": "modules", "values": "stats"},
    {"view": "blocks", "direction": "right"},
    {"grads": "edges", "theme": "dark"},
]


@pytest.fixture
def drawing():
    return viz.draw(decoder_loss(2), title="♂ é 漢")


@pytest.fixture
def installed(monkeypatch):
    monkeypatch.setenv(layout.VARIABLE, "dot")


def test_a_pdf(drawing, tmp_path):
    path = drawing.save(tmp_path / "tmp dir.pdf")
    assert path.read_bytes().startswith(b"%PDF-")
    assert path.read_bytes().rstrip().endswith(b"%%EOF")


@pytest.mark.parametrize("options", OPTIONS)
def test_an_installed_graphviz_draws_every_node_and_edge(installed, options):
    drawing = viz.draw(decoder_loss(2), **options)
    groups = list(ET.fromstring(drawing.svg()).iter("{http://www.w3.org/2000/svg}g"))
    assert {g.get("data-id") for g in groups} - {None} == set(drawing.graph.by_id)
    edges = {(g.get("data-source"), g.get("data-target"), int(g.get("data-slot"))) for g in groups if g.get("data-slot")}
    assert edges == {edge.key for edge in drawing.graph.edges}


@pytest.mark.parametrize("view", ["ops", "modules", "blocks"])
def test_its_stream_is_straight(installed, view):
    drawing = viz.draw(decoder_loss(2), view=view)
    objects = json.loads(layout.run(drawing.dot, "json"))["objects"]
    across = {item["name"]: float(item["pos"].split(",")[0]) for item in objects if "pos" in item}
    line = [across[id_] for id_ in stream(drawing.graph).nodes if not drawing.graph[id_].rail]
    assert len(line) >= 6
    assert max(line) - min(line) <= 0.5
