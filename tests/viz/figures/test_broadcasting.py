"""The picture of lesson 2: its sums against NumPy."""

import numpy as np
import pytest

from viz.figures.broadcasting import SHAPES, G, broadcasting

AXES = {"(3,)": (0,), "(4, 1)": (1,), "(1,)": (0, 1), "(4, 3)": ()}


@pytest.mark.parametrize("shape", SHAPES)
def test_each_element_gets_the_sum_of_what_used_it(shape):
    expected = G.sum(axis=AXES[shape]).reshape(SHAPES[shape])
    for element in range(expected.size):
        made = broadcasting(shape, element)
        assert np.array_equal(made.data["gradient"], expected)
        assert sum(made.data["met"]) == expected.ravel()[element]
        assert made.drawing.count('class="lilac"') == len(made.data["met"]) + 1
        assert f"{expected.ravel()[element]:g}".replace("-", "−") in made.words


def test_an_element_beyond_the_last_is_the_last():
    assert broadcasting("(3,)", 11) == broadcasting("(3,)", 2)
