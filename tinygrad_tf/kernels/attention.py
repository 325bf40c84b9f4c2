"""Softmax over a block of scores, and back: see the functions of the same names in `tinygrad_tf/attention.py`.

Inner loops run over slices and from 0: with another start the compiler would test each index for being negative.
"""

from __future__ import annotations

import numpy as np

from .loops import ONE, ZERO, F, exp, kernel

NONE = F(-np.inf)


@kernel
def seeing(lowest, highest, key, n):
    """start, stop: the queries that see this key."""
    start = min(max(key - highest, 0), n)
    return start, max(min(key - lowest + 1, n), start)


@kernel
def weigh(lowest, highest, logs, w):
    blocks, keys, n = w.shape
    top, total = np.empty(n, np.float32), np.empty(n, np.float32)
    for b in range(blocks):
        top[:] = NONE
        total[:] = ZERO
        for j in range(keys):
            start, stop = seeing(lowest, highest, j, n)
            row, most = w[b, j, start:stop], top[start:stop]
            for i in range(row.size):
                most[i] = row[i] if row[i] > most[i] else most[i]
        for i in range(n):
            top[i] = ZERO if top[i] == NONE else top[i]
        for j in range(keys):
            start, stop = seeing(lowest, highest, j, n)
            row, most, sums = w[b, j, start:stop], top[start:stop], total[start:stop]
            for i in range(row.size):
                e = exp(row[i] - most[i])
                row[i] = e
                sums[i] += e
            w[b, j, :start] = ZERO
            w[b, j, stop:] = ZERO
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
            start, stop = seeing(lowest, highest, j, n)
            row, log = w[b, j, start:stop], logs[b, 0, start:stop]
            for i in range(row.size):
                row[i] = exp(row[i] - log[i])
            w[b, j, :start] = ZERO
            w[b, j, stop:] = ZERO


@kernel
def slope(along, w, ds):
    blocks, keys, n = w.shape
    for b in range(blocks):
        for j in range(keys):
            for i in range(n):
                ds[b, j, i] = (ds[b, j, i] - along[b, 0, i]) * w[b, j, i]
