"""`Parameter`: the tensors of a module that an optimizer changes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..device import on_cpu
from ..tensor import Tensor


class Parameter(Tensor):
    """A tensor that a module owns and an optimizer changes: a leaf that requires a gradient."""

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True, dtype: Any = None):
        super().__init__(data, requires_grad, dtype)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


def blank(*shape: int, dtype: Any = None, device: Any = None) -> Parameter:
    """A parameter whose values are still to be written; float32 unless a dtype is given."""
    on_cpu(device)
    return Parameter(np.empty(shape, dtype or np.float32))


class Uninitialized(Tensor):
    """A tensor of a lazy layer, whose shape is not known before the layer's first input, or the state that it takes over."""

    __slots__ = ()

    def materialize(self, shape: tuple[int, ...]) -> None:
        """Become an ordinary tensor of this shape, with values that are still to be written."""
        self.array = np.zeros(shape, self.dtype)
        self.__class__ = Parameter if isinstance(self, Parameter) else Tensor  # type: ignore[assignment]

    def numel(self) -> int:
        raise RuntimeError("a parameter or buffer of a lazy layer has no shape yet: call the model once on an input first")

    @property
    def shape(self) -> Any:
        return self.numel()


class UninitializedParameter(Uninitialized, Parameter):
    """A parameter of a lazy layer."""

    __slots__ = ()


def lazy(kind: type[Uninitialized], dtype: Any = None, device: Any = None) -> Any:
    """A tensor of this class without memory; nothing can be written into it."""
    on_cpu(device)
    nothing = np.empty(0, dtype or np.float32)
    nothing.flags.writeable = False
    return kind(nothing)
