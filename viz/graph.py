"""The graph as plain data: what is drawn, saved as JSON, and compared in tests. It holds no tensor and no array.

A `Graph` has nodes, edges, modules and skips. `viz.trace` makes one with a node for every op; collapsing and folding make
another one of the same kind, in which one node stands for many.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_tf.errors import OneLine

FORMAT, VERSION = "tinygrad_tf.graph", 1
NODE_KINDS = ("op", "input", "parameter", "constant", "output", "module", "fold")
SKIP_KINDS = ("identity", "scaled", "projected")


@dataclass(frozen=True)
class Numbers:
    """An array in a few numbers, each rounded to six digits. `first` holds the first elements, or all of them if `full`."""

    size: int
    norm: float  # square root of the sum of squares
    mean: float
    std: float  # divided by n
    min: float
    max: float
    nonfinite: int  # how many elements are NaN or inf; the other numbers are of the rest
    first: tuple[float, ...] = ()

    @classmethod
    def of(cls, array: Any, full: bool = False, count: int = 6) -> Numbers:
        a = np.asarray(array)
        flat = a.ravel()
        shown = tuple(_round(x) for x in (flat if full else flat[:count]).tolist())
        finite = flat.astype(np.float64, copy=False)
        good = np.isfinite(finite)
        if not good.all():
            finite = finite[good]
        if finite.size == 0:
            return cls(a.size, 0.0, 0.0, 0.0, 0.0, 0.0, a.size, shown)
        if finite.size == 1:  # most often
            x = _round(float(finite[0]))
            return cls(a.size, abs(x), x, 0.0, x, x, a.size - 1, shown)
        low, high = float(finite.min()), float(finite.max())
        most = max(-low, high)
        scale = most if most > 1e150 or 0 < most < 1e-150 else 1.0  # so that no square overflows or vanishes
        if scale != 1.0:
            finite = finite / scale
        mean, square = float(finite.mean()), float(np.dot(finite, finite))
        spread = square / finite.size - mean * mean
        std = spread**0.5 if spread > 1e-6 * mean * mean else float(finite.std())  # else its digits are lost in the difference
        norm = min(square**0.5 * scale, sys.float_info.max)
        if a.dtype.kind == "f" and abs(mean * scale) < 4 * min(np.finfo(a.dtype).eps, np.finfo(np.float32).eps) * most:
            mean = 0.0  # rounding left it over, in an order of summing that differs between machines; float16 adds in float32
        return cls(a.size, _round(norm), _round(mean * scale), _round(std * scale), _round(low), _round(high),
                   a.size - finite.size, shown)  # fmt: skip

    @property
    def item(self) -> float | None:
        """The number itself, of a scalar."""
        return self.first[0] if self.size == 1 and self.first else None


def _round(x: float) -> float:
    short = float(f"{x:.6g}")
    return (x if np.isinf(short) else short) + 0.0  # no -0; the largest numbers do not round up to inf


@dataclass(frozen=True)
class Node:
    """Something that is drawn: a value and what made it, or a module that was collapsed.

    kind: "op", "input", "parameter", "constant", "output", "module" (one collapsed call) or "fold" (a run of equal ones).
    """

    id: str  # the same in every process: module path, op, counter
    kind: str
    label: str  # what the picture says first: the op, the name, the number
    op: str = ""  # of kind "op"
    name: str = ""  # the reader's name of it: a variable, a parameter's path
    shape: tuple[int, ...] | None = None  # of the value
    dtype: str = ""
    module: str = ""  # id of the innermost module call around it
    order: int = 0  # when it was made: forward runs in this order, backward in the reverse
    settings: dict[str, str] = field(default_factory=dict)  # of an op: keyword -> as it is shown
    line: str = ""  # `file:line` of the code that made it, where a recording saw it
    value: Numbers | None = None
    grad: Numbers | None = None  # None: no gradient has arrived
    trained: bool = False  # whether a gradient can flow into it
    loss: bool = False  # the scalar that was traced
    kept: int = 0  # bytes that its rule keeps for backward and that no earlier node kept
    parameters: int = 0  # how many numbers are learned: of a parameter, or of all inside a module
    ops: int = 1  # how many op calls it stands for: 1 of an op, 0 of a leaf
    badge: int = 0  # skips that lie wholly inside it
    members: tuple[str, ...] = ()  # of a fold: ids of the module calls in it
    rail: bool = False  # of a collapsed module or fold: whether an unbroken skip path runs through it, from end to end
    failed: bool = False  # an op that raised an error instead of returning a value


@dataclass(frozen=True)
class Edge:
    """A value that goes into an op: from the node that holds it to the node that uses it."""

    source: str
    target: str
    slot: int = 0  # which input of the target
    name: str = ""  # what the target calls that input
    skips: tuple[str, ...] = ()  # ids of the skips whose identity path runs over this edge
    grad: Numbers | None = None  # the share of the gradient that came back along it
    count: int = 1  # how many edges of the full graph it stands for

    @property
    def key(self) -> tuple[str, str, int]:
        return self.source, self.target, self.slot


@dataclass(frozen=True)
class Module:
    """One call of a module. A module that is called twice has two of them."""

    id: str
    path: str  # dotted, as in named_modules(); "" of the outermost
    kind: str  # its class
    parent: str = ""  # id of the call around it
    parameters: int = 0  # numbers learned inside, each shared one once
    order: int = 0


@dataclass(frozen=True)
class Skip:
    """A residual path: `target` adds what a branch made of `source` to `source` itself.

    kind: "identity", or, if annotated so, "scaled" or "projected".
    """

    id: str
    source: str
    target: str
    kind: str = "identity"
    annotated: bool = False  # written as residual(x, branch), not found by its form


@dataclass(frozen=True)
class Graph:
    """Nodes and edges in the order of computing, the module calls, and the skips that are still visible.

    A skip that lies wholly inside a collapsed module is no longer in `skips`; that node's `badge` counts it.
    """

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    modules: tuple[Module, ...] = ()
    skips: tuple[Skip, ...] = ()
    title: str = ""
    notes: tuple[str, ...] = ()  # what the caption has to say: what was collapsed, where a graph stops

    def __getitem__(self, id: str) -> Node:
        return self.by_id[id]

    @property
    def by_id(self) -> dict[str, Node]:
        return self._index("_by_id", lambda: {node.id: node for node in self.nodes})

    @property
    def module_by_id(self) -> dict[str, Module]:
        return self._index("_modules", lambda: {module.id: module for module in self.modules})

    @property
    def incoming(self) -> dict[str, list[Edge]]:
        """Node id -> the edges into it, by slot."""
        return self._index("_incoming", lambda: self._edges_by("target"))

    @property
    def outgoing(self) -> dict[str, list[Edge]]:
        return self._index("_outgoing", lambda: self._edges_by("source"))

    def _edges_by(self, end: str) -> dict[str, list[Edge]]:
        found: dict[str, list[Edge]] = {node.id: [] for node in self.nodes}
        for edge in self.edges:
            found[getattr(edge, end)].append(edge)
        return found

    def _index(self, name: str, make: Any) -> Any:
        if name not in self.__dict__:
            object.__setattr__(self, name, make())
        return self.__dict__[name]

    @property
    def skip_count(self) -> int:
        """Residual paths, drawn and counted in badges: the same under every collapse and fold."""
        return len(self.skips) + sum(node.badge for node in self.nodes)

    @property
    def arrived(self) -> bool:
        """Whether backward() has given some leaf its gradient. Without it, gradients of ops are those that it would send."""
        leaves = ("input", "parameter")
        return self._index("_arrived", lambda: any(node.grad is not None for node in self.nodes if node.kind in leaves))

    def modules_around(self, module: str) -> Iterator[Module]:
        """The module call with this id and those around it, the innermost first; none for ""."""
        while module:
            call = self.module_by_id[module]
            yield call
            module = call.parent

    def replace(self, **changes: Any) -> Graph:
        return replace(self, **changes)

    def __repr__(self) -> str:
        counts = f"{len(self.nodes)} nodes, {len(self.edges)} edges, {len(self.modules)} module calls, {self.skip_count} skips"
        return f"<Graph: {counts}>"

    # -------------------------------------------------------------------------------------------- JSON

    def to_json(self) -> str:
        """The whole graph, one item a line, in a stable order; fields that hold their default are left out."""
        out = ["{", f' "format": {json.dumps(FORMAT)}, "version": {VERSION},', f' "title": {_dump(self.title)},',
               f' "notes": {_dump(list(self.notes))},']  # fmt: skip
        for i, (name, items) in enumerate(self._tables()):
            rows = ",\n".join("  " + _dump(_plain(item)) for item in items)
            out.append(f' "{name}": [' + (f"\n{rows}\n ]" if rows else "]") + ("," if i < 3 else ""))
        return "\n".join([*out, "}", ""])

    def _tables(self) -> tuple[tuple[str, tuple], ...]:
        return ("modules", self.modules), ("nodes", self.nodes), ("edges", self.edges), ("skips", self.skips)

    @classmethod
    def from_json(cls, text: str) -> Graph:
        """The graph that `to_json` wrote. ValueError, with the reason, for anything else."""
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise OneLine(f"this is no graph: not JSON ({error})") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise OneLine(f'this is no graph: the field "format" is not "{FORMAT}"')
        if data.get("version") != VERSION:
            raise OneLine(f"this graph has version {data.get('version')!r}; this program reads version {VERSION}")
        try:
            kinds = {"nodes": Node, "edges": Edge, "modules": Module, "skips": Skip}
            tables = {name: tuple(_made(kind, row) for row in data[name]) for name, kind in kinds.items()}
            title, notes = data["title"], tuple(data["notes"])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise OneLine(f"this graph is damaged: {type(error).__name__}: {error}") from None
        if not all(isinstance(text, str) for text in (title, *notes)):
            raise OneLine("this graph is damaged: its title and its notes are to be text")
        graph = cls(title=title, notes=notes, **tables)
        graph._check()
        return graph

    def _check(self) -> None:
        """Every end of an edge and of a skip, and every module named, must be there; ids are unique."""
        if len(self.by_id) != len(self.nodes) or len(self.module_by_id) != len(self.modules):
            raise OneLine("this graph is damaged: an id stands twice")
        for kind, known in [*((n.kind, NODE_KINDS) for n in self.nodes), *((s.kind, SKIP_KINDS) for s in self.skips)]:
            if kind not in known:
                raise OneLine(f"this graph is damaged: {kind!r} is none of {', '.join(known)}")
        pairs = [(edge.source, edge.target) for edge in self.edges] + [(skip.source, skip.target) for skip in self.skips]
        ends = [end for pair in pairs for end in pair]
        inside = [node.module for node in self.nodes] + [module.parent for module in self.modules]
        for missing in [end for end in ends if end not in self.by_id] + [m for m in inside if m and m not in self.module_by_id]:
            raise OneLine(f"this graph is damaged: nothing has the id {missing!r}")
        sound: set[str] = set()
        for module in self.modules:
            way: dict[str, None] = {}
            here = module.id
            while here and here not in sound:
                if here in way:
                    raise OneLine(f"this graph is damaged: the module {here!r} lies inside itself")
                way[here] = None
                here = self.module_by_id[here].parent
            sound.update(way)

    def save(self, path: str | Path) -> None:
        """Write the graph as JSON, as it is; the JSON of a `Drawing` holds what is drawn."""
        Path(path).write_text(self.to_json(), encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, path: str | Path) -> Graph:
        """Read a graph that was saved as JSON."""
        return cls.from_json(Path(path).read_text(encoding="utf-8"))


def _dump(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, allow_nan=False)


def _plain(item: Any) -> dict:
    """The fields of a dataclass that differ from their defaults."""
    full: dict[str, Any] = {}
    for f in fields(item):
        value = getattr(item, f.name)
        if value != (f.default_factory() if callable(f.default_factory) else f.default):
            full[f.name] = value
    for name in ("value", "grad"):
        if name in full:  # JSON has no NaN and no inf: they are written as words
            first = [x if math.isfinite(x) else str(x) for x in full[name].first]
            full[name] = {**vars(full[name]), "first": first}
    return full


def _made(kind: Any, row: dict) -> Any:
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in row.items()}
    for name in ("value", "grad"):
        if values.get(name) is not None:
            numbers = dict(values[name])
            numbers["first"] = tuple(float(x) for x in numbers["first"])
            values[name] = _typed(Numbers(**numbers))
    return _typed(kind(**values))


def _typed(item: Any) -> Any:
    """The item, if each of its fields holds what the class says."""
    for f in fields(item):
        value = getattr(item, f.name)
        if not _fits(value, str(f.type)):
            raise TypeError(f"{f.name}={value!r} is no {f.type}")
    return item


def _fits(value: Any, kind: str) -> bool:
    if type(value).__name__ == kind:
        return True
    kind, _, other = kind.partition(" | ")
    if value is None:
        return other == "None"
    if kind.startswith("tuple"):
        return isinstance(value, tuple) and all(_fits(x, kind.removeprefix("tuple[").removesuffix(", ...]")) for x in value)
    if kind.startswith("dict"):
        return isinstance(value, dict) and all(isinstance(text, str) for pair in value.items() for text in pair)
    return type(value).__name__ == kind or (kind == "float" and type(value) is int)
