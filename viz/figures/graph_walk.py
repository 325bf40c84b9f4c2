"""F12: the computation graph itself, stepped through forward and backward, with the skip path that nobody can miss.

Two orders of the way back. "newest first" is the engine's: a box passes its gradient on when every share of it is there.
"at once" is the one that comes to mind first, and is wrong: pass on what there is, at once, as often as something arrives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np

from ..graph import Edge
from ..rules import words as rule_of
from .figure import Control, Figure, figure, steps
from .graph_models import MODELS, Walked, walked
from .graph_picture import Picture, Shown, said

ORDERS = ("newest first", "at once")
MOST = 64  # steps that any model has in any order; a test says whether that is so


@figure("F12", "The computation graph, forward and backward", [
    Control("model", "Computation", tuple(MODELS), "two layers that add"),
    Control("order", "Order of backward", ORDERS, "newest first"),
    steps(MOST),
])  # fmt: skip
def graph_walk(model: str = "two layers that add", order: str = "newest first", step: int = 0) -> Figure:
    """A small computation, one box at a time: values forward, then the gradient of each box and what it sends on.

    data: "steps" of this model and order; "phase"; "values" and "gradients" by box, as far as they are known at this step;
    "sent" along each edge in this step, as "to ← from"; in the last step "correct", the gradients of the leaves by the engine,
    and "ways", what reached x along the skips alone and through which branches.
    """
    states = _states(model, order)
    at = min(step, len(states) - 1)
    state, told, phase = states[at]
    w = walked(model)
    data: dict[str, Any] = {
        "steps": len(states),
        "phase": phase,
        "values": {w.names[id_]: w.values[id_].tolist() for id_ in w.values if id_ in state.computed},
        "gradients": {w.names[id_]: g.tolist() for id_, g in state.gradients.items()},
        "sent": {f"{w.names[source]} ← {w.names[target]}": [] for source, target, _ in state.active} if state.backward else {},
        "skips": len(w.graph.skips),
    }
    for (source, target, _), share in state.active.items() if state.backward else ():
        data["sent"][f"{w.names[source]} ← {w.names[target]}"].append(share.tolist())
    if phase == "end":
        data["ways"] = {way or "along the skips": g.tolist() for way, g in _by_way(w).items()} if w.graph.skips else {}
        data["correct"] = {w.names[id_]: g.tolist() for id_, g in _gradients(w).items() if id_ in w.leaves}
    return Figure(data, _picture(model).drawing(state), told)


@cache
def _picture(model: str) -> Picture:
    return Picture(walked(model))


@cache
def _states(model: str, order: str) -> list[tuple[Shown, str, str]]:
    """(what is shown, its words, the phase) of each step."""
    w = walked(model)
    states = [*_forward(w), *(_backward if order == "newest first" else _at_once)(w)]
    computing = {id_: 1 + i for i, id_ in enumerate(w.ops)}
    sending: dict[str, int] = {}
    for i, (state, _, _) in enumerate(states):
        if state.backward and state.active:
            sending.setdefault(state.current[0], i)
    for state, _, _ in states:
        state.steps = sending if state.backward else computing
    return states


# ---------------------------------------------------------------------------------------------------------- forward


def _forward(w: Walked) -> Iterator[tuple[Shown, str, str]]:
    told = [f"{w.names[id_]} = {said(w.values[id_])}" for id_ in w.leaves if w.values[id_].ndim < 2 or len(w.leaves) == 1]
    start = f"Given: {_listed(told)}. "
    if w.graph.skips:
        start += f"The thick orange line is the skip path: what comes in goes on past {_branches(w)} as it is."
    else:
        count = {2: "Two", 3: "Three", 5: "Five"}.get(len(w.ops), str(len(w.ops)))
        start += f"{count} boxes wait, each for the boxes that point to it."
        start += " There is no skip path here." if w.values[w.leaves[0]].ndim else ""
    yield Shown({*w.leaves}), start, "start"
    done = {*w.leaves}
    for id_ in w.ops:
        done = done | {id_}
        state = Shown(done, active={edge.key: None for edge in w.edges(id_)}, current=(id_,))
        yield state, f"Forward: {_computed(w, id_)}", "forward"


def _computed(w: Walked, id: str) -> str:
    """What a box computes, with the numbers."""
    value, edges, title = said(w.values[id]), w.edges(id), w.titles[id]
    if any(edge.skips for edge in edges):
        skip, branch = (said(w.values[edge.source]) for edge in sorted(edges, key=lambda edge: not edge.skips))
        return f"{title} = {value}: {skip} came along the skip, and the branch adds {branch} to it."
    if w.values[id].ndim == 0 and w.graph[id].op in ("mul", "add"):
        numbers = {w.names[edge.source]: said(w.values[edge.source]) for edge in edges}
        return f"{title} = {_filled(title.partition(' = ')[2], numbers)} = {value}."
    return f"{title} = {value}." + (" This box stands for several ops." if w.graph[id].ops > 1 else "")


def _filled(formula: str, numbers: dict[str, str]) -> str:
    """The formula with numbers for names, a negative one in parentheses."""

    def put(m: re.Match) -> str:
        shown = numbers.get(m[0], m[0])
        return f"({shown})" if shown.startswith("−") and m.start() else shown

    return re.sub(r"[A-Za-z]+", put, formula)


# ---------------------------------------------------------------------------------------------------------- backward


def _backward(w: Walked) -> Iterator[tuple[Shown, str, str]]:
    """The engine's order: the newest box first, each once."""
    everything = set(w.values)
    g: dict[str, np.ndarray] = {w.ops[-1]: np.ones(w.values[w.ops[-1]].shape)}
    done: dict[Any, np.ndarray] = {}
    last = w.names[w.ops[-1]]
    begin = f"Backward starts at {last}: when {last} grows by a little, {last} grows by 1 times that. So its gradient is 1."
    yield Shown(everything, dict(g), current=(w.ops[-1],), backward=True), begin, "backward"
    for id_ in reversed(w.ops):
        sent = {edge.key: (edge, _flat(share)) for edge, share in w.sent(id_, _full(w, id_, g[id_]))}
        for key, (edge, share) in sent.items():
            g[edge.source] = g[edge.source] + share if edge.source in g else share
            done[key] = share
        active = {key: share for key, (_, share) in sent.items()}
        told = [f"Backward: {_sends(w, id_, g[id_], list(sent.values()))}"]
        for source in dict.fromkeys(edge.source for edge, _ in sent.values()):
            shares = [(edge, done[edge.key]) for edge in w.graph.outgoing[source] if edge.key in done]
            if len(shares) == len(w.graph.outgoing[source]) > 1 and len({e.target for e, _ in shares}) > 1:
                told.append(_meet(w, source, shares, g[source]))
        yield Shown(everything, dict(g), active, dict(done), (id_,), True), " ".join(told), "backward"
    yield Shown(everything, dict(g), {}, dict(done), (), True), _end(w, g), "end"


def _sends(w: Walked, id: str, g: np.ndarray, sent: list[tuple[Edge, np.ndarray]]) -> str:
    node, own, told = w.graph[id], w.names[id], f"{w.names[id]} has g = {said(g)}."
    if any(edge.skips for edge, _ in sent):
        return f"{told} A sum sends it both ways unchanged: along the skip, and into the branch."
    sources = [edge.source for edge, _ in sent]
    if len(sources) > len(set(sources)):
        return f"{told} {w.names[sources[0]]} gets it along both edges: {' + '.join(said(share) for _, share in sent)}."
    rule = rule_of(node.op, node.settings) if node.kind == "op" else None
    own_letters = (rule.names or ("a", "b")) if rule and len(sent) > 1 else ("x",)
    letters = {**dict(zip(own_letters, [w.names[source] for source in sources])), "y": own}
    numbers = {w.names[source]: said(w.values[source]) for source in sources} | {"g": said(g)}
    parts = []
    for i, (edge, share) in enumerate(sent):
        formula = "g for each element" if node.op == "sum" else "g through its ops" if rule is None else rule.back[i]
        if rule is not None and node.op != "sum":
            formula = re.sub(r"[A-Za-z]+", lambda m: letters.get(m[0]) or m[0], formula)
        terms = [formula, _filled(formula, numbers) if node.op in ("mul", "add") else "", said(share)]
        parts.append(f"{w.names[edge.source]} gets {' = '.join(dict.fromkeys(filter(None, terms)))}")
    return f"{told} {'; '.join(parts)}."


def _meet(w: Walked, source: str, shares: list[tuple[Edge, np.ndarray]], total: np.ndarray) -> str:
    skips = any(edge.skips for edge, _ in shares)
    ordered = sorted(shares, key=lambda pair: not pair[0].skips)
    ways = ["along the skip" if e.skips else "through the branch" if skips else f"from {w.names[e.target]}" for e, _ in ordered]
    parts = [f"{said(share)} {way}" for (_, share), way in zip(ordered, ways)]
    return f"Now all shares of {w.names[source]} are there: {' + '.join(parts)} = {said(total)}."


def _end(w: Walked, g: dict[str, np.ndarray]) -> str:
    small = [id_ for id_ in w.leaves if w.values[id_].ndim < 2 or len(w.leaves) == 1]
    told = _listed([f"{w.names[id_]}.grad = {said(g[id_])}" for id_ in small])
    if w.graph.skips:
        straight, *others = _by_way(w).items()
        terms = [f"{said(share)} {way}" for way, share in others]
        return f"{told}. Of that, {said(straight[1])} came along the orange line as it was; then {', '.join(terms)}."
    if any(w.values[id_].ndim for id_ in w.leaves):
        ends = [float(np.linalg.norm(g[id_])) for id_ in (w.ops[-2], w.leaves[0])]
        return (f"{told}. There is one way back, through every layer: the gradient has length {ends[0]:.2f} at y and "
                f"{ends[1]:.2f} at x.")  # fmt: skip
    return f"{told}. Each box was left once, when all its shares were there."


def _by_way(w: Walked) -> dict[str, np.ndarray]:
    """What reaches the first leaf, by the branches on its way; the first has none. Two sums in a row have four ways."""
    sums, last = [skip.target for skip in w.graph.skips], w.ops[-1]
    names = ("the first branch", "the second branch") if len(sums) == 2 else tuple(f"branch {i + 1}" for i in range(len(sums)))
    found: dict[tuple[int, ...], np.ndarray] = {}
    waiting: list[tuple[str, np.ndarray, tuple[int, ...]]] = [(last, np.ones(w.values[last].shape), ())]
    while waiting:
        id_, g, through = waiting.pop()
        if id_ == w.leaves[0]:
            found[through] = found[through] + g if through in found else g
        if id_ in w.ops:
            for edge, share in w.sent(id_, _full(w, id_, g)):
                branch = (sums.index(id_),) if id_ in sums and not edge.skips else ()
                waiting.append((edge.source, _flat(share), (*branch, *through)))
    ordered = sorted(found, key=lambda through: (len(through), through))
    said_of = {through: f"through {_listed([names[i] for i in through])}" if through else "" for through in ordered}
    both = tuple(range(2)) if len(sums) == 2 else None
    return {("through both" if through == both else said_of[through]): found[through] for through in ordered}


def _branches(w: Walked) -> str:
    n = len(w.graph.skips)
    return {1: "the branch", 2: "both branches"}.get(n, f"all {n} branches")


# ---------------------------------------------------------------------------------------------------------- the naive way


def _at_once(w: Walked) -> Iterator[tuple[Shown, str, str]]:
    """Send along one edge, go on from there at once with all that has arrived there, then take the next edge."""
    everything = set(w.values)
    last = w.ops[-1]
    g: dict[str, np.ndarray] = {last: np.ones(w.values[last].shape)}
    done: dict[Any, np.ndarray] = {}
    visits: dict[str, int] = {last: 1}
    told = f"Backward starts at {w.names[last]} with 1. This order goes on from a box as soon as anything arrives there."
    yield Shown(everything, dict(g), current=(last,), backward=True), told, "backward"
    stack = [(last, iter(w.edges(last)))]
    while stack:
        id_, edges = stack[-1]
        edge = next(edges, None)
        if edge is None:
            stack.pop()
            continue
        share = next(_flat(s) for e, s in w.sent(id_, _full(w, id_, g[id_])) if e.key == edge.key)
        source = edge.source
        g[source] = g[source] + share if source in g else share
        done[edge.key] = share
        again = ""
        visits[source] = visits.get(source, 0) + 1
        if source in w.ops:
            stack.append((source, iter(w.edges(source))))
            again = (f" That is visit {visits[source]}: all of it will be sent on, also what was sent before."
                     if visits[source] > 1 else " From there it goes on at once.")  # fmt: skip
        told = f"Backward: {w.names[id_]} sends {said(share)} to {w.names[source]}, which now has {said(g[source])}.{again}"
        yield Shown(everything, dict(g), {edge.key: share}, dict(done), (id_,), True), told, "backward"
    yield Shown(everything, dict(g), {}, dict(done), (), True), _verdict(w, g, visits), "end"


def _verdict(w: Walked, g: dict[str, np.ndarray], visits: dict[str, int]) -> str:
    right, first = _gradients(w), w.leaves[0]
    name, most = w.names[first], max(w.ops, key=lambda id_: visits[id_])
    count = f"{sum(visits.values())} visits to {len(visits)} boxes"
    if np.allclose(g[first], right[first]):
        return f"{name}.grad = {said(g[first])}, which is right, since no box but a leaf is used twice here. {count}."
    times = {2: "twice"}.get(visits[most], f"{visits[most]} times")
    return (f"Wrong: {name}.grad = {said(g[first])}, and the derivative is {said(right[first])}. {w.names[most]} sent all it "
            f"had {times}, and so its first share went out {times}. {count}.")  # fmt: skip


def _gradients(w: Walked) -> dict[str, np.ndarray]:
    """The gradient of every box, by the engine's order."""
    *_, (state, _, _) = _backward(w)
    return state.gradients


def _full(w: Walked, id: str, g: np.ndarray) -> np.ndarray:
    """In the shape of the engine: the batch of one that the picture leaves out."""
    shape = w.graph[id].shape or ()
    return np.reshape(g, shape)


def _flat(share: np.ndarray) -> np.ndarray:
    return share[0] if share.ndim == 3 else share


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
