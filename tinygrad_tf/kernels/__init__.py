"""Kernels: the loops inside fused ops, compiled by numba where the extra `fast` is installed.

The function in NumPy is the truth. `@fast` marks one that has a kernel: a loop of the same name in the file of the same name
in this folder, with the same arguments, that leaves the same numbers to 1e-6. Kernels take float32; everything else goes to
NumPy. One whose squares overflow returns true, and the warning is NumPy's own. They are compiled at their first use, which
takes seconds, and kept for every later program, beside their source or where numba puts them if that cannot be written.

The environment variable TINYGRAD_TF_KERNELS forces one of the two: `numpy` or `numba`. It is read when the engine is imported.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from ..engine import FLOAT32

VARIABLE = "TINYGRAD_TF_KERNELS"
LARGEST = np.finfo(np.float32).max
marked: dict[str, Any] = {}  # the functions that have a kernel, by file and name: tests walk it


def chosen() -> str:
    """`numpy` or `numba`: what the environment asks for, else numba where it is installed."""
    asked = os.environ.get(VARIABLE, "")
    if asked not in ("", "numpy", "numba"):
        raise ValueError(f"{VARIABLE} is {asked!r}: it can be numpy or numba")
    there = find_spec("numba") is not None
    if asked == "numba" and not there:
        raise ModuleNotFoundError(f"{VARIABLE} is numba, which is not installed: pip install 'tinygrad_tf[fast]', or unset it")
    return asked or ("numba" if there else "numpy")


IN_USE = chosen()


def fast(function: Callable) -> Any:
    """Run this function's kernel instead of it where kernels are in use and its last argument, an array to fill, is float32.

    `function.numpy` is the function itself, `function.kernel()` its kernel, and `function.in_use(array)` says which of the two
    an array like that goes to.
    """
    file, name = function.__module__.rpartition(".")[2], function.__name__
    found: Callable | None = None

    def load() -> Callable:
        return getattr(import_module(f".{file}", __name__), name)

    def choose() -> Callable:
        nonlocal found
        if found is None:
            try:
                found = load()
            except (ImportError, RuntimeError) as error:  # numba is for another NumPy, or has no place for what it compiles
                if os.environ.get(VARIABLE) == "numba":
                    raise
                warnings.warn(f"numba cannot be used here ({error}): ops go on in NumPy", stacklevel=4)
                found = function
        return found

    @wraps(function)
    def run(*args: Any) -> Any:
        if args[-1].dtype is not FLOAT32:
            function(*args)
        elif (found or choose())(*args):
            np.square(LARGEST)  # tells of an overflow in the way that np.errstate asks for

    call: Any = run if IN_USE == "numba" else function
    call.numpy, call.kernel = function, load
    call.in_use = lambda array: call is run and array.dtype is FLOAT32 and choose() is not function
    marked[f"{file}.{name}"] = call
    return call
