"""Where an op was called: the user's line, and the words for an op and its inputs in a message."""

from __future__ import annotations

import inspect
import linecache
import sys
from functools import lru_cache
from types import FrameType
from typing import Any

import numpy as np

INSIDE = ("tinygrad_tf", "viz", "numpy")  # a line in these packages is not the user's


def user_line() -> str:
    """The innermost running line outside these packages, as `file:line`; the outermost line of all if there is none."""
    frame: FrameType = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in INSIDE:
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


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
