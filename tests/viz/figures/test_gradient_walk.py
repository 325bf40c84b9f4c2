"""F4: the gradient of S4, computed here from the formula of each slope, without the engine."""

import math
import re

import numpy as np
import pytest

from viz.figures import gradient_walk
from viz.figures.gradient_walk import DEPTHS, LAYERS, shown

FORMULAS = {  # F and F'
    "tanh(x/2)": (lambda x: math.tanh(x / 2), lambda x: 0.5 * (1 - math.tanh(x / 2) ** 2)),
    "x/2": (lambda x: x / 2, lambda x: 0.5),
    "−x/2": (lambda x: -x / 2, lambda x: -0.5),
    "−x": (lambda x: -x, lambda x: -1.0),
    "0": (lambda x: 0.0, lambda x: 0.0),
}


def by_formula(depth, layer, add):
    """(inputs, slopes, what has arrived at x_0 ... x_depth, the gradient of x_1 ... x_depth by x_0)"""
    function, derivative = FORMULAS[layer]
    x, inputs, slopes = 1.0, [], []
    for _ in range(depth):
        inputs.append(x)
        slopes.append(derivative(x))
        x = x + function(x) if add else function(x)
    factors = [1 + slope if add else slope for slope in slopes]
    arrived = [math.prod(factors[k:]) for k in range(depth + 1)]
    return inputs, slopes, arrived, [math.prod(factors[: k + 1]) for k in range(depth)]


def test_every_layer_has_a_formula_here():
    assert list(FORMULAS) == list(LAYERS)


@pytest.mark.parametrize("layer", FORMULAS)
@pytest.mark.parametrize("depth", DEPTHS)
def test_S04_the_numbers_are_those_of_the_formula(depth, layer):
    data = gradient_walk(depth=depth, layer=layer).data
    for name, add in (("plain", False), ("residual", True)):
        inputs, slopes, arrived, forward = by_formula(depth, layer, add)
        for key, expected in (("inputs", inputs), ("slopes", slopes), ("arrived", arrived), ("forward", forward)):
            # 1 - tanh² of a flat tanh is rounding, so slopes are compared to the last bit of 1
            np.testing.assert_allclose(data[name][key], expected, rtol=1e-10, atol=1e-15, err_msg=f"{name} {key}")


def test_S04_the_two_tables_and_the_ends_as_they_are_printed():
    plain, added = (gradient_walk(depth=5).data[name] for name in ("plain", "residual"))
    for given, printed in [
        (plain["inputs"], [1.0000, 0.4621, 0.2270, 0.1130, 0.0565]),
        (plain["slopes"], [0.3932, 0.4742, 0.4936, 0.4984, 0.4996]),
        (plain["forward"], [0.3932, 0.1865, 0.0920, 0.0459, 0.0229]),
        (added["inputs"], [1.0000, 1.4621, 2.0858, 2.8649, 3.7570]),
        (added["slopes"], [0.3932, 0.3055, 0.1966, 0.1020, 0.0446]),
        (added["factors"], [1.3932, 1.3055, 1.1966, 1.1020, 1.0446]),
        (added["forward"], [1.3932, 1.8188, 2.1763, 2.3984, 2.5053]),
    ]:
        np.testing.assert_allclose(given, printed, rtol=0, atol=5.0001e-5)
    ends = {
        depth: [gradient_walk(depth=depth).data[name]["arrived"][0] for name in ("plain", "residual")] for depth in (10, 20)
    }
    assert ends[10] == [pytest.approx(0.00072, abs=5e-6), pytest.approx(2.576, abs=5e-4)]
    assert ends[20] == [pytest.approx(7.0e-7, abs=5e-9), pytest.approx(2.577, abs=5e-4)]
    assert gradient_walk(depth=10, layer="x/2").data["residual"]["arrived"][0] == pytest.approx(57.7, abs=0.05)


@pytest.mark.parametrize("layer", LAYERS)
def test_every_step_says_and_draws_what_it_multiplies(layer):
    for depth in (1, 5, 12, 30):
        frames = gradient_walk.frames(depth=depth, layer=layer)
        assert len(frames) == depth + 1
        for step, frame in enumerate(frames):
            data, at = frame.data, depth - step
            assert (data["step"], data["at"]) == (step, at)
            drawn = re.sub(r"<[^>]+>", "", frame.drawing)
            for name in ("plain", "residual"):
                arrived = data[name]["arrived"]
                # a bar with its number for each x that has been reached, and a way to click to every other
                for k in range(at, depth + 1):
                    assert shown(arrived[k]) in drawn
                if step:
                    assert f"{shown(arrived[at + 1])} × " in drawn
                    assert f"= {shown(arrived[at])}" in drawn
                    assert shown(arrived[at]) in frame.words or (at and step < depth)
            assert sorted(map(int, set(re.findall(r'data-step="(\d+)"', frame.drawing)))) == list(range(depth + 1))


def test_the_bars_are_as_long_as_the_logarithms():
    drawing = gradient_walk(depth=5, step=5).drawing
    bars = [float(width) for width in re.findall(r'<rect class="grad"[^>]*width="([\d.]+)"', drawing)]
    data = gradient_walk(depth=5).data
    logs = [math.log10(g) for name in ("plain", "residual") for g in data[name]["arrived"]]
    assert len(bars) == len(logs) == 12
    slope = (bars[5] - bars[0]) / (logs[5] - logs[0])
    np.testing.assert_allclose(bars, [bars[0] + slope * (log - logs[0]) for log in logs], atol=0.02)


def test_a_gradient_in_a_few_characters():
    given = [0.0, 1.0, -0.5, 0.02292, 0.00071607, 6.99287e-7, 57.665, 191751.059, 1e-4, 1e-9, 9.96e-8]
    assert [shown(g) for g in given] == [
        "0", "1.0000", "−0.5000", "0.0229", "0.00072", "7.0·10⁻⁷", "57.7", "191751", "0.00010", "1.0·10⁻⁹", "1.0·10⁻⁷",
    ]  # fmt: skip
