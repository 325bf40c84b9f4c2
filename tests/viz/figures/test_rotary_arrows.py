"""F7: the dot products of S23, computed here from lengths and angles alone."""

import math

import numpy as np
import pytest

from viz.figures import rotary_arrows
from viz.figures.paint import number
from viz.figures.rotary_arrows import EXAMPLES

TOY, UNIT = EXAMPLES


def product(example, gap):
    """|q| |k| cos of the angle that they had, plus the gap's."""
    degrees, q, k = EXAMPLES[example]
    apart = math.atan2(k[1], k[0]) - math.atan2(q[1], q[0]) - math.radians(gap * degrees)
    return math.hypot(*q) * math.hypot(*k) * math.cos(apart)


@pytest.mark.parametrize("query, key, printed", [(1, 0, 2.232), (3, 2, 2.232), (2, 0, 1.866), (4, 2, 1.866), (0, 1, 1.232)])
def test_S23_as_the_page_prints_it(query, key, printed):
    for frame in rotary_arrows.frames(query=query, key=key):
        assert frame.data["score"] == pytest.approx(printed, abs=5e-4)


def test_S23_four_degrees_a_position():
    data = rotary_arrows(example=UNIT, query=12, key=4).data
    assert data["turned by"] == [48, 16]
    assert data["angle between"] == pytest.approx(32)
    assert data["score"] == pytest.approx(0.85, abs=5e-3)


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_state(example):
    degrees, q, _ = EXAMPLES[example]
    for settings in rotary_arrows.grid(steps=False):
        if settings["example"] != example:
            continue
        frames = rotary_arrows.frames(**settings)
        assert len(frames) == 13
        for step, frame in enumerate(frames):
            data, gap = frame.data, settings["query"] - settings["key"]
            assert data["positions"] == [settings["query"] + step, settings["key"] + step]
            assert data["gap"] == gap
            assert data["score"] == pytest.approx(product(example, gap), abs=1e-12)
            angle = math.radians((settings["query"] + step) * degrees)
            np.testing.assert_allclose(data["query"], [q[0] * math.cos(angle), q[0] * math.sin(angle)], atol=1e-12)
            assert number(data["score"], 3) in frame.words
            assert f"q·k = {number(data['score'], 3)}" in frame.drawing


def test_the_curve_over_all_gaps():
    for example in EXAMPLES:
        data = rotary_arrows(example=example).data
        assert data["score by gap"] == pytest.approx([product(example, gap) for gap in range(-12, 13)], abs=1e-12)
    assert rotary_arrows(example=TOY).data["unturned score"] == 2
