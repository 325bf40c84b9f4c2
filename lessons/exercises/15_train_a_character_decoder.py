"""Exercises to lesson 15, Train a character decoder. Replace each `raise` by your own lines, save, and run

    tinygrad-tf check 15

NumPy is enough. Logarithms are natural, so losses are in nats.
"""

import numpy as np


def batch(ids, starts, length):
    """Windows of a text and what comes next at each place.

    ids (N,): the text as whole numbers. starts (B,): where each window begins. Returns the pair x, y of arrays (B, length):
    x holds the windows, y the same windows one character later. No window reaches beyond the text.
    """
    raise NotImplementedError("batch: yours to write")


def cross_entropy(logits, targets):
    """The mean, over all B · T places, of minus the logarithm of the probability that softmax gives the target.

    logits (B, T, V): numbers, possibly large; targets (B, T): whole numbers below V. Returns one number.
    """
    raise NotImplementedError("cross_entropy: yours to write")


def learning_rate(step, peak, warmup, total):
    """The learning rate of a step, counted from 0: a rise in a straight line, then half a cosine down to 0.

    Step 0 has peak / warmup, step warmup - 1 has peak; from there it falls as (1 + cos(π · done)) / 2, where done is the share
    of the total - warmup steps that follow: 1 at the last step, total - 1. warmup is at least 1 and less than total.
    """
    raise NotImplementedError("learning_rate: yours to write")
