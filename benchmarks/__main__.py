"""`python -m benchmarks`: measure, print, and write down where the user names a file."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from . import crossover, machine, measure, tables
from .processes import WorkerError
from .sizes import SIZES

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
TEMPERATURES = (0.0, 0.8)


class What(StrEnum):
    all = "all"
    steps = "steps"
    ops = "ops"
    generation = "generation"
    memory = "memory"
    profile = "profile"
    drawing = "drawing"
    crossover = "crossover"


class SizeName(StrEnum):
    all = "all"
    tiny = "tiny"
    laptop = "laptop"
    baby = "baby"


@app.command()
def main(
    what: Annotated[What, typer.Argument(help="What to measure; all: all but the profile and the crossover.")] = What.all,
    size: Annotated[SizeName, typer.Option(help="Size of the model and its batch.")] = SizeName.all,
    threads: Annotated[int, typer.Option(help="Threads that each framework may use.", min=1)] = 2,
    pairs: Annotated[int, typer.Option(help="Turns for each framework.", min=1)] = 10,
    patience: Annotated[float, typer.Option(help="Seconds that each measurement may wait for other programs to be quiet.",
                                            min=0)] = 0,
    shapes: Annotated[bool, typer.Option("--shapes", help="profile: one line for each shape of an op's inputs.")] = False,
    to: Annotated[Path | None, typer.Option("--json", help="File for the results.", show_default=False)] = None,
) -> None:
    """Measure tinygrad_tf beside PyTorch eager, in alternating turns."""
    if to is not None and (to.is_dir() or not os.access(to.absolute().parent, os.W_OK)):
        raise typer.BadParameter(f"{to} is no file that can be written; its folder must exist", param_hint="--json")
    plan = measure.Plan(threads, pairs, patience)
    sizes = list(SIZES) if size is SizeName.all else [size.value]
    facts = machine.describe()
    tables.machine(facts, threads)
    results: list[dict[str, Any]] = []
    for name, (measurements, show) in _measurements(sizes, plan, shapes).items():
        if what != name and (what != "all" or name in ("profile", "crossover")):
            continue
        first = len(results)
        for result in measurements:
            results.append(result)
            if to is not None:  # after each one, so that an interrupted run leaves what it has
                to.write_text(json.dumps({"machine": facts, "results": results}, indent=1) + "\n", encoding="utf-8")
        show(results[first:])


def _measurements(sizes: list[str], plan: measure.Plan, shapes: bool) -> dict[str, tuple[Iterable[dict], Callable]]:
    """Name -> the results, each measured when it is asked for, and the table for all of them."""
    return {
        "steps": ((measure.step(size, plan) for size in sizes), tables.steps),
        "ops": (measure.small_ops(plan), tables.ops),
        "generation": ((measure.generation(size, t, plan) for size in sizes for t in TEMPERATURES), tables.generations),
        "memory": ((measure.memory(size, plan) for size in sizes), tables.memories),
        "drawing": (_drawing(sizes, plan), tables.drawings),
        "crossover": (crossover.measurements(plan.pairs), crossover.show),
        "profile": ((measure.profile(size, plan, shapes) for size in sizes), tables.profiles),
    }


def _drawing(sizes: list[str], plan: measure.Plan) -> Iterable[dict]:
    yield from (measure.drawing(fused, plan) for fused in (True, False))
    yield measure.step_beside("tiny" if len(sizes) > 1 else sizes[0], plan)


if __name__ == "__main__":
    try:
        app()
    except (WorkerError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
