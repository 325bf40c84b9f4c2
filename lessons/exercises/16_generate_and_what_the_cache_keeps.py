"""Exercises to lesson 16, Generate, and what the cache keeps. Replace each `raise` by your own lines, save, and run

    tinygrad-tf check 16

NumPy is enough.
"""

import numpy as np


def with_temperature(logits, temperature):
    """The probabilities that are drawn from at this temperature: softmax of logits / temperature.

    logits (V,): numbers, possibly large. At temperature 0 the largest logit has probability 1 (the first of equal ones).
    Returns an array (V,).
    """
    raise NotImplementedError("with_temperature: yours to write")


def top_p(p, mass):
    """Only the shortest list of the most probable words whose sum reaches `mass`, brought to sum 1; the others are 0.

    p (V,): probabilities, all different, sum 1; 0 < mass <= 1. Each word stays in its place. Returns an array (V,).
    """
    raise NotImplementedError("top_p: yours to write")


def cached_step(x, keys, values, w_q, w_k, w_v):
    """One new token in one head of attention with a cache.

    x (d,): the new token's vector. keys, values (t, D): what was kept of the t tokens before, t may be 0. w_q, w_k, w_v (d, D).
    The token looks at all before it and at itself; scores are divided by √D. Returns (read (D,), keys (t + 1, D),
    values (t + 1, D)).
    """
    raise NotImplementedError("cached_step: yours to write")


def cache_bytes(layers, key_heads, head_width, tokens, size):
    """The memory of a KV cache for one text, in bytes; size: bytes of one number. Returns an int."""
    raise NotImplementedError("cache_bytes: yours to write")
