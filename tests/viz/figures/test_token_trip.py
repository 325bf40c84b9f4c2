"""F3: the trip of each token (S24, S28), against the systems page's digits and a computation in NumPy alone."""

import numpy as np
import pytest

from tests.systems.conftest import prints
from viz.figures import token_trip
from viz.figures.paint import number, vector
from viz.figures.token_trip import DOWN, HEAD, OUT, POSITIONS, TOKENS, UP, WORDS


def trip(**settings):
    return {f"{i} {stop['label']}": stop["vector"] for i, stop in enumerate(token_trip(**settings).data["trip"])}


def rms(z):
    return z / np.sqrt((z**2).mean(-1, keepdims=True))


def computed(pre):
    """Every vector of the trip for all three tokens at once, (stops, 3, 2), and the scores."""
    x = TOKENS[:3] + POSITIONS
    found = [TOKENS[:3], x]
    for b in range(2):
        for part in ("attn", "ffn"):
            a = rms(x) if pre else x
            if part == "attn":
                e = np.where(np.tri(3), np.exp(a @ a.T / np.sqrt(2)), 0)
                update = e / e.sum(-1, keepdims=True) @ a @ OUT[b]
            else:
                update = np.maximum(a @ UP[b], 0) @ DOWN
            total = x + update
            found += [a, update, total] if pre else [update, total, rms(total)]
            x = total if pre else rms(total)
    if pre:
        x = rms(x)
        found.append(x)
    return np.array(found), x @ HEAD.T


@pytest.mark.parametrize("order", ["pre-norm", "post-norm"])
@pytest.mark.parametrize("t", range(3))
def test_S28_the_whole_trip_by_numpy_alone(order, t):
    data = token_trip(token=WORDS[t], order=order).data
    vectors, logits = computed(order == "pre-norm")
    np.testing.assert_allclose([stop["vector"] for stop in data["trip"]], vectors[:, t], atol=1e-12)
    np.testing.assert_allclose(data["scores"], logits[t], atol=1e-12)
    e = np.exp(logits[t])
    np.testing.assert_allclose(data["probabilities"], e / e.sum(), atol=1e-12)
    assert data["next"] == WORDS[int(logits[t].argmax())]


def test_S24_the_first_block_is_the_one_of_the_page():
    the, sat = trip(token="the"), trip(token="sat")
    prints(the["1 plus position 0"], "(1, 0)")
    prints(the["4 + attention 1"], "(2.414, 0)")
    prints(the["7 + feed-forward 1"], "(3.121, -0.707)")
    prints(sat["3 attention 1"], "(0.858, 0.963)")  # the last token sees all three, masked or not
    prints(sat["4 + attention 1"], "(1.858, 2.463)")
    prints(sat["6 feed-forward 1"], "(0.426, -0.852)")
    prints(sat["7 + feed-forward 1"], "(2.284, 1.611)")


def test_the_right_word_comes_next_with_the_norms_in_the_branches():
    assert [token_trip(token=word).data["next"] for word in WORDS[:3]] == ["cat", "sat", "on"]


def test_post_norm_has_every_norm_on_the_stream_and_pre_norm_one():
    kinds = {order: [stop["kind"] for stop in token_trip(order=order).data["trip"]] for order in ("pre-norm", "post-norm")}
    assert {order: kind.count("norm") for order, kind in kinds.items()} == {"pre-norm": 1, "post-norm": 4}
    assert {order: kind.count("read") for order, kind in kinds.items()} == {"pre-norm": 4, "post-norm": 0}


@pytest.mark.parametrize("settings", list(token_trip.grid(steps=False)), ids=str)
def test_every_state_is_drawn_and_said(settings):
    frames = token_trip.frames(**settings)
    data = frames[0].data
    stops = data["trip"]
    assert len(frames) == len(stops) + 3 == data["steps"]
    for i, frame in enumerate(frames):
        shown = vector(stops[min(i, len(stops) - 1)]["vector"], 3)
        assert shown in frame.drawing
        assert frame.drawing.count(">(") == min(i + 1, len(stops))  # what comes later is not shown yet
        assert shown in frame.words or i >= len(stops)
    for score, chance in zip(data["scores"], data["probabilities"]):
        assert number(score, 3) in frames[-3].words
        assert number(chance, 3) in frames[-2].words
        assert f">{number(chance, 3)}<" in frames[-1].drawing
    assert f"says “{data['next']}”" in frames[-1].words
