"""Solutions to the exercises of lesson 9."""

import math

import numpy as np


def add_excess(x):
    excess = np.maximum(x[:, 1] - x[:, 0], 0)
    return x + excess[:, None] * np.array([1.0, 0.0])


def feed_forward(x, w1, b1, w2, b2):
    return np.maximum(x @ w1 + b1, 0) @ w2 + b2


def gelu(z):
    return z * 0.5 * (1 + math.erf(z / math.sqrt(2)))


def swiglu(x, gate, up, down):
    opened = x @ gate
    return (opened / (1 + np.exp(-opened)) * (x @ up)) @ down
