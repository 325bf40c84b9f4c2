"""Solutions to the exercises of lesson 16."""

import math

import numpy as np


def with_temperature(logits, temperature):
    if temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    e = np.exp((logits - logits.max()) / temperature)
    return e / e.sum()


def top_p(p, mass):
    order = np.argsort(-p)
    before = np.cumsum(p[order]) - p[order]  # what the more probable ones have together
    kept = np.zeros_like(p)
    kept[order] = np.where(before < mass - 1e-9, p[order], 0)
    return kept / kept.sum()


def cached_step(x, keys, values, w_q, w_k, w_v):
    keys, values = np.vstack([keys, x @ w_k]), np.vstack([values, x @ w_v])
    scores = keys @ (x @ w_q) / math.sqrt(keys.shape[-1])
    e = np.exp(scores - scores.max())
    return e / e.sum() @ values, keys, values


def cache_bytes(layers, key_heads, head_width, tokens, size):
    return 2 * layers * key_heads * head_width * tokens * size
