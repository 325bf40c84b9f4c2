"""The list of lessons, read from the files without running them: number, title, question, systems, exercises.

A lesson's docstring says the title, then the question, then `Systems: S7, S11`. `python -m lessons` writes the table that
README.md shows.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

FOLDER = Path(__file__).parent
EXERCISES = FOLDER / "exercises"
GLOSSARY = FOLDER / "glossary.md"


@dataclass(frozen=True)
class Lesson:
    """One lesson: what its file says of itself, and the names of its exercises in order."""

    number: int
    path: Path
    title: str
    question: str
    systems: tuple[str, ...]
    exercises: tuple[str, ...]

    @property
    def name(self) -> str:
        """`05_one_head_reads`: of the file, and of its exercises, checks and solutions."""
        return self.path.stem

    @property
    def stub(self) -> Path:
        return self.path.parent / "exercises" / self.path.name

    @property
    def asked(self) -> dict[str, str]:
        """What each exercise asks for: the first paragraph of its docstring, as far as the file has one."""
        try:
            body = ast.parse(self.stub.read_text(encoding="utf-8")).body
        except (OSError, SyntaxError, ValueError):  # in a clone a reader writes into this file
            return {}
        said = {node.name: ast.get_docstring(node) or "" for node in body if isinstance(node, ast.FunctionDef)}
        return {name: " ".join(said.get(name, "").split("\n\n")[0].split()) for name in self.exercises}

    @property
    def solution(self) -> Path:
        return self.path.parent / "solutions" / self.path.name

    @property
    def checks(self) -> Path:
        return self.path.parent / "checks" / self.path.name


def lessons() -> list[Lesson]:
    """Every lesson there is, by number."""
    return [read(path) for path in sorted(FOLDER.glob("[0-9][0-9]_*.py"))]


@dataclass(frozen=True)
class Term:
    """One row of the glossary: what a term means, and the number of the lesson that uses it first."""

    term: str
    meaning: str
    lesson: int


def terms() -> list[Term]:
    """The glossary."""
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| (\d+) \|$", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    return [Term(term, meaning, int(number)) for term, meaning, number in rows]


def lesson(number: int) -> Lesson:
    """The lesson of that number. Raises ValueError that names those there are."""
    there = lessons()
    for each in there:
        if each.number == number:
            return each
    raise ValueError(f"there is no lesson {number}; the lessons are {spans([each.number for each in there])}")


def read(path: Path) -> Lesson:
    """One lesson from its file. Raises ValueError if its docstring is not in the form above."""
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    parts = [" ".join(part.split()) for part in said.split("\n\n")]
    if len(parts) < 3 or not parts[-1].startswith("Systems:"):
        raise ValueError(f"{path.name}: the docstring is to say title, question and 'Systems: S1, S2', in three paragraphs")
    systems = tuple(re.findall(r"S\d+", parts[-1]))
    return Lesson(
        int(path.name[:2]), path, parts[0], " ".join(parts[1:-1]), systems, exercise_names(path.parent / "checks" / path.name)
    )


def exercise_names(checks: Path) -> tuple[str, ...]:
    """The names in the Exercise(...) calls of a file of checks, in its order."""
    if not checks.is_file():
        return ()
    calls = [node for node in ast.walk(ast.parse(checks.read_text(encoding="utf-8")))
             if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Exercise"]  # fmt: skip
    named = [(call.lineno, word.value) for call in calls for word in [*call.args[:1], *_keyword(call, "name")]
             if isinstance(word, ast.Constant)]  # fmt: skip
    return tuple(str(name) for _, name in sorted(named))


def _keyword(call: ast.Call, name: str) -> list[ast.expr]:
    return [keyword.value for keyword in call.keywords if keyword.arg == name]


def load(path: Path) -> ModuleType:
    """Run one of the files whose names begin with a digit, as a module that no import finds."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def spans(numbers: Sequence[int]) -> str:
    """[1, 2, 3, 5] as '1 to 3 and 5'."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    said = [str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs]
    return " and ".join([", ".join(said[:-1]), said[-1]] if len(said) > 1 else said) or "none"


def table(found: Sequence[Lesson]) -> str:
    """The table of README.md."""
    rows = ["| lesson | question | systems | exercises |", "| --- | --- | --- | --- |"]
    for each in found:
        systems, names = ", ".join(each.systems) or "–", ", ".join(f"`{name}`" for name in each.exercises)
        rows.append(f"| [{each.number} · {each.title}]({each.path.name}) | {each.question} | {systems} | {names} |")
    return "\n".join(rows)
