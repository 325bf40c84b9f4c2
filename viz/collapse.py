"""Views: the same graph with fewer boxes. Modules collapsed by kind of view, depth or name, equal ones in a row folded."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase

from .contract import Box, Calls, Cyclic, contract
from .fold import fold_box, runs
from .graph import Graph, Module

VIEWS = ("ops", "modules", "blocks")
AUTO = 3  # equal calls in a row that are folded unasked


class GraphTooLarge(ValueError):
    """More nodes than `max_nodes` are left when everything that can be collapsed is."""


def view(
    graph: Graph, view: str = "ops", depth: int | None = None, collapse: Iterable[str] = (),
    fold: str | int | bool | None = "auto", max_nodes: int | None = None,
) -> Graph:  # fmt: skip
    """The graph with modules collapsed; each becomes one node that stands for all inside.

    view: "ops" keeps every op; "modules" makes a box of every call that has no other call inside; "blocks" of every call that
    the outermost module makes, except that a call that holds repeated parts (numbered as in a list, two of one class in a row)
    is opened to them. Ops outside of any of these stay ops. depth: calls this deep become boxes too: 0 the whole model, 1 what
    it calls ("blocks.0" is one step: a list is not called). collapse: so do calls whose dotted path, or id, matches a pattern
    such as "blocks.*.attn"; `*` also runs across dots.

    fold: at least so many equal calls in a row, each fed by the one before, become one box; "auto" is 3 and does nothing in the
    view "ops"; "first" is 3 in every view and keeps the first of them unfolded; "off", None and False: none. max_nodes: if more
    are left, equal modules are folded, then levels collapsed from the deepest up, and `notes` says so.

    A skip whose ends come to lie in one box is counted in its `badge`: `skip_count` is the same in every view. ValueError for a
    value that is none of these and for a pattern that matches nothing; GraphTooLarge if max_nodes cannot be met.
    """
    if view not in VIEWS:
        raise ValueError(f"view is one of {', '.join(map(repr, VIEWS))}, not {view!r}")
    if depth is not None and not _whole(depth, 0):
        raise ValueError(f"depth is None or a whole number from 0 up, not {depth!r}")
    if max_nodes is not None and not _whole(max_nodes, 1):
        raise ValueError(f"max_nodes is None (no limit) or a whole number from 1 up, not {max_nodes!r}")
    off = fold is None or fold is False or fold == "off"
    if not (off or fold in ("auto", "first") or _whole(fold, 2)):
        raise ValueError(f"fold is 'auto', 'first', 'off' or a whole number from 2 up, not {fold!r}")
    calls = Calls(graph)
    closed = _matching(graph, collapse)
    if view != "ops":
        closed |= _innermost(calls) if view == "modules" else _blocks(calls)
    at_least = 0 if off or (fold == "auto" and view == "ops") else fold if isinstance(fold, int) else AUTO
    drawing = _Drawing(graph, calls, closed, fold == "first")
    drawn = drawing.at(depth, at_least)
    if max_nodes is None or len(drawn.nodes) <= max_nodes:
        return drawn
    return drawing.fitted(depth, at_least if off else at_least or AUTO, max_nodes)


def _whole(x: object, least: int) -> bool:
    return isinstance(x, int) and not isinstance(x, bool) and x >= least


class _Drawing:
    """One graph with some calls closed, to be drawn down to some depth."""

    def __init__(self, graph: Graph, calls: Calls, closed: set[str], keep_first: bool):
        self.graph, self.calls, self.closed, self.keep_first = graph, calls, closed, keep_first

    def at(self, depth: int | None, at_least: int) -> Graph:
        """With everything from this depth on collapsed, and equal calls folded from so many on (0: not)."""
        closed = set(self.closed)
        notes: list[str] = []
        for call, level in self.calls.depth.items():  # what is inside a closed call is closed, should it have to be opened
            if (depth is not None and level >= depth) or self.graph.module_by_id[call].parent in closed:
                closed.add(call)
        folded = runs(self.graph, self.calls, closed, at_least) if at_least else []
        folds = [fold_box(self.graph, self.calls, run[1:] if self.keep_first else run) for run in folded]
        while True:
            try:
                graph = contract(self.graph, self.calls, self._boxes(closed, folds))
                return graph.replace(notes=(*graph.notes, *notes)) if notes else graph
            except Cyclic as cycle:
                folds = [box for box in folds if box.id not in cycle.boxes]
                for id in cycle.boxes:
                    if id in closed:
                        closed.remove(id)
                        notes.append(f"{id} is drawn open: a value leaves it, is used outside and comes back into it")

    def _boxes(self, closed: set[str], folds: list[Box]) -> dict[str, Box]:
        """Call -> the outermost box around it, if there is one."""
        member = {call: box for box in folds for call in box.members}
        boxes: dict[str, Box] = {}
        for id in self.calls.depth:
            call = self.graph.module_by_id[id]
            if call.parent in boxes:
                boxes[id] = boxes[call.parent]
            elif id in member:
                boxes[id] = member[id]
            elif id in closed:
                boxes[id] = Box(id, "module", call.kind, call.path, call.parent, call.parameters)
        return boxes

    def fitted(self, depth: int | None, at_least: int, most: int) -> Graph:
        """With equal calls folded and, if that is not enough, as many levels collapsed as it takes to have `most` nodes."""
        drawn = self.at(depth, at_least)
        how = "equal modules in a row are folded"
        if len(drawn.nodes) > most and self.calls.depth:
            low, high = 0, max(self.calls.depth.values()) if depth is None else depth
            drawn = self.at(0, at_least)
            if len(drawn.nodes) <= most:
                while low < high:  # the deepest level that fits
                    middle = (low + high + 1) // 2
                    tried = self.at(middle, at_least)
                    if len(tried.nodes) <= most:
                        low, drawn = middle, tried
                    else:
                        high = middle - 1
                how = f"modules from depth {low} on are collapsed"
        full, left = len(self.graph.nodes), len(drawn.nodes)
        if left > most:
            why = "with all modules collapsed" if self.calls.depth else "with no module call in it to collapse"
            raise GraphTooLarge(
                f"{left:,} of {full:,} nodes are left {why}, more than max_nodes={most:,}. Draw it with a larger max_nodes "
                '(None: no limit; the layout may take long), write its parts as modules and draw view="modules", trace a '
                'smaller input, or keep the data with .save("graph.json")'
            )
        return drawn.replace(notes=(*drawn.notes, f"drawn with {left:,} of {full:,} nodes: {how}"))


# -------------------------------------------------------------------------------------------- which calls


def _innermost(calls: Calls) -> set[str]:
    return {id for id in calls.depth if calls.is_innermost(id)}


def _blocks(calls: Calls) -> set[str]:
    """The top-level parts, and the elements of lists one by one."""
    found: set[str] = set()
    tops = calls.children[""]
    ahead = [top for top in tops if not calls.is_innermost(top.id) and not top.path and not _repeated(tops)]
    found.update(top.id for top in tops if top not in ahead)
    while ahead:
        for call in calls.children[ahead.pop().id]:
            parts = [child for child in calls.children[call.id] if _numbered(child)]
            if _repeated(parts) and not _numbered(call):
                ahead.append(call)
            else:
                found.add(call.id)
    return found


def _numbered(call: Module) -> bool:
    return call.path.rpartition(".")[2].isdigit()


def _repeated(calls: list[Module]) -> bool:
    return any(one.kind == two.kind for one, two in zip(calls, calls[1:]))


def _matching(graph: Graph, patterns: Iterable[str]) -> set[str]:
    found: set[str] = set()
    given = [patterns] if isinstance(patterns, str) or not isinstance(patterns, Iterable) else patterns
    for pattern in given:
        if not isinstance(pattern, str):
            raise ValueError(f"collapse takes patterns of module paths such as 'blocks.*.attn', not {pattern!r}")
        hits = [m.id for m in graph.modules if fnmatchcase(m.id, pattern) or (m.path and fnmatchcase(m.path, pattern))]
        if not hits:
            names = list(dict.fromkeys(m.path or m.id for m in graph.modules))
            near = get_close_matches(pattern, names, n=4, cutoff=0.5) or names[:4]
            has = f"near: {', '.join(near)}" if near else "it has no module calls"
            raise ValueError(f"collapse={pattern!r} matches no module of this graph; {has}")
        found.update(hits)
    return found
