"""Exercises to lesson 9, Feed-forward. Replace each `raise` by your own lines, save, and run

    tinygrad-tf check 9

NumPy and `math` are enough. Positions are rows, and weights act on the right: x @ w.
"""

import math

import numpy as np


def add_excess(x):
    """If q is larger than p, add the excess q - p to p; otherwise leave the pair alone. One hidden unit does it.

    x: (T, 2), a row (p, q) for each position. Returns (T, 2): the stream after the update has been added.
    """
    raise NotImplementedError("add_excess: yours to write")


def feed_forward(x, w1, b1, w2, b2):
    """Widen, activate with ReLU, narrow.

    x: (T, d), w1: (d, h), b1: (h,), w2: (h, d), b2: (d,). Returns the update, (T, d).
    """
    raise NotImplementedError("feed_forward: yours to write")


def gelu(z):
    """The exact GELU of one number: z times the probability that a standard normal number is below z.

    That probability is (1 + erf(z / √2)) / 2, and math.erf is there. z: a float. Returns a float.
    """
    raise NotImplementedError("gelu: yours to write")


def swiglu(x, gate, up, down):
    """The gated network: SiLU of what the gate reads, times what `up` reads, narrowed by `down`. SiLU(z) = z / (1 + e^-z).

    x: (T, d), gate and up: (d, h), down: (h, d). Returns (T, d).
    """
    raise NotImplementedError("swiglu: yours to write")
