"""The picture of lesson 4: its training against a loop in NumPy, its words against its numbers."""

import re

import numpy as np
import pytest

from tinygrad_tf import nn
from viz.figures.fitting import HIGH, LOW, RATES, STEPS, TARGETS, X, fitting, train


def by_numpy(target, units, rate, steps):
    """The same network and the same steps with every gradient written out."""
    rng = np.random.default_rng(3)
    layers = nn.Linear(1, units, generator=rng), nn.Linear(units, 1, generator=rng)
    (w1, b1), (w2, b2) = [
        (layer.weight.detach().numpy().astype(float), layer.bias.detach().numpy().astype(float)) for layer in layers
    ]
    x, y = X.astype(float), TARGETS[target].astype(float)
    losses = []
    for _ in range(steps):
        z = x @ w1.T + b1
        h = np.maximum(z, 0)
        e = h @ w2.T + b2 - y
        losses.append((e**2).mean())
        g = 2 * e / e.size
        gz = (g @ w2) * (z > 0)
        w2, b2 = w2 - rate * g.T @ h, b2 - rate * g.sum(0)
        w1, b1 = w1 - rate * gz.T @ x, b1 - rate * gz.sum(0)
    return np.array(losses)


@pytest.mark.parametrize("target, units, rate", [("|x|", 8, 0.3), ("a wave", 4, 0.1)])
def test_the_losses_are_those_of_a_loop_in_numpy(target, units, rate):
    losses, outputs = train(target, units, True, rate)
    np.testing.assert_allclose(losses[:60], by_numpy(target, units, rate, 60), rtol=1e-3)
    np.testing.assert_allclose(((outputs - TARGETS[target][:, 0]) ** 2).mean(1), losses, rtol=1e-3, atol=1e-6)


def test_without_relu_no_line_is_better_than_the_best_line():
    losses, _ = train("|x|", 8, False, 0.3)
    assert losses.min() == pytest.approx(np.abs(X).var(), rel=1e-4)


@pytest.mark.parametrize("step", [0, 150, STEPS])
def test_the_words_say_the_loss(step):
    made = fitting(step=step)
    said = float(made.words.split("the loss is ")[1].split(";")[0])
    assert made.words.startswith(f"After {step} steps") and said == pytest.approx(made.data["loss"], rel=0.05)
    assert "the steps are too long" in fitting(rate=1.0).words
    assert "the steps are too long" not in made.words


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rate, units", [(0.3, 32), (0.3, 8), (1.0, 8), (1.0, 32)])
def test_nothing_is_drawn_outside_of_its_plot_and_the_words_say_what_is_missing(target, rate, units):
    for step in (0, 1, 2, 50, STEPS):
        made, (losses, outputs) = fitting(target, units, rate, step), train(target, units, True, rate)
        lines = re.findall(r'<polyline class="branch" points="([^"]+)"', made.drawing)
        heights = [float(pair.split(",")[1]) for points in lines for pair in points.split()]
        assert all(27.9 <= height <= 190.1 for height in heights)
        inside = (outputs[step] >= LOW) & (outputs[step] <= HIGH)
        assert ("leaves the picture" in made.words) == (not inside.all()) and len(heights) >= inside.sum()
        assert 1e-6 < losses[step] < 1e3, "the scale of the losses holds them all"


def test_the_scale_of_the_losses_holds_the_slowest_and_the_fastest():
    for rate in RATES:
        losses = train("|x|", 16, True, rate)[0]
        assert losses.min() > 1e-6 and losses.max() < 1e3
