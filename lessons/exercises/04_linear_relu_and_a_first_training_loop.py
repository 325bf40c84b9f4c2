"""Exercises to lesson 4, Linear, ReLU and a first training loop. Replace each `raise` by your own lines, save, and run

    tinygrad-tf check 4

All arrays are NumPy arrays. `tinygrad-tf check 4 --watch` answers each time you save.
"""

import numpy as np


def linear(x, weight, bias):
    """What a Linear layer computes.

    x: (..., in), weight: (out, in), one row for each output, bias: (out,). Returns (..., out).
    """
    raise NotImplementedError("linear: yours to write")


def relu_backward(x, g):
    """What y = relu(x) sends back to x when the gradient g arrives at y; 0 where x is exactly 0.

    x, g: arrays of one shape. Returns an array of that shape.
    """
    raise NotImplementedError("relu_backward: yours to write")


def descend(parameters, gradients, rate):
    """One step of gradient descent.

    parameters, gradients: lists of arrays, each gradient of the shape of its parameter. rate: the learning rate. Returns a list
    of new arrays; the old ones are left as they are.
    """
    raise NotImplementedError("descend: yours to write")


def fit_line(x, y, rate, steps):
    """Fit y = w * x + b by gradient descent on the mean of the squared errors, from w = 0 and b = 0.

    x, y: (n,). Returns the pair (w, b) after that many steps.
    """
    raise NotImplementedError("fit_line: yours to write")
