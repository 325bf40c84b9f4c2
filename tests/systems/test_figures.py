"""The comparison that the other files of this folder rest on."""

import pytest


def test_a_figure_is_met_to_the_digits_that_it_prints(prints):
    prints([0.24826, 1.2, 7.049e-7, 124_439_808], "(0.2483, 1) 7.0e-7 124,439,808")


@pytest.mark.parametrize(
    "value, figure", [(0.24836, "0.2483"), (1.5001, "1"), (7.06e-7, "7.0e-7"), (124_439_807, "124,439,808")]
)
def test_a_figure_that_is_missed_is_named(prints, value, figure):
    with pytest.raises(AssertionError, match="computed"):
        prints(value, figure)


def test_as_many_values_as_figures(prints):
    with pytest.raises(AssertionError, match="2 values for 1"):
        prints([1, 2], "1")
