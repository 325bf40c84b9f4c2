"""Exercises to lesson 10, Normalise the read. Replace each `raise` by your own lines, save, and run

    tinygrad-tf check 10

NumPy is enough. Positions are rows; a norm never leaves its row.
"""

import numpy as np


def rms_norm(x, gain, eps):
    """Each row divided by its root mean square, times the gain. ε stands inside the root, beside the mean of the squares.

    x: (T, d), gain: (d,), eps: a float. Returns (T, d).
    """
    raise NotImplementedError("rms_norm: yours to write")


def layer_norm(x, gain, shift, eps):
    """Each row minus its mean, divided by its standard deviation, times the gain, plus the shift.

    The variance divides by d, and ε stands beside it, inside the root. x: (T, d), gain and shift: (d,). Returns (T, d).
    """
    raise NotImplementedError("layer_norm: yours to write")


def pre_norm(x, branch, norm):
    """One residual sublayer of a pre-norm block: the branch reads the normalised stream and adds to the stream itself.

    x: (T, d); branch and norm: functions from (T, d) to (T, d). Returns (T, d).
    """
    raise NotImplementedError("pre_norm: yours to write")
