"""Stop strings: where a text ends, however it is cut into pieces."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_tf.generate import generate
from tinygrad_tf.models import DecoderConfig, build
from tinygrad_tf.text import Vocabulary
from tinygrad_tf.writing import until, write


def first_end(text, stops):
    """By definition: the shortest beginning of the text that ends in a stop string, without the longest such string."""
    for stop in range(len(text) + 1):
        if found := [s for s in stops if text[:stop].endswith(s)]:
            return text[: stop - max(map(len, found))]
    return text


@given(st.lists(st.text("ab\n", max_size=5), max_size=8), st.lists(st.text("ab\n", min_size=1, max_size=4), max_size=3))
def test_however_the_text_is_cut(pieces, stops):
    assert "".join(until(pieces, stops)) == first_end("".join(pieces), stops)


def test_only_what_may_be_a_beginning_is_held_back():
    asked = []

    def pieces():
        for piece in ["one\n", "two\n", "\nthree"]:
            asked.append(piece)
            yield piece

    text = until(pieces(), ["\n\n"])
    assert next(text) == "one"
    assert asked == ["one\n"]
    assert next(text) == "\ntwo"
    assert next(text, None) is None
    assert list(until(["a", "", "b"], [])) == ["a", "b"]


@pytest.mark.parametrize("stops", ["ab", ["a", ""]])
def test_stop_strings_that_do_not_do(stops):
    with pytest.raises(ValueError, match="stop strings"):
        until(["a"], stops)


@pytest.mark.parametrize("cache", [True, False])
def test_texts_end_at_their_own_stop_strings(cache):
    vocabulary = Vocabulary("abcdefg")
    model = build(DecoderConfig(7, 8, n_layer=1, n_head=2, n_embd=16, init_std=0.5), np.random.default_rng(0))
    prompts = ["a", "cab", "faded"]
    free = [vocabulary.decode(list(generate(model, vocabulary.encode(p), 15, temperature=0))) for p in prompts]
    assert write(model, vocabulary, prompts, 15, temperature=0, cache=cache) == free
    stops = [free[0][3:5], free[2][6:8]]
    expected = [first_end(text, stops) for text in free]
    assert write(model, vocabulary, prompts, 15, stops=stops, temperature=0, cache=cache) == expected
    assert len(expected[0]) <= 3 and len(expected[2]) <= 6


@pytest.mark.parametrize("prompts", ["ab", ["a", ""]])
def test_prompts_are_a_list_of_texts(prompts):
    model = build(DecoderConfig(2, 8, n_layer=1, n_head=1, n_embd=8), np.random.default_rng(0))
    with pytest.raises(ValueError, match="prompts are a list of texts that are not empty"):
        write(model, Vocabulary("ab"), prompts, 3, temperature=0)
    assert write(model, Vocabulary("ab"), [], 3, temperature=0) == []
