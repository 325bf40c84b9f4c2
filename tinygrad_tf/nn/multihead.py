"""MultiheadAttention as PyTorch has it: its arguments, its parameters and their names, its masks in which true hides.

`MultiHeadAttention`, with a capital H, is the layer of this engine's own models; both rest on the same attention.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import fused, ops
from ..dtypes import as_array
from ..errors import called, whole
from ..tensor import Tensor
from . import functional as F
from . import init
from .linear import Linear
from .module import Module
from .parameter import Parameter, blank


class MultiheadAttention(Module):
    """query (T, B, E), key (S, B, K), value (S, B, V) -> (T, B, E), weights (B, T, S); batch first if `batch_first`

    Without a batch, the B axes are left out. Queries, keys and values are projected by the three thirds of in_proj_weight (3 E,
    E), or by matrices of their own where `kdim` or `vdim` is not E. add_bias_kv: one more key and value, learned;
    add_zero_attn: one more of zeros. `dropout` drops weights. A query that may look nowhere gives zeros (in PyTorch NaN).
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
                 add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
                 device: Any = None, dtype: Any = None):
        if whole("embed_dim", embed_dim) < 1 or whole("num_heads", num_heads) < 1 or embed_dim % num_heads:
            raise ValueError(f"{called()}a width of {embed_dim} does not divide into {num_heads} heads")
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        self.dropout, self.batch_first, self.add_zero_attn = dropout, batch_first, add_zero_attn
        make = lambda *shape: blank(*shape, dtype=dtype, device=device)
        if self.kdim == self.vdim == embed_dim:
            self.in_proj_weight: Parameter | None = make(3 * embed_dim, embed_dim)
            self.q_proj_weight = self.k_proj_weight = self.v_proj_weight = None
        else:
            self.in_proj_weight = None
            self.q_proj_weight, self.k_proj_weight, self.v_proj_weight = (
                make(embed_dim, width) for width in (embed_dim, self.kdim, self.vdim)
            )
        self.in_proj_bias = make(3 * embed_dim) if bias else None
        self.bias_k, self.bias_v = (make(1, 1, embed_dim) if add_bias_kv else None for _ in range(2))
        self.out_proj = Linear(embed_dim, embed_dim, bias, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for extra in (self.bias_k, self.bias_v):
            if extra is not None:
                init.xavier_normal_(extra)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Any = None, need_weights: bool = True,
                attn_mask: Any = None, average_attn_weights: bool = True, is_causal: bool = False) -> tuple[Tensor, Any]:
        """The output, and the weights: their mean over the heads, or (B, H, T, S), or None where nobody needs them.

        key_padding_mask (B, S) and attn_mask (T, S) or (B H, T, S): true = may not look, or floats to add to the scores.
        is_causal says that attn_mask is the causal one, which may then be skipped. Weights cost a T x S matrix for each head;
        need_weights=False never makes it.
        """
        alone = query.ndim == 2
        if query.ndim not in (2, 3) or not query.ndim == key.ndim == value.ndim:
            raise ValueError(f"attention takes inputs of two axes or of three, not {query.shape}, {key.shape}, {value.shape}")
        if is_causal and attn_mask is None:
            raise ValueError("is_causal only says what attn_mask is: give the mask besides")
        if alone:
            key_padding_mask = None if key_padding_mask is None else as_array(key_padding_mask)[None]
        q, k, v = (x.unsqueeze(0) if alone else x if self.batch_first else x.transpose(0, 1)
                   for x in self._projected(query, key, value))  # (B, T, E), (B, S, E), (B, S, E)
        if k.shape[:2] != v.shape[:2] or q.shape[0] != k.shape[0]:
            raise ValueError(f"query {query.shape}, key {key.shape} and value {value.shape} do not belong together")
        shape = (q.shape[0], self.num_heads, q.shape[1], k.shape[1])
        k, v, more = self._more(k, v)
        if is_causal and key_padding_mask is None and not need_weights and not more:
            mask, causal = None, True
        else:
            mask, causal = _mask(attn_mask, key_padding_mask, shape, more, q.dtype), False
        q, k, v = (fused.split_heads(x, heads=self.num_heads) for x in (q, k, v))  # (B, T, E) -> (B, H, T, D)
        p, weights = self.dropout if self.training else 0.0, None
        if need_weights:
            weights = F.dropout(_weights(q, k, mask), p)
            read = weights @ v
        else:
            read = F.scaled_dot_product_attention(q, k, v, mask, p, causal)
        y = self.out_proj(fused.join_heads(read))
        y = y.squeeze(0) if alone else y if self.batch_first else y.transpose(0, 1)
        if weights is None:
            return y, None
        weights = weights.mean(1) if average_attn_weights else weights
        return y, weights.squeeze(0) if alone else weights

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        if query is key is value and self.in_proj_weight is not None:
            return F.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        if self.in_proj_weight is None:
            weights: Any = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        else:
            weights = self.in_proj_weight.chunk(3)
        biases = (None, None, None) if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return tuple(F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True))

    def _more(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, int]:
        """Keys and values (B, S, E) with those that every query sees, learned or zero, at the end, and how many these are."""
        batch, _, width = k.shape
        more = (self.bias_k is not None) + self.add_zero_attn
        if self.bias_k is not None and self.bias_v is not None:
            k, v = (ops.cat(x, b.expand(batch, 1, width), dim=1) for x, b in ((k, self.bias_k), (v, self.bias_v)))
        if self.add_zero_attn:
            k, v = (F.pad(x, (0, 0, 0, 1)) for x in (k, v))
        return k, v, more

    def extra_repr(self) -> str:
        return f"{self.num_heads} heads" + ", batch first" * self.batch_first


def _weights(q: Tensor, k: Tensor, mask: Any) -> Tensor:
    """(B, H, T, D), (B, H, S, D) -> (B, H, T, S)   softmax(q k^T / sqrt(D) + mask)"""
    scores = (q * (1 / math.sqrt(q.shape[-1]))) @ k.transpose(-1, -2)
    if mask is not None:
        boolean = isinstance(mask, np.ndarray) and mask.dtype == bool
        scores = ops.where(scores, scores.dtype.type(-np.inf), condition=mask) if boolean else scores + mask
    return scores.softmax(-1)


def _mask(attn_mask: Any, key_padding_mask: Any, shape: tuple[int, ...], more: int, dtype: Any) -> Any:
    """Both masks as one that fits (B, H, T, S + more): an array, true = may look, or floats to add.

    The last `more` keys are hidden from nobody.
    """
    batch, heads, queries, keys = shape
    masks = []
    fit: dict[str, dict[tuple[int, ...], tuple[int, ...]]] = {  # the shapes that each may have -> with the axes of scores
        "attn_mask": {(queries, keys): (1, 1, queries, keys), (batch * heads, queries, keys): shape},
        "key_padding_mask": {(batch, keys): (batch, 1, 1, keys)},
    }
    for (name, fitting), mask in zip(fit.items(), (attn_mask, key_padding_mask), strict=True):
        if mask is None:
            continue
        mask = mask if isinstance(mask, Tensor) else Tensor(mask)
        if mask.dtype.kind not in "bf":
            raise TypeError(f"{name} is boolean (true = may not look) or floats to add to the scores, not {mask.dtype}")
        if mask.shape not in fitting:
            raise ValueError(f"{name} of shape {mask.shape} is none of {', '.join(map(str, fitting))}")
        masks.append(F.pad(mask.reshape(fitting[mask.shape]), (0, more)))
    if not masks:
        return None
    if all(mask.dtype == bool for mask in masks):
        allowed = ~masks[0].array
        return allowed if len(masks) == 1 else allowed & ~masks[1].array
    added = [Tensor(np.where(m.array, -np.inf, 0).astype(dtype)) if m.dtype == bool else m.to(dtype) for m in masks]
    return added[0] if len(added) == 1 else added[0] + added[1]
