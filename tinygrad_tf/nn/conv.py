"""Conv1d: each output position reads a few neighbouring input positions through one matrix."""

from __future__ import annotations

import math

import numpy as np

from .. import ops
from ..tensor import Tensor
from . import functional as F
from . import init
from .module import Module, Parameter


class Conv1d(Module):
    """(B, in, T) -> (B, out, T')   y_t = weight applied to x_{t stride - padding}, ..., kernel_size positions; + bias

    weight (out, in, kernel_size) and bias start uniform on +-1 / sqrt(in kernel_size), as torch.nn.Conv1d. The neighbours are
    laid one below the other, so that the whole is one matrix product.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int = 1, padding: int = 0,
                 bias: bool = True, generator: np.random.Generator | None = None):
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel_size
        self.stride, self.padding = stride, padding
        bound = 1 / math.sqrt(in_channels * kernel_size)
        self.weight = Parameter(np.empty((out_channels, in_channels, kernel_size), np.float32))
        self.bias = Parameter(np.empty(out_channels, np.float32)) if bias else None
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound, generator)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 3 or x.shape[1] != self.in_channels:
            raise ValueError(f"Conv1d takes inputs of shape (B, {self.in_channels}, T), not {x.shape}")
        x = F.pad(x, (self.padding, self.padding))
        count = (x.shape[2] - self.kernel_size) // self.stride + 1
        if count < 1:
            raise ValueError(f"{x.shape[2]} positions, padding included, are fewer than a kernel of {self.kernel_size}")
        span = self.stride * (count - 1) + 1
        near = ops.cat(*(x[:, :, i : i + span : self.stride] for i in range(self.kernel_size)), dim=1)  # (B, kernel in, T')
        rows = self.weight.permute(0, 2, 1).reshape(self.out_channels, -1)  # (out, in, kernel) -> (out, kernel in)
        y = rows @ near
        return y if self.bias is None else y + self.bias.reshape(-1, 1)

    def extra_repr(self) -> str:
        return f"stride={self.stride}, padding={self.padding}"
