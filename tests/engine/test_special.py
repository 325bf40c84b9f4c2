"""The Gaussian distribution function against math.erf, and its coefficients computed anew."""

import math

import numpy as np
import pytest

from tinygrad_tf import Tensor, activations, grad, no_grad, special, tensor
from tinygrad_tf.activations import gelu
from tinygrad_tf.engine import kept_by

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


def test_float32_is_within_a_rounding_and_its_density_too():
    x = POINTS.astype(np.float32)
    wanted = np.array([below(float(v)) for v in x])
    density = np.empty_like(x)
    with np.errstate(all="raise", under="ignore"):
        got = special.normal_below(x, density=density)
    assert got.dtype == np.float32
    assert np.abs(got - wanted).max() < 1.3e-7
    assert np.abs(density - np.exp(-(x.astype(float) ** 2) / 2) * special.DENSITY).max() < 6e-8


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


def test_the_polynomial_is_the_ratio_of_mills():
    """Its error counts as it changes P: 6 coefficients leave 2.6e-8, and no other 6 digits of any of them leave less."""
    t = np.linspace(0, 12, 2001)
    s = np.array([1 / (1 + special.SCALE / v) if v else 0.0 for v in t])
    density = special.DENSITY * np.exp(-t * t / 2)
    ratio = np.array([math.sqrt(math.pi / 2) * scaled_erfc(v / math.sqrt(2)) for v in t])

    def error(coefficients):
        return np.abs(density * (np.polyval(coefficients[::-1], s) - ratio)).max()

    assert error(special.MILLS) < 2.6e-8
    for i, coefficient in enumerate(special.MILLS):
        for other in (coefficient + 1e-6, coefficient - 1e-6):
            assert error((*special.MILLS[:i], other, *special.MILLS[i + 1 :])) > error(special.MILLS)


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


@pytest.mark.parametrize("activation", [activations.gelu, activations.gelu_tanh, activations.silu])
def test_an_activation_keeps_its_slope_alone_and_none_where_nothing_is_recorded(activation):
    x = Tensor(np.linspace(-8, 8, 321), requires_grad=True)
    y = activation(x)
    (slope,) = y.node.kept()
    np.testing.assert_array_equal(grad(y.sum(), x)[0].array, slope)
    with no_grad():
        value, rule = activation.raw(x.array)
    np.testing.assert_array_equal(value, y.array)
    assert [array.size for array in kept_by(rule)] == [0]
