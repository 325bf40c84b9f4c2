"""The loss, norms, sums over rows, and the turning of pairs: see the functions of the same names in `tinygrad_tf/fused.py`."""

from __future__ import annotations

import numpy as np

from .loops import ONE, ZERO, F, exp, inverse_root, kernel

TOO_LARGE, NONE = F(np.inf), F(-np.inf)


@kernel
def cross_entropy_value(smoothing, target, logits, p, total, losses):
    rows, v = logits.shape
    for i in range(rows):
        if target[i] < 0 or target[i] >= v:
            raise IndexError("a target is out of bounds for the classes that there are")
        top = NONE
        for j in range(v):
            top = logits[i, j] if logits[i, j] > top else top
        top = ZERO if top == NONE else top
        sum_, mean = ZERO, ZERO
        for j in range(v):
            x = logits[i, j] - top
            mean += x
            e = exp(x)
            p[i, j] = e
            sum_ += e
        picked = F(1 - smoothing) * (logits[i, target[i]] - top)
        if smoothing:
            picked += F(smoothing) * (mean / F(v))
        total[i] = sum_
        losses[i] = np.log(sum_) - picked


@kernel
def cross_entropy_slope(smoothing, target, scale, p, total, d):
    rows, v = p.shape
    hit, spread = F(1 - smoothing), F(smoothing / max(v, 1))
    for i in range(rows):
        share, even = scale[i] / total[i], spread * scale[i]
        for j in range(v):
            d[i, j] = p[i, j] * share - even
        d[i, target[i]] -= hit * scale[i]


@kernel
def layer_norm_value(eps, gain, shift, x, n, r, y):
    rows, d = x.shape
    overflow = False
    share = ONE / F(max(d, 1))
    for i in range(rows):
        mean = ZERO
        for j in range(d):
            mean += x[i, j]
        mean *= share
        left = ZERO  # what rounding left of the mean
        for j in range(d):
            n[i, j] = x[i, j] - mean
            left += n[i, j]
        left *= share
        square = ZERO
        for j in range(d):
            n[i, j] -= left
            square += n[i, j] * n[i, j]
        overflow |= square == TOO_LARGE
        scale = inverse_root(square * share + F(eps))
        r[i, 0] = scale
        for j in range(d):
            n[i, j] *= scale
        if gain is not None:
            for j in range(d):
                y[i, j] = n[i, j] * gain[j]
        if shift is not None:
            for j in range(d):
                y[i, j] += shift[j]
    return overflow


@kernel
def layer_norm_slope(gain, g, n, r, h):
    rows, d = n.shape
    share = ONE / F(max(d, 1))
    for i in range(rows):
        mean, along = ZERO, ZERO
        for j in range(d):
            v = g[i, j] if gain is None else g[i, j] * gain[j]
            mean += v
            along += v * n[i, j]
            h[i, j] = v
        mean *= share
        along *= share
        for j in range(d):
            h[i, j] = (h[i, j] - mean - n[i, j] * along) * r[i, 0]


@kernel
def rms_norm_value(eps, gain, x, n, r, y):
    rows, d = x.shape
    overflow = False
    share = ONE / F(max(d, 1))
    for i in range(rows):
        square = ZERO
        for j in range(d):
            square += x[i, j] * x[i, j]
        overflow |= square == TOO_LARGE
        scale = inverse_root(square * share + F(eps))
        r[i, 0] = scale
        for j in range(d):
            n[i, j] = x[i, j] * scale
        if gain is not None:
            for j in range(d):
                y[i, j] = n[i, j] * gain[j]
    return overflow


@kernel
def rms_norm_slope(gain, g, n, r, h):
    rows, d = n.shape
    share = ONE / F(max(d, 1))
    for i in range(rows):
        along = ZERO
        for j in range(d):
            v = g[i, j] if gain is None else g[i, j] * gain[j]
            along += v * n[i, j]
            h[i, j] = v
        along *= share
        for j in range(d):
            h[i, j] = (h[i, j] - n[i, j] * along) * r[i, 0]


@kernel
def products_over_rows(a, b, total):
    rows, d = a.shape
    for j in range(d):
        total[j] = ZERO
    for i in range(rows):
        for j in range(d):
            total[j] += a[i, j] * b[i, j]


@kernel
def turn(interleaved, cos, sin, x, y):
    count, length, heads, width = x.shape
    half = width // 2
    for n in range(count):
        for t in range(length):
            for h in range(heads):
                if interleaved:
                    for i in range(half):
                        a, b = x[n, t, h, 2 * i], x[n, t, h, 2 * i + 1]
                        y[n, t, h, 2 * i] = a * cos[t, i] - b * sin[t, i]
                        y[n, t, h, 2 * i + 1] = a * sin[t, i] + b * cos[t, i]
                else:
                    for i in range(half):
                        a, b = x[n, t, h, i], x[n, t, h, half + i]
                        y[n, t, h, i] = a * cos[t, i] - b * sin[t, i]
                        y[n, t, h, half + i] = a * sin[t, i] + b * cos[t, i]
