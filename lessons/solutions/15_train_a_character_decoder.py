"""Solutions to the exercises of lesson 15."""

import math

import numpy as np


def batch(ids, starts, length):
    inside = np.asarray(starts)[:, None] + np.arange(length)
    return ids[inside], ids[inside + 1]


def cross_entropy(logits, targets):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return -np.take_along_axis(log_p, targets[..., None], axis=-1).mean()


def learning_rate(step, peak, warmup, total):
    if step < warmup:
        return peak * (step + 1) / warmup
    done = (step - warmup + 1) / (total - warmup)
    return peak * (1 + math.cos(math.pi * done)) / 2
