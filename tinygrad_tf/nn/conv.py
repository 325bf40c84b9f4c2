"""Convolutions and pools as modules: each output position reads a few neighbouring input positions. See windows.py."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import whole
from ..tensor import Tensor
from . import functional as F
from . import init
from .module import Module, of_its_own
from .parameter import blank
from .windows import _each


class Conv1d(Module):
    """(B, in, T) or (in, T) -> (B, out, T') or (out, T')   see `F.conv1d`

    weight (out, in / groups, kernel_size) and bias start uniform on +-1 / sqrt(in / groups kernel_size), as torch.nn.Conv1d.
    """

    axes = 1

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
                 dilation: Any = 1, groups: int = 1, bias: bool = True, padding_mode: str = "zeros", device: Any = None,
                 dtype: Any = None, generator: np.random.Generator | None = None):
        whole("in_channels", in_channels), whole("out_channels", out_channels)
        if whole("groups", groups) < 1 or in_channels % groups or out_channels % groups:
            name = type(self).__name__
            raise ValueError(f"{name}: {in_channels} and {out_channels} channels do not divide into {groups} groups")
        if padding_mode != "zeros":
            raise NotImplementedError(f'padding_mode is "zeros", not {padding_mode!r}: cat() and indexing build the others')
        if min(in_channels, out_channels) < 1:
            raise ValueError(f"{type(self).__name__} needs channels, not {in_channels} in and {out_channels} out")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size = _each("kernel_size", kernel_size, self.axes)
        self.stride, self.padding, self.dilation = stride, padding, dilation
        _each("stride", stride, self.axes), _each("dilation", dilation, self.axes)
        if not isinstance(padding, str):
            _each("padding", padding, self.axes, 0)
        self.weight = blank(out_channels, in_channels // groups, *self.kernel_size, dtype=dtype, device=device)
        self.bias = blank(out_channels, dtype=dtype) if bias else None
        self.reset_parameters(generator)

    def reset_parameters(self, generator: np.random.Generator | None = None) -> None:
        bound = 1 / math.sqrt(self.in_channels // self.groups * math.prod(self.kernel_size))
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound, generator)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv1d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        return f"stride={self.stride}, padding={self.padding}"


@of_its_own
class Conv2d(Conv1d):
    """(B, in, H, W) or (in, H, W) -> (B, out, H', W') or (out, H', W')   see `F.conv2d`; starts as Conv1d"""

    axes = 2

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class MaxPool1d(Module):
    """(B, C, T) or (C, T) -> (B, C, T')   see `F.max_pool1d`"""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1, return_indices: bool = False,
                 ceil_mode: bool = False):
        self.kernel_size, self.stride, self.padding, self.dilation = kernel_size, stride, padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode

    def settings(self) -> tuple[Any, ...]:
        return self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices

    def forward(self, x: Tensor) -> Tensor:
        return F.max_pool1d(x, *self.settings())


@of_its_own
class MaxPool2d(MaxPool1d):
    """(B, C, H, W) or (C, H, W) -> (B, C, H', W')   see `F.max_pool2d`"""

    def forward(self, x: Tensor) -> Tensor:
        return F.max_pool2d(x, *self.settings())


class AvgPool1d(Module):
    """(B, C, T) or (C, T) -> (B, C, T')   see `F.avg_pool1d`"""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
                 count_include_pad: bool = True):
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def settings(self) -> tuple[Any, ...]:
        return self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool1d(x, *self.settings())


@of_its_own
class AvgPool2d(AvgPool1d):
    """(B, C, H, W) or (C, H, W) -> (B, C, H', W')   see `F.avg_pool2d`"""

    def forward(self, x: Tensor) -> Tensor:
        return F.avg_pool2d(x, *self.settings())


class AdaptiveAvgPool1d(Module):
    """(B, C, T) or (C, T) -> (B, C, output_size)   see `F.adaptive_avg_pool1d`"""

    def __init__(self, output_size: Any):
        self.output_size = output_size

    def forward(self, x: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(x, self.output_size)


@of_its_own
class AdaptiveAvgPool2d(AdaptiveAvgPool1d):
    """(B, C, H, W) or (C, H, W) -> (B, C, *output_size)   see `F.adaptive_avg_pool2d`"""

    def forward(self, x: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(x, self.output_size)
