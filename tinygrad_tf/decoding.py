"""One token through a whole decoder: the transformer at a single position, in plain NumPy, from the token to the logits.

Around one token the Python of the layers takes several times as long as their arithmetic. Here is nothing but arithmetic, in
the order of `models/decoder.py`: no tape and no calls of layers, only the arrays of their parameters and of the cache.

In the shapes "..." is B texts side by side, or nothing where there is one alone: NumPy is faster where nothing is broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from . import nn, special
from .activations import gelu_tanh, silu
from .engine import FLOAT32


def decode(model: Any, blocks: Sequence[Any], caches: Sequence[Any], ids: np.ndarray, first: Any, at: int) -> np.ndarray:
    """ids (B,) of the tokens at place `at` -> logits (B, V)

    caches: keys and values (B, G, S, D) of each block; their rows before `at` are those of earlier tokens, row `at` is written
    here. first (B,): the place of each text's first token, after padding; None: all begin at 0.
    """
    turn, hidden = turning(blocks[0].attn.positions, at), None if first is None else hiding(first, at)
    x = embed(model, ids, np.array([at]) if first is None else at - first)  # (B, d)
    if len(ids) == 1:
        x, caches, hidden = x[0], [(keys[0], values[0]) for keys, values in caches], None if hidden is None else hidden[0]
    for block, (keys, values) in zip(blocks, caches):
        scales = vars(block).get
        x = x + scaled(attention(block.attn, norm(block.attn_norm, x), keys, values, at, turn, hidden), scales("attn_scale"))
        x = x + scaled(feed_forward(block.ffn, norm(block.ffn_norm, x)), scales("ffn_scale"))
    return linear(model.lm_head, x if model.norm is None else norm(model.norm, x)).reshape(len(ids), -1)


def embed(model: Any, ids: np.ndarray, places: np.ndarray) -> np.ndarray:
    """ids (B,), each at its place in its own text -> (B, d)   what goes into the first block"""
    x, positions = model.token_embedding.weight.array[ids], model.position_embedding
    if model.config.scale_embedding:
        x *= math.sqrt(x.shape[1])
    if positions is not None:
        x += positions.weight.array[places] if isinstance(positions, nn.Embedding) else positions(places).array
    return x


def attention(layer: Any, x: np.ndarray, keys: np.ndarray, values: np.ndarray, at: int, turn: Any, hidden: Any) -> np.ndarray:
    """x (..., d) -> (..., d)   what the heads read at this place and before it; keys, values (..., G, S, D)"""
    *lead, groups, _, size = keys.shape
    q = linear(layer.q_proj, x).reshape(*lead, groups, -1, size)  # (..., d) -> (..., G, R, D): R queries for each key
    k = linear(layer.k_proj, x).reshape(*lead, groups, size)
    v = linear(layer.v_proj, x).reshape(*lead, groups, size)
    if layer.q_norm is not None:
        q, k = norm(layer.q_norm, q), norm(layer.k_norm, k)
    if turn is not None:
        q, k = q @ turn, k @ turn
    keys[..., at, :], values[..., at, :] = k, v
    q *= 1 / math.sqrt(size)
    scores = q @ keys[..., : at + 1, :].swapaxes(-1, -2)  # (..., G, R, S): softmax needs no mask, all that is there came before
    if hidden is not None:
        scores += hidden
    scores -= np.maximum.reduce(scores, -1, keepdims=True)
    weights = np.exp(scores, out=scores)
    mixed = weights @ values[..., : at + 1, :]  # (..., G, R, D), to be divided by the sums: in a long text fewer numbers
    mixed /= np.add.reduce(weights, -1, keepdims=True)
    return linear(layer.out_proj, mixed.reshape(x.shape))


def feed_forward(layer: Any, x: np.ndarray) -> np.ndarray:
    """x (..., d) -> (..., d)   widen, activate, narrow"""
    activate, y = ACTIVATIONS[layer.kind], linear(layer.up, x)
    y = activate(y) if layer.gate is None else activate(linear(layer.gate, x)) * y
    return linear(layer.down, y)


def linear(layer: Any, x: np.ndarray) -> np.ndarray:
    """(..., in) -> (..., out)   W x^T, transposed: with few rows in x, BLAS takes up to twice as long for x W^T"""
    y = layer.weight.array.dot(x.T).T
    return y if layer.bias is None else y + layer.bias.array


def norm(layer: Any, x: np.ndarray) -> np.ndarray:
    """(..., d) -> (..., d)   LayerNorm or RMSNorm"""
    d, centred = x.shape[-1], type(layer) is nn.LayerNorm
    if centred:
        x = x - x.dot(even(d))
    y = x * (dots(x) / d + layer.eps) ** -0.5
    if layer.weight is not None:
        y *= layer.weight.array
    if centred and layer.bias is not None:
        y += layer.bias.array
    return y


@cache
def even(d: int) -> np.ndarray:
    """(d, 1)   the weights of a mean"""
    return np.full((d, 1), 1 / d, FLOAT32)


def dots(x: np.ndarray) -> Any:
    """(..., d) -> (..., 1), or a number   each vector times itself"""
    return x.dot(x) if x.ndim == 1 else np.vecdot(x, x)[..., None]


ACTIVATIONS: dict[str, Callable] = {
    "relu": lambda x: np.maximum(x, 0),
    "relu2": lambda x: np.square(np.maximum(x, 0)),
    "gelu": lambda x: x * special.normal_below(x),
    "geglu": lambda x: x * special.normal_below(x),
    "gelu_tanh": lambda x: gelu_tanh.raw(x)[0],
    "silu": lambda x: silu.raw(x)[0],
    "swiglu": lambda x: silu.raw(x)[0],
}


def scaled(update: np.ndarray, scale: Any) -> np.ndarray:
    """What a branch returns, with the learned scale of each coordinate if there is one."""
    return update if scale is None else update * scale.weight.array


# ------------------------------------------------------------------------------------------------ once for all blocks


def turning(rotary: Any, at: int) -> np.ndarray | None:
    """(D, D)   what turns each pair of a query or key by its angle at this place, as a matrix: x @ turn"""
    if rotary is None:
        return None
    cos, sin = (table[at] for table in rotary.tables(at + 1, FLOAT32))
    half = np.arange(len(cos))
    i, j = (2 * half, 2 * half + 1) if rotary.interleaved else (half, half + len(cos))
    turn = np.zeros((2 * len(cos), 2 * len(cos)), FLOAT32)
    turn[i, i] = turn[j, j] = cos
    turn[i, j], turn[j, i] = sin, -sin
    return turn


def hiding(first: np.ndarray, at: int) -> np.ndarray:
    """(B, 1, 1, S)   what to add to the scores: -inf at the padding, where nothing is to be read"""
    return np.where(np.arange(at + 1) < first[:, None, None, None], -np.inf, 0).astype(FLOAT32)
