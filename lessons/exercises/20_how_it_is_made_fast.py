"""Exercises to lesson 20, How it is made fast. Replace each `raise` by your own lines, save, and run

    tinygrad-tf check 20

NumPy is enough. `tinygrad-tf check 20 --watch` answers each time you save.
"""

import numpy as np


def online_read(scores, values, block):
    """One query's read, softmax(scores) @ values, with `block` keys at a time.

    scores: array (S,), of any size, some of them in the thousands. values: array (S, E). block: an int; the last block may be
    shorter. Keep the largest score so far, a running sum and a running read; never hold more than one block of weights.
    Returns an array (E,).
    """
    raise NotImplementedError("online_read: yours to write")


def linear_read(q, k, v):
    """Linear attention without a mask: row i is the mean of the values, weighted by q_i · k_j.

    q: array (T, D), k: array (S, D), both positive (the features are taken already). v: array (S, E). Make no T × S matrix:
    what all queries need is one (D, E) matrix and one sum (D,). Returns an array (T, E).
    """
    raise NotImplementedError("linear_read: yours to write")


def causal_linear_read(q, k, v):
    """The same where position i sees the positions 0 ... i, itself included.

    q, k: arrays (T, D), positive. v: array (T, E). Returns an array (T, E).
    """
    raise NotImplementedError("causal_linear_read: yours to write")


def multiplications(t, d, kind):
    """How many multiplications the mixing of one head takes, for t positions of width d, without a mask.

    kind: "softmax", scores q @ k.T and then weights @ v; or "linear", k.T @ v and then q @ that. All of q, k, v are (t, d).
    Divisions, and the sums below the line, are left out. Returns an int.
    """
    raise NotImplementedError("multiplications: yours to write")
