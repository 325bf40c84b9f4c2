"""The measurements. Each returns plain numbers, ready for JSON; `tables.py` shows them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import Any

from .machine import Others, installed
from .processes import Worker
from .sizes import SIZES
from .statements import TENSOR
from .turns import Rounds, ratio, spread, take_turns

TURN = 0.5  # seconds that a turn should last at least
WARM_UP = 2  # calls that are not timed
MEMORY_TURNS = 3
SHORT_TURN = 0.02  # the same for one small op
OURS = {"numpy": "ours", "numba": "ours, numba"}  # our kernels, and the name under which they are measured


@dataclass(frozen=True)
class Plan:
    """How to measure: threads for each framework, rounds, seconds to wait, in all, for a quiet machine, and our kernels."""

    threads: int = 2
    pairs: int = 10
    patience: float = 0.0
    kernels: tuple[str, ...] = ("numpy",)

    @property
    def ours(self) -> list[str]:
        """The names under which we are measured, one for each of the kernels."""
        return [OURS[kernels] for kernels in self.kernels]


def kernels_here() -> tuple[str, ...]:
    """Which of our kernels can be measured here."""
    return ("numpy", "numba") if installed("numba") and find_spec("tinygrad_tf.kernels") else ("numpy",)


def frameworks(plan: Plan) -> dict[str, str]:
    """Name -> module of what can be measured here."""
    return {**dict.fromkeys(plan.ours, "ours"), **({"torch": "theirs"} if installed("torch") else {})}


def tasks_of(kind: str, plan: Plan) -> dict[str, str]:
    """Name -> task of this kind, for ours with each of the kernels and for PyTorch."""
    return {name: f"{module}.{kind}" for name, module in frameworks(plan).items()}


def start(stack: ExitStack, plan: Plan, tasks: dict[str, str], **options: Any) -> dict[str, Worker]:
    """A worker for each task. A name that ends in "kept" stands for the same task with the memory that it frees kept."""
    named = {name: kernels for kernels, name in OURS.items()}
    workers = {}
    for name, task in tasks.items():
        kept = {"keep": True} if name.endswith("kept") else {}
        kernels = named.get(name, plan.kernels[0])
        workers[name] = stack.enter_context(Worker(task, plan.threads, kernels=kernels, **options, **kept))
    return workers


def rounds_of(workers: dict[str, Worker], plan: Plan, least: float = TURN) -> tuple[Rounds, dict[str, list], int]:
    """Warm up, choose how many calls make a turn of at least this many seconds, take turns.

    Returns (seconds a call, everybody's results, calls a turn).
    """
    results: dict[str, list] = {name: [] for name in workers}

    def turn(name: str, count: int) -> tuple[float, float]:
        answer = workers[name].call("run", count=count)
        results[name] += answer["results"]
        return answer["wall"] / count, answer["cpu"] / count

    for name in workers:
        turn(name, WARM_UP)
    count = max(1, round(least / max(turn(name, 1)[0] for name in workers)))
    competitors = {name: partial(turn, name, count) for name in workers}
    return take_turns(competitors, plan.pairs, others_of(workers), plan.patience), results, count


def others_of(workers: dict[str, Worker]) -> Others:
    return Others([worker.process.pid for worker in workers.values()])


def compared(rounds: Rounds) -> dict[str, Any]:
    """What every comparison reports of its rounds: everybody's time over ours, by the clock and of processor; others' load.

    Ratios stand under our name (of each of our kernels), then under the other's.
    """
    return {
        "ratios": _over_ours(rounds.wall),
        "cpu_ratios": _over_ours(rounds.cpu),
        "others": spread(rounds.others) if rounds.others else None,
    }


def _over_ours(seconds: dict[str, list[float]]) -> dict[str, dict[str, dict[str, float]]]:
    bases = [name for name in seconds if name in OURS.values()]
    return {base: {name: ratio(values, seconds[base]) for name, values in seconds.items() if name != base} for base in bases}


def each(seconds: dict[str, list[float]], scale: float) -> dict[str, dict[str, float]]:
    return {name: spread(values, scale) for name, values in seconds.items()}


def step(size: str, plan: Plan) -> dict[str, Any]:
    """A training step: ours, PyTorch's as it comes and with freed memory kept, and the matrix products alone."""
    tasks = tasks_of("Training", plan)
    if "torch" in tasks:
        tasks["torch, kept"] = tasks["torch"]
    tasks["products"] = "floor.Products"
    with ExitStack() as stack:
        rounds, results, count = rounds_of(start(stack, plan, tasks, size=size), plan)
    results.pop("products")
    answer = {
        "what": "step", "size": size, **asdict(plan), "steps_per_turn": count, "tokens_per_step": SIZES[size].tokens,
        "milliseconds": each(rounds.wall, 1000), "cpu_milliseconds": each(rounds.cpu, 1000),
        "losses": {name: {"first": values[0], "last": values[-1], "steps": len(values)} for name, values in results.items()},
        **compared(rounds),
    }  # fmt: skip
    if "torch" in results:
        pairs = [pair for name in plan.ours for pair in zip(results[name], results["torch"], strict=True)]
        answer["largest_loss_difference"] = max(abs(a - b) / b for a, b in pairs)
    return answer


def generation(size: str, temperature: float, plan: Plan) -> dict[str, Any]:
    """Tokens written one at a time with a cache of keys and values; temperature 0 takes the most probable."""
    tasks = tasks_of("Generation", plan)
    with ExitStack() as stack:
        rounds, results, _ = rounds_of(start(stack, plan, tasks, size=size, temperature=temperature), plan)
    tokens, choice = SIZES[size].block_size, f"temperature {temperature}" if temperature else "most probable"
    answer = {
        "what": "generation", "name": f"{size}, {choice}", "size": size, "temperature": temperature, **asdict(plan),
        "tokens": tokens, "milliseconds_per_token": each(rounds.wall, 1000 / tokens), **compared(rounds),
    }  # fmt: skip
    if "torch" in results and temperature == 0:
        answer["same_tokens"] = all(results[name][0] == results["torch"][0] for name in plan.ours)
    return answer


def small_op(op: str, workers: dict[str, Worker], plan: Plan) -> dict[str, Any]:
    """One statement of `statements.py`, in microseconds."""

    def added(seconds: dict[str, list[float]]) -> dict[str, float]:
        return spread([a - b for a, b in zip(seconds[plan.ours[0]], seconds["numpy"], strict=True)], 1e6)

    def turn(name: str, number: int) -> tuple[float, float]:
        answer = workers[name].call("seconds", op=op, number=number)
        return answer["wall"] / number, answer["cpu"] / number

    number = max(1, round(SHORT_TURN / max(turn(name, 200)[0] for name in workers)))
    competitors = {name: partial(turn, name, number) for name in workers}
    rounds = take_turns(competitors, plan.pairs, others_of(workers), plan.patience)
    return {
        "what": "op", "name": op, "statement": TENSOR[op], **asdict(plan),
        "microseconds": each(rounds.wall, 1e6), "microseconds_on_top_of_numpy": added(rounds.wall),
        "cpu_microseconds": each(rounds.cpu, 1e6), "cpu_microseconds_on_top_of_numpy": added(rounds.cpu),
        **compared(rounds),
    }  # fmt: skip


def small_ops(plan: Plan) -> Iterator[dict[str, Any]]:
    """Every statement of `statements.py`, one after the other."""
    plan = replace(plan, kernels=plan.kernels[:1])  # 4 x 4 numbers are no work for a kernel
    tasks = tasks_of("SmallOps", plan) | {"numpy": "ours.BareNumpy"}
    with ExitStack() as stack:
        workers = start(stack, plan, tasks)
        for op in TENSOR:
            yield small_op(op, workers, plan)


def memory(size: str, plan: Plan, steps: int = 3) -> dict[str, Any]:
    """Peak resident memory of the first steps in a fresh process, above what was held with the model alone.

    Three fresh processes for each at most, in turns. `ratios`: PyTorch's added memory over ours.
    """
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in frameworks(plan)}
    for _ in range(min(plan.pairs, MEMORY_TURNS)):
        for name, task in tasks_of("Training", plan).items():
            with ExitStack() as stack:
                worker = start(stack, plan, {name: task}, size=size, prepared=False)[name]
                found[name].append(worker.call("memory", steps=steps))
    added = {name: [max(1, answer["peak"] - answer["before"]) for answer in answers] for name, answers in found.items()}
    return {
        "what": "memory", "size": size, **asdict(plan), "steps": steps, "turns": min(plan.pairs, MEMORY_TURNS),
        "added": {name: spread(values) for name, values in added.items()},
        "peak": {name: spread([answer["peak"] for answer in answers]) for name, answers in found.items()},
        "exact": all(answer["exact"] for answers in found.values() for answer in answers),
        "ratios": _over_ours(added),
    }  # fmt: skip


def profile(size: str, plan: Plan, shapes: bool) -> dict[str, Any]:
    """Where our step's time goes."""
    with Worker("profile.Profile", plan.threads, kernels=plan.kernels[-1], size=size) as worker:
        measured = worker.call("measure", shapes=shapes, threads=plan.threads)
    return {"what": "profile", "size": size, "threads": plan.threads, "kernels": plan.kernels[-1], **measured}


def drawing(fused: bool, plan: Plan) -> dict[str, Any]:
    """Milliseconds of each part of a drawing of twelve blocks; there is no competitor."""
    with Worker("drawing.Parts", plan.threads, fused=fused) as worker:
        worker.call("run", count=1)
        found = worker.call("run", count=plan.pairs)["results"]
    parts = {name: spread([each[name] for each in found], 1000) for name in found[0] if name != "nodes"}
    return {"what": "drawing", "fused": fused, "nodes": found[0]["nodes"], "milliseconds": parts}


def step_beside(size: str, plan: Plan) -> dict[str, Any]:
    """A training step in a program that draws, over one in a program that does not."""
    with ExitStack() as stack:
        workers = start(stack, plan, {plan.ours[0]: "ours.Training", "drawing": "drawing.TrainingBeside"}, size=size)
        rounds, _, _ = rounds_of(workers, plan)
    return {"what": "step beside drawing", "size": size, "milliseconds": each(rounds.wall, 1000), **compared(rounds)}
