"""The small tasks: what their pairs and batches hold."""

import numpy as np
import pytest

from tinygrad_tf import tasks
from tinygrad_tf.data import IGNORE
from tinygrad_tf.models import TransformerConfig, build


@pytest.mark.parametrize(("number", "words"), [
    (0, "zero"), (7, "seven"), (10, "ten"), (19, "nineteen"), (20, "twenty"), (42, "forty two"), (100, "one hundred"),
    (412, "four hundred twelve"), (1000, "one thousand"), (7_030, "seven thousand thirty"),
    (999_999, "nine hundred ninety nine thousand nine hundred ninety nine"),
])  # fmt: skip
def test_numbers_in_words(number, words):
    assert tasks.in_words(number) == words


@pytest.mark.parametrize("number", [-1, 1_000_000])
def test_numbers_without_words(number):
    with pytest.raises(ValueError, match="999,999"):
        tasks.in_words(number)


def test_pairs():
    pairs = tasks.counting(2000, np.random.default_rng(0))
    assert sorted(int(digits) for _, digits in pairs) == list(range(2000))
    assert len({words for words, _ in pairs}) == 2000
    pairs = tasks.reversing(3000, np.random.default_rng(0), longest=5)
    assert len({a for a, _ in pairs}) == 3000
    assert all(b == a[::-1] and 1 <= len(a) <= 5 for a, b in pairs)
    assert {len(a) for a, _ in pairs} == {1, 2, 3, 4, 5}


def test_a_batch_of_pairs_asks_each_position_for_the_next_one():
    pairs = [("ab", "xyz"), ("abcd", "z")]
    vocabulary = tasks.vocabulary_of(pairs)
    source, ids, targets, mask = tasks.pair_batches(pairs, vocabulary, 20)(np.random.default_rng(0))
    read = lambda row: vocabulary.decode(row)
    found = {(read(s[m]), read(i[t != IGNORE]), read(t[t != IGNORE])) for s, i, t, m in zip(source, ids, targets, mask)}
    assert found == {("ab", "^xyz", "xyz$"), ("abcd", "^z", "z$")}


def test_hidden_characters_alone_are_asked_for():
    text = np.random.default_rng(0).integers(0, 9, 500).astype(np.uint8)
    ids, targets = tasks.hidden_batches(text, hidden=9, size=200, length=30)(np.random.default_rng(1))
    chosen = targets != IGNORE
    assert ((ids == 9) == chosen).all() and chosen.any(1).all()
    assert 0.13 < chosen.mean() < 0.17
    windows = {tuple(text[i : i + 30]) for i in range(471)}
    assert {tuple(row) for row in np.where(chosen, targets, ids)} <= windows
    assert tasks.hide(np.zeros((50, 3), int), 9, 0.0, np.random.default_rng(0))[1][:, 0].tolist() == [0] * 50


def test_entropy_of_characters():
    assert tasks.entropy_of_characters(np.array([3, 3, 5, 5])) == pytest.approx(np.log(2))
    assert tasks.entropy_of_characters(np.array([1])) == 0


def test_the_loop_learns_and_says_when_it_cannot():
    pairs = tasks.counting(20, np.random.default_rng(0))
    vocabulary = tasks.vocabulary_of(pairs)
    config = TransformerConfig(len(vocabulary), 12, n_layer=1, n_head=2, n_embd=16, arrangement="encoder-decoder")
    model, batch = build(config, np.random.default_rng(0)), tasks.pair_batches(pairs, vocabulary, 16)
    losses = tasks.fit(model, batch, 60, np.random.default_rng(0))
    assert len(losses) == 60 and np.mean(losses[-10:]) < 0.8 * np.mean(losses[:10])
    with np.errstate(all="ignore"), pytest.raises(ValueError, match="at step .*: a smaller lr helps"):
        tasks.fit(model, batch, 60, np.random.default_rng(0), lr=1e30)


@pytest.mark.parametrize("n, longest", [(27, 1), (1, 0), (-1, 3)])
def test_no_more_strings_than_there_are(n, longest):
    with pytest.raises(ValueError, match=f"n={n}: there are [0-9,]+ different strings of 1 to {longest} letters"):
        tasks.reversing(n, np.random.default_rng(0), longest=longest)
    assert len(tasks.reversing(26, np.random.default_rng(0), longest=1)) == 26
