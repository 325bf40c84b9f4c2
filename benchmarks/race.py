"""Training against the clock: one loop, one schedule and one measure for every contestant, whatever its framework.

Nothing here knows a framework. A contestant brings its step and its loss; what it starts from, the recipe, the text, the
starting weights and the order of the batches, comes from a preset of `tinygrad_tf.settings`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from time import perf_counter
from typing import Any

import numpy as np

from tinygrad_tf.data import get_batch, load_corpus, windows
from tinygrad_tf.memory import keep_freed_memory
from tinygrad_tf.optim import FALLS
from tinygrad_tf.run import Run
from tinygrad_tf.settings import PRESETS

WARM = 3  # steps before the clock starts, thrown away: libraries load, kernels compile, memory is asked for
TOGETHER = 64  # windows in one batch of the evaluation


def share_of_peak(step: int, done: float, begun: float, *, warmup: int, floor: float, schedule: str = "cosine") -> float:
    """The learning rate as a share of its peak: up in a line for `warmup` steps, then down to `floor`.

    It is `tinygrad_tf.optim.warmup_cosine`, or `warmup_linear`, with time in the place of steps: `done` is the share of the
    budget that will be used when this step, counted from 0, ends, and `begun` the share that was used when the warm-up ended.
    So a run needs no guess of how many steps it will take, and its rate is lowest when its time is up, on a fast machine and
    on a slow one.
    """
    if step < warmup:
        return (step + 1) / warmup
    way = min(1.0, (done - begun) / (1 - begun)) if begun < 1 else 1.0
    return floor + (1 - floor) * FALLS[schedule](way)


class Contestant(ABC):
    """A recipe in a framework. `preset` names the recipe; text and seed as in training."""

    def __init__(self, preset: str, text: str, seed: int):
        self.config = PRESETS[preset].changed(text=text, seed=seed)
        self.corpus = load_corpus(text)
        keep_freed_memory()  # as our trainer does; PyTorch gets faster by it too

    def fresh(self) -> Run:
        """A run of our trainer before its first step: the starting weights and the order of the batches for everybody."""
        return Run.new(self.config, self.corpus.vocabulary, "")

    @abstractmethod
    def start(self) -> None:
        """Begin anew: a model that has learned nothing, its optimizer, and `self.batches`, a source of random numbers."""

    @abstractmethod
    def step(self, share: float) -> float:
        """One whole training step at this share of the peak learning rates; its loss."""

    @abstractmethod
    def loss(self, x: np.ndarray, y: np.ndarray) -> float:
        """The mean loss of x, y (B, T), without training."""

    def batch(self) -> tuple[np.ndarray, np.ndarray]:
        c = self.config
        return get_batch(self.corpus.train, c.block_size, c.batch_size * c.grad_accum, self.batches)

    batches: np.random.Generator

    def race(self, seconds: float) -> dict[str, Any]:
        """Train for this long by the clock, then measure. The clock runs from the first step to the end of the last one.

        A step that would not end in time is not begun; how long it would take is known from the one before.
        """
        c = self.config
        self.start()
        for _ in range(WARM):
            self.step(1.0)
        self.start()
        floor = c.min_lr / c.lr if c.lr else 1.0
        curve: list[tuple[float, float]] = []  # at the end of each step: seconds, loss of its batch
        begun = now = last = 0.0
        clock = perf_counter()
        while not curve or now + last <= seconds:
            step = len(curve)
            if step == c.warmup:
                begun = now / seconds
            done = (now + last) / seconds
            loss = self.step(share_of_peak(step, done, begun, warmup=c.warmup, floor=floor, schedule=c.schedule))
            before, now = now, perf_counter() - clock
            last = now - before
            curve.append((round(now, 4), loss))
            if not math.isfinite(loss):
                break
        return {"steps": len(curve), "tokens": len(curve) * c.batch_size * c.grad_accum * c.block_size, "trained": now,
                "context": c.block_size, "val_loss": self.validation(), "curve": curve}  # fmt: skip

    def validation(self) -> float:
        """Mean loss in nats per character over the whole held-out tenth, in windows of the context that do not overlap."""
        total = count = 0.0
        for x, y in windows(self.corpus.val, self.config.block_size, TOGETHER):
            total += self.loss(x, y) * y.size
            count += y.size
        return total / count
