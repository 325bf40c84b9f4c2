"""Which edges are skips: the residual sums that were marked as such, and those that are told by their form.

A marked sum (op `residual`, from `residual(x, branch)` or `nn.Residual`) always has a skip: its first operand. If that operand
was scaled or projected on the way, the skip begins at the nearest value on that way that the branch comes from too.

In raw code, `x = x + branch(x)`, an add has a skip if the value behind one side (under dropout, reshape, cast and copies) has
the shape of the sum, depends on data, and is an ancestor of the other side, and if the other side owns a parameter that is not
used below x. Adds of one shape that feed only each other are one sum: in `x + f(x) + g(x)` the skip runs from x to the last.

What follows from the rule:
- A branch that has only weights of an earlier layer (a layer applied twice) is not told from a recurrence: in
  `x = x + f(x); x = x + f(x)` with one f, the first sum has a skip and the second has none. Marked sums have one each.
- `x - f(x)` is not a sum. Write `residual(x, -f(x))` to have it drawn as one.
- Leaves that a reader made by hand, `Tensor(..., requires_grad=True)`, count as parameters where a graph has no `Parameter` and
  has inputs that take no gradient.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator
from dataclasses import replace

from .graph import Edge, Graph, Skip

SAME = ("clone", "dropout", "reshape", "cast", "expand")  # peeled off a skip
SCALED = ("mul", "div", "neg")  # with one operand that depends on data, on the way of a marked skip
PROJECTED = ("linear", "matmul", "cat", "getitem")
SHIFTED = ("add", "sub")

Way = list[Edge]  # from a sum backwards: each edge goes into the value that the one before it comes from


def find_skips(graph: Graph) -> Graph:
    """The graph with its skips, and on each edge the skips that run over it. Those it had before are found anew.

    A graph in which modules are collapsed or folded is returned as it is: what would have to be seen is hidden there.
    """
    if any(node.kind in ("module", "fold") for node in graph.nodes):
        return graph
    rank = {node.id: i for i, node in enumerate(graph.nodes)}
    found = sorted(_Finder(graph).found(), key=lambda item: (rank[item[0].target], rank[item[0].source]))
    skips: dict[tuple[str, str], Skip] = {}
    over: dict[tuple[str, str, int], dict[str, None]] = {}
    sums: dict[str, int] = {}
    for skip, path in found:
        ends = skip.source, skip.target
        if ends not in skips:  # in x + x + f(x) two paths lead from x to the sum: one skip
            sums[skip.target] = count = sums.get(skip.target, 0) + 1
            skips[ends] = replace(skip, id=f"skip/{skip.target}" + (f"/{count}" if count > 1 else ""))
        for edge in path:
            over.setdefault(edge.key, {})[skips[ends].id] = None
    edges = tuple(
        replace(edge, skips=tuple(over.get(edge.key, ()))) if edge.key in over or edge.skips else edge for edge in graph.edges
    )
    return graph.replace(edges=edges, skips=tuple(skips.values()))


def topological(graph: Graph) -> list[str]:
    """Node ids, each after all that go into it; the order of the graph itself if it is one. What lies on a cycle comes last."""
    rank = {node.id: i for i, node in enumerate(graph.nodes)}
    if all(rank[edge.source] < rank[edge.target] for edge in graph.edges):
        return list(rank)
    missing = {id_: len(edges) for id_, edges in graph.incoming.items()}
    order = [id_ for id_ in rank if not missing[id_]]
    for id_ in order:  # grows while it is walked
        for edge in graph.outgoing[id_]:
            missing[edge.target] -= 1
            if not missing[edge.target]:
                order.append(edge.target)
    done = set(order)
    return order + [id_ for id_ in rank if id_ not in done]


def learned(graph: Graph) -> set[str]:
    """Ids of the parameters; without any, of the leaves that take a gradient, if there are also inputs that take none."""
    inputs = [node for node in graph.nodes if node.kind == "input"]
    parameters = {node.id for node in graph.nodes if node.kind == "parameter"}
    if not parameters and not all(node.trained for node in inputs):
        parameters = {node.id for node in inputs if node.trained}
    return parameters


def from_data(graph: Graph, order: list[str], parameters: set[str]) -> set[str]:
    """Ids of the inputs that are no parameters, and of all that was made of them."""
    data = {node.id for node in graph.nodes if node.kind == "input" and node.id not in parameters}
    for id_ in order:
        for edge in graph.incoming[id_]:
            if edge.source in data:
                data.add(id_)
                break
    return data


class _Finder:
    """Finds out, of every value that a skip could begin at, what was made of it.

    Such a value and a parameter have one bit each, and every value has the bits of itself and of all that it was made of: one
    pass over the graph, in which the bits of a value are dropped after their last use.
    """

    def __init__(self, graph: Graph):
        self.nodes, self.incoming, self.outgoing = graph.by_id, graph.incoming, graph.outgoing
        self.order = topological(graph)
        self.rank = {id_: i for i, id_ in enumerate(self.order)}
        self.learned = learned(graph)
        self.data = from_data(graph, self.order, self.learned)
        self.sums = [id_ for id_ in self.order if self.nodes[id_].op in ("add", "residual")]
        self.onward = {id_: edge for id_ in self.sums if (edge := self._onward(id_)) is not None}
        self.ways: dict[str, list[Way]] = {}  # the last add of a sum -> the ways back that its skips could come
        self.begins: set[str] = set()  # where skips could begin
        self.until: dict[str, int] = {}  # a value -> the last sum that asks for its bits
        self._collect()

    def _onward(self, id_: str) -> Edge | None:
        """The edge to an add of the same shape, if it is the only one that leaves this add."""
        node, out = self.nodes[id_], self.outgoing[id_]
        if node.op != "add" or len(out) != 1:
            return None
        further = self.nodes[out[0].target]
        return out[0] if further.op == "add" and further.shape == node.shape else None

    def _collect(self) -> None:
        whole: dict[str, str] = {}  # an add -> the last add of the sum that it is a part of
        for id_ in reversed(self.sums):
            node, into = self.nodes[id_], self.incoming[id_]
            if node.op == "residual":
                whole[id_] = id_
                ways = [self._way(edge, marked=True) for edge in into if edge.slot == 0]
                begins = [edge.source for way in ways for edge in way]
            else:
                whole[id_] = whole[self.onward[id_].target] if id_ in self.onward else id_
                ways, begins = [], []
                for edge in into:
                    if edge.source in self.data and edge.source not in self.onward:
                        way = self._way(edge, marked=False)
                        possible = [edge.source for edge in way if self._may_begin(edge.source, node.shape)]
                        ways += [way] if possible else []
                        begins += possible
            if ways:
                self.ways.setdefault(whole[id_], []).extend(ways)
                self.begins.update(begins)
        for id_ in self.sums if self.ways else ():
            for edge in self.incoming[id_]:
                self.until[edge.source] = max(self.until.get(edge.source, 0), self.rank[whole[id_]])
        for id_, ways in self.ways.items():
            for edge in (edge for way in ways for edge in way):
                self.until[edge.source] = max(self.until.get(edge.source, 0), self.rank[id_])

    def _may_begin(self, id_: str, shape: tuple[int, ...] | None) -> bool:
        return id_ in self.data and self.nodes[id_].shape == shape and len(self.outgoing[id_]) > 1

    def _way(self, edge: Edge, marked: bool) -> Way:
        """The edge, and those before it as long as the value stays the same one, or, if marked, is only scaled or projected."""
        way = [edge]
        while (before := self._before(way[-1].source, marked)) is not None:
            way.append(before)
        return way

    def _before(self, id_: str, marked: bool) -> Edge | None:
        node, into = self.nodes[id_], self.incoming[id_]
        if node.op in SAME:
            first = next((edge for edge in into if edge.slot == 0), None)
            grown = node.op == "expand" and first is not None and _size(self.nodes[first.source].shape) != _size(node.shape)
            return None if grown else first
        if marked and node.op in (*SCALED, *PROJECTED, *SHIFTED):
            data = [edge for edge in into if edge.source in self.data]
            if len(data) > 1:  # an array written into raw code, such as a mask or a fixed matrix, is an input too
                data = [edge for edge in data if self.nodes[edge.source].trained]
            if len(data) == 1 and (data[0].slot == 0 or node.op not in ("div", "sub")):
                return data[0]
        return None

    def found(self) -> Iterator[tuple[Skip, Way]]:
        """Every skip, without its id, and the edges that it runs over, backwards."""
        if not self.ways:
            return
        self.bit = {id_: 1 << i for i, id_ in enumerate(id_ for id_ in self.order if id_ in self.begins or id_ in self.learned)}
        self.parameters = functools.reduce(operator.or_, (self.bit[id_] for id_ in self.learned), 0)
        self.behind: dict[str, int] = {}
        unused: list[list[str]] = [[] for _ in self.order]
        for id_ in self.order:
            last = max((self.rank[edge.target] for edge in self.outgoing[id_]), default=0)
            unused[max(last, self.until.get(id_, 0))].append(id_)
        for id_, over in zip(self.order, unused):
            bits = self.bit.get(id_, 0)
            for edge in self.incoming[id_]:
                bits |= self.behind.get(edge.source, 0)
            self.behind[id_] = bits
            for way in self.ways.get(id_, ()):
                skip = self._marked(id_, way) if self.nodes[id_].op == "residual" else self._raw(id_, way)
                if skip is not None:
                    yield skip
            for used in over:
                self.behind.pop(used, None)

    def _marked(self, sum_: str, way: Way) -> tuple[Skip, Way]:
        """From the nearest value on the way that the branch comes from; from the operand itself if there is none."""
        branch = next((edge.source for edge in self.incoming[sum_] if edge.slot == 1), sum_)
        n = next((n for n, edge in enumerate(way, 1) if self.behind[branch] & self.bit[edge.source]), 1)
        ops = {self.nodes[edge.target].op for edge in way[1:n]}
        kind = "projected" if ops.intersection(PROJECTED) else "scaled" if ops.intersection(SCALED) else "identity"
        return Skip("", way[n - 1].source, sum_, kind, True), way[:n]

    def _raw(self, sum_: str, way: Way) -> tuple[Skip, Way] | None:
        for n, edge in enumerate(way, 1):
            source = edge.source
            if self._may_begin(source, self.nodes[sum_].shape) and self._bypasses(source, sum_):
                path = self._up(source, way[0])
                if path:
                    return Skip("", source, path[0].target), [*path, *way[1:n]]
        return None

    def _up(self, source: str, edge: Edge) -> Way:
        """The way from the sum that the skip ends in down to this edge, the first one after the source's own.

        The skip ends in the first add whose other side is a branch of the source, and goes on through further adds of the same
        sum as long as their other sides are branches of it too: all of x + f(x) + g(x), not the outer add of u + (x + f(x)).
        """
        path, passed = [edge], 0
        while True:
            others = [other.source for other in self.incoming[edge.target] if other.slot != edge.slot]
            if any(self._bypasses(source, other) for other in others):
                passed = len(path)
            elif passed:
                break
            if edge.target not in self.onward:
                break
            edge = self.onward[edge.target]
            path.append(edge)
        return path[:passed][::-1]

    def _bypasses(self, source: str, branch: str) -> bool:
        """Whether the branch comes from the source and uses a parameter that the source does not come from."""
        if branch == source or not self.behind[branch] & self.bit[source]:
            return False
        return bool(self.behind[branch] & ~self.behind[source] & self.parameters)


def _size(shape: tuple[int, ...] | None) -> int:
    return math.prod(shape or ())
