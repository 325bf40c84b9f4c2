"""S20 to S23: where a token stands, by waves, by a learned row, by what is added to the scores, or by a rotation."""

import math

import numpy as np
import pytest

from tinygrad_tf import Tensor, fused, nn
from tinygrad_tf import tensor as t
from tinygrad_tf.models import Decoder, DecoderConfig


def test_S20_the_table_of_width_four(prints):
    table = nn.SinusoidalPositions(4).map(4)
    prints(table[0], "0.0000 1.0000 0.0000 1.0000")
    prints(table[1], "0.8415 0.5403 0.0100 1.0000")
    prints(table[2], "0.9093 -0.4161 0.0200 0.9998")
    prints(table[3], "0.1411 -0.9900 0.0300 0.9996")
    for p in range(4):
        np.testing.assert_allclose(table[p], [math.sin(p), math.cos(p), math.sin(p / 100), math.cos(p / 100)], atol=1e-15)


@pytest.mark.parametrize("width", [2, 4, 6, 64, 512])
@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("k", [1, 5, 300])
def test_S20_a_shift_is_one_rotation_of_each_pair(width, halves, k):
    if halves and width < 4:
        return
    positions = nn.SinusoidalPositions(width, halves=halves)
    table, pairs = positions.map(400), width // 2
    sin, cos = (table[:, :pairs], table[:, pairs:]) if halves else (table[:, 0::2], table[:, 1::2])
    angles = k * 10000.0 ** (-np.arange(pairs) / (pairs - 1 if halves else pairs))
    np.testing.assert_allclose(sin[k:], sin[:-k] * np.cos(angles) + cos[:-k] * np.sin(angles), atol=1e-11)
    np.testing.assert_allclose(cos[k:], cos[:-k] * np.cos(angles) - sin[:-k] * np.sin(angles), atol=1e-11)


@pytest.mark.parametrize("width", [2, 10, 128])
def test_S20_a_map_for_any_width(width):
    heat = nn.SinusoidalPositions(width).map(50)
    assert heat.shape == (50, width)
    assert abs(heat).max() <= 1
    assert len(np.unique(heat.round(6), axis=0)) == 50  # no two positions look alike


def test_S20_it_has_no_last_row_and_no_parameters():
    positions = nn.SinusoidalPositions(8)
    assert list(positions.parameters()) == []
    assert positions(np.array([10**6])).shape == (1, 8)
    model = Decoder(DecoderConfig(5, 8, n_layer=1, n_head=1, n_embd=4, positions="sinusoidal"), np.random.default_rng(0))
    seen = []
    model.blocks[0].register_forward_pre_hook(lambda m, args: seen.append(args[0].array[0]))
    model(np.array([[3, 3, 3]]))
    expected = model.token_embedding.weight.array[3] + nn.SinusoidalPositions(4).map(3)
    np.testing.assert_allclose(seen[0], expected, atol=1e-7)


def test_S21_a_learned_table_ends_at_its_last_row():
    table = nn.LearnedPositions(1024, 4)
    assert table(np.array([1023])).shape == (1, 4)
    with pytest.raises(IndexError, match=r"position 1024 is past .* 1024 rows \(0 to 1023\)"):
        table(np.array([1024]))
    with pytest.raises(IndexError, match="position 1024 is past"):
        table.add(Tensor(np.zeros((1, 25, 4), np.float32)), 1000)


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


def test_S22_alibi_slopes_and_what_they_do_to_the_weights():
    """With queries and keys alike, a head's weights fall by one factor a position, e^-slope, its own."""
    positions = nn.ALiBi(4)
    np.testing.assert_allclose(positions.slopes, [1 / 4, 1 / 16, 1 / 64, 1 / 256])
    bias = positions.map(5)
    np.testing.assert_allclose(bias[0], -abs(np.subtract.outer(np.arange(5), np.arange(5))) / 4)
    q = Tensor(np.zeros((1, 4, 5, 3)))
    values = Tensor(np.broadcast_to(np.eye(5), (1, 4, 5, 5)).copy())
    weights = fused.attention(q, q, values, positions.bias(5, 5, 0, np.float64), causal=0).array[0]
    for head, slope in enumerate(positions.slopes):
        np.testing.assert_allclose(weights[head, 4, 1:] / weights[head, 4, :-1], math.exp(slope), rtol=1e-12)


def test_S22_t5_buckets_share_a_number_and_learn_it():
    """One number a head and bucket: the same for all pairs that are as far apart; near distances apart, far ones together."""
    positions = nn.T5Bias(2, buckets=8, max_distance=16).double()
    bias = positions.bias(20, 20).array
    for gap in range(20):
        assert len(np.unique(np.diagonal(bias, -gap, 1, 2)[0])) == 1
    row = positions.bucket(np.arange(20)).tolist()
    assert row == [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7]
    assert positions.bucket(-np.arange(20)).tolist() == [0] * 20  # what comes later is hidden by the causal mask anyway
    both = nn.T5Bias(2, two_sided=True, buckets=8, max_distance=16)
    assert both.bucket(np.array([-20, -3, -2, -1, 0, 1, 2, 3, 20])).tolist() == [7, 6, 6, 5, 0, 1, 2, 2, 3]

    layer = nn.MultiHeadAttention(8, 2, positions=positions).double()
    x = Tensor(np.random.default_rng(0).standard_normal((1, 6, 8)))
    layer(x, causal=True)[0, -1].sum().backward()
    moved = positions.weight.grad.array.any(-1)
    assert moved.tolist() == [True] * 5 + [False] * 3  # gaps 0 to 5 lie in buckets 0 to 4


def test_S22_a_bias_on_the_scores_knows_the_distance_and_not_the_place():
    x = np.random.default_rng(0).standard_normal((1, 4, 8))
    pad = np.random.default_rng(1).standard_normal((1, 3, 8))
    for positions in (nn.ALiBi(2), nn.T5Bias(2, buckets=8, max_distance=16)):
        layer = nn.MultiHeadAttention(8, 2, positions=positions).double()
        later = np.arange(7) >= 3  # the same four words at place 3, what stands before them left out
        moved = layer(Tensor(np.concatenate([pad, x], 1)), mask=later, causal=True).array[:, 3:]
        np.testing.assert_allclose(moved, layer(Tensor(x), causal=True).array, atol=1e-14)


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
