"""S26 and S30: where the parameters of a model live, by formula and by count, and the models that have a name."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_tf import Tensor, no_grad
from tinygrad_tf.models import TransformerConfig, build
from tinygrad_tf.models.ledger import count, ledger, multiplications
from tinygrad_tf.models.presets import MODELS, named, reduced


def part(config, name):
    (row,) = [row for row in ledger(config) if row.part == name]
    return row


def test_S26_gpt2_small_by_part(prints):
    config = named("gpt2").config
    rows = {row.part: row for row in ledger(config)}
    assert (rows["attention"].formula, rows["feed-forward"].formula) == ("4 d² + 4 d", "8 d² + 5 d")
    prints([rows["attention"].each, rows["feed-forward"].each], "2,362,368 4,722,432")
    prints(sum(row.each for row in rows.values() if row.in_blocks), "7,087,872")
    prints(sum(row.total for row in rows.values() if row.in_blocks), "85,054,464")
    prints([rows["token embedding"].total, rows["positions, learned"].total], "38,597,376 786,432")
    prints(count(config), "124,439,808")
    assert abs(12 * 12 * 768**2 / 85_054_464 - 1) < 0.002  # about 12 N d^2
    assert rows["feed-forward"].each / 7_087_872 == pytest.approx(2 / 3, abs=0.001)


@pytest.mark.parametrize("heads", [1, 2, 3, 6, 12, 24, 768])
def test_S26_the_number_of_heads_changes_no_count(heads):
    assert count(TransformerConfig(50257, 1024, 12, heads, n_embd=768, bias=True)) == 124_439_808


def test_S26_cost_in_the_length_of_the_text():
    """In matrices, 12 d^2 a block and token; between tokens, 2 n^2 d. The second is the larger one beyond n = 6 d."""
    config = named("gpt2").config
    for n in (1, 512, 1024):
        assert multiplications(config, n) == (12 * 12 * 768**2 * n, 12 * 2 * n**2 * 768)
    at = 6 * 768
    assert multiplications(config, at)[0] == multiplications(config, at)[1]


def test_S26_cost_where_not_all_keys_are_met():
    """A window bounds the keys of a query, linear attention has as many as a head is wide; then the cost grows in line."""
    near = TransformerConfig(11, 64, 2, 4, n_embd=16, positions="rotary", window=8)
    assert [multiplications(near, n)[1] for n in (4, 8, 16, 64)] == [2 * 2 * 16 * n * min(n, 8) for n in (4, 8, 16, 64)]
    both_ways = TransformerConfig(11, 64, 2, 4, n_embd=16, window=8, arrangement="encoder")
    assert multiplications(both_ways, 64)[1] == 2 * 2 * 16 * 64 * 15
    linear = TransformerConfig(11, 64, 2, 4, n_embd=16, attention="linear")
    assert [multiplications(linear, n)[1] for n in (1, 64)] == [2 * 2 * 16 * 4, 64 * 2 * 2 * 16 * 4]
    assert multiplications(linear, 64)[0] == multiplications(near, 64)[0]


# ------------------------------------------------------------------------------------------------ formulas and real models


@st.composite
def configurations(draw):
    arrangement = draw(st.sampled_from(["decoder", "encoder", "encoder-decoder", "stack"]))
    heads = draw(st.sampled_from([1, 2, 4]))
    pick = lambda *values: draw(st.sampled_from(values))
    kinds = ("learned", "sinusoidal", "rotary", "t5", "alibi", "none")
    options = {
        "vocab_size": None if arrangement == "stack" else pick(3, 11), "block_size": pick(2, 5), "n_layer": pick(1, 3),
        "n_head": heads, "n_kv_head": pick(None, 1, heads), "n_embd": heads * pick(4, 6), "n_hidden": pick(None, 5, 16, 32),
        "norm": pick("layer", "rms"), "norm_order": pick("pre", "post", "both"),
        "ffn": pick("gelu", "relu2", "swiglu", "geglu"),
        "positions": pick(*kinds), "bias": pick(False, True), "tied": pick(False, True), "layer_scale": pick(None, 0.1),
        "arrangement": arrangement, "key_bias": pick(False, True), "norm_bias": pick(None, False, True),
        "final_norm": pick(None, False, True), "embedding_norm": pick(False, True), "qk_norm": pick(False, True),
    }  # fmt: skip
    if arrangement == "encoder":
        options |= {"n_segment": pick(0, 2), "pooler": pick(False, True)}
    if arrangement == "encoder-decoder":
        options |= {"n_encoder_layer": pick(None, 2), "encoder_size": pick(None, 7), "encoder_positions": pick(None, *kinds)}
    else:
        options |= {"parallel": pick(False, True)}
    if arrangement in ("encoder", "encoder-decoder"):
        options |= {"n_mels": pick(None, None, 3)}
    return TransformerConfig(**options)


@given(configurations())
def test_S26_every_part_counts_what_a_real_model_has(config):
    """Each parameter of the built model belongs to exactly one row, the first that claims it, and the row counts it."""
    model, rows = build(config, np.random.default_rng(0)), ledger(config)
    found = dict.fromkeys(range(len(rows)), 0)
    for name, p in model.named_parameters():
        claims = [i for i, row in enumerate(rows) if row.holds(name)]
        assert claims, name
        found[claims[0]] += p.numel()
    assert {rows[i].part: n for i, n in found.items()} == {row.part: row.total for row in rows}
    assert count(config) == sum(p.numel() for p in model.parameters())


# ------------------------------------------------------------------------------------------------ the models with names

PUBLISHED = """
gpt2 124,439,808            gpt2-medium 354,823,168     gpt2-large 774,030,080      gpt2-xl 1,557,611,200
bert-base 109,482,240       bert-large 335,141,888      whisper-tiny 37,184,640     llama-2-7b 6,738,415,616
tinyllama-1.1b 1,100,048,384                            llama-3-8b 8,030,261,248
"""


def test_S30_published_sizes_match_exactly(prints):
    words = PUBLISHED.split()
    for name, figure in zip(words[::2], words[1::2]):
        prints(count(named(name).config), figure)
    exact = {name: model for name, model in MODELS.items() if model.published is not None}
    assert len(exact) >= 18
    for name, model in exact.items():
        assert count(model.config) + model.other == model.published, name


@pytest.mark.parametrize("name, millions", [
    ("whisper-tiny", 39), ("whisper-base", 74), ("whisper-small", 244), ("whisper-medium", 769), ("whisper-large", 1550),
    ("2017-base", 65), ("2017-big", 213), ("helium-1-preview-2b", 2000), ("moshi-7b", 7000),
])  # fmt: skip
def test_S30_rounded_sizes_are_near(name, millions):
    assert count(named(name).config) / 1e6 == pytest.approx(millions, rel=0.09)


def test_S30_the_models_of_2017_by_part():
    """37,000 rows of one shared table, and the two stacks as torch.nn.Transformer has them, without its two last norms."""
    for name, d, stacks, total in (("2017-base", 512, 44_138_496, 63_082_496), ("2017-big", 1024, 176_357_376, 214_245_376)):
        config = named(name).config
        assert part(config, "token embedding, shared").total == 37000 * d
        assert sum(row.total for row in ledger(config) if row.in_blocks) == stacks
        assert count(config) == total


def test_S30_the_stacks_of_2017_are_torch_nn_transformer(oracle):
    theirs = sum(p.numel() for p in oracle.nn.Transformer(batch_first=True, device="meta").parameters())
    config = named("2017-base").config
    assert sum(row.total for row in ledger(config) if row.in_blocks) + 2 * 2 * 512 == theirs == 44_140_544


@pytest.mark.parametrize("name", ["gpt2-xl", "llama-2-70b", "whisper-large"])
def test_S30_counting_allocates_no_weights(name):
    tracemalloc.start()
    count(named(name).config)
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


@pytest.mark.parametrize("name", MODELS)
def test_S30_each_runs_at_reduced_width(name):
    config = reduced(named(name).config)
    model = build(config, np.random.default_rng(0)).eval()
    assert sum(p.numel() for p in model.parameters()) == count(config) < 10**5
    ids = np.random.default_rng(1).integers(0, 29, (2, 6))
    with no_grad():
        if config.arrangement == "stack":
            y = model(Tensor(np.ones((2, 6, config.n_embd), np.float32)), causal=True)
        elif config.n_mels:
            y = model(Tensor(np.ones((2, config.n_mels, 12), np.float32)), ids)
        else:
            y = model(ids, ids) if config.arrangement == "encoder-decoder" else model(ids)
    assert y.shape == (2, 6, config.vocab_size or config.n_embd)
    assert np.isfinite(y.array).all()


def test_S30_what_the_names_stand_for():
    gpt2, llama, mimi, moshi = (named(n).config for n in ("gpt2", "llama-3-8b", "mimi", "moshi-7b"))
    assert (gpt2.norm_order, gpt2.ffn, gpt2.positions, gpt2.tied) == ("pre", "gelu_tanh", "learned", True)
    assert (llama.norm, llama.ffn, llama.positions, llama.n_kv_head, llama.bias) == ("rms", "swiglu", "rotary", 8, False)
    assert (mimi.layer_scale, mimi.window, mimi.arrangement) == (0.01, 250, "stack")
    assert (moshi.norm, moshi.ffn, moshi.positions) == ("rms", "swiglu", "rotary")
    scales = [p for n, p in build(reduced(mimi)).named_parameters() if n.endswith("_scale.weight")]
    assert all((p.array == np.float32(0.01)).all() for p in scales)
    assert len(scales) == 2 * 2


def test_S30_an_unknown_name_says_what_is_near():
    with pytest.raises(ValueError, match=r"'gpt3'.*gpt2"):
        named("gpt3")
    with pytest.raises(ValueError, match=r"'zzz'; there are gpt2, .*mimi"):
        named("zzz")
