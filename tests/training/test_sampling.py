"""From logits to one token: temperature, top-k, top-p, greedy."""

import math
import re
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tinygrad_tf.generate import generate, probabilities, sample_token
from tinygrad_tf.models import Decoder, TransformerConfig

CONFIG = TransformerConfig(vocab_size=5, block_size=8, n_layer=1, n_head=1, n_embd=4)


class NoNumbers:
    """A generator that must not be asked."""

    def random(self):
        raise AssertionError("a random number was drawn")


def kept(p, **settings):
    """The tokens that are left of distribution `p`."""
    return set(np.flatnonzero(probabilities(np.log(np.array(p)), **settings)))


def test_GN_01_temperature_zero_is_greedy():
    for _ in range(3):
        assert sample_token(np.array([2.0, 2.0, 1.0]), temperature=0, generator=NoNumbers()) == 0
    assert sample_token(np.array([1.0, 3.0, 3.0]), temperature=0) == 1


@pytest.mark.parametrize(("temperature", "high", "low"), [
    (1e-40, 50, 10), (1e-310, 50, 10), (5e-324, 50, 10), (1.0, 1e308, -1e308),
])  # fmt: skip
def test_GN_01_tiny_temperatures_and_huge_logits_are_no_warning(temperature, high, low):
    logits = np.array([high, low], dtype=np.float32 if high < 1e38 else np.float64)
    with np.errstate(all="raise", under="ignore"):
        assert probabilities(logits, temperature).tolist() == [1, 0]
    assert sample_token(logits, temperature, generator=np.random.default_rng(0)) == 0


@pytest.mark.parametrize("temperature", [-1.0, -1e-9, math.nan, math.inf])
def test_GN_01_bad_temperatures(temperature):
    with pytest.raises(ValueError, match="temperature"):
        sample_token(np.zeros(2), temperature, generator=np.random.default_rng(0))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("top_p", "count"), [(0.6, 2), (0.8, 2), (0.85, 3), (1e-8, 1), (0.95, 3), (0.96, 4), (1.0, 4)])
def test_GN_03_top_p_keeps_the_smallest_prefix(top_p, count, dtype):
    p = np.array([0.5, 0.3, 0.15, 0.05], dtype=dtype)
    assert kept(p, top_p=top_p) == set(range(count))
    assert kept(p[::-1], top_p=top_p) == set(range(4 - count, 4))


@pytest.mark.parametrize("top_p", [0, -0.1, 1.0001, 2, math.nan])
def test_GN_03_top_p_is_a_share(top_p):
    with pytest.raises(ValueError, match="top-p must be above 0, and at most 1"):
        probabilities(np.zeros(2), top_p=top_p)
    with pytest.raises(ValueError, match="top-p must be above 0, and at most 1"):
        sample_token(np.zeros(2), top_p=top_p, generator=np.random.default_rng(0))


def test_GN_05_logits_that_are_not_finite():
    for bad in (math.nan, math.inf, -math.inf):
        for temperature in (0, 1):
            with pytest.raises(ValueError, match=r"logits are not finite: .* for token 0"):
                sample_token(np.array([bad, 0.0]), temperature, generator=np.random.default_rng(0))


def test_top_k_keeps_exactly_k_lower_index_first():
    assert kept([0.1, 0.4, 0.1, 0.4], top_k=1) == {1}
    assert kept([0.1, 0.4, 0.1, 0.4], top_k=3) == {0, 1, 3}
    assert kept([0.5, 0.5], top_k=10) == {0, 1}
    with pytest.raises(ValueError, match="top-k must be a whole number, at least 1, not 0"):
        probabilities(np.zeros(2), top_k=0)


def test_top_p_counts_within_what_top_k_left():
    assert kept([0.4, 0.3, 0.2, 0.1], top_k=2, top_p=0.55) == {0}  # 4/7 is enough


def test_probabilities_are_the_softmax_by_temperature():
    np.testing.assert_allclose(probabilities(np.log([1.0, 2.0, 4.0]), 0.5), np.array([1, 4, 16]) / 21, rtol=1e-12)


def test_tokens_come_as_often_as_their_probability_says():
    generator = np.random.default_rng(0)
    logits = np.log(np.array([0.5, 0.0001, 0.3, 0.1999]))
    counts = np.bincount([sample_token(logits, generator=generator) for _ in range(4000)], minlength=4)
    np.testing.assert_allclose(counts / 4000, np.exp(logits), atol=0.03)


def test_one_random_number_a_token():
    a, b = np.random.default_rng(1), np.random.default_rng(1)
    sample_token(np.zeros(5), 1.0, 3, 0.9, a)
    b.random()
    assert a.bit_generator.state == b.bit_generator.state


class Fixed:
    def __init__(self, number):
        self.number = number

    def random(self):
        return self.number


@given(arrays(np.float32, st.integers(1, 20), elements=st.floats(-100, 100, width=32)), st.floats(1e-3, 10),
       st.none() | st.integers(1, 30), st.none() | st.floats(0, 1, exclude_min=True),
       st.sampled_from([0.0, 0.5, 1 - 2**-53]) | st.floats(0, 1, exclude_max=True))
def test_a_token_without_probability_never_comes(logits, temperature, top_k, top_p, number):
    p = probabilities(logits, temperature, top_k, top_p)
    assert p[logits.argmax()] > 0
    assert abs(p.sum() - 1) < 1e-9
    assert p[sample_token(logits, temperature, top_k, top_p, Fixed(number))] > 0


@pytest.mark.parametrize("settings, error, words", [
    ({"temperature": None}, TypeError, "temperature is a number, not None"),
    ({"temperature": "1"}, TypeError, "temperature is a number, not '1' (str)"),
    ({"temperature": math.nan}, ValueError, "temperature must be 0 (greedy) or a positive number, not nan"),
    ({"top_k": 2.0}, TypeError, "top_k is a whole number, not 2.0 (float)"),
    ({"top_k": "3"}, TypeError, "top_k is a whole number, not '3' (str)"),
    ({"top_p": "0.5"}, TypeError, "top_p is a number, not '0.5' (str)"),
    ({"generator": 3}, TypeError, "a generator is np.random.default_rng(seed), not 3 (int)"),
])  # fmt: skip
def test_settings_of_another_kind_are_named(settings, error, words):
    for call in (partial(sample_token, np.zeros(2)), partial(generate, Decoder(CONFIG, np.random.default_rng(0)), [1, 2], 3)):
        with pytest.raises(error, match=re.escape(words)):
            call(**{"generator": np.random.default_rng(0), **settings})


@pytest.mark.parametrize("n, error", [(2.5, TypeError), ("3", TypeError), (None, TypeError), (-1, ValueError)])
def test_how_many_tokens_is_a_whole_number(n, error):
    with pytest.raises(error, match="the number of new tokens, is a whole number"):
        generate(Decoder(CONFIG, np.random.default_rng(0)), [1, 2], n, temperature=0)


def test_probabilities_need_a_largest_logit():
    assert probabilities(np.array([0.0, -math.inf])).tolist() == [1, 0]
    for bad in ([], [math.nan, 0.0], [math.inf, 0.0], [-math.inf, -math.inf], [[0.0, 1.0]], 1.0):
        with pytest.raises(ValueError, match="logits are one row of numbers, with a largest one"):
            probabilities(np.array(bad))
