"""Who is measured when: in turns, so that whatever slows the machine down slows everybody down.

A round gives each competitor one turn, and every second round goes in the opposite order. A ratio is taken within a round,
between turns that are next to each other in time; what is reported is the median of these ratios, and their spread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from .machine import Others

PAUSE = 0.02  # seconds after a turn: a thread pool that spins before it sleeps has then gone to sleep


@dataclass
class Rounds:
    """Seconds a call, by the clock and of processor time: competitor -> one entry a round. And how busy others were."""

    wall: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, list[float]] = field(default_factory=dict)
    others: list[float] = field(default_factory=list)  # cores that other programs used, round by round

    def add(self, name: str, wall: float, cpu: float) -> None:
        self.wall.setdefault(name, []).append(wall)
        self.cpu.setdefault(name, []).append(cpu)


Competitor = Callable[[], tuple[float, float]]


def take_turns(competitors: Mapping[str, Competitor], rounds: int, others: Others, patience: float = 0) -> Rounds:
    """`rounds` turns for each. A competitor does its work when called and returns its seconds: (by the clock, of processor).

    `patience` is how long to wait, in all, for moments in which other programs are quiet.
    """
    result = Rounds()
    for i in range(rounds):
        patience = others.wait(patience)
        others.start()
        for name in list(competitors)[:: -1 if i % 2 else 1]:
            result.add(name, *competitors[name]())
            time.sleep(PAUSE)
        busy = others.cores()
        if busy is not None:
            result.others.append(busy)
    return result


def ratio(slow: list[float], fast: list[float]) -> dict[str, float]:
    """Spread of slow / fast, round by round: how many times faster the second is."""
    return spread([a / b for a, b in zip(slow, fast, strict=True)])


def spread(values: list[float], scale: float = 1.0) -> dict[str, float]:
    """Smallest, lower quartile, median, upper quartile, largest."""
    names = ("min", "lower", "median", "upper", "max")
    return dict(zip(names, (np.quantile(values, [0, 0.25, 0.5, 0.75, 1]) * scale).tolist(), strict=True))
