"""Functions that make tensors: the engine's, with PyTorch's `device`, `requires_grad` and `pin_memory` beside its arguments."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from .. import functions
from ..device import on_cpu
from ..dtypes import float32, int64
from ..errors import real
from ..random import source
from ..tensor import Tensor, _sizes

__all__ = [
    "arange", "as_tensor", "asarray", "bernoulli", "empty", "empty_like", "eye", "from_numpy", "full", "full_like", "linspace",
    "multinomial", "normal", "ones", "ones_like", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like",
    "randperm", "tensor", "tril_indices", "triu_indices", "zeros", "zeros_like",
]  # fmt: skip


def _placed(make: Callable) -> Callable[..., Tensor]:
    """The function with the arguments that say where a tensor is, which can only be here, and that it wants a gradient."""

    @wraps(make)
    def call(*args: Any, device: Any = None, pin_memory: bool = False, requires_grad: bool = False, **settings: Any) -> Tensor:
        on_cpu(device)
        if "dtype" in settings and settings["dtype"] is None:
            del settings["dtype"]
        if "size" in settings and not args:  # zeros(size=(2, 3))
            args = (settings.pop("size"),) if make is not functions.randint else args
        out = make(*args, **settings)
        return out.requires_grad_() if requires_grad else out

    return call


tensor, zeros, ones, empty = (_placed(f) for f in (functions.tensor, functions.zeros, functions.ones, functions.empty))
full, arange, linspace, eye = (_placed(f) for f in (functions.full, functions.arange, functions.linspace, functions.eye))
rand, randn, randint = (_placed(f) for f in (functions.rand, functions.randn, functions.randint))
zeros_like, ones_like, full_like = (_placed(f) for f in (functions.zeros_like, functions.ones_like, functions.full_like))
randperm = _placed(functions.randperm)
empty_like = zeros_like
from_numpy, multinomial = functions.from_numpy, functions.multinomial


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """The tensor itself where nothing changes, a view of a NumPy array where its dtype stays, else a new tensor."""
    on_cpu(device)
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    return functions.as_tensor(data, dtype)


asarray = as_tensor


@_placed
def rand_like(input: Tensor, dtype: Any = None, generator: Any = None) -> Tensor:
    return functions.rand(input.shape, generator=generator, dtype=dtype or input.dtype)


@_placed
def randn_like(input: Tensor, dtype: Any = None, generator: Any = None) -> Tensor:
    return functions.randn(input.shape, generator=generator, dtype=dtype or input.dtype)


@_placed
def randint_like(input: Tensor, low: int, high: int | None = None, dtype: Any = None) -> Tensor:
    low, high = (0, low) if high is None else (low, high)
    return functions.randint(low, high, input.shape).to(dtype or input.dtype)


@_placed
def normal(mean: Any, std: Any = 1.0, size: Any = None, generator: Any = None, dtype: Any = float32) -> Tensor:
    """Normal numbers: of this size, or one for each element of `mean` and `std`."""
    mean, std = (x.array if isinstance(x, Tensor) else real(name, x, -np.inf) for name, x in (("mean", mean), ("std", std)))
    if (np.asarray(std) < 0).any():
        raise RuntimeError(f"normal: std must not be negative: {std}")
    draw = source(generator).normal(mean, std, None if size is None else _sizes((size,)))
    return Tensor(np.asarray(draw, dtype))


def bernoulli(input: Tensor, generator: Any = None) -> Tensor:
    """1 with the probability that `input` holds, else 0."""
    p = input.array
    if not ((p >= 0) & (p <= 1)).all():
        raise RuntimeError("bernoulli: a probability lies between 0 and 1")
    return Tensor((source(generator).random(p.shape) < p).astype(p.dtype))


@_placed
def tril_indices(row: int, col: int, offset: int = 0, dtype: Any = int64) -> Tensor:
    """(2, n): rows and columns of the places on and below the diagonal"""
    return Tensor(np.stack(np.tril_indices(row, offset, col)).astype(dtype))


@_placed
def triu_indices(row: int, col: int, offset: int = 0, dtype: Any = int64) -> Tensor:
    """(2, n): rows and columns of the places on and above the diagonal"""
    return Tensor(np.stack(np.triu_indices(row, offset, col)).astype(dtype))
