"""What is done to all gradients at once."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from ..errors import called, real, shown
from ..tensor import Tensor
from ..threads import in_parts


def clip_grad_norm_(parameters: Iterable[Tensor] | Tensor, max_norm: float) -> float:
    """Scale all gradients by one factor so that, as one vector, they are at most max_norm long; return the length before.

    If that length is not finite, the gradients are left as they are.
    """
    parameters = listed(parameters)
    real("max_norm", max_norm, -math.inf)
    grads = [p.grad.array for p in parameters if p.grad is not None]
    squares, size = np.empty(len(grads)), sum([g.size for g in grads])
    in_parts(_measure, grads, squares, numbers=size)
    norm = math.sqrt(squares.sum())
    if math.isfinite(norm) and norm > max_norm:
        in_parts(partial(_scale, float(max_norm / (norm + 1e-6))), grads, numbers=size)
    return norm


def listed(parameters: Any) -> list[Tensor]:
    """Parameters as a list, from such a list or from one."""
    if isinstance(parameters, Tensor):
        return [parameters]
    if not np.iterable(parameters):
        raise TypeError(f"{called()}parameters are a list of tensors, as model.parameters(), not {shown(parameters)}")
    return list(parameters)


def _measure(grads: list[np.ndarray], squares: np.ndarray) -> None:
    squares[:] = [np.vdot(g, g) for g in grads]


def _scale(factor: float, grads: list[np.ndarray]) -> None:
    for g in grads:
        g *= factor  # a Python number leaves the dtype of g as it is


def clip_grad_value_(parameters: Iterable[Tensor], clip_value: float) -> None:
    """Bring every element of every gradient to between -clip_value and clip_value."""
    for p in listed(parameters):
        if real("clip_value", clip_value) is not None and p.grad is not None:
            np.clip(p.grad.array, -clip_value, clip_value, out=p.grad.array)
