"""`Parameter`: the tensors of a module that an optimizer changes."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..device import on_cpu
from ..engine import Traced
from ..errors import shown, whole
from ..tensor import Tensor

SLOT: Any = vars(Traced)["grad"]  # where every tensor keeps its gradient; of a parameter it is looked at what goes in


def _take(self: Parameter, gradient: Any) -> None:
    if gradient is not None:
        if not isinstance(gradient, Traced):
            raise TypeError(f"the gradient of a parameter is a tensor or None, not {shown(gradient)}: Tensor(...) makes one")
        if gradient.array.shape != self.array.shape:
            raise RuntimeError(f"a gradient of shape {gradient.array.shape} for a parameter of shape {self.array.shape}")
    SLOT.__set__(self, gradient)


class Parameter(Tensor):
    """A tensor that a module owns and an optimizer changes: a leaf that requires a gradient."""

    __slots__ = ()
    grad = property(SLOT.__get__, _take)

    def __init__(self, data: Any, requires_grad: bool = True, dtype: Any = None):
        super().__init__(data, requires_grad, dtype)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


def blank(*shape: int, dtype: Any = None, device: Any = None) -> Parameter:
    """A parameter whose values are still to be written; float32 unless a dtype is given."""
    on_cpu(device)
    return Parameter(np.empty([whole("a size", size, 0) for size in shape], dtype or np.float32))


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
