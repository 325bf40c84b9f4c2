"""Activations that transformers seldom use, each as a function and as the module that calls it; the others are activations.py.

At a kink the slope is PyTorch's: that of the side below for a leaky ReLU, ELU and their like, 0 for the functions that are
constant beyond it.
"""

from __future__ import annotations

import math
from typing import Any

from .. import ops
from ..errors import real
from ..tensor import Tensor
from . import init
from .module import Module
from .parameter import blank


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """(...) -> (...)   x above 0, negative_slope x below"""
    if inplace:
        return input.copy_(leaky_relu(input.clone(), negative_slope))  # of a copy: backward needs what was there
    return ops.where(input, input * negative_slope, condition=input.array > 0)


class LeakyReLU(Module):
    """(...) -> (...)   see `leaky_relu`"""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False):
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, x: Tensor) -> Tensor:
        return leaky_relu(x, self.negative_slope, self.inplace)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """(B, C, ...), (C,) or (1,) -> (B, C, ...)   x above 0, weight x below: a leaky ReLU whose slopes are learned"""
    if weight.numel() != 1:
        if input.ndim < 2 or weight.shape != input.shape[1:2]:
            raise ValueError(f"prelu: {weight.numel()} slopes for an input of shape {input.shape}: one, or one a channel")
        weight = weight.reshape(-1, *(1,) * (input.ndim - 2))
    return ops.where(input, input * (weight if weight.numel() != 1 else weight.reshape(())), condition=input.array > 0)


class PReLU(Module):
    """(B, C, ...) -> (B, C, ...)   see `prelu`; the slopes start at `init`"""

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None):
        self.num_parameters, self.init = num_parameters, init
        self.weight = blank(num_parameters, dtype=dtype, device=device)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        init.constant_(self.weight, self.init)

    def forward(self, x: Tensor) -> Tensor:
        return prelu(x, self.weight)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """(...) -> (...)   x above 0, alpha (e ** x - 1) below"""
    if inplace:
        return input.copy_(elu(input.clone(), alpha))
    above = input.array > 0
    return ops.where(input, ops.where(0, input, condition=above).expm1() * alpha, condition=above)


class ELU(Module):
    """(...) -> (...)   see `elu`"""

    def __init__(self, alpha: float = 1.0, inplace: bool = False):
        self.alpha, self.inplace = alpha, inplace

    def forward(self, x: Tensor) -> Tensor:
        return elu(x, self.alpha, self.inplace)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """(...) -> (...)   scale elu(x, alpha), with the two numbers that keep mean 0 and variance 1 (Klambauer et al. 2017)"""
    return input.copy_(selu(input.clone())) if inplace else elu(input, 1.6732632423543772) * 1.0507009873554805


class SELU(Module):
    """(...) -> (...)   see `selu`"""

    def __init__(self, inplace: bool = False):
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        return selu(x, self.inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """(...) -> (...)   x, but at least min_val and at most max_val; slope 0 from there on"""
    if real("min_val", min_val, -math.inf) > real("max_val", max_val, -math.inf):
        raise ValueError(f"hardtanh: min_val {min_val} is above max_val {max_val}")
    if inplace:
        return input.copy_(hardtanh(input.clone(), min_val, max_val))
    beyond = (input.array <= min_val) | (input.array >= max_val)
    return ops.where(input.detach().clamp(min_val, max_val), input, condition=beyond)


class Hardtanh(Module):
    """(...) -> (...)   see `hardtanh`"""

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False):
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace

    def forward(self, x: Tensor) -> Tensor:
        return hardtanh(x, self.min_val, self.max_val, self.inplace)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """(...) -> (...)   x, but at least 0 and at most 6"""
    return hardtanh(input, 0.0, 6.0, inplace)


class ReLU6(Hardtanh):
    """(...) -> (...)   see `relu6`"""

    def __init__(self, inplace: bool = False):
        super().__init__(0.0, 6.0, inplace)


def logsigmoid(input: Tensor) -> Tensor:
    """(...) -> (...)   ln sigmoid(x), written so that nothing overflows"""
    return ops.logsigmoid(input._floats("logsigmoid"))


class LogSigmoid(Module):
    """(...) -> (...)   see `logsigmoid`"""

    def forward(self, x: Tensor) -> Tensor:
        return logsigmoid(x)


def softsign(input: Tensor) -> Tensor:
    """(...) -> (...)   x / (1 + |x|)"""
    return input / (input.abs() + 1)


class Softsign(Module):
    """(...) -> (...)   see `softsign`"""

    def forward(self, x: Tensor) -> Tensor:
        return softsign(x)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """(...) -> (...)   x tanh(ln(1 + e ** x)) (Misra 2020)"""
    return input.copy_(mish(input.clone())) if inplace else input * (-logsigmoid(-input)).tanh()


class Mish(Module):
    """(...) -> (...)   see `mish`"""

    def __init__(self, inplace: bool = False):
        self.inplace = inplace

    def forward(self, x: Tensor) -> Tensor:
        return mish(x, self.inplace)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """(..., 2 n, ...) -> (..., n, ...)   a sigmoid(b), a and b the halves along dim (Dauphin et al. 2017)"""
    size = input.shape[ops.axis(dim, input.ndim)] if input.ndim else 1
    if size % 2:
        raise ValueError(f"glu: an axis of size {size} has no halves; the input has shape {input.shape}")
    a, b = input.split(max(size // 2, 1), dim) if size else (input, input)
    return a * b.sigmoid()


class GLU(Module):
    """(..., 2 n, ...) -> (..., n, ...)   see `glu`"""

    def __init__(self, dim: int = -1):
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return glu(x, self.dim)
