"""The transformer block: a short list of residual sublayers, each of which reads the stream and adds to it.

At the end of the file stand three famous blocks, three compositions of the same parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..tensor import Tensor
from .attention import MultiHeadAttention
from .feedforward import FeedForward
from .module import Module
from .norm import LayerNorm, RMSNorm
from .positions import Rotary
from .residual import residual

Recipe = Callable[[], Module]  # makes one norm, or one scale, a call


@dataclass(frozen=True)
class Sublayer:
    """What is read from the stream at one place and written back: where the norms stand, and the branches by name.

    Several branches read the same normed stream side by side, and each adds its own update ("parallel").
    """

    order: str
    norm: Recipe
    scale: Recipe | None
    branches: dict[str, Module]


def pre_norm(norm: Recipe, scale: Recipe | None = None, **branches: Module) -> Sublayer:
    """x + branch(norm(x)): the path from x to the sum goes through nothing at all (GPT-2, Llama)"""
    return Sublayer("pre", norm, scale, branches)


def post_norm(norm: Recipe, scale: Recipe | None = None, **branches: Module) -> Sublayer:
    """norm(x + branch(x)) (2017, BERT)"""
    return Sublayer("post", norm, scale, branches)


def both_norms(norm: Recipe, scale: Recipe | None = None, **branches: Module) -> Sublayer:
    """x + norm(branch(norm(x))): what a branch reads and what it writes (Gemma 2)"""
    return Sublayer("both", norm, scale, branches)


ORDERS = {"pre": pre_norm, "post": post_norm, "both": both_norms}


class Block(Module):
    """(B, T, d) -> (B, T, d)   the sublayers, one after the other

    A branch called attn reads other positions of x, one called cross reads `memory`, all others each position on its own.
    Each branch stands under its name; beside it, as in attn_norm, attn_after, attn_scale, what belongs to it.
    """

    def __init__(self, *sublayers: Sublayer):
        self.plan = tuple((s.order, tuple(s.branches)) for s in sublayers)
        for s in sublayers:
            self.add_module(f"{next(iter(s.branches))}_norm", s.norm())
            for name, branch in s.branches.items():
                self.add_module(name, branch)
                if s.order == "both":
                    self.add_module(f"{name}_after", s.norm())
                if s.scale is not None:
                    self.add_module(f"{name}_scale", s.scale())

    def forward(self, x: Tensor, mask: Any = None, causal: bool = False, cache: Any = None, memory: Tensor | None = None,
                memory_mask: Any = None, memory_cache: Any = None, bias: Tensor | None = None) -> Tensor:
        options: dict[str, dict[str, Any]] = {
            "attn": {"mask": mask, "causal": causal, "cache": cache, **({} if bias is None else {"bias": bias})},
            "cross": {"context": memory, "mask": memory_mask, "cache": memory_cache},
        }
        if memory is None and hasattr(self, "cross"):
            raise ValueError("a block with cross-attention needs the memory that it reads: block(x, memory=...)")
        for order, names in self.plan:
            norm = getattr(self, f"{names[0]}_norm")
            read = x if order == "post" else norm(x)
            for name in names:
                update = getattr(self, name)(read, **options.get(name, {}))
                for part in (f"{name}_after", f"{name}_scale"):
                    update = getattr(self, part)(update) if hasattr(self, part) else update
                x = residual(x, update)
            x = norm(x) if order == "post" else x
        return x

    def extra_repr(self) -> str:
        words = {"pre": "pre-norm", "post": "post-norm", "both": "norm on both sides"}
        kinds = dict.fromkeys(words[order] for order, _ in self.plan)  # each once, in order
        return ", ".join([*kinds, *("parallel" for _, names in self.plan if len(names) > 1)])


# ------------------------------------------------------------------------------------------------ three of them


def block_of_2017(d: int, heads: int) -> Block:
    """Vaswani et al.'s encoder block; BERT's is this one with GELU."""
    norm = lambda: LayerNorm(d)
    return Block(post_norm(norm, attn=MultiHeadAttention(d, heads)), post_norm(norm, ffn=FeedForward(d, 4 * d, "relu")))


def block_of_gpt2(d: int, heads: int) -> Block:
    """The norms moved into the branches; GELU."""
    norm = lambda: LayerNorm(d)
    return Block(pre_norm(norm, attn=MultiHeadAttention(d, heads)), pre_norm(norm, ffn=FeedForward(d, 4 * d, "gelu_tanh")))


def block_of_llama(d: int, heads: int, groups: int, hidden: int) -> Block:
    """RMSNorm, rotary positions, grouped keys and values, a gated network, no biases."""
    norm = lambda: RMSNorm(d)
    attn = MultiHeadAttention(d, heads, groups, bias=False, positions=Rotary(d // heads))
    return Block(pre_norm(norm, attn=attn), pre_norm(norm, ffn=FeedForward(d, hidden, "swiglu", bias=False)))
