"""F8: every number of S24, masked or not, with NumPy alone; and the arithmetic that is said for each."""

import math
import re

import numpy as np
import pytest

from viz.figures import block_by_hand
from viz.figures.block_by_hand import CELLS


def by_hand(masked):
    rms = lambda z: np.sqrt((z**2).mean(-1, keepdims=True))
    x = np.array([[1.0, 0], [0.5, 1], [1, 1.5]])
    a = x / rms(x)
    scores = np.where(np.tri(3, dtype=bool) | (not masked), a @ a.T / math.sqrt(2), -np.inf)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    h = x + weights @ a
    b = h / rms(h)
    sums = b @ np.array([[1.0, -1, 0, 1], [0, 1, -1, 1]])
    active = np.maximum(sums, 0)
    ffn = active @ np.array([[0.5, 0], [0, 0.5], [-0.5, 0], [0, -0.5]])
    return {"x": x, "rms x": rms(x), "a": a, "scores": scores, "weights": weights, "read": weights @ a, "h": h, "rms h": rms(h),
            "b": b, "sums": sums, "active": active, "ffn": ffn, "y": h + ffn}  # fmt: skip


@pytest.mark.parametrize("masked", [False, True])
def test_every_array(masked):
    data = block_by_hand(masked=masked).data
    for name, values in by_hand(masked).items():
        found = np.array(data[name], float)  # None, a masked score, becomes NaN
        np.testing.assert_allclose(np.where(np.isnan(found), -np.inf, found), values, rtol=1e-12, atol=1e-15, err_msg=name)


PRINTED = {
    "a": [[1.4142, 0.0000], [0.6325, 1.2649], [0.7845, 1.1767]],
    "scores": [[1.4142, 0.6325, 0.7845], [0.6325, 1.4142, 1.4033], [0.7845, 1.4033, 1.4142]],
    "weights": [[0.502, 0.230, 0.268], [0.187, 0.409, 0.404], [0.211, 0.392, 0.397]],
    "read": [[1.066, 0.606], [0.840, 0.993], [0.858, 0.963]],
    "h": [[2.066, 0.606], [1.340, 1.993], [1.858, 2.463]],
    "rms h": [[1.522], [1.698], [2.181]],
    "b": [[1.357, 0.398], [0.789, 1.174], [0.852, 1.129]],
    "ffn": [[0.679, -0.877], [0.395, -0.789], [0.426, -0.852]],
    "y": [[2.744, -0.272], [1.735, 1.203], [2.284, 1.611]],
}


def test_S24_as_it_is_printed():
    data = block_by_hand().data
    for name, printed in PRINTED.items():
        np.testing.assert_allclose(data[name], printed, atol=5.001e-5 if name in ("a", "scores") else 5.001e-4, err_msg=name)
    np.testing.assert_allclose(data["sums"][0], [1.357, -0.959, -0.398, 1.755], atol=5e-4)
    masked = block_by_hand(masked=True).data
    np.testing.assert_allclose(masked["h"][0], [2.414, 0], atol=5e-4)
    np.testing.assert_allclose(masked["y"][0], [3.121, -0.707], atol=5e-4)


def test_the_overview_says_where_the_first_word_goes():
    assert "(1.0, 0.0), is (2.066, 0.606) after attention and (2.744, −0.272)" in block_by_hand().words
    assert "(2.414, 0.000) after attention and (3.121, −0.707)" in block_by_hand(masked=True).words


FUNCTIONS = {"exp": math.exp, "sqrt": math.sqrt, "max": max, "inf": math.inf}


def worth(text):
    """What a piece of the arithmetic comes to, computed from its own three-digit numbers."""
    text = text.replace("−", "-").replace("×", "*").replace("²", "**2").replace("√", "sqrt").replace("∞", "inf")
    return eval(text, {"__builtins__": {}}, FUNCTIONS)


@pytest.mark.parametrize("masked", [False, True])
def test_the_arithmetic_of_every_number_is_right(masked):
    """Each line, computed from the numbers that it shows, gives what it says; the last, the number that is asked for."""
    frames = block_by_hand.frames(masked=masked)
    assert len(frames) == len(CELLS) + 1 == 91
    for cell, frame in zip(CELLS, frames[1:]):
        data, (title, *lines) = frame.data, frame.data["said"]
        assert data["cell"] == list(cell)
        assert len(title) <= 49
        assert max(map(len, lines)) <= 54
        assert frame.words == ". ".join(data["said"]) + "."
        if data["value"] is None:
            assert cell[0] == "scores"
            assert "masked, −∞" in lines[0]
            assert data["sources"] == [] or masked
            continue
        joined = " ".join(lines) if cell[0] == "read" else "\n".join(lines)
        for piece in re.split(r"\n|, of ", joined):
            left, right = re.split(r" = ", re.sub(r": it (fires|is off)$", "", piece))
            assert worth(left) == pytest.approx(worth(right), abs=2.6e-3), (cell, piece)
        assert worth(right) == pytest.approx(data["value"], abs=5.001e-4)


@pytest.mark.parametrize("masked", [False, True])
def test_the_sources_of_a_number_are_what_it_changes_with(masked):
    for frame in block_by_hand.frames(masked=masked)[1:]:
        name, r, _ = frame.data["cell"]
        names = {source[0] for source in frame.data["sources"]}
        before = {"x": {"token", "place"}, "rms x": {"x"}, "a": {"x", "rms x"}, "scores": {"a"}, "weights": {"scores"},
                  "read": {"weights", "a"}, "h": {"x", "read"}, "rms h": {"h"}, "b": {"h", "rms h"}, "sums": {"b"},
                  "active": {"sums"}, "ffn": {"active"}, "y": {"h", "ffn"}}[name]  # fmt: skip
        assert names == before or (name == "scores" and names == set())
        assert name in ("scores", "read") or all(source[1] == r for source in frame.data["sources"])  # a row of its own
        assert frame.drawing.count('class="cool"') == len(frame.data["sources"])
        assert frame.drawing.count('class="warm"') == 1


def test_every_number_is_clicked_to_its_own_step():
    drawing = block_by_hand().drawing
    assert re.findall(r'<rect[^>]* data-step="(\d+)"', drawing) == re.findall(r'<text[^>]* data-step="(\d+)"', drawing)
    assert sorted(map(int, re.findall(r'<rect[^>]* data-step="(\d+)"', drawing))) == list(range(1, 91))
