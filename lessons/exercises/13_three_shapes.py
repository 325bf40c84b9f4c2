"""Exercises to lesson 13, Three shapes. Replace each `raise` by your own lines, save, and run

    tinygrad-tf check 13

`x @ y` multiplies matrices; `np.tri`, `np.where` and `np.exp` are what you may need of NumPy.
"""

import numpy as np


def may_look(shape, queries, keys):
    """Which query may look at which key: a boolean array (queries, keys), true where it may.

    shape: "encoder" (everything), "decoder" (itself and what came before; there as many keys as queries), or "cross"
    (every position of the other text).
    """
    raise NotImplementedError("may_look: yours to write")


def cross_attention(x, memory, w_q, w_k, w_v):
    """One head of cross-attention, without W_O: x asks, memory answers.

    x (T, d), memory (S, d), w_q, w_k, w_v (d, D), all NumPy arrays. Returns the reads (T, D). Scores are divided by √D.
    """
    raise NotImplementedError("cross_attention: yours to write")


def sublayer(x, branch, norm, order):
    """One residual sublayer with its norm. order "pre": as in GPT-2; order "post": as in BERT and in 2017.

    x: an array; branch and norm: functions from arrays to arrays of the same shape. Returns an array of that shape.
    """
    raise NotImplementedError("sublayer: yours to write")
