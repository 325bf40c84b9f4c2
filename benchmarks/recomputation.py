"""Memory against time: a training step whose blocks keep all they made, beside one whose blocks run again (`nn.checkpoint`).

Both are ours, the size `laptop` at 2 to 16 layers, in alternating turns. `kept` is what backward needs, counted to the byte
at the end of the forward pass; `added` is the peak resident memory of the first steps in a fresh process, above what it held
with the model alone. That peak has parts that recomputation does not change: gradients, moments, and the logits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import Any

from tinygrad_tf.engine import history, owner

from . import ours, tables
from .measure import Plan, each, rounds_of
from .processes import Worker
from .sizes import SIZES
from .turns import ratio, spread

LAYERS = (2, 4, 8, 16)
WAYS = {"plain": False, "recomputed": True}
TURN = 0.3  # seconds that a turn should last at least
STEPS = 3  # whose peak is taken
TURNS = 3  # fresh processes for a peak, at most


class Training(ours.Training):
    """One call of `once` is one training step, with or without recomputation."""

    def __init__(self, size: str | dict[str, Any], recompute: bool = False, prepared: bool = True):
        super().__init__(size, prepared=False)
        self.model.config = replace(self.model.config, recompute=recompute)
        if prepared:
            self.prepare()

    def kept(self) -> int:
        """Bytes that backward needs, memory of the parameters left out and shared memory counted once."""
        ids, targets = next(self.batches)
        loss = self.model.loss(ids, targets)
        parameters = {id(owner(p.array)) for p in self.model.parameters()}
        arrays = {id(memory): memory for node in history(loss.node) for memory in map(owner, node.kept())}
        return sum(memory.nbytes for key, memory in arrays.items() if key not in parameters)


def measurements(plan: Plan, layers: tuple[int, ...] = LAYERS) -> Iterator[dict[str, Any]]:
    """A row for each number of layers."""
    for count in layers:
        size = asdict(replace(SIZES["laptop"], n_layer=count))
        turns = range(min(plan.pairs, TURNS))
        added = {name: [_added(plan, size, recompute) for _ in turns] for name, recompute in WAYS.items()}
        with ExitStack() as stack:
            workers = {name: stack.enter_context(_worker(plan, size, recompute)) for name, recompute in WAYS.items()}
            kept = {name: worker.call("kept") for name, worker in workers.items()}
            rounds, results, _ = rounds_of(workers, plan, TURN)
        yield {
            "what": "recomputation", "series": "layers", "value": count, "size": size, **asdict(plan), "kept": kept,
            "added": {name: spread(values) for name, values in added.items()},
            "milliseconds": each(rounds.wall, 1000), "time": ratio(rounds.wall["recomputed"], rounds.wall["plain"]),
            "others": spread(rounds.others) if rounds.others else None,
            "largest_loss_difference": max(abs(a - b) / a for a, b in zip(*results.values(), strict=True)),
        }  # fmt: skip


def _worker(plan: Plan, size: dict[str, int], recompute: bool, **options: Any) -> Worker:
    return Worker("recomputation.Training", plan.threads, kernels=plan.kernels[0], size=size, recompute=recompute, **options)


def _added(plan: Plan, size: dict[str, int], recompute: bool) -> int:
    with _worker(plan, size, recompute, prepared=False) as worker:
        answer = worker.call("memory", steps=STEPS)
    return max(1, answer["peak"] - answer["before"])


def slope(rows: list[dict[str, Any]], of: str, name: str) -> float:
    """MiB that a layer costs, by the first and the last row; NaN for a single row."""
    first, last = (r[of][name] if of == "kept" else r[of][name]["median"] for r in (rows[0], rows[-1]))
    layers = rows[-1]["value"] - rows[0]["value"]
    return (last - first) / layers / tables.MIB if layers else float("nan")


def show(results: list[dict[str, Any]]) -> None:
    """One line for each number of layers, and what a layer costs."""
    slopes = {name: [slope(results, what, name) for what in ("kept", "added")] for name in WAYS}
    each_layer = "; ".join(f"{name} {kept:.2f} MiB kept, {added:.2f} MiB of the peak" for name, (kept, added) in slopes.items())
    caption = (f"kept: for backward, counted. peak: of a fresh process, above the model alone. A layer costs: {each_layer}.\n"
               f"time: a step with recomputation over one without, median and quartiles.\n{tables.others(results)}")
    made = tables.table("recomputation against layers, otherwise the size laptop", caption, "layers", "kept MiB", "recomputed",
                        "peak MiB", "recomputed", "step ms", "recomputed", "time")  # fmt: skip
    for r in results:
        cells = [tables.number(r["kept"][name] / tables.MIB) for name in WAYS]
        cells += [tables.number(r["added"][name]["median"] / tables.MIB) for name in WAYS]
        cells += [tables.number(r["milliseconds"][name]["median"]) for name in WAYS]
        made.add_row(str(r["value"]), *cells, tables.quartiles(r["time"]))
    tables.console.print(made)


def figure(rows: list[dict[str, Any]]) -> Any:
    """Memory on the left, time on the right, against the number of layers."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(9.6, 3.8), layout="constrained")
    memory, time = made.subplots(1, 2)
    layers = [r["value"] for r in rows]
    colours, marks, words = {"plain": "#0072B2", "recomputed": "#D55E00"}, {"plain": "o", "recomputed": "s"}, {
        "plain": "every block keeps what it made", "recomputed": "blocks run again in backward"}  # fmt: skip
    for name in WAYS:
        line = {"color": colours[name], "marker": marks[name], "markersize": 5}
        memory.plot(layers, [r["added"][name]["median"] / tables.MIB for r in rows], label=f"peak, {words[name]}", **line)
        memory.plot(layers, [r["kept"][name] / tables.MIB for r in rows], "--", label="kept for backward alone", **line)
        spreads = [r["milliseconds"][name] for r in rows]
        time.fill_between(layers, [s["lower"] for s in spreads], [s["upper"] for s in spreads], color=colours[name], alpha=0.2,
                          linewidth=0)  # fmt: skip
        time.plot(layers, [s["median"] for s in spreads], label=words[name], **line)
    for axes, title, unit in ((memory, "memory", "MiB"), (time, "time of a training step", "ms")):
        axes.set(title=title, xlabel="layers", ylabel=unit, xticks=layers, ylim=(0, None))
        axes.legend(fontsize=9)
    threads = rows[0]["threads"]
    made.suptitle(f"Recomputation: memory for time, {threads} thread{'s' if threads > 1 else ''}", fontsize=12)
    return made
