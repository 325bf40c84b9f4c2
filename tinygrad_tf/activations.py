"""The activations as fused ops, each with its derivation and its composed twin; those of fused.py are the rest.

Each computes its slope beside its value, out of what both need, and keeps that alone: backward is then one product, and what
came in can be freed. Long formulas go through their arrays piece by piece, so that what one step writes is still in the cache
when the next reads it.
"""

from __future__ import annotations

import math

import numpy as np

from . import ops, special
from .engine import op, plain, state
from .kernels import fast
from .threads import in_parts

PIECE = 1 << 17  # numbers; shorter pieces are more calls, and at each of them a thread may have to wait for Python


def _in_pieces(formula, *arrays):
    """formula(*arrays), elementwise into the last ones, piece by piece: a long formula then meets each in the core's cache."""
    shape = arrays[-1].shape
    arrays = tuple([(a if a.shape == shape or not a.size else np.broadcast_to(a, shape)).reshape(-1) for a in arrays])
    size = arrays[-1].size
    if size <= 2 * PIECE:
        formula(*arrays)
        return

    def part(*arrays):
        for i in range(0, arrays[-1].size, PIECE):
            formula(*[a[i : i + PIECE] for a in arrays])

    in_parts(part, *arrays, numbers=size)


def _blank(x):
    """An array of the shape and dtype of x to write in, whatever the strides of x."""
    return np.empty(x.shape, x.dtype)


def _slope(x):
    """An array for the slope at x, an empty one where nothing is recorded."""
    return _blank(x) if state.recording else np.empty(0, x.dtype)


def _times(g, slope):
    d = _blank(slope)
    _in_pieces(np.multiply, g, slope, d)
    return d


@op
def gelu(x):
    """(...) -> (...)   y = x * P(x), P the standard normal distribution function (Hendrycks and Gimpel 2016)

    dx = g * (P(x) + x * p(x)), p the density.
    """
    d, y = _slope(x), _blank(x)
    _in_pieces(gelu_value, x, d, y)
    return y, (lambda g: _times(g, d),)


@fast
def gelu_value(x, d, y):
    special.normal_below(x, y, d if d.size else None)
    if d.size:
        d *= x
        d += y
    y *= x


@gelu.reference
def _(x):
    return x * normal_below(x)


@op
def normal_below(x):
    """(...) -> (...)   y = P(x), the share of a standard normal distribution below x; its slope is the density"""
    return special.normal_below(plain(x)), (lambda g: g * np.exp(x * x * -0.5) * special.DENSITY,)


@op
def erf(x):
    """(...) -> (...)   y = the share of a normal distribution of variance 1/2 that lies between -x and x, with the sign of x"""
    x = x if x.dtype.kind == "f" else x.astype(np.float32)
    return special.erf(plain(x)), (lambda g: g * np.exp(-x * x) * (2 / math.sqrt(math.pi)),)


TANH_SCALE = math.sqrt(2 / math.pi)
FAR = 100  # x^2 from which on t is 1 or -1 to every digit


@op
def gelu_tanh(x):
    """(...) -> (...)   y = x * (1 + t) / 2 with t = tanh(sqrt(2/pi) * (x + 0.044715 x^3)), GPT-2's form of GELU

    dx = g * ((1 + t) / 2 + x * (1 - t^2) / 2 * sqrt(2/pi) * (1 + 0.134145 x^2)).
    """
    d, y = _slope(x), _blank(x)
    _in_pieces(gelu_tanh_value, x, d, y)
    return y, (lambda g: _times(g, d),)


@fast
def gelu_tanh_value(x, d, y):
    square = _blank(x)
    _square(x, square)
    np.minimum(square, FAR, out=square)
    np.multiply(square, 2 * 0.044715 * TANH_SCALE, out=y)
    y += 2 * TANH_SCALE
    y *= x
    _sigmoid(y, y)  # (1 + tanh u) / 2 = sigmoid(2 u), without the digits that the 1 would cost
    if d.size:
        np.subtract(1, y, out=d)
        d *= y
        square *= 6 * 0.044715 * TANH_SCALE
        square += 2 * TANH_SCALE
        d *= square
        d *= x
        d += y
    y *= x


@gelu_tanh.reference
def _(x):
    return x * 0.5 * (ops.tanh((x + x * x * x * 0.044715) * TANH_SCALE) + 1)


@op
def silu(x):
    """(...) -> (...)   y = x * s, s = sigmoid(x)

    dx = g * s * (1 + x * (1 - s)).
    """
    d, y = _slope(x), _blank(x)
    _in_pieces(silu_value, x, d, y)
    return y, (lambda g: _times(g, d),)


@fast
def silu_value(x, d, y):
    _sigmoid(x, y)
    if d.size:
        np.subtract(1, y, out=d)
        d *= x
        d += 1
        d *= y
    y *= x


@silu.reference
def _(x):
    return x * ops.sigmoid(x)


@op
def swiglu(gate, up):
    """(...), (...) -> (...)   y = gate * s * up, s = sigmoid(gate) (Shazeer 2020)

    dup = g * gate * s;  dgate = g * up * s * (1 + gate * (1 - s)).
    """
    if gate.shape != up.shape:
        raise ValueError("gate and up must have one shape")
    dgate, dup, y = _slope(gate), _slope(gate), _blank(gate)
    _in_pieces(swiglu_value, gate, up, dgate, dup, y)
    return y, (lambda g: _times(g, dgate), lambda g: _times(g, dup))


@fast
def swiglu_value(gate, up, dgate, dup, y):
    silu_value.numpy(gate, dgate, y)
    if dgate.size:
        dgate *= up
        dup[...] = y
    y *= up


@swiglu.reference
def _(gate, up):
    return gate * ops.sigmoid(gate) * up


def _square(x, out):
    with np.errstate(over="ignore"):  # inf far from zero, where these functions are straight lines
        np.multiply(x, x, out=out)


def _sigmoid(x, s):
    np.negative(x, out=s)
    with np.errstate(over="ignore"):  # e ** -x = inf far below zero, where s is 0
        np.exp(s, out=s)
    s += 1
    np.divide(1, s, out=s)
