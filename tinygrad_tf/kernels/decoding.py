"""One token through a whole decoder, as plain loops: what `tinygrad_tf/decoding.py` does in NumPy.

`decode` is the transformer from the token to the logits. Weights and cache are the model's own arrays, read where they lie: to
hand over each by itself would take as long as half of the arithmetic, so `decode` gets a table of where they begin. What a
model does not have has no rows there, and one compiled loop serves all models; `tinygrad_tf/steps.py` makes the table, and says
which models those are.

At one position there is no product of matrices: each row of a weight is read once and meets one vector for each text. Reading
the weights is most of the time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, types
from numba.extending import intrinsic

from .activations import CUBE, LIMIT, SCALE
from .loops import ONE, ZERO, F, exp, inverse_root, kernel, normal_below, number, sigmoid

NONE, LAYER, RMS = range(3)  # norms
RELU, RELU2, GELU, GELU_TANH, SILU, SWIGLU, GEGLU = range(7)
KINDS = {"relu": RELU, "relu2": RELU2, "gelu": GELU, "gelu_tanh": GELU_TANH, "silu": SILU, "swiglu": SWIGLU, "geglu": GEGLU}
NO_VECTOR = np.empty(0, np.float32)

# The columns of the table of arrays: a row for each layer ...
(ATTN_GAIN, ATTN_SHIFT, Q, Q_BIAS, K, K_BIAS, V, V_BIAS, OUT, OUT_BIAS, ATTN_SCALE,
 FFN_GAIN, FFN_SHIFT, GATE, GATE_BIAS, UP, UP_BIAS, DOWN, DOWN_BIAS, FFN_SCALE, ARRAYS) = range(21)  # fmt: skip
TOKENS, PLACES, LAST_GAIN, LAST_SHIFT, HEAD, HEAD_BIAS = range(6)  # ... and one for what stands around them
# The columns of the table of numbers, in the same rows
ATTN_NORM, ATTN_EPS, FFN_NORM, FFN_EPS, QK_NORM, QK_EPS, KIND, INTERLEAVED, NUMBERS = range(9)
LAST_NORM, LAST_EPS, EMBEDDING_SCALE = range(3)


def _pointer(context, address):
    """A whole number as the place in memory that it is the number of."""
    turn = lambda target, builder, signature, args: builder.inttoptr(args[0], target.get_value_type(types.voidptr))
    return types.voidptr(address), turn


pointer: Any = intrinsic(_pointer)


@kernel
def matrix(place):
    """(where it begins, rows, columns) -> (rows, columns)"""
    return carray(pointer(place[0]), (place[1], place[2]), np.float32)


@kernel
def vector(place):
    return carray(pointer(place[0]), (place[1],), np.float32)


@kernel
def decode(arrays, numbers, caches, shape, cos, sin, ids, first, at):
    """ids (B,), each at position `at` of its text -> logits (B, V)

    arrays (layers + 1, ARRAYS, 3): where each begins, its rows and columns; numbers (layers + 1, NUMBERS); caches (layers, 2):
    where keys and values (B, G, S, D) = shape begin, of which rows before `at` are those of earlier tokens, and row `at` is
    written here; cos, sin (D / 2,): how far this position is turned, or (0,); first (B,): the place of a text's first token.
    """
    layers = len(arrays) - 1
    around, settings = arrays[layers], numbers[layers]
    x = embed(matrix(around[TOKENS]), settings[EMBEDDING_SCALE], matrix(around[PLACES]), ids, at - first)
    for i in range(layers):
        keys = carray(pointer(caches[i, 0]), shape, np.float32)
        values = carray(pointer(caches[i, 1]), shape, np.float32)
        attention(arrays[i], numbers[i], cos, sin, first, at, keys, values, x)
        feed_forward(arrays[i], numbers[i], x)
    read, logits = np.empty_like(x), np.empty((len(x), around[HEAD, 1]), np.float32)
    norm(settings[LAST_NORM], settings[LAST_EPS], vector(around[LAST_GAIN]), vector(around[LAST_SHIFT]), x, read)
    linear(matrix(around[HEAD]), vector(around[HEAD_BIAS]), read, logits)
    return logits


@kernel
def embed(tokens, scale, places, ids, standing):
    """ids (B,) -> the stream (B, d): rows of `tokens` times `scale`, and of `places` (size, d) if positions are added"""
    x = np.empty((ids.size, tokens.shape[1]), np.float32)
    for b in range(ids.size):
        for i in range(x.shape[1]):
            x[b, i] = tokens[ids[b], i] * F(scale)
        if places.size:
            for i in range(x.shape[1]):
                x[b, i] += places[standing[b], i]
    return x


@kernel
def attention(a, c, cos, sin, first, at, keys, values, x):
    """x (B, d) += what attention reads at this position and before, from `first` on; a, c: the layer's arrays and numbers"""
    batch, groups, _, size = keys.shape
    heads = a[Q, 1] // size
    read, update = np.empty_like(x), np.empty_like(x)
    q, mixed = np.empty((batch, heads * size), np.float32), np.empty((batch, heads * size), np.float32)
    k, v = np.empty((batch, groups * size), np.float32), np.empty((batch, groups * size), np.float32)
    norm(c[ATTN_NORM], c[ATTN_EPS], vector(a[ATTN_GAIN]), vector(a[ATTN_SHIFT]), x, read)
    linear(matrix(a[Q]), vector(a[Q_BIAS]), read, q)
    linear(matrix(a[K]), vector(a[K_BIAS]), read, k)
    linear(matrix(a[V]), vector(a[V_BIAS]), read, v)
    for each in (q.reshape(batch * heads, size), k.reshape(batch * groups, size)):
        norm(c[QK_NORM], c[QK_EPS], NO_VECTOR, NO_VECTOR, each, each)
        turn(c[INTERLEAVED], cos, sin, each)
    for b in range(batch):
        for g in range(groups):
            for i in range(size):
                keys[b, g, at, i] = k[b, g * size + i]
                values[b, g, at, i] = v[b, g * size + i]
        for h in range(heads):
            g, part = h // (heads // groups), slice(h * size, (h + 1) * size)
            attend(q[b, part], keys[b, g, first[b] : at + 1], values[b, g, first[b] : at + 1], mixed[b, part])
    linear(matrix(a[OUT]), vector(a[OUT_BIAS]), mixed, update)
    add(vector(a[ATTN_SCALE]), update, x)


@kernel
def feed_forward(a, c, x):
    """x (B, d) += what the feed-forward network makes of it"""
    read, update = np.empty_like(x), np.empty_like(x)
    gate, hidden = np.empty((len(x), a[GATE, 1]), np.float32), np.empty((len(x), a[UP, 1]), np.float32)
    norm(c[FFN_NORM], c[FFN_EPS], vector(a[FFN_GAIN]), vector(a[FFN_SHIFT]), x, read)
    linear(matrix(a[UP]), vector(a[UP_BIAS]), read, hidden)
    linear(matrix(a[GATE]), vector(a[GATE_BIAS]), read, gate)
    activate(c[KIND], gate.reshape(gate.size), hidden.reshape(hidden.size))
    linear(matrix(a[DOWN]), vector(a[DOWN_BIAS]), hidden, update)
    add(vector(a[FFN_SCALE]), update, x)


@kernel
def dot(a, b):
    total = ZERO
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@kernel
def linear(weight, bias, x, y):
    """x (B, in) -> y (B, out)"""
    for o in range(weight.shape[0]):
        start = bias[o] if bias.size else ZERO
        for b in range(x.shape[0]):
            y[b, o] = start + dot(weight[o], x[b])


@kernel
def norm(kind, eps, gain, shift, x, y):
    """x (n, d) -> y (n, d), which may be x"""
    rows, d = x.shape
    for r in range(rows):
        row, out, mean, scale = x[r], y[r], ZERO, ONE
        if kind == LAYER:
            for i in range(d):
                mean += row[i]
            mean /= F(d)
        if kind != NONE:
            square = ZERO
            for i in range(d):
                square += (row[i] - mean) * (row[i] - mean)
            scale = inverse_root(square / F(d) + F(eps))
        for i in range(d):
            out[i] = (row[i] - mean) * scale
        if gain.size:
            for i in range(d):
                out[i] *= gain[i]
        if shift.size:
            for i in range(d):
                out[i] += shift[i]


@kernel
def turn(interleaved, cos, sin, x):
    """Queries or keys (n, D), turned in place"""
    step = 1 if interleaved else cos.size  # from one number of a pair to the other
    for r in range(x.shape[0]):
        for i in range(cos.size):
            j = 2 * i if interleaved else i
            a, b = x[r, j], x[r, j + step]
            x[r, j] = a * cos[i] - b * sin[i]
            x[r, j + step] = a * sin[i] + b * cos[i]


@kernel
def attend(q, keys, values, y):
    """One head: q (D,) asks, keys and values (S, D) answer, y (D,) is the mixture: softmax(q keys^T / sqrt(D)) values"""
    n = keys.shape[0]
    scale, top, total = ONE / np.sqrt(F(q.size)), F(-np.inf), ZERO
    w = np.empty(n, np.float32)
    for s in range(n):
        w[s] = dot(q, keys[s]) * scale
        top = w[s] if w[s] > top else top
    for s in range(n):
        w[s] = exp(w[s] - top)
        total += w[s]
    y[:] = ZERO
    for s in range(n):
        share, value = w[s] / total, values[s]
        for i in range(y.size):
            y[i] += share * value[i]


@kernel
def add(scale, update, x):
    """What a branch returns goes into the stream."""
    for b in range(x.shape[0]):
        if scale.size:
            for i in range(scale.size):
                update[b, i] *= scale[i]
        for i in range(x.shape[1]):
            x[b, i] += update[b, i]


@kernel
def activate(kind, gate, x):
    """The activation of x (n,), in place; in the gated kinds that of gate (n,) times x."""
    if kind == RELU:
        for i in range(x.size):
            x[i] = positive(x[i])
    elif kind == RELU2:
        for i in range(x.size):
            x[i] = positive(x[i]) * positive(x[i])
    elif kind == GELU:
        for i in range(x.size):
            x[i] = x[i] * normal_below(x[i])
    elif kind == GELU_TANH:
        for i in range(x.size):
            s = x[i] * x[i]
            s = LIMIT if s > LIMIT else s
            u = x[i] * (SCALE + CUBE * s)
            x[i] = x[i] * sigmoid(u + u)
    elif kind == SILU:
        for i in range(x.size):
            x[i] = x[i] * sigmoid(x[i])
    elif kind == SWIGLU:
        for i in range(x.size):
            x[i] = gate[i] * sigmoid(gate[i]) * x[i]
    elif kind == GEGLU:
        for i in range(x.size):
            x[i] = gate[i] * normal_below(gate[i]) * x[i]


@number
def positive(x):
    return ZERO if x < ZERO else x  # NaN stays NaN
