"""Where an op was called: the user's line, and the words for an op and its inputs in a message."""

from __future__ import annotations

import inspect
import linecache
import os
import sys
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

import numpy as np

INSIDE = ("tinygrad_tf", "viz", "numpy")  # a line in these packages is not the user's
FOLDER = os.path.dirname(__file__) + os.sep  # the code of this package begins with it
PACKAGE = __name__.partition(".")[0] + "."  # and so do the names of its modules
LEVELS = 4  # so many callers a recorded op looks up for the user's line; a layer's function called by its module is four deep


def user_line() -> str:
    """The innermost running line outside these packages, as `file:line`; the outermost line of all if there is none."""
    frame: FrameType = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in INSIDE:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def place_of_call(frame: FrameType) -> tuple[CodeType, int]:
    """The code that called an op from this frame, and where in it: cheap enough for every op, `line_of` makes words of it.

    The innermost caller outside of this package if it is near, as it is for an op, a method or a layer; else the frame's own.
    """
    code, at, left = frame.f_code, frame.f_lasti, LEVELS
    outer: FrameType | None = frame
    while (inner := outer) is not None and left:
        if not inner.f_code.co_filename.startswith(FOLDER):
            return inner.f_code, inner.f_lasti
        outer, left = inner.f_back, left - 1
    return code, at


def line_of(place: tuple[CodeType, int] | None) -> str:
    """`file:line` of a place in a code."""
    if place is None:
        return "a line of that layer"
    code, at = place
    line = next((line for start, end, line in code.co_lines() if start <= at < end), None)
    return f"{code.co_filename}:{line or code.co_firstlineno}"


def quoted(line: str | None) -> str:
    """`file:line: the text of that line`, as far as the file can be read."""
    if line is None:
        return "an unknown line"
    file, _, number = line.rpartition(":")
    text = linecache.getline(file, int(number)).strip()
    return f"{line}: {text}" if text else line


def path(node: Any) -> str:
    """The path of the module that the op ran in, as `blocks.2.ffn`; empty outside of every module."""
    return node.scope.path if node.scope is not None else ""


def title(node: Any) -> str:
    """An op call with the path of its module: `mul` [blocks.2.ffn]"""
    return f"`{node.op.name}`" + (f" [{path(node)}]" if path(node) else "")


def operand(op: Any, i: int) -> str:
    """The name of input i in the op's own definition: `b`, or `bias[0]` for one of a starred argument."""
    for place, (name, starred) in enumerate(_places(op.raw)):
        if starred:
            return f"`{name}[{i - place}]`"
        if place == i:
            return f"`{name}`"
    return f"{i}"


@lru_cache(256)
def _places(function: Any) -> list[tuple[str, bool]]:
    """(name, whether it is starred) of each positional parameter."""
    parameters = inspect.signature(function).parameters.values()
    return [(p.name, p.kind is p.VAR_POSITIONAL) for p in parameters if p.kind is not p.KEYWORD_ONLY]


def operands(node: Any) -> str:
    """Every input with its shape: `a` (4, 3), `b` (3,)"""
    shapes = [source.shape if hasattr(source, "shape") else np.shape(source) for source in node.inputs]
    return ", ".join(f"{operand(node.op, i)} {shape}" for i, shape in enumerate(shapes))
