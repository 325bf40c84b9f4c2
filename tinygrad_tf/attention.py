"""Softmax attention in blocks of queries: with many keys the T x S matrix of weights never exists.

A block of queries meets only the keys that one of them may look at: up to its last query where the future is hidden, and from
the window of its first one on. Its weights are complete, so the softmax is the ordinary one; then they are dropped. Backward
makes them again from the scores and one number for each query, the logarithm of its sum (as FlashAttention, Dao et al. 2022,
without its second level of blocks). Where no block has more than KEEP keys the weights are kept for backward: making them again
costs more time there than they cost memory.

Scores lie with keys along the rows and queries along the columns, (..., keys, queries): NumPy's largest and sum over the last
axis, when that is short, take three times as long as over the one before it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from itertools import chain

import numpy as np

from .kernels import fast
from .threads import in_parts

BLOCK = 64  # queries in a block: with 32 the calls cost more, with 128 the masked half does
KEEP = 256  # keys of a block up to which the weights stay until backward
ALL = 1 << 40  # more than any distance
CHUNK = 1 << 18  # scores worked on at a time: what fits a core's cache beside keys and values


def attend(q, k, v, how, scale, block, dropout, seed):
    """(B, H, T, E), and for backward: (blocks, most keys in one, whether weights are kept, each block's weights or logarithms).

    how: (bias, added, mask, since, causal) of `fused.attention`, None for what is not there.
    """
    (b, h, t, d), (_, groups, s, e) = q.shape, v.shape
    if k.shape != (b, groups, s, d) or h % groups:
        raise ValueError(f"q {q.shape}, k {k.shape}, v {v.shape} are not (B, H, T, D), (B, G, S, D), (B, G, S, E)")
    scale = q.dtype.type(1 / math.sqrt(d) if scale is None else scale)
    chunks, widest = _chunks(b, h, groups, t, s, how[3:], block)
    each = h // groups
    keep = widest <= KEEP
    out, saved = _like(b, h, t, e, q.dtype), [None] * sum(map(len, chunks))

    def look(number, at, of, rows, keys):
        heads = _heads(of, each)
        w = _scores(_grouped(q[at, heads, rows] * scale, each), k[at, of, None, keys], how, (at, heads, rows, keys))
        logs = np.empty((*w.shape[:-2], 1, w.shape[-1]), w.dtype)
        weigh(*_band(how, rows, keys), _flat(logs), _flat(w))
        saved[number] = w if keep else logs
        if dropout:
            w = w * dropped(w.shape, dropout, seed, number, w.dtype)
        np.matmul(w.swapaxes(-1, -2), v[at, of, None, keys], out=_grouped(out[at, heads, rows], each))

    _each(look, chunks, b * h * t * widest)
    return out, (chunks, widest, keep, saved)


def attend_back(g, q, k, v, how, scale, dropout, seed, saved, out):
    """(dq, dk, dv) or (dq, dk, dv, dbias).

    With w the weights and a_ij = g_i . v_j:  dv = w^T g;  dscores = w * (a - sum_j w_ij a_ij), and that sum is g_i . out_i;
    dq = dscores k scale;  dk = dscores^T q scale. With dropout, w^T g and a_ij have only what was left of w.
    """
    (b, h, t, d), (_, groups, s, e) = q.shape, v.shape
    scale = q.dtype.type(1 / math.sqrt(d) if scale is None else scale)
    dq = _like(b, h, t, d, q.dtype)
    chunks, widest, keep, kept = saved
    alone = len(chunks[0]) == 1 and widest == s if chunks else False  # the blocks of queries share no keys
    dk, dv = (_like(b, groups, s, width, q.dtype, np.empty if alone else np.zeros) for width in (d, e))
    dbias = None if how[0] is None else np.zeros(how[0].shape, how[0].dtype)
    each = h // groups

    def add(total, at, of, keys, part):
        if alone:
            total[at, of] = part
        else:
            total[at, of, keys] += part

    def look_back(number, at, of, rows, keys):
        place = (at, _heads(of, each), rows, keys)
        qs, gs = _grouped(q[place[:3]] * scale, each), _grouped(g[place[:3]], each)
        ks, vs = k[at, of, None, keys], v[at, of, None, keys]
        w = kept[number]
        if not keep:
            logs, w = w, _scores(qs, ks, how, place)
            weigh_again(*_band(how, rows, keys), _flat(logs), _flat(w))
        left = dropped(w.shape, dropout, seed, number, w.dtype) if dropout else None
        add(dv, at, of, keys, _over_group(np.matmul(w if left is None else w * left, gs)))
        ds = np.matmul(vs, gs.swapaxes(-1, -2), order="C")
        if left is not None:
            ds *= left
        slope(_flat(np.vecdot(gs, _grouped(out[place[:3]], each))[..., None, :]), _flat(w), _flat(ds))
        if dbias is not None:
            _add_part(dbias, ds.reshape(ds.shape[0], ds.shape[1] * each, *ds.shape[-2:]).swapaxes(-1, -2), place)
        add(dk, at, of, keys, _over_group(np.matmul(ds, qs)))
        dqs = np.matmul(ds.swapaxes(-1, -2), ks, out=_grouped(dq[place[:3]], each))
        dqs *= scale

    _each(look_back, chunks, b * h * t * widest if dbias is None else 0)  # a bias may serve all chunks: they add to it in turn
    return (dq, dk, dv) if dbias is None else (dq, dk, dv, dbias)


def dropped(shape, p, seed, number, dtype):
    """What dropout multiplies the weights of block `number` by: 0 or 1 / (1 - p). Drawn again in backward rather than kept."""
    drawn = np.random.default_rng((seed, number)).random(shape, dtype=np.float32)
    return (drawn >= p) * dtype.type(1 / (1 - p) if p < 1 else 0)


def dropped_everywhere(b, h, groups, t, s, band, block, p, seed, dtype):
    """(B, H, T, S)   the same for all blocks at once: what the composed twin uses."""
    whole, each = np.zeros((b, h, t, s), dtype), h // groups
    for number, at, of, rows, keys in chain(*_chunks(b, h, groups, t, s, band, block)[0]):
        shape = (at.stop - at.start, of.stop - of.start, each, keys.stop - keys.start, rows.stop - rows.start)
        part = dropped(shape, p, seed, number, whole.dtype)
        whole[at, _heads(of, each), rows, keys] = part.reshape(shape[0], shape[1] * each, *shape[3:]).swapaxes(-1, -2)
    return whole


Block = tuple[int, slice, slice, slice, slice]  # its number, batch entries, key and value heads, queries, keys


@lru_cache(256)
def _chunks(b, h, groups, t, s, band, block) -> tuple[list[list[Block]], int]:
    """Chunks of batch entries, or of heads where one entry is large: for each its blocks, and which keys these may look at.

    And the largest number of keys in a block. band: (since, causal) of `fused.attention`.
    """
    block = block or BLOCK
    parts = [(slice(i, min(i + block, t)), _keys(i, min(i + block, t), s, *band)) for i in range(0, t, block)]
    widest = max((keys.stop - keys.start for _, keys in parts), default=0)
    fit = CHUNK // max(1, h // max(groups, 1) * min(block, t) * widest)  # key and value heads whose blocks are one chunk
    entries, heads = max(1, fit // max(groups, 1)), min(max(1, fit), max(groups, 1))
    places = [(slice(i, min(i + entries, b)), slice(j, min(j + heads, groups)))
              for i in range(0, b, entries) for j in range(0, groups, heads)]  # fmt: skip
    return [[(n * len(parts) + i, at, of, *part) for i, part in enumerate(parts)] for n, (at, of) in enumerate(places)], widest


def _heads(of, each) -> slice:
    """The query heads that read from these heads of keys and values."""
    return slice(of.start * each, of.stop * each)


def _keys(first, stop, s, since, causal) -> slice:
    """Those of s keys that at least one of the queries first ... stop - 1 may look at."""
    end = s if causal is None else min(max(stop + causal, 0), s)
    return slice(0 if since is None else min(max(first + since, 0), end), end)


def _each(work, chunks, scores):
    """Call work on every block. A chunk stays on one thread: its blocks add to the same gradients, always in the same order."""

    def part(chunks):
        for block in chain(*chunks):
            work(*block)

    in_parts(part, chunks, numbers=scores)


def _scores(q, k, how, place):
    """(b, G, R, n, D) scaled, (b, G, 1, keys, D) -> (b, G, R, keys, n)   -inf where a mask hides a key"""
    bias, added, mask, *_ = how
    s = np.matmul(k, q.swapaxes(-1, -2), order="C")  # else it may take q's order of axes, and `flat` be a copy
    flat = s.reshape(s.shape[0], s.shape[1] * s.shape[2], *s.shape[-2:])  # (b, H, keys, n)
    for numbers in (bias, added):
        if numbers is not None:
            flat += np.ascontiguousarray(_part(numbers, place).swapaxes(-1, -2))
    if mask is not None:
        np.copyto(flat, -np.inf, where=~_part(mask, place).swapaxes(-1, -2))
    return s


def _band(how, rows, keys):
    """(lowest, highest): query i of the block may look at its key j if lowest <= j - i <= highest."""
    since, causal = how[3:]
    off = rows.start - keys.start
    return -ALL if since is None else since + off, ALL if causal is None else causal + off


def _flat(w):
    """(..., keys, n) -> (m, keys, n)   the same memory, which is written to"""
    return w.reshape(math.prod(w.shape[:-2]), *w.shape[-2:])


@fast
def weigh(lowest, highest, logs, w):
    """Scores w (m, keys, n) become weights; logs (m, 1, n): the logarithm of the sum that divided them. 0 outside the band."""
    _hide(lowest, highest, w)
    n = w.shape[1]
    top = np.maximum.reduce(w, axis=1, keepdims=True) if n else np.zeros_like(logs)
    np.copyto(top, 0, where=top == -np.inf)  # a query that may look nowhere
    w -= top
    np.exp(w, out=w)
    total = ones(n, w.dtype)[None] @ w
    np.maximum(total, 1, out=total)  # the largest adds 1; of a query that may look nowhere all add 0
    w /= total
    np.add(top, np.log(total), out=logs)


@fast
def weigh_again(lowest, highest, logs, w):
    """The same weights, from the scores and the logarithms."""
    _hide(lowest, highest, w)
    w -= logs
    np.exp(w, out=w)


@fast
def slope(along, w, ds):
    """ds (m, keys, n), g_i . v_j, becomes the slope of the scores; along (m, 1, n): g_i . out_i."""
    ds -= along
    ds *= w


@lru_cache(64)
def ones(n, dtype):
    """(n,)   that add up what they are multiplied by; not to be written to"""
    return np.ones(n, dtype)


def _hide(lowest, highest, w):
    """-inf in w (..., keys, n) outside the band; only the keys that some query does not see are touched."""
    keys, n = w.shape[-2:]
    if highest < keys - 1:
        first = max(highest + 1, 0)  # the first key that query 0 may not look at
        rows = w[..., first:, :]
        np.minimum(rows, _hidden(keys - first, n, highest + 1 - first, w.dtype, True), out=rows)
    if lowest > 1 - n:
        end = min(n - 1 + lowest, keys)  # from here on the last query may look, and so may all
        rows = w[..., :end, :]
        np.minimum(rows, _hidden(end, n, lowest, w.dtype, False), out=rows)


@lru_cache(256)
def _hidden(keys, queries, first, dtype, behind):
    """(keys, queries)   the most that scores may be, inf or -inf: of query i, the keys from first + i on are hidden if
    `behind`, else those before"""
    before = np.tri(queries, keys, first - 1, dtype=bool)
    return np.where(before if behind else ~before, dtype.type(np.inf), dtype.type(-np.inf)).T.copy()


def _part(full, place):
    """The part at (batch entries, heads, queries, keys) of something that broadcasts to (B, H, T, S)."""
    full = full.reshape((1,) * (4 - full.ndim) + full.shape)
    return full[tuple([part if size > 1 else slice(None) for part, size in zip(place, full.shape, strict=True)])]


def _add_part(dbias, ds, place):
    """Add a block's gradient to the bias it came from, summed over the axes along which the bias was broadcast."""
    view = dbias.reshape((1,) * (4 - dbias.ndim) + dbias.shape)
    for axis in range(4):
        if view.shape[axis] == 1 and ds.shape[axis] != 1:
            ds = ds.sum(axis=axis, keepdims=True)
    _part(view, place)[...] += ds


def _grouped(x, each):
    """(B, H, T, D) -> (B, G, H / G, T, D)"""
    b, h, t, d = x.shape
    return x.reshape(b, h // each, each, t, d)


def _over_group(x):
    """(B, G, R, S, D) -> (B, G, S, D)   the sum over the queries' heads that share one head of keys and values"""
    return x[:, :, 0] if x.shape[2] == 1 else x.sum(axis=2)


def _like(b, h, t, e, dtype, make=np.empty):
    """An array (B, H, T, E) laid out as (B, T, H, E), so that joining the heads afterwards copies nothing."""
    return make((b, t, h, e), dtype).transpose(0, 2, 1, 3)
