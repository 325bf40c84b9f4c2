"""Feed-forward networks: widen, activate, narrow, at each position on its own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..tensor import Tensor
from . import functional as F
from .linear import Dropout, Linear
from .module import Module

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "relu2": lambda x: F.relu(x).square(),  # So et al. 2021
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, "tanh"),
    "silu": F.silu,
}
GATED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {  # Shazeer 2020
    "swiglu": F.swiglu,
    "geglu": lambda gate, up: F.gelu(gate) * up,
}


class FeedForward(Module):
    """(..., d) -> (..., d)   down(act(up(x))), or down(act(gate(x)) * up(x)) for the gated kinds

    kind: relu, relu2, gelu, gelu_tanh, silu; gated: swiglu, geglu.
    """

    def __init__(self, n_embd: int, n_hidden: int, kind: str = "gelu", bias: bool = True, dropout: float = 0.0,
                 generator: np.random.Generator | None = None):
        if kind not in ACTIVATIONS and kind not in GATED:
            raise ValueError(f"feed-forward kind {kind!r} is none of {', '.join([*ACTIVATIONS, *GATED])}")
        self.kind = kind
        self.gate = Linear(n_embd, n_hidden, bias, generator) if kind in GATED else None
        self.up = Linear(n_embd, n_hidden, bias, generator)
        self.down = Linear(n_hidden, n_embd, bias, generator)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        hidden = GATED[self.kind](self.gate(x), self.up(x)) if self.gate is not None else ACTIVATIONS[self.kind](self.up(x))
        return self.dropout(self.down(hidden))

    def extra_repr(self) -> str:
        return self.kind
