"""Puts answers that passed back into a file whose functions have become stubs again. Nothing else in the file changes."""

from __future__ import annotations

import ast
import builtins

from .answers import first_line, functions, split
from .progress import Kept


def restored(text: str, kept: dict[str, Kept], names: list[str]) -> str:
    """The text with the kept answer in place of each function in `names`, and above them what those answers use.

    What they use is found in the file that each answer passed in: imports, functions and values, as far as the text has none of
    that name. A function that the text does not have is added at its end. Raises ValueError if the text is not Python.
    """
    for name in names:
        answer = kept[name]
        needed = _needed(answer, text)
        lines = split(text)
        try:
            body = ast.parse(text).body
        except SyntaxError as error:
            raise ValueError(
                f"line {error.lineno}: {error.msg}; an answer can be put back when the file is Python again"
            ) from None
        place = next((node for node in body if isinstance(node, ast.FunctionDef) and node.name == name), None)
        if place is None:
            text = "".join([*lines, *("\n" if lines and not lines[-1].endswith("\n") else ""), "\n\n", needed, answer.answer])
        else:
            start = first_line(place) - 1
            text = "".join([*lines[:start], needed, answer.answer, *lines[place.end_lineno :]])
    return text


def _needed(answer: Kept, text: str) -> str:
    """The top-level statements of the file the answer passed in that it uses, itself left out, and `text` does not have."""
    try:
        body = ast.parse(answer.file).body
        there = {name for node in ast.parse(text).body for name in _names(node)} | set(dir(builtins))
    except SyntaxError:
        return ""
    lines = split(answer.file)
    wanted, taken = _used(ast.parse(answer.answer)), set()
    own = set(functions(answer.answer))
    grown = True
    while grown:
        grown = False
        for number, node in enumerate(body):
            gives = _names(node)
            if number not in taken and gives & wanted and not gives & (there | own):
                taken.add(number)
                wanted |= _used(node)
                grown = True
    parts = [
        "".join(lines[first_line(body[number]) - 1 : body[number].end_lineno]).rstrip("\n") + "\n" for number in sorted(taken)
    ]
    return "\n".join(parts) + ("\n\n" if parts else "")


def _names(node: ast.stmt) -> set[str]:
    """What a top-level statement defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).split(".")[0] for alias in node.names}
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}


def _used(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
