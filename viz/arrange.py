"""Where things are to stand, beyond what Graphviz finds itself: the stream in one line, leaves beside their ops."""

from __future__ import annotations

from .graph import Edge, Graph, Node
from .stream import Stream, stream


class Arrangement:
    """What the writer of DOT asks about a graph. Without `skips` nothing is held straight."""

    def __init__(self, graph: Graph, skips: bool = True):
        self.graph = graph
        self.stream = stream(graph) if skips else Stream((), frozenset(), {})
        inward = [(edge.target, edge.source) for edge in graph.edges if edge.key in self.stream.edges]
        self.before_rail = {target: source for target, source in inward if graph[target].rail}  # box -> what is before it
        self.rails = [node for node in graph.nodes if node.id in self.before_rail]
        self.outermost = graph.modules[0].id if sum(not m.parent for m in graph.modules) == 1 else ""
        self.beside = self._beside()
        self.doors = self._doors()

    def _beside(self) -> dict[str, list[str]]:
        """Op -> the leaves that stand beside it, not above: those whose first use it is and that are not on the stream."""
        found: dict[str, list[str]] = {}
        for node in self.graph.nodes:
            uses = self.graph.outgoing[node.id]
            if node.kind in ("parameter", "constant", "input") and node.id not in self.stream.group and uses:
                user = self.graph[uses[0].target]
                alone = len(uses) == 1 and self.is_around(node.module, user.module)  # then it stands in the cluster of its user
                if user.kind == "op" and (user.module == node.module or alone):
                    found.setdefault(user.id, []).append(node.id)
        return found

    def is_around(self, outer: str, inner: str) -> bool:
        return any(module.id == outer for module in self.graph.modules_around(inner))

    def turned(self, edge: Edge) -> bool:
        """Whether an edge is written from the op to the leaf beside it, so that Graphviz puts the leaf on the other side."""
        leaves = self.beside.get(edge.target, [])
        return edge.source in leaves and leaves.index(edge.source) % 2 == 1

    def _doors(self) -> dict[tuple[str, str], str]:
        """(node on the stream, module) -> the point inside the module's cluster through which its value comes in.

        A cluster's box keeps lines that only end in it at its side. A point of the stream at its top holds the line straight,
        and shows where the side trip leaves.
        """
        first: dict[str, str] = {}  # module -> the first thing in it, whatever stands beside an op aside
        beside = {id_ for leaves in self.beside.values() for id_ in leaves}
        for node in sorted(self.graph.nodes, key=lambda node: (node.order, node.kind == "op")):
            if node.id not in beside:
                for around in self.graph.modules_around(node.module):
                    first.setdefault(around.id, node.id)
        doors: dict[tuple[str, str], str] = {}
        for edge in self.graph.edges:
            if edge.key in self.stream.edges:
                for module in self.entered(edge):
                    if first[module] != edge.target and (edge.source, module) not in doors:
                        n = sum(m == module for _, m in doors)
                        doors[edge.source, module] = f"{module}/in" + (f"#{n + 1}" if n else "")
        return doors

    def entered(self, edge: Edge) -> list[str]:
        """The clusters whose border an edge crosses on its way in, the outermost first."""
        left = {module.id for module in self.graph.modules_around(self.graph[edge.source].module)}
        around = [module.id for module in self.graph.modules_around(self.graph[edge.target].module)]
        return [module for module in reversed(around) if module not in left and module != self.outermost]

    def doors_on(self, edge: Edge) -> list[str]:
        """The doors that an edge goes through, the outermost first."""
        return [self.doors[edge.source, module] for module in self.entered(edge) if (edge.source, module) in self.doors]

    def before_door(self, source: str, door: str) -> str:
        """Where the line into a door begins: at the door outside of it, or at the node on the stream."""
        way = next(doors for doors in map(self.doors_on, self.graph.outgoing[source]) if door in doors)
        return way[way.index(door) - 1] if way[0] != door else self.out_of(source)

    def start_of(self, edge: Edge) -> str:
        """Where the line of an edge begins: at its source, at the end of a rail, or at the last door on its way."""
        doors = self.doors_on(edge)
        return doors[-1] if doors else self.out_of(edge.source)

    def out_of(self, id: str) -> str:
        """Where what leaves a node is drawn to leave it."""
        return ends(self.graph[id])[1] if id in self.before_rail else id


def ends(node: Node) -> tuple[str, str]:
    """Ids of the two drawn nodes where the rail through a folded run begins and ends."""
    return f"{node.id}/in", f"{node.id}/out"
