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
from .positions import Positions, Rotary, gaps


class MultiHeadAttention(Module):
    """(B, T, d) -> (B, T, d)   project, split into heads, score, mask, softmax, mix, join, project

    n_kv_head < n_head shares each key and value head among n_head / n_kv_head query heads (Ainslie et al. 2023).
    positions may turn queries and keys, or add to the scores; qk_norm brings queries and keys to one scale first, without a
    gain. window: a position looks at keys less than `window` positions away (a mask: it spares no work). key_bias=False: no
    bias on the keys, which would add one number to all scores of a query and so change nothing.
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
                cache: LayerCache | None = None) -> Tensor:
        """x (B, T, d) asks; context (B, S, d) answers, x itself if None. mask (T, S), (B, 1, T, S) ...: true = may look.

        With a cache, the keys and values of x are appended to it, and x looks at everything that it then holds. Those of a
        context are computed at the first call alone; later ones read them from the cache.
        """
        source = x if context is None else context
        if x.ndim != 3 or source.ndim != 3:
            raise ValueError(f"attention takes inputs of shape (B, T, d), not {x.shape if x.ndim != 3 else source.shape}")
        start = cache.length if cache is not None and context is None else 0
        q = fused.split_heads(self.q_proj(x), heads=self.n_head)  # (B, T, d) -> (B, H, T, D)
        if cache is not None and context is not None and cache.length:
            q, (k, v) = self._placed(q, self.q_norm, start), cache.held()
        else:
            k = fused.split_heads(self.k_proj(source), heads=self.n_kv_head)
            v = fused.split_heads(self.v_proj(source), heads=self.n_kv_head)
            q, k = self._placed(q, self.q_norm, start), self._placed(k, self.k_norm, start)
            if cache is not None:
                k, v = cache.append(k, v)
        read = self._read(q, k, v, mask, start, causal)
        return self.out_dropout(self.out_proj(fused.join_heads(read)))  # (B, H, T, D) -> (B, T, d)

    def _placed(self, x: Tensor, norm: Module | None, start: int) -> Tensor:
        """Queries or keys, normed and turned by their positions."""
        x = x if norm is None else norm(x)
        return x if self.positions is None else self.positions.turn(x, start)

    def _read(self, q: Tensor, k: Tensor, v: Tensor, mask: Any, start: int, causal: bool) -> Tensor:
        bias, mask = F.mask_or_bias(mask, (*q.shape[:3], k.shape[2]))
        told = None if self.positions is None else self.positions.bias(q.shape[2], k.shape[2], start, q.dtype)
        if told is not None:
            bias = (told + bias[0],) if bias else (told,)
        if self.window is not None:
            near = abs(gaps(q.shape[2], k.shape[2], start)) < self.window
            mask = near if mask is None else mask & near
        drop = F.weight_dropout(self.attn_dropout.p if self.training else 0.0, self.attn_dropout.generator)
        return fused.attention(q, k, v, *bias, mask=mask, causal=start if causal else None, **drop)

    def extra_repr(self) -> str:
        return "" if self.window is None else f"window={self.window}"


class LayerCache:
    """Keys and values of the positions seen so far, for one layer: two arrays (B, G, size, D), zero where nothing is yet."""

    def __init__(self, batch: int, heads: int, size: int, head_dim: int, dtype: Any = np.float32):
        self.keys, self.values = (np.zeros((batch, heads, size, head_dim), dtype) for _ in range(2))
        self.length = 0

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add keys and values (B, G, T, D); return all that are held. They are constants: nothing flows back into a cache."""
        batch, heads, _, width = self.keys.shape
        if (k.shape[:2], k.shape[3]) != ((batch, heads), width):
            raise ValueError(f"keys of shape {k.shape} do not fit a cache for {batch} texts, {heads} heads of width {width}")
        stop = self.length + k.shape[2]
        if stop > self.keys.shape[2]:
            size = self.keys.shape[2]
            raise ValueError(f"the cache holds {size} positions: {self.length} are taken, {k.shape[2]} more do not fit")
        self.keys[:, :, self.length : stop] = k.array
        self.values[:, :, self.length : stop] = v.array
        self.length = stop
        return self.held()

    def held(self) -> tuple[Tensor, Tensor]:
        """The keys and values (B, G, length, D) so far."""
        return Tensor(self.keys[:, :, : self.length]), Tensor(self.values[:, :, : self.length])
