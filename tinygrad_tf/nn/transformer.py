"""The transformer block: two writes to the residual stream, one that reads other positions and one that does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..tensor import Tensor
from .attention import LayerCache, MultiHeadAttention
from .feedforward import FeedForward
from .module import Module
from .residual import LayerScale, write

ORDERS = ("pre", "post", "both")


class Block(Module):
    """(B, T, d) -> (B, T, d)   x = x + attention(norm(x));  x = x + feed_forward(norm(x))

    `norm` makes one norm layer a call. order: "pre" as above (GPT-2, Llama), "post" normalises each sum instead (2017, BERT),
    "both" normalises what a branch reads and what it writes (Gemma 2). layer_scale: start of a learned scale on each update.
    """

    def __init__(self, attn: MultiHeadAttention, ffn: FeedForward, norm: Callable[[], Module], order: str = "pre",
                 layer_scale: float | None = None):
        if order not in ORDERS:
            raise ValueError(f"order {order!r} is none of {', '.join(ORDERS)}")
        self.order = order
        self.attn_norm, self.attn = norm(), attn
        self.attn_after = norm() if order == "both" else None
        self.attn_scale = LayerScale(attn.q_proj.in_features, layer_scale) if layer_scale is not None else None
        self.ffn_norm, self.ffn = norm(), ffn
        self.ffn_after = norm() if order == "both" else None
        self.ffn_scale = LayerScale(attn.q_proj.in_features, layer_scale) if layer_scale is not None else None

    def forward(self, x: Tensor, mask: Any = None, causal: bool = False, cache: LayerCache | None = None) -> Tensor:
        attend = lambda h: self.attn(h, mask=mask, causal=causal, cache=cache)
        x = self._write(x, attend, self.attn_norm, self.attn_after, self.attn_scale)
        return self._write(x, self.ffn, self.ffn_norm, self.ffn_after, self.ffn_scale)

    def _write(self, x: Tensor, branch: Callable, norm: Module, after: Module | None, scale: Module | None) -> Tensor:
        if self.order == "post":
            return write(x, branch, scale=scale, on_sum=norm)
        return write(x, branch, before=norm, after=after, scale=scale)

    def extra_repr(self) -> str:
        return f"{self.order}-norm" if self.order != "both" else "norm on both sides"
