"""Solutions to the exercises of lesson 13."""

import math

import numpy as np


def may_look(shape, queries, keys):
    if shape == "decoder":
        return np.tri(queries, keys, dtype=bool)
    return np.ones((queries, keys), bool)


def cross_attention(x, memory, w_q, w_k, w_v):
    q, k, v = x @ w_q, memory @ w_k, memory @ w_v
    scores = q @ k.T / math.sqrt(q.shape[-1])
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v


def sublayer(x, branch, norm, order):
    if order == "pre":
        return x + branch(norm(x))
    return norm(x + branch(x))
