"""The residual path: what a branch returns is added to what came in, not put in its place."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import ops
from ..tensor import Tensor
from .module import Module, Parameter


def residual(x: Tensor, branch: Tensor) -> Tensor:
    """x + branch, noted in the graph as a residual sum whose skip is x."""
    return ops.residual(x, branch)


class LayerScale(Module):
    """(..., d) -> (..., d)   each coordinate of an update times a learned number that starts small (Touvron et al. 2021)"""

    def __init__(self, n_embd: int, start: float = 0.01):
        self.start = start
        self.weight = Parameter(np.full(n_embd, start, np.float32))

    def forward(self, update: Tensor) -> Tensor:
        return update * self.weight


def write(x: Tensor, branch: Callable[[Tensor], Tensor], *, before: Callable | None = None, after: Callable | None = None,
          scale: Callable | None = None, on_sum: Callable | None = None) -> Tensor:
    """One residual sublayer: on_sum(x + scale(after(branch(before(x))))).

    Pre-norm gives `before`, post-norm `on_sum`, a norm on both sides of the branch `before` and `after`; what is None is left
    out. In pre-norm the path from x to the sum goes through nothing at all.
    """
    update = branch(x if before is None else before(x))
    update = update if after is None else after(update)
    update = update if scale is None else scale(update)
    y = residual(x, update)
    return y if on_sum is None else on_sum(y)


class Residual(Module):
    """(..., d) -> (..., d)   x + branch(x), with norms where `write` puts them, and a learned scale if layer_scale is given"""

    def __init__(self, branch: Module, before: Module | None = None, after: Module | None = None,
                 on_sum: Module | None = None, layer_scale: Module | None = None):
        self.before, self.branch, self.after, self.scale, self.on_sum = before, branch, after, layer_scale, on_sum

    def forward(self, x: Tensor) -> Tensor:
        return write(x, self.branch, before=self.before, after=self.after, scale=self.scale, on_sum=self.on_sum)
