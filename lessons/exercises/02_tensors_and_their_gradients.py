"""Exercises to lesson 2, Tensors and their gradients. Replace each `raise` by your own lines, save, and run

    tinygrad-tf check 2

All arrays are NumPy arrays: no tensor is needed. `tinygrad-tf check 2 --watch` answers each time you save.
"""

import numpy as np


def matmul_backward(x, w, g):
    """What y = x @ w sends back to x and to w when the gradient g arrives at y.

    x: (n, k), w: (k, m), g: (n, m). Returns the pair (gradient for x, gradient for w), of the shapes of x and w.
    """
    raise NotImplementedError("matmul_backward: yours to write")


def unbroadcast(g, shape):
    """The gradient of an input of this shape that was broadcast to the shape of g: g summed over what was repeated.

    g: an array of any number of axes. shape: a tuple that broadcasts to g.shape: it may have fewer axes (they are added in
    front), and axes of length 1 where g has more. Returns an array of that shape.
    """
    raise NotImplementedError("unbroadcast: yours to write")


def mean_backward(x, g):
    """What y = x.mean() sends back to x when the gradient g, one number, arrives at y.

    x: an array of any shape. Returns an array of the shape of x.
    """
    raise NotImplementedError("mean_backward: yours to write")


def measured_gradient(f, x, h):
    """The gradient of f at x, measured element by element: f changes from x - h to x + h in that element alone.

    f: a function of an array that returns one number. x: an array of floats, which is to be left as it is. Returns an array of
    the shape of x.
    """
    raise NotImplementedError("measured_gradient: yours to write")
