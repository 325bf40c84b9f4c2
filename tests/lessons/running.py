"""A lesson run in two ways: as the script that a reader starts, and here, every cell twice."""

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from lessons import catalogue

ROOT = Path(__file__).parents[2]
SAMPLE = catalogue.read(Path(__file__).parent / "sample" / "01_sample.py")  # a lesson that never changes
LIMIT = 600  # seconds; on an idle machine a lesson takes a few, the one that trains about sixty
TRAINS, STEPS = 15, 50  # the lesson that trains the preset `tiny`, and the steps that are enough to see whether it runs
IN_FEW_STEPS = """
import runpy, sys
from tinygrad_tf.settings import PRESETS
PRESETS["tiny"] = PRESETS["tiny"].changed(steps=int(sys.argv[2]))
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def script(lesson: catalogue.Lesson, steps: int | None = None) -> list[str]:
    """What `python lessons/NN_….py` prints, line by line; with `steps`, when the preset `tiny` has no more than these."""
    command = [lesson.path] if steps is None else ["-c", IN_FEW_STEPS, lesson.path, str(steps)]
    done = subprocess.run([sys.executable, *command], cwd=ROOT, env=environment(), capture_output=True, encoding="utf-8",
                          timeout=LIMIT, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()


def environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}


def twice(lesson: catalogue.Lesson) -> dict[str, Any]:
    """The `numbers` of a lesson when each cell runs twice before the next does, as for a reader who runs it again."""
    tree = ast.parse(lesson.path.read_text(encoding="utf-8"))
    cells = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any(_is_cell(each) for each in node.decorator_list):
            node.name, node.decorator_list = f"cell{len(cells)}", []
            cells.append(node)
    names: dict[str, Any] = {"__name__": lesson.name, "__file__": str(lesson.path)}
    exec(compile(tree, str(lesson.path), "exec"), names)
    values: dict[str, Any] = {}
    waiting = list(cells)
    while waiting:
        ready = [cell for cell in waiting if all(each.arg in values for each in cell.args.args)]
        assert ready, f"cells need what no cell gives: {[each.arg for cell in waiting for each in cell.args.args]}"
        for cell in ready:
            waiting.remove(cell)
            for _ in range(2):
                given = names[cell.name](**{each.arg: values[each.arg] for each in cell.args.args})
            values |= dict(zip(_returned(cell), given or ()))
            if "numbers" not in values:  # the cell of the numbers gives nothing on: marimo leaves unused names out
                values |= {"numbers": numbers_of(cell, names, values)} if _makes_numbers(cell) else {}
    return values["numbers"]


def numbers_of(cell: ast.FunctionDef, names: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """`numbers` as the cell makes it, run once more with a `show` that keeps it."""
    kept: list[dict[str, Any]] = []
    given = {each.arg: values[each.arg] for each in cell.args.args} | {"show": kept.append}
    names[cell.name](**given)
    return kept[0]


def _makes_numbers(cell: ast.FunctionDef) -> bool:
    calls = (each for each in ast.walk(cell) if isinstance(each, ast.Call))
    return any(isinstance(call.func, ast.Name) and call.func.id == "show" for call in calls)


def _is_cell(node: ast.expr) -> bool:
    target = node.func if isinstance(node, ast.Call) else node
    return isinstance(target, ast.Attribute) and target.attr == "cell"


def _returned(cell: ast.FunctionDef) -> list[str]:
    last = cell.body[-1]
    value = last.value if isinstance(last, ast.Return) else None
    return [each.id for each in value.elts if isinstance(each, ast.Name)] if isinstance(value, ast.Tuple) else []


def only_sample() -> None:
    """Let the sample be the only lesson there is, in this process."""
    catalogue.FOLDER = SAMPLE.path.parent
