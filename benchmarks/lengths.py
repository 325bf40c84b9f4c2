"""Attention alone: causal, over texts of 64 to 4,096 tokens, beside PyTorch's and beside the products of half the matrix.

The number of tokens stays the same, so a long text is one text and short ones are many: what grows is the matrix alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

from . import tables
from .measure import Plan, compared, each, rounds_of, start, tasks_of

HEADS, HEAD_DIM = 4, 32  # the size `laptop`
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
TOKENS = 4096  # in all texts together
PASSES = {"forward": False, "forward and backward": True}
TURN = 0.1  # seconds that a turn should last at least


def shape(length: int) -> dict[str, int]:
    """The texts of one measurement: as many as make TOKENS, and one at least."""
    return {"batch": max(1, TOKENS // length), "heads": HEADS, "length": length, "head_dim": HEAD_DIM}


def measurements(plan: Plan, lengths: tuple[int, ...] = LENGTHS) -> Iterator[dict[str, Any]]:
    """A row for each pass and length."""
    tasks = {**tasks_of("Attention", plan), "products": "floor.AttentionProducts"}
    with ExitStack() as stack:
        workers = start(stack, plan, tasks)
        for name, backward in PASSES.items():
            for length in lengths:
                for worker in workers.values():
                    worker.call("set", backward=backward, **shape(length))
                rounds, _, _ = rounds_of(workers, plan, TURN)
                yield {
                    "what": "attention", "pass": name, **shape(length), **asdict(plan),
                    "milliseconds": each(rounds.wall, 1000), **compared(rounds),
                }  # fmt: skip


def show(results: list[dict[str, Any]]) -> None:
    """One line for each length, a table for each pass."""
    for name in PASSES:
        rows = [r for r in results if r["pass"] == name]
        if not rows:
            continue
        tables.beside(f"attention alone, causal, {HEADS} heads of {HEAD_DIM}, {name}, ms",
                      f"{tables.FASTER}\nProducts alone: of half the T × T matrix.\n{tables.others(rows)}",
                      ["T", "texts"], ["length", "batch"], rows)  # fmt: skip
