"""The largest memory that a process has held: what the operating system calls its peak resident set.

`getrusage` gives that of the process's whole life. On Linux the mark can be taken back to what is held now, so that what the
imports needed for a moment does not count; elsewhere it cannot, and a training step that needs less than the imports shows 0.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from .machine import children


def peak() -> int:
    """Bytes, the most that this process has held since it began or since `forget_peak`."""
    from resource import RUSAGE_SELF, getrusage  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return getrusage(RUSAGE_SELF).ru_maxrss * unit


def forget_peak() -> bool:
    """Take the mark back to what is held now; whether that was possible."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return False
    return True


def helpers() -> int:
    """Bytes that the processes this one has started hold for themselves, what they share with it left out.

    They keep what they have freed, so after some steps this is their peak.
    """
    total = 0
    for pid in children([os.getpid()]):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))
    return total


def of_training(task: Any, steps: int) -> dict[str, Any]:
    """Run a Training that has its model and no optimizer yet; bytes held before, and the most during these steps.

    What is added is the optimizer's moments, gradients, activations, and what else the framework holds on to.
    """
    first = type(task)("tiny")
    first.once()  # a library loads much of itself at its first step
    first.close()
    next(task.batches)  # makes the text
    exact = forget_peak()
    before = peak()
    task.prepare()
    for _ in range(steps):
        task.once()
    return {"before": before, "peak": peak() + helpers(), "exact": exact}
