"""The activations, each in one pass: see the functions of the same names in `tinygrad_tf/activations.py`.

GELU's two do not use `below`: P again is cheaper than memory for it.
"""

from __future__ import annotations

import math

from ..activations import FAR, TANH_SCALE
from .loops import HALF, ONE, F, exp, kernel, normal_below, sigmoid

DENSITY = F(1 / math.sqrt(2 * math.pi))
SCALE, CUBE, SLOPE, LIMIT = F(TANH_SCALE), F(0.044715 * TANH_SCALE), F(3 * 0.044715 * TANH_SCALE), F(FAR)


@kernel
def gelu_value(x, below, y):
    for i in range(x.size):
        y[i] = x[i] * normal_below(x[i])


@kernel
def gelu_slope(g, x, below, d):
    for i in range(x.size):
        d[i] = g[i] * (normal_below(x[i]) + x[i] * (exp(-HALF * x[i] * x[i]) * DENSITY))


@kernel
def gelu_tanh_value(x, t, y):
    for i in range(x.size):
        s = x[i] * x[i]
        s = LIMIT if s > LIMIT else s
        u = x[i] * (SCALE + CUBE * s)
        p = sigmoid(u + u)
        t[i] = p + p - ONE
        y[i] = x[i] * p


@kernel
def gelu_tanh_slope(g, x, t, d):
    for i in range(x.size):
        s = x[i] * x[i]
        s = LIMIT if s > LIMIT else s
        d[i] = g[i] * HALF * (ONE + t[i] + x[i] * (ONE - t[i] * t[i]) * (SCALE + SLOPE * s))


@kernel
def silu_value(x, s, y):
    for i in range(x.size):
        p = sigmoid(x[i])
        s[i] = p
        y[i] = x[i] * p


@kernel
def silu_slope(g, x, s, d):
    for i in range(x.size):
        d[i] = g[i] * s[i] * (ONE + x[i] * (ONE - s[i]))


@kernel
def swiglu_value(gate, up, s, y):
    for i in range(gate.size):
        p = sigmoid(gate[i])
        s[i] = p
        y[i] = gate[i] * p * up[i]


@kernel
def swiglu_slope(g, gate, up, s, dgate, dup):
    for i in range(gate.size):
        dup[i] = g[i] * gate[i] * s[i]
        dgate[i] = g[i] * up[i] * s[i] * (ONE + gate[i] * (ONE - s[i]))
