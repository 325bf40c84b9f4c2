"""Solutions to the exercises of lesson 8."""

import numpy as np


def split_heads(x, heads):
    return x.reshape(len(x), heads, -1).transpose(1, 0, 2)


def join_heads(reads):
    heads, length, width = reads.shape
    return reads.transpose(1, 0, 2).reshape(length, heads * width)


def multi_head(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (split_heads(x @ w, heads) for w in (w_q, w_k, w_v))
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = shares / shares.sum(axis=-1, keepdims=True)
    return join_heads(weights @ v) @ w_o


def share_of(reads, w_o, r):
    width = reads.shape[-1]
    return reads[r] @ w_o[r * width : (r + 1) * width]
