"""Softmax attention in blocks of queries: the T x S matrix of weights never exists.

A block of queries meets only the keys that it may look at, its rows of weights are complete, so the softmax is the ordinary
one; then the weights are dropped. Backward makes them again from the scores and one number a row, the logarithm of the
row's sum (as FlashAttention, Dao et al. 2022, without its second level of blocks). When one block is everything, the
weights are kept: making them again would cost more time than they cost memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

BLOCK = 128  # queries in a block: benchmarks/attention.py measures where smaller and larger ones lose
CHUNK = 1 << 18  # scores worked on at a time: what fits a core's cache beside keys and values


def _grouped(q, groups):
    """(B, H, T, D) -> (B, G, H / G, T, D)"""
    b, h, t, d = q.shape
    return q.reshape(b, groups, h // groups, t, d)


def _like(b, h, t, e, dtype):
    """An array (B, H, T, E) laid out as (B, T, H, E), so that joining the heads afterwards copies nothing."""
    return np.empty((b, t, h, e), dtype).transpose(0, 2, 1, 3)


def _blocks(b, h, t, s, causal, block) -> Iterator[tuple[slice, slice, int]]:
    """(batch entries, queries, number of keys that these may look at)"""
    for i in range(0, t, block):
        j = min(i + block, t)
        keys = s if causal is None else min(max(j + causal, 0), s)
        step = max(1, CHUNK // max(1, h * (j - i) * keys))
        for at in range(0, b, step):
            yield slice(at, min(at + step, b)), slice(i, j), keys


def _scores(q, k, bias, mask, causal, at, rows, keys):
    """The scores of one block, -inf where a query may not look.   q (b, G, R, n, D) scaled, k (b, G, 1, keys, D)"""
    s = np.matmul(q, k.swapaxes(-1, -2))
    flat = s.reshape(s.shape[0], -1, *s.shape[-2:])  # (b, H, n, keys)
    if bias is not None:
        flat += _part(bias, at, rows, keys)
    if mask is not None:
        np.copyto(flat, -np.inf, where=~_part(mask, at, rows, keys))
    if causal is not None:
        first = rows.start + causal + 1  # the first key that the first query may not look at
        n = rows.stop - rows.start
        if first < keys:
            start = max(first, 0)
            np.copyto(flat[..., start:], -np.inf, where=~np.tri(n, keys - start, first - 1 - start, dtype=bool))
    return s


def _part(full, at, rows, keys):
    """The block's part of something that broadcasts to (B, H, T, S)."""
    full = full.reshape((1,) * (4 - full.ndim) + full.shape)
    full = full[at] if full.shape[0] > 1 else full
    full = full[:, :, rows] if full.shape[2] > 1 else full
    return full[..., :keys] if full.shape[3] > 1 else full


def attend(q, k, v, bias, mask, causal, scale, block):
    """(B, H, T, E) and what backward needs: (block size, whether the weights are kept, weights or logarithms of sums by block)."""
    (b, h, t, d), (_, groups, s, e) = q.shape, v.shape
    if k.shape[:3] != (b, groups, s) or k.shape[3] != d or h % groups:
        raise ValueError(f"q {q.shape}, k {k.shape} and v {v.shape} do not fit together: (B, H, T, D), (B, G, S, D), (B, G, S, E)")
    scale = 1 / math.sqrt(d) if scale is None else scale
    block = block or BLOCK
    whole = t <= block
    out, saved = _like(b, h, t, e, q.dtype), []
    for at, rows, keys in _blocks(b, h, t, s, causal, block):
        w = _scores(_grouped(q[at, :, rows] * q.dtype.type(scale), groups), k[at, :, None, :keys], bias, mask, causal, at, rows, keys)
        top = w.max(axis=-1, keepdims=True) if keys else np.zeros((*w.shape[:-1], 1), w.dtype)
        if mask is not None or causal is not None or bias is not None:
            top[top == -np.inf] = 0  # a row that may look nowhere
        w -= top
        np.exp(w, out=w)
        total = w.sum(axis=-1, keepdims=True)
        total[total == 0] = 1
        if whole:
            w /= total
            saved.append(w)
            read = np.matmul(w, v[at, :, None, :keys])
        else:
            read = np.matmul(w, v[at, :, None, :keys])
            read /= total
            top += np.log(total)
            saved.append(top)
        out[at, :, rows] = read.reshape(read.shape[0], h, *read.shape[-2:])
    return out, (block, whole, saved)


def attend_back(g, q, k, v, bias, mask, causal, scale, saved, out):
    """(dq, dk, dv) or (dq, dk, dv, dbias).

    With w the weights and a_ij = g_i . v_j:  dv = w^T g;  dscores = w * (a - sum_j w_ij a_ij), and that sum is g_i . out_i;
    dq = dscores k scale;  dk = dscores^T q scale.
    """
    (b, h, t, d), (_, groups, s, e) = q.shape, v.shape
    scale = q.dtype.type(1 / math.sqrt(d) if scale is None else scale)
    dq = _like(b, h, t, d, q.dtype)
    dk, dv = _like(b, groups, s, d, q.dtype), _like(b, groups, s, e, q.dtype)
    dk[...], dv[...] = 0, 0
    dbias = None if bias is None else np.zeros(bias.shape, bias.dtype)
    block, whole, parts = saved
    for (at, rows, keys), kept in zip(_blocks(b, h, t, s, causal, block), parts, strict=True):
        qs, gs = _grouped(q[at, :, rows] * scale, groups), _grouped(np.ascontiguousarray(g[at, :, rows]), groups)
        ks, vs = k[at, :, None, :keys], v[at, :, None, :keys]
        if whole:
            w = kept
        else:
            w = _scores(qs, ks, bias, mask, causal, at, rows, keys)
            w -= kept
            np.exp(w, out=w)
        dv[at, :, :keys] += np.matmul(w.swapaxes(-1, -2), gs).sum(axis=2)
        ds = np.matmul(gs, vs.swapaxes(-1, -2))
        ds -= np.einsum("...e,...e->...", gs, _grouped(out[at, :, rows], groups))[..., None]
        ds *= w
        if dbias is not None:
            _add_part(dbias, ds.reshape(ds.shape[0], h, *ds.shape[-2:]), at, rows, keys)
        dk[at, :, :keys] += np.matmul(ds.swapaxes(-1, -2), qs).sum(axis=2)
        dqs = np.matmul(ds, ks)
        dqs *= scale
        dq[at, :, rows] = dqs.reshape(dqs.shape[0], h, *dqs.shape[-2:])
    return (dq, dk, dv) if dbias is None else (dq, dk, dv, dbias)


def _add_part(dbias, ds, at, rows, keys):
    """Add a block's gradient to the bias it came from, summed over the axes along which the bias was broadcast."""
    view = dbias.reshape((1,) * (4 - dbias.ndim) + dbias.shape)
    for axis in range(4):
        if view.shape[axis] == 1 and ds.shape[axis] != 1:
            ds = ds.sum(axis=axis, keepdims=True)
    _part(view, at, rows, keys)[...] += ds
