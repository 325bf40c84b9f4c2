"""The page as text: whole in itself, safe with any name, the same in every process; the steps it holds."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import viz
from tinygrad_tf import Tensor, nn
from tinygrad_tf.models.decoder import Decoder, DecoderConfig
from tinygrad_tf.ops import residual
from viz import explain, html
from viz.collapse import view
from viz.graph import Graph, Node

SVG = '<?xml version="1.0"?>\n<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 10 10"><g></g></svg>\n'
EVIL = "</script><img src=x onerror=alert(1)>{{data}}"


def level(graph: Graph, name: str = "ops") -> html.Level:
    return html.Level(name, graph, SVG)


@pytest.fixture(scope="module")
def scalar() -> Graph:
    a, b = Tensor(2.0, requires_grad=True), Tensor(-3.0, requires_grad=True)
    with viz.record():
        loss = residual(a, (a * b).tanh()) * b
    loss.backward()
    return viz.trace(loss)


@pytest.fixture(scope="module")
def decoder() -> Graph:
    model = Decoder(DecoderConfig(11, block_size=4, n_layer=2, n_head=2, n_embd=8))
    ids = np.arange(8).reshape(2, 4)
    with viz.record():
        loss = model.loss(ids, ids)
    loss.backward()
    return viz.trace(loss)


def data_of(page: str) -> dict:
    (text,) = re.findall(r'<script type="application/json" class="viz-data">(.*?)</script>', page, re.S)
    return json.loads(text)


class Tags(HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.seen: list[tuple[str, dict]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))


def test_the_page_asks_nothing_of_any_network(scalar):
    page = html.page([level(scalar)], scalar, "t")
    assert not re.findall(r"https?://(?!www\.w3\.org/)", page)
    assert all(name not in page for name in ("@import", "url(", "fetch(", "XMLHttpRequest", "innerHTML", "eval("))
    tags = Tags(page).seen
    assert [a for tag, a in tags if "src" in a or (tag == "link" and a["href"] != "data:,")] == []
    policy = next(a["content"] for tag, a in tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")


def test_the_policy_allows_the_one_script_by_its_hash(scalar):
    page = html.page([level(scalar)], scalar, "t")
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.S)
    assert "script-src 'sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() + "'" in page


def test_names_are_text(scalar):
    nodes = tuple(Node(**{**vars_of(node), "label": EVIL, "name": EVIL, "line": EVIL}) for node in scalar.nodes)
    graph = scalar.replace(nodes=nodes, notes=(EVIL,))
    page = html.page([level(graph, EVIL)], graph, EVIL, EVIL)
    assert "<img" not in page and page.count("</script>") == html.page([level(scalar)], scalar, "t").count("</script>")
    data = data_of(page)
    assert data["start"]["title"] == EVIL and EVIL in str(data["steps"][0]["lines"])


def vars_of(node: Node) -> dict:
    return {name: value for name, value in vars(node).items() if not name.startswith("_")}


def test_the_steps_go_forward_in_the_order_of_computing_and_back_in_the_reverse(decoder):
    steps = html.steps(decoder)
    ops = [node.id for node in sorted(decoder.nodes, key=lambda n: n.order) if node.kind == "op"]
    ids = [(step["phase"], decoder.nodes[step["node"]].id) for step in steps]
    assert [id for phase, id in ids if phase == "forward"] == ops
    assert [id for phase, id in ids if phase == "backward" and decoder[id].kind == "op"] == ops[::-1]
    assert ids[len(ops) - 1] == ("forward", ops[-1]) and ids[len(ops)] == ("backward", ops[-1])


def test_a_leaf_with_several_consumers_has_a_step_where_its_gradient_is_complete(decoder):
    steps = [(step["phase"], decoder.nodes[step["node"]].id) for step in html.steps(decoder)]
    tied = steps.index(("backward", "parameter/token_embedding.weight"))
    consumers = [edge.target for edge in decoder.outgoing["parameter/token_embedding.weight"]]
    assert len(consumers) == 2 and all(steps.index(("backward", c)) < tied for c in consumers)


def test_a_step_says_what_explain_says_and_shows_what_the_edges_carry(scalar):
    for step in html.steps(scalar):
        node = scalar.nodes[step["node"]]
        told = (explain.forward if step["phase"] == "forward" else explain.backward)(node, scalar)
        assert [": ".join(line[1:]) for line in step["lines"] if line[0] != "shapes"] == told.split("\n")
        for source, target, slot, shown, skip in step["edges"]:
            key = (scalar.nodes[source].id, scalar.nodes[target].id, slot)
            edge = next(e for e in scalar.edges if e.key == key)
            numbers = scalar[edge.source].value if step["phase"] == "forward" else edge.grad
            assert shown == explain.short(numbers) and skip == bool(edge.skips)


@pytest.mark.parametrize("depth", ["modules", "blocks"])
def test_every_op_has_a_place_in_a_collapsed_picture(decoder, depth):
    shown = view(decoder, depth)
    found = html.inside(shown, decoder)
    assert {node.id for node in decoder.nodes if node.kind == "op"} <= set(found)
    assert set(found.values()) <= {node.id for node in shown.nodes}
    for id, holder in found.items():
        inside = {module.id for module in decoder.modules_around(decoder[id].module)}
        assert holder == id or inside & {holder, *shown[holder].members}


def test_an_op_of_a_folded_run_has_its_place_in_the_fold():
    blocks = nn.Sequential(*(nn.Sequential(nn.Linear(3, 3), nn.Tanh()) for _ in range(4)))
    graph = viz.trace(blocks, inputs=np.ones((2, 3), np.float32))
    shown = view(graph, "blocks", fold=2)
    (fold,) = [node for node in shown.nodes if node.kind == "fold"]
    found = html.inside(shown, graph)
    assert {found[node.id] for node in graph.nodes if node.kind == "op"} == {fold.id}


def test_details_hold_what_is_known_of_a_node(scalar):
    rows = dict(html.details(scalar["mul"], scalar)["rows"])
    assert rows["op"] == "mul" and rows["shape"] == "(), () → ()" and rows["value"] == "−6"
    assert rows["line"].rpartition(":")[0].endswith("test_html.py")


def test_an_unset_gradient_is_a_dash_in_the_details():
    graph = viz.trace(Tensor(2.0, requires_grad=True) * 3.0)
    leaf = next(node for node in graph.nodes if node.kind == "input")
    assert dict(html.details(leaf, graph)["rows"])["gradient"] == "–"


def test_a_graph_without_numbers_and_one_with_nan_still_make_a_page(scalar):
    bare = viz.trace(Tensor(2.0, requires_grad=True) * 3.0, numbers=False)
    assert "–" in str(data_of(html.page([level(bare)], bare, "t"))["steps"])
    with np.errstate(all="ignore"):
        bad = viz.trace(Tensor(np.array([-1.0, np.inf], np.float32), requires_grad=True).log().sum())
    assert "NaN or inf" in str(data_of(html.page([level(bad)], bad, "t"))["steps"])


def test_wrong_arguments_are_named(scalar):
    with pytest.raises(ValueError, match="at least one level"):
        html.page([], scalar, "t")
    with pytest.raises(ValueError, match="theme='blue' is none of auto, light, dark"):
        html.page([level(scalar)], scalar, "t", theme="blue")


def test_a_fragment_is_one_frame_that_holds_the_page(scalar):
    fragment = html.fragment([level(scalar)], scalar, 'a "title"', height=500)
    ((tag, attributes),) = Tags(fragment).seen
    assert tag == "iframe" and attributes["sandbox"] == "allow-scripts" and "500px" in attributes["style"]
    assert attributes["srcdoc"] == html.page([level(scalar)], scalar, 'a "title"')


def test_dark_colours_are_those_of_the_palette(scalar):
    page = html.page([level(scalar)], scalar, "t", theme="dark")
    assert 'data-theme="dark"' in page
    assert '.viz[data-theme="dark"] .viz-level [fill="#CCE5F6" i] { fill: #12395A; }' in page


def test_the_same_page_in_two_processes_with_other_hash_seeds():
    code = (
        "import viz, numpy as np\nfrom tinygrad_tf import manual_seed, nn\nfrom viz import html\nmanual_seed(0)\n"
        "g = viz.trace(nn.Sequential(nn.Linear(2, 3), nn.Tanh()), inputs=np.ones((2, 2), np.float32))\n"
        "page = html.page([html.Level('ops', g, '<svg></svg>')], g, 't')\n"
        "import sys; sys.stdout.buffer.write(page.encode())"
    )
    root = Path(__file__).parents[2]
    runs = [
        subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, check=True, timeout=60,
                       env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert runs[0] == runs[1] and len(runs[0]) > 1000


def test_a_long_chain_makes_a_page_without_recursion():
    y = x = Tensor(1.0, requires_grad=True)
    for _ in range(3000):
        y = y + x
    graph = viz.trace(y, numbers=False)
    steps = html.steps(graph)
    assert len(steps) == 6001 and "and 2,993 more" in str(steps[-1]["lines"])


def test_a_run_that_failed_goes_forward_only():
    x, w = (Tensor(np.ones(shape, np.float32), requires_grad=True) for shape in ((2, 3), (4, 4)))
    with pytest.raises(ValueError, match="matmul"), viz.record() as tape:
        x.exp() @ w
    graph = viz.trace(tape)
    walk = html.steps(graph)
    assert [step["phase"] for step in walk] == ["forward", "forward"]
    assert walk[-1]["lines"][1] == ["first", "matmul failed: inner sizes 3 and 4 differ"]
    start = data_of(html.page([level(graph)], graph, "x"))["start"]["lines"]
    assert start[0][1].startswith("2 steps forward in the order of computing; an op failed, so nothing goes backward. ")
    assert "none: it failed" in str(html.details(graph["matmul"], graph)["rows"])


def test_one_step_is_a_step():
    graph = viz.trace(Tensor(2.0, requires_grad=True).exp())
    assert data_of(html.page([level(graph)], graph, "x"))["start"]["lines"][0][1].startswith("1 step forward in")


def test_half_a_surrogate_pair_reaches_no_file(scalar):
    graph = scalar.replace(title="\ud800", notes=("\udc00 note",))
    page = html.page([level(graph, "\udfff")], graph, "\ud800", "\ud800")
    for text in (page, html.fragment([level(graph)], graph, "\ud800")):
        assert "\ufffd".encode() in text.encode("utf-8")
