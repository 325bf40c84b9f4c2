"""`python -m benchmarks`: measure, print, and write down where the user names a file or a folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tinygrad_tf.kernels import INSTALL

from . import crossover, growth, imports, lengths, machine, measure, recomputation, report, results, tables, targets, tricks
from .command import run, told
from .sizes import SIZES

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
TEMPERATURES = (0.0, 0.8)
ASKED_FOR = ("profile", "crossover", "tricks")  # not part of `all`
PAIRS = 10
USES = {  # the options that say how it is measured; others are refused
    "all": "size threads kernels pairs patience",
    "steps": "size threads kernels pairs patience",
    "ops": "threads kernels pairs patience",
    "generation": "size threads kernels pairs patience",
    "attention": "threads kernels pairs patience",
    "imports": "kernels pairs patience",
    "memory": "size threads kernels pairs",
    "growth": "threads kernels pairs patience",
    "recomputation": "threads kernels pairs patience",
    "drawing": "size threads kernels pairs patience",
    "profile": "size threads kernels shapes",
    "crossover": "pairs",
    "tricks": "threads pairs patience",
    "report": "check",
}


class What(StrEnum):
    all = "all"
    steps = "steps"
    ops = "ops"
    generation = "generation"
    attention = "attention"
    imports = "imports"
    memory = "memory"
    growth = "growth"
    recomputation = "recomputation"
    drawing = "drawing"
    profile = "profile"
    crossover = "crossover"
    tricks = "tricks"
    report = "report"


class SizeName(StrEnum):
    all = "all"
    tiny = "tiny"
    laptop = "laptop"
    baby = "baby"


class Kernels(StrEnum):
    numpy = "numpy"
    numba = "numba"
    both = "both"


@app.command()
def main(
    what: Annotated[What, typer.Argument(help="What to measure; all: all but profile, crossover and tricks. report: write the "
                                              "tables of README.md and notes.md from result files.")] = What.all,
    files: Annotated[list[Path] | None, typer.Argument(help="report: the result files; without, those in benchmarks/results.",
                                                       show_default=False)] = None,
    size: Annotated[SizeName, typer.Option(help="Size of the model and its batch, in steps, generation, memory, drawing and "
                                                "profile.")] = SizeName.all,
    threads: Annotated[list[int] | None, typer.Option(help="Threads that each framework may use; given twice, steps and "
                                                           "generation with both, the rest with the first.  [default: 2, 1]",
                                                      min=1, show_default=False)] = None,
    kernels: Annotated[Kernels | None, typer.Option(help="Our kernels; both: ours stands twice in each table.  "
                                                         "[default: both if numba is installed]", show_default=False)] = None,
    pairs: Annotated[int, typer.Option(help="Turns for each framework.", min=1)] = PAIRS,
    patience: Annotated[float, typer.Option(help="Seconds that each measurement may wait for other programs to be quiet.",
                                            min=0)] = 0,
    shapes: Annotated[bool, typer.Option("--shapes", help="profile: one line for each shape of an op's inputs.")] = False,
    to: Annotated[Path | None, typer.Option("--json", help="File for the results.", show_default=False)] = None,
    add: Annotated[bool, typer.Option("--add", help="With --json: keep what the file holds of other measurements.")] = False,
    drawn: Annotated[Path | None, typer.Option("--figures", help="Folder for an SVG of each kind of measurement.",
                                               show_default=False)] = None,
    check: Annotated[bool, typer.Option("--check", help="report: write nothing, say whether the tables are as they should be."
                                        )] = False,
) -> None:  # fmt: skip
    """Measure tinygrad_tf beside PyTorch eager, in alternating turns."""
    given = {"size": size is not SizeName.all, "threads": threads, "kernels": kernels, "pairs": pairs != PAIRS, "json": to,
             "patience": patience, "shapes": shapes, "add": add, "check": check}  # fmt: skip
    _refuse_what_changes_nothing(what, [name for name, value in given.items() if value])
    _refuse_bad_places(what, files, to, add, drawn)
    if what is What.report:
        raise typer.Exit(report.main(files or [], check, drawn))
    counts = threads or [2, 1]
    plan = measure.Plan(counts[0], pairs, patience, _kernels(kernels))
    plans = [replace(plan, threads=count) for count in dict.fromkeys(counts)]
    sizes = list(SIZES) if size is SizeName.all else [size.value]
    facts = machine.describe()
    tables.machine(facts, plan.threads)
    before = results.read(to).results if add and to is not None and to.exists() else []
    found: list[dict[str, Any]] = []
    for name, (measurements, show) in _measurements(sizes, plan, shapes, plans).items():
        if what != name and (what != "all" or name in ASKED_FOR):
            continue
        first = len(found)
        for result in told(name, measurements):
            found.append(result)
            if to is not None:  # after each one, so that an interrupted run leaves what it has
                results.write(to, facts, _others(before, found) + found)
        if found[first:]:
            show(found[first:])
    targets.show(found)
    if drawn is not None:
        from . import figures

        for path in figures.write(_others(before, found) + found, drawn):
            print(path)


def _refuse_what_changes_nothing(what: What, given: list[str]) -> None:
    for name in given:
        users = [user for user, names in USES.items() if name in names.split()] or [user for user in USES if user != "report"]
        if what not in users:
            raise typer.BadParameter(f"{what} does not use it; it goes with {', '.join(users)}", param_hint=f"--{name}")


def _refuse_bad_places(what: What, files: list[Path] | None, to: Path | None, add: bool, drawn: Path | None) -> None:
    if files and what is not What.report:
        raise typer.BadParameter(f"{what} takes no files; report does", param_hint="FILES")
    if to is not None and (to.is_dir() or not os.access(to.absolute().parent, os.W_OK)):
        raise typer.BadParameter(f"{to} is no file that can be written; its folder must exist", param_hint="--json")
    if add and to is None:
        raise typer.BadParameter("there is nothing to add to without --json", param_hint="--add")
    if drawn is not None and not (drawn.is_dir() and os.access(drawn, os.W_OK)):
        raise typer.BadParameter(f"{drawn} is no folder that can be written; make it first", param_hint="--figures")


def _kernels(asked: Kernels | None) -> tuple[str, ...]:
    here = measure.kernels_here()
    if asked is None:
        return here
    if asked is not Kernels.numpy and "numba" not in here:
        raise typer.BadParameter(f"numba is not installed: {INSTALL}", param_hint="--kernels")
    return ("numpy", "numba") if asked is Kernels.both else (asked.value,)


def _others(before: list[dict[str, Any]], found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was measured before and has not been measured again."""
    again = {_key(result) for result in found}
    return [result for result in before if _key(result) not in again]


def _key(result: dict[str, Any]) -> tuple:
    """What tells one measurement from another."""
    names = ("what", "size", "name", "threads", "pass", "length", "series", "value", "fused")
    return tuple(str(result.get(name)) for name in names)


def _measurements(sizes: list[str], plan: measure.Plan, shapes: bool,
                  plans: list[measure.Plan]) -> dict[str, tuple[Iterable[dict], Callable]]:  # fmt: skip
    """Name -> the results, each measured when it is asked for, and the table for all of them."""
    return {
        "steps": ((measure.step(size, p) for p in plans for size in sizes), _by_threads(tables.steps)),
        "ops": (measure.small_ops(plan), tables.ops),
        "generation": ((measure.generation(size, t, p) for p in plans for size in sizes for t in TEMPERATURES),
                       _by_threads(tables.generations)),
        "attention": (lengths.measurements(plan), lengths.show),
        "imports": ((imports.measure(plan) for _ in range(1)), imports.show),
        "memory": ((measure.memory(size, plan) for size in sizes), tables.memories),
        "growth": (growth.measurements(plan), growth.show),
        "recomputation": (recomputation.measurements(plan), recomputation.show),
        "drawing": (_drawing(sizes, plan), tables.drawings),
        "crossover": (crossover.measurements(plan.pairs), crossover.show),
        "profile": ((measure.profile(size, plan, shapes) for size in sizes), tables.profiles),
        "tricks": (tricks.measurements(plan), tricks.show),
    }  # fmt: skip


def _by_threads(show: Callable) -> Callable:
    """A table for each number of threads."""

    def each(found: list[dict[str, Any]]) -> None:
        for count in dict.fromkeys(result["threads"] for result in found):
            show([result for result in found if result["threads"] == count])

    return each


def _drawing(sizes: list[str], plan: measure.Plan) -> Iterable[dict]:
    yield from (measure.drawing(fused, plan) for fused in (True, False))
    yield measure.step_beside("tiny" if len(sizes) > 1 else sizes[0], plan)


if __name__ == "__main__":
    sys.exit(run(app, "benchmarks", sys.argv[1:]))
