"""Exercises to lesson 8, Several heads, one update. Replace each `raise` by your own lines, save, and run

    tinygrad-tf check 8

NumPy is enough. `tinygrad-tf check 8 --watch` answers each time you save.
"""

import numpy as np


def split_heads(x, heads):
    """Queries, keys or values of all heads, cut into those of each.

    x: array (T, H * D), the D numbers of head 0 first, then those of head 1, ... Returns an array (H, T, D).
    """
    raise NotImplementedError("split_heads: yours to write")


def join_heads(reads):
    """The reads of all heads, side by side: what split_heads cut is whole again.

    reads: array (H, T, D). Returns an array (T, H * D).
    """
    raise NotImplementedError("join_heads: yours to write")


def multi_head(x, w_q, w_k, w_v, w_o, heads):
    """The update of a multi-head attention layer without bias or mask: project, split, score, softmax, mix, join, project.

    x: array (T, d). w_q, w_k, w_v, w_o: arrays (d, d) that act on the right, x @ w. heads: divides d. Returns an array (T, d),
    the update alone: nothing is added to x here.
    """
    raise NotImplementedError("multi_head: yours to write")


def share_of(reads, w_o, r):
    """What head r contributes to the update: over all heads these add up to the joined reads times w_o.

    reads: array (H, T, D). w_o: array (H * D, d). r: 0 ... H - 1. Returns an array (T, d).
    """
    raise NotImplementedError("share_of: yours to write")
