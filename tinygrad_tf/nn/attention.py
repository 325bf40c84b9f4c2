"""Multi-head attention: each position reads a mixture of the others, in several heads at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import fused
from ..tensor import Tensor
from . import functional as F
from .linear import Dropout, Linear
from .module import Module
from .norm import RMSNorm
from .positions import Positions, Rotary


class MultiHeadAttention(Module):
    """(B, T, d) -> (B, T, d)   project, split into heads, score, mask, softmax, mix, join, project

    n_kv_head < n_head shares each key and value head among n_head / n_kv_head query heads (Ainslie et al. 2023).
    positions may turn queries and keys, or add to the scores; qk_norm brings queries and keys to one scale first, without a
    gain. window: a position looks at keys less than `window` positions away; no work is spent on blocks of keys beyond, and a
    cache keeps few of them. key_bias=False: no bias on the keys, which would add one number to all scores of a query and so
    change nothing.
    """

    def __init__(self, n_embd: int, n_head: int, n_kv_head: int | None = None, bias: bool = True, dropout: float = 0.0,
                 positions: Positions | None = None, qk_norm: bool = False, generator: np.random.Generator | None = None,
                 window: int | None = None, key_bias: bool = True):
        n_kv_head = n_head if n_kv_head is None else n_kv_head
        if n_head < 1 or n_embd % n_head:
            raise ValueError(f"a width of {n_embd} does not divide into {n_head} heads")
        if n_kv_head < 1 or n_head % n_kv_head:
            raise ValueError(f"{n_head} query heads do not divide evenly among {n_kv_head} key and value heads")
        if window is not None and window < 1:
            raise ValueError(f"a window of {window} positions does not even hold the query's own")
        self.n_head, self.n_kv_head, self.head_dim, self.window = n_head, n_kv_head, n_embd // n_head, window
        if isinstance(positions, Rotary) and positions.head_dim != self.head_dim:
            raise ValueError(f"rotary positions of width {positions.head_dim} do not fit heads of width {self.head_dim}")
        self.q_proj = Linear(n_embd, n_head * self.head_dim, bias, generator)
        self.k_proj = Linear(n_embd, n_kv_head * self.head_dim, bias and key_bias, generator)
        self.v_proj = Linear(n_embd, n_kv_head * self.head_dim, bias, generator)
        self.out_proj = Linear(n_head * self.head_dim, n_embd, bias, generator)
        self.q_norm = RMSNorm(self.head_dim, elementwise_affine=False) if qk_norm else None
        self.k_norm = RMSNorm(self.head_dim, elementwise_affine=False) if qk_norm else None
        self.positions = positions
        self.attn_dropout, self.out_dropout = Dropout(dropout), Dropout(dropout)

    def forward(self, x: Tensor, context: Tensor | None = None, mask: Any = None, causal: bool = False,
                cache: Any = None, bias: Tensor | None = None) -> Tensor:
        """x (B, T, d) asks; context (B, S, d) answers, x itself if None. mask (T, S), (B, 1, T, S) ...: true = may look.

        With a cache, the keys and values of x are appended to it, and x looks at everything that it then holds. Those of a
        context are computed at the first call alone; later ones read them from the cache. bias (H, T, S): what `positions`
        add to the scores, where the caller has it already; a mask and a bias are for all S keys, also those that a cache
        with a window no longer holds.
        """
        source = x if context is None else context
        if x.ndim != 3 or source.ndim != 3:
            raise ValueError(f"attention takes inputs of shape (B, T, d), not {x.shape if x.ndim != 3 else source.shape}")
        if cache is not None and context is not None and self.window is not None:
            raise ValueError("a cache with a window drops what is far behind: it cannot keep a context")
        start = cache.length if cache is not None and context is None else 0
        q = fused.split_heads(self.q_proj(x), heads=self.n_head)  # (B, T, d) -> (B, H, T, D)
        if cache is not None and context is not None and cache.length:
            q, (k, v) = self._placed(q, self.q_norm, start), cache.held()
        else:
            k = fused.split_heads(self.k_proj(source), heads=self.n_kv_head)
            v = fused.split_heads(self.v_proj(source), heads=self.n_kv_head)
            q, k = self._placed(q, self.q_norm, start), self._placed(k, self.k_norm, start)
            k, mask = self._hide(k, mask, start)
            if cache is not None:
                k, v = cache.append(k, v)
        gone = cache.length - k.shape[2] if cache is not None and context is None else 0
        read = self._read(q, k, v, mask, start, gone, causal, bias)
        return self.out_dropout(self.out_proj(fused.join_heads(read)))  # (B, H, T, D) -> (B, T, d)

    def _placed(self, x: Tensor, norm: Module | None, start: int) -> Tensor:
        """Queries or keys, normed and turned by their positions."""
        x = x if norm is None else norm(x)
        return x if self.positions is None else self.positions.turn(x, start)

    def _hide(self, k: Tensor, mask: Any, start: int) -> tuple[Tensor, Any]:
        """New keys and a mask as they go on: here every query hides keys for itself, at its scores."""
        return k, mask

    def _read(self, q: Tensor, k: Tensor, v: Tensor, mask: Any, start: int, gone: int, causal: bool,
              told: Tensor | None) -> Tensor:
        """start: the position of the first query; gone: that of the first key, before which nothing is held any more."""
        bias, mask = F.mask_or_bias(mask, (*q.shape[:3], gone + k.shape[2]))
        if told is None and self.positions is not None:
            told = self.positions.bias(q.shape[2], gone + k.shape[2], start, q.dtype)
        if told is not None and told.requires_grad:
            bias, told = (told + bias[0] if bias else told,), None
        added = None if told is None else _from(told.array, gone)
        at = start - gone  # the first query's own place among the keys
        since, last = (None, None) if self.window is None else (at - self.window + 1, at + self.window - 1)
        drop = F.weight_dropout(self.attn_dropout.p if self.training else 0.0, self.attn_dropout.generator)
        return fused.attention(q, k, v, *(_from(x, gone) for x in bias), added=added, mask=_from(mask, gone), since=since,
                               causal=at if causal else last, **drop)

    def new_cache(self, batch: int = 1, dtype: Any = np.float32, *, size: int) -> Any:
        """An empty cache for `batch` texts of up to `size` positions."""
        return LayerCache(batch, self.n_kv_head, size, self.head_dim, dtype, self.window)

    def extra_repr(self) -> str:
        return "" if self.window is None else f"window={self.window}"


def _from(x: Any, gone: int) -> Any:
    """(..., S) -> (..., S - gone)   without the keys that are not held any more; what is one for all keys stays"""
    return x if x is None or not gone or x.shape[-1] == 1 else x[..., gone:]


class LayerCache:
    """Keys and values of the positions seen so far, for one layer: two arrays (B, G, size, D), zero where nothing is yet.

    With a window, those that no later position looks at are dropped: there is room for two windows at most, and when it is
    full the last window - 1 positions move to its beginning, once in more than a window of steps.
    """

    def __init__(self, batch: int, heads: int, size: int, head_dim: int, dtype: Any = np.float32, window: int | None = None):
        self.size, self.window = size, window
        room = size if window is None else min(size, 2 * window)
        self.keys, self.values = (np.zeros((batch, heads, room, head_dim), dtype) for _ in range(2))
        self.length = 0  # positions seen
        self.kept = 0  # the last ones among them, which are held

    @property
    def nbytes(self) -> int:
        """Memory of keys and values, used or not."""
        return self.keys.nbytes + self.values.nbytes

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add keys and values (B, G, T, D); return those that these positions may look at, with these as the last ones.

        They are constants: nothing flows back into a cache.
        """
        batch, heads, room, width = self.keys.shape
        if (k.shape[:2], k.shape[3]) != ((batch, heads), width):
            raise ValueError(f"keys of shape {k.shape} do not fit a cache for {batch} texts, {heads} heads of width {width}")
        if self.length + k.shape[2] > self.size:
            raise ValueError(f"the cache holds {self.size} positions: {self.length} are taken, {k.shape[2]} more do not fit")
        self.length += k.shape[2]
        at, stop = self.kept, self.kept + k.shape[2]
        if stop <= room:
            self.keys[:, :, at:stop], self.values[:, :, at:stop] = k.array, v.array
            self.kept = stop
            return self.held()
        first = max(0, at + 1 - (self.window or 1))  # what lies before is out of everybody's sight
        keys, values = (np.concatenate([old[:, :, first:at], new.array], 2) for old, new in ((self.keys, k), (self.values, v)))
        self.kept = min(room, keys.shape[2])
        self.keys[:, :, : self.kept], self.values[:, :, : self.kept] = keys[:, :, -self.kept :], values[:, :, -self.kept :]
        return Tensor(keys), Tensor(values)

    def held(self) -> tuple[Tensor, Tensor]:
        """The keys and values (B, G, kept, D)."""
        return Tensor(self.keys[:, :, : self.kept]), Tensor(self.values[:, :, : self.kept])
