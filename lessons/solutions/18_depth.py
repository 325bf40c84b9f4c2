"""Solutions to the exercises of lesson 18."""

import numpy as np


def forward(x, weights, scale):
    for w in weights:
        x = x + scale * np.maximum(x @ w, 0)
    return x


def backward(x, weights, scale, g):
    inputs = []
    for w in weights:
        inputs.append(x)
        x = x + scale * np.maximum(x @ w, 0)
    for x, w in zip(inputs[::-1], weights[::-1]):
        through_branch = (scale * g * (x @ w > 0)) @ w.T
        g = g + through_branch
    return g


def deepen(weights, n):
    return [*weights, *(np.zeros_like(weights[0]) for _ in range(n))]
