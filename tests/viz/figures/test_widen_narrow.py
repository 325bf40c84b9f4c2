"""F5: the numbers of S16, computed here with NumPy and math alone."""

import math
import re

import numpy as np
import pytest

from viz.figures import widen_narrow
from viz.figures.paint import vector

X, W1 = np.array([1.0, -1.0]), np.array([[1.0, 0, 1, -1], [0, 1, 1, 1]])
W2 = np.array([[1.0, 0], [0, 1], [0.5, 0.5], [-1, 1]])
ACTIVATE = {
    "ReLU": lambda z: np.maximum(z, 0),
    "GELU": lambda z: np.array([v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in z]),
    "none": lambda z: z,
}


def test_S16_as_the_page_prints_it():
    data = widen_narrow().data
    assert data["hidden"] == [1, -1, 0, -1.5]
    assert data["active"] == [1, 0, 0, 0]
    assert data["out"] == [1, 0]
    gelu = widen_narrow(activation="GELU").data
    np.testing.assert_allclose(gelu["active"], [0.841, -0.159, 0, -0.100], atol=5e-4)
    np.testing.assert_allclose(gelu["out"], [0.942, -0.259], atol=5e-4)
    assert widen_narrow(bias=2.5).data["out"] == [0.5, 0.5]


@pytest.mark.parametrize("settings", list(widen_narrow.grid()), ids=str)
def test_every_state(settings):
    made = widen_narrow(**settings)
    hidden = X @ W1 + [0, 0, 0, settings["bias"]]
    active = ACTIVATE[settings["activation"]](hidden)
    np.testing.assert_allclose(made.data["hidden"], hidden, atol=1e-15)
    np.testing.assert_allclose(made.data["active"], active, atol=1e-15)
    np.testing.assert_allclose(made.data["out"], active @ W2, atol=1e-15)
    np.testing.assert_allclose(np.sum(made.data["written"], 0), made.data["out"], atol=1e-15)
    assert vector(hidden, 1) in made.words
    assert vector(active @ W2, 3) in made.words
    assert made.drawing.count('class="faint" x=') == sum(abs(active) < 1e-12)  # the box of a unit that is off
    if settings["activation"] == "ReLU":
        firing = [str(i + 1) for i in range(4) if active[i] > 0]
        assert re.search(r"units? ([\d and]+) fires?\.", made.words)[1] == " and ".join(firing)
    if settings["activation"] == "none":  # one matrix does the same
        np.testing.assert_allclose(made.data["out"], X @ (W1 @ W2) + np.array([0, 0, 0, settings["bias"]]) @ W2, atol=1e-15)
