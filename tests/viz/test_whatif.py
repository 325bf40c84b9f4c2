"""What becomes of a model when one of its modules returns zeros: true numbers, and a model left as it was."""

import re

import numpy as np
import pytest

import viz
import viz.collapse
from tinygrad_tf import Tensor, manual_seed, nn
from tinygrad_tf.engine import state
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.random import default
from viz.graph import Graph
from viz.whatif import what_if

IDS = np.arange(12).reshape(2, 6) % 11


def decoder(**more):
    config = {"vocab_size": 11, "block_size": 6, "n_layer": 2, "n_head": 2, "n_embd": 8, **more}
    return Decoder(DecoderConfig(**config), np.random.default_rng(0))


def plain():
    manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))


X = np.random.default_rng(1).standard_normal((2, 3)).astype(np.float32)


def fact(comparison, words):
    (found,) = [line for line in comparison.facts if words in line]
    return found


# ------------------------------------------------------------------------------------------------ what it says


def test_a_residual_block_without_its_branch_is_the_identity():
    c = what_if(decoder(), IDS, zero="blocks.0.attn")
    said = "with blocks.0.attn set to zero, the sum after it (blocks.0/residual) equals what came in: max |y − x| = 0"
    assert said in str(c).splitlines() and said in c.graph.notes
    rows = {change.node: change for change in c.changes}
    assert rows["blocks.0.attn/attention"].difference == 0  # what comes before it is the same
    assert rows["blocks.0/residual"].difference > 0
    assert rows["blocks.0/residual"].after == rows["Decoder/add"].before  # the stream passes
    assert rows["lm_head/linear"].difference > 0


def test_the_numbers_are_those_of_a_model_without_the_branch():
    model = decoder()
    c = what_if(model, IDS, zero="blocks.1.ffn")
    for p in model.blocks[1].ffn.parameters():
        p.array[...] = 0
    want = model.eval()(IDS).array
    end = c.after["output/y"] if "output/y" in c.after.by_id else next(n for n in c.after.nodes if n.kind == "output")
    assert end.value == viz.graph.Numbers.of(want)


def test_without_a_skip_nothing_gets_past():
    c = what_if(plain(), X, zero="2")
    assert fact(c, "nothing of the input") == (
        "with 2 set to zero, nothing of the input gets past it: all 2 values after it are the same whatever comes in"
    )
    other = what_if(plain(), 5 * X, zero="2")
    ends = [{row.node: row for row in each.changes}["4/linear"] for each in (c, other)]
    assert ends[0].after == ends[1].after and ends[0].before != ends[1].before
    assert fact(what_if(plain(), X, zero="4"), "the result is zero")


def test_a_value_that_reaches_on_another_way():
    class Both(nn.Module):
        def __init__(self):
            self.f = nn.Linear(3, 3)

        def forward(self, x):
            return self.f(x) * (x + 1.0)

    c = what_if(Both(), X, zero="f")
    assert "another way" in str(c)


def test_a_norm_on_the_branch_with_a_bias_is_not_the_identity():
    block = nn.Residual(nn.Linear(3, 3), after=nn.LayerNorm(3))
    block.after.bias.array[...] = 0.5
    c = what_if(block, X, zero="branch")
    assert "is not what came in: max |y − x| = 0.5" in str(c)


def test_gradients_of_a_loss_are_compared():
    model = decoder()
    c = what_if(model, (IDS, IDS), zero="blocks.*.ffn", call=model.loss)
    loss = model.eval().loss(IDS, IDS)
    loss.backward()
    norm = np.sqrt(np.square(model.token_embedding.weight.grad.array, dtype=np.float64).sum())
    line = fact(c, "the gradient that reaches token_embedding.weight")
    assert f"norm {norm:.4g} as it is" in line
    assert fact(c, "the result:").startswith(f"the result: {loss.item():.4g} as it is")
    model.train()
    assert c.before["parameter/token_embedding.weight"].grad == viz.graph.Numbers.of(model.token_embedding.weight.grad.array)
    cut = c.after["parameter/blocks.0.ffn.up.weight"].grad
    assert (cut.norm, cut.nonfinite) == (0, 0)  # the branch is still there, and learns nothing


def test_the_gradient_to_an_input():
    class Loss(nn.Module):
        def __init__(self):
            self.f = nn.Linear(3, 3)

        def forward(self, x):
            return nn.residual(x, self.f(x)).sum()

    c = what_if(Loss(), X, zero="f")
    assert c.after["input/x"].grad.mean == 1.0  # the skip alone: each number counts once
    assert f"{np.sqrt(6):.4g} with f set to zero" in fact(c, "the gradient that reaches x")


def test_an_output_that_is_not_finite():
    class Bad(nn.Module):
        def forward(self, x):
            with np.errstate(all="ignore"):
                return (x * 0.0).log() * x

    class Around(nn.Module):
        def __init__(self):
            self.bad = Bad()

        def forward(self, x):
            return nn.residual(x, self.bad(x))

    with np.errstate(all="ignore"):
        c = what_if(Around(), X, zero="bad")
    assert "equals what came in: max |y − x| = 0" in str(c)
    assert c.after["bad/mul#2"].value.nonfinite == 6 and c.after["Around/residual"].value.nonfinite == 0
    assert Graph.from_json(c.graph.to_json()).notes == c.graph.notes


def test_a_module_that_returns_several():
    class Pair(nn.Module):
        def forward(self, x):
            return x * 2, {"more": x.exp(), "none": None}

    class Around(nn.Module):
        def __init__(self):
            self.pair = Pair()

        def forward(self, x):
            a, b = self.pair(x)
            return x + a + b["more"]

    c = what_if(Around(), X, zero="pair")
    assert sum(node.label == "set to zero" for node in c.after.nodes) == 2
    assert c.after["Around/add#2"].value.first == viz.graph.Numbers.of(X).first


# ------------------------------------------------------------------------------------------------ the picture


def test_both_runs_stand_side_by_side():
    c = what_if(decoder(), IDS, zero="blocks.0.attn")
    tops = [module for module in c.graph.modules if not module.parent]
    assert [module.kind for module in tops] == ["Decoder, as it is", "Decoder, with blocks.0.attn set to zero"]
    assert len(c.graph.nodes) == len(c.before.nodes) + len(c.after.nodes)
    assert len(c.after.nodes) == len(c.before.nodes) + 1  # the zeros
    assert c.graph.skip_count == c.before.skip_count + c.after.skip_count == 8
    sides = {edge.source.split("/")[0] == edge.target.split("/")[0] for edge in c.graph.edges}
    assert sides == {True}
    assert Graph.from_json(c.graph.to_json()) == c.graph
    zeros = [node for node in c.graph.nodes if node.label == "set to zero"]
    assert [node.id for node in zeros] == ["with blocks.0.attn set to zero/blocks.0.attn/where"]


def test_it_is_drawn_and_saved(tmp_path):
    c = what_if(plain(), X, zero="2", view="modules", theme="dark")
    dot = c.draw().dot
    assert "set to zero" in dot and "#16181B" in dot
    assert "#FFFFFF" in c.draw(theme="light").dot
    path = c.save(tmp_path / "what if.dot")
    assert path.read_text(encoding="utf-8") == dot
    assert what_if(plain(), X, zero="2", view="modules", theme="dark").draw().dot == dot


# ------------------------------------------------------------------------------------------------ the model is left alone


@pytest.mark.parametrize("training", [False, True])
def test_the_model_is_as_it_was(training):
    model = decoder(dropout=0.3)
    model.blocks[0].eval()
    own = np.random.default_rng(5)
    model.dropout.generator = own
    model.loss(IDS, IDS).backward()
    modes = [(vars(m).get("training"), m.training) for m in model.modules()]
    values = {name: (p.array.copy(), p.grad, p.grad.array.copy()) for name, p in model.named_parameters()}
    states = default().bit_generator.state, own.bit_generator.state
    what_if(model, (IDS, IDS), zero="blocks.*.attn", call=model.loss, training=training)
    assert [(vars(m).get("training"), m.training) for m in model.modules()] == modes
    assert (default().bit_generator.state, own.bit_generator.state) == states
    for name, p in model.named_parameters():
        array, grad, numbers = values[name]
        np.testing.assert_array_equal(p.array, array)
        assert p.grad is grad
        np.testing.assert_array_equal(p.grad.array, numbers)
    assert all("_hooks" not in vars(m) for m in model.modules())
    assert state.observer is None and state.scope is None


def test_both_runs_draw_the_same_random_numbers():
    c = what_if(decoder(dropout=0.3), IDS, zero="blocks.1.ffn", training=True)
    assert "dropout/dropout" in c.before.by_id
    rows = {change.node: change for change in c.changes}
    before_it = c.changes[: list(rows).index("blocks.1.ffn.down/linear")]
    assert all(change.difference == 0 for change in before_it)
    assert "dropout/dropout" not in what_if(decoder(dropout=0.3), IDS, zero="blocks.1.ffn").before.by_id


def test_after_an_error_the_model_is_as_it_was():
    class Fails(nn.Module):
        def __init__(self):
            self.f = nn.Linear(3, 3)

        def forward(self, x):
            if len(vars(self.f).get("_hooks", {}).get("after", ())):
                raise RuntimeError("in the second run")
            return self.f(x)

    model = Fails()
    with pytest.raises(RuntimeError, match="in the second run"):
        what_if(model, X, zero="f")
    assert model.training and model.f.training and "_hooks" not in vars(model.f)
    assert "training" not in vars(model)
    assert state.observer is None


def test_a_hook_of_the_readers_stays():
    model, seen = plain(), []
    model[2].register_forward_hook(lambda module, args, out: seen.append(out.shape))
    what_if(model, X, zero="2")
    assert len(seen) == 2
    model(Tensor(X))
    assert len(seen) == 3


# ------------------------------------------------------------------------------------------------ what cannot be


@pytest.mark.parametrize("zero,reason", [
    ("blocks.0.atn", "near: blocks.0.attn"), ("nothing", "matches no module of this Decoder"),
    ("blocks", r"is a list of modules.*blocks\.\*"), ([], "names no module"), ("", "matches no module"),
    (["blocks.0.attn", "blocks.9.attn"], "near: blocks"),
])  # fmt: skip
def test_a_name_that_fits_nothing(zero, reason):
    with pytest.raises(ValueError, match=reason):
        what_if(decoder(), IDS, zero=zero)


def test_a_module_that_is_not_called():
    class Idle(nn.Module):
        def __init__(self):
            self.used, self.idle = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            return self.used(x)

    with pytest.raises(ValueError, match="'idle': this module was not called"):
        what_if(Idle(), X, zero="idle")


def test_several_patterns():
    c = what_if(decoder(), IDS, zero=["blocks.*.attn", "blocks.*.ffn"])
    said = [line for line in c.facts if "equals what came in: max |y − x| = 0" in line]
    assert len(said) == 4
    assert "blocks.*.attn, blocks.*.ffn" in c.graph.title


class Partly(nn.Module):
    """Of its list, only the first is called."""

    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])

    def forward(self, x):
        return x + self.parts[0](x)


def test_a_pattern_passes_over_what_is_not_called():
    c = what_if(Partly(), X, zero="parts.*")
    assert fact(c, "equals") == "with parts.0 set to zero, the sum after it (Partly/add) equals what came in: max |y − x| = 0"
    with pytest.raises(ValueError, match="'parts.1': this module was not called"):
        what_if(Partly(), X, zero=["parts.0", "parts.1"])
    with pytest.raises(ValueError, match=re.escape("'parts.[1]': none of parts.1 was called")):
        what_if(Partly(), X, zero="parts.[1]")


@pytest.mark.parametrize("zero", ["*", "blocks.*"])
def test_the_advice_to_name_what_is_in_a_list_can_be_followed(zero):
    with pytest.raises(ValueError, match=r"as blocks\.\*"):
        what_if(decoder(), IDS, zero="blocks")
    assert what_if(decoder(), IDS, zero=zero).facts


def test_a_sum_that_is_no_residual_names_what_is_left():
    c = what_if(decoder(), IDS, zero="token_embedding")
    assert "the sum after it (Decoder/add) equals position_embedding alone: max |y − x| = 0" in fact(c, "the sum after it")


@pytest.mark.parametrize(("model", "options", "error", "words"), [
    (Tensor([1.0]), {}, TypeError, "takes a model, an nn.Module, not Tensor"),
    (None, {"zero": None}, TypeError, "zero is the path of a module.*not None"),
    (None, {"zero": 3}, TypeError, "not 3"),
    (None, {"zero": ["0", 3]}, TypeError, "zero is the path of a module"),
    (None, {"view": "block"}, ValueError, "view='block' is none of ops, modules, blocks"),
    (None, {"view": "scalars"}, ValueError, "view='scalars' is none of"),
    (None, {"vew": "ops"}, TypeError, "no option 'vew'"),
])  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_runs(model, options, error, words):
    ran = []
    given = plain()
    given.register_forward_hook(lambda *_: ran.append(1))
    with pytest.raises(error, match=words) as caught:
        what_if(given if model is None else model, X, **{"zero": "0", **options})
    assert not ran and "\n" not in str(caught.value)


@pytest.mark.parametrize(("zero", "options", "labels"), [
    ("blocks.0.attn", {"view": "blocks"}, ["Block, attn set to zero"]),
    ("blocks.0.attn", {"view": "modules"}, []),  # the op itself is drawn
    ("blocks.0", {"view": "blocks"}, ["Block, set to zero"]),
    ("blocks.*.attn", {"view": "blocks", "fold": 2}, ["Block ×2 (blocks.0 … 1), attn set to zero"]),
    (["blocks.0.attn", "blocks.0.ffn"], {"view": "blocks"}, ["Block, attn and ffn set to zero"]),
    ("blocks.0.*", {"view": "blocks"}, None),
    ("blocks.0.attn", {"depth": 0}, ["Decoder, with blocks.0.attn set to zero"]),
])  # fmt: skip
def test_a_box_says_that_an_output_in_it_was_set_to_zero(zero, options, labels):
    drawn = what_if(decoder(), IDS, zero=zero, **options).draw().graph
    said = [node.label for node in drawn.nodes if node.kind in ("module", "fold") and node.label.endswith("set to zero")]
    if labels is None:
        assert len(said) == 1 and re.fullmatch(r"Block, \d+ modules set to zero", said[0])
    elif labels:
        assert said == labels
    else:
        assert any("set to zero" in node.label for node in drawn.nodes)


def test_a_box_of_a_box_says_it_too():
    c = what_if(decoder(), IDS, zero="blocks.0.attn.out_proj")
    once = viz.collapse.view(c.graph, collapse="*.attn", fold="off")
    twice = viz.collapse.view(once, view="blocks", fold="off")
    (inner,) = [node.label for node in once.nodes if node.kind == "module" and node.label.endswith("zero")]
    (outer,) = [node.label for node in twice.nodes if node.kind == "module" and node.label.endswith("zero")]
    assert inner.endswith(", out_proj set to zero") and outer == "Block, attn.out_proj set to zero"


def test_boxes_side_by_side_have_straight_streams_and_short_names():
    import json

    from viz import layout
    from viz.words import short

    drawing = what_if(decoder(), IDS, zero="blocks.0.attn").draw(view="blocks")
    out = json.loads(layout.run(drawing.dot, "json"))
    across = {item["name"]: item["pos"].split(",")[0] for item in out["objects"] if "pos" in item}
    for box in (node for node in drawing.graph.nodes if node.rail):
        assert across[f"{box.id}/in"] == across[f"{box.id}/out"]
        assert short(box, drawing.graph) in ("blocks.0", "blocks.1")
    clusters = [item for item in out["objects"] if item["name"].startswith("cluster_")]
    inside = {out["objects"][i]["name"] for item in clusters for i in item["nodes"]}
    assert all(f"{node.id}/out" in inside for node in drawing.graph.nodes if node.rail)
    assert sum(node.rail for node in drawing.graph.nodes) == 4


def test_buffers_are_as_they_were():
    class Model(nn.Module):
        def __init__(self):
            self.norm, self.out = nn.BatchNorm1d(3), nn.Linear(3, 1)

        def forward(self, x):
            return (x + self.norm(x)).sum()

    model, x = Model(), Tensor(np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32))
    before = [buffer.array.copy() for buffer in model.buffers()]
    what_if(model, inputs=x, zero="norm", training=True)
    for buffer, array in zip(model.buffers(), before, strict=True):
        np.testing.assert_array_equal(buffer.array, array)
