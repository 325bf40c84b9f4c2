"""Exercises to lesson 5, One head reads. Replace each `raise` by your own lines, save, and run

    tinygrad-tf check 5

NumPy is enough. `tinygrad-tf check 5 --watch` answers each time you save.
"""

import numpy as np


def weights(q, k):
    """The weights of one head: the softmax of q kᵀ / √D, row by row.

    q: array (T, D), the queries. k: array (S, D), the keys. Returns an array (T, S) whose rows add to 1, also for scores of a
    few thousand, where exp() alone is infinite: the softmax does not change when the same number is taken from a whole row.
    """
    raise NotImplementedError("weights: yours to write")


def weight_for(target, one, two):
    """The weight on `one` with which one * a + two * (1 - a) is `target`, or None if no weight from 0 to 1 does it.

    target, one, two: floats, one and two different. Returns a float or None.
    """
    raise NotImplementedError("weight_for: yours to write")


def causal_read(q, k, v):
    """The reads of one head in which position i sees the positions 0 ... i, itself included.

    q, k: arrays (T, D). v: array (T, E). Returns an array (T, E).
    """
    raise NotImplementedError("causal_read: yours to write")


def masked_read(scores, allowed, v):
    """The reads where only some keys may be read; a row that may look nowhere reads zeros.

    scores: array (T, S). allowed: array (T, S) of True and False. v: array (S, E). Returns an array (T, E) without any nan.
    """
    raise NotImplementedError("masked_read: yours to write")
