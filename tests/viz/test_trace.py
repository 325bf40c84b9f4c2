"""Tracing: what is in the graph, how it is called, and that looking changes nothing."""

import os
import re
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import viz
from tinygrad_tf import Tensor, composed, grad, manual_seed, nn, no_grad
from tinygrad_tf.engine import history
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.optim import SGD
from tinygrad_tf.random import default
from viz import explain
from viz.graph import Graph, Numbers
from viz.record import record, replay

SMALL = DecoderConfig(vocab_size=11, block_size=6, n_layer=2, n_head=2, n_embd=8)
IDS = np.arange(12).reshape(2, 6) % 11


def leaf(*shape, salt=0):
    return Tensor(np.random.default_rng(salt).standard_normal(shape).astype(np.float32), requires_grad=True)


def decoder(**more):
    return Decoder(DecoderConfig(**{**vars(SMALL), **more}), np.random.default_rng(0))


def kinds(graph, kind):
    return [node.id for node in graph.nodes if node.kind == kind]


def links(graph):
    return [edge.key for edge in graph.edges]


# ------------------------------------------------------------------------------------------------ names and identity


def test_names_are_the_readers_variables():
    a, b = leaf(3), leaf(3, salt=1)
    c = a * b
    d = c.sum()
    g = viz.trace(d)
    assert [node.id for node in g.nodes] == ["input/a", "input/b", "mul", "sum"]
    assert [node.name for node in g.nodes] == ["a", "b", "c", "d"]
    assert [edge.name for edge in g.edges] == ["a", "b", "x"]


def test_names_given_win_and_underscores_are_nobodys():
    a, _b = leaf(3), leaf(3, salt=1)
    g = viz.trace((a * _b).sum(), names={"weight of 猫": a})
    assert g.nodes[0].name == "weight of 猫"
    assert g.nodes[1].name == ""


def test_two_leaves_of_one_name_are_two_nodes():
    w = leaf(3)
    first, w = w * 2, leaf(3, salt=1)
    loss = (first * w).sum()
    old = first.node.inputs[0]
    g = viz.trace(loss, names={"w": w})
    again = viz.trace(loss, names={"w ": old})
    assert len(kinds(g, "input")) == 2
    assert len(kinds(again, "input")) == 2
    both = [node.name.strip() for node in again.nodes if node.kind == "input"]
    assert both == ["w", "w"]


def test_parameters_of_one_name_in_two_models_are_two_nodes():
    one, two = nn.Linear(2, 2), nn.Linear(2, 2)
    g = viz.trace(two(one(leaf(1, 2))).sum())
    assert kinds(g, "parameter") == ["parameter/weight", "parameter/bias", "parameter/weight#2", "parameter/bias#2"]
    assert len({module.id for module in g.modules}) == 2


def test_a_tied_weight_is_one_node_with_two_edges():
    g = viz.trace(decoder(tied=True).loss(IDS, IDS))
    tied = [id for id in kinds(g, "parameter") if "token_embedding" in id or "lm_head" in id]
    assert tied == ["parameter/token_embedding.weight"]
    assert [edge.target for edge in g.outgoing[tied[0]]] == ["token_embedding/embedding", "lm_head/linear"]
    assert g[tied[0]].parameters == 11 * 8
    untied = viz.trace(decoder(tied=False).loss(IDS, IDS))
    assert "parameter/lm_head.weight" in untied.by_id


def test_a_square_has_two_edges():
    x = Tensor(3.0, requires_grad=True)
    g = viz.trace(x * x)
    assert links(g) == [("input/x", "mul", 0), ("input/x", "mul", 1)]
    assert [edge.grad.item for edge in g.edges] == [3.0, 3.0]


def test_a_hundred_doublings_are_a_hundred_nodes():
    y = x = Tensor(1.0, requires_grad=True)
    for _ in range(100):
        y = y + y
    g = viz.trace(y)
    assert len(kinds(g, "op")) == 100 and len(g.edges) == 200 and g["input/x"].value.item == x.item()
    assert g.edges[0].grad.item == g.edges[1].grad.item == Numbers.of(2.0**99).item


def test_a_module_called_twice_is_two_calls():
    class Twice(nn.Module):
        def __init__(self):
            self.f = nn.Linear(3, 3, False)

        def forward(self, x):
            return self.f(self.f(x))

    g = viz.trace(Twice(), inputs=np.ones((1, 3), np.float32))
    assert [module.id for module in g.modules] == ["Twice", "f", "f#2"]
    assert [module.path for module in g.modules] == ["", "f", "f"]
    assert kinds(g, "op") == ["f/linear", "f#2/linear"]
    assert kinds(g, "parameter") == ["parameter/f.weight"]
    assert [edge.target for edge in g.outgoing["parameter/f.weight"]] == ["f/linear", "f#2/linear"]


def test_modules_nest_as_their_calls_do():
    g = viz.trace(decoder(), inputs=IDS)
    assert g.module_by_id["blocks.1.attn.q_proj"].parent == "blocks.1.attn"
    assert g.module_by_id["blocks.1.attn"].parent == "blocks.1"
    assert g.module_by_id["blocks.1"].parent == "Decoder"
    assert g.module_by_id["Decoder"].parameters == sum(p.array.size for p in decoder().parameters())
    assert [m.kind for m in g.modules_around("blocks.1.attn.q_proj")] == ["Linear", "MultiHeadAttention", "Block", "Decoder"]
    assert [m.order for m in g.modules] == sorted(m.order for m in g.modules)


def test_a_constant_is_drawn_once_a_use_and_has_no_gradient():
    x = Tensor(3.0, requires_grad=True)
    g = viz.trace(x * 2 + x**2)
    assert kinds(g, "constant") == ["mul/b", "pow/b"]
    assert [g[id].label for id in kinds(g, "constant")] == ["2", "2"]
    assert all(g[id].grad is None and not g[id].trained for id in kinds(g, "constant"))


def test_data_is_one_node_with_its_name():
    x, target = Tensor(np.ones((2, 3), np.float32)), Tensor(7.0)
    w = leaf(3)
    g = viz.trace(((x * w - target) ** 2 + x).sum())
    assert kinds(g, "input") == ["input/x", "input/w", "input/target"]
    assert len(g.outgoing["input/x"]) == 2
    assert not g["input/x"].trained and g["input/w"].trained
    assert g["input/target"].value.item == 7.0


def test_settings_are_shown_and_arrays_among_them_are_edges():
    x, mask = leaf(2, 3), np.array([[True, False, True], [True, True, True]])
    g = viz.trace(x.masked_fill(mask, 0.0).sum(dim=1, keepdim=True).sum())
    assert g["sum"].settings == {"dim": "1", "keepdim": "True"}
    assert any(edge.name == "condition" for edge in g.incoming["where"])


# ------------------------------------------------------------------------------------------------ numbers


def test_values_gradients_and_shares_are_the_engines():
    model = decoder()
    loss = model.loss(IDS, IDS)
    loss.backward(retain_graph=True)
    g = viz.trace(loss)
    entries = replay(loss.node, {})
    calls = history(loss.node)[::-1]
    names = dict(model.named_parameters())
    for node, call in zip([node for node in g.nodes if node.kind == "op"], calls, strict=True):
        assert (node.op, node.shape, node.dtype) == (call.op.name, call.shape, str(call.dtype))
        assert node.value == Numbers.of(entries[call].value) and node.grad == Numbers.of(entries[call].grad)
        for edge in g.incoming[node.id]:
            share = entries[call].shares.get(edge.slot)
            assert edge.grad == (Numbers.of(share) if share is not None else None)
    for id in kinds(g, "parameter"):
        assert g[id].grad == Numbers.of(names[g[id].name].grad.numpy())
        assert g[id].value == Numbers.of(names[g[id].name].array)
    assert g.nodes[-1].loss and g.nodes[-1].value.item == Numbers.of(loss.array).item
    assert [node.id for node in g.nodes if node.loss] == [g.nodes[-1].id]


def test_a_recorded_graph_and_a_replayed_one_are_the_same():
    model = decoder()
    with record():
        seen = model.loss(IDS, IDS)
    seen.backward()
    gradients = [p.grad for p in model.parameters()]
    model.zero_grad()
    plain = model.loss(IDS, IDS)
    for p, g in zip(model.parameters(), gradients):
        p.grad = g

    def bare(graph):  # a recording knows the lines
        from dataclasses import replace

        return graph.replace(nodes=tuple(replace(node, line="", name="") for node in graph.nodes))

    assert bare(viz.trace(seen)) == bare(viz.trace(plain))


def test_an_unset_gradient_is_none_and_a_zero_one_is_zero():
    x, y = Tensor(2.0, requires_grad=True), Tensor(3.0, requires_grad=True)
    z = x * 0 + y
    before = viz.trace(z)
    assert before["input/x"].grad is None and before["input/y"].grad is None
    z.backward(retain_graph=True)
    after = viz.trace(z)
    assert after["input/x"].grad.item == 0.0 and after["input/y"].grad.item == 1.0


def test_numbers_can_be_left_out():
    x = leaf(3)
    loss = (x * 2).sum()
    g = viz.trace(loss, numbers=False)
    assert g["mul"].value is None and g["mul"].grad is None


def test_full_numbers():
    x = leaf(30)
    loss = (x * 2).sum()
    assert len(viz.trace(loss)["mul"].value.first) == 6
    assert len(viz.trace(loss, full=True)["mul"].value.first) == 30


def test_values_that_are_not_finite_are_counted():
    x = Tensor([0.0, 1.0, -1.0], requires_grad=True)
    with np.errstate(all="ignore"):
        loss = x.log().sum()
    with np.errstate(all="raise"):  # looking at it makes no noise
        g = viz.trace(loss)
    assert g["log"].value.nonfinite == 2
    assert repr(Graph.from_json(g.to_json())) == repr(g)


# ------------------------------------------------------------------------------------------------ nothing changes


def test_tracing_changes_no_value_no_gradient_and_no_generator():
    model = decoder(dropout=0.1)
    loss = model.loss(IDS, IDS)
    loss.backward(retain_graph=True)
    state = default().bit_generator.state
    values = {name: p.array.copy() for name, p in model.named_parameters()}
    gradients = {name: (p.grad, p.grad.array.copy()) for name, p in model.named_parameters()}
    viz.trace(loss, full=True)
    assert default().bit_generator.state == state
    for name, p in model.named_parameters():
        np.testing.assert_array_equal(p.array, values[name])
        assert p.grad is gradients[name][0]
        np.testing.assert_array_equal(p.grad.array, gradients[name][1])
    again = {name: 2 * g for name, (_, g) in gradients.items()}
    loss.backward()  # the graph was not freed
    for name, p in model.named_parameters():
        np.testing.assert_array_equal(p.grad.array, again[name])


def test_tracing_a_module_leaves_it_and_its_inputs_alone():
    model, x = nn.Linear(3, 2), Tensor(np.ones((1, 3), np.float32))
    viz.trace(model, inputs=x)
    assert x.grad is None and not x.requires_grad and x.node is None
    assert all(p.grad is None for p in model.parameters())
    assert model.training and "_hooks" not in vars(model)


def test_a_graph_that_backward_has_freed():
    x, w = leaf(4, 3), leaf(3, 2, salt=1)
    loss = (x @ w).tanh().sum()
    whole = viz.trace(loss)
    loss.backward()
    g = viz.trace(loss)
    assert links(g) == links(whole) and [n.value for n in g.nodes] == [n.value for n in whole.nodes]
    assert [n.kept for n in g.nodes] == [n.kept for n in whole.nodes]
    assert g["input/w"].grad == Numbers.of(w.grad.numpy())


def test_a_leaf_changed_in_place_after_the_graph_was_made():
    x = leaf(3)
    loss = (x * 2).sum()
    loss.backward()
    with no_grad():
        x -= 1
    g = viz.trace(loss)
    assert kinds(g, "op") == ["mul", "sum"]
    assert all(g[id].value is None for id in kinds(g, "op"))
    assert len(g.notes) == 1 and "changed in place" in g.notes[0]
    assert "no numbers: " in g.notes[0] and "test_trace.py:" in g.notes[0]
    remedy = r"as opt\.step\(\) does\. Run the model inside viz\.record\(\), or draw before that"
    assert re.search(remedy, g.notes[0])
    with pytest.raises(RuntimeError, match=remedy):
        viz.trace(loss, numbers=True)
    with pytest.raises(RuntimeError, match="fused=False computes the graph again.*Draw before that"):
        viz.trace(loss, fused=False)


def test_what_was_recorded_is_known_after_the_leaf_has_changed():
    x = leaf(3)
    with record():
        loss = (x * 2).sum()
    value = loss.item()
    loss.backward()
    with no_grad():
        x -= 1
    g = viz.trace(loss)
    assert g["sum"].value == Numbers.of(np.float32(value)) and g["input/x"].value is None
    assert g.notes == ("the values of 1 input were changed after this graph was made and are left out; "
                       "draw before that to see them",)  # fmt: skip


def test_no_arithmetic_of_a_step_that_came_later():
    """2 · w after w went from 3 to 2 is not 6: the factor that is gone is not told."""
    w = nn.Parameter(np.float32(3.0))
    unchanged = Tensor(2.0, requires_grad=True)
    with record():
        loss = w * unchanged
    loss.backward()
    SGD([w], lr=0.5).step()
    assert w.item() == 2.0
    g = viz.trace(loss)
    assert g["mul"].value.item == 6.0 and g["input/unchanged"].value.item == 2.0
    assert next(node for node in g.nodes if node.kind == "parameter").value is None
    assert "of 1 parameter were changed" in g.notes[0]
    assert "· 2 = 6" not in explain.forward(g["mul"], g)


def test_what_was_changed_before_the_op_ran_is_its_value():
    x = leaf(3)
    with no_grad():
        x -= 1
    with record():
        loss = (x * 2).sum()
    g = viz.trace(loss)
    assert g["input/x"].value == Numbers.of(x.array) and g.notes == ()


def test_values_that_were_recorded_do_without_the_gradients_that_cannot_be_computed_any_more():
    x = leaf(3)
    with record():
        loss = (x * 2).sum()
    with no_grad():
        x -= 1
    g = viz.trace(loss, numbers=True)
    assert g["sum"].value is not None and g["sum"].grad is None
    assert g.notes[0].startswith("no gradients: ") and "viz.record" not in g.notes[0]


@pytest.mark.parametrize("recorded", [True, False])
def test_a_grad_that_holds_more_than_what_this_graph_sent_says_so(recorded):
    model, x = nn.Linear(3, 2), Tensor(np.ones((4, 3), np.float32))

    def noted():
        with record() if recorded else nullcontext():
            loss = model(x).square().mean() + model.weight.sum()
        loss.backward(retain_graph=True)
        return viz.trace(loss, numbers=True).notes

    assert noted() == ()
    (said,) = noted()
    assert said.startswith("the .grad of 2 leaves is not what this graph sent: it was accumulated")
    model.zero_grad()
    assert noted() == ()


def test_where_gradients_meet_no_total_is_told_that_other_graphs_are_in():
    x = leaf(3)
    for total in (True, False):
        with record():
            loss = (x * x + x).sum()
        loss.backward()
        g = viz.trace(loss)
        assert ("together" in explain.backward(g["input/x"], g)) == total


@pytest.mark.parametrize(("options", "words"), [
    ({"names": ["a"]}, r"names gives a tensor for each name"), ({"names": {1: 2}}, "names gives a tensor"),
    ({"title": 3}, "title is a text, not 3"), ({"title": None}, "title is a text, not None"),
])  # fmt: skip
def test_names_and_titles_that_are_none(options, words):
    x = leaf(3)
    with pytest.raises(TypeError, match=words) as caught:
        viz.trace(x * 2, **options)
    assert "\n" not in str(caught.value)


def test_half_a_surrogate_pair_is_no_name():
    x = leaf(3)
    g = viz.trace(x * 2, names={"a\ud800": x}, title="\udfff")
    assert g["input/a\ufffd"].name == "a\ufffd" and g.title == "\ufffd"
    g.to_json().encode("utf-8")


def test_a_tape_under_no_grad_names_it():
    with no_grad(), record() as tape:
        leaf(3) * 2
    with pytest.raises(TypeError, match=r"no op call.*no_grad\(\)"):
        viz.trace(tape)


def test_the_graph_of_a_gradient():
    x = Tensor(2.0, requires_grad=True)
    (first,) = grad(x**3, x, create_graph=True)
    g = viz.trace(first)
    assert g.nodes[-1].value.item == 12.0
    first.backward()
    assert viz.trace(first)["input/x"].grad.item == 12.0


def test_after_backward_with_create_graph():
    x = Tensor(2.0, requires_grad=True)
    with record():
        y = x**3
    y.backward(create_graph=True)
    g = viz.trace(y)
    assert g["pow"].value.item == 8.0 and g["input/x"].grad.item == 12.0
    assert viz.trace(x.grad).nodes[-1].value.item == 12.0


# ------------------------------------------------------------------------------------------------ what can be traced


def test_several_roots():
    x = leaf(2, 3)
    h = x.exp()
    a, b = h * 2, h.sum()
    g = viz.trace([a, b])
    assert kinds(g, "op") == ["exp", "mul", "sum"]
    assert kinds(g, "output") == ["output/a"]
    assert not any(node.loss for node in g.nodes)
    assert viz.trace((a, Tensor([1.0]))).by_id.keys() == viz.trace(a).by_id.keys()


@pytest.mark.parametrize("pack", [
    lambda a, b: {"a": a, "b": b}, lambda a, b: (a, b), lambda a, b: [a, {"inner": (b, None, 3)}],
])  # fmt: skip
def test_a_module_that_returns_a_structure(pack):
    class Two(nn.Module):
        def forward(self, x):
            return pack(x * 2, x.exp())

    g = viz.trace(Two(), inputs=np.ones(3, np.float32))
    assert kinds(g, "op") == ["Two/mul", "Two/exp"]
    assert len(kinds(g, "output")) == 2


def test_inputs_by_position_and_by_keyword():
    class Mix(nn.Module):
        def forward(self, x, y, scale=2.0):
            return x * scale + y

    x, y = np.ones(3, np.float32), np.ones(3, np.float32)
    one = viz.trace(Mix(), inputs=(x, y))
    two = viz.trace(Mix(), inputs={"x": x, "y": y})
    assert kinds(one, "input") == ["input/x", "input/y"]
    assert one == two


def test_a_tape_holds_every_call_in_order():
    x = leaf(3)
    with record() as tape:
        a = x * 2
        x.exp()
    g = viz.trace(tape)
    assert [node.name for node in g.nodes if node.kind == "op"] == ["a", ""]
    assert kinds(g, "op") == ["mul", "exp"] and kinds(g, "output") == []
    assert a.node in tape.nodes


def test_a_value_made_before_the_recording_is_an_input():
    before = leaf(3).exp()
    with record() as tape:
        before * 2
    g = viz.trace(tape)
    assert kinds(g, "input") == ["input/before"] and kinds(g, "op") == ["mul"]


def test_a_graph_is_returned_as_it_is():
    x = leaf(3)
    g = viz.trace(x.sum())
    assert viz.trace(g) is g


def test_what_has_no_graph_is_refused():
    x = leaf(3)
    with no_grad():
        y = x * 2
    with pytest.raises(TypeError, match="no_grad"):
        viz.trace(y)
    with pytest.raises(TypeError, match="nothing behind it requires a gradient"):
        viz.trace(Tensor([1.0]) * 2)
    for wrong in (3, "x", None, [], [x, 3], np.ones(3)):
        with pytest.raises(TypeError, match="takes a Tensor"):
            viz.trace(wrong)
    with pytest.raises(TypeError, match="goes with a module"):
        viz.trace(x.sum(), inputs=x)
    with pytest.raises(TypeError, match="give inputs="):
        viz.trace(nn.Linear(2, 2))
    with pytest.raises(TypeError, match="holds no op call"), record() as tape:
        viz.trace(tape)

    class Ints(nn.Module):
        def forward(self, ids):
            return ids

    with pytest.raises(TypeError, match="Ints returned no tensor"):
        viz.trace(Ints(), inputs=np.arange(3))


def test_a_module_is_traced_under_no_grad_too():
    with no_grad():
        g = viz.trace(nn.Linear(3, 2), inputs=np.ones((1, 3), np.float32))
    assert kinds(g, "op") == ["Linear/linear"]


# ------------------------------------------------------------------------------------------------ large, and the same each time


def test_a_chain_of_5_000_ops_needs_no_recursion():
    x = y = Tensor(1.0, requires_grad=True)
    for _ in range(5_000):
        y = y + 0.001
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(200)
    try:
        g = viz.trace(y)
        again = Graph.from_json(g.to_json())
    finally:
        sys.setrecursionlimit(limit)
    assert len(kinds(g, "op")) == 5_000 and again == g
    assert g.nodes[0].id == "input/x" and g.nodes[-1].value.item == pytest.approx(6, rel=1e-2)
    y.backward()
    assert x.grad.item() == 1.0


def test_kept_bytes_count_each_buffer_once():
    x = leaf(100)
    h = x.exp()  # keeps its output
    loss = (h * h).sum()  # keeps it too
    g = viz.trace(loss)
    assert [g[id].kept for id in kinds(g, "op")] == [400, 0, 0]


def test_views_of_a_weight_are_not_counted_as_kept():
    x, w = leaf(5, 3), leaf(4, 3, salt=1)
    loss = (x @ w.T).sum()
    assert sum(node.kept for node in viz.trace(loss).nodes) == 0


@pytest.mark.parametrize("how", ["fused", "composed"])
def test_the_same_model_gives_the_same_graph(how):
    def made():
        manual_seed(0)
        model = decoder(dropout=0.1)
        if how == "fused":
            return viz.trace(model, inputs=IDS).to_json()
        with composed():
            return viz.trace(model, inputs=IDS).to_json()

    assert made() == made()


SCRIPT = """
import numpy as np, viz
from tinygrad_tf import Tensor, manual_seed
from tinygrad_tf.models import Decoder, DecoderConfig
manual_seed(0)
model = Decoder(DecoderConfig(vocab_size=11, block_size=6, n_layer=1, n_head=2, n_embd=8), np.random.default_rng(0))
ids = np.arange(6).reshape(1, 6)
with viz.record() as tape:
    loss = model.loss(ids, ids) * Tensor(2.0, requires_grad=True)
loss.backward()
print(viz.trace(loss).to_json(), viz.trace(tape).to_json(), viz.trace(model, inputs=ids).to_json())
"""


def test_two_processes_with_other_hash_seeds_give_the_same_bytes(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    outputs = []
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONIOENCODING": "utf-8"}
        command = [sys.executable, "script.py"]
        outputs.append(subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, timeout=60, check=True).stdout)
    assert outputs[0] == outputs[1]
    assert b"blocks.0.attn" in outputs[0] and b"script.py:" in outputs[0]
    assert os.fsencode(str(tmp_path)) not in outputs[0]
