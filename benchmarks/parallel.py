"""What several processes are worth: measured for two on this machine, modelled for 1 to 1,024 machines on a network.

    python -m benchmarks.parallel measure     # writes parallel.json: some minutes on two quiet cores
    python -m benchmarks.parallel             # writes parallel.md and parallel.svg from it

A step of N ranks takes t0 + t1 b + C for b sequences on each rank: t0 and t1 are measured on one machine, C is the all-reduce,
whose messages cost alpha + n beta each, alpha seconds of latency and beta seconds a byte, and gamma seconds for each byte
that is added: Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH, 2005.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_tf.data import get_batch
from tinygrad_tf.gradients import add_gradients
from tinygrad_tf.memory import keep_freed_memory
from tinygrad_tf.nn.utils import clip_grad_norm_
from tinygrad_tf.parallel import ONE, One, Ranks
from tinygrad_tf.run import Run
from tinygrad_tf.settings import PRESETS
from tinygrad_tf.text import Vocabulary
from tinygrad_tf.threads import threads_for

from . import machine
from .sizes import text
from .turns import ratio, spread, take_turns

HERE = Path(__file__).parent
NUMBERS, PAGE, FIGURE = HERE / "parallel.json", HERE / "parallel.md", HERE / "parallel.svg"
SIZES = ("tiny", "laptop", "baby")
RANKS = [2**i for i in range(11)]
# name: (alpha in seconds, bytes a second). A message over TCP through a switch; 94 % of the line's rate is left to its content.
NETWORKS = {"1 Gbit/s": (50e-6, 0.94e9 / 8), "10 Gbit/s": (30e-6, 9.4e9 / 8), "100 Gbit/s": (10e-6, 94e9 / 8)}

# --------------------------------------------------------------------------------------------------------- the model


def all_reduce(ranks: int, size: int, alpha: float, beta: float, gamma: float) -> dict[str, float]:
    """Seconds to add up `size` bytes of each of so many ranks, by algorithm.

    tree: reduce to one rank and broadcast, both along a binomial tree. doubling: everybody exchanges all with a partner, twice
    as far away each time. ring: reduce-scatter and all-gather around a ring. halving: both with partners, half as much each
    time (Rabenseifner); the number of ranks is a power of two. The last two send as few bytes as can be.
    """
    rounds, share = math.log2(ranks), (ranks - 1) / ranks * size
    return {
        "tree": 2 * rounds * (alpha + size * beta) + rounds * size * gamma,
        "doubling": rounds * (alpha + size * (beta + gamma)),
        "ring": 2 * (ranks - 1) * alpha + share * (2 * beta + gamma),
        "halving": 2 * rounds * alpha + share * (2 * beta + gamma),
    }


def communication(ranks: int, size: int, network: tuple[float, float], gamma: float) -> float:
    """Seconds in a step: the best all-reduce of the gradient, and the two of a few bytes for the loss and for Ctrl-C."""
    alpha, rate = network
    return min(all_reduce(ranks, size, alpha, 1 / rate, gamma).values()) + 2 * math.log2(ranks) * alpha


def growing(fit: dict[str, float], ranks: int, network: tuple[float, float], gamma: float) -> float:
    """Efficiency where every rank keeps the preset's batch: the step of one over the step of all."""
    alone = fit["t0"] + fit["t1"] * fit["batch"]
    return alone / (alone + communication(ranks, int(fit["bytes"]), network, gamma))


def dividing(fit: dict[str, float], ranks: int, network: tuple[float, float], gamma: float) -> float:
    """How many times faster a step is where the ranks divide the preset's batch; at most one rank a sequence."""
    alone = fit["t0"] + fit["t1"] * fit["batch"]
    each = fit["t0"] + fit["t1"] * fit["batch"] / ranks
    return alone / (each + communication(ranks, int(fit["bytes"]), network, gamma))


# --------------------------------------------------------------------------------------------------- what is measured


class Work:
    """The preset's own training step, on a made-up text of 65 characters, with `batch` sequences in place of the preset's."""

    def __init__(self, name: str, batch: int, ranks: One = ONE):
        self.config, self.ranks = PRESETS[name].changed(batch_size=batch), ranks
        vocabulary = Vocabulary("".join(map(chr, range(48, 48 + 65))))
        self.run = Run.new(self.config, vocabulary, "", start="0")
        ranks.own_numbers(self.run.streams["dropout"])
        self.parameters, self.ids = list(self.run.model.parameters()), text()
        self.bytes = sum(p.numel() for p in self.parameters) * 4

    def step(self) -> None:
        c, run, ranks = self.config, self.run, self.ranks
        x, y = get_batch(self.ids, c.block_size, c.batch_size, run.streams["batches"], ranks.part(c.batch_size))
        ranks.mean(add_gradients(run.model, x, y, 1), self.parameters)
        clip_grad_norm_(self.parameters, c.clip)
        run.optimizer.step()
        run.optimizer.zero_grad()
        ranks.any(False)

    def times(self, count: int) -> tuple[float, float]:
        """Seconds a step: by the clock, and of this process's processor time."""
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(count):
            self.step()
        return (time.perf_counter() - wall) / count, (time.process_time() - cpu) / count

    def reductions(self, count: int) -> list[float]:
        """Seconds of an all-reduce as large as the gradient; of products that take longer; of the products and then the
        all-reduce; of both at once."""
        comm, mpi = self.ranks.comm, self.ranks.mpi  # type: ignore[attr-defined]
        flat, square = np.ones(self.bytes // 4, np.float32), np.ones((256, 256), np.float32)

        def timed(before: bool, products: int, after: bool) -> float:
            comm.Barrier()
            began = time.perf_counter()
            request = comm.Iallreduce(mpi.IN_PLACE, flat) if before else None
            for _ in range(products):
                square @ square
            if request:
                request.Wait()
            if after:
                comm.Allreduce(mpi.IN_PLACE, flat)
            flat[...] = 1
            return time.perf_counter() - began

        kinds = [(False, 0, True)] * 2
        products = comm.bcast(max(1, round(2 * timed(*kinds[0]) / 8e-4)))
        kinds = [(False, 0, True), (False, products, False), (False, products, True), (True, products, False)]
        rows = np.array([[timed(*kind) for kind in kinds] for _ in range(count)])
        return np.median(rows, axis=0).tolist()


def worker(name: str, batch: int, parallel: bool) -> None:
    """Serve a parent: a line asks for so many steps, or with a minus for so many all-reduces; the answer is a line of JSON."""
    keep_freed_memory()
    ranks = One()
    if parallel:
        from mpi4py import MPI

        ranks = Ranks(MPI)
    c = PRESETS[name]
    with threads_for(2 * batch // ranks.size * c.block_size * c.n_embd * 4 * c.n_embd, by_batch=True):
        work = Work(name, batch, ranks)
        while True:
            count = int(sys.stdin.readline() or 0) if ranks.first else 0
            count = _told(ranks, count) if parallel else count
            if not count:
                return
            answer = work.reductions(-count) if count < 0 else work.times(count)
            if ranks.first:
                print(json.dumps(answer), flush=True)


def _told(ranks: Any, count: int) -> int:
    """The first rank's count. The others sleep meanwhile: it is another competitor's turn, on the same cores."""
    request = ranks.comm.Ibarrier()
    while not request.Test():
        time.sleep(0.05)
    return ranks.comm.bcast(count)


class Started:
    """Processes of `worker`."""

    def __init__(self, name: str, batch: int, ranks: int, threads: int):
        mpiexec = Path(sys.executable).with_name("mpiexec")
        several = [str(mpiexec) if mpiexec.exists() else "mpiexec", "-n", str(ranks)] if ranks > 1 else []
        line = [*several, sys.executable, "-m", "benchmarks.parallel", "worker", name, str(batch), str(int(ranks > 1))]
        env = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(line, stdin=pipe, stdout=pipe, text=True, env=env, cwd=HERE.parent)
        self.ask(2)  # warm up

    def ask(self, count: int) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(OSError):
            self.process.communicate("0\n", timeout=30)


def compare(name: str, rounds: int, seconds: float = 0.5) -> dict[str, Any]:
    """One process with two threads, and two ranks with one each, in alternating turns, on the preset's batch."""
    batch = PRESETS[name].batch_size
    with Started(name, batch, 1, 2) as one, Started(name, batch, 2, 1) as two:
        count = max(2, round(seconds / max(one.ask(2)[0], two.ask(2)[0])))
        found = take_turns({"one": lambda: one.ask(count), "two": lambda: two.ask(count)}, rounds, machine.Others([]))
        reduction = two.ask(-15)
    wall = {side: spread(values, 1e3) for side, values in found.wall.items()}
    return {"size": name, **wall, "ratio": ratio(found.wall["one"], found.wall["two"]), "reduction": reduction}


def fit(name: str, rounds: int = 3) -> dict[str, float]:
    """t0 and t1 of a step with two threads, by least squares over batches from one sequence to the preset's."""
    batch = PRESETS[name].batch_size
    batches = sorted({max(1, batch // part) for part in (1, 2, 4, 8)})
    seconds = []
    for b in batches:
        with Started(name, b, 1, 2) as one:
            count = max(2, round(0.5 / one.ask(2)[0]))
            seconds.append(float(np.median([one.ask(count)[0] for _ in range(rounds)])))
    t1, t0 = np.polyfit(batches, seconds, 1, w=1 / np.array(seconds))
    return {"size": name, "batch": batch, "bytes": Work(name, 1).bytes, "t0": max(0.0, float(t0)), "t1": float(t1),
            "measured": dict(zip(map(str, batches), seconds))}  # type: ignore[dict-item]


def adding() -> float:
    """Seconds to add a byte of float32 to another, in arrays larger than the caches."""
    a, b = np.ones(1 << 24, np.float32), np.ones(1 << 24, np.float32)
    times = []
    for _ in range(7):
        began = time.perf_counter()
        a += b
        times.append((time.perf_counter() - began) / a.nbytes)
    return float(np.median(times))


def measure(rounds: int = 8) -> None:
    """Measure everything and write it down."""
    numbers = {"machine": machine.describe(), "gamma": adding(), "compare": [compare(name, rounds) for name in SIZES[1:]],
               "fit": [fit(name) for name in SIZES]}
    NUMBERS.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")


def main(arguments: list[str]) -> None:
    match arguments:
        case ["worker", name, batch, parallel] if name in PRESETS and batch.isdecimal():
            worker(name, int(batch), parallel == "1")
        case ["measure"]:
            measure()
        case []:
            from .parallel_page import draw, page

            numbers = json.loads(NUMBERS.read_text(encoding="utf-8"))
            PAGE.write_text(page(numbers), encoding="utf-8")
            draw(numbers, FIGURE)
            print(f"{PAGE.name} and {FIGURE.name} are written anew")
        case ["-h" | "--help"]:
            print(__doc__)
        case _:
            print(f"error: benchmarks.parallel takes the word measure or none, not {' '.join(arguments)}", file=sys.stderr)
            sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
