"""Kernels: the loops inside fused ops, compiled by numba where the extra `fast` is installed.

The function in NumPy is the truth. `@fast` marks one that has a kernel: a loop of the same name in the file of the same name
in this folder, with the same arguments, that leaves the same numbers to 1e-6. Kernels take float32; everything else goes to
NumPy. One whose squares overflow returns true, and the warning is NumPy's own. They are compiled at their first use, which
takes seconds, and kept for every later program, beside their source or where numba puts them if that cannot be written.
Without a folder for them ops go on in NumPy.

The environment variable TINYGRAD_TF_KERNELS forces one of the two: `numpy` or `numba`. It is read when the engine is imported,
and another word ends the import; the commands then say so in one line, and `tinygrad-tf doctor` among its findings.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from .. import process
from ..engine import FLOAT32

VARIABLE = "TINYGRAD_TF_KERNELS"
INSTALL = "pip install numba, or pip install -e '.[fast]' in a clone"
DEEPEST = 20  # functions that a kernel and what it calls are, at most
LARGEST = np.finfo(np.float32).max
marked: dict[str, Any] = {}  # the functions that have a kernel, by file and name: tests walk it


def chosen() -> str:
    """`numpy` or `numba`: what the environment asks for, else numba where it is installed."""
    there = find_spec("numba") is not None
    if asked() not in ("", "numpy", "numba"):
        raise ValueError(f"{VARIABLE} is {os.environ[VARIABLE]!r}: it can be numpy or numba, or unset")
    if asked() == "numba" and not there:
        raise ModuleNotFoundError(f"{VARIABLE} is numba, which is not installed: {INSTALL}; or unset {VARIABLE}")
    return asked() or ("numba" if there else "numpy")


def asked() -> str:
    """What the environment asks for, as it is meant: " Numba" is numba."""
    return os.environ.get(VARIABLE, "").strip().lower()


try:
    IN_USE = chosen()
except (ValueError, ImportError) as error:
    if not process.runs(*process.ROOMS):
        raise
    if not process.examines():
        process.refuse(error)
    IN_USE = "numpy"  # the doctor asks `chosen` again


@cache
def lacking() -> str:
    """Why numba, which is in use, cannot work here; "" if it can. Said once, in a warning. ImportError if it was asked for."""
    try:
        if _folder():
            return ""
        reason = "NUMBA_DISABLE_JIT is set"
    except ImportError as error:  # as for another NumPy
        reason = str(error)
    except RuntimeError as error:
        reason = str(error)
        if "no locator" in reason:
            reason = "it finds no folder to keep what it compiles; NUMBA_CACHE_DIR can name one"
    except ValueError as error:  # a variable of numba's that is 0
        reason = f"{str(error).rstrip('.')}; NUMBA_NUM_THREADS can be unset"
    if asked() == "numba":
        raise ImportError(f"{VARIABLE} is numba, which cannot be used here ({reason}); unset it, or mend that")
    tell(f"numba cannot be used here ({reason}): ops go on in NumPy")
    return reason


@cache  # numba makes Python forget which warnings it has shown
def tell(message: str) -> None:
    warnings.warn(message, stacklevel=2)


def _folder() -> Path | None:
    """Where numba keeps what it compiles of the kernels; None where it compiles nothing. Raises what `lacking` tells of."""
    stats = getattr(import_module(".loops", __name__).exp, "stats", None)  # every kernel needs that file
    return None if stats is None else Path(stats.cache_path)


def again(error: Exception, kernel: Any, args: tuple) -> Any:
    """What a kernel returns after all, that has raised this error: what is kept of it could not be written, or not be read.

    A file that a crash left empty, or half of one, may raise anything: then all that is kept goes, once, and is compiled anew.
    """
    if isinstance(error, OSError):
        tell(f"what numba compiles cannot be kept ({error.strerror or error}): every program compiles it again")
        for _ in range(DEEPEST):  # each call compiles one function more before it says so
            with suppress(OSError):
                return kernel(*args)
    elif not _forgotten():
        raise error
    return kernel(*args)


def _forgotten() -> bool:
    """Whether something was kept of the kernels, which is removed. Once in a program: what fails again has another reason."""
    global _trusted
    folder, _trusted = _folder() if _trusted else None, False
    kept = list(folder.glob("*.nb[ic]")) if folder else []
    for path in kept:
        path.unlink(missing_ok=True)
    return bool(kept)


_trusted = True  # what is kept


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
            found = function if lacking() else load()
        return found

    @wraps(function)
    def run(*args: Any) -> Any:
        if args[-1].dtype is not FLOAT32:
            function(*args)
            return
        kernel = found or choose()
        try:
            overflow = kernel(*args)
        except Exception as error:
            overflow = again(error, kernel, args)
        if overflow:
            np.square(LARGEST)  # tells of an overflow in the way that np.errstate asks for

    call: Any = run if IN_USE == "numba" else function
    call.numpy, call.kernel = function, load
    call.in_use = lambda array: call is run and array.dtype is FLOAT32 and choose() is not function
    marked[f"{file}.{name}"] = call
    return call
