"""einops on tensors of this engine: `rearrange`, `reduce`, `repeat`, `einsum`, `pack`, `unpack` and `asnumpy`.

einops finds the backend of a tensor among the subclasses of its AbstractBackend, newest first, so defining one is enough.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from ..einsum import einsum
from ..functions import stack
from ..ops import cat
from ..tensor import Tensor

Backend: Any = import_module("einops._backends").AbstractBackend  # by name: programs that use einops bring it


class TensorBackend(Backend):
    framework_name = "tinygrad_tf"  # a module that is imported, or einops passes the class over

    def is_appropriate_type(self, tensor: Any) -> bool:
        return isinstance(tensor, Tensor)

    def from_numpy(self, x: np.ndarray) -> Tensor:
        return Tensor(x)

    def to_numpy(self, x: Tensor) -> np.ndarray:
        return x.detach().numpy()

    def arange(self, start: int, stop: int) -> Tensor:
        return Tensor(np.arange(start, stop))

    def transpose(self, x: Tensor, axes: Any) -> Tensor:
        return x.permute(axes)

    def reduce(self, x: Tensor, operation: str, axes: Any) -> Tensor:
        """min, max, sum, mean, any, all: along all axes at once; the largest of several axes is amax; prod: one by one"""
        if operation == "prod":
            for axis in sorted(axes, reverse=True):
                x = x.prod(axis)
            return x
        return getattr(x, {"min": "amin", "max": "amax"}.get(operation, operation))(tuple(axes))

    def add_axis(self, x: Tensor, new_position: int) -> Tensor:
        return x.unsqueeze(new_position)

    def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
        for position in sorted(pos2len):
            x = x.unsqueeze(position)
        return x.expand([pos2len.get(i, -1) for i in range(n_axes)])

    def tile(self, x: Tensor, repeats: Any) -> Tensor:
        return x.repeat(repeats)

    def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
        return stack(tensors)

    def concat(self, tensors: list[Tensor], axis: int) -> Tensor:
        return cat(*tensors, dim=axis)

    def is_float_type(self, x: Tensor) -> bool:
        return x.is_floating_point()

    def einsum(self, pattern: str, *x: Tensor) -> Tensor:
        return einsum(pattern, *x)
