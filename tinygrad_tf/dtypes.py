"""The dtypes that a tensor can hold, and how other data becomes an array of one of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .engine import Traced, recast
from .errors import called, shown

float16, float32, float64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
uint8, int8, int16, int32, int64 = (np.dtype(t) for t in (np.uint8, np.int8, np.int16, np.int32, np.int64))
bool_ = np.dtype(np.bool_)

def as_array(data: Any, dtype: Any = None) -> np.ndarray:
    """The array of a tensor, an array as it is, or Python numbers: floats as float32, integers as int64.

    With a dtype, in that one; OverflowError if it is an integer dtype that cannot hold a number.
    """
    if isinstance(data, Traced):
        array = data.array
    elif isinstance(data, (np.ndarray, np.generic)):
        array = np.asarray(data)
    else:
        if isinstance(data, (list, tuple)):
            if any(isinstance(item, Traced) and item.requires_grad for item in data):
                way = "use stack(), or x.detach()"
                raise TypeError(f"{called()}a list of tensors that require a gradient would leave the graph: {way}")
            data = [as_array(item) if isinstance(item, Traced) else item for item in data]
        try:
            array = np.asarray(data, dtype)
        except (TypeError, ValueError) as error:  # rows of several lengths, words where numbers are wanted, no such dtype
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"{called()}{str(error).splitlines()[0]} (from {shown(data)})") from None
        if dtype is None and array.dtype == float64:
            array = array.astype(float32)
    if dtype is not None:
        array = recast(array, dtype)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{called()}a tensor holds numbers, not {array.dtype} (from {shown(data)})")
    return array


def between(ids: np.ndarray, size: int) -> bool:
    """Whether all of these integers are in 0 ... size - 1."""
    return not ids.size or bool(np.maximum.reduce(ids, None) < size and np.minimum.reduce(ids, None) >= 0)


def as_condition(mask: Any, what: str) -> np.ndarray:
    """A mask as an array; TypeError for a tensor of numbers, as in PyTorch: `mask == 0` or `mask.bool()` say which is meant."""
    if not isinstance(mask, Traced):
        return as_array(mask)
    if mask.array.dtype.kind != "b":
        raise TypeError(f"{what} takes a mask of booleans, not a tensor of dtype {mask.array.dtype}: compare it, or .bool()")
    return mask.array


def as_ids(ids: Any, dtypes: tuple[np.dtype, ...]) -> np.ndarray:
    """Ids as an array; TypeError for a tensor of none of these dtypes, as in PyTorch. Arrays and lists hold any integers."""
    if not isinstance(ids, Traced):
        return as_array(ids)
    if dtypes and ids.array.dtype not in dtypes:
        wanted = " or ".join(map(str, dtypes))
        raise TypeError(f"{called()}a tensor of ids is {wanted} here, not {ids.array.dtype}: .long() converts")
    return ids.array


def check_ids(ids: Any, size: int, dtypes: tuple[np.dtype, ...] = ()) -> np.ndarray:
    """Ids as an array; TypeError unless they are integers, IndexError naming the first that is not in 0 ... size - 1.

    dtypes: those that a tensor of ids may have, if not all.
    """
    ids = as_ids(ids, dtypes)
    if ids.dtype.kind not in "iu":
        raise TypeError(f"{called()}ids must be integers, not {ids.dtype}")
    if not between(ids, size):
        place = tuple(int(i) for i in np.argwhere((ids >= size) | (ids < 0))[0])
        raise IndexError(f"{called()}id {ids[place]} at position {place} is not in a table of {size} rows (0 to {size - 1})")
    return ids
