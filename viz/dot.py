"""From a graph to DOT, Graphviz's language: one statement a line, in a stable order, every word quoted.

The residual stream comes out as one straight line because its nodes share a group and its edges have a weight of 100.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from .arrange import Arrangement, ends
from .graph import Edge, Graph, Module, Node
from .legend import legend
from .quoting import attributes, label, quoted, wrapped
from .style import BLUE, DIRECTIONS, GREY, LOOKS, ORANGE, THEMES, Options, role, sums, tint
from .words import beside, called, number_of, size, words

HEAVY = 100  # weight of what is to be straight
SUM = {"width": 0.36, "height": 0.36, "fixedsize": "true", "margin": "0"}
SKIPS = {"identity": "skip", "scaled": "skip ×α", "projected": "skip W"}


def to_dot(graph: Graph, options: Options) -> str:
    """The graph in DOT. Ids of nodes are those of the graph; `id` attributes (n0, e0, m0) name the parts of an SVG."""
    return "\n".join(_Writer(graph, options).lines()) + "\n"


class _Writer:
    def __init__(self, graph: Graph, options: Options):
        self.graph, self.options, self.theme = graph, options, THEMES[options.theme]
        self.place = Arrangement(graph, options.skips)
        self.sums = sums(graph) if options.skips else frozenset()
        self.kinds = {skip.id: skip.kind for skip in graph.skips} if options.skips else {}
        self.ends = {(skip.id, skip.target) for skip in graph.skips}
        self.number = {node.id: i for i, node in enumerate(graph.nodes)} | {m.id: i for i, m in enumerate(graph.modules)}
        self.loudest = max((edge.grad.norm for edge in graph.edges if edge.grad is not None), default=0.0)
        self.orange = self.theme(ORANGE)

    def lines(self) -> Iterator[str]:
        title = self.options.title or self.graph.title
        caption = wrapped(title, *self.graph.notes)
        yield f"digraph {quoted(title or 'graph')} {{"
        yield "  graph" + attributes(
            rankdir=DIRECTIONS[self.options.direction], newrank="true", ranksep=0.32, bgcolor=self.theme.page,
            fontname="Helvetica", fontsize=13.0, fontcolor=self.theme.words, label=label(*caption) if caption else None,
            labelloc="t", charset="UTF-8",
        )  # fmt: skip
        yield "  node" + attributes(fontname="Helvetica", height=0.3, margin="0.12,0.05")
        yield "  edge" + attributes(fontname="Helvetica", fontsize=10.0, color=self.theme("#555555"), arrowsize=0.7)
        yield from self.boxes()
        for (source, _), door in self.place.doors.items():
            yield "  " + self.way_in(source, door)
        for i, edge in enumerate(self.graph.edges):
            yield "  " + self.edge(i, edge)
        for node in self.place.rails:
            yield from (f"  {line}" for line in self.rail(node))
        if self.options.legend:
            yield from legend(self.graph, self.options, self.theme, bool(self.place.rails))
        yield "}"

    # ---------------------------------------------------------------------------------------- nodes and clusters

    def boxes(self) -> Iterator[str]:
        """Every node inside the cluster of its module call; a cluster stands where its first node does."""
        inside = self.contents()
        stack: list[tuple[int, Node | Module | None]] = [(1, item) for item in reversed(inside[""])]
        while stack:
            depth, item = stack.pop()
            indent = "  " * depth
            if item is None:
                yield f"{indent}}}"
            elif isinstance(item, Node):
                yield from (indent + line for line in self.node(item))
            elif item.id == self.place.outermost:  # a box around everything says nothing
                stack.extend((depth, each) for each in reversed(inside[item.id]))
            elif inside[item.id]:
                yield f"{indent}subgraph {quoted(f'cluster_{item.id}')} {{"
                yield from (f"{indent}  {line}" for line in self.cluster(item))
                stack.append((depth, None))
                stack.extend((depth + 1, each) for each in reversed(inside[item.id]))

    def contents(self) -> dict[str, list[Node | Module]]:
        """Module id -> what stands directly in it, by the order of the first node; "" for what stands in none."""
        first: dict[str, int] = {}
        for node in self.graph.nodes:
            for around in self.graph.modules_around(node.module):
                first[around.id] = min(first.get(around.id, node.order), node.order)
        users = {leaf: self.graph[op].module for op, leaves in self.place.beside.items() for leaf in leaves}
        inside: dict[str, list[Node | Module]] = {"": [], **{module.id: [] for module in self.graph.modules}}
        items: list[Node | Module] = [*self.graph.modules, *self.graph.nodes]
        for item in sorted(items, key=lambda item: first.get(item.id, item.order) if isinstance(item, Module) else item.order):
            inside[item.parent if isinstance(item, Module) else users.get(item.id, item.module)].append(item)
        return inside

    def cluster(self, module: Module) -> Iterator[str]:
        yield "graph" + attributes(
            id=f"m{self.number[module.id]}", label=label(called(module)), style="rounded,filled", color=self.theme.cluster,
            fillcolor=tint(module.kind, self.theme) or self.theme.page, fontsize=10.0, fontcolor=self.theme.words,
            labeljust="l", margin="10",
        )  # fmt: skip
        for (source, inside), door in self.place.doors.items():
            if inside == module.id:
                yield quoted(door) + attributes(
                    label="", shape="point", width=0.07, color=self.orange, group=self.place.stream.group[source], class_="door"
                )

    def node(self, node: Node) -> Iterator[str]:
        kind = role(node, self.sums)
        look, railed = LOOKS[kind], node.id in self.place.before_rail
        bold = kind == "parameter" and node.grad is not None and self.options.grads != "none"
        fill = tint(node.label, self.theme) if kind in ("module", "fold") else None
        said = beside(node, self.graph, self.options) if kind == "sum" else []
        fixed = SUM if kind == "sum" else {"width": 0.0, "height": 0.0, "margin": "0.03,0.02"} if kind == "constant" else {}
        yield quoted(node.id) + attributes(
            id=f"n{self.number[node.id]}", class_=kind, group=self.place.stream.group.get(node.id),
            label=label(*words(node, self.graph, self.options, kind == "sum", railed)), shape=look.shape,
            style=look.style or None, color=self.theme(look.line), fillcolor=fill or self.theme(look.fill),
            fontcolor=self.theme(look.text), fontsize=look.size, penwidth=2.5 if bold else look.width,
            xlabel=label(*said) if said else None, **fixed,
        )  # fmt: skip
        if railed:
            yield from self.ends_of_rail(node)
        if node.id in self.place.beside:
            yield f'{{ rank="same"; {"; ".join(quoted(id_) for id_ in (*self.place.beside[node.id], node.id))} }}'

    def ends_of_rail(self, node: Node) -> Iterator[str]:
        """The point where the stream comes to a box, and the sum where it leaves it: in the cluster that the box is in."""
        start, end = ends(node)
        look, group = LOOKS["sum"], self.place.stream.group[node.id]
        yield quoted(start) + attributes(label="", shape="point", width=0.08, color=self.orange, class_="rail", group=group)
        yield quoted(end) + attributes(
            label="+", shape=look.shape, style=look.style, color=self.orange, fillcolor=self.theme(look.fill),
            fontcolor=self.orange, fontsize=look.size, penwidth=look.width, class_="sum", group=group, **SUM,
        )  # fmt: skip

    # ---------------------------------------------------------------------------------------- edges

    def edge(self, i: int, edge: Edge) -> str:
        graph, straight = self.graph, edge.key in self.place.stream.edges
        source, target = self.place.start_of(edge), edge.target
        if self.place.before_rail.get(target) == edge.source:  # the stream goes on the rail, the rest is the side trip
            start = ends(graph[target])[0]
            source, target = (source, start) if straight else (start, target)
        kinds = [self.kinds[skip] for skip in edge.skips if skip in self.kinds]
        weight = HEAVY if straight or kinds else 0 if edge.key in self.place.stream.loose else None
        look: dict[str, object] = {"id": f"e{i}", "weight": weight}
        said = []
        if kinds:
            dashed = None if "identity" in kinds else "dashed"
            look |= {"class_": "skip", "color": self.orange, "penwidth": 4.0, "style": dashed}
            if target == edge.target and any((skip, target) in self.ends for skip in edge.skips):
                said.append(SKIPS[kinds[0]])
        elif graph[edge.source].kind in ("constant", "parameter"):
            look |= {"color": self.theme(GREY), "arrowsize": 0.5}
        if edge.count > 1 and not kinds:
            said.append(f"×{edge.count}")
        if self.options.grads == "edges" and edge.grad is not None:
            if not kinds:
                width = 4.0 if edge.grad.nonfinite else self.width(edge.grad.norm)
                look |= {"class_": "gradient", "color": self.theme(BLUE), "penwidth": width}
            look["dir"] = "back"
            said.append(size(edge.grad))
        if self.place.turned(edge):
            source, target = target, source
            look["dir"] = "forward" if look.get("dir") == "back" else "back"
        if said:
            look |= {"label": label("  " + " ".join(said) + " "), "fontcolor": look.get("color")}
        return f"{quoted(source)} -> {quoted(target)}" + attributes(**look)

    def width(self, norm: float) -> float:
        """Points: 4, as a skip, for the largest gradient, less by one for each factor of ten below it, at least 0.5."""
        if norm <= 0 or self.loudest <= 0:
            return 0.5
        return max(0.5, 4 + math.log10(norm / self.loudest))

    def way_in(self, source: str, door: str) -> str:
        """The line from a node of the stream to a door, or from a door to the next one inside it."""
        skip = any(edge.skips and door in self.place.doors_on(edge) for edge in self.graph.outgoing[source])
        look: dict[str, object] = {"class_": "skip", "color": self.orange, "penwidth": 4.0} if skip and self.kinds else {}
        start = self.place.before_door(source, door)
        return f"{quoted(start)} -> {quoted(door)}" + attributes(weight=HEAVY, arrowhead="none", **look)

    def rail(self, node: Node) -> Iterator[str]:
        """Through a box: the stream straight on to a sum, what is in the box as one side trip that returns to it."""
        start, end = ends(node)
        back = "back" if self.options.grads == "edges" and self.loudest else None
        before = self.place.before_rail.get(node.id)
        through = node.badge + sum(skip.target == node.id for skip in self.graph.skips)
        yield f"{quoted(start)} -> {quoted(end)}" + attributes(
            class_="skip rail", color=self.orange, penwidth=4.0, weight=HEAVY, label=label(f"  {number_of(through, 'skip')} "),
            fontcolor=self.orange, dir=back,
        )  # fmt: skip
        if all(e.source != before or e.key in self.place.stream.edges for e in self.graph.incoming[node.id]):
            yield f"{quoted(start)} -> {quoted(node.id)}" + attributes(dir=back)
        yield f"{quoted(node.id)} -> {quoted(end)}" + attributes(dir=back)
