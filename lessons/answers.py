"""Where the reader's answers are: the folder that is named, $TINYGRAD_TF_EXERCISES, or `lessons/exercises` of a clone."""

from __future__ import annotations

import ast
import io
import os
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
    """The reader's file for a lesson in that folder; the exercises are copied there, blank, if there is none."""
    path = place / lesson.path.name
    if not path.exists() and lesson.stub.is_file():
        blank = blanked(source(lesson.stub), lesson)
        place.mkdir(parents=True, exist_ok=True)
        path.write_bytes(blank)
    return path


def source(path: Path) -> bytes:
    """What is in a file. Raises ValueError, with the way to get it back, if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        back = f"; git restore {path} brings it back as it came" if path.parent == EXERCISES else ""
        raise ValueError(f"{path}: {error.strerror or error}{back}") from None


def blanked(text: bytes, lesson: Lesson) -> bytes:
    """The text with each exercise as it comes, its docstring and no answer: in a clone, a reader may have written into it.

    Raises ValueError if the text is not Python.
    """
    try:
        said = text.decode("utf-8")
        body = ast.parse(said).body
    except (SyntaxError, ValueError):
        raise ValueError(f"{lesson.stub} is not Python and cannot be copied; git restore brings it back as it came") from None
    lines = split(said)
    for node in reversed(body):
        if isinstance(node, ast.FunctionDef) and node.name in lesson.exercises:
            kept = node.body[0].end_lineno if ast.get_docstring(node) is not None else node.body[0].lineno - 1
            lines[kept : node.end_lineno] = [f'    raise NotImplementedError("{node.name}: yours to write")\n']
    return "".join(lines).encode("utf-8")


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
