"""The Gaussian distribution function and erf, which NumPy does not have, in float64 and in float32.

float64: for z >= 0, exp(z^2) erfc(z) falls smoothly from 1 to 0 and is a short Chebyshev series in u = (z - 3) / (z + 3). The
coefficients are the discrete cosine transform of that function at 40 Chebyshev nodes, computed to 40 digits. Error below 1e-15.

float32: P(-t) = p(t) M(t) for t >= 0, p the density and M Mills' ratio, which falls smoothly from sqrt(pi / 2) to 0: here a
polynomial in s = t / (t + SCALE), fitted on 0 <= t <= 12, errors weighted by their effect on P. Error below 1.3e-7, nearly
all of it rounding. One exponential serves P and p, which is P's slope.
"""

from __future__ import annotations

import math

import numpy as np

SERIES = (
    0.329862774753036775, -0.453661520537802087, 0.160398340821562963, -0.0449081211511228259, 0.00964142865069569714,
    -0.00144250807774439545, 0.000100994367353799156, 1.20850245344553002e-5, -3.62542060275375578e-6, 7.18681074247641544e-8,
    8.91423585989821681e-8, -7.42156662495960625e-9, -2.38933657026587786e-9, 3.0622355354899251e-10, 7.7889453881510884e-11,
    -1.09737458292455845e-11, -3.09152073119177347e-12, 3.52543388172342208e-13, 1.39904521797716158e-13,
    -8.2460374768388089e-15, -6.63996142698932138e-15, -7.97834882475261077e-17, 3.0472412376040987e-16,
    3.03213171102256695e-17,
)  # fmt: skip
SCALE = 3.125
MILLS = (1.253314074, -3.124986141, 2.994208843, -1.051795537, -0.380511726, 0.321170961)  # constant term first
FAR = 40.0  # from which on e ** (-t^2 / 2) is 0 in both dtypes
DENSITY = 1 / math.sqrt(2 * math.pi)  # at 0
TAYLOR = tuple(2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(14))
COEFFICIENTS = tuple(np.float32(DENSITY * c) for c in MILLS)  # NumPy converts a Python number at every op
_POWERS = np.polynomial.chebyshev.cheb2poly(SERIES)[::-1].tolist()


def normal_below(x: np.ndarray, out: np.ndarray | None = None, density: np.ndarray | None = None) -> np.ndarray:
    """(...) -> (...)   the share of a standard normal distribution that lies below x, in the dtype of x

    `density`: an array to fill with the distribution's density at x.
    """
    y, d = (np.empty(x.shape, x.dtype) if a is None else a for a in (out, density))
    t = np.asarray(np.abs(x))  # NumPy makes a number of an array without axes
    np.minimum(t, FAR, out=t)
    np.multiply(t, t, out=d)
    d *= -0.5
    np.exp(d, out=d)
    if x.dtype == np.float64:
        y[...] = _series(x, t, d)
    else:
        _mills(x, t, d, y)
    if density is not None:
        d *= DENSITY
    return y


def erf(x: np.ndarray) -> np.ndarray:
    """(...) -> (...)   2 / sqrt(pi) times the integral of e ** (-t^2) from 0 to x, in the dtype of x

    Near 0, where 2 P(sqrt(2) x) - 1 would lose digits, its Taylor series; computed in float64.
    """
    wide = x.astype(np.float64)
    near = np.clip(wide, -0.5, 0.5)
    small = np.asarray(near * TAYLOR[-1])
    for c in TAYLOR[-2::-1]:
        small = small * near * near + near * c
    return np.where(near == wide, small, 2 * normal_below(wide * 2**0.5) - 1).astype(x.dtype)


def _mills(x: np.ndarray, t: np.ndarray, e: np.ndarray, y: np.ndarray) -> None:
    """x, t = |x|, e ** (-t^2 / 2) -> y; t is used up"""
    np.add(t, SCALE, out=y)
    s = np.divide(t, y, out=t)
    np.multiply(s, COEFFICIENTS[-1], out=y)
    for c in COEFFICIENTS[-2:0:-1]:
        y += c
        y *= s
    y += COEFFICIENTS[0]
    y *= e
    np.subtract(0.5, y, out=y)
    np.copysign(y, x, out=y)
    y += 0.5


def _series(x: np.ndarray, t: np.ndarray, e: np.ndarray) -> np.ndarray:
    """x, t = |x|, e ** (-t^2 / 2) -> P(x)"""
    u = 1 - 6 / (t / 2**0.5 + 3)
    tail = np.asarray(u * _POWERS[0])
    for c in _POWERS[1:-1]:
        tail += c
        tail *= u
    tail += _POWERS[-1]
    tail *= 0.5 * e
    return np.where(x > 0, 1 - tail, tail)
