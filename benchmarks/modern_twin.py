"""The decoder of the preset `laptop` in PyTorch: RMSNorm, rotary positions, normed queries and keys, a gated feed-forward.

The modules have the names of ours, so a state dict of one is a state dict of the other.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from tinygrad_tf.settings import TrainConfig

NORM_EPS = 1e-6  # of our RMSNorm


class Attention(nn.Module):
    cos: torch.Tensor  # (T, D / 2)
    sin: torch.Tensor

    def __init__(self, c: TrainConfig):
        super().__init__()
        self.heads, self.qk_norm, d = c.n_head, c.qk_norm, c.n_embd
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d, d, bias=False) for _ in range(4))
        half = d // c.n_head // 2
        angles = torch.outer(torch.arange(c.block_size).double(), c.rope_base ** -(torch.arange(half).double() / half))
        self.register_buffer("cos", angles.cos().float(), persistent=False)
        self.register_buffer("sin", angles.sin().float(), persistent=False)

    def turned(self, x: torch.Tensor) -> torch.Tensor:
        """(B, H, T, D) -> (B, H, T, D)   brought to one length if queries and keys are normed, then turned by the position"""
        if self.qk_norm:
            x = F.rms_norm(x, x.shape[-1:], eps=NORM_EPS)
        a, b = x.chunk(2, -1)
        cos, sin = self.cos[: x.shape[2]], self.sin[: x.shape[2]]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (proj(x).unflatten(2, (self.heads, -1)).transpose(1, 2) for proj in (self.q_proj, self.k_proj, self.v_proj))
        y = F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True)
        return self.out_proj(y.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, c: TrainConfig, hidden: int):
        super().__init__()
        self.gate = nn.Linear(c.n_embd, hidden, bias=False) if c.ffn == "swiglu" else None
        self.up, self.down = nn.Linear(c.n_embd, hidden, bias=False), nn.Linear(hidden, c.n_embd, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.relu(self.up(x)).square() if self.gate is None else F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, c: TrainConfig, hidden: int):
        super().__init__()
        self.attn_norm, self.attn = nn.RMSNorm(c.n_embd, eps=NORM_EPS), Attention(c)
        self.ffn_norm, self.ffn = nn.RMSNorm(c.n_embd, eps=NORM_EPS), FeedForward(c, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.attn_norm(x))
        return x + self.ffn(self.ffn_norm(x))


class Modern(nn.Module):
    """ids (B, T) -> logits (B, T, V). ValueError for settings that this twin does not have."""

    def __init__(self, c: TrainConfig, vocabulary: int):
        super().__init__()
        plain = {"norm": "rms", "norm_order": "pre", "positions": "rotary", "attention": "softmax", "n_kv_head": None,
                 "window": None, "layer_scale": None, "bias": False, "dropout": 0.0, "grad_accum": 1}  # fmt: skip
        other = [name for name, value in plain.items() if getattr(c, name) != value]
        if other or c.ffn not in ("swiglu", "relu2"):
            raise ValueError(f"the twin in PyTorch does not know {', '.join(other) or 'ffn'} of the preset {c.preset!r}")
        self.token_embedding = nn.Embedding(vocabulary, c.n_embd)
        self.blocks = nn.ModuleList(Block(c, c.decoder(vocabulary).hidden) for _ in range(c.n_layer))
        self.norm = nn.RMSNorm(c.n_embd, eps=NORM_EPS)
        self.lm_head = nn.Linear(c.n_embd, vocabulary, bias=False)
        if c.tied:
            self.lm_head.weight = self.token_embedding.weight

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.token_embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.lm_head(self.norm(x))
