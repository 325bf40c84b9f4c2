"""The measurements. Each returns plain numbers, ready for JSON; `tables.py` shows them."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from .machine import Others, installed
from .processes import Worker
from .sizes import SIZES
from .statements import TENSOR
from .turns import Rounds, spread, take_turns

TURN = 0.5  # seconds that a turn should last at least
WARM_UP = 2  # calls that are not timed
SHORT_TURN = 0.02  # the same for one small op


@dataclass(frozen=True)
class Plan:
    """How to measure: threads for each framework, rounds, and seconds to wait before a round for a quiet machine."""

    threads: int = 2
    pairs: int = 10
    patience: float = 0.0


def frameworks() -> dict[str, str]:
    """Name -> module of what can be measured here."""
    return {"ours": "ours", **({"torch": "theirs"} if installed("torch") else {})}


def _start(stack: ExitStack, plan: Plan, tasks: dict[str, str], **options: Any) -> dict[str, Worker]:
    return {name: stack.enter_context(Worker(task, plan.threads, **options)) for name, task in tasks.items()}


def _rounds(workers: dict[str, Worker], plan: Plan) -> tuple[Rounds, dict[str, list], int]:
    """Warm up, choose how many calls make a turn, take turns: (seconds a call, everybody's results, calls a turn)."""
    results: dict[str, list] = {name: [] for name in workers}

    def turn(name: str, count: int) -> float:
        answer = workers[name].call("run", count=count)
        results[name] += answer["results"]
        return answer["seconds"] / count

    for name in workers:
        turn(name, WARM_UP)
    slowest = max(turn(name, 1) for name in workers)
    count = max(1, round(TURN / slowest))
    others = Others([worker.process.pid for worker in workers.values()])
    competitors = {name: lambda name=name: turn(name, count) for name in workers}
    return take_turns(competitors, plan.pairs, others, plan.patience), results, count


def _compared(rounds: Rounds) -> dict[str, Any]:
    """What every comparison reports of its rounds."""
    ratio = rounds.ratio("torch", "ours") if "torch" in rounds.seconds else None
    return {"ratio": ratio, "others": spread(rounds.others) if rounds.others else None}


def step(size: str, plan: Plan) -> dict[str, Any]:
    """A training step: ours, PyTorch's, and the matrix products alone."""
    tasks = {name: f"{module}.Training" for name, module in frameworks().items()} | {"products": "floor.Products"}
    with ExitStack() as stack:
        rounds, results, count = _rounds(_start(stack, plan, tasks, size=size), plan)
    losses = {
        name: {"first": values[0], "last": values[-1], "steps": len(values)}
        for name, values in results.items() if name != "products"
    }  # fmt: skip
    answer = {
        "what": "step", "size": size, "threads": plan.threads, "pairs": plan.pairs, "steps_per_turn": count,
        "tokens_per_step": SIZES[size].tokens,
        "milliseconds": {name: rounds.spread(name, 1000) for name in rounds.seconds},
        "products_share": rounds.ratio("products", "ours"),
        "losses": losses,
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
    tokens = SIZES[size].block_size
    answer = {
        "what": "generation", "size": size, "temperature": temperature, "threads": plan.threads, "pairs": plan.pairs,
        "tokens": tokens,
        "milliseconds_per_token": {name: rounds.spread(name, 1000 / tokens) for name in rounds.seconds},
        **_compared(rounds),
    }  # fmt: skip
    if "torch" in results and temperature == 0:
        answer["same_tokens"] = results["ours"][0] == results["torch"][0]
    return answer


def small_op(name: str, workers: dict[str, Worker], plan: Plan) -> dict[str, Any]:
    """One statement of `statements.py`, in microseconds."""
    slowest = max(worker.call("seconds", op=name, number=200) for worker in workers.values()) / 200
    number = max(1, round(SHORT_TURN / slowest))
    others = Others([worker.process.pid for worker in workers.values()])
    competitors = {
        who: lambda worker=worker: worker.call("seconds", op=name, number=number) / number for who, worker in workers.items()
    }
    rounds = take_turns(competitors, plan.pairs, others, plan.patience)
    added = Rounds({"tape": [a - b for a, b in zip(rounds.seconds["ours"], rounds.seconds["numpy"], strict=True)]}, [])
    return {
        "what": "op", "name": name, "statement": TENSOR[name], "threads": plan.threads, "pairs": plan.pairs,
        "microseconds": {who: rounds.spread(who, 1e6) for who in rounds.seconds},
        "microseconds_on_top_of_numpy": added.spread("tape", 1e6),
        **_compared(rounds),
    }  # fmt: skip


def small_ops(plan: Plan) -> list[dict[str, Any]]:
    tasks = {name: f"{module}.SmallOps" for name, module in frameworks().items()} | {"numpy": "ours.BareNumpy"}
    with ExitStack() as stack:
        workers = _start(stack, plan, tasks)
        return [small_op(name, workers, plan) for name in TENSOR]


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
        return {"what": "profile", "size": size, "threads": plan.threads, **worker.call("measure", shapes=shapes)}
