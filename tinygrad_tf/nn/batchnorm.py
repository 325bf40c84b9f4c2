"""BatchNorm1d and BatchNorm2d: each channel to one scale, over the batch. In evaluation with what it has seen in training."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..engine import mark_written
from ..recompute import running_again
from ..tensor import Tensor
from . import functional as F
from . import init
from .module import Module, of_its_own
from .parameter import blank


class BatchNorm1d(Module):
    """(N, C), (N, C, T) -> the same   weight * (x - mean) / sqrt(var + eps) + bias, for each channel (Ioffe and Szegedy 2015)

    In training mean and variance are those of the batch, so that what becomes of one example depends on the others; the running
    ones, buffers, move by `momentum` of the way to them (None: they are the mean of all batches so far), and are used in
    evaluation. track_running_stats=False: always those of the batch.
    """

    ranks: tuple[int, ...] = (2, 3)  # how many axes an input has
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1, affine: bool = True,
                 track_running_stats: bool = True, device: Any = None, dtype: Any = None, *, bias: bool = True):
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        self.weight = blank(num_features, dtype=dtype, device=device) if affine else None
        self.bias = blank(num_features, dtype=dtype) if affine and bias else None
        kept = lambda: Tensor(np.empty(num_features, dtype or np.float32)) if track_running_stats else None
        self._hold(kept(), kept())
        self.reset_parameters()

    def _hold(self, mean: Tensor | None, var: Tensor | None) -> None:
        self.register_buffer("running_mean", mean)
        self.register_buffer("running_var", var)
        self.register_buffer("num_batches_tracked", None if mean is None else Tensor(np.array(0)))

    def reset_running_stats(self) -> None:
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            init.zeros_(self.running_mean)
            init.ones_(self.running_var)
            init.zeros_(self.num_batches_tracked)

    def reset_parameters(self) -> None:
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        name = type(self).__name__
        if x.ndim not in self.ranks:
            shapes = "(N, C, H, W)" if self.ranks == (4,) else "(N, C) or (N, C, T)"
            raise ValueError(f"{name} takes inputs of shape {shapes}, not {x.shape}")
        if x.shape[1] != self.num_features:
            raise ValueError(f"{name} of {self.num_features} channels does not fit an input of shape {x.shape}")
        momentum = self.momentum
        if self.training and self.num_batches_tracked is not None:
            if not running_again():
                self.num_batches_tracked.array += 1
                mark_written(self.num_batches_tracked.array)
            momentum = 1 / self.num_batches_tracked.item() if momentum is None else momentum
        of_the_batch = self.training or self.running_mean is None
        return F.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, of_the_batch, momentum or 0.0,
                            self.eps)  # fmt: skip

    def extra_repr(self) -> str:
        return f"{self.num_features}, momentum={self.momentum}"


@of_its_own
class BatchNorm2d(BatchNorm1d):
    """(N, C, H, W) -> the same   BatchNorm1d for pictures"""

    ranks = (4,)
