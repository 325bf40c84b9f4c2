"""How the time of a training step grows: with the context, the width, the layers and the batch, one at a time.

All four go through the size `laptop`, beside PyTorch eager in alternating turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from importlib import import_module
from typing import Any

from . import tables
from .crossover import power
from .measure import Plan, compared, each, rounds_of, start, tasks_of
from .sizes import SIZES

SERIES = {
    "context": ("block_size", (16, 32, 64, 128, 256, 512)),
    "width": ("n_embd", (32, 64, 128, 256, 512)),
    "layers": ("n_layer", (1, 2, 4, 8, 16)),
    "batch": ("batch_size", (1, 3, 6, 12, 24, 48)),
}
TURN = 0.1  # seconds that a turn should last at least
ROUNDS = 5  # at most
FITTED = 3  # the largest ones, where calls cost little beside numbers


class Growing:
    """The training steps of ours.py or theirs.py, of one size after the other."""

    def __init__(self, module: str):
        self.module, self.training = import_module(f"benchmarks.{module}"), None

    def set(self, size: dict[str, int]) -> None:
        if self.training is not None:
            self.training.close()
        self.training = None  # before the next one is made: both together would need more memory
        self.training = self.module.Training(size)

    def once(self) -> float:
        assert self.training is not None
        return self.training.once()


def measurements(plan: Plan, series: dict[str, tuple[str, tuple[int, ...]]] = SERIES) -> Iterator[dict[str, Any]]:
    """A row for each point of each series."""
    plan = replace(plan, pairs=min(plan.pairs, ROUNDS))
    with ExitStack() as stack:
        workers = {}
        for name, task in tasks_of("Training", plan).items():
            workers |= start(stack, plan, {name: "growth.Growing"}, module=task.split(".")[0])
        for name, (field, values) in series.items():
            for value in values:
                size = asdict(SIZES["laptop"]) | {field: value}
                for worker in workers.values():
                    worker.call("set", size=size)
                rounds, _, _ = rounds_of(workers, plan, TURN)
                yield {
                    "what": "growth", "series": name, "value": value, "size": size, **asdict(plan),
                    "milliseconds": each(rounds.wall, 1000), **compared(rounds),
                }  # fmt: skip


def exponent(rows: list[dict[str, Any]], name: str) -> float | None:
    """The p of time = c value^p that fits the last points best; None with fewer than two."""
    last = rows[-FITTED:]
    return power([r["value"] for r in last], [r["milliseconds"][name]["median"] for r in last]) if len(last) > 1 else None


def show(results: list[dict[str, Any]]) -> None:
    """A table for each series, with the exponents below."""
    for series in SERIES:
        rows = [r for r in results if r["series"] == series]
        if not rows:
            continue
        fits = [f"{tables.NAMES[name]} {p:.2f}" for name in rows[0]["milliseconds"] if (p := exponent(rows, name)) is not None]
        caption = f"The last {min(FITTED, len(rows))} grow as {series} to the power of: {', '.join(fits)}.\n" if fits else ""
        tables.beside(f"training step against {series}, otherwise the size laptop, ms", caption + tables.others(rows),
                      [series], ["value"], rows)  # fmt: skip
