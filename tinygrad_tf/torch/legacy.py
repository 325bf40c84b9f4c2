"""`torch.Tensor` and its older sisters: classes to ask about and to annotate with, which make tensors of one dtype.

`torch.Tensor([1, 2])` is float32 and `torch.Tensor(2, 3)` has that shape, where the engine's `Tensor(data)` keeps the dtype.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import as_array, bool_, float32, float64, int8, int16, int32, int64, uint8
from ..tensor import Tensor as Base


class _OfOneDtype(type):
    """A tensor is an instance of torch.Tensor, and of torch.LongTensor if it holds int64."""

    dtype: Any

    def __instancecheck__(cls, x: Any) -> bool:
        return isinstance(x, Base) and (cls is Tensor or x.dtype == cls.dtype)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, Base) if cls is Tensor else super().__subclasscheck__(other)


class Tensor(Base, metaclass=_OfOneDtype):
    __slots__ = ()

    def __new__(cls, *args: Any, device: Any = None) -> Any:
        """Zeros of this shape for one or more sizes, else the data in the dtype of the class."""
        dtype: Any = float32 if cls is Tensor else cls.dtype
        if all(isinstance(a, int) for a in args):
            return Base(np.zeros(args or (0,), dtype))
        (data,) = args
        return Base(as_array(data).astype(dtype)).to(device=device)


NAMES = {
    "FloatTensor": float32, "DoubleTensor": float64, "LongTensor": int64, "IntTensor": int32, "ShortTensor": int16,
    "CharTensor": int8, "ByteTensor": uint8, "BoolTensor": bool_,
}  # fmt: skip
CLASSES = {name: _OfOneDtype(name, (Tensor,), {"__slots__": ()}) for name in NAMES}
for _name, _class in CLASSES.items():
    _class.dtype = NAMES[_name]
