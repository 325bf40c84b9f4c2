"""Errors in one line, and what is asked of numbers among the arguments. The rest runs only once something has failed."""

from __future__ import annotations

import math
import re
from operator import index
from sys import _getframe
from typing import Any

import numpy as np

from .lines import FOLDER

LONGEST = 4000  # characters of a message


class OneLine(ValueError):
    """An error whose message is one line, whatever a file that somebody else wrote calls its entries."""

    def __init__(self, message: object = ""):
        super().__init__(one_line(str(message)))


def one_line(text: str) -> str:
    """Line breaks and the codes that move a terminal's cursor become escapes such as \\n; an endless text loses its middle."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST - 1000]} ... {text[-1000:]}"
    return re.sub("[\x00-\x1f\x7f-\x9f\u2028\u2029]", lambda control: ascii(control[0])[1:-1], text)


# ------------------------------------------------------------------------------------------------ arguments

WRAPPERS = {"call", "change", "method", "generate", "<lambda>", "<genexpr>", "<listcomp>"}  # names that no user wrote


def called() -> str:
    """`name: `, of the function, method, layer or class of this package that the user's line called; nothing inside an op,
    whose error `describe` begins with the name of the op.
    """
    frame, name = _getframe(1), ""
    while frame is not None and frame.f_code.co_filename.startswith(FOLDER):
        word = frame.f_code.co_name
        if word == "record":
            return ""
        if word in ("__init__", "__call__", "forward"):
            name = type(frame.f_locals.get("self")).__name__
        elif word not in WRAPPERS and not word.startswith("_"):
            name = word
        frame = frame.f_back  # type: ignore[assignment]
    return f"{name}: " if name else ""


def shown(value: Any) -> str:
    """What an argument is, in few words: 'a' (str), Tensor of shape (3,), tuple of Tensor, tuple."""
    kind = type(value).__name__
    if hasattr(value, "shape"):
        return f"a {kind} of shape {tuple(value.shape)}"
    if isinstance(value, (tuple, list)) and not all(isinstance(item, (bool, int, float, str)) for item in value):
        return f"a {kind} of {', '.join(type(item).__name__ for item in value)}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = repr(value)
    if "\n" in text:  # a module draws a table
        return f"a {kind}"
    return text if value is None else f"{text if len(text) < 80 else f'{text[:76]} ...'} ({kind})"


def whole(what: str, value: Any, least: int | None = None) -> int:
    """The value, if it is a whole number, from `least` on; TypeError or ValueError that says what it should have been."""
    try:
        number = index(value)
    except (TypeError, ValueError):
        raise TypeError(f"{called()}{what} is a whole number, not {shown(value)}") from None
    if least is not None and number < least:
        raise ValueError(f"{called()}{what} is a whole number from {least} on, not {number}")
    return number


def real(what: str, value: Any, least: float = 0.0, most: float = math.inf, below: float = math.inf) -> Any:
    """The value, if it is a number from `least` to `most`, and below `below`; TypeError or ValueError if not."""
    try:
        number = math.nan if isinstance(value, (str, bytes)) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if number != number and not isinstance(value, (float, np.floating)):
        raise TypeError(f"{called()}{what} is a number, not {shown(value)}")
    if number < least or number > most or (number >= below and below < math.inf):
        if most == below == math.inf:
            raise ValueError(f"{called()}{what} must not be {'negative' if not least else f'below {least}'}: {value}")
        end = f"{below:g})" if below <= most else f"{most:g}]"
        raise ValueError(f"{called()}{what} lies in [{least:g}, {end}, not at {value}")
    return value


def tensors(also: str = "requires_grad", **given: Any) -> None:
    """TypeError unless each of these is a tensor; with also="ndim" arrays are taken too."""
    for name, value in given.items():
        if not hasattr(value, also):
            raise TypeError(f"{called()}{name} is a tensor, not {shown(value)}: {way_to_tensor(value)}")


def way_to_tensor(value: Any) -> str:
    """What to do with an argument that should have been a tensor."""
    if isinstance(value, (tuple, list)) and any(hasattr(item, "ndim") for item in value):
        return "take one of its parts, as in out, state = lstm(x), or stack() them"
    return "tensor(...) makes one of numbers"


def no_tensor(error: AttributeError, layer: Any, args: tuple) -> Exception | None:
    """What a layer of this package says that was given `error.obj` in place of a tensor; None if the error is another one."""
    trace: Any = error.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    given = error.obj
    if hasattr(given, "requires_grad") or not any(arg is given for arg in args):
        return None
    if not trace.tb_frame.f_code.co_filename.startswith(FOLDER):
        return None
    return TypeError(f"{type(layer).__name__} takes a tensor, not {shown(given)}: {way_to_tensor(given)}")


# ------------------------------------------------------------------------------------------------ inside an op

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "matmul": "@"}


def describe(error: Exception, op: Any, args: tuple, settings: dict, scope: Any) -> Exception:
    """The same kind of error, in one line: op, shapes, reason, module path.

    As in `matmul: (4, 6, 32) @ (64, 3): inner sizes 32 and 64 differ [blocks.2.ffn.up]`. Its attribute `call` holds what was
    called: (op, args, settings, scope).
    """
    name = op if isinstance(op, str) else op.name
    foreign = [a for a in args if not _numbers(a)]
    shapes: Any = [type(a).__name__ if not _numbers(a) else a.shape if hasattr(a, "shape") else np.shape(a) for a in args]
    text = f" {INFIX.get(name, ',')} ".replace(" , ", ", ").join(map(str, shapes))
    options = {k: v for k, v in settings.items() if isinstance(v, (int, float, bool, str, tuple, np.ndarray))}
    if options:
        text += f" with {', '.join(f'{k}={_brief(v)}' for k, v in options.items())}"
    where = f" [{scope.path}]" if scope is not None and scope.path else ""
    kind: Any = next((kind for kind in KINDS if isinstance(error, kind)), ValueError)
    if isinstance(error, AttributeError):
        kind, reason = TypeError, f"{shown(error.obj)} is no tensor: {way_to_tensor(error.obj)}"
    elif foreign and not hasattr(foreign[0], "dtype"):
        kind, reason = TypeError, f"{shown(foreign[0])} is neither a tensor nor a number: {way_to_tensor(foreign[0])}"
    else:
        reason = _reason(name, args, shapes, settings, error)
    described: Any = kind(f"{name}: {text}: {reason}{where}")
    described.call = op, args, settings, scope
    return described


KINDS = (TypeError, IndexError, OverflowError, ValueError, RuntimeError)  # that an error keeps; of a subclass its base


def _numbers(value: Any) -> bool:
    """Whether an op takes it: a tensor, an array, a number, or lists of numbers."""
    if hasattr(value, "dtype"):
        return value.dtype.kind in "biuf"
    if isinstance(value, (tuple, list)):
        return all(map(_numbers, value)) and not any(getattr(item, "requires_grad", False) for item in value)
    return isinstance(value, (bool, int, float))


def _brief(value: Any) -> str:
    """A setting in few words: of an array its dtype and shape."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_brief, value))}{',' if len(value) == 1 else ''})"
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else str(value)


def _reason(name: str, args: tuple, shapes: list[tuple[int, ...]], settings: dict, error: Exception) -> str:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    if name in ("matmul", "linear") and len(shapes) > 1:
        a, b, *_ = shapes
        if not a or not b:
            return "a 0-d tensor has no rows or columns; use * to scale by a number"
        inner = b[-1] if name == "linear" else b[-2] if len(b) > 1 else b[0]
        if a[-1] != inner:
            return f"inner sizes {a[-1]} and {inner} differ"
    if name == "expand" and "broadcast" in text:
        return "an axis keeps its size or is repeated from size 1, and new ones come in front"
    if "broadcast" in text and name != "put":
        shapes = [*shapes, *(v.shape for v in settings.values() if isinstance(v, np.ndarray))]
        for axis in range(3 if name == "matmul" else 1, 1 + max(map(len, shapes))):
            sizes = {shape[-axis] for shape in shapes if len(shape) >= axis} - {1}
            if len(sizes) > 1:
                return f"sizes {' and '.join(map(str, sorted(sizes)))} on axis {-axis} differ and neither is 1"
    if "ufunc" in text or "could not convert string" in text:  # NumPy speaks of its loops and casts
        if words := [f"{k}={v!r} is no number" for k, v in settings.items() if isinstance(v, str)]:
            return words[0]
        dtypes = dict.fromkeys(str(a.dtype) for a in args if hasattr(a, "dtype"))
        way = "compare first, as in (x > 0) & (y > 0)" if "bitwise" in text or "invert" in text else ".float() converts"
        return f"not for tensors of dtype {' and '.join(dtypes)}: {way}"
    return text
