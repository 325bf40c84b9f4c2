"""Solutions to the exercises of lesson 12."""

import numpy as np


def normalise(x):
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True))


def attention(a, causal):
    scores = a @ a.T / np.sqrt(a.shape[1])
    if causal:
        scores = np.where(np.tri(len(a), dtype=bool), scores, -np.inf)
    exps = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exps / exps.sum(axis=-1, keepdims=True) @ a


def block(x, w1, w2, causal):
    h = x + attention(normalise(x), causal)
    return h + np.maximum(normalise(h) @ w1, 0) @ w2


def shapes(n, d, heads, hidden):
    return {
        "queries": (heads, n, d // heads),
        "scores": (heads, n, n),
        "attention": (n, d),
        "widened": (n, hidden),
        "feed-forward": (n, d),
    }
