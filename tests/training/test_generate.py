"""Generation token by token, with the KV cache and without it."""

import numpy as np
import pytest

from tinygrad_tf import is_grad_enabled
from tinygrad_tf.generate import GenerationStats, generate
from tinygrad_tf.models.decoder import Decoder, DecoderConfig


def small(positions="learned", block_size=4, dropout=0.0, **settings):
    config = DecoderConfig(vocab_size=7, block_size=block_size, n_layer=2, n_head=2, n_embd=16, positions=positions,
                           dropout=dropout, init_std=0.5, **settings)
    return Decoder(config, np.random.default_rng(0))


def greedy(model, ids, n, **settings):
    return list(generate(model, np.array(ids), n, temperature=0, **settings))


def by_hand(model, ids, n):
    """Each token from a fresh forward pass over the last block_size tokens."""
    ids = list(ids)
    for _ in range(n):
        logits = model(np.array([ids[-model.config.block_size:]])).detach().numpy()
        ids.append(int(logits[0, -1].argmax()))
    return ids


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("positions", ["learned", "rotary", "none"])
@pytest.mark.parametrize("prompt", [[1], [1, 2, 3], [1, 2, 3, 4], [6, 5, 4, 3, 2, 1]])
def test_GN_07_the_context_is_the_last_block_size_tokens(positions, prompt, cache):
    model = small(positions)
    new = greedy(model, prompt, 10, cache=cache)
    assert len(new) == 10
    assert prompt + new == by_hand(model, prompt, 10)
    assert greedy(model, prompt, 0, cache=cache) == []


MODERN = {"positions": "rotary", "n_kv_head": 1, "norm": "rms", "ffn": "swiglu", "qk_norm": True}


@pytest.mark.parametrize("settings", [{}, MODERN])
def test_S32_logits_with_and_without_the_cache_agree_at_every_step(settings):
    """Also past the context length, where each window is computed afresh."""
    model, seen = small(block_size=6, **settings), {True: [], False: []}
    forward = model.forward

    def listen(ids, cache=None):
        logits = forward(ids, cache)
        seen[listen.cached].append(logits.numpy()[0, -1].copy())
        return logits

    model.forward = listen
    for listen.cached in (True, False):
        list(generate(model, np.array([1, 2]), 12, generator=np.random.default_rng(3), cache=listen.cached))
    assert len(seen[True]) == len(seen[False]) == 12
    np.testing.assert_allclose(seen[True], seen[False], rtol=1e-5, atol=1e-5)


def test_GN_09_a_fresh_cache_for_each_call():
    model = small()
    before = model(np.array([[1, 2, 3]])).detach().numpy().copy()
    first, second = greedy(model, [1, 2], 12), greedy(model, [1, 2], 12)
    assert first == second == greedy(model, [1, 2], 12, cache=False)
    assert np.array_equal(model(np.array([[1, 2, 3]])).detach().numpy(), before)


@pytest.mark.parametrize("cache", [True, False])
def test_GN_09_batch_one_then_batch_two(cache):
    model = small()
    assert greedy(model, [1, 2], 8, cache=cache)
    both = np.array(greedy(model, [[1, 2], [5, 6]], 8, cache=cache))
    assert both.shape == (8, 2)
    assert both[:, 0].tolist() == greedy(model, [1, 2], 8)
    assert both[:, 1].tolist() == greedy(model, [5, 6], 8)


def test_what_was_computed_is_counted():
    """Prompt 2, context 4, 5 tokens: three tokens fit (2 + 1 + 1 positions), then two windows of 4."""
    model, stats, plain = small(), GenerationStats(), GenerationStats()
    greedy(model, [1, 2], 5, stats=stats)
    assert (stats.computed, stats.recomputed, stats.reused) == (2 + 1 + 1 + 4 + 4, 3 + 3, 2 + 3)
    assert stats.cache_bytes == model.new_cache().nbytes == 2 * 2 * 4 * 16 * 4  # layers, K and V, T, d, float32
    greedy(model, [1, 2], 5, cache=False, stats=plain)
    assert (plain.computed, plain.recomputed, plain.reused) == (2 + 3 + 4 + 4 + 4, 2 + 3 + 3 + 3, 0)
    assert plain.cache_bytes == 0


def test_tokens_come_one_by_one():
    model, calls = small(), []
    forward = model.forward
    model.forward = lambda ids, cache=None: (calls.append(1), forward(ids, cache))[1]
    tokens = generate(model, np.array([1]), 100, generator=np.random.default_rng(0))
    assert not calls
    next(tokens)
    assert len(calls) == 1


def test_LY_07_dropout_is_off_and_the_mode_comes_back():
    model = small(dropout=0.5).train()
    model.blocks[0].eval()
    modes = [module.training for module in model.modules()]
    assert greedy(model, [1, 2], 6) == by_hand(small(dropout=0.5).eval(), [1, 2], 6)[2:]
    assert [module.training for module in model.modules()] == modes

    tokens = generate(model, np.array([1, 2]), 6, temperature=0)
    next(tokens)
    assert is_grad_enabled()
    assert [module.training for module in model.modules()] == modes  # between two tokens as well

    with pytest.raises(IndexError, match="7"):
        list(generate(model, np.array([7]), 1, temperature=0))
    assert [module.training for module in model.modules()] == modes
    assert is_grad_enabled()


def test_GN_05_the_step_at_which_logits_are_not_finite_is_named():
    model = small()
    tokens = generate(model, np.array([1, 2]), 6, temperature=0)
    next(tokens)
    model.norm.weight.array[:] = np.nan
    with pytest.raises(ValueError, match="new token 2: the logits are not finite"):
        next(tokens)


@pytest.mark.parametrize(("ids", "settings", "word"), [
    ([], {}, "at least 1"),
    ([0.5], {}, "whole numbers"),
    ([1], {"n": -1}, "-1"),
    ([1], {"temperature": -1}, "temperature"),
    ([1], {"top_k": 0}, "top-k"),
    ([1], {"temperature": 1.0}, "needs a generator"),
])
def test_bad_arguments_are_refused_at_the_call(ids, settings, word):
    with pytest.raises(ValueError, match=word):
        generate(small(), np.array(ids), **{"n": 1, "temperature": 0, **settings})


def test_SM_04_what_lies_behind_the_cache_does_not_matter():
    model = small(block_size=8)
    clean = greedy(model, [1, 2], 5)
    new_cache = model.new_cache

    def poisoned(batch=1):
        cache = new_cache(batch)
        for layer in cache.layers:
            layer.keys[:] = layer.values[:] = np.nan
        return cache

    model.new_cache = poisoned
    assert greedy(model, [1, 2], 5) == clean
