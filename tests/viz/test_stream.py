"""The line on which a drawing hangs everything else."""

import numpy as np
import pytest

import viz
from tests.viz.models import MODELS, B, D, decoder_loss, linear, marked, numbers, plain, run
from tinygrad_tf import Tensor
from viz.graph import Edge, Graph, Node, Skip
from viz.stream import Stream, stream


def trace(y, **names):
    return viz.trace(y, numbers=False, names=names)


def line(graph):
    return list(stream(graph).nodes)


def test_the_decoder_is_one_line():
    graph = trace(decoder_loss(2))
    assert line(graph) == [
        "input/ids", "token_embedding/embedding", "Decoder/add", "blocks.0/residual", "blocks.0/residual#2",
        "blocks.1/residual", "blocks.1/residual#2", "norm/layer_norm", "lm_head/linear", "reshape", "cross_entropy",
    ]  # fmt: skip
    assert set(stream(graph).group.values()) == {"stream"}


def test_the_norms_of_a_post_norm_decoder_are_on_it():
    assert line(trace(decoder_loss(1, norm_order="post"))) == [
        "input/ids", "token_embedding/embedding", "Decoder/add", "blocks.0/residual", "blocks.0.attn_norm/layer_norm",
        "blocks.0/residual#2", "blocks.0.ffn_norm/layer_norm", "lm_head/linear", "reshape", "cross_entropy",
    ]  # fmt: skip


@pytest.mark.parametrize("plus", [plain, marked])
@pytest.mark.parametrize("name", MODELS)
def test_every_line_is_a_path_without_parameters(name, plus):
    graph = trace(run(name, plus))
    found = stream(graph)
    assert found == stream(graph)
    used = 0
    for lane in dict.fromkeys(found.group.values()):
        nodes = [id_ for id_ in found.group if found.group[id_] == lane]
        assert lane != "stream" or tuple(nodes) == found.nodes
        for a, b in zip(nodes, nodes[1:]):
            assert any(edge.key in found.edges for edge in graph.outgoing[a] if edge.target == b)
            used += 1
    assert used == len(found.edges)
    assert not {graph[id_].kind for id_ in found.group} & {"parameter", "constant"}
    assert graph[found.nodes[-1]].id == graph.nodes[-1].id


@pytest.mark.parametrize("name", [name for name in MODELS if name != "concatenation"])
def test_every_sum_and_source_is_on_a_line(name):
    graph = trace(run(name, marked))
    group = stream(graph).group
    assert all(skip.source in group and skip.target in group for skip in graph.skips)
    for edge in graph.edges:
        if edge.skips:
            assert edge.key in stream(graph).edges


def test_without_a_skip_it_is_the_longest_way():
    graph = trace(run("mlp"))
    assert [graph[id_].op for id_ in line(graph)] == ["", "linear", "tanh", "linear", "tanh", "linear", "mul", "sum"]


def test_a_skip_around_others_is_the_main_line():
    graph = trace(run("nested"))
    found = stream(graph)
    inner, second, outer = graph.skips
    assert list(found.nodes[:2]) == [outer.source, outer.target]
    assert [id_ for id_ in found.group if found.group[id_] == "stream2"] == [inner.source, inner.target, second.target]


def test_an_encoder_has_a_line_of_its_own():
    graph = trace(run("encoder_decoder"))
    found = stream(graph)
    assert [skip.target for skip in graph.skips if skip.target in found.nodes] == [
        f"writers.{i}/add{n}" for i in (0, 1) for n in ("", "#2")
    ]
    side = [id_ for id_, lane in found.group.items() if lane == "stream2"]
    assert side[1:] == ["source_tokens/embedding", "readers.0/add", "readers.1/add", "read/layer_norm"]
    assert {key[0] for key in found.loose} == {"read/layer_norm"} and len(found.loose) == 4  # keys and values of two blocks


def test_several_outputs():
    x, a, b = numbers(B, D), linear(), linear()
    deep, shallow = x + a(x).tanh(), b(x)
    for outputs in ([deep, shallow], [shallow, deep]):
        graph = trace(outputs, x=x)
        assert line(graph)[:2] == ["input/x", "add"] and graph[line(graph)[-1]].kind == "output"


def test_the_main_line_is_the_one_with_more_skips():
    x, z, a, b, c = numbers(B, D), numbers(B, D), linear(), linear(), linear()
    two = x + a(x)
    two = two + b(two)
    one = z + c(z)
    assert line(trace((one * two).sum(), x=x, z=z))[0] == "input/x"
    assert line(trace((two * one).sum(), x=x, z=z))[0] == "input/x"


def test_leaves_made_by_hand():
    w, x = Tensor(np.eye(D), requires_grad=True), Tensor(np.ones((B, D)))
    assert line(trace(((x @ w).tanh() @ w).sum(), x=x, w=w)) == ["input/x", "matmul", "tanh", "matmul#2", "sum"]


def test_all_leaves_are_data_where_nothing_tells_them_apart():
    a, b = Tensor(np.array(2.0), requires_grad=True), Tensor(np.array(3.0), requires_grad=True)
    assert line(trace((a * b + b).tanh(), a=a, b=b)) == ["input/a", "mul", "add", "tanh"]


def box(id_, badge=0):
    return Node(id_, "module", id_, badge=badge)


def test_boxes():
    """Two blocks and an encoder, collapsed: a skip goes from box to box, the other one of each block is in its badge."""
    nodes = (
        Node("ids", "input", "ids"), Node("source", "input", "source"), box("tokens"), box("encoder", badge=12),
        box("one", badge=1), box("two", badge=1), Node("w", "parameter", "w"), box("head"), Node("y", "output", "y"),
    )  # fmt: skip
    edges = (
        Edge("ids", "tokens"), Edge("source", "encoder"), Edge("encoder", "one", 0), Edge("tokens", "one", 1, skips=("s1",)),
        Edge("encoder", "two", 0), Edge("one", "two", 1, skips=("s2",)), Edge("w", "head"), Edge("two", "head", 1),
        Edge("head", "y"),
    )  # fmt: skip
    found = stream(Graph(nodes, edges, skips=(Skip("s1", "tokens", "one"), Skip("s2", "one", "two"))))
    assert found.nodes == ("ids", "tokens", "one", "two", "head", "y")
    assert found.edges == {("ids", "tokens", 0), ("tokens", "one", 1), ("one", "two", 1), ("two", "head", 1), ("head", "y", 0)}


def test_a_fold_is_on_the_line():
    nodes = (Node("x", "input", "x"), Node("run", "fold", "Block ×12", badge=24, rail=True), Node("y", "output", "y"))
    assert stream(Graph(nodes, (Edge("x", "run"), Edge("run", "y")))).nodes == ("x", "run", "y")


def test_a_cycle_of_boxes_ends():
    """A module whose middle lies outside it is one box that comes before and after what it calls."""
    nodes = (Node("x", "input", "x"), box("a"), box("b"), Node("y", "output", "y"))
    edges = (Edge("x", "a"), Edge("a", "b"), Edge("b", "a", 1), Edge("a", "y"))
    assert stream(Graph(nodes, edges)).nodes[-1] == "y"


def test_nothing():
    assert stream(Graph((), ())) == Stream((), frozenset(), {})
    assert stream(Graph((Node("w", "parameter", "w"),), ())).nodes == ()


def test_a_chain_of_twenty_thousand():
    ids = [f"n{i}" for i in range(20_000)]
    nodes = (Node("x", "input", "x"), *(Node(id_, "op", "tanh", "tanh") for id_ in ids))
    edges = tuple(Edge(a, b) for a, b in zip(["x", *ids], ids))
    assert len(stream(Graph(nodes, edges)).nodes) == 20_001
