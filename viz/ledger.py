"""What memory backward needs, and where: bytes that each module call and each kind of op keeps, as a table and as a chart.

An op keeps what its backward rule closes over. A buffer that several ops keep is counted once, at the first of them; memory of
leaves is counted as parameters, not as kept.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_tf.engine import Traced

from .graph import Graph, Module, Node
from .record import recorded
from .trace import trace

UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")  # Okabe and Ito
HATCHES = ("", "//", "..", "\\\\", "xx", "--", "oo", "")
FREED = "backward() has freed what this graph kept: take the ledger before it, or run the model inside viz.record()"
OUTSIDE = "(outside of modules)"


@dataclass(frozen=True)
class Row:
    """One module call. Bytes, all inside it: `kept` for backward, of its parameters, of their gradients."""

    module: str  # id of the call; "" for ops outside of every module
    kind: str  # its class
    depth: int  # 0 of the outermost
    ops: int  # op calls inside
    kept: int
    kept_own: int  # by the op calls that are in no module inside it, or inside one that has no row
    parameters: int
    gradients: int  # of the parameters that have one


@dataclass(frozen=True)
class Op:
    """All calls of one op: how many, and the bytes that they keep."""

    op: str
    calls: int
    kept: int


@dataclass(frozen=True)
class Ledger:
    """Rows in the order in which the modules were called, each before those inside it; ops by what they keep, most first."""

    rows: tuple[Row, ...]
    ops: tuple[Op, ...]
    kept: int  # by the whole graph
    parameters: int
    gradients: int
    shares: tuple[tuple[str, str, int], ...]  # (row, op, bytes): what `kept_own` of a row consists of
    title: str = ""
    note: str = ""  # what the numbers leave out

    def __str__(self) -> str:
        """The table in plain text."""
        table = [["module", "class", "ops", "kept", "own", "parameters", "gradients"]]
        for row in self.rows:
            sizes = (size(n) for n in (row.kept, row.kept_own, row.parameters, row.gradients))
            table.append(["  " * row.depth + (row.module or OUTSIDE), row.kind, f"{row.ops:,}", *sizes])
        calls = sum(op.calls for op in self.ops)
        table.append(["total", "", f"{calls:,}", size(self.kept), "", size(self.parameters), size(self.gradients)])
        below = [["op", "calls", "kept"], *([op.op, f"{op.calls:,}", size(op.kept)] for op in self.ops)]
        return "\n".join([*([self.title, ""] if self.title else []), *_aligned(table, 2), "", *_aligned(below, 1),
                          *(["", self.note] if self.note else [])])  # fmt: skip

    def to_csv(self) -> str:
        """One line a module call; bytes as whole numbers."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(Row.__dataclass_fields__), lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in self.rows)
        return text.getvalue()

    def to_json(self) -> str:
        """Totals, modules and ops; bytes as whole numbers."""
        data = {"title": self.title, "kept": self.kept, "parameters": self.parameters, "gradients": self.gradients,
                "modules": [asdict(row) for row in self.rows], "ops": [asdict(op) for op in self.ops]}  # fmt: skip
        return json.dumps(data, ensure_ascii=False, indent=1) + "\n"

    def chart(self, path: str | Path) -> None:
        """Write a bar for each row, as long as its own share of the kept bytes, in parts by op: together the total.

        path: a file ending in .svg, .png or .pdf. The same ledger gives the same bytes. ValueError for another ending.
        """
        path = Path(path)
        metadata = {".svg": {"Date": None}, ".png": {"Software": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
        if metadata is None:
            raise ValueError(f"a chart is written as .svg, .png or .pdf, not as {path.suffix or 'a file without an ending'!r}")
        import matplotlib
        from matplotlib.figure import Figure

        with matplotlib.rc_context({"svg.hashsalt": "tinygrad_tf", "svg.fonttype": "none", "font.size": 10}):
            figure = Figure(figsize=(8, 1.6 + 0.26 * max(len(self.rows), 3)), layout="constrained")
            _bars(figure.subplots(), self)
            image = io.BytesIO()
            figure.savefig(image, format=path.suffix.lower()[1:], dpi=150, metadata=metadata)
        path.write_bytes(image.getvalue())


def ledger(what: Any, depth: int | None = None, *, inputs: Any = None, title: str = "") -> Ledger:
    """The memory ledger of a graph, or of what `trace` takes: a Tensor, a Module with inputs=, a Tape.

    depth: how deep modules have rows of their own; 0 is the outermost, None every one. What is deeper counts where it lies.
    ValueError for a graph with collapsed modules: it no longer tells their ops and their parameters apart.
    """
    if depth is not None and depth < 0:
        raise ValueError(f"depth={depth} must be at least 0, the outermost module")
    node = what.node if isinstance(what, Traced) else None
    freed = node is not None and node.rule is None and not recorded([node])
    graph = trace(what, inputs=inputs, numbers=False if not isinstance(what, Graph) else None)
    closed = next((node for node in graph.nodes if node.kind in ("module", "fold")), None)
    if closed is not None:
        raise ValueError(f'{closed.id} is collapsed in this graph: a ledger needs every op, as one saved with view="ops" has')
    return replace(_Count(graph, depth).ledger(title or graph.title), note=FREED if freed else "")


class _Count:
    def __init__(self, graph: Graph, depth: int | None):
        self.graph = graph
        self.around = {module.id: [m.id for m in graph.modules_around(module.id)] for module in graph.modules}
        self.limit = depth
        self.sums: dict[tuple[str, str], int] = {}  # (row, column) -> sum
        self.by_op: dict[tuple[str, str], int] = {}
        self.count: dict[str, list[int]] = {}

    def ledger(self, title: str) -> Ledger:
        for node in self.graph.nodes:
            self.add(node)
        rows = tuple(self.rows())
        ops = sorted((Op(op, calls, kept) for op, (calls, kept) in self.count.items()), key=lambda op: (-op.kept, op.op))
        kept, parameters, gradients = (self.sums.get(("total", c), 0) for c in ("kept", "parameters", "gradients"))
        shares = tuple((row, op, n) for (row, op), n in self.by_op.items() if n)
        return Ledger(rows, tuple(ops), kept, parameters, gradients, shares, title)

    def add(self, node: Node) -> None:
        """Count a node in every row that it lies in. A parameter that several modules use counts in the first."""
        inside = self.around.get(node.module, [])
        shown = [m for m in inside if self.limit is None or len(self.around[m]) - 1 <= self.limit]
        own = shown[0] if shown else ""
        counts = {"ops": node.ops, "kept": node.kept}
        if node.kind == "parameter":
            nbytes = node.parameters * np.dtype(node.dtype).itemsize if node.dtype else 0
            counts = {"parameters": nbytes, "gradients": nbytes if node.grad is not None else 0}
        rows = shown or ([""] if node.ops else [])
        for column, n in counts.items():
            for row in [*(f"#{row}" for row in rows), "total"]:
                self.sums[row, column] = self.sums.get((row, column), 0) + n
        if node.ops:
            op = node.op or node.kind
            self.sums[f"#{own}", "own"] = self.sums.get((f"#{own}", "own"), 0) + node.kept
            self.by_op[own, op] = self.by_op.get((own, op), 0) + node.kept
            calls = self.count.setdefault(op, [0, 0])
            calls[0] += node.ops
            calls[1] += node.kept

    def rows(self) -> Iterator[Row]:
        inside: dict[str, list[Module]] = {"": []}
        for module in self.graph.modules:
            inside.setdefault(module.parent, []).append(module)
        stack = [(0, module) for module in reversed(inside[""])]
        while stack:
            depth, module = stack.pop()
            yield self.row(module.id, module.kind, depth)
            if self.limit is None or depth < self.limit:
                stack.extend((depth + 1, each) for each in reversed(inside.get(module.id, [])))
        if ("#", "ops") in self.sums:
            yield self.row("", "", 0)

    def row(self, id: str, kind: str, depth: int) -> Row:
        ops, kept, own, parameters, gradients = (
            self.sums.get((f"#{id}", column), 0) for column in ("ops", "kept", "own", "parameters", "gradients")
        )
        return Row(id, kind, depth, ops, kept, own, parameters, gradients)


def size(nbytes: int) -> str:
    """Bytes in the largest unit of which there is at least one: 0 bytes, 1,023 bytes, 1.00 KiB, 12.5 MiB."""
    if nbytes < 1024:
        return f"{nbytes} byte{'s' if nbytes != 1 else ''}"
    n, unit = float(nbytes), 0
    while n >= 1024 and unit < len(UNITS) - 1:
        n, unit = n / 1024, unit + 1
    return f"{n:.{2 if n < 10 else 1 if n < 100 else 0}f} {UNITS[unit]}"


def _aligned(rows: list[list[str]], words: int) -> list[str]:
    """Columns side by side: the first `words` of them to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ("  ".join(c.ljust(w) if i < words else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths))) for row in rows)
    return [line.rstrip() for line in lines]


def _bars(axes: Any, ledger: Ledger) -> None:
    """One bar a row, in parts by op; the ops that keep least are one part, `other`."""
    largest = max((row.kept_own for row in ledger.rows), default=0)
    power = 0
    while largest >= 1024 ** (power + 1) and power < len(UNITS) - 1:
        power += 1
    named = [op.op for op in ledger.ops if op.kept][: len(COLOURS)]
    if sum(op.kept > 0 for op in ledger.ops) > len(named):
        named = [*named[:-1], "other"]
    left = dict.fromkeys((row.module for row in ledger.rows), 0.0)
    labels = ["  " * row.depth + (row.module or OUTSIDE) for row in ledger.rows]
    for op, colour, hatch in zip(named, COLOURS, HATCHES):
        widths = dict.fromkeys(left, 0.0)
        for place, name, n in ledger.shares:
            if (name if name in named else "other") == op:
                widths[place] += n / 1024**power
        axes.barh(range(len(left)), list(widths.values()), left=list(left.values()), color=colour, hatch=hatch, label=op,
                  edgecolor="white", linewidth=0.5, height=0.75)  # fmt: skip
        left = {place: left[place] + widths[place] for place in left}
    for i, row in enumerate(ledger.rows):
        if row.kept_own:
            axes.text(left[row.module], i, " " + size(row.kept_own), va="center", fontsize=8, parse_math=False)
    axes.set_yticks(range(len(labels)), labels, ha="left", parse_math=False)
    axes.tick_params(axis="y", length=0, pad=6 + 5.6 * max(map(len, labels), default=0))  # about a character each
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.set_xlim(0, max(left.values(), default=0) * 1.15 or 1)
    axes.set_xlabel(f"kept for backward by its own ops, {UNITS[power]}")
    axes.set_title(f"{ledger.title + ': ' if ledger.title else ''}{size(ledger.kept)} in all", parse_math=False, fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    if named:
        axes.figure.legend(frameon=False, fontsize=8, loc="outside lower center", ncols=4)
