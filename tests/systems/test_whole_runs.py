"""An encoder and two encoder-decoders trained to the end, a minute each on one thread. The decoder's runs are the presets."""

import numpy as np
import pytest

from tinygrad_tf import tasks
from tinygrad_tf.beam import beam_search
from tinygrad_tf.data import IGNORE
from tinygrad_tf.generate import evaluating
from tinygrad_tf.grammar import STORIES
from tinygrad_tf.models import TransformerConfig, build
from tinygrad_tf.text import Vocabulary
from tinygrad_tf.translate import Reader, translate

pytestmark = pytest.mark.slow

SIZE = {"n_layer": 2, "n_head": 4, "n_embd": 64, "norm": "rms"}
HELD_OUT = 500


def trained(pairs, steps):
    """The model after learning from all pairs but the first HELD_OUT, the vocabulary, and the longest target with its end."""
    vocabulary = tasks.vocabulary_of(pairs)
    source, target = (max(map(len, side)) for side in zip(*pairs))
    config = TransformerConfig(len(vocabulary), target + 1, encoder_size=source, arrangement="encoder-decoder", **SIZE)
    model = build(config, np.random.default_rng(1))
    tasks.fit(model, tasks.pair_batches(pairs[HELD_OUT:], vocabulary, 64), steps, np.random.default_rng(2))
    return model, vocabulary, target + 1


def exact_match(model, vocabulary, longest, pairs):
    """The share of pairs whose whole target comes out; also that of the first 50 with beams."""
    start, end = (int(vocabulary.encode(mark)[0]) for mark in (tasks.START, tasks.END))
    sources = [vocabulary.encode(a) for a, _ in pairs]
    found = [vocabulary.decode(row) for row in translate(model, sources, longest, start=start, end=end)]
    beams = [beam_search(Reader(model, [source]), [start], longest, end=end)[0] for source in sources[:50]]
    return (np.mean([text == b for text, (_, b) in zip(found, pairs)]),
            np.mean([vocabulary.decode(each.ids) == b for each, (_, b) in zip(beams, pairs)]))  # fmt: skip


def test_reversing():
    pairs = tasks.reversing(20_000, np.random.default_rng(0))
    greedy, beams = exact_match(*trained(pairs, 700), pairs[:HELD_OUT])
    print(f"exact match {greedy:.1%}, with beams {beams:.1%}")
    assert greedy > 0.99
    assert beams > 0.95  # of 50


def test_number_words_to_digits():
    pairs = tasks.counting(10_000, np.random.default_rng(0))
    greedy, beams = exact_match(*trained(pairs, 800), pairs[:HELD_OUT])
    print(f"exact match {greedy:.1%}, with beams {beams:.1%}")
    assert greedy > 0.99
    assert beams > 0.95


def test_hidden_characters():
    """The loss is far below what the frequencies of the characters alone can give."""
    text = STORIES.text(300_000, 0)
    vocabulary = Vocabulary(set(text) | {tasks.HIDDEN})
    learned, held_out = np.split(vocabulary.encode(text), [270_000])
    hidden = int(vocabulary.encode(tasks.HIDDEN)[0])
    model = build(TransformerConfig(len(vocabulary), 64, arrangement="encoder", **SIZE), np.random.default_rng(1))
    tasks.fit(model, tasks.hidden_batches(learned, hidden, 32, 64), 600, np.random.default_rng(2))

    ids, targets = tasks.hidden_batches(held_out, hidden, 500, 64)(np.random.default_rng(3))
    with evaluating(model):
        guesses, loss = model(ids).numpy().argmax(-1), model.loss(ids, targets).item()
    asked = targets != IGNORE
    right, entropy = np.mean(guesses[asked] == targets[asked]), tasks.entropy_of_characters(held_out)
    print(f"loss {loss:.3f} nats, the entropy of single characters {entropy:.3f}; {right:.1%} of the hidden characters")
    assert loss < 0.5 * entropy
    assert right > 0.6
