"""How good a model in training is: its loss on held-out text, and a sample of what it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from .data import IGNORE, Corpus, get_batch, windows
from .engine import no_grad
from .generate import evaluating, generate
from .gradients import kept
from .parallel import ONE, One
from .run import Run
from .threads import count, on_threads


def evaluate(model: Any, batches: Iterable[tuple[np.ndarray, np.ndarray]], ranks: One = ONE) -> float:
    """Mean loss in nats per kept target over batches (x, y), without dropout. The model's mode is left as it was.

    Each rank takes some of the batches, and each of its threads some of those; the sum is taken in the order of one process, so
    it is the same number.
    """

    def judge(batch: tuple[np.ndarray, np.ndarray]) -> tuple[float, int]:
        x, y = batch
        with no_grad():  # of this thread
            return model.loss(x, y).item() * kept(y), kept(y)

    own, todo = list[tuple[float, int]](), iter(ranks.deal(batches))
    with evaluating(model):
        while some := list(islice(todo, count())):
            own += on_threads(judge, some)
    everything = ranks.collect(own)
    return sum(loss for loss, _ in everything) / max(1, sum(number for _, number in everything))


def estimate(run: Run, corpus: Corpus, ranks: One = ONE) -> float:
    """Held-out loss over a few random windows, drawn from a stream of their own, as the final evaluation counts it."""
    c = run.config

    def batch() -> tuple[np.ndarray, np.ndarray]:
        x, y = get_batch(corpus.val, c.block_size, c.batch_size, run.streams["evaluation"])
        y[:, : c.context_only] = IGNORE
        return x, y

    return evaluate(run.model, (batch() for _ in range(c.eval_batches)), ranks)


def evaluate_all(run: Run, corpus: Corpus, ranks: One = ONE, stop: Callable[[], bool] = lambda: False) -> float:
    """Held-out loss over the whole split. Raises KeyboardInterrupt where `stop` says so before a batch."""

    def batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for batch in windows(corpus.val, run.config.block_size, run.config.batch_size, run.config.context_only):
            if stop():
                raise KeyboardInterrupt
            yield batch

    return evaluate(run.model, batches(), ranks)


def write_sample(run: Run) -> str:
    """A text from the model as it is now, drawn from a stream of its own."""
    c, start = run.config, run.vocabulary.encode(run.start)
    tokens = generate(run.model, start, c.sample_tokens, temperature=c.sample_temperature, generator=run.streams["sampling"])
    return run.vocabulary.decode(list(tokens)).strip("\n")
