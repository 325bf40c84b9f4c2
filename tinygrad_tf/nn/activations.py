"""Activations, and other layers without parameters, as modules."""

from __future__ import annotations

from typing import Any

from ..errors import shown, whole
from ..tensor import Tensor
from . import functional as F
from .module import Module


class ReLU(Module):
    """(...) -> (...)   max(x, 0)"""

    def __init__(self, inplace: bool = False):
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x, self.inplace)


class GELU(Module):
    """(...) -> (...)   x times the standard normal distribution function; approximate="tanh" for GPT-2's form"""

    def __init__(self, approximate: str = "none"):
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(x, self.approximate)


class SiLU(Module):
    """(...) -> (...)   x * sigmoid(x)"""

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(x)


class Tanh(Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.tanh(x)


class Sigmoid(Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.sigmoid(x)


class Softplus(Module):
    """(...) -> (...)   ln(1 + e ** (beta x)) / beta, a smooth ReLU"""

    def __init__(self, beta: float = 1.0, threshold: float = 20.0):
        self.beta, self.threshold = beta, threshold

    def forward(self, x: Tensor) -> Tensor:
        return F.softplus(x, self.beta, self.threshold)


class Flatten(Module):
    """(B, ...) -> (B, product)   the axes from start_dim to end_dim as one"""

    def __init__(self, start_dim: int = 1, end_dim: int = -1):
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(self.start_dim, self.end_dim)


class Unflatten(Module):
    """(..., n, ...) -> (..., *unflattened_size, ...)   the axis dim as several"""

    def __init__(self, dim: int, unflattened_size: Any):
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(f"Unflatten: unflattened_size is a tuple of sizes, not {shown(unflattened_size)}")
        self.dim, self.unflattened_size = whole("dim", dim), tuple(unflattened_size)

    def forward(self, x: Tensor) -> Tensor:
        return x.unflatten(self.dim, self.unflattened_size)


class Softmax(Module):
    def __init__(self, dim: int):
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return F.softmax(x, self.dim)


class LogSoftmax(Module):
    def __init__(self, dim: int):
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return F.log_softmax(x, self.dim)
