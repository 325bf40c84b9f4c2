"""What a comparison of two runs shows, in numbers and in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .graph import Graph

if TYPE_CHECKING:
    from .whatif import Run

SUMS = ("add", "residual")
SAID = 6  # calls of the modules that are told of one by one


@dataclass(frozen=True)
class Change:
    """What became of one value, computed from the whole arrays."""

    node: str  # id, the same in both graphs
    difference: float  # max |after − before|
    before: float  # norm
    after: float


def changes_of(before: Run, after: Run) -> Iterator[Change]:
    """What became of every value that both runs computed."""
    for id in before.ids.values():
        a, b = before.arrays.get(id), after.arrays.get(id)
        if a is not None and b is not None and a.shape == b.shape:
            yield Change(id, _difference(a, b), _norm(a), _norm(b))


def _difference(a: np.ndarray, b: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        return float(np.where(a == b, 0, np.abs(a.astype(np.float64) - b)).max(initial=0))


def _norm(a: np.ndarray) -> float:
    return float(np.sqrt(np.square(a, dtype=np.float64).sum()))


def facts_of(before: Run, after: Run, changes: tuple[Change, ...], words: str) -> Iterator[str]:
    """In plain sentences: what comes out of the sum after each zero, what of it reaches the end, what gradient the start."""
    for zero in after.zeros[:SAID]:
        where = f"with {after.graph[zero].module} set to zero"
        total, other = _sum_after(after, zero)
        if total:
            y, x = after.arrays[total], after.arrays[other]
            d = _difference(np.broadcast_to(x, y.shape), y)
            skip = _is_residual(before, total, other) or _is_residual(after, total, other)
            named = "what came in" if skip else f"{_called(after.graph, other, total)} alone"
            yield f"{where}, the sum after it ({total}) {'equals' if d == 0 else 'is not'} {named}: max |y − x| = {d:.4g}"
        else:
            yield f"{where}, {_cut(after, zero)}"
    if len(after.zeros) > SAID:
        yield f"… and {len(after.zeros) - SAID} more outputs set to zero"
    moved = {change.node: change for change in changes}
    for id in before.outputs:
        if id in moved and id in after.outputs:
            at_end = moved[id]
            if before.scalar:
                yield f"the result: {before.arrays[id].item():.4g} as it is, {after.arrays[id].item():.4g} {words}"
            else:
                norms = f"its norm goes from {at_end.before:.4g} to {at_end.after:.4g}"
                yield f"what comes out ({id}) moves by at most {at_end.difference:.4g}; {norms}"
    if before.scalar:
        start = next((n.id for n in before.graph.nodes if n.id in before.grads and n.kind == "input"), None)
        start = start or next((n.id for n in before.graph.nodes if n.id in before.grads), None)
        if start is not None:
            was, became = (f"{_norm(run.grads[start]):.4g}" if start in run.grads else "none" for run in (before, after))
            yield f"the gradient that reaches {before.graph[start].label}: norm {was} as it is, {became} {words}"


def _is_residual(run: Run, total: str, other: str) -> bool:
    """Whether `other` goes into this sum along a skip."""
    return total in run.graph.by_id and any(edge.skips for edge in run.graph.incoming[total] if edge.source == other)


def _called(graph: Graph, id: str, total: str) -> str:
    """A value by its name, by the module that it comes out of, or by its id."""
    node = graph[id]
    module = graph.module_by_id.get(node.module)
    out = module is not None and module.path and node.module != graph[total].module
    return node.name or (module.path if out and module is not None else id)


def _sum_after(run: Run, zero: str) -> tuple[str, str]:
    """The sum that the zeros run into, and its other operand; ("", "") if they meet none before they part or end."""
    here = zero
    while True:
        uses = [edge for edge in run.graph.outgoing[here] if run.graph[edge.target].kind == "op"]
        if len(uses) != 1:
            return "", ""
        target = uses[0].target
        others = [edge.source for edge in run.graph.incoming[target] if edge.slot != uses[0].slot]
        if run.graph[target].op in SUMS and len(others) == 1 and run.graph[others[0]].kind in ("op", "input"):
            return (target, others[0]) if others[0] in run.arrays else ("", "")
        here = target


def _cut(run: Run, zero: str) -> str:
    """What still comes through from the inputs when all goes through the zeros, and when not."""
    graph = run.graph
    after = _reach(graph, [zero], "") - {zero}
    open_ = _reach(graph, [node.id for node in graph.nodes if node.kind == "input"], zero)
    values = [node.id for node in graph.nodes if node.id in after and node.kind == "op"]
    still = [id for id in values if id in open_]
    if not values:
        return "the result is zero"
    if not still:
        many = f"all {len(values)} values after it are" if len(values) > 1 else "the value after it is"
        return f"nothing of the input gets past it: {many} the same whatever comes in"
    return f"{len(still)} of the {len(values)} values after it still depend on the input, which reaches them another way"


def _reach(graph: Graph, starts: list[str], stop: str) -> set[str]:
    """The nodes that these lead to, themselves included, without going through `stop`."""
    seen = set(starts) - {stop}
    stack = list(seen)
    while stack:
        for edge in graph.outgoing[stack.pop()]:
            if edge.target not in seen and edge.target != stop:
                seen.add(edge.target)
                stack.append(edge.target)
    return seen
