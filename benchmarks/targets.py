"""What was aimed at, and whether it was reached.

A target is a ratio of PyTorch to ours: of time, which is our tokens per second over PyTorch's, or of memory. It counts for two
threads. Reached is what the median reaches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import tables

THREADS = 2


@dataclass(frozen=True)
class Target:
    """At least this ratio of PyTorch, as it comes, to `base`: ours with one of our kernels."""

    what: str  # step, generation or memory, as in the results
    size: str
    base: str
    least: float

    @property
    def label(self) -> str:
        kernels = "numba" if self.base.endswith("numba") else "NumPy"
        names = {"step": "training step", "generation": "generation", "memory": "peak memory"}
        return f"{names[self.what]}, {self.size}, {kernels}"


STEPS = {"ours": {"tiny": 1.7, "laptop": 0.9, "baby": 0.9}, "ours, numba": {"tiny": 2.0, "laptop": 1.2, "baby": 1.05}}
TARGETS = [
    *[Target("step", size, base, least) for base, sizes in STEPS.items() for size, least in sizes.items()],
    *[Target("generation", "laptop", base, 3.0) for base in STEPS],
    *[Target("memory", size, base, 1.0) for base in STEPS for size in ("laptop", "baby")],  # tiny adds nothing to be seen
]


def judged(results: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """For every target that was measured: its ratio with the spread, that to PyTorch with freed memory kept, and the verdict.

    Generation counts with the most probable token, where both are known to write the same text.
    """
    for target in TARGETS:
        for r in results:
            if (r["what"], r.get("size"), r.get("threads")) != (target.what, target.size, THREADS) or r.get("temperature"):
                continue
            ratios = r["ratios"].get(target.base, {})
            if "torch" in ratios:
                runs = min(r["pairs"], r.get("turns", r["pairs"]))
                yield {"target": target, "ratio": ratios["torch"], "kept": ratios.get("torch, kept"), "runs": runs,
                       "reached": reached(target, ratios["torch"])}  # fmt: skip


def reached(target: Target, ratio: dict[str, float]) -> bool:
    """Whether the median reaches it, as it is shown: to two decimals."""
    return round(ratio["median"], 2) >= target.least


def show(results: list[dict[str, Any]]) -> None:
    """Every target that these results can tell of; nothing if there is none."""
    rows = list(judged(results))
    if not rows:
        return
    caption = ("PyTorch eager as it comes over ours, time or added memory: median and quartiles of so many turns each.\n"
               f"Beside it the same with PyTorch's freed memory kept. {THREADS} threads; reached is what the median reaches.\n")
    made = tables.table("targets", caption + tables.others([r for r in results if r.get("others")]),
                        "", "at least", "measured", "runs", "", "to PyTorch with freed memory kept")  # fmt: skip
    for row in rows:
        verdict = "reached" if row["reached"] else "[bold]falls short[/]"
        made.add_row(row["target"].label, f"{row['target'].least:g}", tables.quartiles(row["ratio"]), str(row["runs"]), verdict,
                     tables.quartiles(row["kept"]))  # fmt: skip
    tables.console.print(made)
