"""Starting values, in place. Names are PyTorch's; each takes the generator to draw from."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from ..engine import mark_written
from ..errors import called, real, tensors
from ..random import default as default_generator
from ..special import normal_below
from ..tensor import Tensor

_skipped = ContextVar("_skipped", default=False)


@contextmanager
def skipped() -> Iterator[None]:
    """Inside, normal_ and uniform_ leave a tensor as it is: for a model whose values come from a file.

    What np.empty gives takes no memory before somebody writes into it, so such a model costs nothing to make.
    """
    token = _skipped.set(True)
    try:
        yield
    finally:
        _skipped.reset(token)


def _write(tensor: Tensor, values: Any) -> Tensor:
    tensors(tensor=tensor)
    tensor.array[...] = values
    mark_written(tensor.array)
    return tensor


def zeros_(tensor: Tensor) -> Tensor:
    return _write(tensor, 0)


def ones_(tensor: Tensor) -> Tensor:
    return _write(tensor, 1)


def constant_(tensor: Tensor, val: float) -> Tensor:
    return _write(tensor, real("val", val, -math.inf))


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: np.random.Generator | None = None) -> Tensor:
    tensors(tensor=tensor)
    real("mean", mean, -math.inf), real("std", std)
    return tensor if _skipped.get() else _write(tensor, (generator or default_generator()).normal(mean, std, tensor.shape))


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: np.random.Generator | None = None) -> Tensor:
    tensors(tensor=tensor)
    if real("a", a, -math.inf) > real("b", b, -math.inf):
        raise ValueError(f"uniform_: there is no number from {a} up to {b}")
    return tensor if _skipped.get() else _write(tensor, (generator or default_generator()).uniform(a, b, tensor.shape))


def trunc_normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0,
                  generator: np.random.Generator | None = None) -> Tensor:
    """Normal, of those draws alone that lie between a and b: the inverse of the distribution function, at uniform draws."""
    if _skipped.get():
        return tensor
    if not (real("std", std) > 0 and a < b):
        raise ValueError(f"trunc_normal_: a standard deviation above 0, and a below b, not {std}, {a}, {b}")
    inside = np.clip(np.linspace(max(a, mean - 9 * std), min(b, mean + 9 * std), 20_001), a, b)
    below = normal_below((inside - mean) / std)
    draws = (generator or default_generator()).uniform(below[0], below[-1], tensor.shape)
    return _write(tensor, np.interp(draws, below, inside))


def eye_(tensor: Tensor) -> Tensor:
    """The identity: a Linear of this weight passes on what it reads."""
    if tensor.ndim != 2:
        raise ValueError(f"eye_ takes a matrix, not a tensor of shape {tensor.shape}")
    rows, columns = tensor.shape
    return _write(tensor, np.eye(rows, columns))


def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: np.random.Generator | None = None) -> Tensor:
    """gain times a matrix (all axes but the first as one) whose rows, or columns if they are fewer, are orthonormal

    It is the Q of a QR decomposition of normal draws, with the signs that make it uniform (Saxe et al. 2014).
    """
    if tensor.ndim < 2:
        raise ValueError(f"orthogonal_ takes two axes or more, not a tensor of shape {tensor.shape}")
    if _skipped.get() or not tensor.numel():
        return tensor
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    draws = (generator or default_generator()).standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(draws)
    q *= np.sign(np.diag(r))
    return _write(tensor, gain * (q if rows >= columns else q.T).reshape(tensor.shape))


def _calculate_fan_in_and_fan_out(tensor: Tensor) -> tuple[int, int]:
    """(numbers read, numbers written) by a weight (out, in, ...)."""
    tensors(tensor=tensor)
    if tensor.ndim < 2:
        raise ValueError(f"{called()}a weight of shape {tensor.shape} has no fan-in: it needs two axes or more")
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: np.random.Generator | None = None) -> Tensor:
    """Uniform with variance 2 gain^2 / (fan in + fan out) (Glorot and Bengio 2010)."""
    bound = gain * math.sqrt(6 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: np.random.Generator | None = None) -> Tensor:
    """Normal with variance 2 gain^2 / (fan in + fan out) (Glorot and Bengio 2010)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_calculate_fan_in_and_fan_out(tensor))), generator)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a weight's standard deviation makes up for what the nonlinearity after it takes away.

    param: the slope of a leaky ReLU below zero, 0.01 if None.
    """
    if nonlinearity in ("linear", "sigmoid", "conv1d", "conv2d", "conv3d"):
        return 1.0
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    gains = {"tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}
    if nonlinearity not in gains:
        raise ValueError(f"no gain is known for {nonlinearity!r}: linear, sigmoid, leaky_relu, {', '.join(gains)} have one")
    return gains[nonlinearity]


def _kaiming(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    """The standard deviation gain / sqrt(fan), the fan being that of the numbers read or of those written."""
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f'mode is "fan_in" or "fan_out", not {mode!r}')
    fan = _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if tensor.numel() else 0.0


def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                     generator: np.random.Generator | None = None) -> Tensor:
    """Uniform with variance gain^2 / fan; by default for layers that a leaky ReLU of slope a follows (He et al. 2015)."""
    bound = math.sqrt(3) * _kaiming(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu",
                    generator: np.random.Generator | None = None) -> Tensor:
    """Normal with variance gain^2 / fan; by default for layers that a leaky ReLU of slope a follows (He et al. 2015)."""
    return normal_(tensor, 0.0, _kaiming(tensor, a, mode, nonlinearity), generator)


kaiming_uniform, kaiming_normal = kaiming_uniform_, kaiming_normal_  # their names before PyTorch 0.4
