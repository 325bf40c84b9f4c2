"""Who is measured when: in turns, so that whatever slows the machine down slows everybody down.

A round gives each competitor one turn, and every second round goes in the opposite order. A ratio is taken within a round,
between turns that are next to each other in time; what is reported is the median of these ratios, and their spread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .machine import Others

PAUSE = 0.02  # seconds after a turn: a thread pool that spins before it sleeps has then gone to sleep


@dataclass
class Rounds:
    """Seconds by competitor, one entry a round, and how many cores other programs used meanwhile."""

    seconds: dict[str, list[float]]
    others: list[float]

    def ratio(self, slow: str, fast: str) -> dict[str, float]:
        """Spread of time(slow) / time(fast), round by round: how many times faster `fast` is."""
        return spread([a / b for a, b in zip(self.seconds[slow], self.seconds[fast], strict=True)])

    def spread(self, name: str, scale: float = 1.0) -> dict[str, float]:
        return spread([s * scale for s in self.seconds[name]])


def take_turns(competitors: dict[str, Callable[[], float]], rounds: int, others: Others, patience: float = 0) -> Rounds:
    """`rounds` turns for each; a competitor does its work when called and returns the seconds that it took."""
    result = Rounds({name: [] for name in competitors}, [])
    for i in range(rounds):
        others.wait(patience)
        others.start()
        for name in list(competitors)[:: -1 if i % 2 else 1]:
            result.seconds[name].append(competitors[name]())
            time.sleep(PAUSE)
        busy = others.cores()
        if busy is not None:
            result.others.append(busy)
    return result


def spread(values: list[float]) -> dict[str, float]:
    """Smallest, lower quartile, median, upper quartile, largest."""
    names = ("min", "lower", "median", "upper", "max")
    return dict(zip(names, np.quantile(values, [0, 0.25, 0.5, 0.75, 1]).tolist(), strict=True))
