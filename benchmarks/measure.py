"""The measurements. Each returns plain numbers, ready for JSON; `tables.py` shows them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from .machine import Others, installed
from .processes import Worker
from .sizes import SIZES
from .statements import TENSOR
from .turns import Rounds, ratio, spread, take_turns

TURN = 0.5  # seconds that a turn should last at least
WARM_UP = 2  # calls that are not timed
SHORT_TURN = 0.02  # the same for one small op


@dataclass(frozen=True)
class Plan:
    """How to measure: threads for each framework, rounds, and seconds to wait, in all, for a quiet machine."""

    threads: int = 2
    pairs: int = 10
    patience: float = 0.0


def frameworks() -> dict[str, str]:
    """Name -> module of what can be measured here."""
    return {"ours": "ours", **({"torch": "theirs"} if installed("torch") else {})}


def _start(stack: ExitStack, plan: Plan, tasks: dict[str, str], **options: Any) -> dict[str, Worker]:
    """A worker for each task. A name that ends in "kept" stands for the same task with the memory that it frees kept."""
    workers = {}
    for name, task in tasks.items():
        kept = {"keep": True} if name.endswith("kept") else {}
        workers[name] = stack.enter_context(Worker(task, plan.threads, **options, **kept))
    return workers


def _rounds(workers: dict[str, Worker], plan: Plan) -> tuple[Rounds, dict[str, list], int]:
    """Warm up, choose how many calls make a turn, take turns: (seconds a call, everybody's results, calls a turn)."""
    results: dict[str, list] = {name: [] for name in workers}

    def turn(name: str, count: int) -> tuple[float, float]:
        answer = workers[name].call("run", count=count)
        results[name] += answer["results"]
        return answer["wall"] / count, answer["cpu"] / count

    for name in workers:
        turn(name, WARM_UP)
    count = max(1, round(TURN / max(turn(name, 1)[0] for name in workers)))
    competitors = {name: partial(turn, name, count) for name in workers}
    return take_turns(competitors, plan.pairs, _others(workers), plan.patience), results, count


def _others(workers: dict[str, Worker]) -> Others:
    return Others([worker.process.pid for worker in workers.values()])


def _compared(rounds: Rounds) -> dict[str, Any]:
    """What every comparison reports of its rounds: everybody's time over ours, by the clock and of processor; others' load."""
    return {
        "ratios": {name: ratio(values, rounds.wall["ours"]) for name, values in rounds.wall.items() if name != "ours"},
        "cpu_ratios": {name: ratio(values, rounds.cpu["ours"]) for name, values in rounds.cpu.items() if name != "ours"},
        "others": spread(rounds.others) if rounds.others else None,
    }


def _each(seconds: dict[str, list[float]], scale: float) -> dict[str, dict[str, float]]:
    return {name: spread(values, scale) for name, values in seconds.items()}


def step(size: str, plan: Plan) -> dict[str, Any]:
    """A training step: ours, PyTorch's as it comes and with freed memory kept, and the matrix products alone."""
    tasks = {name: f"{module}.Training" for name, module in frameworks().items()}
    if "torch" in tasks:
        tasks["torch, kept"] = tasks["torch"]
    tasks["products"] = "floor.Products"
    with ExitStack() as stack:
        rounds, results, count = _rounds(_start(stack, plan, tasks, size=size), plan)
    results.pop("products")
    answer = {
        "what": "step", "size": size, **asdict(plan), "steps_per_turn": count, "tokens_per_step": SIZES[size].tokens,
        "milliseconds": _each(rounds.wall, 1000), "cpu_milliseconds": _each(rounds.cpu, 1000),
        "losses": {name: {"first": values[0], "last": values[-1], "steps": len(values)} for name, values in results.items()},
        **_compared(rounds),
    }  # fmt: skip
    if "torch" in results:
        answer["largest_loss_difference"] = max(abs(a - b) / b for a, b in zip(results["ours"], results["torch"], strict=True))
    return answer


def generation(size: str, temperature: float, plan: Plan) -> dict[str, Any]:
    """Tokens written one at a time with a cache of keys and values; temperature 0 takes the most probable."""
    tasks = {name: f"{module}.Generation" for name, module in frameworks().items()}
    with ExitStack() as stack:
        rounds, results, _ = _rounds(_start(stack, plan, tasks, size=size, temperature=temperature), plan)
    tokens, choice = SIZES[size].block_size, f"temperature {temperature}" if temperature else "most probable"
    answer = {
        "what": "generation", "name": f"{size}, {choice}", "size": size, "temperature": temperature, **asdict(plan),
        "tokens": tokens, "milliseconds_per_token": _each(rounds.wall, 1000 / tokens), **_compared(rounds),
    }  # fmt: skip
    if "torch" in results and temperature == 0:
        answer["same_tokens"] = results["ours"][0] == results["torch"][0]
    return answer


def small_op(op: str, workers: dict[str, Worker], plan: Plan) -> dict[str, Any]:
    """One statement of `statements.py`, in microseconds."""

    def added(seconds: dict[str, list[float]]) -> dict[str, float]:
        return spread([a - b for a, b in zip(seconds["ours"], seconds["numpy"], strict=True)], 1e6)

    def turn(name: str, number: int) -> tuple[float, float]:
        answer = workers[name].call("seconds", op=op, number=number)
        return answer["wall"] / number, answer["cpu"] / number

    number = max(1, round(SHORT_TURN / max(turn(name, 200)[0] for name in workers)))
    competitors = {name: partial(turn, name, number) for name in workers}
    rounds = take_turns(competitors, plan.pairs, _others(workers), plan.patience)
    return {
        "what": "op", "name": op, "statement": TENSOR[op], **asdict(plan),
        "microseconds": _each(rounds.wall, 1e6), "microseconds_on_top_of_numpy": added(rounds.wall),
        "cpu_microseconds": _each(rounds.cpu, 1e6), "cpu_microseconds_on_top_of_numpy": added(rounds.cpu),
        **_compared(rounds),
    }  # fmt: skip


def small_ops(plan: Plan) -> Iterator[dict[str, Any]]:
    """Every statement of `statements.py`, one after the other."""
    tasks = {name: f"{module}.SmallOps" for name, module in frameworks().items()} | {"numpy": "ours.BareNumpy"}
    with ExitStack() as stack:
        workers = _start(stack, plan, tasks)
        for op in TENSOR:
            yield small_op(op, workers, plan)


def memory(size: str, plan: Plan, steps: int = 3) -> dict[str, Any]:
    """Peak resident memory of the first steps in a fresh process, above what was held with the model alone."""
    answer: dict[str, Any] = {"what": "memory", "size": size, "threads": plan.threads, "steps": steps, "bytes": {}}
    for name, module in frameworks().items():
        with Worker(f"{module}.Training", plan.threads, size=size, prepared=False) as worker:
            answer["bytes"][name] = worker.call("memory", steps=steps)
    return answer


def profile(size: str, plan: Plan, shapes: bool) -> dict[str, Any]:
    """Where our step's time goes."""
    with Worker("profile.Profile", plan.threads, size=size) as worker:
        measured = worker.call("measure", shapes=shapes, threads=plan.threads)
    return {"what": "profile", "size": size, "threads": plan.threads, **measured}


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
        workers = _start(stack, plan, {"ours": "ours.Training", "drawing": "drawing.TrainingBeside"}, size=size)
        rounds, _, _ = _rounds(workers, plan)
    return {"what": "step beside drawing", "size": size, "milliseconds": _each(rounds.wall, 1000), **_compared(rounds)}
