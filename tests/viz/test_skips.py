"""Which edges are found to be skips, in raw code and in marked sums."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import viz
from tests.viz.models import MODELS, B, D, decoder_loss, linear, marked, numbers, plain, run, swapped
from tinygrad_tf import Tensor, cat, composed, nn
from tinygrad_tf.engine import history
from viz.graph import Edge, Graph, Node
from viz.record import recorded
from viz.skips import find_skips, topological

TABLE = {  # model -> skips in raw code, skips if its sums are marked
    "mlp": (0, 0), "pre_norm": (2, 2), "norm_written_out": (2, 2), "twelve_blocks": (24, 24), "post_norm": (2, 2),
    "parallel": (1, 1), "parallel_one_by_one": (1, 1), "dropout_on_the_branch": (1, 1), "dropout_on_the_skip": (1, 1),
    "reshaped_on_the_skip": (1, 1), "other_shape": (0, 1), "cross_attention": (1, 1), "twice_itself": (0, 0),
    "token_and_position": (0, 0), "heads": (0, 0), "heads_and_skip": (1, 1), "rotary": (0, 0), "tied_weights": (1, 1),
    "one_layer_twice": (1, 2), "recurrent": (0, 0), "projection": (0, 1), "scaled": (0, 1), "concatenation": (0, 1),
    "scalars": (0, 4), "nested": (3, 3), "across_modules": (1, 1), "encoder_decoder": (6, 6),
}  # fmt: skip


def trace(y, **names):
    return viz.trace(y, numbers=False, names=names)


def ends(graph):
    """The skips with the sums numbered, whatever op they are."""
    sums = {skip.target: i for i, skip in enumerate(graph.skips)}
    return [(sums.get(skip.source, skip.source), sums[skip.target], skip.kind) for skip in graph.skips]


def test_the_table_names_every_model():
    assert list(TABLE) == list(MODELS)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("name", TABLE)
def test_how_many(name, fused):
    found = []
    for plus in (plain, swapped, marked):
        if fused:
            found.append(trace(run(name, plus)))
        else:
            with composed():
                found.append(trace(run(name, plus)))
    raw, marks = TABLE[name]
    assert [graph.skip_count for graph in found] == [raw, raw, marks]
    assert not any(skip.annotated for graph in found[:2] for skip in graph.skips)
    if raw == marks:
        assert ends(found[0]) == ends(found[1]) == ends(found[2])


@pytest.mark.parametrize("order", ["pre", "post", "both"])
@pytest.mark.parametrize("settings", [
    {}, {"ffn": "gelu_tanh", "dropout": 0.1}, {"norm": "rms", "positions": "rotary", "ffn": "swiglu", "layer_scale": 0.1},
])  # fmt: skip
def test_the_decoder_has_two_a_block(order, settings):
    for loss in (decoder_loss(3, norm_order=order, **settings), composed()(decoder_loss)(3, norm_order=order, **settings)):
        graph = trace(loss)
        assert [skip.target for skip in graph.skips] == [f"blocks.{i}/residual{n}" for i in range(3) for n in ("", "#2")]
        assert all(skip.annotated and skip.kind == "identity" for skip in graph.skips)


# ------------------------------------------------------------------------------------------------ where they run


def paths(graph):
    """Skip -> the edges that carry it."""
    return {skip.id: [edge for edge in graph.edges if skip.id in edge.skips] for skip in graph.skips}


@pytest.mark.parametrize("plus", [plain, swapped, marked])
@pytest.mark.parametrize("name", [name for name in TABLE if TABLE[name][1]])
def test_a_path_leads_from_the_source_to_the_sum(name, plus):
    graph = trace(run(name, plus))
    for skip in graph.skips:
        at = skip.source
        for edge in paths(graph)[skip.id]:
            assert edge.source == at
            at = edge.target
        assert at == skip.target


def test_a_sum_of_three_is_one_sum():
    a, b = linear(), linear()
    for sum_, slots in [(lambda x: x + (a(x) + b(x)), 1), (lambda x: (x + a(x)) + b(x), 2), (lambda x: a(x) + x + b(x), 2),
                        (lambda x: a(x) + b(x) + x, 1), (lambda x: (x + 1.0) + a(x), 2)]:  # fmt: skip
        graph = trace(sum_(numbers(B, D)))
        (skip,) = graph.skips
        assert graph.outgoing[skip.target][0].target.startswith("output/")  # the last add of the sum
        assert len(paths(graph)[skip.id]) == slots


def test_a_sum_that_is_used_twice_is_two_sums():
    a, b = linear(), linear()
    y = (h := (x := numbers(B, D)) + a(x)) + b(h)
    assert [(skip.source, skip.target) for skip in trace(y, x=x).skips] == [("input/x", "add"), ("add", "add#2")]


def test_an_inner_skip_ends_where_its_own_branch_comes_back():
    graph = trace(run("nested", plain))
    first, second, outer = graph.skips
    assert (first.source, second.source, outer.source) == ("a/linear", first.target, "input/x")
    assert [edge.key for edge in paths(graph)[outer.id]] == [("input/x", outer.target, 0)]
    assert graph.outgoing[second.target][0].target == outer.target


def test_two_ways_to_one_sum_are_one_skip():
    a, x = linear(), numbers(B, D)
    graph = trace(x + x + a(x))
    (skip,) = graph.skips
    assert [edge.key for edge in paths(graph)[skip.id]] == [
        (skip.source, "add", 0),
        (skip.source, "add", 1),
        ("add", "add#2", 0),
    ]


def test_a_difference_is_no_sum():
    a, x = linear(), numbers(B, D)
    assert trace(x - a(x)).skips == ()
    assert trace(marked(x, -a(x))).skip_count == 1


def test_no_skip_where_the_branch_is_of_another_shape():
    x = numbers(B, D)
    assert trace(x + linear(D, 1)(x)).skip_count == 1  # broadcast to the shape of x
    row = numbers(D)
    assert trace(row + (row * linear()(numbers(B, D)))).skips == ()  # the sum has the shape of the branch


def test_parameters_alone_are_no_stream():
    w, a = nn.Parameter(np.ones((B, D))), linear()
    assert trace((w + a(w)) * numbers(B, D)).skips == ()


def test_leaves_made_by_hand_are_parameters_beside_data():
    w = Tensor(np.eye(D), requires_grad=True)
    data = np.ones((B, D))
    x = Tensor(data)
    assert trace(x + (x @ w).tanh()).skip_count == 1
    x = x.requires_grad_()  # now nothing tells which is which
    assert trace(x + (x @ w).tanh()).skips == ()


# ------------------------------------------------------------------------------------------------ marked sums


@pytest.mark.parametrize("way, kind", [
    (lambda x, p: x, "identity"), (lambda x, p: x.reshape(D, B).reshape(B, D), "identity"),
    (lambda x, p: x.clone(), "identity"), (lambda x, p: x + p, "identity"),
    (lambda x, p: x * 0.5, "scaled"), (lambda x, p: p * x, "scaled"), (lambda x, p: -x / 2, "scaled"),
    (lambda x, p: linear()(x), "projected"), (lambda x, p: x @ np.eye(D) * 0.5 + p, "projected"),
    (lambda x, p: cat([x[:, :2], Tensor(np.zeros((B, 2)))], 1), "projected"),
])  # fmt: skip
def test_the_way_of_a_marked_skip(way, kind):
    x, p = numbers(B, D), nn.Parameter(np.ones(D))
    graph = trace(marked(way(x, p), linear()(x)))
    (skip,) = graph.skips
    assert (graph[skip.source].kind, skip.target, skip.kind, skip.annotated) == ("input", "residual", kind, True)


@pytest.mark.parametrize("way", [lambda x: x.tanh(), lambda x: x * x, lambda x: 1.0 / (x + 3), lambda x: linear()(x).tanh()])
def test_a_marked_operand_that_is_made_otherwise_is_the_source_itself(way):
    x = numbers(B, D)
    graph = trace(marked(way(x), linear()(x)))
    (skip,) = graph.skips
    assert [edge.key for edge in paths(graph)[skip.id]] == [(skip.source, "residual", 0)]
    assert skip.kind == "identity"


def test_a_marked_sum_of_a_value_with_itself_keeps_both_edges():
    x = numbers(B, D)
    graph = trace(marked(x, x))
    assert [edge.skips for edge in graph.edges][:2] == [("skip/residual",), ()]


# ------------------------------------------------------------------------------------------------ the gradient


@pytest.mark.parametrize("plus", [plain, marked])
@pytest.mark.parametrize("name", [
    "pre_norm", "post_norm", "twelve_blocks", "parallel", "cross_attention", "reshaped_on_the_skip", "heads_and_skip", "nested",
    "encoder_decoder",
])  # fmt: skip
def test_a_skip_carries_the_gradient_of_its_sum_exactly(name, plus):
    with viz.record():
        y = run(name, plus)
    y.backward()
    graph = viz.trace(y)
    calls = history(y.node)[::-1]
    ids = [node.id for node in graph.nodes if node.kind == "op"]
    assert [call.op.name for call in calls] == [graph[id_].op for id_ in ids]
    entry = {id_: recorded(calls)[call] for id_, call in zip(ids, calls)}
    assert graph.skips
    for skip in graph.skips:
        upstream = entry[skip.target].grad
        for edge in paths(graph)[skip.id]:
            share = entry[edge.target].shares[edge.slot]
            assert share.dtype == np.float64 and np.array_equal(share.ravel(), upstream.ravel())
        if skip.source in entry:  # g + J^T g: what comes by the skip, and what comes by everything else that was made of x
            others = [entry[edge.target].shares[edge.slot] for edge in graph.outgoing[skip.source] if skip.id not in edge.skips]
            np.testing.assert_allclose(entry[skip.source].grad, upstream + sum(others), rtol=1e-12)


def test_through_branches_that_send_nothing_back_the_gradient_arrives_unchanged():
    net, inputs = MODELS["pre_norm"](plain)
    for last in (net.attn.out_proj, net.ffn.down):
        nn.init.zeros_(last.weight)
    with viz.record():
        y = net(*inputs)
    weight = np.random.default_rng(2).standard_normal(y.shape)
    (y * weight).sum().backward()
    assert np.array_equal(inputs[0].grad.array, weight)


# ------------------------------------------------------------------------------------------------ long, and of any form


def chain(step, n):
    y = Tensor(np.full(2, 1e-3), requires_grad=True)
    for _ in range(n):
        y = step(y)
    return trace(y)


def test_doubled_a_hundred_times():
    graph = chain(lambda y: y + y, 100)
    assert graph.skips == () and len(graph.edges) == 201


@pytest.mark.parametrize(
    "step, skips", [(lambda y: y + 1.0, 0), (lambda y: marked(y, y * 0.5), 500), (lambda y: marked(y, -y) + y, 500)]
)
def test_chains(step, skips):
    assert chain(step, 500).skip_count == skips


LONG = 20_000


@pytest.mark.parametrize("into, op, skips", [
    (lambda i, y: [y], "tanh", 0), (lambda i, y: [y, "c"], "add", 0), (lambda i, y: [y, y], "add", 0),
    (lambda i, y: [y, "x"], "add", 0), (lambda i, y: ["x", y], "residual", LONG), (lambda i, y: [y, f"f{i}"], "add", 0),
])  # fmt: skip
def test_chains_of_twenty_thousand(into, op, skips):
    nodes = [Node("x", "input", "x", shape=(2,)), Node("c", "constant", "1", shape=())]
    edges, y = [], "x"
    for i in range(LONG):
        sources, y = into(i, y), f"y{i}"
        nodes += [Node(source, "op", "tanh", "tanh", shape=(2,)) for source in sources if source == f"f{i}"]
        edges += [Edge("x", source) for source in sources if source == f"f{i}"]
        edges += [Edge(source, y, slot) for slot, source in enumerate(sources)]
        nodes.append(Node(y, "op", op, op, shape=(2,)))
    assert find_skips(Graph(tuple(nodes), tuple(edges))).skip_count == skips


def test_a_stream_of_many_blocks():
    nodes, edges, y = [Node("x", "input", "x", shape=(2,))], [], "x"
    for i in range(3000):
        nodes += [Node(f"w{i}", "parameter", "w", shape=(2,)), Node(f"f{i}", "op", "mul", "mul", shape=(2,))]
        nodes.append(Node(f"y{i}", "op", "add", "add", shape=(2,)))
        edges += [Edge(y, f"f{i}"), Edge(f"w{i}", f"f{i}", 1), Edge(y, f"y{i}"), Edge(f"f{i}", f"y{i}", 1)]
        y = f"y{i}"
    graph = find_skips(Graph(tuple(nodes), tuple(edges)))
    assert [(skip.source, skip.target) for skip in graph.skips[1:]] == [(f"y{i}", f"y{i + 1}") for i in range(2999)]


def test_found_again_is_the_same():
    graph = trace(run("encoder_decoder", plain))
    assert find_skips(graph) == graph
    bare = graph.replace(skips=(), edges=tuple(Edge(e.source, e.target, e.slot, e.name) for e in graph.edges))
    assert find_skips(bare) == graph


def test_a_collapsed_graph_keeps_what_it_has():
    graph = trace(run("pre_norm", plain))
    box = graph.nodes[-1]
    collapsed = graph.replace(nodes=(*graph.nodes[:-1], Node(box.id, "module", "Model")), edges=())
    assert find_skips(collapsed) is collapsed


def test_the_order_of_the_nodes_does_not_matter():
    graph = trace(run("nested", plain))
    turned = graph.replace(nodes=graph.nodes[::-1])
    rank = {id_: i for i, id_ in enumerate(topological(turned))}
    assert sorted(rank) == sorted(graph.by_id) and all(rank[edge.source] < rank[edge.target] for edge in graph.edges)
    assert {(s.source, s.target) for s in find_skips(turned).skips} == {(s.source, s.target) for s in graph.skips}


@st.composite
def graphs(draw):
    """A graph of ops on vectors of two lengths, with a parameter here and there."""
    nodes = [Node("x", "input", "x", shape=(2,)), Node("z", "input", "z", shape=(2,)), Node("w0", "parameter", "w", shape=(2,))]
    edges, values = [], ["x", "z", "w0"]
    for i in range(draw(st.integers(3, 14))):
        op = draw(st.sampled_from(["add", "add", "add", "mul", "tanh", "dropout", "linear"]))
        id_ = f"{op}{i}"
        into = [draw(st.sampled_from(values[-5:])) for _ in range(2 if op in ("add", "mul") else 1)]
        if op == "linear":
            weight = draw(st.sampled_from([f"w{i + 1}", "w0"]))
            if weight != "w0":
                nodes.append(Node(weight, "parameter", "w", shape=(2,)))
            into.append(weight)
        nodes.append(Node(id_, "op", op, op, shape=(2,)))
        edges += [Edge(source, id_, slot) for slot, source in enumerate(into)]
        values.append(id_)
    return Graph(tuple(nodes), tuple(edges))


@given(graphs())
def test_the_rule_in_plain_sets(graph):
    """The same rule, asked of each add by walking all that is behind it."""

    def behind(id_):
        found, stack = set(), [id_]
        while stack:
            for edge in graph.incoming[stack.pop()]:
                if edge.source not in found:
                    found.add(edge.source)
                    stack.append(edge.source)
        return found

    def parameters(id_):
        return {p for p in behind(id_) | {id_} if graph[p].kind == "parameter"}

    def bypasses(source, branch):
        return source in behind(branch) and bool(parameters(branch) - parameters(source))

    def onward(id_):
        out = graph.outgoing[id_]
        return out[0] if graph[id_].op == "add" and len(out) == 1 and graph[out[0].target].op == "add" else None

    expected = set()
    for leaf in graph.edges:
        if graph[leaf.target].op != "add" or onward(leaf.source):
            continue
        source = leaf.source
        while True:
            edge, ends = leaf, []
            while edge is not None:
                (other,) = (e.source for e in graph.incoming[edge.target] if e.slot != edge.slot)
                ends.append((edge.target, bypasses(source, other)))
                edge = onward(edge.target)
            good = [i for i, (_, ok) in enumerate(ends) if ok]
            if good and {"x", "z"} & (behind(source) | {source}):
                last = good[0]
                while last + 1 < len(ends) and ends[last + 1][1]:
                    last += 1
                expected.add((source, ends[last][0]))
                break
            if graph[source].op != "dropout":
                break
            source = graph.incoming[source][0].source
    assert {(skip.source, skip.target) for skip in find_skips(graph).skips} == expected
