"""The stream: the line through a graph on which a drawing hangs everything else.

It runs from an input along the skips to the output. Before the first skip, from a sum to the source of the next skip, and
after the last sum, it follows the value that all the rest is made of: embedding, norm of a post-norm block, head, loss.
"""

from __future__ import annotations

from dataclasses import dataclass

from .graph import Edge, Graph
from .skips import from_data, learned, topological


@dataclass(frozen=True)
class Stream:
    """Lines that are to be drawn straight. No parameter and no constant is on one."""

    nodes: tuple[str, ...]  # the main line, from the input to the output
    edges: frozenset[tuple[str, str, int]]  # keys of the edges that the lines run over, all lines together
    group: dict[str, str]  # node -> its line: "stream" is the main one; "stream2", "stream3", ... hold the skips that it misses
    # Edges out of the last node of a line that is not the main one: to be drawn with weight 0. Else what many nodes take from
    # there, as from an encoder, pulls the main line aside.
    loose: frozenset[tuple[str, str, int]] = frozenset()


def stream(graph: Graph) -> Stream:
    """The lines of a graph, whole or collapsed. Without any skip the main line is the longest way from an input to an output.

    The main line is walked backwards from the output that has the most skips behind it: over the skip where one comes in (of
    several the one from furthest back, so a skip around others is the line and they have lines of their own), else to the value
    with the most skips behind it. An encoder beside a decoder has a line of its own.
    """
    order = topological(graph)
    before, score = _ways_back(graph, order)
    group: dict[str, str] = {}
    edges: set[tuple[str, str, int]] = set()
    ends = [id_ for id_ in order if id_ in score and not graph.outgoing[id_]]
    main = _line(max(ends, key=score.__getitem__), before, group) if ends else []
    for id_ in main:
        group[id_] = "stream"
    lines = [main]
    rank = {id_: i for i, id_ in enumerate(order)}
    for target in sorted({skip.target for skip in graph.skips}, key=rank.__getitem__, reverse=True):
        if target not in group:
            line = [*_line(target, before, group), *_onward(target, graph, before, group)]
            lines.append(line)
            for id_ in line:
                group[id_] = f"stream{len(lines)}"
    for line in lines:
        edges.update(before[b].key for b in line[1:])
    loose = frozenset(edge.key for line in lines[1:] for edge in graph.outgoing[line[-1]])
    return Stream(tuple(main), frozenset(edges), group, loose)


def _ways_back(graph: Graph, order: list[str]) -> tuple[dict[str, Edge], dict[str, tuple[int, int]]]:
    """Node -> the edge that a line comes in by; node -> how many skips and how many nodes the line then has."""
    rank = {id_: i for i, id_ in enumerate(order)}
    parameters = learned(graph)
    data = from_data(graph, order, parameters)
    begins = {skip.id: rank[skip.source] for skip in graph.skips}
    before: dict[str, Edge] = {}
    score: dict[str, tuple[int, int]] = {}
    best: Edge | None
    for id_ in order:
        node = graph[id_]
        if node.kind in ("parameter", "constant") or id_ in parameters:
            continue
        into = [edge for edge in graph.incoming[id_] if edge.source in score]
        skips = [edge for edge in into if edge.skips]
        if skips:
            best = min(skips, key=lambda edge: min(begins.get(skip, 0) for skip in edge.skips))
        else:
            into = [edge for edge in into if edge.source in data] or into
            best = max(into, key=lambda edge: score[edge.source]) if into else None
        n, length = score[best.source] if best is not None else (0, 0)
        if best is not None:
            before[id_] = best
        score[id_] = n + node.badge + bool(skips), length + 1
    return before, score


def _line(end: str, before: dict[str, Edge], group: dict[str, str]) -> list[str]:
    """The nodes of the line that ends here, back to its beginning or to a line that is there already."""
    line = [end]
    while line[-1] in before and before[line[-1]].source not in group:
        line.append(before[line[-1]].source)
    return line[::-1]


def _onward(end: str, graph: Graph, before: dict[str, Edge], group: dict[str, str]) -> list[str]:
    """The nodes after this one, as long as all that is made of each is one other."""
    line: list[str] = []
    while True:
        out = graph.outgoing[line[-1] if line else end]
        if len(out) != 1 or out[0].target in group or before.get(out[0].target) is not out[0]:
            return line
        line.append(out[0].target)
