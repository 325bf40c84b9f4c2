"""How long an import takes: in a fresh process each time, from its start to its end, in turns."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from time import perf_counter
from typing import Any

from . import tables
from .machine import Others
from .measure import OURS, Plan, compared, each, frameworks
from .processes import KERNELS, ROOT
from .turns import take_turns

STATEMENTS = {"ours": "import tinygrad_tf", "ours, numba": "import tinygrad_tf", "torch": "import torch",
              "numpy": "import numpy", "python": "pass"}  # fmt: skip
NAMES = {**STATEMENTS, "ours, numba": "import tinygrad_tf, numba", "python": "Python alone"}


def once(name: str) -> tuple[float, float]:
    """Seconds that a fresh Python takes for this statement: by the clock, and of processor time (both the same on Windows)."""
    environment = {**os.environ, KERNELS: "numba" if name == OURS["numba"] else "numpy"}
    before, start = _children(), perf_counter()
    subprocess.run([sys.executable, "-c", STATEMENTS[name]], cwd=ROOT, env=environment, check=True)
    wall = perf_counter() - start
    return wall, (_children() - before) or wall


def _children() -> float:
    """Processor time of the processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def measure(plan: Plan) -> dict[str, Any]:
    """Milliseconds of each; `milliseconds_on_top` is less what Python alone takes."""
    names = [*frameworks(plan), "numpy", "python"]
    for name in names:
        once(name)  # the compiled files are written, and all files are in the system's cache
    rounds = take_turns({name: partial(once, name) for name in names}, plan.pairs, Others([]), plan.patience)
    on_top = {name: [a - b for a, b in zip(rounds.wall[name], rounds.wall["python"], strict=True)] for name in names[:-1]}
    return {
        "what": "imports", "pairs": plan.pairs, "milliseconds": each(rounds.wall, 1000),
        "milliseconds_on_top": each(on_top, 1000), **compared(rounds), "others": None,
    }  # fmt: skip


def show(results: list[dict[str, Any]]) -> None:
    made = tables.table("imports, each in a fresh process, ms", f"on top: less what Python alone takes. {tables.FASTER}",
                        "", "ms", "on top", *tables.ratio_columns(results))  # fmt: skip
    for r in results:
        for name, ms in r["milliseconds"].items():
            on_top = tables.quartiles(r["milliseconds_on_top"].get(name), 0)
            made.add_row(NAMES[name], tables.quartiles(ms, 0), on_top, *tables.ratio_cells(r, name))
    tables.console.print(made)
