"""Fused ops: one NumPy function each for what a model does most, with its derivation and its composed twin.

The twin says what the op means, in primitives; the op says it fast. `composed()` runs a model on the twins, and a test
compares value and gradients of every pair. Arrays made inside a function are its own, so these write in place and use `out=`.
"""

from __future__ import annotations

import math
from functools import cache, partial

import numpy as np

from . import ops
from .attention import attend, attend_back, dropped_everywhere, ones
from .engine import op, plain
from .kernels import fast
from .ops import axes, getitem, matmul, permute, reshape
from .threads import in_parts, worth

# ------------------------------------------------------------------------------------------------ linear


@op(alike=True)
def linear(x, w, *bias):
    """(..., in), (out, in), (out,) -> (..., out)   y = x @ w^T + bias

    dx = g @ w;  dw = g^T @ x, summed over all rows;  dbias = g, summed over all rows.
    """
    shape, lead = x.shape, x.shape[:-1]
    count = math.prod(lead)
    rows = ops.dense(x.reshape(count, shape[-1]))
    y = _product(rows, w.T)
    if bias:
        y += bias[0]
    n_out = w.shape[0]

    def flat(g):
        return ops.dense(g.reshape(count, n_out))

    rules = (lambda g: _product(flat(g), w).reshape(shape), lambda g: _product(flat(g).T, rows))
    return y.reshape(*lead, n_out), (*rules, lambda g: _over_rows(g)) if bias else rules


@linear.reference
def _(x, w, *bias):
    y = matmul(x, np.swapaxes(w, 0, 1))
    return y + bias[0] if bias else y


AT_ONCE = 128  # multiplications of a product in the time in which a whole elementwise op goes through one number


def _product(a, b):
    """(m, k), (k, n) -> (m, n)   a @ b, some rows on each thread if it is large"""
    numbers = a.size * b.shape[1] // AT_ONCE
    if not worth(len(a), numbers):
        return a.dot(b)
    y = np.empty((len(a), b.shape[1]), a.dtype)
    in_parts(lambda a, y: np.matmul(a, b, out=y), a, y, numbers=numbers)
    return y


@op
def embedding(weight, *, ids):
    """(V, d), ids (...) -> (..., d)   row ids[i] of the table

    dweight: each row sums the gradients of the places that read it. With few rows that is a product with the one-hot matrix,
    otherwise the places are sorted by row and added up in runs; NumPy's add.at is many times slower.
    """
    shape = weight.shape

    def rule(g):
        flat, rows = ids.reshape(-1), g.reshape(-1, shape[1])
        if shape[0] <= 512:
            one_hot = np.zeros((shape[0], flat.size), dtype=g.dtype)
            one_hot[flat, np.arange(flat.size)] = 1
            return _product(one_hot, rows)
        out = np.zeros(shape, dtype=g.dtype)
        if flat.size:
            order = np.argsort(flat, kind="stable")
            starts = np.flatnonzero(np.diff(flat[order], prepend=-1))
            out[flat[order][starts]] = np.add.reduceat(rows[order], starts)
        return out

    return weight[ids], (rule,)


@embedding.reference
def _(weight, *, ids):
    return getitem(weight, index=ids)


# ------------------------------------------------------------------------------------------------ softmax and the loss


@op
def softmax(x, *, dim):
    """(...) -> (...)   y = e ** x / sum e ** x along dim; a row that is all -inf gives zeros

    dx = y * (g - sum(g * y)).
    """
    (dim,) = axes(dim, x.ndim)
    y = x - _top(x, dim)
    np.exp(y, out=y)
    total = y.sum(axis=dim, keepdims=True)
    y /= np.where(total == 0, 1, total)

    def rule(g):
        gy = g * y
        gy -= y * gy.sum(axis=dim, keepdims=True)
        return gy

    return y, (rule,)


def _top(x, dim):
    """The largest along dim, as what can be subtracted safely: 0 where every entry is -inf."""
    top = np.maximum.reduce(x, axis=dim, keepdims=True) if x.shape[dim] else np.zeros(1, dtype=x.dtype)
    return np.where(top == -np.inf, 0, top)


@softmax.reference
def _(x, *, dim):
    e = ops.exp(x - _top(plain(x), dim))
    total = ops.sum(e, dim=dim, keepdim=True)
    return e / ops.where(1, total, condition=plain(total) == 0)


@op
def log_softmax(x, *, dim):
    """(...) -> (...)   y = x - ln sum e ** x along dim

    dx = g - e ** y * sum(g).
    """
    (dim,) = axes(dim, x.ndim)
    y = x - _top(x, dim)
    with np.errstate(divide="ignore"):  # ln 0 where the axis is empty
        y -= np.log(np.exp(y).sum(axis=dim, keepdims=True))
    return y, (lambda g: g - np.exp(y) * g.sum(axis=dim, keepdims=True),)


@log_softmax.reference
def _(x, *, dim):
    x = x - _top(plain(x), dim)  # not x - logsumexp(x), whose last digits are those of the largest x
    return x - ops.logsumexp(x, dim=dim, keepdim=True)


@op
def cross_entropy(logits, *, target, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """logits (N, V), target ids (N,) -> () or (N,)   y_i = -log_softmax(logits_i)[target_i]

    `mean` divides by the targets that are kept, those that are not ignore_index; with none kept the loss is 0.
    Label smoothing s puts 1 - s on the target and spreads s evenly over all V.
    dlogits = (softmax - wanted) * g on kept rows, 0 on the others.
    """
    kept = target != ignore_index
    number = np.count_nonzero(kept)
    whole = number == len(kept)
    safe = target if whole else np.where(kept, target, 0)
    p, total, loss = np.empty(logits.shape, logits.dtype), *np.empty((2, len(logits)), logits.dtype)
    cross_entropy_value(label_smoothing, safe, logits, p, total, loss)
    if not whole:
        loss[~kept] = 0
    count = max(number, 1) if reduction == "mean" else 1

    def rule(g):
        scale = np.where(kept, g / count, 0).astype(p.dtype, copy=False)
        d = np.empty_like(p)
        cross_entropy_slope(label_smoothing, safe, scale, p, total, d)
        return d

    return loss if reduction == "none" else loss.sum() / np.asarray(count, loss.dtype), (rule,)


@fast
def cross_entropy_value(smoothing, target, logits, p, total, losses):
    """p (N, V): e ** (logits - the largest); total (N,): its sums; losses (N,)"""
    np.subtract(logits, _top(logits, 1), out=p)
    picked = (1 - smoothing) * p[np.arange(len(p)), target]
    if smoothing:
        picked += smoothing * p.mean(axis=1)
    np.exp(p, out=p)
    np.matmul(p, ones(p.shape[1], p.dtype), out=total)
    np.subtract(np.log(total), picked, out=losses)


@fast
def cross_entropy_slope(smoothing, target, scale, p, total, d):
    """d (N, V): scale * (softmax - wanted), scale (N,) the gradient of each loss"""
    np.multiply(p, (scale / total)[:, None], out=d)
    d[np.arange(len(d)), target] -= (1 - smoothing) * scale
    if smoothing:
        d -= (smoothing / p.shape[1]) * scale[:, None]


@cross_entropy.reference
def _(logits, *, target, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    kept = target != ignore_index
    logp = log_softmax(logits, dim=1)
    picked = getitem(logp, index=(np.arange(len(target)), np.where(kept, target, 0)))
    loss = picked * (label_smoothing - 1)
    if label_smoothing:
        loss = loss - ops.sum(logp, dim=1) * (label_smoothing / logits.shape[1])
    loss = ops.where(loss, 0, condition=kept)
    return loss if reduction == "none" else ops.sum(loss) / (max(int(kept.sum()), 1) if reduction == "mean" else 1)


# ------------------------------------------------------------------------------------------------ norms


@op(alike=True)
def layer_norm(x, *affine, eps=1e-5):
    """(..., d), gain (d,), shift (d,) -> (..., d)   y = gain * (x - mean) / sqrt(var + eps) + shift, over the last axis

    With n the normalised row and h = g * gain: dx = (h - mean(h) - n * mean(h * n)) / sqrt(var + eps);
    dgain = sum(g * n);  dshift = sum(g). The variance divides by d.
    """
    shape, d, gain, shift = x.shape, x.shape[-1], affine[:1], affine[1:]
    _of_width(d, *affine)
    n = np.empty((x.size // d if d else 0, d), x.dtype)
    r, y = np.empty((len(n), 1), x.dtype), np.empty_like(n) if affine else n

    def rule(g):
        g, h = g.reshape(n.shape), np.empty_like(n)
        in_parts(partial(layer_norm_slope, *gain or (None,)), g, n, r, h, numbers=n.size)
        return h.reshape(shape), *[_over_rows(g, n) for _ in gain], *[_over_rows(g) for _ in shift]

    in_parts(partial(layer_norm_value, eps, *(*affine, None, None)[:2]), x.reshape(n.shape), n, r, y, numbers=n.size)
    return y.reshape(shape), rule


@fast
def layer_norm_value(eps, gain, shift, x, n, r, y):
    np.subtract(x, _mean(x), out=n)
    n -= _mean(n)  # what rounding left of the mean; in a row of equal numbers there is nothing else
    np.divide(1, np.sqrt(_mean(n, n) + eps), out=r)
    n *= r
    if gain is not None:
        np.multiply(n, gain, out=y)
    if shift is not None:
        y += shift


@fast
def layer_norm_slope(gain, g, n, r, h):
    np.multiply(g, 1 if gain is None else gain, out=h)
    along = _mean(h, n)
    h -= _mean(h)
    h -= n * along
    h *= r


@layer_norm.reference
def _(x, *affine, eps=1e-5):
    off = x - ops.sum(x, dim=-1, keepdim=True) / x.shape[-1]
    n = off / ops.sqrt(ops.sum(off * off, dim=-1, keepdim=True) / x.shape[-1] + eps)
    n = n * affine[0] if affine else n
    return n + affine[1] if len(affine) > 1 else n


@op
def rms_norm(x, *gain, eps=1e-6):
    """(..., d), gain (d,) -> (..., d)   y = gain * x / sqrt(mean(x^2) + eps), over the last axis

    With n the normalised row and h = g * gain: dx = (h - n * mean(h * n)) / sqrt(mean(x^2) + eps);  dgain = sum(g * n).
    """
    shape, d = x.shape, x.shape[-1]
    _of_width(d, *gain)
    n = np.empty((x.size // d if d else 0, d), x.dtype)
    r, y = np.empty((len(n), 1), x.dtype), np.empty_like(n) if gain else n

    def rule(g):
        g, h = g.reshape(n.shape), np.empty_like(n)
        in_parts(partial(rms_norm_slope, *gain or (None,)), g, n, r, h, numbers=n.size)
        return h.reshape(shape), *[_over_rows(g, n) for _ in gain]

    in_parts(partial(rms_norm_value, eps, *gain or (None,)), x.reshape(n.shape), n, r, y, numbers=n.size)
    return y.reshape(shape), rule


@fast
def rms_norm_value(eps, gain, x, n, r, y):
    np.divide(1, np.sqrt(_mean(x, x) + eps), out=r)
    np.multiply(x, r, out=n)
    if gain is not None:
        np.multiply(n, gain, out=y)


@fast
def rms_norm_slope(gain, g, n, r, h):
    np.multiply(g, 1 if gain is None else gain, out=h)
    h -= n * _mean(h, n)
    h *= r


@rms_norm.reference
def _(x, *gain, eps=1e-6):
    n = x / ops.sqrt(ops.sum(x * x, dim=-1, keepdim=True) / x.shape[-1] + eps)
    return n * gain[0] if gain else n


def _of_width(d, *vectors):
    for vector in vectors:
        if vector.shape != (d,):
            raise ValueError(f"a gain or shift of shape {vector.shape} does not fit rows of {d}")


def _mean(a, b=None):
    """(n, d) -> (n, 1)   the mean of a * b (or of a) in each row; as products of matrices, which beat NumPy's mean"""
    if b is None:
        return a.dot(_even(a.shape[-1], a.dtype))
    return (np.vecdot(a, b) / a.shape[-1])[..., None]


@cache
def _even(d, dtype):
    """(d, 1)   the weights of a mean"""
    return np.full((d, 1), 1 / max(d, 1), dtype)


SMALL = 1 << 15  # numbers that are multiplied apart from adding up: einsum needs longer to begin
ROWS = 1 << 12  # rows that are added up at once


def _over_rows(a, b=None):
    """(..., d) -> (d,)   the sum of a * b (or of a) over all rows; a thread takes some of the columns, so that no sum is cut"""
    a = a.reshape(-1, a.shape[-1])
    if len(a) > ROWS:  # in halves: one long sum in float32 loses digits with every row
        half = len(a) // 2
        b = (None, None) if b is None else (b.reshape(a.shape)[:half], b.reshape(a.shape)[half:])
        return _over_rows(a[:half], b[0]) + _over_rows(a[half:], b[1])
    total = np.empty(a.shape[1], a.dtype)
    if b is None:
        in_parts(lambda a, total: np.matmul(a, ones(a.shape[1], a.dtype), out=total), a.T, total, numbers=a.size)
    else:
        products_over_rows(a, b.reshape(a.shape), total)
    return total


@fast
def products_over_rows(a, b, total):
    if a.size < SMALL:
        np.matmul(ones(len(a), a.dtype), a * b, out=total)
    else:
        in_parts(lambda a, b, total: np.einsum("dn,dn->d", a, b, out=total), a.T, b.T, total, numbers=a.size)


# ------------------------------------------------------------------------------------------------ positions and attention


@op
def rotary(x, *, cos, sin, interleaved=False):
    """(..., T, D), angles (T, D / 2) -> (..., T, D)   each pair of numbers turned by its position's angle (Su et al. 2021)

    (a, b) -> (a cos - b sin, a sin + b cos). The pairs are (x_i, x_{i + D/2}), or neighbours if interleaved.
    Backward turns g by the opposite angle.
    """

    cos, sin = np.asarray(cos, x.dtype), np.asarray(sin, x.dtype)

    def turned(x, sin):
        if not cos.shape == sin.shape == (x.shape[-2], x.shape[-1] // 2):
            raise ValueError(f"angles of shape {cos.shape} do not fit pairs of {x.shape}")
        if x.ndim == 4 and x.swapaxes(1, 2).flags.c_contiguous:  # heads split off a row: (B, T, H, D) in memory
            y = np.empty_like(x)
            turn(interleaved, cos, sin, x.swapaxes(1, 2), y.swapaxes(1, 2))
            return y
        rows = (x.size // max(math.prod(x.shape[-2:]), 1), x.shape[-2], 1, x.shape[-1])
        y = np.empty(rows, x.dtype)
        turn(interleaved, cos, sin, np.ascontiguousarray(x).reshape(rows), y)
        return y.reshape(x.shape)

    return turned(x, sin), (lambda g: turned(g, -sin),)


@fast
def turn(interleaved, cos, sin, x, y):
    """x (N, T, H, D) turned by angles (T, D / 2), written to y"""
    join = _interleave if interleaved else _side_by_side
    cos, sin = join(cos, cos)[:, None], join(-sin, sin)[:, None]
    np.multiply(x, cos, out=y)
    other = np.empty_like(x)
    (a, b), (other_a, other_b) = _pairs(x, interleaved), _pairs(other, interleaved)
    other_a[...], other_b[...] = b, a
    other *= sin
    y += other


def _pairs(x, interleaved):
    half = x.shape[-1] // 2
    return (x[..., 0::2], x[..., 1::2]) if interleaved else (x[..., :half], x[..., half:])


def _side_by_side(a, b):
    return np.concatenate([a, b], axis=-1)


def _interleave(a, b):
    return np.stack([a, b], axis=-1).reshape(*a.shape[:-1], 2 * a.shape[-1])


@rotary.reference
def _(x, *, cos, sin, interleaved=False):
    half = x.shape[-1] // 2
    places = (slice(0, None, 2), slice(1, None, 2)) if interleaved else (slice(0, half), slice(half, None))
    a, b = (getitem(x, index=(..., place)) for place in places)
    first, second = a * cos - b * sin, a * sin + b * cos
    if not interleaved:
        return ops.cat(first, second, dim=-1)
    pairs = [reshape(part, shape=(*part.shape, 1)) for part in (first, second)]
    return reshape(ops.cat(*pairs, dim=-1), shape=x.shape)


@op(view=True)
def split_heads(x, *, heads):
    """(B, T, H D) -> (B, H, T, D)   each head gets its slice of the width; nothing is copied"""
    b, t, width = x.shape
    return x.reshape(b, t, heads, width // heads).swapaxes(1, 2), (lambda g: g.swapaxes(1, 2).reshape(b, t, width),)


@split_heads.reference
def _(x, *, heads):
    b, t, width = x.shape
    return permute(reshape(x, shape=(b, t, heads, width // heads)), dims=(0, 2, 1, 3))


@op(view=True)
def join_heads(x):
    """(B, H, T, D) -> (B, T, H D)   the heads side by side again"""
    b, heads, t, width = x.shape
    return x.swapaxes(1, 2).reshape(b, t, heads * width), (lambda g: g.reshape(b, t, heads, width).swapaxes(1, 2),)


@join_heads.reference
def _(x):
    b, heads, t, width = x.shape
    return reshape(permute(x, dims=(0, 2, 1, 3)), shape=(b, t, heads * width))


@op(alike=True)
def attention(q, k, v, *bias, added=None, mask=None, since=None, causal=None, scale=None, block=None, dropout=0.0, seed=0):
    """(B, H, T, D), (B, G, S, D), (B, G, S, E), bias (..., T, S) -> (B, H, T, E)   softmax(q k^T scale + bias) v

    H is a multiple of G: each key and value head serves H / G query heads. scale defaults to 1 / sqrt(D).
    `added`: a bias that gets no gradient. `mask`: true where a query may look; both broadcastable to (B, H, T, S).
    `causal=o`: query i looks at keys up to i + o only; `since=o`: from i + o on. A query that may look nowhere gives zeros and
    sends none back. `dropout` zeroes weights with that probability and scales the others, drawn from `seed`. `attention.py`
    works in blocks of `block` queries and does not touch the keys that none of them looks at.
    """
    shape = (*q.shape[:3], k.shape[2])
    for extra in (*bias, *(x for x in (added, mask) if x is not None)):
        if np.broadcast_shapes(extra.shape, shape) != shape:
            raise ValueError(f"a mask or bias of shape {extra.shape} does not fit scores of shape {shape}")
    how = (bias[0] if bias else None, added, mask, since, causal)
    out, saved = attend(q, k, v, how, scale, block, dropout, seed)
    return out, (lambda g: attend_back(g, q, k, v, how, scale, dropout, seed, saved, out))


@attention.reference
def _(q, k, v, *bias, added=None, mask=None, since=None, causal=None, scale=None, block=None, dropout=0.0, seed=0):
    (b, h, t, d), (_, groups, s, _) = q.shape, k.shape
    q = reshape(q, shape=(b, groups, h // groups, t, d))
    k, v = (reshape(x, shape=(b, groups, 1, s, x.shape[-1])) for x in (k, v))
    scores = matmul(q, np.swapaxes(k, -1, -2)) * (1 / math.sqrt(d) if scale is None else scale)
    scores = reshape(scores, shape=(b, h, t, s))
    for numbers in (*bias, *(() if added is None else (added,))):
        scores = scores + numbers
    allowed = np.ones((t, s), dtype=bool) if causal is None else np.tri(t, s, causal, dtype=bool)
    allowed = allowed if since is None else allowed & ~np.tri(t, s, since - 1, dtype=bool)
    allowed = allowed if mask is None else allowed & mask
    weights = softmax(ops.where(scores, -np.inf, condition=allowed), dim=-1)
    if dropout:
        weights = weights * dropped_everywhere(b, h, groups, t, s, (since, causal), block, dropout, seed, scores.dtype)
    weights = reshape(weights, shape=(b, groups, h // groups, t, s))
    return reshape(matmul(weights, v), shape=(b, h, t, v.shape[-1]))
