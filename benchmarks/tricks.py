"""Things known to matter for speed, each as two ways to the same result: timed in alternating turns, before over after.

    python -m benchmarks tricks

What they mean, and which of them the engine uses, is in notes.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from time import perf_counter
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from tinygrad_tf import fused
from tinygrad_tf.gradients import add_gradients
from tinygrad_tf.memory import keep_freed_memory
from tinygrad_tf.optim import AdamW
from tinygrad_tf.threads import parts

from . import tables
from .machine import Others, processor_time
from .measure import Plan, each, rounds_of, start
from .ours import as_the_trainer, decoder
from .processes import Worker
from .sizes import SIZES, batches
from .turns import ratio, take_turns

TURN = 0.05  # seconds that a turn should last at least
Way = Callable[[], Any]
Around = Callable[[], AbstractContextManager]


@dataclass(frozen=True)
class Trick:
    """`make` gives both ways; what they return must agree within `tolerance` of its largest number."""

    what: str
    size: str
    before: str
    after: str
    make: Callable[[], tuple[Way, Way]]
    tolerance: float = 1e-5
    keep: bool = True  # freed memory, as the trainer does
    around: tuple[Around, Around] = (nullcontext, nullcontext)  # what either runs in

    @property
    def name(self) -> str:
        return f"{self.what}, {self.size}"


def _numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def cube(rows: int = 768, width: int = 512) -> tuple[Way, Way]:
    x = _numbers(rows, width)
    return (lambda: np.power(x, 3)), (lambda: x * x * x)


def embedding_gradient(vocabulary: int, tokens: int = 768, width: int = 128) -> tuple[Way, Way]:
    """After is the engine's: a product with the one-hot matrix for few rows, sorted runs for many."""
    ids = np.random.default_rng(1).integers(0, vocabulary, tokens)
    g, weight = _numbers(tokens, width), np.zeros((vocabulary, width), np.float32)

    def added() -> np.ndarray:
        out = np.zeros_like(weight)
        np.add.at(out, ids, g)
        return out

    _, (rule,) = fused.embedding.raw(weight, ids=ids)
    return added, partial(rule, g)


def causal_blocks(batch: int, heads: int, length: int, head_dim: int) -> tuple[Way, Way]:
    """The same function: one block holds every query, and so meets every key; or blocks of 64, which leave out most of those
    that are masked."""
    q, k, v, g = (_numbers(batch, heads, length, head_dim) for _ in range(4))

    def way(block: int | None) -> Any:
        out, rule = fused.attention.raw(q, k, v, causal=0, block=block)
        return out, *rule(g)

    return partial(way, length), partial(way, None)


def loss_in_one_pass(rows: int, vocabulary: int) -> tuple[Way, Way]:
    """Loss and gradient from the logits."""
    logits, target = _numbers(rows, vocabulary), np.random.default_rng(1).integers(0, vocabulary, rows)
    at, one = np.arange(rows), np.float32(1)

    def in_two() -> Any:
        logp, (rule,) = fused.log_softmax.raw(logits, dim=1)
        g = np.zeros_like(logp)
        g[at, target] = -one / np.float32(rows)
        return -logp[at, target].mean(), rule(g)

    def in_one() -> Any:
        loss, (rule,) = fused.cross_entropy.raw(logits, target=target)
        return loss, rule(one)

    return in_two, in_one


def flat_adamw(size: str) -> tuple[Way, Way]:
    """The same update of all parameters of a model: one tensor after the other, or all in one array."""
    shapes = [p.shape for p in decoder(SIZES[size]).parameters()]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    parts = [slice(end - math.prod(shape), end) for shape, end in zip(shapes, ends)]

    def fresh() -> list[np.ndarray]:
        return [_numbers(ends[-1]), _numbers(ends[-1]), np.zeros(ends[-1], np.float32), np.zeros(ends[-1], np.float32)]

    def update(p: np.ndarray, g: np.ndarray, m: np.ndarray, v: np.ndarray) -> None:
        for piece in range(0, p.size, 1 << 16):  # numbers that stay in the cache
            p1, g1, m1, v1 = (a[piece : piece + (1 << 16)] for a in (p, g, m, v))
            p1 *= 0.9999
            m1 *= 0.9
            m1 += 0.1 * g1
            v1 *= 0.99
            v1 += 0.01 * (g1 * g1)
            root = np.sqrt(v1)
            root += 1e-8
            p1 -= 1e-3 * m1 / root

    whole, single = fresh(), fresh()
    tensors = [[a[part].copy() for a in single] for part in parts]

    def one_by_one() -> np.ndarray:
        for tensor in tensors:
            update(*tensor)
        return np.concatenate([tensor[0] for tensor in tensors[:1]])

    def flat() -> np.ndarray:
        update(*whole)
        return whole[0][parts[0]]

    return one_by_one, flat


def written_in_place(rows: int, read: int, written: int) -> tuple[Way, Way]:
    """A weight's gradient dw = g^T x, as a new array that is copied into the flat gradient, or written there."""
    x, g = _numbers(rows, read), _numbers(rows, written)
    one, other = np.zeros(written * read, np.float32), np.zeros(written * read, np.float32)

    def copied() -> np.ndarray:
        one[...] = (g.T @ x).reshape(-1)
        return one

    return copied, lambda: np.matmul(g.T, x, out=other.reshape(written, read)).reshape(-1)


def reused(rows: int = 768, width: int = 512) -> tuple[Way, Way]:
    a, b = _numbers(rows, width), _numbers(rows, width)
    out = np.empty_like(a)
    return (lambda: np.multiply(a, b)), (lambda: np.multiply(a, b, out=out))


def product(rows: int, read: int, written: int) -> tuple[Way, Way]:
    """The same product, into an array that is there, twice."""
    x, w, out = _numbers(rows, read), _numbers(read, written), np.empty((rows, written), np.float32)
    way = partial(np.matmul, x, w, out=out)
    return way, way


@cache
def stepped(size: str) -> tuple[Any, Any]:
    """A decoder and its optimizer."""
    model = decoder(SIZES[size])
    return model, AdamW(model.parameters())


def gradients(size: str, cut: bool = False) -> tuple[Way, Way]:
    """The gradients of a step, the batch divided as a whole; or at first each op cut for itself."""
    model, (x, y) = stepped(size)[0], next(batches(SIZES[size]))
    parameters = list(model.parameters())

    def way(add: Callable[[], Any]) -> tuple[np.ndarray, ...]:
        model.zero_grad()
        add()
        return tuple(p.grad.array.copy() for p in parameters)

    def whole() -> None:
        add_gradients(model, x, y, 1)

    return partial(way, (lambda: model.loss(x, y).backward()) if cut else whole), partial(way, whole)


def slip(rows: int = 768, read: int = 128, written: int = 512) -> tuple[Way, Way]:
    """A scale that is a NumPy number of 64 bits makes everything after it float64."""
    x, w = _numbers(rows, read), _numbers(read, written)

    def layer(scale: Any) -> np.ndarray:
        return np.tanh((x * scale) @ w)

    return partial(layer, np.float64(0.125)), partial(layer, 0.125)


KEPT = Trick("freed memory", "step of laptop", "malloc as it comes", "thresholds raised", lambda: (list, list))  # two processes
IN_PLACE = ("a new array, then copied", "written into the flat gradient")
THREADS = ("two threads of BLAS", "one")
ONE_OR_TWO = (partial(threadpool_limits, 2, user_api="blas"), partial(threadpool_limits, 1, user_api="blas"))
CUT = ("each op cut for itself", "the batch, once")
TRICKS = [
    Trick("x³", "768 × 512", "np.power(x, 3)", "x * x * x", cube),
    Trick("embedding gradient", "65 rows", "np.add.at", "one-hot product", partial(embedding_gradient, 65)),
    Trick("embedding gradient", "32,000 rows", "np.add.at", "sorted, in runs", partial(embedding_gradient, 32_000)),
    Trick("causal attention", "T = 256", "whole T × T", "blocks of 64", partial(causal_blocks, 8, 6, 256, 64)),
    Trick("causal attention", "T = 1,024", "whole T × T", "blocks of 64", partial(causal_blocks, 1, 6, 1024, 64)),
    Trick("loss", "768 × 65", "log-softmax, then picked", "one pass", partial(loss_in_one_pass, 768, 65)),
    Trick("loss", "512 × 8,192", "log-softmax, then picked", "one pass", partial(loss_in_one_pass, 512, 8192)),
    Trick("AdamW", "tiny", "one tensor after the other", "one flat array", partial(flat_adamw, "tiny")),
    Trick("AdamW", "laptop", "one tensor after the other", "one flat array", partial(flat_adamw, "laptop")),
    Trick("weight gradient", "laptop, 512 × 128", *IN_PLACE, partial(written_in_place, 768, 128, 512)),
    Trick("weight gradient", "baby, 1,536 × 384", *IN_PLACE, partial(written_in_place, 2048, 384, 1536)),
    Trick("a result's array", "768 × 512, malloc as it comes", "a new one", "the same again", reused, keep=False),
    Trick("a result's array", "768 × 512, freed memory kept", "a new one", "the same again", reused),
    Trick("product", "tiny, 1 million operations", *THREADS, partial(product, 128, 32, 128), around=ONE_OR_TWO),
    Trick("product", "laptop, 100 million operations", *THREADS, partial(product, 768, 128, 512), around=ONE_OR_TWO),
    Trick("product", "baby, 2.4 billion operations", *THREADS, partial(product, 2048, 384, 1536), around=ONE_OR_TWO),
    Trick("gradients of a step", "laptop", "shared by two threads", "by two processes", partial(gradients, "laptop"),
          around=(partial(parts, 2), lambda: as_the_trainer(SIZES["laptop"], stepped("laptop")))),
    Trick("gradients of a step", "baby, two threads", *CUT, partial(gradients, "baby", cut=True),
          around=(parts, lambda: as_the_trainer(SIZES["baby"], stepped("baby")))),
    Trick("layer", "768 × 128 to 512", "one number of float64", "float32", slip, tolerance=1e-4),
]


class Pair:
    """One trick, in a process of its own."""

    def __init__(self, name: str, keep: bool):
        if keep:
            keep_freed_memory()
        self.trick = next(trick for trick in TRICKS if trick.name == name)

    def measure(self, rounds: int) -> dict[str, list[float]]:
        """Seconds a call of either way, by the clock and of processor time, in turns, once it is sure that they agree."""
        ways = dict(zip(("before", "after"), self.trick.make()))
        difference = apart(*(way() for way in ways.values()))
        if not difference <= self.trick.tolerance:
            raise ArithmeticError(f"{self.trick.name}: the two ways differ by {difference:.1e}")
        around = dict(zip(ways, self.trick.around))

        def turn(name: str, count: int) -> tuple[float, float]:
            with around[name]():
                ways[name]()  # brings the caches, and wakes the threads
                cpu, wall = processor_time(), perf_counter()
                for _ in range(count):
                    ways[name]()
                return (perf_counter() - wall) / count, (processor_time() - cpu) / count

        count = max(1, round(TURN / max(turn(name, 3)[0] for name in ways)))
        found = take_turns({name: partial(turn, name, count) for name in ways}, rounds, Others([]))
        return {"before": found.wall["before"], "after": found.wall["after"],
                "cpu before": found.cpu["before"], "cpu after": found.cpu["after"]}  # fmt: skip


def apart(a: Any, b: Any) -> float:
    """The largest difference of two results, as a share of the largest number in the second."""
    if isinstance(b, tuple):
        return max(apart(x, y) for x, y in zip(a, b, strict=True))
    return float(np.abs(np.asarray(a, np.float64) - b).max() / max(float(np.abs(b).max()), 1e-30))


def measurements(plan: Plan, tricks: list[Trick] | None = None) -> Iterator[dict[str, Any]]:
    """A row for each trick; the memory that is kept first, over a whole step in two processes."""
    plan = replace(plan, kernels=("numpy",))  # so that what is measured is the engine in NumPy
    for trick in [KEPT, *TRICKS] if tricks is None else tricks:
        if trick is KEPT:
            with ExitStack() as stack:
                workers = start(stack, plan, {"after": "ours.Training"}, size="laptop")
                workers["before"] = stack.enter_context(Worker("ours.Training", plan.threads, size="laptop", keep=False))
                rounds, _, _ = rounds_of(workers, plan)
            found = {**rounds.wall, **{f"cpu {name}": seconds for name, seconds in rounds.cpu.items()}}
        else:
            with Worker("tricks.Pair", plan.threads, name=trick.name, keep=trick.keep) as worker:
                found = worker.call("measure", rounds=plan.pairs)
        yield {
            "what": "trick", "name": trick.name, "trick": trick.what, "of": trick.size, "ways": [trick.before, trick.after],
            **asdict(plan), "milliseconds": each({name: found[name] for name in ("before", "after")}, 1000),
            "ratio": ratio(found["before"], found["after"]), "cpu_ratio": ratio(found["cpu before"], found["cpu after"]),
        }  # fmt: skip


def show(results: list[dict[str, Any]]) -> None:
    made = tables.table(f"two ways to the same result; threads: {results[0]['threads']}; freed memory kept",
                        "before / after: turn by neighbouring turn, median and quartiles; above 1, the second way is faster.",
                        "", "size", "before", "after", "ms before", "ms after", "before / after")  # fmt: skip
    for column in made.columns[:4]:
        column.no_wrap, column.justify = False, "left"
    for r in results:
        times = [tables.number(r["milliseconds"][way]["median"]) for way in ("before", "after")]
        made.add_row(r["trick"], r["of"], *r["ways"], *times, tables.quartiles(r["ratio"]))
    tables.console.print(made)


def markdown(results: list[dict[str, Any]]) -> str:
    """The table of notes.md."""
    lines = ["| | size | before | ms | after | ms | before / after |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for r in results:
        before, after = (tables.number(r["milliseconds"][way]["median"]) for way in ("before", "after"))
        s = r["ratio"]
        ways = [way if " = " in way or not any(c in way for c in "._*") else f"`{way}`" for way in r["ways"]]
        lines.append(f"| {r['trick']} | {r['of']} | {ways[0]} | {before} | {ways[1]} | {after} | "
                     f"{s['median']:.2f} [{s['lower']:.2f}, {s['upper']:.2f}] |")  # fmt: skip
    return "\n".join(lines)
