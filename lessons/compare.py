"""Results as data: whether two are the same, how one differs, what one is in a few words.

Tensors count as their arrays, and a list of numbers as an array; True is not 1. Shapes must match exactly. Objects without
`==` of their own, as modules and functions are, are the same when their attributes are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_tf import Tensor

DEPTH = 6  # objects inside objects that are compared
SMALL = 12  # an array with more elements is told by its shape
KINDS = {"b": "True or False", "i": "whole numbers", "f": "numbers", "c": "complex numbers", "U": "text"}


def plain(value: Any) -> Any:
    """A Tensor as its array, numbers and lists of numbers as arrays, anything else as it is."""
    if isinstance(value, Tensor):
        return np.asarray(value.array)
    if isinstance(value, (bool, int, float, complex, np.generic, np.ndarray)):
        return _array(value)
    if isinstance(value, (list, tuple)) and value:
        inside = [plain(item) for item in value]
        if (
            all(isinstance(item, np.ndarray) for item in inside)
            and len({(item.shape, item.dtype == bool) for item in inside}) == 1
        ):
            return np.stack(inside)
        return inside
    if isinstance(value, (list, tuple)):
        return _array(np.array([]))
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def _array(value: Any) -> Any:
    try:
        array = np.asarray(value)
    except OverflowError:
        return value
    return array if array.dtype.kind in "biufcU" else value


def same(a: Any, b: Any, tolerance: float) -> bool:
    """Whether both are the same, numbers within the tolerance; NaN is the same as NaN."""
    return _difference(plain(a), plain(b), tolerance, "") == ""


def difference(mine: Any, expected: Any, tolerance: float) -> str:
    """The first thing in which they differ, in words: the shape, then an element. '' if nothing."""
    return _difference(plain(mine), plain(expected), tolerance, "")


def misfit(mine: Any, expected: Any) -> str:
    """How the form differs, in words: one value where a pair is to be returned, or another shape. '' if only numbers can."""
    if isinstance(expected, tuple) and len(expected) > 1:
        wanted = "a pair" if len(expected) == 2 else f"a tuple of {len(expected)}"
        value, theirs = plain(mine), plain(expected)
        if isinstance(mine, (list, tuple)):
            if len(mine) != len(expected):
                return f"return {wanted}: yours has {len(mine)} value{'s' * (len(mine) != 1)}"
        elif not isinstance(value, np.ndarray):
            return f"return {wanted}: yours is {words(mine)}"
        elif not isinstance(theirs, np.ndarray) or theirs.shape != value.shape:
            return f"return {wanted}: yours is {f'one array of {_shape(value)}' if value.ndim else _shape(value)}"
    return _difference(plain(mine), plain(expected), np.inf, "")


def _difference(a: Any, b: Any, tolerance: float, where: str, depth: int = 0) -> str:
    at = f" at {where}" if where else ""
    if a is b:
        return ""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.shape != b.shape:
            return f"{_shape(b)} expected{at}, yours is {_shape(a)}"
        kinds = ["f" if array.dtype.kind in "iuf" else array.dtype.kind for array in (a, b)]
        if kinds[0] != kinds[1]:
            wanted, given = (KINDS.get(kind, "an array of objects") for kind in reversed(kinds))
            return f"{wanted} expected{at}, yours gives {given}"
        if tolerance == np.inf:  # only the form is asked for
            return ""
        if kinds[0] in "bU":
            wrong = a != b
        else:
            with np.errstate(all="ignore"):
                wrong = ~np.isclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True)
        if not wrong.any():
            return ""
        index = tuple(int(i) for i in np.argwhere(wrong)[0])
        place = where + "".join(f"[{i}]" for i in index)
        return f"{_number(b[index])} expected{f' at {place}' if place else ''}, yours gives {_number(a[index])}"
    if all(isinstance(side, list) or (isinstance(side, np.ndarray) and side.ndim) for side in (a, b)):
        if len(a) != len(b):
            return f"{len(b)} values expected{at}, yours gives {len(a)}"
        found = (_difference(plain(x), plain(y), tolerance, f"{where}[{i}]", depth) for i, (x, y) in enumerate(zip(a, b)))
        return next(filter(None, found), "")
    if isinstance(a, dict) and isinstance(b, dict):
        if a.keys() != b.keys():
            lack, more = [key for key in b if key not in a], [key for key in a if key not in b]
            return f"{lack[0]!r} is missing{at}" if lack else f"{more[0]!r} is too much{at}"
        return next(filter(None, (_difference(a[key], b[key], tolerance, f"{where}[{key!r}]", depth) for key in b)), "")
    if type(a) is type(b):
        if isinstance(a, np.random.Generator):
            a, b = repr(a.bit_generator.state), repr(b.bit_generator.state)
        try:
            if bool(a == b):
                return ""
        except Exception:
            pass
        if type(a).__eq__ is object.__eq__:  # type: ignore[comparison-overlap]
            mine, theirs = (plain(vars(side)) if hasattr(side, "__dict__") else {} for side in (a, b))
            return _difference(mine, theirs, tolerance, where, depth + 1) if depth < DEPTH else ""
    return f"{words(b)} expected{at}, yours gives {words(a)}"


def words(value: Any, name: str = "") -> str:
    """A value in a few words: `x = [1, 2]`, or `x of shape (3, 4)` when it is large."""
    kind = "Tensor " if isinstance(value, Tensor) else ""
    data = plain(value)
    several = isinstance(value, tuple) and len(value) <= SMALL  # each of them by itself
    if isinstance(data, np.ndarray) and data.dtype.kind != "U" and data.size > SMALL and not several:
        return f"{name} of shape {data.shape}".strip() if name else f"{kind}of shape {data.shape}"
    if isinstance(value, (list, tuple)):
        left, right = "()" if isinstance(value, tuple) else "[]"
        inside = [words(item) for item in value[:SMALL]] + ["…"] * (len(value) > SMALL)
        text = left + ", ".join(inside) + ("," if left == "(" and len(inside) == 1 else "") + right
    elif isinstance(data, np.ndarray):
        text = _nested(data.tolist())
    elif isinstance(data, dict):
        inside = [f"{key!r}: {words(item)}" for key, item in [*value.items()][:SMALL]]
        text = "{" + ", ".join(inside) + (", …}" if len(data) > SMALL else "}")
    elif callable(value) and hasattr(value, "__name__"):
        text = value.__name__
    elif value is None:
        text = "None"
    else:
        try:
            text = " ".join(repr(value).split())
        except Exception:
            text = type(value).__name__
    text = text if len(text) <= 120 else text[:119] + "…"
    return f"{name} = {text}" if name else text


def _shape(array: np.ndarray) -> str:
    return f"shape {array.shape}" if array.ndim else "a single value"


def _nested(value: Any) -> str:
    return "[" + ", ".join(map(_nested, value)) + "]" if isinstance(value, list) else _number(value)


def _number(value: Any) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    return f"{value:.6g}" if isinstance(value, float) else repr(value)
