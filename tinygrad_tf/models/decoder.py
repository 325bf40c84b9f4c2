"""The decoder-only transformer: tokens in, for each position a guess at the next one out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import nn
from ..dtypes import as_array
from ..nn import functional as F
from ..nn.feedforward import ACTIVATIONS, GATED
from ..nn.transformer import ORDERS
from ..tensor import Tensor


@dataclass(frozen=True)
class DecoderConfig:
    """What a decoder is made of, in nanoGPT's names where it has them. A value that cannot be is a ValueError naming it."""

    vocab_size: int
    block_size: int = 64  # the longest context, in tokens
    n_layer: int = 4
    n_head: int = 4
    n_kv_head: int | None = None  # heads of keys and values; None: as many as n_head
    n_embd: int = 128  # width of the residual stream
    n_hidden: int | None = None  # width inside the feed-forward network; None: 4 n_embd, or 8/3 n_embd if it is gated
    norm: str = "layer"  # layer, rms
    norm_order: str = "pre"  # pre, post, both
    ffn: str = "gelu"  # relu, relu2, gelu, gelu_tanh, silu, swiglu, geglu
    positions: str = "learned"  # learned, rotary, none
    rope_base: float = 10000.0
    qk_norm: bool = False  # queries and keys brought to one scale before they meet
    bias: bool = False
    tied: bool = True  # one matrix embeds the tokens and scores them
    dropout: float = 0.0
    layer_scale: float | None = None  # start of a learned scale on each update; None: no scale
    zero_init: bool = False  # the last matrix of each branch starts at zero, so that the model starts as the identity
    init_std: float | None = 0.02  # of every matrix; None: 1 / sqrt(numbers read)

    def __post_init__(self) -> None:
        for field in ("vocab_size", "block_size", "n_layer", "n_head", "n_kv_head", "n_embd", "n_hidden"):
            value = getattr(self, field)
            if value is None and field in ("n_kv_head", "n_hidden"):
                continue
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{field} must be a whole number, at least 1, not {value!r}")
        if self.n_embd % self.n_head:
            raise ValueError(f"n_embd={self.n_embd} does not divide into n_head={self.n_head} heads")
        if self.n_kv_head is not None and self.n_head % self.n_kv_head:
            raise ValueError(f"n_head={self.n_head} does not divide among n_kv_head={self.n_kv_head} key and value heads")
        if self.positions == "rotary" and self.head_dim % 2:
            heads = f"n_embd={self.n_embd} over n_head={self.n_head}"
            raise ValueError(f"rotary positions turn pairs: {heads} is an odd head width, {self.head_dim}")
        for field, allowed in (("norm", ("layer", "rms")), ("norm_order", ORDERS), ("ffn", (*ACTIVATIONS, *GATED)),
                               ("positions", ("learned", "rotary", "none"))):  # fmt: skip
            if getattr(self, field) not in allowed:
                raise ValueError(f"{field}={getattr(self, field)!r} is none of {', '.join(allowed)}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout} is not in [0, 1)")
        if not 0 < self.rope_base < math.inf:
            raise ValueError(f"rope_base={self.rope_base} is not a positive number")
        if self.init_std is not None and not 0 <= self.init_std < math.inf:
            raise ValueError(f"init_std={self.init_std} is not a number from 0 up")
        if self.layer_scale is not None and not math.isfinite(self.layer_scale):
            raise ValueError(f"layer_scale={self.layer_scale} is not a finite number")

    @property
    def head_dim(self) -> int:
        return self.n_embd // self.n_head

    @property
    def hidden(self) -> int:
        """The feed-forward width: as given, else 4 d, or 8/3 d up to a multiple of 8 for three matrices in place of two."""
        if self.n_hidden is not None:
            return self.n_hidden
        return 8 * math.ceil(self.n_embd / 3) if self.ffn in GATED else 4 * self.n_embd


class Decoder(nn.Module):
    """ids (B, T) -> logits (B, T, V): embed, add or turn in positions, n_layer blocks, norm, score every token.

    Matrices start normal with init_std; the last one of each branch is scaled by 1 / sqrt(2 n_layer) (GPT-2), or zero.
    """

    def __init__(self, config: DecoderConfig, generator: np.random.Generator | None = None):
        self.config = c = config
        self.token_embedding = nn.Embedding(c.vocab_size, c.n_embd, generator)
        self.position_embedding = nn.Embedding(c.block_size, c.n_embd, generator) if c.positions == "learned" else None
        self.dropout = nn.Dropout(c.dropout)
        self.blocks = nn.ModuleList(self._block(generator) for _ in range(c.n_layer))
        self.norm = self._norm() if c.norm_order != "post" else None
        self.lm_head = nn.Linear(c.n_embd, c.vocab_size, False, generator)
        if c.tied:
            self.lm_head.weight = self.token_embedding.weight
        self._start(generator)

    def _norm(self) -> nn.Module:
        c = self.config
        return nn.RMSNorm(c.n_embd) if c.norm == "rms" else nn.LayerNorm(c.n_embd, bias=c.bias)

    def _block(self, generator: np.random.Generator | None) -> nn.Block:
        c = self.config
        rotary = nn.Rotary(c.head_dim, c.rope_base) if c.positions == "rotary" else None
        attn = nn.MultiHeadAttention(c.n_embd, c.n_head, c.n_kv_head, c.bias, c.dropout, rotary, c.qk_norm, generator)
        ffn = nn.FeedForward(c.n_embd, c.hidden, c.ffn, c.bias, c.dropout, generator)
        return nn.Block(attn, ffn, self._norm, c.norm_order, c.layer_scale)

    def _start(self, generator: np.random.Generator | None) -> None:
        c = self.config
        done: set[int] = set()
        for name, module in self.named_modules():
            if not isinstance(module, (nn.Linear, nn.Embedding)) or id(module.weight) in done:
                continue
            done.add(id(module.weight))
            std = c.init_std if c.init_std is not None else 1 / math.sqrt(module.weight.shape[1])
            if name.endswith(("out_proj", "down")):
                std = 0.0 if c.zero_init else std / math.sqrt(2 * c.n_layer)
            nn.init.normal_(module.weight, 0.0, std, generator)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, ids: Any, cache: Cache | None = None) -> Tensor:
        """Logits for each position of ids (B, T). With a cache, ids follow the tokens that it holds and are added to it."""
        x = self.hidden(ids, cache)
        return self.lm_head(x)  # (B, T, d) -> (B, T, V)

    def hidden(self, ids: Any, cache: Cache | None = None) -> Tensor:
        """The residual stream after the last block and norm, (B, T, d)."""
        ids = F.check_ids(ids, self.config.vocab_size)
        if ids.ndim != 2:
            raise ValueError(f"ids have the shape (B, T), not {ids.shape}")
        start = 0 if cache is None else cache.length
        if start + ids.shape[1] > self.config.block_size:
            held = f" after the {start} that the cache holds" if start else ""
            raise ValueError(f"{ids.shape[1]} tokens{held} are more than the context, block_size={self.config.block_size}")
        x = self.token_embedding(ids)  # (B, T) -> (B, T, d)
        if self.position_embedding is not None:
            x = x + self.position_embedding(np.arange(start, start + ids.shape[1]))
        x = self.dropout(x)
        for i, block in enumerate(self.blocks):
            x = block(x, causal=True, cache=None if cache is None else cache.layers[i])
        return x if self.norm is None else self.norm(x)

    def loss(self, ids: Any, targets: Any) -> Tensor:
        """The mean cross-entropy in nats over the B x T positions: minus the log-probability of the token that comes next."""
        ids, targets = as_array(ids), as_array(targets)
        if targets.shape != ids.shape:
            raise ValueError(f"targets of shape {targets.shape} for ids of shape {ids.shape}: each position has one target")
        logits = self(ids)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))

    def new_cache(self, batch: int = 1) -> Cache:
        """An empty cache for `batch` texts of up to block_size tokens."""
        c = self.config
        dtype = self.token_embedding.weight.dtype
        return Cache([nn.LayerCache(batch, c.n_kv_head or c.n_head, c.block_size, c.head_dim, dtype) for _ in range(c.n_layer)])


class Cache:
    """Keys and values of every layer for the tokens seen so far."""

    def __init__(self, layers: list[nn.LayerCache]):
        self.layers = layers

    @property
    def length(self) -> int:
        """How many tokens it holds."""
        return self.layers[0].length

    @property
    def nbytes(self) -> int:
        """Memory of all keys and values, used or not."""
        return sum(layer.keys.nbytes + layer.values.nbytes for layer in self.layers)
