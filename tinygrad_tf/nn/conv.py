"""Conv1d: each output position reads a few neighbouring input positions through one matrix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import ops
from ..tensor import Tensor
from . import functional as F
from . import init
from .module import Module
from .parameter import blank


class Conv1d(Module):
    """(B, in, T) or (in, T) -> (B, out, T') or (out, T')   y_t = weight applied to kernel_size positions, + bias

    The positions are t stride - padding + i dilation, i = 0 ... kernel_size - 1, zeros beyond the ends. groups: that many parts
    of the input channels, each for its own part of the output channels. weight (out, in / groups, kernel_size) and bias start
    uniform on +-1 / sqrt(in / groups kernel_size), as torch.nn.Conv1d. The neighbours are laid one below the other, so that the
    whole is one matrix product.
    """

    def __init__(self, in_channels: int, out_channels: int, kernel_size: int, stride: int = 1, padding: int = 0,
                 dilation: int = 1, groups: int = 1, bias: bool = True, generator: np.random.Generator | None = None,
                 device: Any = None, dtype: Any = None):
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ValueError(f"{in_channels} and {out_channels} channels do not divide into {groups} groups")
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel_size
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.weight = blank(out_channels, in_channels // groups, kernel_size, dtype=dtype, device=device)
        self.bias = blank(out_channels, dtype=dtype) if bias else None
        self.reset_parameters(generator)

    def reset_parameters(self, generator: np.random.Generator | None = None) -> None:
        bound = 1 / math.sqrt(self.in_channels // self.groups * self.kernel_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound, generator)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim not in (2, 3) or x.shape[-2] != self.in_channels:
            raise ValueError(f"Conv1d takes inputs of shape (B, {self.in_channels}, T), not {x.shape}")
        if x.ndim == 2:
            return self.forward(x.unsqueeze(0)).squeeze(0)
        x = F.pad(x, (self.padding, self.padding))
        reach = self.dilation * (self.kernel_size - 1)
        count = (x.shape[2] - reach - 1) // self.stride + 1
        if count < 1:
            raise ValueError(f"{x.shape[2]} positions, padding included, are fewer than a kernel of {self.kernel_size} needs: "
                             f"{reach + 1}")  # fmt: skip
        span = self.stride * (count - 1) + 1
        starts = range(0, reach + 1, self.dilation)
        parts = x.reshape(x.shape[0], self.groups, self.in_channels // self.groups, x.shape[2])
        near = ops.cat(*(parts[..., i : i + span : self.stride] for i in starts), dim=2)  # (B, groups, kernel in, T')
        rows = self.weight.permute(0, 2, 1).reshape(self.groups, self.out_channels // self.groups, -1)
        y = (rows @ near).reshape(x.shape[0], self.out_channels, count)
        return y if self.bias is None else y + self.bias.reshape(-1, 1)

    def extra_repr(self) -> str:
        return f"stride={self.stride}, padding={self.padding}"
