"""The Gaussian distribution function against math.erf, and its coefficients computed anew."""

import math

import numpy as np
import pytest

from tinygrad_tf import Tensor, activations, grad, special, tensor
from tinygrad_tf.activations import gelu

EDGES = [0.0, -0.0, 1e-300, -1e-9, 5e-5, -38.4, 38.4, 1e5, -1e5, math.inf, -math.inf]
POINTS = np.concatenate([np.linspace(-9, 9, 20001), np.linspace(-40, -9, 501), np.linspace(9, 40, 501), EDGES])


def below(x):
    return 0.5 * math.erfc(-x / math.sqrt(2))


def test_float64_is_within_1e_15():
    wanted = np.array([below(x) for x in POINTS])
    assert np.abs(special.normal_below(POINTS) - wanted).max() < 1e-15


def test_float64_keeps_its_digits_in_the_lower_tail():
    x = np.linspace(-37, 0, 2001)
    wanted = np.array([below(v) for v in x])
    assert np.abs(special.normal_below(x) / wanted - 1).max() < 1e-12


def test_float32_is_within_1e_7():
    x = POINTS.astype(np.float32)
    wanted = np.array([below(float(v)) for v in x])
    with np.errstate(over="ignore"):
        got = special.normal_below(x)
    assert got.dtype == np.float32
    assert np.abs(got - wanted).max() < 1e-7


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 3)])
def test_shapes_and_dtypes(shape, dtype):
    x = np.full(shape, -0.3, dtype)
    y = special.normal_below(x)
    assert y.shape == shape
    assert y.dtype == dtype
    assert np.all(x == dtype(-0.3))


def scaled_erfc(z):
    """exp(z^2) erfc(z) to float64 accuracy: directly where erfc is no underflow, else by its continued fraction (Laplace)."""
    if z < 3:
        return math.exp(z * z) * math.erfc(z)
    tail = 0.0
    for n in range(200, 0, -1):
        tail = n / 2 / (z + tail)
    return 1 / (math.sqrt(math.pi) * (z + tail))


def test_the_chebyshev_coefficients_are_those_of_exp_z2_erfc_z():
    """The discrete cosine transform at 40 nodes, as the docstring says; float64 gives 13 digits of it."""
    n = 40
    angles = (np.arange(n) + 0.5) * math.pi / n
    u = np.cos(angles)
    values = np.array([scaled_erfc(3 * (1 + v) / (1 - v)) for v in u])
    coefficients = [2 / n * float(values @ np.cos(k * angles)) for k in range(n)]
    coefficients[0] /= 2
    stored = np.array(special.SERIES)
    assert np.abs(stored - coefficients[: len(stored)]).max() < 1e-13
    assert max(abs(c) for c in coefficients[len(stored) :]) < 1e-14  # what is left out


def test_the_tanh_polynomial_begins_with_that_of_the_tanh_gelu():
    """Both expand the same function: sqrt(2/pi) (1 + (4 - pi)/(6 pi) x^2 + ...)."""
    first, second = special.TANH_POLYNOMIAL[:2]
    assert first == pytest.approx(math.sqrt(2 / math.pi), abs=1e-6)
    assert second == pytest.approx(math.sqrt(2 / math.pi) * (4 - math.pi) / (6 * math.pi), abs=1e-5)


def test_gelu_is_x_times_the_share_below_and_its_slope_is_exact(calculus):
    x = calculus.leaf(np.linspace(-6, 6, 41))
    y = gelu(x)
    np.testing.assert_allclose(y.array, [v * below(v) for v in x.array], rtol=0, atol=4e-15)
    y.sum().backward()
    density = np.exp(-(x.array**2) / 2) / math.sqrt(2 * math.pi)
    np.testing.assert_allclose(x.grad.array, [below(v) + v * d for v, d in zip(x.array, density)], rtol=0, atol=4e-15)


def test_gelu_at_zero_is_zero_with_slope_one_half():
    for zero in (0.0, -0.0):
        x = tensor(zero, requires_grad=True)
        y = gelu(x)
        y.backward()
        assert y.item() == 0
        assert x.grad.item() == pytest.approx(0.5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_large_gelu_keeps_its_input_alone_and_gives_the_same_bits(monkeypatch, dtype):
    x = Tensor(np.linspace(-8, 8, 321).astype(dtype), requires_grad=True)
    found = []
    for most in (activations.KEEP, 320):
        monkeypatch.setattr(activations, "KEEP", most)
        y = activations.gelu(x)
        kept = [array for array in y.node.kept() if array.size]
        assert [array is x.array for array in kept].count(True) == 1
        if most == 320:
            assert len(kept) == 1
        found.append((y.array, grad(y.sum(), x)[0].array))
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
