"""Errors in one line. Nothing here runs until something has failed."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

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


INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "matmul": "@"}


def describe(error: Exception, op: Any, args: tuple, settings: dict, scope: Any) -> Exception:
    """The same kind of error, in one line: op, shapes, reason, module path.

    As in `matmul: (4, 6, 32) @ (64, 3): inner sizes 32 and 64 differ [blocks.2.ffn.up]`. Its attribute `call` holds what was
    called: (op, args, settings, scope).
    """
    shapes = [a.shape if hasattr(a, "shape") else np.shape(a) for a in args]
    shown = f" {INFIX.get(op.name, ',')} ".replace(" , ", ", ").join(str(shape) for shape in shapes)
    options = {k: v for k, v in settings.items() if isinstance(v, (int, float, bool, str, tuple))}
    if options:
        shown += f" with {', '.join(f'{k}={_brief(v)}' for k, v in options.items())}"
    where = f" [{scope.path}]" if scope is not None and scope.path else ""
    kind = type(error) if type(error) in (ValueError, IndexError, TypeError, OverflowError) else ValueError
    described: Any = kind(f"{op.name}: {shown}: {_reason(op.name, shapes, error)}{where}")
    described.call = op, args, settings, scope
    return described


def _brief(value: Any) -> str:
    """A setting in few words: of an array its dtype and shape."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_brief, value))}{',' if len(value) == 1 else ''})"
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else str(value)


def _reason(name: str, shapes: list[tuple[int, ...]], error: Exception) -> str:
    if name in ("matmul", "linear"):
        a, b, *_ = shapes
        if not a or not b:
            return "a 0-d tensor has no rows or columns; use * to scale by a number"
        inner = b[-1] if name == "linear" else b[-2] if len(b) > 1 else b[0]
        if a[-1] != inner:
            return f"inner sizes {a[-1]} and {inner} differ"
    if "broadcast" in str(error) and len(shapes) > 1 and name != "put":
        for axis in range(3 if name == "matmul" else 1, 1 + max(map(len, shapes))):
            sizes = {shape[-axis] for shape in shapes if len(shape) >= axis} - {1}
            if len(sizes) > 1:
                return f"sizes {' and '.join(map(str, sorted(sizes)))} on axis {-axis} differ and neither is 1"
    return str(error).splitlines()[0] if str(error) else type(error).__name__
