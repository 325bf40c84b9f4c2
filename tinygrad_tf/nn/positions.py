"""Rotary positions: turn queries and keys by an angle proportional to where they stand."""

from __future__ import annotations

import numpy as np

from .. import fused
from ..tensor import Tensor
from .module import Module


class Rotary(Module):
    """(..., T, D) -> (..., T, D)   pair i of position p turned by p * base^(-2i / D) (Su et al. 2021); no parameters

    A query at p and a key at q then meet at the angle of p - q alone. The pairs are (x_i, x_{i + D/2}), or neighbours
    with interleaved=True. Angles are computed in float64 and used in the dtype of x.
    """

    def __init__(self, head_dim: int, base: float = 10000.0, interleaved: bool = False):
        if head_dim % 2:
            raise ValueError(f"rotary positions turn pairs of numbers: a head width of {head_dim} is odd")
        self.head_dim, self.base, self.interleaved = head_dim, base, interleaved
        self._tables: dict[np.dtype, tuple[np.ndarray, np.ndarray]] = {}

    def angles(self, positions: np.ndarray) -> np.ndarray:
        """positions (T,) -> (T, D / 2) radians"""
        return np.outer(positions, self.base ** (-np.arange(0, self.head_dim, 2) / self.head_dim))

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Turn x, whose first row stands at position `start`."""
        stop = start + x.shape[-2]
        cos, sin = self._tables.get(x.dtype, (np.empty((0, self.head_dim // 2)),) * 2)
        if len(cos) < stop:
            angles = self.angles(np.arange(max(stop, 2 * len(cos))))
            cos, sin = self._tables[x.dtype] = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
        return fused.rotary(x, cos=cos[start:stop], sin=sin[start:stop], interleaved=self.interleaved)

    def extra_repr(self) -> str:
        return f"base={self.base:g}"
