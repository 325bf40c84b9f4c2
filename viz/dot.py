"""From a graph to DOT, Graphviz's language: one statement a line, in a stable order, every word quoted.

The residual stream comes out as one straight line because its nodes share a group and its edges have a weight of 100.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from textwrap import wrap

from .graph import Edge, Graph, Module, Node
from .stream import Stream, stream
from .style import DIRECTIONS, GREY, LOOKS, ORANGE, THEMES, Look, Options, count, number, role, sums, tint

LONGEST = 60  # characters of one line in a label
HEAVY = 100  # weight of what is to be straight


def to_dot(graph: Graph, options: Options) -> str:
    """The graph in DOT. Ids of nodes are those of the graph; `id` attributes (n0, e0, m0) name the parts of an SVG."""
    return "\n".join(_Writer(graph, options).lines()) + "\n"


class Quoted(str):
    """Text that is a quoted string of DOT already."""


def quoted(text: str) -> Quoted:
    """A quoted string of DOT, letter by letter: no escape of Graphviz's, no HTML, no line break of the text's own."""
    text = "".join(c if c.isprintable() else "↵" if c == "\n" else "�" for c in text)
    return Quoted('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"')


def label(*lines: str) -> Quoted:
    """Lines of text, one below the other, as the value of a label."""
    cut = (line if len(line) <= LONGEST else line[: LONGEST - 1] + "…" for line in lines)
    return Quoted('"' + "\\n".join(quoted(line.replace("&", "&amp;"))[1:-1] for line in cut) + '"')


def wrapped(*texts: str) -> list[str]:
    """The lines of a caption."""
    return [line for text in texts for line in wrap(text, LONGEST)]


def attributes(**values: object) -> str:
    """[name=value, ...] without what is None."""
    parts = []
    for name, value in values.items():
        if value is not None:
            text = f"{value:.4g}" if isinstance(value, float) else value
            parts.append(f"{name.rstrip('_')}={text if isinstance(text, Quoted) else quoted(str(text))}")
    return f" [{', '.join(parts)}]" if parts else ""


class _Writer:
    def __init__(self, graph: Graph, options: Options):
        self.options, self.theme = options, THEMES[options.theme]
        self.graph = graph
        self.sums = sums(self.graph) if options.skips else frozenset()
        self.stream = stream(self.graph) if options.skips else Stream((), frozenset(), {})
        self.number = {node.id: i for i, node in enumerate(self.graph.nodes)}
        self.rails = frozenset(node.id for node in self.graph.nodes if node.rail and node.id in self.stream.group)
        inward = [(edge.target, edge.source) for edge in self.graph.edges if edge.key in self.stream.edges]
        self.before_rail = {target: source for target, source in inward if target in self.rails}
        self.outermost = self.graph.modules[0].id if sum(not m.parent for m in self.graph.modules) == 1 else ""
        self.beside_op = self.beside_ops()
        self.doors = self.doors_of_clusters()
        self.loudest = max((e.grad.norm for e in self.graph.edges if e.grad is not None), default=0.0)

    def lines(self) -> Iterator[str]:
        yield f"digraph {quoted(self.options.title or self.graph.title or 'graph')} {{"
        caption = wrapped(self.options.title or self.graph.title, *self.graph.notes)
        yield "  graph" + attributes(
            rankdir=DIRECTIONS[self.options.direction], newrank="true", nodesep=0.25, ranksep=0.32, bgcolor=self.theme.page,
            fontname="Helvetica", fontsize=13.0, fontcolor=self.theme.words, label=label(*caption) if caption else None,
            labelloc="t", charset="UTF-8",
        )  # fmt: skip
        yield "  node" + attributes(fontname="Helvetica", height=0.3, margin="0.12,0.05")
        yield "  edge" + attributes(fontname="Helvetica", fontsize=10.0, color=self.theme("#555555"), arrowsize=0.7)
        yield from self.boxes()
        for (source, _), door in self.doors.items():
            yield "  " + self.way_in(source, door)
        for i, edge in enumerate(self.graph.edges):
            yield "  " + self.edge(i, edge)
        for id_ in sorted(self.rails, key=self.number.__getitem__):
            yield from (f"  {line}" for line in self.rail(self.graph[id_]))
        if self.options.legend:
            yield from self.legend()
        yield "}"

    # ---------------------------------------------------------------------------------------- nodes and clusters

    def boxes(self) -> Iterator[str]:
        """Every node inside the cluster of its module call; a cluster stands where its first node does."""
        inside: dict[str, list[Node | Module]] = {"": []}
        for module in self.graph.modules:
            inside[module.id] = []
        first: dict[str, int] = {}
        for node in self.graph.nodes:
            for module in self.graph.modules_around(node.module):
                first[module.id] = min(first.get(module.id, node.order), node.order)
        users = {leaf: self.graph[op].module for op, leaves in self.beside_op.items() for leaf in leaves}
        items: list[Node | Module] = [*self.graph.modules, *self.graph.nodes]
        for item in sorted(items, key=lambda item: first.get(item.id, item.order) if isinstance(item, Module) else item.order):
            inside[item.parent if isinstance(item, Module) else users.get(item.id, item.module)].append(item)
        place = {module.id: i for i, module in enumerate(self.graph.modules)}
        stack: list[tuple[int, Node | Module | None]] = [(1, item) for item in reversed(inside[""])]
        while stack:
            depth, item = stack.pop()
            indent = "  " * depth
            if item is None:
                yield f"{indent}}}"
            elif isinstance(item, Node):
                yield from (indent + line for line in self.node(item))
                if item.id in self.beside_op:
                    same = "; ".join(quoted(id_) for id_ in (*self.beside_op[item.id], item.id))
                    yield f'{indent}{{ rank="same"; {same} }}'
            elif item.id == self.outermost:  # a box around everything says nothing
                stack.extend((depth, each) for each in reversed(inside[item.id]))
            elif inside[item.id]:
                yield f"{indent}subgraph {quoted(f'cluster_{item.id}')} {{"
                yield f"{indent}  graph" + attributes(
                    id=f"m{place[item.id]}", label=label(_called(item)), style="rounded,filled", color=self.theme.cluster,
                    fillcolor=tint(item.kind, self.theme) or self.theme.page, fontsize=10.0, fontcolor=self.theme.words, labeljust="l", margin="10",
                )  # fmt: skip
                for (source, module), door in self.doors.items():
                    if module == item.id:
                        yield f"{indent}  {quoted(door)}" + attributes(
                            label="", shape="point", width=0.07, color=self.theme(ORANGE), group=self.stream.group[source], class_="door"
                        )
                stack.append((depth, None))
                stack.extend((depth + 1, each) for each in reversed(inside[item.id]))

    def beside_ops(self) -> dict[str, list[str]]:
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
        beside = self.beside_op.get(edge.target, ())
        return edge.source in beside and beside.index(edge.source) % 2 == 1

    def doors_of_clusters(self) -> dict[tuple[str, str], str]:
        """(node on the stream, module) -> the point inside the module's cluster through which its value comes in.

        A cluster's box keeps lines that only end in it at its side. A point of the stream at its top holds the line straight, and
        shows where the side trip leaves.
        """
        first: dict[str, str] = {}  # module -> the first thing in it, whatever stands beside an op aside
        beside = {id_ for leaves in self.beside_op.values() for id_ in leaves}
        for node in sorted(self.graph.nodes, key=lambda node: (node.order, node.kind == "op")):
            if node.id not in beside:
                for module in self.graph.modules_around(node.module):
                    first.setdefault(module.id, node.id)
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

    def way_in(self, source: str, door: str) -> str:
        """The line from a node of the stream to a door, or from a door to the next one inside it."""
        mine = [d for (s, _), d in self.doors.items() if s == source]
        through = [edge for edge in self.graph.outgoing[source] if door in self.doors_on(edge)]
        before = mine[mine.index(door) - 1] if any(self.doors_on(edge)[0] != door for edge in through) else source
        skip = self.options.skips and any(edge.skips for edge in through)
        look = {"color": self.theme(ORANGE), "penwidth": 4.0, "class_": "skip"} if skip else {}
        start = _ends(self.graph[source])[1] if before in self.rails else before
        return f"{quoted(start)} -> {quoted(door)}" + attributes(weight=HEAVY, arrowhead="none", **look)

    def doors_on(self, edge: Edge) -> list[str]:
        return [self.doors[edge.source, module] for module in self.entered(edge) if (edge.source, module) in self.doors]

    def node(self, node: Node) -> Iterator[str]:
        kind = role(node, self.sums)
        look = LOOKS[kind]
        bold = kind == "parameter" and node.grad is not None and self.options.grads != "none"
        fill = tint(node.label, self.theme) or self.theme(look.fill) if kind in ("module", "fold") else self.theme(look.fill)
        more: dict[str, object] = {}
        if kind == "sum":
            more = {"width": 0.36, "height": 0.36, "fixedsize": "true", "margin": "0"}
        elif kind == "constant":
            more = {"width": 0.0, "height": 0.0, "margin": "0.03,0.02"}
        yield quoted(node.id) + attributes(
            id=f"n{self.number[node.id]}", class_=kind, group=self.stream.group.get(node.id), label=label(*self.words(node, kind)),
            shape=look.shape, style=look.style or None, color=self.theme(look.line), fillcolor=fill,
            fontcolor=self.theme(look.text), fontsize=look.size, penwidth=2.5 if bold else look.width,
            xlabel=self.beside(node, kind), **more,
        )  # fmt: skip
        if node.id in self.rails:
            start, end = _ends(node)
            point, plus = LOOKS["sum"], attributes(label="+", shape="circle", style="filled", color=self.theme(ORANGE), width=0.36,
                height=0.36, fixedsize="true", margin="0", penwidth=3.0, fontsize=14.0, class_="sum",
                fillcolor=self.theme(LOOKS["sum"].fill), fontcolor=self.theme(ORANGE), group=self.stream.group.get(node.id))  # fmt: skip
            yield quoted(start) + attributes(label="", shape="point", width=0.08, color=self.theme(point.line), class_="rail",
                                             group=self.stream.group.get(node.id))  # fmt: skip
            yield quoted(end) + plus

    def words(self, node: Node, kind: str) -> list[str]:
        """The lines inside a node."""
        if kind == "sum":
            return ["+"]
        lines = [node.label]
        if node.kind == "parameter":
            lines = [self.short(node)]
        elif node.kind == "op" and node.name:
            lines = [f"{node.name} = {node.label}"]
        elif node.kind == "module":
            lines = [self.short(node), node.label, f"{_number_of(node.parameters, 'parameter')} · {_number_of(node.ops, 'op')}"]
        elif node.kind == "fold":
            lines = [node.label, f"{_number_of(node.parameters, 'parameter')} · {_number_of(node.ops, 'op')}"]
        if node.kind != "constant" and self.options.shapes and node.shape and node.kind != "fold":
            lines.append(_shape(node.shape) + (f" · {count(node.parameters)}" if node.kind == "parameter" else ""))
        elif node.kind == "parameter":
            lines.append(count(node.parameters))
        if node.loss and node.value is not None and self.options.values == "none":
            lines.append(number(node.value.item))
        if node.badge and node.id not in self.rails:  # a rail says it itself
            lines.append(f"↷{node.badge}")
        return lines + self.numbers(node)

    def short(self, node: Node) -> str:
        """The path of a parameter or a collapsed module, from the cluster that it stands in."""
        around = self.graph.module_by_id.get(node.module)
        name = node.name or node.label
        return name.removeprefix(f"{around.path}.") if around is not None and around.path else name

    def numbers(self, node: Node) -> list[str]:
        lines = []
        show, v = self.options.values, node.value
        if v is not None and show != "none" and node.kind != "constant":
            if v.item is not None:
                lines.append(number(v.item))
            elif show == "stats":
                lines.append(f"mean {number(v.mean)} ± {number(v.std)}, norm {number(v.norm)}")
            else:
                lines.append("[" + ", ".join(number(x) for x in v.first) + (", …]" if len(v.first) < v.size else "]"))
            if v.nonfinite:
                lines.append(f"{count(v.nonfinite)} of {count(v.size)} are NaN or inf")
        wanted = self.options.grads in ("labels", "edges") or (self.options.grads == "auto" and show != "none")
        real = self.options.grads == "edges" or self.graph.arrived
        if wanted and node.trained and node.kind in ("op", "input", "parameter", "module"):
            g = node.grad if real else None
            if self.options.grads == "edges" and g is None:
                return lines  # the edges say it; backward() has not run
            lines.append("grad –" if g is None else f"grad {number(g.item if g.item is not None else g.norm)}")
        return lines

    def beside(self, node: Node, kind: str) -> str | None:
        """What a sum says beside its circle, which has room for the plus alone."""
        if kind != "sum":
            return None
        numbers = self.numbers(node) if self.options.grads != "edges" else []  # there the edges say it
        lines = ([node.name] if node.name else []) + numbers
        return label(*lines) if lines else None

    # ---------------------------------------------------------------------------------------- edges

    def edge(self, i: int, edge: Edge) -> str:
        graph, straight = self.graph, edge.key in self.stream.edges
        doors = self.doors_on(edge)
        source = doors[-1] if doors else _ends(graph[edge.source])[1] if edge.source in self.rails else edge.source
        target = edge.target
        if target in self.rails and edge.source == self.before_rail[target]:  # the stream goes on the rail, the rest is the side trip
            target, source = (_ends(graph[target])[0], source) if straight else (target, _ends(graph[target])[0])
        kinds = [skip.kind for skip in graph.skips if skip.id in edge.skips] if edge.skips and self.options.skips else []
        look: dict[str, object] = {"id": f"e{i}", "weight": HEAVY if straight or kinds else 0 if edge.key in self.stream.loose else None}
        words = []
        if kinds:
            dashed = "identity" not in kinds
            look |= {"class_": "skip", "color": self.theme(ORANGE), "penwidth": 4.0, "style": "dashed" if dashed else None}
            last = edge.target not in self.rails and any(skip.target == edge.target for skip in graph.skips if skip.id in edge.skips)
            words = [{"identity": "skip", "scaled": "skip ×α", "projected": "skip W"}[kinds[0]]] if last else []
        elif graph[edge.source].kind in ("constant", "parameter"):
            look |= {"color": self.theme(GREY), "arrowsize": 0.5}
        if edge.count > 1 and not kinds:
            words.append(f"×{edge.count}")
        if self.options.grads == "edges" and edge.grad is not None:
            look |= {"dir": "back", "class_": look.get("class_", "gradient")}
            if not kinds:
                look |= {"color": self.theme("#0072B2"), "penwidth": self.width(edge.grad.norm)}
            words.append(number(edge.grad.item if edge.grad.item is not None else edge.grad.norm))
        if self.turned(edge):
            source, target = target, source
            look["dir"] = "forward" if look.get("dir") == "back" else "back"
        if words:
            look |= {"label": label("  " + " ".join(words) + " "), "fontcolor": look.get("color")}
        return f"{quoted(source)} -> {quoted(target)}" + attributes(**look)

    def width(self, norm: float) -> float:
        """Points: 5 for the largest gradient, less by one for each factor of ten below it, at least 0.5."""
        if norm <= 0 or self.loudest <= 0:
            return 0.5
        return max(0.5, 5 + math.log10(norm / self.loudest))

    def rail(self, node: Node) -> Iterator[str]:
        """Through a folded run: the stream straight on, the modules as one side trip that returns."""
        start, end = _ends(node)
        through = node.badge + sum(skip.target == node.id for skip in self.graph.skips)
        skips = f"  {_number_of(through, 'skip')} "
        beside = [e for e in self.graph.incoming[node.id] if e.source == self.before_rail[node.id] and e.key not in self.stream.edges]
        yield f"{quoted(start)} -> {quoted(end)}" + attributes(
            class_="skip rail", color=self.theme(ORANGE), penwidth=4.0, weight=HEAVY, label=label(skips), fontcolor=self.theme(ORANGE)
        )
        if not beside:
            yield f"{quoted(start)} -> {quoted(node.id)}"
        yield f"{quoted(node.id)} -> {quoted(end)}"

    # ---------------------------------------------------------------------------------------- legend

    def legend(self) -> Iterator[str]:
        """A column with one sample of each kind of thing that occurs."""
        found = dict.fromkeys(role(node, self.sums) for node in self.graph.nodes)
        kinds = [kind for kind in LOOKS if kind in found or (kind == "sum" and self.rails)]
        yield '  subgraph "cluster_legend" {'
        yield "    graph" + attributes(id="legend", label=label("legend"), style="rounded", color=self.theme.cluster, fontsize=10.0,
                                       fontcolor=self.theme.words, labeljust="l", margin="8")  # fmt: skip
        names = []
        for kind in kinds:
            look: Look = LOOKS[kind]
            names.append(f"legend/{kind}")
            words = [look.word] if kind != "sum" else ["+ " + look.word]
            if kind == "parameter" and any(n.kind == "parameter" and n.grad is not None for n in self.graph.nodes):
                words.append("bold: has a gradient")
            yield f"    {quoted(names[-1])}" + attributes(
                label=label(*words), shape=look.shape if kind != "sum" else "ellipse", style=look.style or None,
                color=self.theme(look.line), fillcolor=self.theme(look.fill), fontcolor=self.theme(look.text), fontsize=9.0,
                penwidth=look.width, class_="legend", height=0.0, margin="0.06,0.03",
            )  # fmt: skip
        for above, below in zip(names, names[1:]):
            yield f"    {quoted(above)} -> {quoted(below)}" + attributes(style="invis")
        yield from self.lines_of_legend(names[-1] if names else None)
        yield "  }"

    def lines_of_legend(self, above: str | None) -> Iterator[str]:
        drawn = [skip.kind for skip in self.graph.skips] + ["identity"] * bool(self.rails)
        samples = []
        if "identity" in drawn and self.options.skips:
            samples.append(("skip", {"color": self.theme(ORANGE), "penwidth": 4.0}))
        if {"scaled", "projected"} & set(drawn) and self.options.skips:
            samples.append(("skip, scaled or projected", {"color": self.theme(ORANGE), "penwidth": 4.0, "style": "dashed"}))
        if self.options.grads == "edges" and self.loudest:
            samples.append(("gradient, by its norm", {"color": self.theme("#0072B2"), "penwidth": 3.0, "dir": "back"}))
        for name, look in samples:
            ends = [f"legend/{name}/{end}" for end in ("from", "to")]
            for end in ends:
                yield f"    {quoted(end)}" + attributes(label="", shape="point", width=0.05, color=look["color"], class_="legend")
            if above is not None:
                yield f"    {quoted(above)} -> {quoted(ends[0])}" + attributes(style="invis")
            yield f"    {quoted(ends[0])} -> {quoted(ends[1])}" + attributes(
                label=label(f"  {name} "), fontsize=9.0, fontcolor=self.theme.words, class_="legend", **look
            )
            above = ends[1]


def _called(module: Module) -> str:
    call = module.id.rpartition("#")[2] if "#" in module.id else ""
    path = module.id.rpartition("#")[0] or module.id  # with the name of the model in front, if there are several
    if path.endswith(f"/{module.path}"):  # of two graphs side by side: the frame around says which
        path = module.path
    name = f"{path} · {module.kind}" if path != module.kind else path
    return f"{name} (call {call})" if call else name


def _number_of(n: int, what: str) -> str:
    return f"{count(n)} {what}{'s' if n != 1 else ''}"


def _shape(shape: tuple[int, ...]) -> str:
    return "(" + ", ".join(map(str, shape)) + (",)" if len(shape) == 1 else ")")


def _ends(node: Node) -> tuple[str, str]:
    """Ids of the two drawn nodes where the rail through a folded run begins and ends."""
    return f"{node.id}/in", f"{node.id}/out"
