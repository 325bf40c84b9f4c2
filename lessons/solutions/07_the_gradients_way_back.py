"""Solutions to the exercises of lesson 7."""

import numpy as np


def slope(x):
    return 0.5 * (1 - np.tanh(x / 2) ** 2)


def arrived(slopes, add):
    gradients = [1.0]
    for s in reversed(slopes):
        gradients.append(gradients[-1] * (1 + s if add else s))
    return gradients[::-1]


def residual_backward(g, jacobian):
    return g.copy(), jacobian.T @ g


def layers_until(factor, limit):
    if abs(factor) >= 1:
        return None
    layers, size = 0, 1.0
    while size >= limit:
        size *= abs(factor)
        layers += 1
    return layers
