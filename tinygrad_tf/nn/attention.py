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
from .positions import Rotary


class MultiHeadAttention(Module):
    """(B, T, d) -> (B, T, d)   project, split into heads, score, mask, softmax, mix, join, project

    n_kv_head < n_head shares each key and value head among n_head / n_kv_head query heads (Ainslie et al. 2023).
    rotary turns queries and keys by their positions; qk_norm brings them to one scale first, without a gain.
    """

    def __init__(self, n_embd: int, n_head: int, n_kv_head: int | None = None, bias: bool = True, dropout: float = 0.0,
                 rotary: Rotary | None = None, qk_norm: bool = False, generator: np.random.Generator | None = None):
        n_kv_head = n_head if n_kv_head is None else n_kv_head
        if n_head < 1 or n_embd % n_head:
            raise ValueError(f"a width of {n_embd} does not divide into {n_head} heads")
        if n_kv_head < 1 or n_head % n_kv_head:
            raise ValueError(f"{n_head} query heads do not divide evenly among {n_kv_head} key and value heads")
        self.n_head, self.n_kv_head, self.head_dim = n_head, n_kv_head, n_embd // n_head
        if rotary is not None and rotary.head_dim != self.head_dim:
            raise ValueError(f"rotary positions of width {rotary.head_dim} do not fit heads of width {self.head_dim}")
        self.q_proj = Linear(n_embd, n_head * self.head_dim, bias, generator)
        self.k_proj = Linear(n_embd, n_kv_head * self.head_dim, bias, generator)
        self.v_proj = Linear(n_embd, n_kv_head * self.head_dim, bias, generator)
        self.out_proj = Linear(n_head * self.head_dim, n_embd, bias, generator)
        self.q_norm = RMSNorm(self.head_dim, elementwise_affine=False) if qk_norm else None
        self.k_norm = RMSNorm(self.head_dim, elementwise_affine=False) if qk_norm else None
        self.rotary = rotary
        self.attn_dropout, self.out_dropout = Dropout(dropout), Dropout(dropout)

    def forward(self, x: Tensor, context: Tensor | None = None, mask: Any = None, causal: bool = False,
                cache: LayerCache | None = None) -> Tensor:
        """x (B, T, d) asks; context (B, S, d) answers, x itself if None. mask (T, S), (B, 1, T, S) ...: true = may look.

        With a cache, the keys and values of x are appended to it, and x looks at everything that it then holds.
        """
        source = x if context is None else context
        if x.ndim != 3 or source.ndim != 3:
            raise ValueError(f"attention takes inputs of shape (B, T, d), not {x.shape if x.ndim != 3 else source.shape}")
        start = cache.length if cache is not None else 0
        q = self._split(self.q_proj(x), self.n_head)  # (B, T, d) -> (B, H, T, D)
        k = self._split(self.k_proj(source), self.n_kv_head)
        v = self._split(self.v_proj(source), self.n_kv_head)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = self.q_norm(q), self.k_norm(k)
        if self.rotary is not None:
            q, k = self.rotary(q, start), self.rotary(k, start)
        if cache is not None:
            k, v = cache.append(k, v)
        read = self._read(q, k, v, mask, start if causal else None)
        joined = read.transpose(1, 2).reshape(*x.shape[:2], self.n_head * self.head_dim)  # (B, H, T, D) -> (B, T, d)
        return self.out_dropout(self.out_proj(joined))

    def _split(self, x: Tensor, heads: int) -> Tensor:
        b, t, _ = x.shape
        return x.view(b, t, heads, self.head_dim).transpose(1, 2)

    def _read(self, q: Tensor, k: Tensor, v: Tensor, mask: Any, causal: int | None) -> Tensor:
        bias, mask = F.mask_or_bias(mask, (*q.shape[:3], k.shape[2]))
        drop = F.weight_dropout(self.attn_dropout.p if self.training else 0.0, self.attn_dropout.generator)
        return fused.attention(q, k, v, *bias, mask=mask, causal=causal, **drop)


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
        return Tensor(self.keys[:, :, :stop]), Tensor(self.values[:, :, :stop])
