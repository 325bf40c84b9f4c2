"""The table that a module prints: shapes and counts, which add up."""

import math
import re

import pytest

from tinygrad_tf import nn
from tinygrad_tf.models import Decoder, DecoderConfig


def rows(module):
    """(depth, name, rest, count) of each row of the table, the head left out."""
    head, line, *body = repr(module).splitlines()
    assert head.split() == ["module", "class", "own", "parameters", "count"]
    assert set(line) == {"-"}
    return [((len(r) - len(r.lstrip())) // 2, r.split()[0], r, int(r.split()[-1].replace(",", ""))) for r in body]


def own(text):
    """The number of parameters in the shapes that a row lists as its own, tied ones left out."""
    shapes = re.findall(r"\(([\d, ]*)\)(?! tied)", text)
    return sum(math.prod(int(n) for n in shape.split(",") if n.strip()) for shape in shapes)


CONFIGS = {
    "tied": {"bias": True},
    "untied": {"tied": False},
    "modern": {"norm": "rms", "ffn": "swiglu", "positions": "rotary", "qk_norm": True, "n_kv_head": 1, "layer_scale": 0.1},
    "both": {"norm_order": "both", "n_layer": 5},
    "one block": {"n_layer": 1},
}


@pytest.mark.parametrize("name", CONFIGS)
def test_counts_add_up(name):
    model = Decoder(
        DecoderConfig(**{"vocab_size": 11, "block_size": 8, "n_layer": 2, "n_head": 2, "n_embd": 8, **CONFIGS[name]})
    )
    table = rows(model)
    assert table[0][3] == sum(p.numel() for p in model.parameters())
    for i, (depth, _, text, count) in enumerate(table):
        inside = []
        for below in table[i + 1 :]:
            if below[0] <= depth:
                break
            if below[0] == depth + 1:
                inside.append(below[3])
        if inside:
            assert count == sum(inside) + own(text), text


def test_equal_blocks_share_a_row():
    model = Decoder(DecoderConfig(11, 8, n_layer=12, n_head=2, n_embd=8))
    (block,) = [r for r in rows(model) if "Block" in r[2]]
    assert "0 … 11" in block[2]
    assert "Block ×12" in block[2]
    assert block[3] == 12 * sum(p.numel() for p in model.blocks[0].parameters())
    assert len(rows(model)) < 30


def test_blocks_that_differ_have_rows_of_their_own():
    layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 3), nn.Linear(2, 2)])
    assert [(r[1], r[3]) for r in rows(layers)[1:]] == [("0", 12), ("2", 9), ("3", 6)]


def test_shapes_and_settings_are_shown():
    text = repr(nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.25), nn.FeedForward(4, 8, "swiglu")))
    for part in ("weight (4, 3)", "bias (4,)", "p=0.25", "swiglu", "up", "Linear", "16"):
        assert part in text
    assert repr(nn.Linear(3, 4)).splitlines()[2].split()[0] == "Linear"


def test_a_tied_matrix_is_shown_at_both_places_and_counted_at_the_first():
    model = Decoder(DecoderConfig(11, 8, 1, 2, n_embd=8, positions="none"))
    table = {r[1]: r for r in rows(model)}
    assert table["token_embedding"][3] == 88
    assert table["lm_head"][3] == 0
    assert "weight (11, 8) tied" in table["lm_head"][2]


def test_blocks_that_share_their_weights_count_once():
    shared = nn.Linear(2, 3)
    layers = nn.ModuleList([shared, nn.Linear(2, 3)])
    for _ in range(3):
        again = nn.Linear(2, 3)
        again.weight, again.bias = shared.weight, shared.bias
        layers.append(again)
    assert [(r[1], r[3]) for r in rows(layers)] == [("ModuleList", 18), ("0", 18), ("2", 0)]
