"""Generation with an encoder-decoder: greedy with and without a cache, and beam search beside an exhaustive one."""

import itertools

import numpy as np
import pytest

from tinygrad_tf.beam import beam_search
from tinygrad_tf.generate import generate
from tinygrad_tf.models import DecoderConfig, TransformerConfig, build
from tinygrad_tf.translate import Reader, translate

START, END = 0, 1
SOURCES = [[3, 4], [5, 2, 6, 3, 4, 2], [6], [2, 2, 3]]


def small(vocab=7, seed=0, std=0.5, **settings):
    size = {"n_layer": 2, "n_head": 2, "n_embd": 16, "init_std": std}
    config = TransformerConfig(vocab, 8, arrangement="encoder-decoder", **size, **settings)
    return build(config, np.random.default_rng(seed))


def by_hand(model, source, n):
    ids = [START]
    while len(ids) <= n and ids[-1] != END:
        ids.append(int(model(np.array([source]), np.array([ids])).detach().numpy()[0, -1].argmax()))
    return [i for i in ids[1:] if i != END]


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("settings", [{}, {"positions": "sinusoidal", "norm_order": "post"}, {"positions": "t5", "norm": "rms"},
                                      {"positions": "rotary", "n_kv_head": 1, "qk_norm": True}])  # fmt: skip
def test_a_batch_of_sources_is_each_alone(settings, cache):
    for seed in range(3):
        model = small(seed=seed, **settings)
        expected = [by_hand(model, source, 8) for source in SOURCES]
        assert [row.tolist() for row in translate(model, SOURCES, 8, start=START, end=END, cache=cache)] == expected
        for source, text in zip(SOURCES, expected):
            assert translate(model, [source], 8, start=START, end=END, cache=cache)[0].tolist() == text
    assert [len(row) for row in translate(model, SOURCES, 0, start=START, end=END)] == [0] * 4


@pytest.mark.parametrize(("cache", "calls"), [(True, 1), (False, 6)])
def test_the_keys_of_the_source_are_computed_once(cache, calls):
    model, seen = small(), []
    for block in model.decoder.blocks:
        block.cross.k_proj.register_forward_hook(lambda m, args, out: seen.append(out.shape))
    list(generate(Reader(model, SOURCES[:2]), [[START]] * 2, 6, temperature=0, cache=cache))
    assert seen == [(2, 6, 16)] * (calls * 2)


def test_the_past_of_the_target_does_not_matter_when_its_window_moves():
    model = small(positions="none")
    tokens = [list(generate(Reader(model, SOURCES[:1]), [START], 20, temperature=0, cache=cache)) for cache in (True, False)]
    assert tokens[0] == tokens[1] and len(tokens[0]) == 20


def test_spectrograms():
    model = small(n_mels=5, encoder_size=6, positions="learned")
    sound = np.random.default_rng(0).standard_normal((2, 5, 12)).astype(np.float32)
    both = translate(model, sound, 8, start=START, end=END)
    assert [row.tolist() for row in both] == [translate(model, sound[i : i + 1], 8, start=START, end=END)[0].tolist()
                                              for i in range(2)]  # fmt: skip
    assert beam_search(Reader(model, sound[:1]), [START], 8, end=END, width=1)[0].ids == tuple(both[0])


# ------------------------------------------------------------------------------------------------ beams


def exhaustive(reader, n, vocab, penalty):
    """Every text of at most n tokens with its score, the best first."""
    found = []
    for length in range(1, n + 1):
        for text in itertools.product(range(vocab), repeat=length):
            if END in text[:-1] or (text[-1] != END and length < n):
                continue
            logits = reader(np.array([[START, *text[:-1]]])).detach().numpy()[0].astype(np.float64)
            logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
            nats = logs[np.arange(length), text].sum()
            found.append((nats / length**penalty, tuple(i for i in text if i != END)))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
def test_as_wide_as_there_are_texts_it_finds_them_all_in_order(penalty, cache):
    for seed in range(3):
        reader = Reader(small(3, seed, 0.3).double(), [[2, 0, 2]])
        all_texts = exhaustive(reader, 4, 3, penalty)
        found = beam_search(reader, [START], 4, end=END, width=100, length_penalty=penalty, early_stop=False, cache=cache)
        assert [each.ids for each in found] == [ids for _, ids in all_texts]
        np.testing.assert_allclose([each.score for each in found], [score for score, _ in all_texts], atol=1e-10)
        assert abs(sum(np.exp(each.log_probability) for each in found) - 1) < 1e-10
        early = beam_search(reader, [START], 4, end=END, width=100, length_penalty=penalty, cache=cache)
        assert early[0] == found[0] and set(early) <= set(found)


@pytest.mark.parametrize("cache", [True, False])
def test_width_1_is_greedy(cache):
    for seed in range(5):
        model = small(seed=seed)
        for source in SOURCES:
            greedy = translate(model, [source], 8, start=START, end=END)[0]
            for penalty in (0.0, 1.0):
                one = beam_search(Reader(model, [source]), [START], 8, end=END, width=1, length_penalty=penalty, cache=cache)
                assert [each.ids for each in one] == [tuple(greedy)]
                assert one[0].ended == (len(greedy) < 8)


@pytest.mark.parametrize("width", [2, 3, 5])
def test_stopping_early_changes_no_winner_and_computes_less(width):
    steps = {True: 0, False: 0}
    for seed, source in itertools.product(range(6), SOURCES):
        reader = Reader(small(seed=seed, std=0.3).double(), [source])
        best = []
        for early in (True, False):
            calls = []
            hook = reader.model.decoder.register_forward_hook(lambda *_, calls=calls: calls.append(1))
            found = beam_search(reader, [START], 8, end=END, width=width, early_stop=early, length_penalty=0.0)
            hook.remove()
            steps[early] += len(calls)
            assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
            assert len(found) <= width and (early or len(found) == width)
            best.append(found[0])
        assert best[0] == best[1]
    assert steps[True] < steps[False]


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("settings", [{}, {"positions": "t5", "norm": "rms"}, {"attention": "linear", "positions": "none"}])
@pytest.mark.parametrize("early", [True, False])
def test_several_sources_are_each_searched_alone(settings, cache, early):
    """All beams side by side, some of which end before others; the encoder runs once."""
    for seed in range(3):
        model = small(seed=seed, **settings).double()
        how = {"end": END, "width": 3, "early_stop": early, "cache": cache}
        alone = [beam_search(Reader(model, [source]), [START], 8, **how) for source in SOURCES]
        together = beam_search(Reader(model, SOURCES), [[START]] * 4, 8, **how)
        for one, other in zip(alone, together, strict=True):
            assert [each.ids for each in one] == [each.ids for each in other]
            np.testing.assert_allclose([each.score for each in one], [each.score for each in other], rtol=1e-10)
    assert len({found[0].score for found in together}) == 4  # each source has probabilities of its own


def test_a_search_that_is_over_is_not_computed_any_more():
    reader, seen = Reader(small(seed=1), SOURCES), []
    reader.model.decoder.register_forward_pre_hook(lambda _, args: seen.append(len(args[0])))
    found = beam_search(reader, [[START]] * 4, 8, end=END, width=2)
    assert seen[0] == 4 and max(seen) <= 8
    assert seen[-1] < 4 or len(seen) < 8
    assert all(1 <= len(each) <= 2 for each in found)


@pytest.mark.parametrize("cache", [True, False])
def test_a_target_that_has_ended_is_not_computed_any_more(cache):
    """Each step has a row for each text that goes on, with its own source and its own padding."""
    dropped = 0
    for seed in range(5):
        model, seen = small(seed=seed), []
        hook = model.decoder.register_forward_pre_hook(lambda _, args, seen=seen: seen.append(len(args[0])))
        texts = translate(model, SOURCES, 8, start=START, end=END, cache=cache)
        hook.remove()
        steps = [min(len(text) + 1, 8) for text in texts]  # the end token besides
        assert seen == [sum(n > step for n in steps) for step in range(max(steps))]
        dropped += seen[-1] < 4
    assert dropped


def test_wider_finds_what_greedy_misses():
    better = 0
    for seed in range(10):
        reader = Reader(small(3, seed, 0.5).double(), [[2, 0, 2]])
        scores = [beam_search(reader, [START], 5, end=END, width=w, length_penalty=0)[0].score for w in (1, 250)]
        assert scores[1] >= scores[0] - 1e-12
        better += scores[1] > scores[0] + 1e-9
    assert better > 0


def test_a_decoder_can_be_searched_too():
    model = build(DecoderConfig(7, 8, n_layer=1, n_head=2, n_embd=16, init_std=0.5), np.random.default_rng(0))
    greedy = list(generate(model, [3, 4], 5, temperature=0))
    assert beam_search(model, [3, 4], 5, end=7, width=1)[0].ids == tuple(greedy)


@pytest.mark.parametrize(("given", "word"), [({"width": 0}, "width"), ({"n": 0}, "at least 1"), ({"n": 9}, "block_size=8"),
                                             ({"length_penalty": -1}, "length_penalty"), ({"ids": [[[0]]]}, "whole numbers")])
def test_searches_that_do_not_do(given, word):
    with pytest.raises(ValueError, match=word):
        beam_search(Reader(small(), [[2]]), **{"ids": [START], "n": 3, "end": END, **given})


def test_sources_that_do_not_do():
    for sources in ([], [[1], []]):
        with pytest.raises(ValueError, match="nothing to read"):
            Reader(small(), sources)
    with pytest.raises(ValueError, match="3 texts for 2 sources"):
        Reader(small(), SOURCES[:2])(np.zeros((3, 1), int))
    model = small()
    model.decoder.norm.weight.array[:] = np.nan
    with pytest.raises(ValueError, match="new token 1: the logits are not finite"):
        beam_search(Reader(model, [[2]]), [START], 3, end=END)


@pytest.mark.parametrize("source", [[5.7, 6.2], [True], 5, "ab"])
def test_ids_of_a_source_are_whole_numbers(source):
    with pytest.raises(ValueError, match="ids of a source are one row of whole numbers"):
        translate(small(), [source], 3, start=START, end=END)


def test_the_wrong_kind_of_model_and_end():
    decoder = build(DecoderConfig(7, 8, n_layer=1, n_head=1, n_embd=8))
    with pytest.raises(TypeError, match="sources are read by an EncoderDecoder, not by a Decoder"):
        translate(decoder, SOURCES, 3, start=START, end=END)
    with pytest.raises(TypeError, match=r"beam_search needs a Decoder, not EncoderDecoder; translate\.Reader"):
        beam_search(small(), [START], 3, end=END)
    for end in (0.5, None):
        with pytest.raises(ValueError, match="end tokens are one row of whole numbers"):
            beam_search(decoder, [START], 3, end=end)
