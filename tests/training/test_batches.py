"""Several prompts of different lengths at once: each goes on as it would alone."""

import numpy as np
import pytest

from tinygrad_tf.generate import GenerationStats, generate, padded, sample_token
from tinygrad_tf.models import DecoderConfig, TransformerConfig, build

PROMPTS = [[1], [4, 2, 6], [5, 3, 1, 2, 0], [6, 5, 4, 3, 2, 1, 0, 1, 2]]  # the last is longer than the context
KINDS = {
    "learned": {}, "sinusoidal": {"positions": "sinusoidal"}, "halves": {"positions": "sinusoidal_halves"},
    "alibi": {"positions": "alibi"}, "t5": {"positions": "t5"}, "none": {"positions": "none"}, "window": {"window": 3},
    "alibi in a window": {"positions": "alibi", "window": 2}, "linear": {"attention": "linear"},
    "modern": {"positions": "rotary", "n_kv_head": 1, "norm": "rms", "ffn": "swiglu", "qk_norm": True},
    "2017": {"positions": "sinusoidal", "norm_order": "post", "scale_embedding": True, "bias": True},
}  # fmt: skip


def small(block_size=7, **settings):
    config = DecoderConfig(7, block_size, n_layer=2, n_head=2, n_embd=16, init_std=0.5, **settings)
    return build(config, np.random.default_rng(0))


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prompts", [PROMPTS[:2], PROMPTS[:3], PROMPTS])
def test_a_batch_is_its_texts_one_by_one(kind, prompts, cache):
    """12 tokens from a context of 7: the window moves, and the shorter ones leave their padding behind."""
    model = small(**KINDS[kind])
    alone = [list(generate(model, np.array(prompt), 12, temperature=0, cache=False)) for prompt in prompts]
    together = list(generate(model, prompts, 12, temperature=0, cache=cache))
    assert np.stack(together, 1).tolist() == alone


@pytest.mark.parametrize("kind", KINDS)
def test_logits_under_padding_are_those_of_the_text_alone(kind):
    model = small(**KINDS[kind]).double().eval()
    rows = [[1, 2], [3, 4, 5, 6, 1]]
    ids, mask = padded(rows, left=True)
    assert mask.tolist() == [[False] * 3 + [True] * 2, [True] * 5]
    whole, alone = model(ids, mask=mask).detach().numpy(), [model(np.array([row])).detach().numpy()[0] for row in rows]
    assert np.isfinite(whole).all()
    np.testing.assert_allclose(whole[0, 3:], alone[0], atol=1e-12)
    np.testing.assert_allclose(whole[1], alone[1], atol=1e-12)
    ids[0, :3] = 6
    np.testing.assert_array_equal(model(ids, mask=mask).detach().numpy()[0, 3:], whole[0, 3:])  # whatever the padding is

    cache, steps = model.new_cache(2), []
    for t in range(5):
        steps.append(model(ids[:, t : t + 1], cache, mask=mask[:, : t + 1]).detach().numpy()[:, 0])
    np.testing.assert_allclose(np.stack(steps, 1)[0, 3:], alone[0], atol=1e-12)
    np.testing.assert_allclose(np.stack(steps, 1)[1], alone[1], atol=1e-12)


def test_a_generator_for_each_text_draws_what_it_would_draw_alone():
    model = small()
    each = lambda: [np.random.default_rng(seed) for seed in range(3)]
    alone = [list(generate(model, np.array(p), 9, generator=g)) for p, g in zip(PROMPTS, each())]
    assert np.stack(list(generate(model, PROMPTS[:3], 9, generator=each())), 1).tolist() == alone
    with pytest.raises(ValueError, match="2 generators for 3 texts"):
        generate(model, PROMPTS[:3], 9, generator=each()[:2])


def until_first(tokens, stops):
    cut = next((i + 1 for i, token in enumerate(tokens) if token in stops), len(tokens))
    return tokens[:cut]


@pytest.mark.parametrize("cache", [True, False])
def test_a_stop_token_ends_a_text_and_the_last_one_ends_the_batch(cache):
    model = small()
    free = [list(generate(model, np.array(p), 12, temperature=0)) for p in PROMPTS]
    for stops in [(), 0, 1, (2, 3), (4, 5, 6)]:
        each = stops if isinstance(stops, tuple) else (stops,)
        ends = [until_first(text, each) for text in free]
        for prompt, end in zip(PROMPTS, ends):
            assert list(generate(model, np.array(prompt), 12, temperature=0, cache=cache, stop=stops)) == end
        found = np.stack(list(generate(model, PROMPTS, 12, temperature=0, cache=cache, stop=stops)), 1).tolist()
        longest = max(map(len, ends))
        assert found == [end + [end[-1]] * (longest - len(end)) for end in ends]


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("kind", ["learned", "window", "linear", "modern"])
def test_a_text_that_is_over_leaves_the_batch(kind, cache):
    """The others go on as before; each step has as many rows as there are texts that go on."""
    model, seen, fewest = small(**KINDS[kind]), [], len(PROMPTS)
    each = lambda: [np.random.default_rng(seed) for seed in range(4)]
    free = [list(generate(model, np.array(p), 12, generator=g)) for p, g in zip(PROMPTS, each())]
    model.register_forward_pre_hook(lambda _, args: seen.append(len(args[0])))
    for stop in range(7):
        seen.clear()
        ends = [until_first(text, [stop]) for text in free]
        found = np.stack(list(generate(model, PROMPTS, 12, generator=each(), cache=cache, stop=stop)), 1).tolist()
        longest = max(map(len, ends))
        assert found == [end + [end[-1]] * (longest - len(end)) for end in ends]
        assert seen == [sum(len(end) > step for end in ends) for step in range(longest)]
        fewest = min(fewest, *seen)
    assert fewest < len(PROMPTS)


def test_a_shared_generator_draws_for_the_texts_that_go_on():
    """In their order: as if each text were asked alone, token by token, from the one generator."""
    model, generator = small(), np.random.default_rng(5)
    found = np.stack(list(generate(model, PROMPTS, 9, generator=np.random.default_rng(5), stop=(0, 1))), 1)
    texts, over = [list(prompt) for prompt in PROMPTS], [False] * len(PROMPTS)
    for step in range(found.shape[1]):
        for i, text in enumerate(texts):
            if not over[i]:
                logits = model(np.array([text[-7:]])).detach().numpy()[0, -1]
                text.append(sample_token(logits, generator=generator))
                assert text[-1] == found[i, step]
                over[i] = text[-1] in (0, 1)
    assert any(over)


def test_nothing_is_computed_after_the_end():
    model, stats = small(), GenerationStats()
    first = next(generate(model, [1, 2], 1, temperature=0))
    assert list(generate(model, [1, 2], 50, temperature=0, stop=first, stats=stats)) == [first]
    assert stats.computed == 2


@pytest.mark.parametrize("prompts", [[[1], []], [[1, 2], [0.5]], [1, [2, 3]], [[1], [[2, 3]]]])
def test_prompts_that_do_not_do(prompts):
    with pytest.raises(ValueError, match="whole numbers|at least one token"):
        generate(small(), prompts, 1, temperature=0)


def test_padding_on_the_right_is_refused():
    with pytest.raises(ValueError, match="on the left"):
        small()(np.array([[1, 2]]), mask=np.array([[True, False]]))


@pytest.mark.parametrize("stop", [1.7, True, None, [2, 0.5]])
def test_a_stop_token_is_a_whole_number(stop):
    with pytest.raises(ValueError, match="stop tokens are one row of whole numbers"):
        generate(small(), [1], 1, temperature=0, stop=stop)


def test_only_what_says_the_next_token_generates():
    settings = {"vocab_size": 5, "block_size": 8, "n_layer": 1, "n_head": 1, "n_embd": 8}
    with pytest.raises(TypeError, match="generate needs a Decoder, not Encoder$"):
        generate(build(TransformerConfig(**settings, arrangement="encoder")), [1], 1, temperature=0)
    with pytest.raises(TypeError, match=r"not EncoderDecoder; translate\.Reader\(model, sources\) is one"):
        generate(build(TransformerConfig(**settings, arrangement="encoder-decoder")), [1], 1, temperature=0)
    with pytest.raises(TypeError, match=r"a generator is np\.random\.default_rng\(seed\), not 0"):
        generate(small(), [1], 1, generator=0)
