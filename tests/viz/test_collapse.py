"""Views: what becomes a box, what a box says, and that no skip is lost on the way."""

import re
from collections import Counter
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import viz
from tinygrad_tf import Tensor, nn
from tinygrad_tf.models import Decoder, DecoderConfig
from viz.collapse import GraphTooLarge, view
from viz.graph import Edge, Graph, Module, Node, Numbers, Skip

VIEWS, FOLDS = ("ops", "modules", "blocks"), ("auto", "first", 2, 5, "off")


@cache
def decoder(layers=2, order="pre", **changes):
    model = Decoder(DecoderConfig(11, block_size=8, n_layer=layers, n_head=2, n_embd=8, norm_order=order, **changes))
    ids = np.arange(6).reshape(1, 6)
    return viz.trace(model.loss(ids, ids + 1))


def check(full, drawn):
    """What holds of every view of a graph."""
    assert Graph.from_json(drawn.to_json()) == drawn  # whole: every end of an edge and every module is there
    place = {node.id: i for i, node in enumerate(drawn.nodes)}
    assert all(place[edge.source] < place[edge.target] for edge in drawn.edges)
    assert max(Counter(edge.key for edge in drawn.edges).values(), default=1) == 1
    assert drawn.skip_count == full.skip_count
    assert [skip.id for skip in drawn.skips] == [skip.id for skip in full.skips if skip.id in {s.id for s in drawn.skips}]
    assert {id for edge in drawn.edges for id in edge.skips} == {skip.id for skip in drawn.skips}
    for skip in drawn.skips:
        assert skip.source != skip.target and joined(drawn, skip)
    for total in (lambda node: node.ops, lambda node: node.kept):
        assert sum(map(total, drawn.nodes)) == sum(map(total, full.nodes))
    assert sum(node.loss for node in drawn.nodes) == sum(node.loss for node in full.nodes)
    ends = ("input", "output")
    assert {n.id for n in full.nodes if n.kind in ends} == {n.id for n in drawn.nodes if n.kind in ends}


def joined(graph, skip):
    """Whether edges that carry the skip lead from its source to its target."""
    reached = {skip.source}
    for edge in graph.edges:  # in the order of computing
        if skip.id in edge.skips and edge.source in reached:
            reached.add(edge.target)
    return skip.target in reached


def ids(graph, kind):
    return [node.id for node in graph.nodes if node.kind == kind]


# ------------------------------------------------------------------------------------------------ random models


class RawAdd(nn.Module):
    def __init__(self, branch):
        self.branch = branch

    def forward(self, x):
        return x + self.branch(x)


class Both(nn.Module):
    def __init__(self, one, two):
        self.one, self.two = one, two

    def forward(self, x):
        return self.one(x) * self.two(x)


class Twice(nn.Module):
    def __init__(self, inner):
        self.inner = inner

    def forward(self, x):
        return self.inner(self.inner(x))


class Tied(nn.Module):
    def __init__(self, inner):
        self.into, self.inner, self.out = nn.Linear(4, 4), inner, nn.Linear(4, 4)
        self.out.weight = self.into.weight

    def forward(self, x):
        return self.out(self.inner(self.into(x)))


class Outer(nn.Module):
    """A weight of its own, used by itself and handed to a module inside."""

    def __init__(self, inner):
        self.scale, self.inner, self.gate = nn.Parameter(np.ones(4, np.float32)), inner, Gate()

    def forward(self, x):
        return self.gate(self.inner(x * self.scale), self.scale)


class Gate(nn.Module):
    def forward(self, x, scale):
        return (x * scale).tanh()


LEAVES = {
    "linear": lambda: nn.Linear(4, 4), "norm": lambda: nn.LayerNorm(4), "tanh": nn.Tanh, "drop": lambda: nn.Dropout(0.5),
}  # fmt: skip
AROUND = {
    "raw": RawAdd, "twice": Twice, "tied": Tied, "outer": Outer,
    "residual": nn.Residual,
    "pre": lambda branch: nn.Residual(branch, before=nn.LayerNorm(4)),
    "post": lambda branch: nn.Residual(branch, on_sum=nn.LayerNorm(4)),
    "scaled": lambda branch: nn.Residual(branch, layer_scale=nn.LayerScale(4)),
}  # fmt: skip

plans = st.recursive(
    st.sampled_from(sorted(LEAVES)),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(sorted(AROUND)), inner),
        st.tuples(st.just("both"), inner, inner),
        st.tuples(st.just("in a row"), st.lists(inner, min_size=1, max_size=3)),
        st.tuples(st.just("equal"), inner, st.integers(2, 5)),
    ),
    max_leaves=10,
)


def built(plan):
    if isinstance(plan, str):
        return LEAVES[plan]()
    kind, inner, *more = plan
    if kind == "in a row":
        return nn.Sequential(*map(built, inner))
    if kind == "equal":
        return nn.Sequential(*(built(inner) for _ in range(more[0])))
    return Both(built(inner), built(more[0])) if kind == "both" else AROUND[kind](built(inner))


@given(plans, st.sampled_from(VIEWS), st.none() | st.integers(0, 4), st.sampled_from(FOLDS), st.data())
def test_no_view_of_any_model_loses_a_skip_or_makes_a_cycle(plan, how, depth, fold, data):
    full = viz.trace(built(plan), inputs=Tensor(np.ones((2, 4), np.float32)), numbers=False)
    names = [module.id for module in full.modules]
    chosen = data.draw(st.lists(st.sampled_from(names), max_size=2)) if names else []
    drawn = view(full, how, depth, chosen, fold)
    check(full, drawn)
    assert not drawn.notes
    assert view(full, how, depth, chosen, fold) == drawn
    most = data.draw(st.integers(1, len(full.nodes)))
    try:
        fitted = view(full, how, depth, chosen, fold, max_nodes=most)
    except GraphTooLarge:
        assert len(view(full, depth=0).nodes) > most
    else:
        check(full, fitted)
        assert len(fitted.nodes) <= most and bool(fitted.notes) == (len(drawn.nodes) > most)


@pytest.mark.parametrize("order", ["pre", "post", "both"])
@pytest.mark.parametrize("layers", [1, 2, 12])
def test_a_decoder_has_two_skips_a_layer_in_every_view(order, layers):
    full = decoder(layers, order)
    assert full.skip_count == 2 * layers
    for how, depth, fold in product(VIEWS, (None, 0, 1, 2, 3), FOLDS):
        check(full, view(full, how, depth, fold=fold))
    for pattern in ("blocks.*.attn", "blocks.0", "*norm*", "Decoder"):
        check(full, view(full, collapse=[pattern]))
    for most in (12, 30, 100, 1000):
        check(full, view(full, max_nodes=most))


# ------------------------------------------------------------------------------------------------ what is collapsed


def test_the_view_of_ops_is_the_graph_itself():
    assert view(decoder(12)) is decoder(12)


def test_modules_are_boxes_and_the_sums_between_them_stay():
    drawn = view(decoder(), "modules")
    boxes = ids(drawn, "module")
    assert {"token_embedding", "blocks.0.attn_norm", "blocks.0.attn.q_proj", "blocks.1.ffn.down", "lm_head"} <= set(boxes)
    assert not {"Decoder", "blocks.0", "blocks.0.attn"} & set(boxes)
    assert "blocks.0/residual" in ids(drawn, "op") and "blocks.0.attn/attention" in ids(drawn, "op")
    assert ids(drawn, "parameter") == ["parameter/token_embedding.weight"]
    assert [module.id for module in drawn.modules] == [m.id for m in decoder().modules if m.id not in boxes]
    assert len(drawn.skips) == 4


def test_blocks_are_the_parts_of_the_model_and_the_elements_of_its_list():
    drawn = view(decoder(), "blocks")
    assert ids(drawn, "module") == ["token_embedding", "position_embedding", "blocks.0", "blocks.1", "norm", "lm_head"]
    assert ids(drawn, "op") == ["Decoder/add", "reshape", "cross_entropy"]
    assert drawn == view(decoder(), depth=1)
    assert [drawn[f"blocks.{i}"].badge for i in (0, 1)] == [1, 1] and len(drawn.skips) == 2


def test_a_part_that_holds_a_list_is_opened_to_its_elements_and_a_part_that_is_an_element_is_not():
    class Trunk(nn.Module):
        def __init__(self):
            self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)) for _ in range(2))
            self.head = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    model = nn.Sequential({"trunk": Trunk(), "last": nn.Linear(4, 4)})
    drawn = view(viz.trace(model, inputs=np.ones((2, 4), np.float32)), "blocks")
    assert ids(drawn, "module") == ["trunk.layers.0", "trunk.layers.1", "trunk.head", "last"]


def test_parts_that_no_module_holds_are_boxes_too():
    x, parts = Tensor(np.ones((2, 4), np.float32)), [nn.Residual(nn.Linear(4, 4)), nn.Residual(nn.Linear(4, 4))]
    drawn = view(viz.trace(parts[1](parts[0](x).tanh()).sum()), "blocks")
    assert [node.label for node in drawn.nodes if node.ops] == ["Residual", "tanh", "Residual", "sum"]


def test_depth_counts_calls():
    full = decoder()
    assert ids(view(full, depth=0), "module") == ["Decoder"]
    boxes = ids(view(full, depth=2), "module")
    assert {"blocks.0.attn", "blocks.1.ffn", "blocks.1.ffn_norm"} <= set(boxes) and "norm" not in boxes
    assert ids(view(full, depth=3), "module") == [m.id for m in full.modules if m.path.count(".") == 3]
    assert view(full, depth=9) == full


def test_patterns_choose_calls_by_path():
    full = decoder()
    assert ids(view(full, collapse=["blocks.*.attn"]), "module") == ["blocks.0.attn", "blocks.1.attn"]
    assert ids(view(full, collapse="blocks.[01].ffn"), "module") == ["blocks.0.ffn", "blocks.1.ffn"]
    assert ids(view(full, collapse=["*.q_proj", "blocks.0"]), "module") == ["blocks.0", "blocks.1.attn.q_proj"]
    assert ids(view(full, collapse=["Decoder"]), "module") == ["Decoder"]
    assert ids(view(full, depth=2, collapse=["norm"]), "module")[-1] == "norm"


def test_a_module_called_twice_is_two_boxes_that_share_its_weight():
    full = viz.trace(Twice(nn.Linear(4, 4, bias=False)), inputs=np.ones((2, 4), np.float32))
    drawn = view(full, "modules")
    assert ids(drawn, "module") == ["inner", "inner#2"] and ids(drawn, "parameter") == ["parameter/inner.weight"]
    assert [edge.target for edge in drawn.outgoing["parameter/inner.weight"]] == ["inner", "inner#2"]
    assert ids(view(full, collapse=["inner#2"]), "module") == ["inner#2"]
    assert ids(view(full, depth=0), "parameter") == []


def test_a_tied_weight_stays_as_a_node_with_an_edge_to_each_box():
    drawn = view(decoder(), "blocks")
    weight = "parameter/token_embedding.weight"
    assert [(edge.target, edge.count) for edge in drawn.outgoing[weight]] == [("token_embedding", 1), ("lm_head", 1)]
    assert drawn[weight].module == "Decoder"  # the box that owned it is no longer a module around it
    assert weight not in view(decoder(tied=False), "blocks").by_id


def test_a_weight_of_an_open_module_that_a_box_uses_stays_outside():
    drawn = view(viz.trace(Outer(nn.Tanh()), inputs=np.ones((2, 4), np.float32)), "modules")
    assert [edge.target for edge in drawn.outgoing["parameter/scale"]] == ["Outer/mul", "gate"]


def test_a_weight_of_a_module_that_is_never_called_is_inside_with_what_is_around_it():
    class Holder(nn.Module):
        def __init__(self):
            self.weight = nn.Parameter(np.ones(4, np.float32))

    class User(nn.Module):
        def __init__(self):
            self.held = Holder()

        def forward(self, x):
            return x * self.held.weight

    drawn = view(viz.trace(nn.Sequential(User(), User()), inputs=np.ones((2, 4), np.float32)), "blocks")
    assert ids(drawn, "parameter") == [] and ids(drawn, "module") == ["0", "1"]


# ------------------------------------------------------------------------------------------------ what a box says


def test_a_box_sums_up_what_is_inside():
    full = decoder()
    drawn = view(full, "blocks")
    inside = [n for n in full.nodes if (n.module + ".").startswith("blocks.0.")]
    box = drawn["blocks.0"]
    assert (box.kind, box.label, box.name, box.module) == ("module", "Block", "blocks.0", "Decoder")
    assert box.ops == sum(n.kind == "op" for n in inside) and box.kept == sum(n.kept for n in inside) > 0
    assert box.parameters == full.module_by_id["blocks.0"].parameters == sum(n.parameters for n in inside)
    out = full["blocks.0/residual#2"]
    same = ("shape", "dtype", "value", "grad", "order", "line", "trained")
    assert all(getattr(box, field) == getattr(out, field) for field in same)
    assert box.value is not None and not box.loss and box.badge == 1 and drawn.module_by_id.keys() == {"Decoder"}


def test_a_box_that_two_values_leave_has_no_shape_of_its_own():
    class Halves(nn.Module):
        def forward(self, x):
            return x.tanh(), x.exp()

    class Outside(nn.Module):
        def __init__(self):
            self.halves = Halves()

        def forward(self, x):
            a, b = self.halves(x)
            return a * b

    drawn = view(viz.trace(Outside(), inputs=np.ones(3, np.float32)), "modules")
    box = drawn["halves"]
    assert box.shape is None and box.value is None and box.dtype == "" and box.ops == 2 and box.trained
    (edge,) = drawn.incoming["Outside/mul"]
    assert (edge.slot, edge.name, edge.count, edge.grad) == (0, "a, b", 2, None)
    (edge,) = drawn.incoming["halves"]
    assert (edge.source, edge.name, edge.count) == ("input/x", "x", 2)


def test_the_loss_inside_a_box_marks_it():
    class WithLoss(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(4, 1)

        def forward(self, x):
            return (self.layer(x) ** 2).sum()

    drawn = view(viz.trace(WithLoss()(Tensor(np.ones((2, 4), np.float32)))), depth=0)
    (box,) = [node for node in drawn.nodes if node.kind == "module"]
    assert box.loss and box.shape == () and box.value is not None


def test_an_edge_keeps_its_gradient_where_it_stands_for_one_edge_alone():
    full, drawn = decoder(), view(decoder(), "blocks")
    skip = next(edge for edge in drawn.incoming["blocks.1"] if edge.skips)
    assert skip.grad is not None and skip.grad == full.incoming["blocks.1/residual"][0].grad
    fused = next(edge for edge in view(decoder(1, "post"), "blocks").incoming["blocks.0"] if not edge.skips)
    assert fused.count == 3 and fused.grad is None  # into queries, keys and values


def test_a_skip_and_the_branch_beside_it_stay_two_edges():
    plain, skip = view(decoder(), "blocks").incoming["blocks.1"]
    assert (plain.source, plain.slot, plain.skips) == ("blocks.0", 0, ())
    assert (skip.source, skip.slot, skip.skips, skip.name) == ("blocks.0", 1, ("skip/blocks.1/residual",), "x")


def test_a_skip_whose_way_leads_over_several_nodes_is_found_whole():
    def node(id, module="", kind="op"):
        return Node(id, kind, id, op=id if kind == "op" else "", module=module, ops=int(kind == "op"))

    full = Graph(
        (node("x", kind="input"), node("f", "m"), node("drop", "d"), node("cast", "d"), node("add", "m")),
        (Edge("x", "f"), Edge("x", "drop", skips=("s",)), Edge("drop", "cast", skips=("s",)), Edge("cast", "add", skips=("s",)),
         Edge("f", "add", 1)),
        (Module("m", "m", "M"), Module("d", "d", "D", order=1)),
        (Skip("s", "x", "add"),),
    )  # fmt: skip
    drawn = view(full, collapse=["d"])
    assert [edge.key for edge in drawn.edges if edge.skips] == [("x", "d", 0), ("d", "add", 0)]
    check(full, drawn)


# ------------------------------------------------------------------------------------------------ boxes that would make a cycle


def crossing():
    """f and g lie in one call, h, which works on the value of f and feeds g, outside of it."""
    nodes = tuple(
        Node(id, "op", id, op=id, shape=(2,), module=module, order=i, value=Numbers.of(np.ones(2)))
        for i, (id, module) in enumerate([("f", "m"), ("h", ""), ("g", "m"), ("inner/k", "m.inner"), ("last", "")])
    )
    edges = tuple(Edge(a, b) for a, b in [("f", "h"), ("h", "g"), ("g", "inner/k"), ("inner/k", "last")])
    return Graph(nodes, edges, (Module("m", "m", "M"), Module("m.inner", "m.inner", "Inner", "m", order=3)))


@pytest.mark.parametrize("asked", [{"depth": 1}, {"collapse": ["m"]}])
def test_a_call_that_a_value_leaves_and_comes_back_to_stays_open(asked):
    drawn = view(crossing(), **asked)
    assert [node.id for node in drawn.nodes] == ["f", "h", "g", "m.inner", "last"]  # what is inside is collapsed instead
    assert drawn.notes == ("m is drawn open: a value leaves it, is used outside and comes back into it",)
    assert [module.id for module in drawn.modules] == ["m"]
    check(crossing(), drawn)


def test_a_graph_that_has_a_cycle_is_refused():
    graph = crossing()
    with pytest.raises(ValueError, match="has a cycle"):
        view(graph.replace(edges=(*graph.edges, Edge("last", "last2"), Edge("last2", "last")),
                           nodes=(*graph.nodes, Node("last2", "op", "last2"))), "modules")  # fmt: skip


def test_nodes_come_after_what_they_depend_on_although_a_box_spans_them():
    nodes = [("f", "m"), ("use", ""), ("g", "m"), ("sum", "")]
    graph = Graph(
        tuple(Node(id, "op", id, op=id, module=module, order=i) for i, (id, module) in enumerate(nodes)),
        (Edge("f", "use"), Edge("g", "sum"), Edge("use", "sum", 1)), (Module("m", "m", "M"),),
    )  # fmt: skip
    assert [node.id for node in view(graph, "modules").nodes] == ["m", "use", "sum"]


# ------------------------------------------------------------------------------------------------ limits and refusals


def test_too_many_nodes_are_folded_then_collapsed_and_the_caption_says_so():
    full = decoder(12)
    assert view(full, max_nodes=len(full.nodes)).notes == ()
    folded = view(full, max_nodes=30)
    assert ids(folded, "fold") == ["blocks.0..blocks.11"] and len(folded.nodes) == 14
    assert folded.notes == ("drawn with 14 of 301 nodes: equal modules in a row are folded",)
    collapsed = view(full, fold="off", max_nodes=200)
    assert collapsed.notes == (f"drawn with {len(collapsed.nodes)} of 301 nodes: modules from depth 2 on are collapsed",)
    assert collapsed.nodes == view(full, depth=2).nodes and len(view(full, depth=3).nodes) > 200
    least = view(full, max_nodes=5)
    assert ids(least, "module") == ["Decoder"] and least.notes[0].endswith("modules from depth 0 on are collapsed")


def test_notes_that_were_there_come_first():
    drawn = view(decoder(12).replace(notes=("no numbers",)), max_nodes=30)
    assert drawn.notes[0] == "no numbers" and len(drawn.notes) == 2


def test_what_cannot_be_made_small_enough_is_refused_with_a_way_on():
    y = x = Tensor(np.ones(2, np.float32), requires_grad=True)
    for _ in range(20_000):
        y = y + x
    full = viz.trace(y.sum(), numbers=False)
    with pytest.raises(GraphTooLarge, match=r"20,002 of 20,002 nodes are left with no module call .* max_nodes=2,000") as error:
        view(full, max_nodes=2000)
    ways = "larger max_nodes", 'view="modules"', "smaller input", '.save("graph.json")'
    assert all(way in str(error.value) for way in ways)
    assert len(view(full, "modules", max_nodes=20_002).nodes) == 20_002
    with pytest.raises(GraphTooLarge, match="5 of 37 nodes are left with all modules collapsed"):
        view(decoder(1), max_nodes=4)


@pytest.mark.parametrize("levels", [3000])
def test_deep_nests_are_no_danger(levels):
    modules = tuple(Module(f"m{i}", ".".join("m" * i), "M", f"m{i - 1}" if i else "", order=i) for i in range(levels))
    names = [f"m{i}/neg" for i in reversed(range(levels))]
    nodes = tuple(Node(id, "op", "neg", "neg", module=id[:-4], order=levels + i) for i, id in enumerate(names))
    full = Graph(nodes, tuple(Edge(a, b) for a, b in zip(names, names[1:])), modules)
    assert len(view(full, max_nodes=100).nodes) == 100
    assert len(view(full, depth=0).nodes) == 1


@pytest.mark.parametrize(
    "wrong, says",
    [
        ({"view": "layers"}, "view is one of 'ops', 'modules', 'blocks', not 'layers'"),
        ({"depth": -1}, "depth is None or a whole number from 0 up, not -1"),
        ({"depth": True}, "depth is None"),
        ({"fold": "all"}, "fold is 'auto', 'first', 'off' or a whole number from 2 up, not 'all'"),
        ({"fold": 1}, "from 2 up, not 1"),
        ({"fold": True}, "not True"),
        ({"max_nodes": 0}, "max_nodes is None (no limit) or a whole number from 1 up, not 0"),
        ({"collapse": ["blocks.*.atn"]}, "'blocks.*.atn' matches no module of this graph; near: blocks.1.attn, blocks.0.attn"),
        ({"collapse": ["zzz"]}, "near: Decoder, token_embedding"),
        ({"collapse": 3}, "collapse takes patterns of module paths such as 'blocks.*.attn', not 3"),
    ],
)
def test_wrong_values_are_named_with_what_is_allowed(wrong, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        view(decoder(), **wrong)


def test_a_graph_without_modules_says_so():
    x = Tensor(np.ones(2, np.float32), requires_grad=True)
    with pytest.raises(ValueError, match="it has no module calls"):
        view(viz.trace((x * x).sum()), collapse=["blocks"])


def test_a_view_of_a_view():
    once = view(decoder(12), "modules", fold="off")
    assert view(once, "modules", fold="off") == once
    again = view(once, depth=1)
    assert [(n.id, n.ops, n.badge, n.parameters, n.kept, n.shape) for n in again.nodes] == [
        (n.id, n.ops, n.badge, n.parameters, n.kept, n.shape) for n in view(decoder(12), depth=1).nodes
    ]  # fmt: skip
    check(decoder(12), again)
    for how in VIEWS:  # badges, and what a fold holds, are added up
        check(decoder(12), view(view(decoder(12), "blocks"), how, depth=0))


def test_a_box_around_an_op_that_failed_has_failed():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.good, self.bad = nn.Linear(3, 3), nn.Linear(4, 4)

        def forward(self, x):
            return self.bad(self.good(x))

    with pytest.raises(ValueError, match="inner sizes"), viz.record() as tape:
        Broken()(Tensor(np.ones((2, 3), np.float32)))
    drawn = view(viz.trace(tape), "modules")
    assert {node.id: node.failed for node in drawn.nodes if node.kind == "module"} == {"good": False, "bad": True}
    assert [node.failed for node in view(viz.trace(tape), depth=0).nodes if node.kind == "module"] == [True]
