"""Where the time of our training step goes, op by op, forward and backward.

Every op of the registry runs inside a stopwatch, and so does every backward rule that it returns. What is left of the two
passes is the tape itself: making nodes, ordering them, adding gradients up, giving them to the parameters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter, process_time
from typing import Any

import numpy as np

from tinygrad_tf.engine import registry
from tinygrad_tf.nn.utils import clip_grad_norm_
from tinygrad_tf.replay import replaying

from .ours import Training
from .sizes import CLIP


class Stopwatch:
    """Seconds and calls by name, by a clock of choice."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.seconds: dict[str, float] = defaultdict(float)
        self.calls: dict[str, int] = defaultdict(int)

    def wrap(self, name: str, function: Callable) -> Callable:
        def timed(*args: Any, **settings: Any) -> Any:
            start = self.clock()
            try:
                return function(*args, **settings)
            finally:
                self.seconds[name] += self.clock() - start
                self.calls[name] += 1

        return timed


@contextmanager
def timed_ops(forward: Stopwatch, backward: Stopwatch, shapes: bool) -> Iterator[None]:
    """Put every op's NumPy function behind a stopwatch, and take it away again.

    The function is a free variable of the op that `@op` made: that variable is exchanged, and `raw`, which `replay` calls, so
    nothing else changes. What `replay` adds to the ops that it runs is of the tape.
    """
    changed = []
    for name, op in registry.items():
        if name == "replay":
            continue
        cells = [cell for cell in op.__closure__ if cell.cell_contents is op.raw]
        if not cells:
            raise RuntimeError(f"the op {name} does not hold its function as a free variable; profile.py relies on it")
        changed.append((op, cells[0], op.raw))
        op.raw = cells[0].cell_contents = _watched(name, op.raw, forward, backward, shapes)
    try:
        yield
    finally:
        for op, cell, function in changed:
            op.raw = cell.cell_contents = function


def _watched(name: str, function: Callable, forward: Stopwatch, backward: Stopwatch, shapes: bool) -> Callable:
    def call(*args: Any, **settings: Any) -> Any:
        label = f"{name} {' '.join(_size(a) for a in args)}" if shapes else name
        value, rule = forward.wrap(label, function)(*args, **settings)
        if isinstance(rule, tuple):
            return value, tuple(backward.wrap(label, part) for part in rule)
        return value, backward.wrap(label, rule)

    return call


def _size(a: Any) -> str:
    return "×".join(map(str, np.shape(a))) or "number"


class Profile(Training):
    """A training step with a stopwatch on each part."""

    def measure(self, shapes: bool, threads: int, seconds: float = 3.0) -> dict[str, Any]:
        """Mean milliseconds of a step, whole ("step"), by op ("ops") and of what surrounds the ops ("parts").

        With one thread it is processor time, which other programs hardly disturb; with more, time by the clock.
        """
        clock = process_time if threads == 1 else perf_counter
        self.once()
        start = clock()
        self.once()
        steps = max(3, round(seconds / (clock() - start)))
        self.steps = 2 + steps
        forward, backward, parts = Stopwatch(clock), Stopwatch(clock), Stopwatch(clock)
        with timed_ops(forward, backward, shapes), replaying():
            start = clock()
            for _ in range(steps):
                self._step(parts)
            total = clock() - start
        scale = 1000 / steps
        ops: list[dict[str, Any]] = []
        for name, calls in forward.calls.items():
            times = {"forward": forward.seconds[name] * scale, "backward": backward.seconds[name] * scale}
            ops.append({"name": name, "calls": calls / steps, **times})
        ops.sort(key=lambda op: -op["forward"] - op["backward"])
        whole = {name: seconds * scale for name, seconds in parts.seconds.items()}
        tape = {name: whole.pop(name) - sum(op[name] for op in ops) for name in ("forward", "backward")}
        named = {"the tape, around the ops": tape, **{name: {"forward": ms, "backward": 0.0} for name, ms in whole.items()}}
        return {"ops": ops, "parts": named, "step": total * scale}

    def _step(self, parts: Stopwatch) -> None:
        ids, targets = parts.wrap("data", next)(self.batches)
        loss = parts.wrap("forward", self.model.loss)(ids, targets)
        parts.wrap("backward", loss.backward)()
        parts.wrap("clip", clip_grad_norm_)(self.parameters, CLIP)
        parts.wrap("AdamW", self.optimizer.step)()
        parts.wrap("zero_grad", self.optimizer.zero_grad)()
        self.last_loss = loss.item()
