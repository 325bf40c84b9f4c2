"""What the length of a text costs: from which one on linear attention is faster than softmax attention, and with which power of
it each part's time grows.

Two layers with the same projections, one text, causal, in alternating turns in one process on one thread, by processor time,
which other programs hardly change. The projections cost both the same, so where the times meet depends on the mixing alone:
T^2 D against T D (D + chunk). Beside them the mixing alone, of either and of softmax attention in a window, and the network
that stands behind them in a block.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from tinygrad_tf import Tensor, fused, nn, no_grad
from tinygrad_tf.nn.linear_attention import LinearMix

from . import machine
from .turns import ratio, spread, take_turns

WIDTH, HEADS, WINDOW = 256, 4, 128
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
LONG = 512  # from here on calls and caches matter little, and a power of the length can be told
TURN = 0.05  # seconds that a turn should last at least
PASSES = {"forward": False, "forward and backward": True}
LAYERS = ("softmax", "linear")
PARTS = ("scores and mixing", f"in a window of {WINDOW}", "linear mixing", "feed-forward")


def calls(length: int, backward: bool) -> dict[str, Callable[[], None]]:
    """Name -> one causal pass over a text of this length."""
    generator = np.random.default_rng(0)

    def inputs(n: int, *shape: int) -> list[Tensor]:
        return [Tensor(generator.random(shape, np.float32), requires_grad=True) for _ in range(n)]

    x, heads = inputs(1, 1, length, WIDTH), inputs(3, 1, HEADS, length, WIDTH // HEADS)
    softmax, linear = (kind(WIDTH, HEADS, generator=generator) for kind in (nn.MultiHeadAttention, nn.LinearAttention))
    work: list[tuple[Callable, list[Tensor]]] = [
        (partial(softmax, causal=True), x), (partial(linear, causal=True), x),
        (partial(fused.attention, causal=0), heads), (partial(fused.attention, causal=0, since=1 - WINDOW), heads),
        (partial(LinearMix(), causal=True), heads), (nn.FeedForward(WIDTH, 4 * WIDTH, generator=generator), x),
    ]  # fmt: skip

    def once(function: Callable, given: list[Tensor]) -> None:
        if backward:
            out = function(*given)
            out.backward(np.ones(out.shape, np.float32))
        else:
            with no_grad():
                function(*given)

    return {name: partial(once, *each) for name, each in zip((*LAYERS, *PARTS), work, strict=True)}


def measure(length: int, backward: bool, rounds: int = 7) -> dict:
    """Processor time in milliseconds, and how many times faster the linear layer is: medians, the ratio of nearby turns."""

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
    milliseconds = {name: spread(values, 1000)["median"] for name, values in found.cpu.items()}
    return {"length": length, **milliseconds, "ratio": ratio(found.cpu["softmax"], found.cpu["linear"])["median"]}


def measurements(rounds: int = 7) -> Iterator[dict]:
    """A row for each length, forward and then with backward."""
    with threadpool_limits(1, user_api="blas"):
        for name, backward in PASSES.items():
            for length in LENGTHS:
                yield {"what": "crossover", "pass": name, **measure(length, backward, rounds)}


def meeting(rows: list[dict]) -> float | None:
    """The length at which the ratio passes 1 for good, on a straight line between the logarithms; None if it does not."""
    for row, after in zip(rows[-2::-1], rows[:0:-1]):
        if row["ratio"] <= 1 < after["ratio"]:
            low, high = np.log(row["ratio"]), np.log(after["ratio"])
            return float(row["length"] * (after["length"] / row["length"]) ** (-low / (high - low)))
    return None


def power(lengths: list[int], costs: list[float]) -> float:
    """The p of costs = c length^p that fits best, by least squares on the logarithms."""
    return float(np.polyfit(np.log(lengths), np.log(costs), 1)[0])


def show(results: list[dict]) -> None:
    print(f"one layer of width {WIDTH} with {HEADS} heads of {WIDTH // HEADS}, one text, causal, float32; "
          "processor time on one thread\n")  # fmt: skip
    for name in PASSES:
        rows = [row for row in results if row["pass"] == name]
        print(f"{name:<22}{'T':>6}{'softmax, ms':>14}{'linear, ms':>13}{'ratio':>8}")
        for row in rows:
            print(f"{'':<22}{row['length']:>6}{row['softmax']:>14.2f}{row['linear']:>13.2f}{row['ratio']:>8.2f}")
        met = meeting(rows)
        print(f"linear is faster from T = {met:.0f} on\n" if met else "the times do not meet in these lengths\n")

        long = [row for row in rows if row["length"] >= LONG]
        print(f"{'T':<28}" + "".join(f"{row['length']:>10}" for row in long) + "   grows as")
        for part in PARTS:
            p = power([row["length"] for row in long], [row[part] for row in long])
            print(f"{part + ', ms':<28}" + "".join(f"{row[part]:>10.2f}" for row in long) + f"   T^{p:.2f}")
        print()
