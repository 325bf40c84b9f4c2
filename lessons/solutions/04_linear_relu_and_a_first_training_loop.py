"""Solutions to the exercises of lesson 4."""

import numpy as np


def linear(x, weight, bias):
    return x @ weight.T + bias


def relu_backward(x, g):
    return np.where(x > 0, g, 0.0)


def descend(parameters, gradients, rate):
    return [parameter - rate * gradient for parameter, gradient in zip(parameters, gradients)]


def fit_line(x, y, rate, steps):
    w = b = 0.0
    for _ in range(steps):
        error = w * x + b - y
        to_w, to_b = (2 * error * x).mean(), (2 * error).mean()
        w, b = w - rate * to_w, b - rate * to_b
    return w, b
