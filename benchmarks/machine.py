"""What the numbers were measured on, and how much of it other programs used meanwhile."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Collection
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def describe() -> dict[str, Any]:
    """Processor, cores, memory, system, versions."""
    return {
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "memory_gib": _memory(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "blas": _blas(),
        "torch": installed("torch"),
        "numba": installed("numba"),
        "date": time.strftime("%Y-%m-%d %H:%M %z"),
    }


def installed(package: str) -> str | None:
    """The version, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields = dict(part for line in lines if len(part := [side.strip() for side in line.split(":", 1)]) == 2)
    numbers = f"family {fields.get('cpu family', '?')}, model {fields.get('model', '?')}"
    return f"{fields.get('model name', platform.machine())} ({numbers})"


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (ValueError, AttributeError):
        return None


def _blas() -> str:
    import numpy as np

    found = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return f"{found.get('name')} {found.get('version')}"


def children(of: Collection[int]) -> list[int]:
    """The processes that these have started (Linux; elsewhere none are found)."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            if int(_fields(folder)[1]) in of:
                found.append(int(folder.name))
    return found


def _fields(folder: Path) -> list[str]:
    """What /proc says of a process after its name: its state, its parent, ..."""
    return (folder / "stat").read_text().rpartition(")")[2].split()


def processor_time() -> float:
    """Seconds of processor time of this process, all its threads, and the processes that it has started and that still run."""
    theirs = 0.0
    for pid in children([os.getpid()]):
        with suppress(OSError):
            theirs += time.clock_gettime(~pid << 3 | 2)  # what clock_getcpuclockid(3) makes of a process's number
    return time.process_time() + theirs


class Others:
    """How many cores other programs keep busy. Known on Linux alone; elsewhere `cores()` is None."""

    def __init__(self, own: list[int]):
        self.own = [os.getpid(), *own]
        self.start()

    def start(self) -> None:
        self.before = self._read()

    def cores(self) -> float | None:
        """Their mean number of busy cores since `start`."""
        after = self._read()
        if after is None or self.before is None:
            return None
        (now, everybody, own), (then, everybody_then, own_then) = after, self.before
        return max(0.0, (everybody - everybody_then - own + own_then) / max(now - then, 1e-3))

    def wait(self, patience: float, limit: float = 0.2) -> float:
        """Wait, at most `patience` seconds, until they use fewer than `limit` cores; return what is left of the patience."""
        end = time.monotonic() + patience
        while (left := end - time.monotonic()) > 0:
            self.start()
            time.sleep(min(0.25, left))
            busy = self.cores()
            if busy is None or busy < limit:
                break
        return max(0.0, end - time.monotonic())

    def _read(self) -> tuple[float, float, float] | None:
        """(clock, busy seconds of all cores, busy seconds of our own processes)"""
        try:
            tick = os.sysconf("SC_CLK_TCK")
            ticks = [int(field) for field in Path("/proc/stat").read_text().split(maxsplit=9)[1:9]]
            user, nice, system, _idle, _waiting, irq, softirq, stolen = ticks
            own = 0
            for pid in [*self.own, *children(self.own)]:
                fields = _fields(Path(f"/proc/{pid}"))
                own += int(fields[11]) + int(fields[12])
        except (OSError, ValueError, AttributeError):
            return None
        return time.monotonic(), (user + nice + system + irq + softirq + stolen) / tick, own / tick
