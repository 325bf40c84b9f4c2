"""Exercises to lesson 7, The gradient's way back. Replace each `raise` by your own lines, save, and run

    tinygrad-tf check 7

Plain Python and NumPy are enough. `tinygrad-tf check 7 --watch` answers each time you save.
"""

import numpy as np


def slope(x):
    """The derivative of tanh(x / 2).

    x: a float or an array. Returns the same kind.
    """
    raise NotImplementedError("slope: yours to write")


def arrived(slopes, add):
    """What has arrived at each number of a stack when a gradient of 1 starts at its output.

    slopes: a list, F' of the first layer to F' of the last. add: False when layers replace, x <- F(x); True when they add,
    x <- x + F(x). Returns a list with one number more than slopes: the gradient at the stack's input first, the 1 at its
    output last.
    """
    raise NotImplementedError("arrived: yours to write")


def residual_backward(g, jacobian):
    """The two parts of the gradient at x for y = x + F(x).

    g: array (d,), the gradient that arrives at y. jacobian: array (d, d), row i holding how output i of F changes with each
    input. Returns the pair (along the skip path, through the branch), two arrays (d,) whose sum is the gradient at x.
    """
    raise NotImplementedError("residual_backward: yours to write")


def layers_until(factor, limit):
    """After how many layers the size of the gradient is first below `limit`, each layer multiplying it by `factor`.

    It starts as 1. factor: a float, also negative. limit: a float, 0 < limit <= 1. Returns a whole number, or None if it
    never gets there.
    """
    raise NotImplementedError("layers_until: yours to write")
