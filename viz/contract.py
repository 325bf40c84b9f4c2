"""Many nodes become one: the graph in which whole module calls, or runs of them, are drawn as boxes.

Which calls become boxes is decided in `collapse.py` and `fold.py`; here the graph is made from that, in one pass over it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter

from .graph import Edge, Graph, Module, Node

ZEROED = "set to zero"  # the label of an op that stands for a module's output; a box around it says so too
NAMED = 3  # such modules in one box that are called by name


class Calls:
    """The tree of the module calls of one graph."""

    def __init__(self, graph: Graph):
        self.children: dict[str, list[Module]] = {"": [], **{call.id: [] for call in graph.modules}}
        for call in sorted(graph.modules, key=lambda call: call.order):
            self.children[call.parent].append(call)
        self.depth: dict[str, int] = {}  # in calls; 0 of an outermost one that has no path. Parents stand before children
        stack = [(call, 1 if call.path else 0) for call in reversed(self.children[""])]
        while stack:
            call, depth = stack.pop()
            self.depth[call.id] = depth
            stack += [(child, depth + 1) for child in reversed(self.children[call.id])]
        self._by_path: dict[str, str] = {}
        for call in graph.modules:
            self._by_path.setdefault(call.path, call.id)
        self.nodes: dict[str, list[Node]] = {id: [] for id in self.children}  # what belongs to each call itself
        for node in graph.nodes:
            self.nodes[self.owner(node)].append(node)

    def is_innermost(self, call: str) -> bool:
        """Whether there is no module call inside, not even one that is collapsed."""
        return not self.children[call] and all(node.kind not in ("module", "fold") for node in self.nodes[call])

    def inside(self, call: str) -> list[Module]:
        """All calls inside this one, at any depth, in order; without itself."""
        found, stack = [], self.children[call][::-1]
        while stack:
            found.append(stack.pop())
            stack += self.children[found[-1].id][::-1]
        return found

    def owner(self, node: Node) -> str:
        """The call that a node belongs to. A parameter whose owner is never called belongs to the call around that."""
        if node.module or node.kind != "parameter" or "." not in node.name:
            return node.module
        path = node.name
        while path:
            path = path.rpartition(".")[0]
            if path in self._by_path:
                return self._by_path[path]
        return ""


@dataclass(frozen=True)
class Box:
    """A node to be: one collapsed module call, or a run of equal ones (kind "fold")."""

    id: str
    kind: str
    label: str
    name: str
    module: str  # the call around it
    parameters: int
    members: tuple[str, ...] = ()


class Cyclic(Exception):
    """A value leaves these boxes and comes back into them: drawn so, the graph would have a cycle."""

    def __init__(self, boxes: list[str]):
        self.boxes = boxes


def contract(graph: Graph, calls: Calls, boxes: dict[str, Box]) -> Graph:
    """The graph in which everything inside the given calls is one node for each box. Cyclic if that is no longer a DAG.

    boxes: id of a module call -> the box that it lies in; a call inside one of them is in the same box. A parameter or constant
    goes into the box that owns it if nothing else uses it: a weight that two boxes share stays a node with an edge to each.
    Inputs and outputs stay nodes.
    """
    if not boxes:
        return graph
    home = _homes(graph, calls, boxes)
    order = _order(graph, home)
    badges = dict.fromkeys(order, 0)
    skips = []
    for skip in graph.skips:
        source, target = home[skip.source], home[skip.target]
        if source == target:
            badges[source] += 1
        elif (source, target) == (skip.source, skip.target):
            skips.append(skip)
        else:
            skips.append(replace(skip, source=source, target=target))
    inside: dict[str, list[Node]] = {id: [] for id in order}
    for node in graph.nodes:
        inside[home[node.id]].append(node)
    made = {box.id: box for box in boxes.values()}
    nodes = []
    for id in order:
        if id in made:
            nodes.append(_box_node(graph, home, made[id], inside[id], badges[id]))
        else:
            node = inside[id][0]
            nodes.append(replace(node, module=boxes[node.module].module) if node.module in boxes else node)
    rows = tuple(call for call in graph.modules if call.id not in boxes)
    return graph.replace(nodes=tuple(nodes), edges=tuple(_edges(graph, home, made, order)), modules=rows, skips=tuple(skips))


def _homes(graph: Graph, calls: Calls, boxes: dict[str, Box]) -> dict[str, str]:
    """Node id -> id of the node that stands for it."""
    home, leaves = {}, []
    for node in graph.nodes:
        home[node.id] = node.id
        if node.kind in ("parameter", "constant"):
            leaves.append(node)
        elif node.kind not in ("input", "output") and node.module in boxes:
            home[node.id] = boxes[node.module].id
    for node in leaves:
        box, users = boxes.get(calls.owner(node)), graph.outgoing[node.id]
        if box is not None and users and all(home[edge.target] == box.id for edge in users):
            home[node.id] = box.id
    return home


def _order(graph: Graph, home: dict[str, str]) -> list[str]:
    """The ids of the nodes to be, each after all that it depends on and else as they were made; a box as its last op."""
    last = {home[node.id]: i for i, node in enumerate(graph.nodes)}
    after: dict[str, list[str]] = {id: [] for id in last}
    waits = dict.fromkeys(last, 0)
    for edge in graph.edges:
        source, target = home[edge.source], home[edge.target]
        if source != target:
            after[source].append(target)
            waits[target] += 1
    ready = [(i, id) for id, i in last.items() if not waits[id]]
    heapq.heapify(ready)
    order = []
    while ready:
        id = heapq.heappop(ready)[1]
        order.append(id)
        for target in after[id]:
            waits[target] -= 1
            if not waits[target]:
                heapq.heappush(ready, (last[target], target))
    if len(order) < len(last):
        rest = TopologicalSorter({id: [target for target in after[id] if waits[target]] for id in last if waits[id]})
        try:
            rest.prepare()
        except CycleError as error:
            cycle = list(dict.fromkeys(error.args[1]))
            boxes = [id for id in cycle if id not in graph.by_id]
            if not boxes:
                raise ValueError(f"this graph has a cycle, as no computation has: {' → '.join(cycle)}") from None
            raise Cyclic(boxes) from None
    return order


def _box_node(graph: Graph, home: dict[str, str], box: Box, inside: list[Node], badge: int) -> Node:
    """The node of one box. Shape, value and gradient are those of the one value that leaves it, if there is one."""
    calls = [node for node in inside if node.ops]
    leaving = [node for node in calls if node.loss or any(home[edge.target] != box.id for edge in graph.outgoing[node.id])]
    leaving = leaving or [node for node in calls if not graph.outgoing[node.id]]
    out = leaving[0] if len(leaving) == 1 else None
    last = max(calls, key=lambda node: node.order)
    badge += sum(node.badge for node in inside)
    rail = out is not None and _rail(graph, home, box.id, out.id)
    return Node(
        box.id, box.kind, box.label + _zeroed(graph, box, inside), name=box.name, shape=out.shape if out else None,
        dtype=out.dtype if out else "",
        module=box.module, order=last.order, line=(out or last).line, value=out.value if out else None,
        grad=out.grad if out else None, trained=any(node.trained for node in leaving), loss=any(node.loss for node in calls),
        kept=sum(node.kept for node in inside), parameters=box.parameters, ops=sum(node.ops for node in calls), badge=badge,
        members=box.members, rail=rail, failed=any(node.failed for node in inside),
    )  # fmt: skip


def _rail(graph: Graph, home: dict[str, str], box: str, out: str) -> bool:
    """Whether identity skips alone lead from outside to what leaves a box: then the stream runs through it unchanged."""
    identity = {skip.id for skip in graph.skips if skip.kind == "identity"}
    ahead, seen = [out], {out}
    while ahead:
        for edge in graph.incoming[ahead.pop()]:
            if edge.source not in seen and any(skip in identity for skip in edge.skips):
                if home[edge.source] != box:
                    return True
                seen.add(edge.source)
                ahead.append(edge.source)
    return False


def _zeroed(graph: Graph, box: Box, inside: list[Node]) -> str:
    """What a box says of the outputs in it that were set to zero: ", set to zero" of its own, else with the modules' names."""
    own = [graph.module_by_id[id].path for id in box.members or (box.id,)]
    parts: dict[str, None] = {}
    for node in (node for node in inside if node.label.endswith(ZEROED)):
        path = graph.module_by_id[node.module].path if node.kind == "op" and node.module else node.name
        path = next((path[len(root) + 1 :] for root in own if path == root or (root and path.startswith(f"{root}."))), path)
        deeper = node.label.rpartition(", ")[2].removesuffix(ZEROED).strip()  # of a box in the box
        parts[".".join(part for part in (path, deeper) if part)] = None
    if not parts or box.label.endswith(ZEROED):  # as the frame of a model in which something was
        return ""
    names = " and ".join(parts) if len(parts) <= NAMED else f"{len(parts)} modules"
    return f", {names} {ZEROED}" if names else f", {ZEROED}"


def _edges(graph: Graph, home: dict[str, str], made: dict[str, Box], order: list[str]) -> Iterable[Edge]:
    """The edges between the nodes to be. Those between the same two are one if either is a box; a skip's edge stays its own."""
    merged: dict[tuple, list[Edge]] = {}
    for edge in graph.edges:
        source, target = home[edge.source], home[edge.target]
        if source == target:
            continue
        alone = None if source in made or target in made else edge.slot
        merged.setdefault((target, source, edge.skips, alone), []).append(edge)
    into: dict[str, list[Edge]] = {id: [] for id in order}
    for (target, source, skips, _), edges in merged.items():
        first = edges[0]
        if (source, target, 1) == (first.source, first.target, len(edges)):
            into[target].append(first)
            continue
        slot = len(into[target]) if target in made else first.slot
        name = ", ".join(dict.fromkeys(edge.name for edge in edges if edge.name))
        count = sum(edge.count for edge in edges)
        grad = first.grad if len(edges) == 1 else None
        into[target].append(Edge(source, target, slot, name, skips, grad, count))
    return (edge for id in order for edge in into[id])
