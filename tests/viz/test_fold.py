"""Runs of equal module calls: which are folded, which are not, and what the fold says."""

import os
import subprocess
import sys
from functools import reduce
from pathlib import Path

import numpy as np
import pytest

import viz
from tinygrad_tf import Tensor, nn
from tinygrad_tf.models import Decoder, DecoderConfig
from viz.collapse import view


def decoder(layers, order="pre", **changes):
    model = Decoder(DecoderConfig(11, block_size=8, n_layer=layers, n_head=2, n_embd=8, norm_order=order, **changes))
    ids = np.arange(6).reshape(1, 6)
    return viz.trace(model.loss(ids, ids + 1), numbers=False)


def traced(model, *inputs):
    return viz.trace(model, inputs=inputs or np.ones((2, 4), np.float32), numbers=False)


def folds(graph):
    return [node.label for node in graph.nodes if node.kind == "fold"]


class Chain(nn.Module):
    """Its layers one after the other, through `forward` of the test."""

    def __init__(self, layers, run=None):
        self.layers, self.run = nn.ModuleList(layers), run

    def forward(self, x, *more):
        if self.run is not None:
            return self.run(self.layers, x, *more)
        for layer in self.layers:
            x = layer(x)
        return x


def layers(count, make=lambda: nn.Residual(nn.Linear(4, 4))):
    return [make() for _ in range(count)]


@pytest.mark.parametrize("how", ["modules", "blocks"])
def test_twelve_blocks_are_one_box(how):
    full = decoder(12)
    drawn = view(full, how)
    assert [(node.kind, node.label) for node in drawn.nodes if node.kind in ("module", "fold", "op")] == [
        ("module", "Embedding"), ("module", "LearnedPositions"), ("op", "add"), ("fold", "Block ×12 (blocks.0 … 11)"),
        ("module", "LayerNorm"), ("module", "Linear"), ("op", "reshape"), ("op", "cross_entropy"),
    ]  # fmt: skip
    fold, block = drawn["blocks.0..blocks.11"], view(full, "blocks", fold="off")["blocks.0"]
    assert fold.members == tuple(f"blocks.{i}" for i in range(12)) and fold.name == "blocks.0 … 11" and fold.module == "Decoder"
    assert (fold.parameters, fold.ops, fold.kept) == (12 * block.parameters, 12 * block.ops, 12 * block.kept)
    assert fold.shape == (1, 6, 8) and fold.badge == 23 and len(drawn.skips) == 1
    plain, skip = drawn.incoming[fold.id]
    assert (plain.source, skip.source) == ("Decoder/add", "Decoder/add") and skip.skips and not plain.skips
    assert [module.id for module in drawn.modules] == ["Decoder"]


@pytest.mark.parametrize("order, rail", [("pre", True), ("both", True), ("post", False)])
def test_a_rail_where_the_identity_runs_from_end_to_end(order, rail):
    (fold,) = [node for node in view(decoder(4, order), "blocks").nodes if node.kind == "fold"]
    assert fold.rail is rail


def test_no_rail_beside_a_scaled_skip():
    class Halved(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            return nn.residual(x * 0.5, self.layer(x))

    drawn = view(traced(Chain(layers(3, Halved))), "blocks")
    assert folds(drawn) == ["Halved ×3 (layers.0 … 2)"] and drawn.skip_count == 3
    assert not drawn["layers.0..layers.2"].rail


def test_how_many_it_takes():
    assert folds(view(decoder(2), "blocks")) == [] and folds(view(decoder(3), "blocks")) == ["Block ×3 (blocks.0 … 2)"]
    assert folds(view(decoder(2), "blocks", fold=2)) == ["Block ×2 (blocks.0 … 1)"]
    assert folds(view(decoder(4), "blocks", fold=5)) == []
    for off in ("off", None, False):
        assert folds(view(decoder(4), "blocks", fold=off)) == []


def test_ops_are_folded_only_when_asked():
    full = decoder(4)
    assert view(full) is full
    drawn = view(full, fold=3)
    assert folds(drawn) == ["Block ×4 (blocks.0 … 3)"] and "norm/layer_norm" in drawn.by_id


def test_the_first_can_be_kept_open():
    drawn = view(decoder(4), fold="first")
    assert folds(drawn) == ["Block ×3 (blocks.1 … 3)"]
    assert "blocks.0.attn/attention" in drawn.by_id and "blocks.0" in drawn.module_by_id and len(drawn.skips) == 3
    assert folds(view(decoder(2), fold="first")) == []
    drawn = view(decoder(4), "blocks", fold="first")
    assert [node.id for node in drawn.nodes if node.module == "Decoder" and node.kind in ("module", "fold")] == [
        "token_embedding", "position_embedding", "blocks.0", "blocks.1..blocks.3", "norm", "lm_head",
    ]  # fmt: skip


def test_runs_inside_what_stays_open_are_folded():
    inner = lambda: nn.Sequential(*layers(3, lambda: nn.Linear(4, 4)), nn.Tanh())
    drawn = view(traced(nn.Sequential({"a": inner(), "b": nn.LayerNorm(4), "c": inner()})), "modules")
    assert folds(drawn) == ["Linear ×3 (a.0 … 2)", "Linear ×3 (c.0 … 2)"]


def test_a_run_inside_a_folded_or_collapsed_call_is_not_looked_for():
    blocks = layers(3, lambda: nn.Sequential(*layers(3, lambda: nn.Linear(4, 4))))
    full = traced(Chain(blocks))
    assert folds(view(full, "modules")) == ["Sequential ×3 (layers.0 … 2)"]
    assert folds(view(full, "modules", collapse=["layers.1"], fold=4)) == []


@pytest.mark.parametrize(
    "odd",
    [
        lambda: nn.Residual(nn.Linear(4, 4, bias=False)),
        lambda: nn.Residual(nn.Sequential(nn.Linear(4, 4))),
        lambda: nn.Residual(nn.Tanh()),
        lambda: nn.Residual(nn.Linear(4, 4), on_sum=nn.LayerNorm(4)),
        lambda: nn.Sequential(nn.Linear(4, 4)),
        lambda: nn.Residual(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))),
    ],
)  # fmt: skip
def test_what_differs_ends_a_run(odd):
    full = traced(Chain([*layers(3), odd(), *layers(4)]))
    assert folds(view(full, "blocks")) == ["Residual ×3 (layers.0 … 2)", "Residual ×4 (layers.4 … 7)"]


def test_widths_and_settings_must_be_equal():
    wide = lambda hidden: nn.Residual(nn.Sequential(nn.Linear(4, hidden), nn.Linear(hidden, 4)))
    assert folds(view(traced(Chain([wide(n) for n in (4, 8, 4, 8)])), "blocks")) == []
    norms = [nn.LayerNorm(4, eps=eps) for eps in (1e-5, 1e-5, 1e-5, 1e-3)]
    assert folds(view(traced(Chain(norms)), "blocks")) == ["LayerNorm ×3 (layers.0 … 2)"]


def test_one_weight_used_twice_is_not_two_weights():
    class Pair(nn.Module):
        def __init__(self, tied):
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
            if tied:
                self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    assert folds(view(traced(Chain([Pair(tied) for tied in (True, True, False, False)])), "blocks", fold=3)) == []


def test_calls_side_by_side_are_no_run():
    beside = lambda parts, x: parts[0](x) + parts[1](x) + parts[2](x)
    assert folds(view(traced(Chain(layers(3, lambda: nn.Linear(4, 4)), beside)), "blocks")) == []


def test_a_value_used_after_one_call_of_a_run_ends_it():
    def taps(parts, x):
        kept = []
        for part in parts:
            x = part(x)
            kept.append(x)
        return x * kept[3]

    full = traced(Chain(layers(8), taps))
    drawn = view(full, "blocks")
    assert folds(drawn) == ["Residual ×4 (layers.0 … 3)", "Residual ×4 (layers.4 … 7)"]
    assert [edge.source for edge in drawn.incoming["Chain/mul"]] == ["layers.4..layers.7", "layers.0..layers.3"]
    assert drawn.skip_count == full.skip_count == 8


def test_a_run_that_hands_out_every_state_is_folded():
    def every(parts, x):
        total = 0
        for part in parts:
            x = part(x)
            total = total + x
        return total

    drawn = view(traced(Chain(layers(5), every)), "blocks")
    assert folds(drawn) == ["Residual ×5 (layers.0 … 4)"]
    assert drawn["layers.0..layers.4"].shape is None  # five values leave it


class Pair(nn.Module):
    def __init__(self):
        self.inner = nn.Linear(4, 4)

    def forward(self, x, side):
        return self.inner(x) * side


def test_a_value_that_passes_over_a_call_is_not_hidden_in_a_fold():
    def two_back(parts, x):
        before = x
        for part in parts:
            x, before = part(x, before), x
        return x

    assert folds(view(traced(Chain(layers(5, Pair), two_back)), "blocks")) == []


def test_dense_connections_are_not_hidden_in_a_fold():
    def dense(parts, x):
        for part in parts:
            x = x + part(x)
        return x

    assert folds(view(traced(Chain(layers(4, lambda: nn.Linear(4, 4)), dense)), "blocks")) == []


def test_a_fold_that_would_make_a_cycle_is_not_made():
    """Each call also takes what was made, outside, of the one before."""

    def around(parts, x):
        side = x
        for part in parts:
            x = part(x, side)
            side = x.tanh()
        return x + side

    full = traced(Chain(layers(4, Pair), around))
    drawn = view(full, "blocks")
    assert folds(drawn) == [] and not drawn.notes
    assert [node.id for node in drawn.nodes if node.kind == "module"] == [f"layers.{i}" for i in range(4)]


def test_side_inputs_are_one_edge():
    class Cross(nn.Module):
        def __init__(self):
            self.q, self.kv = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x, memory, mask):
            return nn.residual(x, self.q(x) * self.kv(memory) * mask)

    class Decoding(nn.Module):
        def __init__(self):
            self.layers = nn.ModuleList(layers(3, Cross))

        def forward(self, x, memory, mask):
            for layer in self.layers:
                x = layer(x, memory, mask)
            return x

    full = traced(Decoding(), *(np.full((2, 4), n, np.float32) for n in (1, 2, 3)))
    drawn = view(full, "blocks")
    assert folds(drawn) == ["Cross ×3 (layers.0 … 2)"] and drawn["layers.0..layers.2"].rail
    edges = [(edge.source, edge.slot, edge.count, bool(edge.skips)) for edge in drawn.incoming["layers.0..layers.2"]]
    assert edges == [
        ("input/x", 0, 1, False), ("input/memory", 1, 3, False), ("input/mask", 2, 3, False), ("input/x", 3, 1, True)
    ]  # fmt: skip


def test_one_module_called_again_and_again_is_folded_and_its_parameters_counted_once():
    again = lambda parts, x: parts[0](parts[0](parts[0](parts[0](x))))
    full = traced(Chain(layers(1), again))
    drawn = view(full, "blocks")
    assert folds(drawn) == ["Residual ×4 (layers.0, 4 calls)"]
    (fold,) = [node for node in drawn.nodes if node.kind == "fold"]
    assert fold.parameters == 20 and [node.kind for node in drawn.nodes] == ["input", "fold", "output"]


def test_a_weight_that_all_members_share_is_counted_once_and_lies_in_the_fold():
    parts = layers(3, lambda: nn.Linear(4, 4))
    for part in parts[1:]:
        part.weight = parts[0].weight
    drawn = view(traced(Chain(parts)), "blocks")
    (fold,) = [node for node in drawn.nodes if node.kind == "fold"]
    assert fold.parameters == 16 + 3 * 4 and not any(node.kind == "parameter" for node in drawn.nodes)


def test_layers_that_no_module_holds():
    y = reduce(lambda x, layer: layer(x), layers(3), Tensor(np.ones((2, 4), np.float32)))
    full = viz.trace(y.sum(), numbers=False)
    drawn = view(full, "modules")
    first, last = [module.id for module in full.modules if not module.parent][::2]
    assert folds(drawn) == [f"Residual ×3 ({first} … {last})"] and first == "Residual" != last
    (fold,) = [node for node in drawn.nodes if node.kind == "fold"]
    assert fold.parameters == 60 and fold.rail


def test_two_processes_with_different_hash_seeds_write_the_same():
    program = """
import numpy as np, viz
from tinygrad_tf import manual_seed
from tinygrad_tf.models import Decoder, DecoderConfig
from viz.collapse import view
manual_seed(0)
model, ids = Decoder(DecoderConfig(11, block_size=8, n_layer=4, n_head=2, n_embd=8)), np.arange(6).reshape(1, 6)
full = viz.trace(model.loss(ids, ids + 1))
for how in ("modules", "blocks"):
    for fold in ("auto", "first", "off"):
        print(view(full, how, fold=fold, max_nodes=60).to_json())
"""
    seen = []
    for seed in ("1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(viz.__file__).parents[1]), "PYTHONUTF8": "1"}
        done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, timeout=60, check=True)
        seen.append(done.stdout)
    assert seen[0] == seen[1] and b"Block \xc3\x974" in seen[0]
