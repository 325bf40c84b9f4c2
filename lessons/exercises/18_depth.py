"""Exercises to lesson 18, Depth. Replace each `raise` by your own lines, save, and run

    tinygrad-tf check 18

NumPy is enough. `tinygrad-tf check 18 --watch` answers each time you save.
"""

import numpy as np


def forward(x, weights, scale):
    """A stack of residual layers: each adds scale times the ReLU of a linear map of what it is given.

    x: array (d,). weights: a list of arrays (d, d); a layer's linear map is x @ w. scale: a float. Returns an array (d,).
    """
    raise NotImplementedError("forward: yours to write")


def backward(x, weights, scale, g):
    """The gradient that arrives at x when g arrives at the end of that stack.

    x, g: arrays (d,). weights, scale: as above. A unit whose input is 0 or less sends nothing back. Returns an array (d,).
    """
    raise NotImplementedError("backward: yours to write")


def deepen(weights, n):
    """The weights of a stack with n more layers on top that do nothing: it gives what the shorter one gave, for every scale.

    weights: a list of one or more arrays (d, d), left as it is. n: an int, 0 or more.
    Returns a list of len(weights) + n arrays.
    """
    raise NotImplementedError("deepen: yours to write")
