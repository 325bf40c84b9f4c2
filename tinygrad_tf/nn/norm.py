"""LayerNorm and RMSNorm: bring every position to the same scale before a branch reads it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor import Tensor
from . import functional as F
from .module import Module, Parameter


class LayerNorm(Module):
    """(..., d) -> (..., d)   weight * (x - mean) / sqrt(var + eps) + bias, over the last axis (or axes)

    The variance divides by d (Ba et al. 2016). The sum of the output has no input gradient: the mean is taken out.
    """

    def __init__(self, normalized_shape: Any, eps: float = 1e-5, elementwise_affine: bool = True, bias: bool = True):
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.weight = Parameter(np.ones(self.normalized_shape, np.float32)) if elementwise_affine else None
        self.bias = Parameter(np.zeros(self.normalized_shape, np.float32)) if elementwise_affine and bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """(..., d) -> (..., d)   weight * x / sqrt(mean(x^2) + eps), over the last axis (Zhang and Sennrich 2019)

    The mean is not subtracted, and a positive factor on x changes nothing as eps goes to 0.
    """

    def __init__(self, normalized_shape: Any, eps: float | None = 1e-6, elementwise_affine: bool = True):
        self.normalized_shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.eps = eps
        self.weight = Parameter(np.ones(self.normalized_shape, np.float32)) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)
