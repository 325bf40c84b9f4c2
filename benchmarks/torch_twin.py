"""The same decoder in PyTorch, written as nanoGPT writes it, and fed with our weights.

Queries, keys and values come out of one product, attention is `scaled_dot_product_attention`, AdamW is the fused one: PyTorch
eager as one would sensibly use it. The mathematics is that of `tinygrad_tf.models.decoder.Decoder` with its default settings.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from .sizes import VOCABULARY, Size


class Cache:
    """Keys and values of one layer: two tensors (B, H, size, D), filled from the front; the scheme of nn.LayerCache."""

    def __init__(self, batch: int, heads: int, size: int, head_dim: int):
        self.keys, self.values = (torch.zeros(batch, heads, size, head_dim) for _ in range(2))
        self.length = 0

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        stop = self.length + k.shape[2]
        self.keys[:, :, self.length : stop] = k
        self.values[:, :, self.length : stop] = v
        self.length = stop
        return self.keys[:, :, :stop], self.values[:, :, :stop]


class Attention(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width, bias=False)
        self.c_proj = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, cache: Cache | None = None) -> torch.Tensor:
        b, t, c = x.shape
        parts = self.c_attn(x).split(c, dim=2)
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in parts)  # (B, T, C) -> (B, H, T, D)
        if cache is not None:
            if cache.length and t > 1:
                raise ValueError("after the prompt, one token at a time")
            k, v = cache.append(k, v)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))


class FeedForward(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width, bias=False)
        self.c_proj = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c_proj(F.gelu(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, width: int, heads: int):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width, bias=False), Attention(width, heads)
        self.ln_2, self.mlp = nn.LayerNorm(width, bias=False), FeedForward(width)

    def forward(self, x: torch.Tensor, cache: Cache | None = None) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x), cache)
        return x + self.mlp(self.ln_2(x))


class Twin(nn.Module):
    """ids (B, T) -> logits (B, T, V)"""

    def __init__(self, size: Size, vocabulary: int = VOCABULARY):
        super().__init__()
        self.size = size
        self.wte, self.wpe = nn.Embedding(vocabulary, size.n_embd), nn.Embedding(size.block_size, size.n_embd)
        self.h = nn.ModuleList(Block(size.n_embd, size.n_head) for _ in range(size.n_layer))
        self.ln_f = nn.LayerNorm(size.n_embd, bias=False)
        self.lm_head = nn.Linear(size.n_embd, vocabulary, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, ids: torch.Tensor, caches: list[Cache] | None = None) -> torch.Tensor:
        start = caches[0].length if caches else 0
        x = self.wte(ids) + self.wpe(torch.arange(start, start + ids.shape[1]))
        for i, block in enumerate(self.h):
            x = block(x, caches[i] if caches else None)
        return self.lm_head(self.ln_f(x))

    def loss(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = self(ids)
        return F.cross_entropy(logits.flatten(0, 1), targets.view(-1))

    def new_cache(self, batch: int = 1) -> list[Cache]:
        s = self.size
        return [Cache(batch, s.n_head, s.block_size, s.n_embd // s.n_head) for _ in range(s.n_layer)]

    def load(self, state: dict[str, np.ndarray]) -> None:
        """Copy in the weights of our decoder, by the names of its state dict. KeyError for one that is missing or left over."""
        rest = dict(state)
        rest.pop("lm_head.weight")  # tied to the token embedding
        with torch.no_grad():
            self._take(self.wte.weight, rest.pop("token_embedding.weight"))
            self._take(self.wpe.weight, rest.pop("position_embedding.weight"))
            self._take(self.ln_f.weight, rest.pop("norm.weight"))
            block: Any  # to a type checker, an entry of a ModuleList is any module
            for i, block in enumerate(self.h):
                at = f"blocks.{i}."
                joined = np.concatenate([rest.pop(f"{at}attn.{part}_proj.weight") for part in "qkv"])
                self._take(block.attn.c_attn.weight, joined)
                self._take(block.attn.c_proj.weight, rest.pop(f"{at}attn.out_proj.weight"))
                self._take(block.ln_1.weight, rest.pop(f"{at}attn_norm.weight"))
                self._take(block.ln_2.weight, rest.pop(f"{at}ffn_norm.weight"))
                self._take(block.mlp.c_fc.weight, rest.pop(f"{at}ffn.up.weight"))
                self._take(block.mlp.c_proj.weight, rest.pop(f"{at}ffn.down.weight"))
        if rest:
            raise KeyError(f"the twin has no place for {', '.join(rest)}")

    @staticmethod
    def _take(own: torch.Tensor, values: np.ndarray) -> None:
        if own.shape != values.shape:
            raise ValueError(f"a weight of shape {values.shape} does not fit one of shape {tuple(own.shape)}")
        own.copy_(torch.from_numpy(values))
