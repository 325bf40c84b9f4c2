"""dtypes under PyTorch's names, what is known about each, and bfloat16, which exists in name only."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import bool_, float16, float32, float64, int8, int16, int32, int64, uint8

__all__ = [
    "bfloat16",
    "double",
    "dtype",
    "finfo",
    "float16",
    "float32",
    "float64",
    "get_default_dtype",
    "half",
    "iinfo",
    "int8",
    "int16",
    "int32",
    "int64",
    "long",
    "set_default_dtype",
    "short",
    "uint8",
]  # fmt: skip

dtype = np.dtype
half, double, short, long = float16, float64, int16, int64
BUILTIN_NAMES = {"float": float32, "int": int32, "bool": bool_}  # torch.float: these would hide Python's own in this file


class _Unsupported(NotImplementedError, RecursionError):
    """Of what an object's `dtype` raises, older releases of NumPy pass on RecursionError alone."""


class _BFloat16:
    """A name to compare with and to write into configurations. Whoever makes a tensor with it is told what to take."""

    itemsize = 2

    @property
    def dtype(self) -> Any:  # what NumPy asks a dtype for
        raise _Unsupported("NumPy has no bfloat16: use float32, as autocast on this CPU does")

    def __repr__(self) -> str:
        return "bfloat16"


bfloat16 = _BFloat16()


class finfo:
    """The limits of a float dtype, as Python numbers."""

    def __init__(self, type: Any = float32):
        if np.dtype(type).kind != "f":
            raise TypeError(f"finfo is about dtypes of floats, not {type}: iinfo is about those of integers")
        limits = np.finfo(type)
        self.bits, self.dtype = limits.bits, str(np.dtype(type))
        for name in ("eps", "max", "min", "tiny", "resolution", "smallest_normal"):
            setattr(self, name, float(getattr(limits, name)))


class iinfo:
    """The limits of an integer dtype."""

    def __init__(self, type: Any):
        if np.dtype(type).kind not in "iu":
            raise TypeError(f"iinfo is about dtypes of integers, not {type}: finfo is about those of floats")
        limits = np.iinfo(type)
        self.bits, self.dtype, self.min, self.max = limits.bits, str(np.dtype(type)), limits.min, limits.max


def get_default_dtype() -> np.dtype:
    return float32


def set_default_dtype(d: Any) -> None:
    """Only float32, which it is."""
    if d is bfloat16 or np.dtype(d) != float32:
        raise NotImplementedError(f"the default dtype is float32, not {d}: say dtype= or module.to(dtype) for another")
