"""The picture of F12: a row for each step of the computation, the skip path straight down the left, each branch beside it.

Before anything is computed the whole graph is there in dashes, and the skip path is already the thickest line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..graph import Edge
from ..stream import stream
from .graph_models import Walked
from .paint import WIDTH, arrow, circle, line, number, path, rect, svg, text

LINE, HEAD, RADIUS, LANE = 17, 20, 15, 8

Key = tuple[str, str, int]


@dataclass
class Shown:
    """One state. computed: boxes with a value. gradients: what has arrived so far. active: the edges of this step with what is
    sent along them. done: edges that have carried a gradient. current: the boxes of this step. backward: which way it goes."""

    computed: set[str]
    gradients: dict[str, np.ndarray] = field(default_factory=dict)
    active: dict[Key, Any] = field(default_factory=dict)
    done: dict[Key, np.ndarray] = field(default_factory=dict)
    current: tuple[str, ...] = ()
    backward: bool = False
    steps: dict[str, int] = field(default_factory=dict)  # box -> the step that a click on it goes to


@dataclass(frozen=True)
class Box:
    x: float  # its middle
    top: float
    width: float
    height: float
    sum: bool  # with the circle of a residual sum on top

    @property
    def inner(self) -> float:
        """Where the box itself begins: under the circle, where it has one."""
        return self.top + (2 * RADIUS if self.sum else 0)

    @property
    def bottom(self) -> float:
        return self.top + self.height

    @property
    def middle(self) -> float:
        return (self.inner + self.bottom) / 2


class Picture:
    """Where everything stands, for one model; `drawing(state)` is the SVG of one state."""

    def __init__(self, model: Walked):
        self.model, self.graph = model, model.graph
        self.sums = {skip.target for skip in self.graph.skips}
        spine = set(stream(self.graph).nodes)
        rows = self._rows(spine)
        beside = {id_ for ids in rows for id_ in ids if id_ not in spine}
        leaves = {id_ for id_ in beside if self.graph[id_].kind == "input"}
        three = bool(beside - leaves) and bool(leaves)
        matrices = any(model.values[id_].ndim == 2 for id_ in model.ops)
        width, others = (136, [(238, 132), (388, 140)]) if three else (212, [(348, 212)]) if matrices else (150, [(322, 168)])
        margin = 8 if matrices else 24  # room for a line around a box
        self.gap = 44 if matrices else 25
        self.stacked = not matrices  # a matrix of its own has its gradient below, for want of room
        self.boxes: dict[str, Box] = {}
        top = 8.0
        for ids in rows:
            sizes = {id_: self._height(id_) for id_ in ids}
            height = max(size for id_, size in sizes.items() if id_ not in leaves)  # a leaf has room above and below
            for id_ in ids:
                column = (margin + width / 2, width) if id_ in spine else others[-1] if id_ in leaves else others[0]
                self.boxes[id_] = Box(*self._placed(column, top, height, sizes[id_]), id_ in self.sums)
            top += height + self.gap
        self.height = top - self.gap + 10

    @staticmethod
    def _placed(column: tuple[float, float], top: float, row: float, height: float) -> tuple[float, float, float, float]:
        return column[0], top + (row - height) / 2, column[1], height

    def _rows(self, spine: set[str]) -> list[list[str]]:
        """The boxes by their distance from the input; a leaf off the spine beside the first op that uses it."""
        rank: dict[str, int] = {}
        for node in self.graph.nodes:
            before = [rank[e.source] + 1 for e in self.graph.incoming[node.id] if e.source in rank]
            if node.kind != "input" or node.id in spine:
                rank[node.id] = max(before, default=0)
        for node in self.graph.nodes:
            if node.id not in rank:
                rank[node.id] = min(rank[e.target] for e in self.graph.outgoing[node.id])
        return [[id_ for id_ in rank if rank[id_] == row] for row in range(max(rank.values()) + 1)]

    def _height(self, id: str) -> float:
        values = self.model.values[id]
        lines = len(values) * (1 + self.stacked) if values.ndim == 2 else 2
        return HEAD + LINE * lines + 6 + (2 * RADIUS if id in self.sums else 0)

    # ---------------------------------------------------------------------------------------- one state

    def drawing(self, state: Shown) -> str:
        skips = [edge for edge in self.graph.edges if edge.skips]
        marks = [mark for edge in skips for mark in self._skip(edge, state)]
        marks += [mark for edge in self.graph.edges if not edge.skips for mark in self._edge(edge, state)]
        marks += [mark for id_ in self.boxes for mark in self._box(id_, state)]
        marks += [mark for edge in self.graph.edges for mark in self._chip(edge, state)]
        return svg(WIDTH, self.height, marks).replace("<svg ", '<svg class="tall" ', 1)

    def _box(self, id: str, state: Shown) -> list[str]:
        box, left = self.boxes[id], self.boxes[id].x - self.boxes[id].width / 2
        known, here, step = id in state.computed, id in state.current, state.steps.get(id)
        kind = ("lilac" if state.backward else "cool") if here else "panel" if known else "faint"
        marks, title = [], self.model.titles[id]
        if box.sum:
            marks.append(circle(box.x, box.top + RADIUS, RADIUS, "sum", step=step))
            marks.append(text(box.x, box.top + RADIUS + 7, "+", "stream", anchor="middle", size=21, bold=True, step=step))
        marks.append(rect(left, box.inner, box.width, box.bottom - box.inner, kind, step=step))
        marks.append(text(left + 9, box.inner + 17, title, "ink" if known else "soft", bold=True, step=step))
        values, g = self.model.values[id], state.gradients.get(id)
        shown = rows(values) if known else []
        sent = rows(g) if g is not None else []
        y = box.inner + HEAD + 14
        if values.ndim == 2 and not self.stacked:
            marks += [text(left + 9, y + LINE * i, row, step=step, size=14) for i, row in enumerate(shown)]
            marks += [text(left + box.width - 9, y + LINE * i, row, "grad", anchor="end", size=14, bold=True, step=step)
                      for i, row in enumerate(sent)]  # fmt: skip
            return marks
        marks += [text(left + 9, y + LINE * i, row, size=14, step=step) for i, row in enumerate(shown)]
        y += LINE * len(rows(values))
        return marks + [text(left + 9, y + LINE * i, row, "grad", size=14, bold=True, step=step) for i, row in enumerate(sent)]

    def _points(self, edge: Edge) -> list[tuple[float, float]]:
        """From the source to the target."""
        a, b = self.boxes[edge.source], self.boxes[edge.target]
        if a.x == b.x:
            between = any(o.x == a.x and a.bottom < o.top and o.bottom < b.top for o in self.boxes.values())
            if between and not edge.skips:  # around, on the left
                left = a.x - a.width / 2
                return [(left, a.middle), (LANE, a.middle), (LANE, b.middle), (b.x - b.width / 2, b.middle)]
            twins = [e.slot for e in self.graph.incoming[edge.target] if e.source == edge.source]
            x = a.x + (40 * (2 * twins.index(edge.slot) - 1) if len(twins) > 1 else 0)
            return [(x, a.bottom), (x, b.top)]
        if a.top < b.bottom and b.top < a.bottom:  # side by side
            side = 1 if a.x < b.x else -1
            y = a.middle if self.graph[edge.source].kind == "input" else b.middle
            return [(a.x + side * a.width / 2, y), (b.x - side * b.width / 2, y)]
        if a.x < b.x:  # the side trip leaves
            return [(a.x + a.width / 2, a.middle), (b.x, a.middle), (b.x, b.top)]
        y = b.top + RADIUS if b.sum else b.middle  # and comes back
        return [(a.x, a.bottom), (a.x, y), (b.x + (RADIUS if b.sum else b.width / 2), y)]

    def _edge(self, edge: Edge, state: Shown) -> list[str]:
        points = self._points(edge)
        if state.backward and (edge.key in state.active or edge.key in state.done):
            return [arrow(points[::-1], "grad", width=4 if edge.key in state.active else 2)]
        if not state.backward and edge.key in state.active:
            return [arrow(points, "branch", width=3.5)]
        return [arrow(points, "line" if edge.source in state.computed and edge.target in state.computed else "faint", width=2)]

    def _skip(self, edge: Edge, state: Shown) -> list[str]:
        """Thick and straight, whatever the state; a gradient runs up inside it."""
        (x, top), (_, bottom) = self._points(edge)
        marks = [path(f"M{x:g} {top:g} V{bottom:g}", "stream", width=11)]
        if state.backward and (edge.key in state.active or edge.key in state.done):
            marks.append(line([(x, top + 14), (x, bottom)], "page", width=6))
            marks.append(arrow([(x, bottom), (x, top + 3)], "grad", width=3))
        elif edge.key in state.active:
            marks.append(line([(x, top), (x, bottom - 12)], "page", width=4))
            marks.append(arrow([(x, top), (x, bottom - 1)], "branch", width=3))
        return [*marks, text(x + 13, (top + bottom) / 2 - 4, "skip", "stream", bold=True)]

    def _chip(self, edge: Edge, state: Shown) -> list[str]:
        """What is sent along an edge, on the edge; along a skip it stays to be read."""
        share = state.active.get(edge.key)
        if share is None and edge.skips and state.backward:
            share = state.done.get(edge.key)
        if share is None or not state.backward or (self.graph[edge.source].kind == "input" and self._flat(edge)):
            return []
        said = rows(share)
        width, height = 8 + (9.2 if np.ndim(share) == 2 else 7.9) * max(map(len, said)), 4 + LINE * len(said)
        points = self._points(edge)
        if len(points) == 2:
            x, y = (points[0][0] + points[1][0]) / 2, (points[0][1] + points[1][1]) / 2
        elif points[0][0] == points[1][0]:  # comes back along a row
            x, y = (points[1][0] + points[2][0]) / 2, points[1][1]
        elif len(points) == 3:
            x, y = points[1][0], (points[1][1] + points[2][1]) / 2
        else:
            x, y = LANE + width / 2, (points[1][1] + points[2][1]) / 2
        if edge.skips:
            y += 26
        x = min(max(x, width / 2 + 1), WIDTH - width / 2 - 1)
        marks = [rect(x - width / 2, y - height / 2, width, height, "chip", radius=5)]
        return marks + [text(x, y - height / 2 + 15 + LINE * i, row, "grad", anchor="middle", size=14, bold=True)
                        for i, row in enumerate(said)]  # fmt: skip

    def _flat(self, edge: Edge) -> bool:
        return len(points := self._points(edge)) == 2 and points[0][1] == points[1][1]


def rows(values: Any) -> list[str]:
    """A number or a vector in one line, a matrix in a line for each row."""
    values = np.asarray(values)
    if values.ndim == 2:
        return ["\u2002".join(number(float(v), 2).rjust(5, "\u2007") for v in row) for row in values]
    return [said(values)]


def said(values: Any) -> str:
    """As it stands in a sentence: 4, (1.00, −0.50), or (1.00, −0.50 / 0.50, 1.00) for two rows."""
    values = np.asarray(values)
    if values.ndim == 0:
        return f"{float(values) + 0.0:.4g}".replace("-", "−")
    if values.ndim == 1:
        return f"({', '.join(number(float(v), 2) for v in values)})"
    return f"({' / '.join(', '.join(number(float(v), 2) for v in row) for row in values)})"
