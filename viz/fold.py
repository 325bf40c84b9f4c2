"""Runs of equal module calls, one after the other: what is drawn as one box `Block ×12`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from .contract import Box, Calls
from .graph import Edge, Graph, Module, Node

LEAVES = ("parameter", "constant")


def runs(graph: Graph, calls: Calls, closed: set[str], at_least: int) -> list[list[Module]]:
    """Every longest run of at least so many calls that are equal and each feed the next, outside of collapsed modules.

    Equal: the same class, the same calls and ops inside with the same settings and shapes, connected in the same way, with
    parameters of the same shapes. Values that leave a run before its end must leave each of its calls alike; a value that
    passes over a call of the run (dense connections) ends it.
    """
    found: list[list[Module]] = []
    around = [""]
    while around:
        children = calls.children[around.pop()]
        taken: set[str] = set()
        for group in _same_kind(children, at_least):
            for run in _Group(graph, calls, group).runs():
                if len(run) >= at_least:
                    found.append(run)
                    taken.update(call.id for call in run)
        around += [child.id for child in reversed(children) if child.id not in closed and child.id not in taken]
    return sorted(found, key=lambda run: run[0].order)


def _same_kind(children: list[Module], at_least: int) -> Iterator[list[Module]]:
    start = 0
    for i in range(1, len(children) + 1):
        if i == len(children) or children[i].kind != children[start].kind:
            if i - start >= at_least:
                yield children[start:i]
            start = i


class _Form(NamedTuple):
    """What of one call must be the same in all calls of a run, and how it is connected to others."""

    inner: list  # calls and nodes inside, in order
    link: frozenset[tuple[int, int, int]]  # values that go into the next call: (which node, to which node there, slot)
    exits: frozenset[int] | None  # nodes whose values go elsewhere; None if into a call after the next


class _Group:
    """Neighbouring calls of one class."""

    def __init__(self, graph: Graph, calls: Calls, group: list[Module]):
        self.graph, self.group = graph, group
        self.kinds = {skip.id: skip.kind for skip in graph.skips}
        self.place: dict[str, tuple[int, int]] = {}  # node -> (which call of the group, which node in it)
        self.rows: list[list[Module]] = []
        self.nodes: list[list[Node]] = []
        for i, call in enumerate(group):
            rows = [call, *calls.inside(call.id)]
            inside = [node for row in rows for node in calls.nodes[row.id] if node.kind not in (*LEAVES, "input", "output")]
            inside.sort(key=lambda node: node.order)
            self.rows.append(rows)
            self.nodes.append(inside)
            self.place.update((node.id, (i, k)) for k, node in enumerate(inside))

    def runs(self) -> Iterator[list[Module]]:
        forms = [self._form(i) for i in range(len(self.group))]
        start = 0
        for i in range(1, len(forms) + 1):
            if i < len(forms) and self._goes_on(forms, start, i):
                continue
            yield self.group[start:i]
            start = i

    @staticmethod
    def _goes_on(forms: list[_Form], start: int, i: int) -> bool:
        """Whether call i continues the run that has come from `start` to i - 1."""
        one, two = forms[i - 1], forms[i]
        if not one.link or one.exits is None or one.inner != two.inner:
            return False
        return i - 1 == start or (forms[i - 2].link, forms[i - 2].exits) == (one.link, one.exits)

    def _form(self, i: int) -> _Form:
        rows, length = self.rows[i], len(self.group[i].path)
        number = {row.id: k for k, row in enumerate(rows)}
        inner: list[Any] = [(row.path[length:], row.kind, number.get(row.parent)) for row in rows]
        leaves: dict[str, int] = {}
        link, exits, blocked = set(), set(), False
        for k, node in enumerate(self.nodes[i]):
            sources = tuple(self._source(i, edge, leaves) for edge in self.graph.incoming[node.id])
            what = node.kind, node.op or node.label, node.shape, node.dtype, node.settings
            inner.append((*what, number[node.module], sources))
            for edge in self.graph.outgoing[node.id]:
                j, where = self.place.get(edge.target, (None, 0))
                if j == i + 1:
                    link.add((k, where, edge.slot))
                elif j is None:
                    exits.add(k)
                elif j != i:
                    blocked = True
        return _Form(inner, frozenset(link), None if blocked else frozenset(exits))

    def _source(self, i: int, edge: Edge, leaves: dict[str, int]) -> tuple:
        source = self.graph.by_id[edge.source]
        if source.kind in LEAVES:
            again = leaves.setdefault(source.id, len(leaves))  # one weight used twice is not two weights
            return edge.slot, source.kind, source.shape, source.label if source.kind == "constant" else "", again
        j, k = self.place.get(edge.source, (None, 0))
        return edge.slot, tuple(sorted(self.kinds.get(skip, "") for skip in edge.skips)), k if j == i else -1


def fold_box(graph: Graph, calls: Calls, run: list[Module]) -> Box:
    """The box of a run. Parameters that several of its calls share are counted once."""
    part = {row.id: call.path or call.id for call in run for row in (call, *calls.inside(call.id))}  # one module, one part
    parameters = sum({call.path or call.id: call.parameters for call in run}.values())
    for node in (node for row in part for node in calls.nodes[row] if node.kind == "parameter"):
        users = {part.get(graph.by_id[edge.target].module) for edge in graph.outgoing[node.id]} - {None}
        parameters -= (max(len(users), 1) - 1) * node.parameters
    id, names = f"{run[0].id}..{run[-1].id}", _range(run)
    label = f"{run[0].kind} ×{len(run)} ({names})"
    return Box(id, "fold", label, names, run[0].parent, parameters, tuple(call.id for call in run))


def _range(run: list[Module]) -> str:
    """`blocks.0 … 11`, or what else tells the calls of a run apart."""
    first, last = run[0].path or run[0].id, run[-1].path or run[-1].id
    if first == last:
        return f"{first}, {len(run)} calls"
    list_, _, number = last.rpartition(".")
    return f"{first} … {number if first.rpartition('.')[0] == list_ else last}"
