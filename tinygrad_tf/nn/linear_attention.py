"""Linear attention: a mixing rule whose cost grows with T, not with T squared (Katharopoulos et al. 2020).

Softmax attention weighs a key by exp(q . k), which has to be computed for every pair. Here the weight is phi(q) . phi(k), so
the sum over the keys can be taken first:  sum_j (phi(q) . phi(k_j)) v_j = phi(q) (sum_j phi(k_j) v_j^T).  The D x E matrix in
brackets is all that a query needs of the past. The price: what a head remembers has to fit into that one matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import functions
from ..tensor import Tensor
from . import functional as F
from .attention import MultiHeadAttention
from .linear import Dropout
from .module import Module

CHUNK = 64  # positions that meet each other pair by pair; what lies before the chunk comes as one matrix


class LinearMix(Module):
    """(B, H, T, D), (B, G, S, D), (B, G, S, E) -> (B, H, T, E)   y_i = sum_j w_ij v_j / sum_j w_ij,  w_ij = q_i . k_j

    q and k are features, not negative. causal: query i looks at keys 0 ... i + S - T. A query whose weights are all 0 gives
    zeros and sends none back. It is a module for the sake of those who watch: a hook sees queries, keys and values.
    """

    def __init__(self, chunk: int = CHUNK):
        self.chunk = chunk

    def forward(self, q: Tensor, k: Tensor, v: Tensor, causal: bool = False) -> Tensor:
        (b, h, t, d), (_, groups, s, e) = q.shape, v.shape
        if causal and s < t:
            raise ValueError(f"causal: {t} queries need {t} keys or more, the last of them their own, not {s}")
        v = functions.cat([v, functions.ones(b, groups, s, 1, dtype=v.dtype)], -1)  # its column collects the sum of the weights
        past = k.transpose(-1, -2) @ v if not causal else k[:, :, : s - t].transpose(-1, -2) @ v[:, :, : s - t]
        if causal and t:
            read = self._in_chunks(q, k[:, :, s - t :], v[:, :, s - t :], past)
        else:
            read = (q.reshape(b, groups, h // groups * t, d) @ past).view(b, h, t, e + 1)  # a group's queries side by side
        total = read[..., e:]
        return read[..., :e] / total.where(total.array != 0, 1)

    def _in_chunks(self, q: Tensor, k: Tensor, v: Tensor, past: Tensor) -> Tensor:
        """Each query meets the keys of its own chunk one by one, and all that lies before the chunk as one matrix."""
        b, h, t, _ = q.shape
        n = min(self.chunk, t)
        q, k, v = (_chunks(x, k.shape[1], n) for x in (q, k, v))  # (B, G, R, N, n, D), R = 1 for keys and values
        sums = k[..., :-1, :, :].transpose(-1, -2) @ v[..., :-1, :, :]  # (B, G, 1, N - 1, D, E + 1): nothing follows the last
        before = functions.cat([past[:, :, None, None], sums], -3).cumsum(-3)
        near = (q @ k.transpose(-1, -2)).tril()  # (B, G, R, N, n, n)
        read = near @ v + q @ before
        return read.reshape(b, h, -1, read.shape[-1])[:, :, :t]


def _chunks(x: Tensor, groups: int, n: int) -> Tensor:
    """(B, H, T, D) -> (B, G, H / G, N, n, D), with zeros after the end"""
    b, h, t, d = x.shape
    x = F.pad(x, (0, 0, 0, -t % n)) if t % n else x
    return x.reshape(b, groups, h // groups, -1, n, d)


def features(x: Tensor) -> Tensor:
    """(...) -> (...)   phi(x) = elu(x) + 1: x + 1 above 0, exp(x) below; never negative"""
    return F.relu(x) + x.clamp(max=0).exp()


class LinearAttention(MultiHeadAttention):
    """(B, T, d) -> (B, T, d)   multi-head attention whose weights are phi(q) . phi(k), shared out among the keys in proportion

    The same projections and heads as MultiHeadAttention, and the same arguments but for those that have no linear form: what is
    added to the scores (ALiBi, T5) and a window. Rotary positions turn queries and keys before phi, so that the weights depend
    on both places and not on their distance alone. Dropout acts on the output alone. A mask leaves out keys, the same for every
    query; causal=True is the only one that differs between queries. With a `LinearCache` a step costs the same, however long
    the text; a key is left out of it at the call that brings it, and what a mask says of earlier ones is not looked at.
    """

    def __init__(self, n_embd: int, n_head: int, *args: Any, **options: Any):
        super().__init__(n_embd, n_head, *args, **options)
        self.mix = LinearMix()
        if self.window is not None:
            raise ValueError(f"window={self.window}: linear attention sums over keys first, and leaves none out afterwards")
        self.attn_dropout = Dropout(0.0)  # single weights, which softmax attention drops, never exist here

    def new_cache(self, batch: int = 1, dtype: Any = np.float32, *, size: int | None = None) -> LinearCache:
        """An empty state for `batch` texts, however long they get."""
        return LinearCache(batch, self.n_kv_head, self.head_dim, self.head_dim, dtype)

    def _placed(self, x: Tensor, norm: Module | None, start: int) -> Tensor:
        return features(super()._placed(x, norm, start))

    def _hide(self, k: Tensor, mask: Any, start: int) -> tuple[Tensor, Any]:
        """A masked key has no features: then it weighs nothing, in a cache too."""
        if mask is None:
            return k, None
        b, _, t, _ = k.shape
        s = start + t  # a mask is for the keys of a cache besides
        _, allowed = F.mask_or_bias(mask, (b, self.n_head, t, s))
        if allowed is None or np.broadcast_shapes(allowed.shape[-3:], (1, 1, s)) != (1, 1, s):
            raise ValueError(f"linear attention takes a mask of keys, true or false, (S,) or (B, 1, 1, S), not {mask.shape}")
        return k.where(np.swapaxes(np.broadcast_to(allowed, (b, 1, 1, s))[..., start:], -1, -2), 0), None

    def _read(self, q: Tensor, k: Tensor, v: Tensor, mask: Any, start: int, gone: int, causal: bool,
              told: Tensor | None) -> Tensor:
        if told is not None or (self.positions is not None and self.positions.bias(1, 1) is not None):
            raise ValueError(f"{type(self.positions).__name__} adds to scores of single pairs; linear attention has none")
        return self.mix(q, k, v, causal)


class LinearCache:
    """What linear attention keeps of a text for one layer, of a size that does not grow: it stands for D positions.

    The past of a head is sum_j phi(k_j)_i and sum_j phi(k_j)_i v_j for each feature i. A query reads it as if there were D
    keys, number i with that first sum at feature i and 0 elsewhere, and as its value the mean of the values by weight.
    """

    def __init__(self, batch: int, heads: int, head_dim: int, value_dim: int, dtype: Any = np.float32):
        self.keys = np.zeros((batch, heads, head_dim, 1), dtype)  # sum_j phi(k_j)
        self.values = np.zeros((batch, heads, head_dim, value_dim), dtype)  # sum_j phi(k_j) v_j^T
        self.length = 0

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add features and values (B, G, T, D); return what stands for the past, and then these. They are constants."""
        if k.shape[:2] != self.values.shape[:2] or (k.shape[3], v.shape[3]) != self.values.shape[2:]:
            raise ValueError(f"keys {k.shape} and values {v.shape} do not fit a state of shape {self.values.shape}")
        past = self.held()
        self.keys = self.keys + k.array.sum(2)[..., None]
        self.values = self.values + k.array.swapaxes(-1, -2) @ v.array
        self.length += k.shape[2]
        keys, values = (Tensor(np.concatenate([old.array, new.array], 2)) for old, new in zip(past, (k, v), strict=True))
        return keys, values

    def held(self) -> tuple[Tensor, Tensor]:
        """The D keys and values that stand for the text so far."""
        each = np.eye(self.keys.shape[2], dtype=self.keys.dtype)
        return Tensor(self.keys * each), Tensor(self.values / np.where(self.keys == 0, 1, self.keys))
