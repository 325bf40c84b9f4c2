"""Parameters in a list or by name: found by the optimizer, as those that are plain attributes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..errors import shown
from ..tensor import Tensor
from .module import Module
from .parameter import Parameter


class ParameterDict(Module):
    """Parameters by name. A tensor that is put in becomes a parameter."""

    def __init__(self, parameters: Any = ()):
        self.update(parameters)

    def _held(self) -> dict[str, Parameter]:
        return {name: value for name, value in vars(self).items() if isinstance(value, Parameter)}

    def update(self, parameters: Any) -> None:
        for name, value in dict(parameters).items():
            self[name] = value

    def __setitem__(self, name: str, value: Tensor) -> None:
        if not name or "." in name or hasattr(type(self), name):
            raise KeyError(f"{type(self).__name__} cannot hold a parameter under the name {name!r}")
        setattr(self, name, value if isinstance(value, Parameter) else Parameter(value))

    def __getitem__(self, name: str) -> Any:
        return self._held()[name]

    def __contains__(self, name: str) -> bool:
        return name in self._held()

    def __len__(self) -> int:
        return len(self._held())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._held())

    def keys(self) -> Any:
        return self._held().keys()

    def values(self) -> Any:
        return self._held().values()

    def items(self) -> Any:
        return self._held().items()


class ParameterList(ParameterDict):
    """Parameters in a list, under the names "0", "1" and so on. A tensor that is put in becomes a parameter."""

    def __init__(self, values: Iterable[Tensor] = ()):
        if not np.iterable(values):
            raise TypeError(f"ParameterList takes a list of tensors, not {shown(values)}")
        self.extend(values)

    def append(self, value: Tensor) -> ParameterList:
        super().__setitem__(str(len(self)), value)
        return self

    def extend(self, values: Iterable[Tensor]) -> ParameterList:
        for value in values:
            self.append(value)
        return self

    def __getitem__(self, index: Any) -> Any:
        found = list(self._held().values())[index]
        return ParameterList(found) if isinstance(index, slice) else found

    def __setitem__(self, index: Any, value: Tensor) -> None:
        super().__setitem__(str(range(len(self))[index]), value)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._held().values()))
