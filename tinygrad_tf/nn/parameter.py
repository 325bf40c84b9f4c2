"""`Parameter`: the tensors of a module that an optimizer changes."""

from __future__ import annotations

from typing import Any

from ..tensor import Tensor


class Parameter(Tensor):
    """A tensor that a module owns and an optimizer changes: a leaf that requires a gradient."""

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True, dtype: Any = None):
        super().__init__(data, requires_grad, dtype)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"
