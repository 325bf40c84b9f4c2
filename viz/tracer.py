"""Builds one graph out of the op calls of the engine: nodes, edges and module calls, with ids that are the same everywhere."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tinygrad_tf import nn
from tinygrad_tf.engine import Node as Call
from tinygrad_tf.engine import Scope, Traced, owner
from tinygrad_tf.lines import operand
from tinygrad_tf.recompute import Remade

from .graph import Edge, Graph, Module, Node, Numbers
from .record import Entry, recorded, replay
from .skips import find_skips
from .stale import Overwritten, accumulated, changed, left_out

DATA = ("ids", "target", "index")  # settings that hold what the model was given, not how it works
ARRAYS = (np.ndarray, Traced, Remade)
AUTOMATIC = 2_000_000  # numbers in all values up to which they are computed unasked


class Tracer:
    """Builds one graph. Ids come from module paths, ops and counters, never from memory."""

    def __init__(self, names: Mapping[str, Any], full: bool):
        self.full, self.summed = full, True
        self.tensor_names: dict[int, str] = {}  # id of a leaf tensor, an array, an op call or a module -> the reader's name
        self.arrays: list[tuple[str, np.ndarray]] = []
        for name, value in names.items():
            if isinstance(value, nn.Module):
                self.tensor_names.setdefault(id(value), name)
                continue
            array = value.array if isinstance(value, Traced) else np.asarray(value)
            thing = value if not isinstance(value, Traced) else value.node or value
            self.tensor_names.setdefault(id(thing), name)
            if not isinstance(value, Traced) or value.node is None:
                self.tensor_names.setdefault(id(array), name)
                self.arrays.append((name, array))
        self.nodes: list[Node] = []
        self.edges: list[Edge] = []
        self.modules: dict[Scope, Module] = {}
        self.ids: dict[Any, str] = {}  # op call, or id of a leaf tensor or an array -> id of its node
        self.taken: dict[str, int] = {}
        self.kept: set[int] = set()  # owners of memory that is already counted
        self.leaves: set[int] = set()  # owners of memory that lives as long as a leaf
        self.parameter_names: dict[Any, dict[int, str]] = {}
        self.lost: list[str] = []  # kinds of the leaves whose values were changed since

    def names_of(self, twins: Mapping[Call, Call]) -> None:
        """Call each twin what the reader calls the op call in whose place it stands."""
        for call, twin in twins.items():
            if id(call) in self.tensor_names:
                self.tensor_names[id(twin)] = self.tensor_names[id(call)]

    def graph(self, order: list[Call], roots: list[Call], numbers: bool | None, title: str) -> Graph:
        self.summed = numbers is not False
        entries, notes = self._entries(order, roots, numbers)
        self._name_roots(order)
        self.leaves = {id(owner(x.array)) for call in order for x in call.inputs if isinstance(x, Traced)}
        for call in order:
            self._call(call, entries.get(call), loss=len(roots) == 1 and call is roots[0] and call.shape in ((), (1,)))
        for root in roots:
            if root.shape not in ((), (1,)):
                self._output(root)
        if self.lost and not notes:
            notes.append(left_out(self.lost))
        if self.summed and len(roots) == 1:
            notes += filter(None, [accumulated(order, {call: entry.shares for call, entry in entries.items()})])
        made = [node.order for node in self.nodes] + [module.order for module in self.modules.values()]
        clock = sorted(set(made))  # the engine's own counts on and on
        rank = {order: i for i, order in enumerate(clock)}
        nodes = tuple(replace(node, order=rank[node.order]) for node in self.nodes)
        modules = tuple(replace(module, order=rank[module.order]) for module in self.modules.values())
        graph = Graph(nodes, tuple(self.edges), modules, (), title, tuple(notes))
        return find_skips(graph)

    def _entries(self, order: list[Call], roots: list[Call], numbers: bool | None) -> tuple[dict[Call, Entry], list[str]]:
        known = recorded(order)
        whole = len(known) == len(order) and (order[-1].shape not in ((), (1,)) or known[order[-1]].grad is not None)
        if numbers is False or whole or len(roots) != 1:
            said = ["no numbers of several results at once: draw one, or compute them inside viz.record()"]
            return known, said if numbers and len(roots) != 1 and len(known) < len(order) else []
        if numbers is None and sum(int(np.prod(call.shape)) for call in order) > AUTOMATIC:
            return known, []
        try:
            return replay(roots[0], known), []
        except Overwritten as error:
            if len(known) == len(order):  # only the gradients were to be computed
                return known, [f"no gradients: {error.what}. Call backward(), or draw, before that"]
            if numbers:
                raise RuntimeError(f"no numbers can be told of this graph: {error}") from None
            return known, [f"no numbers: {error}"]

    # ---------------------------------------------------------------------------------------- ids and modules

    def _fresh(self, wanted: str) -> str:
        self.taken[wanted] = n = self.taken.get(wanted, 0) + 1
        return wanted if n == 1 else f"{wanted}#{n}"

    def _name_roots(self, order: list[Call]) -> None:
        """Every module call, in the order of the calls. Paths of several models get the class in front, to be told apart."""
        scopes: dict[Scope, None] = {}
        for call in order:
            around, scope = [], call.scope
            while scope is not None and scope not in scopes:
                around.append(scope)
                scope = scope.parent
            scopes.update(dict.fromkeys(reversed(around)))
        outermost = {id(scope.module or scope): scope for scope in map(_top, scopes) if not scope.label}
        prefix: dict[int, str] = {}  # of the several outermost modules: the reader's name, or the class and a number
        for key, scope in outermost.items() if len(outermost) > 1 else ():
            wanted = self.tensor_names.get(key) or scope.kind
            same = sum(name.partition("(")[0] == wanted for name in prefix.values())
            prefix[key] = f"{wanted}({same + 1})" if same else wanted
        for scope in sorted(scopes, key=lambda scope: scope.serial):
            path, top = scope.path, _top(scope)
            full = ".".join(part for part in (prefix.get(id(top.module or top), ""), path) if part)
            parent = self.modules[scope.parent].id if scope.parent is not None else ""
            count = sum(p.array.size for p in scope.module.parameters()) if scope.module is not None else 0
            self.modules[scope] = Module(self._fresh(full or scope.kind), path, scope.kind, parent, count, scope.serial)

    def _module(self, scope: Scope | None) -> str:
        return self.modules[scope].id if scope is not None else ""

    # ---------------------------------------------------------------------------------------- nodes

    def _call(self, call: Call, entry: Entry | None, loss: bool) -> None:
        module = self._module(call.scope)
        name = f"{module}/{call.op.name}" if module else call.op.name
        self.ids[call] = id_ = self._fresh(name)
        for i, source in enumerate(call.inputs):
            share = entry.shares.get(i) if entry is not None else None
            self._edge(self._source(source, call, i), id_, i, operand(call.op, i).strip("`"), share)
        slot = len(call.inputs)
        for key, value in call.settings.items():
            if isinstance(value, ARRAYS) and np.ndim(value.array if isinstance(value, Traced) else value):
                self._edge(self._array(value.array if isinstance(value, Traced) else value, call, key), id_, slot, key, None)
                slot += 1
        settings = {k: _shown(v) for k, v in call.settings.items() if not isinstance(v, ARRAYS) and v is not None}
        self.nodes.append(Node(
            id_, "op", call.op.name, op=call.op.name, name=self.tensor_names.get(id(call), ""), shape=tuple(call.shape),
            dtype=str(call.dtype), module=module, order=call.serial, settings=settings, line=_relative(call.line),
            value=self._numbers(entry and entry.value), grad=self._numbers(entry and entry.grad), trained=True, loss=loss,
            kept=self._kept(call, entry),
        ))  # fmt: skip

    def _source(self, source: Any, call: Call, i: int) -> str:
        if isinstance(source, Call):
            return self.ids[source] if source in self.ids else self._before(source)
        if isinstance(source, Traced):
            return self.ids[id(source)] if id(source) in self.ids else self._leaf(source, call, i)
        return self._array(source, call, operand(call.op, i).strip("`"))

    def _leaf(self, leaf: Traced, call: Call, i: int) -> str:
        """A tensor that requires a gradient and was not computed: a parameter, or an input."""
        learned = isinstance(leaf, nn.Parameter)
        path = self._parameter_name(leaf, call.scope)
        name = path or self.tensor_names.get(id(leaf), "")
        module = next((m.id for scope, m in self.modules.items() if path and _owns(scope, leaf)), "")
        kind = "parameter" if learned else "input"
        self.ids[id(leaf)] = id_ = self._fresh(f"{kind}/{name or operand(call.op, i).strip('`')}")
        grad = Numbers.of(leaf.grad.array, self.full) if leaf.grad is not None else None
        self.nodes.append(Node(
            id_, kind, name or operand(call.op, i).strip("`"), name=name, shape=leaf.array.shape, dtype=str(leaf.array.dtype),
            module=module, order=call.serial, value=self._numbers(self._then(leaf, call, kind)), grad=grad, trained=True,
            parameters=leaf.array.size if learned else 0, ops=0,
        ))  # fmt: skip
        return id_

    def _array(self, value: Any, call: Call, slot: str) -> str:
        """A value that takes no gradient: data that goes into the computation, one node each, or a constant, one a use."""
        if id(value) in self.ids:
            return self.ids[id(value)]
        if type(value) is Remade:
            return self._remade(value, call, slot)
        array = np.asarray(value)
        name = self.tensor_names.get(id(value)) or next((n for n, a in self.arrays if _same(a, array)), "")
        used_as_data = slot in DATA or call.scope is None or (call.inputs and call.inputs[0] is value)
        data = array.dtype.kind in "iuf" and (name or (array.ndim > 0 and used_as_data and not _counts(array)))
        module = self._module(call.scope)
        owner = f"{self.ids[call]}/{slot}"
        id_ = self._fresh(f"input/{name or slot}" if data else owner)
        then = self._then(value, call, "input" if data else "constant")
        label = name or slot if data or then is None else _constant(array, slot)
        self.nodes.append(Node(
            id_, "input" if data else "constant", label, name=name if data else "", shape=array.shape, dtype=str(array.dtype),
            module="" if data else module, order=call.serial, value=self._numbers(then), ops=0,
        ))  # fmt: skip
        if data:
            self.ids[id(value)] = id_
        return id_

    def _remade(self, value: Remade, call: Call, slot: str) -> str:
        """A constant that a checkpoint has let go of."""
        id_ = self._fresh(f"{self.ids[call]}/{slot}")
        module = self._module(call.scope)
        self.nodes.append(Node(id_, "constant", slot, shape=value.shape, dtype=str(value.dtype), module=module,
                               order=call.serial, ops=0))  # fmt: skip
        return id_

    def _before(self, call: Call) -> str:
        """An op call made before the recording began: its value is an input of what is drawn."""
        self.ids[call] = id_ = self._fresh(f"input/{self.tensor_names.get(id(call), call.op.name)}")
        name = self.tensor_names.get(id(call), "")
        self.nodes.append(Node(id_, "input", name or call.op.name, name=name, shape=tuple(call.shape), dtype=str(call.dtype),
                               order=call.serial, ops=0))  # fmt: skip
        return id_

    def _output(self, root: Call) -> None:
        node = next(node for node in self.nodes if node.id == self.ids[root])
        id_ = self._fresh(f"output/{node.name or 'y'}")
        self.nodes.append(Node(id_, "output", node.name or "y", name=node.name, shape=node.shape, dtype=node.dtype,
                               order=root.serial, value=node.value, grad=node.grad, ops=0))  # fmt: skip
        self._edge(self.ids[root], id_, 0, "", None)

    def _edge(self, source: str, target: str, slot: int, name: str, share: Any) -> None:
        self.edges.append(Edge(source, target, slot, name, grad=self._numbers(share)))

    # ---------------------------------------------------------------------------------------- what is known of them

    def _then(self, source: Any, call: Call, kind: str) -> np.ndarray | None:
        """The value that a leaf had when this call, the first to use it, was made; None if it was changed in place since."""
        if changed(call, source) is None:
            return np.asarray(source.array if isinstance(source, Traced) else source)
        self.lost.append(kind)
        return None

    def _numbers(self, array: Any) -> Numbers | None:
        return Numbers.of(array, self.full) if array is not None and self.summed else None

    def _kept(self, call: Call, entry: Entry | None) -> int:
        """Bytes that this call's rule keeps for backward; memory of leaves, and what an earlier call kept, is not counted."""
        total = 0
        for array in entry.kept if entry is not None else call.kept():
            memory = owner(array)
            if id(memory) not in self.kept and id(memory) not in self.leaves:
                self.kept.add(id(memory))
                total += memory.nbytes
        return total

    def _parameter_name(self, leaf: Traced, scope: Scope | None) -> str:
        """Its path in the outermost module around the call; the name that `named_parameters` gives."""
        if scope is None:
            return ""
        top = _top(scope)
        if top not in self.parameter_names:
            named = top.module.named_parameters() if top.module is not None else ()
            self.parameter_names[top] = {id(p): f"{top.label}.{name}" if top.label else name for name, p in named}
        return self.parameter_names[top].get(id(leaf), "")


def _top(scope: Scope) -> Scope:
    while scope.parent is not None:
        scope = scope.parent
    return scope


def _owns(scope: Scope, leaf: Traced) -> bool:
    return scope.module is not None and any(value is leaf for value in vars(scope.module).values())


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether b is the reader's array a, or a copy that was made on the way in."""
    return a.shape == b.shape and a.ndim > 0 and a.dtype.kind == b.dtype.kind and np.array_equal(a, b)


def _counts(array: np.ndarray) -> bool:
    """Whether it is a range of whole numbers: positions that a model counted itself."""
    return array.ndim == 1 and array.size > 1 and array.dtype.kind in "iu" and bool((np.diff(array) == 1).all())


def _constant(array: np.ndarray, slot: str) -> str:
    if array.size == 1:
        return f"{array.item():.4g}" if array.dtype.kind in "iuf" else str(array.item())
    return f"{array[0]} … {array[-1]}" if _counts(array) else slot


def _relative(line: str | None) -> str:
    """`file:line` from the folder that the program runs in, if the file lies in it: the same on every machine."""
    if not line:
        return ""
    here = os.getcwd() + os.sep
    return line.removeprefix(here).replace(os.sep, "/")


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
