"""Softmax over a block of scores, and back: see the functions of the same names in `tinygrad_tf/attention.py`."""

from __future__ import annotations

import numpy as np

from .loops import ONE, ZERO, F, exp, kernel

NONE = F(-np.inf)


@kernel
def weigh(lowest, highest, logs, w):
    blocks, keys, n = w.shape
    top, total = np.empty(n, np.float32), np.empty(n, np.float32)
    for b in range(blocks):
        for i in range(n):
            top[i], total[i] = NONE, ZERO
        for j in range(keys):
            for i in range(max(0, j - highest), min(n, j - lowest + 1)):
                top[i] = w[b, j, i] if w[b, j, i] > top[i] else top[i]
        for i in range(n):
            top[i] = ZERO if top[i] == NONE else top[i]
        for j in range(keys):
            start, stop = max(0, j - highest), min(n, j - lowest + 1)
            for i in range(min(start, n)):
                w[b, j, i] = ZERO
            for i in range(start, stop):
                e = exp(w[b, j, i] - top[i])
                w[b, j, i] = e
                total[i] += e
            for i in range(max(stop, 0), n):
                w[b, j, i] = ZERO
        for i in range(n):
            total[i] = ONE if total[i] == ZERO else total[i]
            logs[b, 0, i] = top[i] + np.log(total[i])
            total[i] = ONE / total[i]
        for j in range(keys):
            for i in range(n):
                w[b, j, i] *= total[i]


@kernel
def weigh_again(lowest, highest, logs, w):
    blocks, keys, n = w.shape
    for b in range(blocks):
        for j in range(keys):
            start, stop = max(0, j - highest), min(n, j - lowest + 1)
            for i in range(min(start, n)):
                w[b, j, i] = ZERO
            for i in range(start, stop):
                w[b, j, i] = exp(w[b, j, i] - logs[b, 0, i])
            for i in range(max(stop, 0), n):
                w[b, j, i] = ZERO


@kernel
def slope(along, w, ds):
    blocks, keys, n = w.shape
    for b in range(blocks):
        for j in range(keys):
            for i in range(n):
                ds[b, j, i] = (ds[b, j, i] - along[b, 0, i]) * w[b, j, i]
