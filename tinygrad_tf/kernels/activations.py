"""The activations, each in one pass: see the functions of the same names in `tinygrad_tf/activations.py`."""

from __future__ import annotations

from ..activations import FAR, TANH_SCALE
from .loops import ONE, F, gaussian, kernel, normal_below, sigmoid

SCALE, CUBE, SLOPE, LIMIT = F(TANH_SCALE), F(0.044715 * TANH_SCALE), F(3 * 0.044715 * TANH_SCALE), F(FAR)


@kernel
def gelu_value(x, d, y):
    if d.size:
        for i in range(x.size):
            p, density = gaussian(x[i])
            y[i] = x[i] * p
            d[i] = p + x[i] * density
    else:
        for i in range(x.size):
            y[i] = x[i] * normal_below(x[i])


@kernel
def gelu_tanh_value(x, d, y):
    for i in range(x.size):
        s = x[i] * x[i]
        s = LIMIT if s > LIMIT else s
        u = x[i] * (SCALE + CUBE * s)
        p = sigmoid(u + u)
        if d.size:
            d[i] = p + x[i] * (p + p) * (ONE - p) * (SCALE + SLOPE * s)
        y[i] = x[i] * p


@kernel
def silu_value(x, d, y):
    for i in range(x.size):
        p = sigmoid(x[i])
        if d.size:
            d[i] = p * (ONE + x[i] * (ONE - p))
        y[i] = x[i] * p


@kernel
def swiglu_value(gate, up, dgate, dup, y):
    for i in range(gate.size):
        p = sigmoid(gate[i])
        a = gate[i] * p
        if dgate.size:
            dgate[i] = p * (ONE + gate[i] * (ONE - p)) * up[i]
            dup[i] = a
        y[i] = a * up[i]
