"""NS: kinks, ties and singular points."""

import warnings

import numpy as np
import pytest

from tinygrad_tf import functions, nonfinite, ops, tensor, where
from tinygrad_tf.nn import functional as F


def slope(f, *values):
    x = tensor(list(values), dtype=np.float64, requires_grad=True)
    f(x).sum().backward()
    return x.grad.tolist()


def test_NS_02_at_kinks_every_spelling_does_what_the_table_says():
    for f in (lambda x: x.relu(), F.relu, ops.relu, lambda x: x.clone().relu_(), lambda x: x.abs(), abs, np.abs):
        assert slope(f, 0.0, -0.0) == [0, 0]
    lower, upper = tensor(0.0, dtype=np.float64), tensor(6.0, dtype=np.float64)
    for f in (
        lambda x: x.clamp(0, 6),
        lambda x: x.clip(0, 6),
        lambda x: np.clip(x, 0, 6),
        lambda x: x.clamp(min=0).clamp(max=6),
        lambda x: x.clamp(lower, upper),
        lambda x: x.clone().clamp_(0, 6),
    ):
        assert slope(f, 0.0, 6.0, -1.0, 7.0, 3.0) == [1, 1, 0, 0, 1]
    for f in (lambda x: x.maximum(tensor(0.0)), lambda x: functions.maximum(x, 0.0), lambda x: np.maximum(0.0, x)):
        assert slope(f, 0.0, -0.0) == [0.5, 0.5]
    assert slope(lambda x: x.minimum(tensor(0.0)), 0.0) == [0.5]

    table = " ".join(ops.__doc__.split())
    assert "relu and abs give 0 at 0 (and at -0); clamp passes the gradient at both edges" in table
    assert "maximum and minimum split it evenly on a tie" in table


def test_NS_04_choosing_first_gives_the_exact_gradient_where_choosing_last_gives_nan():
    def safe(x):
        zero = x == 0
        return where(zero, x / 2, where(zero, 1.0, x).sqrt() + 1)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert slope(safe, 16.0, 0.0) == [0.125, 0.5]
    assert "Choose a safe input first" in " ".join(where.__doc__.split())

    def plain(x):
        return where(x == 0, x / 2, x.sqrt() + 1)

    with np.errstate(all="ignore"):
        assert np.isnan(slope(plain, 16.0, 0.0)[1])
        with pytest.raises(nonfinite.NonFiniteError, match="`sqrt`"), nonfinite.detect_anomaly():
            slope(plain, 16.0, 0.0)
