"""Solutions to the exercises of lesson 5."""

import numpy as np


def _softmax(scores):
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


def weights(q, k):
    return _softmax(q @ k.T / np.sqrt(q.shape[-1]))


def weight_for(target, one, two):
    a = (target - two) / (one - two)
    return a if 0 <= a <= 1 else None


def causal_read(q, k, v):
    scores = q @ k.T / np.sqrt(q.shape[-1])
    may = np.tri(*scores.shape, dtype=bool)
    return _softmax(np.where(may, scores, -np.inf)) @ v


def masked_read(scores, allowed, v):
    some = allowed.any(axis=-1)
    reads = np.zeros((len(scores), v.shape[-1]))
    reads[some] = _softmax(np.where(allowed, scores, -np.inf)[some]) @ v
    return reads
