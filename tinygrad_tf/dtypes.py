"""The dtypes that a tensor can hold, and how other data becomes an array of one of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .engine import Traced, recast

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
                raise TypeError("a list of tensors that require a gradient would leave the graph: use stack(), or x.detach()")
            data = [as_array(item) if isinstance(item, Traced) else item for item in data]
        array = np.asarray(data, dtype)
        if dtype is None and array.dtype == float64:
            array = array.astype(float32)
    if dtype is not None:
        array = recast(array, dtype)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"a tensor holds numbers, not {array.dtype} (from {type(data).__name__})")
    return array


def check_ids(ids: Any, size: int) -> np.ndarray:
    """Ids as an array; TypeError unless they are integers, IndexError naming the first that is not in 0 ... size - 1."""
    ids = as_array(ids)
    if ids.dtype.kind not in "iu":
        raise TypeError(f"ids must be integers, not {ids.dtype}")
    if ids.size and (int(ids.max()) >= size or int(ids.min()) < 0):
        place = tuple(int(i) for i in np.argwhere((ids >= size) | (ids < 0))[0])
        raise IndexError(f"id {ids[place]} at position {place} is not in a table of {size} rows (0 to {size - 1})")
    return ids
