"""Exercises to lesson 6, Replace or add. Replace each `raise` by your own lines, save, and run

    tinygrad-tf check 6

NumPy is enough. `tinygrad-tf check 6 --watch` answers each time you save.
"""

import numpy as np


def write(x, branch):
    """A residual connection: what the branch makes of x is added to x. x itself is left as it is.

    x: array (T, d). branch: a function from (T, d) to (T, d). Returns an array (T, d).
    """
    raise NotImplementedError("write: yours to write")


def needed_update(x, wanted):
    """What a branch has to return so that x with its update added is `wanted`.

    x, wanted: arrays of one shape. Returns an array of that shape.
    """
    raise NotImplementedError("needed_update: yours to write")


def pre_norm_block(x, attn, ffn, attn_norm, ffn_norm):
    """A pre-norm block: attention, then the feed-forward network, each on a normed copy, each added to the stream.

    x: array (T, d). attn, ffn, attn_norm, ffn_norm: functions from (T, d) to (T, d). Returns an array (T, d).
    """
    raise NotImplementedError("pre_norm_block: yours to write")


def leaves_alone(block, x):
    """The branch-zero test: whether block(x) is x, every element exactly.

    block: a function from (T, d) to an array; one of another shape is not x, and the answer is False. x: array (T, d) without
    nan. Returns True or False.
    """
    raise NotImplementedError("leaves_alone: yours to write")
