"""S27 to S29 and S31 to S33: the three arrangements, next-token losses, the cache, and the way from a vector to a word."""

import math

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn, no_grad
from tinygrad_tf.generate import probabilities, sample_token
from tinygrad_tf.models import Decoder, DecoderConfig, build
from tinygrad_tf.models.presets import named, reduced
from tinygrad_tf.nn import functional as F

SMALL = {"vocab_size": 29, "block_size": 16, "n_layer": 3, "n_head": 4, "n_embd": 24, "init_std": 0.2}
CONFIGS = {
    "gpt2": {**SMALL, "norm": "layer", "ffn": "gelu_tanh", "positions": "learned", "bias": True},
    "modern": {**SMALL, "norm": "rms", "ffn": "swiglu", "positions": "rotary", "n_kv_head": 2, "qk_norm": True, "tied": False},
    "both sides": {**SMALL, "norm": "rms", "norm_order": "both", "positions": "rotary", "n_kv_head": 1, "layer_scale": 0.3},
    "post": {**SMALL, "norm_order": "post", "ffn": "relu", "bias": True},
    "no positions": {**SMALL, "positions": "none"},
}
each_model = pytest.mark.parametrize("name", CONFIGS)


def built(name, **options):
    return Decoder(DecoderConfig(**{**CONFIGS[name], **options}), np.random.default_rng(0))


def tokens(*shape, seed=1):
    return np.random.default_rng(seed).integers(0, 29, shape)


def test_S28_gpt2s_arrangement():
    model = built("gpt2")
    block = model.blocks[0]
    assert model.lm_head.weight is model.token_embedding.weight
    assert model.lm_head.bias is None
    assert model.position_embedding.weight.shape == (16, 24)
    assert all(type(m) is nn.LayerNorm and m.bias is not None for m in (block.attn_norm, block.ffn_norm, model.norm))
    assert (block.plan, block.ffn.kind) == ((("pre", ("attn",)), ("pre", ("ffn",))), "gelu_tanh")
    assert block.ffn.up.out_features == 4 * 24
    assert block.attn.positions is None
    assert [n for n, _ in block.named_parameters() if n.startswith("attn.")] == [
        f"attn.{p}_proj.{w}" for p in ("q", "k", "v", "out") for w in ("weight", "bias")
    ]


def test_S28_a_modern_arrangement():
    model = built("modern")
    block = model.blocks[0]
    assert model.position_embedding is None
    assert model.lm_head.weight is not model.token_embedding.weight
    assert all(type(m) is nn.RMSNorm for m in (block.attn_norm, block.ffn_norm, model.norm))
    assert not [n for n, _ in model.named_parameters() if n.endswith("bias")]
    assert (
        block.ffn.gate.out_features == block.ffn.up.out_features == 64
    )  # 8/3 of 24, so that three matrices weigh as two of 4 d
    assert block.attn.k_proj.out_features == block.attn.v_proj.out_features == 12
    assert block.attn.q_proj.out_features == 24
    assert model.new_cache().nbytes == built("gpt2").new_cache().nbytes / 2


def kinds(block):
    """Which norms and positions the parts of a block have."""
    return [type(m).__name__ for m in block.modules() if isinstance(m, (nn.LayerNorm, nn.RMSNorm, nn.Positions))]


def test_S27_berts_arrangement():
    """Post-norm, learned positions, two segments, every token sees all; no norm after the last block."""
    model = build(reduced(named("bert-base").config), np.random.default_rng(0)).eval()
    block = model.blocks[0]
    assert block.plan == (("post", ("attn",)), ("post", ("ffn",)))
    assert (block.ffn.kind, model.norm, block.attn.positions) == ("gelu", None, None)
    assert type(model.position_embedding) is nn.LearnedPositions
    assert model.segment_embedding.weight.shape == (2, 32)
    ids = tokens(1, 8)
    changed = ids.copy()
    changed[0, 7] = (changed[0, 7] + 1) % 29
    assert (model(ids).array != model(changed).array).any(-1).all()  # the first token sees the last
    ends = []
    model.blocks[-1].register_forward_hook(lambda m, args, out: ends.append(out.array))
    assert model.hidden(ids).array.tobytes() == ends[0].tobytes()
    z = (ends[0] - block.ffn_norm.bias.array) / block.ffn_norm.weight.array
    np.testing.assert_allclose(z.mean(-1), 0, atol=1e-5)  # what leaves is normed


@pytest.mark.parametrize("name, orders, ffn, left, right", [
    ("2017-base", "post", "relu", nn.SinusoidalPositions, nn.SinusoidalPositions),
    ("whisper-tiny", "pre", "gelu", nn.SinusoidalPositions, nn.LearnedPositions),
])  # fmt: skip
def test_S29_the_encoder_decoders(name, orders, ffn, left, right):
    model = build(reduced(named(name).config), np.random.default_rng(0)).eval()
    encoder, decoder = model.encoder, model.decoder
    assert encoder.blocks[0].plan == ((orders, ("attn",)), (orders, ("ffn",)))
    assert decoder.blocks[0].plan == ((orders, ("attn",)), (orders, ("cross",)), (orders, ("ffn",)))
    assert encoder.blocks[0].ffn.kind == decoder.blocks[0].ffn.kind == ffn
    assert (type(encoder.position_embedding), type(decoder.position_embedding)) == (left, right)
    assert kinds(decoder.blocks[0]) == ["LayerNorm"] * 3
    assert (encoder.norm is None, decoder.norm is None) == (orders == "post", orders == "post")
    assert (decoder.blocks[0].attn.k_proj.bias is None) == name.startswith("whisper")


def test_S29_the_decoder_reads_the_source_and_its_own_past_only():
    model = build(reduced(named("2017-base").config, init_std=0.3), np.random.default_rng(0)).eval()
    source, ids = tokens(1, 6), tokens(1, 8, seed=2)
    y = model(source, ids).array
    for what, j in (("source", 5), ("ids", 3)):
        other = {"source": source.copy(), "ids": ids.copy()}
        other[what][0, j] = (other[what][0, j] + 1) % 29
        moved = (model(other["source"], other["ids"]).array != y).any(-1)[0]
        assert moved.tolist() == ([True] * 8 if what == "source" else [False] * 3 + [True] * 5)


@pytest.mark.parametrize("name", ["bert-base", "2017-base", "whisper-tiny"])
def test_S27_S29_fresh_models_guess_evenly_and_learn(name):
    model = build(reduced(named(name).config, init_std=0.02, dropout=0.0), np.random.default_rng(0))
    target = tokens(4, 8, seed=2)
    given = {"bert-base": (tokens(4, 8), target), "2017-base": (tokens(4, 6), tokens(4, 8), target),
             "whisper-tiny": (Tensor(np.random.default_rng(1).standard_normal((4, 6, 12)).astype(np.float32)), tokens(4, 8),
                              target)}[name]  # fmt: skip
    loss = model.loss(*given)
    assert loss.item() == pytest.approx(math.log(29), abs=0.2)
    loss.backward()
    for name, p in model.named_parameters():
        if p.grad is None:  # the loss does not read the pooler
            assert name.startswith("pooler")
            continue
        p.array -= 0.05 * p.grad.array
    assert model.loss(*given).item() < loss.item()


@each_model
def test_S28_a_fresh_model_guesses_evenly_and_learns(name):
    model = built(name, init_std=0.02)
    ids, targets = tokens(4, 16), tokens(4, 16, seed=2)
    loss = model.loss(ids, targets)
    assert loss.item() == pytest.approx(math.log(29), abs=0.15)
    loss.backward()
    for p in model.parameters():
        assert p.grad is not None
        p.array -= 0.05 * p.grad.array
    assert model.loss(ids, targets).item() < loss.item()


@each_model
def test_S31_one_pass_gives_a_prediction_for_every_token(name):
    model = built(name)
    text = tokens(2, 17)
    ids, targets = text[:, :-1], text[:, 1:]
    logits = model(ids)
    assert logits.shape == (2, 16, 29)
    losses = F.cross_entropy(logits.view(-1, 29), targets.reshape(-1), reduction="none").array.reshape(2, 16)
    assert model.loss(ids, targets).item() == pytest.approx(losses.mean(), rel=1e-6)
    for t in range(16):  # each is what the prefix alone predicts
        prefix = model(ids[:, : t + 1])[:, -1]
        alone = F.cross_entropy(prefix, targets[:, t], reduction="none").array
        np.testing.assert_allclose(losses[:, t], alone, rtol=1e-4, atol=1e-5)


@each_model
@pytest.mark.parametrize("j", [0, 1, 7, 15])
def test_S31_changing_token_j_leaves_every_loss_before_j(name, j):
    model = built(name)
    ids, targets = tokens(2, 16), tokens(2, 16, seed=2)

    def losses(ids):
        return F.cross_entropy(model(ids).view(-1, 29), targets.reshape(-1), reduction="none").array.reshape(2, 16)

    before = losses(ids)
    ids[:, j] = (ids[:, j] + 1) % 29
    after = losses(ids)
    np.testing.assert_array_equal(after[:, :j], before[:, :j])
    assert (after[:, j] != before[:, j]).all()


@each_model
@pytest.mark.parametrize("pieces", [[1] * 16, [5, 1, 1, 4, 5], [16]])
def test_S32_cached_and_uncached_logits_agree_at_every_step(name, pieces):
    model = built(name).eval()
    ids, cache, start = tokens(2, 16), model.new_cache(batch=2), 0
    with no_grad():
        whole = model(ids).array
        for n in pieces:
            logits = model(ids[:, start : start + n], cache=cache).array
            start += n
            assert cache.length == start
            np.testing.assert_allclose(logits, model(ids[:, :start]).array[:, -n:], atol=3e-6)
            np.testing.assert_allclose(logits, whole[:, start - n : start], atol=3e-6)


@each_model
def test_S32_what_is_recomputed_and_what_is_kept(name):
    model = built(name).eval()
    ids, computed = tokens(1, 16), []
    model.blocks[0].register_forward_hook(lambda m, args, out: computed.append(out.shape[1]))
    with no_grad():
        for t in range(16):
            model(ids[:, : t + 1])
        assert sum(computed) == 16 * 17 / 2
        computed.clear()
        cache = model.new_cache()
        empty = cache.nbytes
        for t in range(16):
            model(ids[:, t : t + 1], cache=cache)
        assert sum(computed) == 16
    c = model.config
    assert cache.nbytes == empty == 2 * c.n_layer * (c.n_kv_head or c.n_head) * c.block_size * c.head_dim * 4


def test_S32_a_full_cache_and_a_foreign_one_are_refused_and_unharmed():
    model = built("gpt2").eval()
    cache = model.new_cache(batch=2)
    with no_grad():
        model(tokens(2, 10), cache=cache)
        for bad, what in ((tokens(2, 7), r"7 tokens after the 10.*16"), (tokens(1, 2), r"2 texts"), (tokens(3, 2), r"2 texts")):
            with pytest.raises(ValueError, match=what):
                model(bad, cache=cache)
            assert [layer.length for layer in cache.layers] == [10, 10, 10]
        rest = tokens(2, 6, seed=5)
        whole = model(np.concatenate([tokens(2, 10), rest], axis=1)).array[:, 10:]
        np.testing.assert_allclose(model(rest, cache=cache).array, whole, atol=3e-6)


def test_S32_a_cache_follows_the_dtype_of_the_model():
    model = built("modern").double().eval()
    cache = model.new_cache()
    ids = tokens(1, 16)
    with no_grad():
        steps = np.concatenate([model(ids[:, t : t + 1], cache=cache).array for t in range(16)], axis=1)
        np.testing.assert_allclose(steps, model(ids).array, atol=1e-13)
    assert steps.dtype == cache.layers[0].keys.dtype == np.float64


@each_model
def test_S33_norm_project_softmax(name):
    model = built(name).double().eval()
    ids = tokens(2, 5)
    states = []
    model.blocks[-1].register_forward_hook(lambda m, args, out: states.append(out))
    logits = model(ids)
    stream = states[0] if model.norm is None else model.norm(states[0])
    assert (model.norm is None) == (name == "post")
    np.testing.assert_allclose(logits.array, stream.array @ model.lm_head.weight.array.T, rtol=1e-12)
    p = logits.softmax(-1)
    np.testing.assert_allclose(p.array.sum(-1), 1, rtol=1e-12)
    last = p.array[0, -1]
    np.testing.assert_allclose(probabilities(logits.array[0, -1]), last, rtol=1e-12)

    cold, hot = (probabilities(logits.array[0, -1], temperature=t) for t in (0.5, 2.0))
    np.testing.assert_allclose(cold, last**2 / (last**2).sum(), rtol=1e-10)
    np.testing.assert_allclose(hot, last**0.5 / (last**0.5).sum(), rtol=1e-10)
    assert sample_token(logits.array[0, -1], temperature=0) == last.argmax()

    order = np.argsort(-last)
    top3 = probabilities(logits.array[0, -1], top_k=3)
    np.testing.assert_array_equal(np.flatnonzero(top3), np.sort(order[:3]))
    np.testing.assert_allclose(top3[order[:3]], last[order[:3]] / last[order[:3]].sum(), rtol=1e-12)
    kept = int(np.searchsorted(np.cumsum(last[order]), 0.5)) + 1
    half = probabilities(logits.array[0, -1], top_p=0.5)
    np.testing.assert_array_equal(np.flatnonzero(half), np.sort(order[:kept]))


def test_S33_the_draws_follow_the_distribution():
    logits, generator = np.log([0.5, 0.3, 0.2]), np.random.default_rng(0)
    counts = np.bincount([sample_token(logits, generator=generator) for _ in range(5000)], minlength=3)
    np.testing.assert_allclose(counts / 5000, [0.5, 0.3, 0.2], atol=0.02)


def test_the_tensor_made_of_ids_is_taken_too():
    model = built("gpt2")
    ids = tokens(2, 5)
    assert model(Tensor(ids)).equal(model(ids))
    assert model.loss(Tensor(ids), Tensor(ids)).item() == model.loss(ids, ids).item()
