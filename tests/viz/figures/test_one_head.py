"""The two small figures of lesson 5, computed here by hand (S7, S11, S12)."""

import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from viz.figures import one_weight, who_reads
from viz.figures.one_head import MASKS, TOKENS
from viz.figures.paint import WIDTH, number, vector


def drawn(frame):
    drawing = ElementTree.fromstring(frame.drawing)
    assert float(drawing.get("viewBox").split()[2]) <= WIDTH
    assert min(float(mark.get("font-size")) for mark in drawing.iter() if mark.tag.endswith("}text")) >= 14
    return " ".join("".join(mark.itertext()) for mark in drawing.iter() if mark.tag.endswith("}text"))


def test_S07_the_read_of_every_score():
    for gap in one_weight.controls[0].grid:
        frame = one_weight(gap=gap)
        a = 1 / (1 + math.exp(-gap))
        assert frame.data["weights"] == pytest.approx([a, 1 - a])
        assert frame.data["read"] == pytest.approx([2 * a, 1 - a])
        assert frame.data["distance"] == pytest.approx(math.hypot(1.5 - 2 * a, 0.75 - 1 + a))
        assert frame.data["distance"] > 0.44  # no score comes nearer: the distance of (3/2, 3/4) from the segment is √0.2
        assert vector(frame.data["read"], 2) in drawn(frame)
        assert vector(frame.data["read"]) in frame.words


def by_hand(times, norm, mask):
    x = TOKENS * times
    if norm:
        x = x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-12)
    scores = np.where(MASKS[mask], x @ x.T / math.sqrt(2), -np.inf)
    shares = np.exp(scores - np.maximum(scores.max(axis=1, keepdims=True), -1e300)) * MASKS[mask]
    total = shares.sum(axis=1, keepdims=True)
    return shares / np.where(total == 0, 1, total)


@pytest.mark.parametrize("mask", MASKS)
def test_S11_S12_the_weights_of_every_setting(mask):
    for settings in who_reads.grid():
        if settings["mask"] == mask:
            frame = who_reads(**settings)
            expected = by_hand(**settings)
            np.testing.assert_allclose(frame.data["weights"], expected, atol=1e-12)
            said = drawn(frame)
            assert all(number(w, 3) in said for w in expected[MASKS[mask]])
            assert said.count("0.") + said.count("1.") >= MASKS[mask].sum()


def test_S11_with_the_norm_first_the_scale_does_not_matter():
    normed = [who_reads(times=times, norm=True).data["weights"] for times in (0.5, 1.0, 4.0)]
    np.testing.assert_allclose(normed[0], normed[1], atol=1e-9)
    np.testing.assert_allclose(normed[2], normed[1], atol=1e-9)
    sharp = [np.max(who_reads(times=times).data["weights"], axis=1) for times in (1.0, 2.0)]
    assert (sharp[1] > sharp[0]).all()


def test_S12_a_row_that_may_look_nowhere():
    frame = who_reads(mask="position 1 may look nowhere")
    assert frame.data["weights"][0] == [0, 0, 0, 0]
    assert "may look nowhere" in frame.words
