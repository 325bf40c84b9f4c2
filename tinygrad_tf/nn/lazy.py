"""Layers that learn the size of their input from the first one, and then are the ordinary layer."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor
from .batchnorm import BatchNorm1d
from .linear import Linear
from .parameter import Uninitialized, UninitializedParameter, lazy


class LazyLinear(Linear):
    """(..., in) -> (..., out)   Linear, with `in` taken from the first input; an optimizer is made afterwards"""

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None):
        self.in_features, self.out_features = 0, out_features
        self.weight = lazy(UninitializedParameter, dtype, device)
        self.bias = lazy(UninitializedParameter, dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        waiting: list[Any] = [t for t in (self.weight, self.bias) if isinstance(t, Uninitialized)]
        for tensor in waiting:
            tensor.materialize((self.out_features, *x.shape[-1:]) if tensor is self.weight else (self.out_features,))
        self.in_features = self.weight.shape[1]
        if waiting:  # nothing came from a state
            self.reset_parameters()
        self.__class__ = Linear  # type: ignore[assignment]
        return Linear.forward(self, x)


class LazyBatchNorm1d(BatchNorm1d):
    """(N, C), (N, C, T) -> the same   BatchNorm1d, with C taken from the first input; an optimizer is made afterwards"""

    def __init__(self, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True, track_running_stats: bool = True,
                 device: Any = None, dtype: Any = None, *, bias: bool = True):
        self.num_features, self.eps, self.momentum = 0, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.weight = lazy(UninitializedParameter, dtype, device) if affine else None
        self.bias = lazy(UninitializedParameter, dtype) if affine and bias else None
        kept = lambda: lazy(Uninitialized, dtype) if track_running_stats else None
        self._hold(kept(), kept())

    def forward(self, x: Tensor) -> Tensor:
        waiting = [t for t in (self.weight, self.bias, self.running_mean, self.running_var) if isinstance(t, Uninitialized)]
        self.num_features = x.shape[1]
        for tensor in waiting:
            tensor.materialize((self.num_features,))
        if waiting:
            self.reset_parameters()
        self.__class__ = BatchNorm1d  # type: ignore[assignment]
        return BatchNorm1d.forward(self, x)
