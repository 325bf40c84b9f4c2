"""LayerNorm, RMSNorm and GroupNorm: bring every position to the same scale before a branch reads it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import real, whole
from ..tensor import Tensor
from . import functional as F
from . import init
from .module import Module
from .parameter import blank


def sizes_of(normalized_shape: Any) -> tuple[int, ...]:
    """One size or several, as a tuple."""
    sizes = normalized_shape if np.iterable(normalized_shape) else (normalized_shape,)
    return tuple(whole("normalized_shape", size, 0) for size in sizes)


class LayerNorm(Module):
    """(..., d) -> (..., d)   weight * (x - mean) / sqrt(var + eps) + bias, over the last axis (or axes)

    The variance divides by d (Ba et al. 2016). The sum of the output has no input gradient: the mean is taken out.
    """

    def __init__(self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True,
                 device: Any = None, dtype: Any = None):
        self.normalized_shape = sizes_of(normalized_shape)
        self.eps, self.elementwise_affine = real("eps", eps), elementwise_affine
        self.weight = blank(*self.normalized_shape, dtype=dtype, device=device) if elementwise_affine else None
        self.bias = blank(*self.normalized_shape, dtype=dtype) if elementwise_affine and bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """(..., d) -> (..., d)   weight * x / sqrt(mean(x^2) + eps), over the last axis (Zhang and Sennrich 2019)

    The mean is not subtracted, and a positive factor on x changes nothing as eps goes to 0.
    """

    def __init__(self, normalized_shape: Any, eps: float | None = 1e-6, elementwise_affine: bool = True,
                 device: Any = None, dtype: Any = None):
        self.normalized_shape = sizes_of(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self.weight = blank(*self.normalized_shape, dtype=dtype, device=device) if elementwise_affine else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)


class GroupNorm(Module):
    """(B, C, ...) -> the same   weight * (x - mean) / sqrt(var + eps) + bias, see `F.group_norm`; weight and bias (C,)"""

    def __init__(self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: Any = None,
                 dtype: Any = None):
        if whole("num_groups", num_groups) < 1 or whole("num_channels", num_channels) % num_groups:
            raise ValueError(f"GroupNorm: {num_channels} channels do not divide into {num_groups} groups")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self.weight = blank(num_channels, dtype=dtype, device=device) if affine else None
        self.bias = blank(num_channels, dtype=dtype) if affine else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        if self.weight is not None and self.bias is not None:
            init.ones_(self.weight)
            init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        return F.group_norm(x, self.num_groups, self.weight, self.bias, self.eps)
