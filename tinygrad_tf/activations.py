"""The activations as fused ops, each with its derivation and its composed twin; those of fused.py are the rest.

Long formulas go through their arrays piece by piece, so that what one step writes is still in the cache when the next reads it.
"""

from __future__ import annotations

import math

import numpy as np

from . import ops, special
from .engine import op, plain
from .kernels import fast
from .threads import in_parts

PIECE = 1 << 17  # numbers; shorter pieces are more calls, and at each of them a thread may have to wait for Python
KEEP = 1 << 20  # numbers up to which GELU keeps P for backward: beyond, memory counts for more than 3 % of a step


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


@op
def gelu(x):
    """(...) -> (...)   y = x * P(x), P the standard normal distribution function (Hendrycks and Gimpel 2016)

    dx = g * (P(x) + x * p(x)), p the density.
    """
    y = _blank(x)
    below = np.empty(0, x.dtype) if x.size > KEEP or gelu_value.in_use(x) else _blank(x)  # P, or nothing: it is computed again

    def rule(g):
        d = _blank(x)
        _in_pieces(gelu_slope, g, x, below, d)
        return (d,)

    _in_pieces(gelu_value, x, below, y)
    return y, rule


@fast
def gelu_value(x, below, y):
    p = below if below.size else y
    special.normal_below(x, out=p)
    np.multiply(x, p, out=y)


@fast
def gelu_slope(g, x, below, d):
    _square(x, d)
    d *= -0.5
    np.exp(d, out=d)
    d *= x
    d *= 1 / math.sqrt(2 * math.pi)
    d += below if below.size else special.normal_below(x)
    d *= g


@gelu.reference
def _(x):
    return x * normal_below(x)


@op
def normal_below(x):
    """(...) -> (...)   y = P(x), the share of a standard normal distribution below x; its slope is the density"""
    return special.normal_below(plain(x)), (lambda g: g * np.exp(x * x * -0.5) * (1 / math.sqrt(2 * math.pi)),)


TANH_SCALE = math.sqrt(2 / math.pi)
FAR = 100  # x^2 from which on t is 1 or -1 to every digit


@op
def gelu_tanh(x):
    """(...) -> (...)   y = x * (1 + t) / 2 with t = tanh(sqrt(2/pi) * (x + 0.044715 x^3)), GPT-2's form of GELU

    dx = g * ((1 + t) / 2 + x * (1 - t^2) / 2 * sqrt(2/pi) * (1 + 0.134145 x^2)).
    """
    t, y = _blank(x), _blank(x)

    def rule(g):
        d = _blank(x)
        _in_pieces(gelu_tanh_slope, g, x, t, d)
        return (d,)

    _in_pieces(gelu_tanh_value, x, t, y)
    return y, rule


@fast
def gelu_tanh_value(x, t, y):
    _square(x, t)
    np.minimum(t, FAR, out=t)
    t *= 0.044715 * TANH_SCALE
    t += TANH_SCALE
    t *= x
    np.tanh(t, out=t)
    np.add(t, 1, out=y)
    y *= 0.5
    y *= x


@fast
def gelu_tanh_slope(g, x, t, d):
    _square(x, d)
    np.minimum(d, FAR, out=d)
    d *= 3 * 0.044715 * TANH_SCALE
    d += TANH_SCALE
    d *= 1 - t * t
    d *= x
    d += t
    d += 1
    d *= g
    d *= 0.5


@gelu_tanh.reference
def _(x):
    return x * 0.5 * (ops.tanh((x + x * x * x * 0.044715) * TANH_SCALE) + 1)


@op
def silu(x):
    """(...) -> (...)   y = x * s, s = sigmoid(x)

    dx = g * s * (1 + x * (1 - s)).
    """
    s, y = _blank(x), _blank(x)

    def rule(g):
        d = _blank(x)
        _in_pieces(silu_slope, g, x, s, d)
        return (d,)

    _in_pieces(silu_value, x, s, y)
    return y, rule


@fast
def silu_value(x, s, y):
    _sigmoid(x, s)
    np.multiply(x, s, out=y)


@fast
def silu_slope(g, x, s, d):
    np.subtract(1, s, out=d)
    d *= x
    d += 1
    d *= s
    d *= g


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
    s, y = _blank(gate), _blank(gate)

    def rule(g):
        dgate, dup = _blank(gate), _blank(up)
        _in_pieces(swiglu_slope, g, gate, up, s, dgate, dup)
        return dgate, dup

    _in_pieces(swiglu_value, gate, up, s, y)
    return y, rule


@fast
def swiglu_value(gate, up, s, y):
    _sigmoid(gate, s)
    np.multiply(gate, s, out=y)
    y *= up


@fast
def swiglu_slope(g, gate, up, s, dgate, dup):
    np.multiply(gate, s, out=dup)
    dup *= g
    np.subtract(1, s, out=dgate)
    dgate *= gate
    dgate += 1
    dgate *= s
    dgate *= up
    dgate *= g


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
