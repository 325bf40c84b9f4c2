"""A window of keys: what its cache keeps, and that cached is uncached at every step, past the window and far past it."""

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn, no_grad
from tinygrad_tf.generate import GenerationStats, generate
from tinygrad_tf.models import Decoder, DecoderConfig

V, T = 11, 40
POSITIONS = ["learned", "sinusoidal", "rotary", "t5", "alibi", "none"]


def small(window, positions="rotary", block_size=T, **options):
    config = DecoderConfig(V, block_size, n_layer=3, n_head=4, n_kv_head=2, n_embd=16, positions=positions, init_std=0.4,
                           window=window, **options)  # fmt: skip
    return Decoder(config, np.random.default_rng(0)).double().eval()


def ids(*shape):
    return np.random.default_rng(1).integers(0, V, shape)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("window", [1, 2, 5, 19, 30, 100])
@pytest.mark.parametrize("pieces", [[1] * T, [7, 1, 1, 1, 12, 1, 17], [T], [38, 1, 1]])
def test_cached_is_uncached_at_every_step(positions, window, pieces):
    model, text, start = small(window, positions), ids(2, T), 0
    cache = model.new_cache(2)
    with no_grad():
        whole = model(text).array
        for n in pieces:
            part = model(text[:, start : start + n], cache).array
            np.testing.assert_allclose(part, whole[:, start : start + n], atol=1e-12)
            start += n
            assert cache.length == start
            assert all(min(window - 1, start) <= layer.kept <= min(2 * window, T) for layer in cache.layers)


@pytest.mark.parametrize("window", [1, 3, 8, 20, 25])
def test_the_cache_has_room_for_two_windows(window):
    """Which is the rule: never more, never less than the window needs, whatever the context."""
    model = small(window)
    cache = model.new_cache(3)
    assert cache.nbytes == 3 * 2 * 3 * 2 * min(T, 2 * window) * 4 * 8  # layers, keys and values, texts, heads, width, bytes
    whole = cache.nbytes
    with no_grad():
        for t in range(T):
            model(ids(3, T)[:, t : t + 1], cache)
    assert cache.nbytes == whole
    longer = small(window, block_size=4 * T).new_cache(3)
    assert longer.nbytes == (whole if 2 * window <= T else whole / T * 2 * window)


@pytest.mark.parametrize("window", [2, 7])
def test_positions_move_once_in_more_than_a_window_of_steps(window):
    """So a step costs the same, on the average, however long the text; nothing is copied at the others."""
    cache, moves = nn.LayerCache(1, 1, 1000, 2, np.float64, window), 0
    for t in range(1000):
        keys, _ = cache.append(Tensor(np.full((1, 1, 1, 2), float(t))), Tensor(np.zeros((1, 1, 1, 2))))
        seen = keys.array[0, 0, :, 0]
        assert seen[-min(window, t + 1) :].tolist() == list(range(t + 1))[-window:]
        moves += not np.shares_memory(keys.array, cache.keys)
    assert moves <= 1000 / (window + 1)
    with pytest.raises(ValueError, match="holds 1000 positions: 1000 are taken, 1 more"):
        cache.append(keys[:, :, :1], keys[:, :, :1])


def test_a_step_looks_at_the_window_alone(monkeypatch):
    """Counted: a new token meets at most `window` keys."""
    from tinygrad_tf import attention

    met, whole = [], attention._scores
    monkeypatch.setattr(attention, "_scores", lambda *args: met.append((s := whole(*args)).shape[-2]) or s)
    model = small(6)
    cache = model.new_cache()
    with no_grad():
        for t in range(T):
            model(ids(1, T)[:, t : t + 1], cache)
    assert met == [min(t + 1, 6) for t in range(T) for _ in range(3)]


@pytest.mark.parametrize("positions", POSITIONS)
def test_texts_with_padding_go_on_side_by_side(positions):
    """A mask speaks of all positions, also of those that the cache has dropped."""
    model = small(3, positions, block_size=24)
    prompts = [[1], [4, 2, 6, 1, 1, 3, 5], [5, 3, 1, 2, 0, 9, 7, 8, 6, 6, 2]]
    alone = [list(generate(model, prompt, 13, temperature=0, cache=False)) for prompt in prompts]
    stats = GenerationStats()
    together = list(generate(model, prompts, 13, temperature=0, stats=stats))
    assert np.stack(together, 1).tolist() == alone
    assert stats.recomputed == 0
    assert stats.cache_bytes == 3 * 3 * 2 * 2 * 6 * 4 * 8


def test_what_was_dropped_no_longer_matters():
    """Not even as garbage: the layer's own past, more than a window back, is nowhere."""
    attn = nn.MultiHeadAttention(8, 2, window=4, generator=np.random.default_rng(0)).double()
    x = np.random.default_rng(1).standard_normal((1, 30, 8))
    found = []
    for first in (x, np.concatenate([np.full((1, 20, 8), 1e300), x[:, 20:]], axis=1)):
        cache = attn.new_cache(1, np.float64, size=30)
        with np.errstate(all="ignore"):
            parts = [attn(Tensor(first[:, t : t + 1]), causal=True, cache=cache).array for t in range(30)]
        found.append(np.concatenate(parts[23:], 1))
    assert found[0].tobytes() == found[1].tobytes()


def test_a_window_cannot_keep_a_context():
    attn = nn.MultiHeadAttention(8, 2, window=4)
    x = Tensor(np.zeros((1, 6, 8), np.float32))
    with pytest.raises(ValueError, match="cannot keep a context"):
        attn(x, x, cache=attn.new_cache(size=6))
