"""S21 and S23: where a token stands, by a learned row or by a rotation."""

import math

import numpy as np
import pytest

from tinygrad_tf import Tensor, fused, nn
from tinygrad_tf import tensor as t
from tinygrad_tf.models import Decoder, DecoderConfig


def test_S21_a_learned_table_ends_at_its_last_row():
    table = nn.Embedding(1024, 4)
    assert table(np.array([1023])).shape == (1, 4)
    with pytest.raises(IndexError, match=r"1024 .*1024 rows \(0 to 1023\)"):
        table(np.array([1024]))


def test_S21_a_text_longer_than_the_table_is_refused_by_the_model():
    model = Decoder(DecoderConfig(5, 1024, n_layer=1, n_head=1, n_embd=2))
    assert model(np.zeros((1, 1024), int)).shape == (1, 1024, 5)
    with pytest.raises(ValueError, match=r"1025.*1024"):
        model(np.zeros((1, 1025), int))


def test_S21_the_same_word_at_two_places_starts_differently():
    model = Decoder(DecoderConfig(5, 8, n_layer=1, n_head=1, n_embd=4), np.random.default_rng(0))
    seen = []
    model.blocks[0].register_forward_pre_hook(lambda m, args: seen.append(args[0].array[0]))
    model(np.array([[3, 3, 3]]))
    expected = model.token_embedding.weight.array[3] + model.position_embedding.weight.array[:3]
    np.testing.assert_array_equal(seen[0], expected)
    assert len(np.unique(seen[0], axis=0)) == 3


def turned(x, position, degrees, interleaved=False):
    """The vector x, every pair of it turned by position * degrees."""
    angles = np.full((1, len(x) // 2), math.radians(position * degrees))
    return fused.rotary(t(np.array([x])), cos=np.cos(angles), sin=np.sin(angles), interleaved=interleaved).array[0]


@pytest.mark.parametrize("gap, figure", [(0, "2.000"), (1, "2.232"), (2, "1.866"), (-1, "1.232")])
def test_S23_only_the_gap_counts(prints, gap, figure):
    for key in (0, 1, 5, 100, -7):
        score = turned([1.0, 0.0], key + gap, 30) @ turned([2.0, 1.0], key, 30)
        prints(score, figure)


def test_S23_four_degrees_a_position(prints):
    prints(turned([1.0, 0.0], 12, 4) @ turned([1.0, 0.0], 4, 4), "0.85")
    np.testing.assert_allclose(turned([1.0, 0.0], 12, 4) @ turned([1.0, 0.0], 4, 4), math.cos(math.radians(32)), rtol=1e-14)
    np.testing.assert_allclose(turned([1.0, 0.0], 12, 4), [math.cos(math.radians(48)), math.sin(math.radians(48))], rtol=1e-14)


@pytest.mark.parametrize("width", [2, 4, 64])
@pytest.mark.parametrize("base", [10000.0, 500.0])
def test_S23_every_pair_has_its_speed(width, base):
    angles = nn.Rotary(width, base).angles(np.array([0, 1, 7]))
    assert angles.shape == (3, width // 2)
    for i in range(width // 2):
        np.testing.assert_allclose(angles[:, i], np.array([0, 1, 7]) * base ** (-2 * i / width), rtol=1e-14)


@pytest.mark.parametrize("interleaved", [False, True])
def test_S23_both_layouts_of_the_pairs(interleaved):
    rotary, x = nn.Rotary(6, interleaved=interleaved), np.arange(1.0, 7.0)
    y = rotary(Tensor(np.tile(x, (4, 1)))).array
    angles = rotary.angles(np.arange(4))
    pairs = [(0, 1), (2, 3), (4, 5)] if interleaved else [(0, 3), (1, 4), (2, 5)]
    for i, (a, b) in enumerate(pairs):
        cos, sin = np.cos(angles[:, i]), np.sin(angles[:, i])
        np.testing.assert_allclose(y[:, a], x[a] * cos - x[b] * sin, atol=1e-14)
        np.testing.assert_allclose(y[:, b], x[a] * sin + x[b] * cos, atol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(y, axis=1), np.linalg.norm(x), rtol=1e-14)
    np.testing.assert_array_equal(y[0], x)


@pytest.mark.parametrize("interleaved", [False, True])
def test_S23_a_shift_of_query_and_key_changes_no_score(interleaved):
    rotary = nn.Rotary(8, interleaved=interleaved)
    q, k = (Tensor(np.random.default_rng(i).standard_normal((1, 2, 5, 8))) for i in range(2))
    scores = [(rotary(q, start) @ rotary(k, start).transpose(-2, -1)).array for start in (0, 3, 1000)]
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-12)
    np.testing.assert_allclose(scores[2], scores[0], atol=1e-11)
    apart = (rotary(q, 1) @ rotary(k, 0).transpose(-2, -1)).array
    assert abs(apart - scores[0]).max() > 0.1


def test_S23_no_parameters_and_an_odd_width_is_refused():
    assert list(nn.Rotary(8).state_dict()) == []
    with pytest.raises(ValueError, match="3 is odd"):
        nn.Rotary(3)


def test_S23_the_dtype_of_the_input_is_kept_far_from_the_start():
    """Angles are computed in float64: in float32 those of position 100,000 would be off in the third digit."""
    rotary, x = nn.Rotary(4), np.ones((1, 4))
    for dtype, tolerance in ((np.float32, 1e-6), (np.float64, 1e-14)):
        y = rotary(Tensor(x.astype(dtype)), 100_000)
        angle = 100_000 * np.array([1.0, 0.01])
        assert y.dtype == dtype
        np.testing.assert_allclose(
            y.array[0], np.concatenate([np.cos(angle) - np.sin(angle), np.sin(angle) + np.cos(angle)]), atol=tolerance
        )
