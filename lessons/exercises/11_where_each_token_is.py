"""Exercises to lesson 11, Where each token is. Replace each `raise` by your own lines, save, and run

    tinygrad-tf check 11

NumPy is enough. Positions are counted from 0.
"""

import numpy as np


def sinusoidal(n, d):
    """The rows of positions 0 … n − 1: pair i is the sine and the cosine of p / 10000^(2i/d), one beside the other.

    n: how many positions, d: the width, even. Returns (n, d): sine, cosine, sine, cosine …
    """
    raise NotImplementedError("sinusoidal: yours to write")


def add_positions(tokens, table, start):
    """Token vectors plus the learned rows of their positions; the first token stands at position `start`.

    tokens: (T, d), table: (rows, d), start: an int. Returns (T, d). IndexError if a position is past the table.
    """
    raise NotImplementedError("add_positions: yours to write")


def alibi(heads, n):
    """ALiBi's bias for n positions: minus the distance of query and key, times the slope of the head.

    Head h = 1 … heads has the slope 2^(−8h / heads). Returns (heads, n, n), to be added to the scores before the softmax.
    """
    raise NotImplementedError("alibi: yours to write")


def rotate(x, positions, base):
    """Rotary positions, half-split: coordinates i and i + D/2 are pair i, turned by its row's position times base^(−2i/D).

    Turning (a, b) by an angle gives (a cos − b sin, a sin + b cos). x: (T, D), D even; positions: (T,). Returns (T, D).
    """
    raise NotImplementedError("rotate: yours to write")
