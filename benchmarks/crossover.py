"""From which length on linear attention is faster than softmax attention here, on one thread: `python -m benchmarks.crossover`.

Two layers with the same projections, one text, causal, in alternating turns in one process. The projections cost both the same,
so where the times meet depends on the mixing alone: T^2 D against T D (D + chunk).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from tinygrad_tf import Tensor, nn, no_grad

from . import machine, tables
from .turns import ratio, spread, take_turns

WIDTH, HEADS = 256, 4
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
TURN = 0.05  # seconds that a turn should last at least
KINDS = {"softmax": nn.MultiHeadAttention, "linear": nn.LinearAttention}


def calls(length: int, backward: bool) -> dict[str, Callable[[], None]]:
    """Name -> one causal pass over a text of this length."""
    generator = np.random.default_rng(0)
    x = Tensor(generator.standard_normal((1, length, WIDTH), np.float32), requires_grad=True)
    g = np.ones((1, length, WIDTH), np.float32)

    def once(layer: nn.Module) -> None:
        if backward:
            layer(x, causal=True).backward(g)
        else:
            with no_grad():
                layer(x, causal=True)

    return {name: partial(once, kind(WIDTH, HEADS, generator=generator)) for name, kind in KINDS.items()}


def measure(length: int, backward: bool, rounds: int = 7) -> dict:
    """Milliseconds of each layer, and how many times faster the linear one is: the median of neighbouring turns."""

    def turn(call: Callable[[], None], count: int) -> tuple[float, float]:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            call()
        return (time.perf_counter() - wall) / count, (time.process_time() - cpu) / count

    competitors = {}
    for name, call in calls(length, backward).items():
        turn(call, 2)  # warm up
        competitors[name] = partial(turn, call, max(1, round(TURN / turn(call, 1)[0])))
    found = take_turns(competitors, rounds, machine.Others([]))
    milliseconds = {name: spread(values, 1000)["median"] for name, values in found.wall.items()}
    return {"length": length, **milliseconds, "ratio": ratio(found.wall["softmax"], found.wall["linear"])["median"]}


def meeting(rows: list[dict]) -> float | None:
    """The length at which the ratio passes 1 for good, on a straight line between the logarithms; None if it does not."""
    for row, after in zip(rows[-2::-1], rows[:0:-1]):
        if row["ratio"] <= 1 < after["ratio"]:
            low, high = np.log(row["ratio"]), np.log(after["ratio"])
            return float(row["length"] * (after["length"] / row["length"]) ** (-low / (high - low)))
    return None


def main() -> None:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"):
        compare()


def compare() -> None:
    tables.machine(machine.describe(), 1)
    print(f"one layer of width {WIDTH} with {HEADS} heads of {WIDTH // HEADS}, one text, causal, float32\n")
    for what, backward in (("forward", False), ("forward and backward", True)):
        print(f"{what:<22}{'T':>6}{'softmax, ms':>14}{'linear, ms':>13}{'ratio':>8}")
        rows = []
        for length in LENGTHS:
            rows.append(row := measure(length, backward))
            print(f"{'':<22}{length:>6}{row['softmax']:>14.2f}{row['linear']:>13.2f}{row['ratio']:>8.2f}")
        met = meeting(rows)
        print(f"linear is faster from T = {met:.0f} on\n" if met else "the times do not meet in these lengths\n")


if __name__ == "__main__":
    main()
