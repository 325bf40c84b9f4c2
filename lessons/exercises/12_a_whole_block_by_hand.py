"""Exercises to lesson 12, A whole block by hand. Replace each `raise` by your own lines, save, and run

    tinygrad-tf check 12

NumPy is enough. The functions may call each other. All of them are those of the lesson: identity projections, one head,
RMSNorm without gain and with ε = 0, ReLU, no biases.
"""

import numpy as np


def normalise(x):
    """Each row divided by its root mean square. x: (T, d), no row of zeros. Returns (T, d)."""
    raise NotImplementedError("normalise: yours to write")


def attention(a, causal):
    """One head with identity projections: every row is its own query, key and value.

    a: (T, d), the normalised rows. causal: True if row i may read the rows 0 … i alone. Returns the read, (T, d).
    """
    raise NotImplementedError("attention: yours to write")


def block(x, w1, w2, causal):
    """The whole pre-norm block: attention on the normalised stream, a sum, feed-forward on the normalised stream, a sum.

    x: (T, d), w1: (d, h), w2: (h, d), causal as above. Returns (T, d).
    """
    raise NotImplementedError("block: yours to write")


def shapes(n, d, heads, hidden):
    """The shapes inside a block for n tokens, width d, that many heads and hidden units; no batch.

    Returns a dict: "queries" by head, "scores", "attention" (what it adds to the stream), "widened", "feed-forward".
    Each value is a tuple, as in {"attention": (5, 768), …}.
    """
    raise NotImplementedError("shapes: yours to write")
