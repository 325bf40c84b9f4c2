"""Where the reader's answers are: the folder that is named, $TINYGRAD_TF_EXERCISES, or `lessons/exercises` of a clone."""

from __future__ import annotations

import ast
import io
import os
import shutil
from pathlib import Path

from .catalogue import EXERCISES, FOLDER, Lesson

VARIABLE = "TINYGRAD_TF_EXERCISES"


def folder(named: Path | None = None) -> Path:
    """The folder of the answers. Raises ValueError, with the next step, where there is none to write in."""
    if named is None and os.environ.get(VARIABLE):
        named = Path(os.environ[VARIABLE])
    if named is None:
        if (FOLDER.parent / "pyproject.toml").is_file():
            return EXERCISES
        raise ValueError(
            f"where are your answers to be? Name a folder, which is filled with the exercises: --in FOLDER, or set {VARIABLE}"
        )
    named = named.absolute()
    if named.exists() and not named.is_dir():
        raise ValueError(f"{named} is not a folder")
    return named


def file(lesson: Lesson, place: Path) -> Path:
    """The reader's file for a lesson in that folder; the exercises as they come are copied there if there is none."""
    path = place / lesson.path.name
    if not path.exists() and lesson.stub.is_file():
        place.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(lesson.stub, path)
    return path


def functions(text: str) -> dict[str, str]:
    """The functions of a file and their text, decorators included; none if it is not Python."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return {}
    lines = split(text)
    return {node.name: "".join(lines[first_line(node) - 1 : node.end_lineno]).rstrip("\n") + "\n"
            for node in body if isinstance(node, ast.FunctionDef)}  # fmt: skip


def split(text: str) -> list[str]:
    """The lines as Python counts them, each with its end. (`str.splitlines` knows more kinds of ends.)"""
    return list(io.StringIO(text, newline=""))


def first_line(node: ast.stmt) -> int:
    """The line on which a statement begins, with its decorators."""
    return min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
