"""GN: sampling, the KV cache, rotary positions."""

import math

import numpy as np
import pytest

from tinygrad_tf.generate import generate, probabilities, sample_token
from tinygrad_tf.models import Decoder, DecoderConfig


def kept(p, **settings):
    """The tokens that are left of distribution `p`."""
    return set(np.flatnonzero(probabilities(np.log(np.array(p)), **settings)))


def small(positions="learned", **settings):
    config = DecoderConfig(7, 4, 2, 2, n_embd=16, positions=positions, init_std=0.5, **settings)
    return Decoder(config, np.random.default_rng(0))


def greedy(model, ids, n, **settings):
    return list(generate(model, np.array(ids), n, temperature=0, **settings))


class NoNumbers:
    """A generator that must not be asked."""

    def random(self):
        raise AssertionError("a random number was drawn")


def test_GN_01_temperature_zero_is_greedy_and_tiny_ones_do_not_overflow():
    assert {sample_token(np.array([2.0, 2.0, 1.0]), 0, generator=NoNumbers()) for _ in range(3)} == {0}
    logits = np.array([50, 10], dtype=np.float32)
    assert probabilities(logits, 1e-40).tolist() == [1, 0]
    assert sample_token(logits, 1e-40, generator=np.random.default_rng(0)) == 0
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="temperature"):
            sample_token(logits, bad, generator=np.random.default_rng(0))


def test_GN_03_top_p_is_the_smallest_prefix_that_reaches_p():
    p = [0.5, 0.3, 0.15, 0.05]
    for top_p, count in ((0.6, 2), (0.8, 2), (0.85, 3), (1e-8, 1), (1.0, 4)):
        assert kept(p, top_p=top_p) == set(range(count))
    assert np.flatnonzero(probabilities(np.zeros(4096, dtype=np.float32), top_p=1e-8)).tolist() == [0]
    for top_p in (-0.1, 0, 2):
        with pytest.raises(ValueError, match="top-p"):
            probabilities(np.zeros(2), top_p=top_p)


def test_GN_05_logits_that_are_not_finite_are_refused_at_their_step():
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match=r"logits are not finite: .* for token 0"):
            sample_token(np.array([bad, 0.0]), generator=np.random.default_rng(0))
    model = small()
    tokens = generate(model, np.array([1, 2]), 6, temperature=0)
    next(tokens)
    model.norm.weight.array[:] = np.nan
    with pytest.raises(ValueError, match="new token 2: the logits are not finite"):
        next(tokens)


@pytest.mark.parametrize("cache", [True, False])
def test_GN_07_the_context_is_the_last_block_size_tokens(cache):
    model, prompt = small(), [6, 5, 4, 3, 2, 1]
    ids = prompt + greedy(model, prompt, 10, cache=cache)
    assert len(ids) == 16
    for end in range(6, 16):
        assert ids[end] == model(np.array([ids[end - 4 : end]])).detach().numpy()[0, -1].argmax()
    assert greedy(model, prompt, 0, cache=cache) == []


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_GN_09_each_call_has_a_cache_of_its_own_and_says_what_no_cache_says(positions):
    model = small(positions)
    before = model(np.array([[1, 2, 3]])).detach().numpy().copy()
    first = greedy(model, [1, 2], 12)
    assert first == greedy(model, [1, 2], 12) == greedy(model, [1, 2], 12, cache=False)
    both = np.array(greedy(model, [[1, 2], [5, 6]], 8))
    assert both[:, 0].tolist() == first[:8]
    assert np.array_equal(model(np.array([[1, 2, 3]])).detach().numpy(), before)


def test_GN_11_a_head_width_that_cannot_be_turned_or_divided_is_refused_at_construction():
    options = {"vocab_size": 5, "n_head": 3, "n_embd": 9}
    with pytest.raises(ValueError, match=r"9.*3.*3"):
        DecoderConfig(**options, positions="rotary")
    model = Decoder(DecoderConfig(**options, block_size=4, n_layer=1))
    assert model(np.array([[1, 2]])).shape == (1, 2, 5)
    with pytest.raises(ValueError, match=r"n_embd=10.*n_head=3"):
        DecoderConfig(vocab_size=5, n_head=3, n_embd=10)
