"""GV: graphs as Graphviz draws them."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

import viz
from tinygrad_tf import Tensor, nn
from viz import layout

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["<lambda>", "<b>", "<> <>", "a>b"])
def test_GV_02_a_label_is_text_letter_by_letter(name):
    x = Tensor(2.0, requires_grad=True)
    drawing = viz.draw(x * 3, names={name: x}, legend=False)
    assert json.loads(layout.run(drawing.dot, "json"))["objects"]  # the DOT text parses
    texts = ["".join(t.itertext()) for t in ET.fromstring(drawing.svg()).iter("{http://www.w3.org/2000/svg}text")]
    assert name in [text.replace("\xa0", " ") for text in texts]


class Tied(nn.Module):
    def __init__(self):
        self.embedding = nn.Embedding(5, 4, generator=np.random.default_rng(0))
        self.head = nn.Linear(4, 5, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(self.embedding(ids))


def test_GV_04_a_node_is_a_tensor_and_not_its_name():
    one, two = nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)
    graph = viz.trace(two(one(Tensor(np.ones((1, 2), np.float32)))).sum())
    assert [node.name for node in graph.nodes if node.kind == "parameter"] == ["weight", "weight"]

    graph = viz.trace(Tied()(np.array([[1, 2]])).sum())
    (shared,) = [node for node in graph.nodes if node.kind == "parameter"]
    assert len(graph.outgoing[shared.id]) == 2

    x = Tensor(3.0, requires_grad=True)
    assert [(edge.source, edge.target, edge.slot) for edge in viz.trace(x * x).edges] == [
        ("input/x", "mul", 0), ("input/x", "mul", 1)]  # fmt: skip


def test_GV_04_the_same_model_gives_the_same_text():
    assert viz.draw(Tied()(np.array([[1, 2]])).sum()).dot == viz.draw(Tied()(np.array([[1, 2]])).sum()).dot


def test_GV_06_signs_in_labels_and_paths_survive_a_c_locale(tmp_path):
    folder = tmp_path / "tmp dir"
    folder.mkdir()
    code = (
        "import sys, viz; from pathlib import Path; from tinygrad_tf import Tensor; x = Tensor(2.0, requires_grad=True)\n"
        f"drawing = viz.draw(x * 3, names={{{'♂ é 漢'!a}: x}})\n"
        "for path in sys.argv[1:]: drawing.save(Path(path))"
    )
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG"))}
    env |= {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONPATH": str(ROOT)}
    paths = [folder / "å b.dot", folder / "å b.svg"]
    subprocess.run([sys.executable, "-c", code, *paths], env=env, check=True)
    dot, svg = (path.read_bytes() for path in paths)
    assert "♂ é 漢".encode() in dot
    assert b"charset" in dot
    assert "♂ é 漢" in svg.decode("utf-8").replace("\xa0", " ")
