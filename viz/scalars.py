"""The picture that readers of micrograd know, for an expression of numbers: `name | data | grad` boxes, from left to right.

Each value is a box, and the op that made it a small circle before the box. It draws the same `Graph` as every other view.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from .graph import Edge, Graph, Node, Numbers
from .quoting import Quoted, attributes, label, quoted, wrapped
from .style import DIRECTIONS, GREY, LOOKS, ORANGE, THEMES, Look, Options

SIGNS = {
    "add": "+", "residual": "+", "sub": "−", "neg": "−", "mul": "*", "div": "/", "pow": "**", "matmul": "@", "maximum": "max",
    "minimum": "min",
}  # fmt: skip
UNSET = "–"
RECORD = str.maketrans({c: "\\" + c for c in "{}|<> "})  # what a record label takes for its own


def scalars_dot(graph: Graph, options: Options | None = None) -> str:
    """A graph of single numbers in DOT. Of the options, title, theme, direction (by default "right"), grads and skips count.

    grads: "auto" shows a dash for every gradient until backward() has given one to a leaf, "none" leaves the column out, any
    other shows what is known. ValueError if a value has more than one number, or if modules were collapsed.
    """
    _check(graph)
    return "\n".join(_lines(graph, options or Options(direction="right"))) + "\n"


def _check(graph: Graph) -> None:
    for node in graph.nodes:
        if node.kind in ("module", "fold"):
            raise ValueError(f'view="scalars" draws single ops, and {node.id!r} is a {node.kind}: leave out depth and collapse')
        if node.shape is not None and math.prod(node.shape) != 1:
            raise ValueError(
                f'view="scalars" draws single numbers, and {node.id!r} has shape {node.shape}: '
                'draw it with view="ops", values="stats"'
            )


def _lines(graph: Graph, options: Options) -> Iterator[str]:
    theme = THEMES[options.theme]
    shown = options.grads != "none" and (graph.arrived or options.grads != "auto")
    drawn = [node for node in graph.nodes if node.kind != "output"]
    title = options.title or graph.title
    caption = wrapped(title, *graph.notes)
    if options.grads != "none" and not shown and any(node.trained for node in drawn):
        caption.append(f"grad {UNSET}: no gradient yet; backward() computes them")
    yield f"digraph {quoted(title or 'graph')} {{"
    yield "  graph" + attributes(
        rankdir=DIRECTIONS[options.direction], nodesep=0.18, ranksep=0.3, bgcolor=theme.page, charset="UTF-8",
        label=label(*caption) if caption else None, labelloc="b", fontname="Helvetica", fontsize=11.0, fontcolor=theme.words,
    )  # fmt: skip
    yield "  node" + attributes(fontname="Helvetica", fontsize=11.0, height=0.32, margin="0.1,0.05")
    yield "  edge" + attributes(color=theme("#555555"), arrowsize=0.6)
    names = {node.id: f"n{i}" for i, node in enumerate(graph.nodes)}
    for node in drawn:
        look = _look(node)
        fields = _record(_fields(node, options.grads != "none", shown), DIRECTIONS[options.direction] in ("LR", "RL"))
        yield "  " + quoted(node.id) + attributes(
            id=names[node.id], class_=node.kind, shape="record", style="rounded,filled" if node.kind != "constant" else None,
            label=fields, color=theme(look.line), fillcolor=theme(look.fill), fontcolor=theme(look.text), penwidth=look.width,
        )  # fmt: skip
        if node.kind == "op":
            yield from (f"  {line}" for line in _op(node, names[node.id], graph, options))
    for i, edge in enumerate(graph.edges):
        if graph[edge.target].kind == "op":
            yield f"  {quoted(edge.source)} -> {quoted(_maker(edge.target))}" + _edge(i, edge, graph, options)
    yield "}"


def _look(node: Node) -> Look:
    return LOOKS["failed" if node.failed else "loss" if node.loss else node.kind]


def _maker(id: str) -> str:
    """The id of the circle of an op, whose value has the id of the node."""
    return f"{id}/op"


def _op(node: Node, name: str, graph: Graph, options: Options) -> Iterator[str]:
    """The circle of the op, and the short line from it to the box of its value."""
    theme = THEMES[options.theme]
    sign = SIGNS.get(node.op, node.op)
    is_sum = options.skips and any(skip.target == node.id for skip in graph.skips)
    look = LOOKS["sum" if is_sum else "op"]
    small = len(sign) <= 2
    yield quoted(_maker(node.id)) + attributes(
        id=f"{name}-op", class_="sum" if is_sum else "maker", label=sign, shape="circle" if small else "ellipse",
        style="filled", color=theme(look.line), fillcolor=theme(look.fill), fontcolor=theme(look.text), penwidth=look.width,
        fontsize=14.0 if small else 11.0, width=0.36 if small else 0.5, height=0.36, margin="0" if small else "0.05,0.03",
        fixedsize="true" if small else None,
    )  # fmt: skip
    yield f"{quoted(_maker(node.id))} -> {quoted(node.id)}" + attributes(id=f"{name}-made", weight=10)


def _edge(i: int, edge: Edge, graph: Graph, options: Options) -> str:
    theme = THEMES[options.theme]
    if edge.skips and options.skips:
        return attributes(id=f"e{i}", class_="skip", color=theme(ORANGE), penwidth=4.0, weight=100, label="skip",
                          fontname="Helvetica", fontsize=10.0, fontcolor=theme(ORANGE))  # fmt: skip
    return attributes(id=f"e{i}", color=theme(GREY) if graph[edge.source].kind == "constant" else None)


def _fields(node: Node, column: bool, shown: bool) -> list[str]:
    """What stands in the box of a value: its name, its number, and its gradient unless it takes none."""
    data = four(node.value)
    if node.kind == "constant":
        return [node.label]
    name = [node.name or node.label] if node.name or node.kind != "op" else []
    grad = [f"grad {four(node.grad) if shown else UNSET}"] if column and node.trained and not node.failed else []
    return [*name, "failed" if node.failed else f"data {data}", *grad]


def four(numbers: Numbers | None) -> str:
    """A number with four places, as 6.0000; with its first digits where these would hide or invent some; a dash for None."""
    x = numbers.item if numbers is not None else None
    if x is None:
        return UNSET
    plain = x == 0 or 1e-3 <= abs(x) < 100  # six digits are known of it
    return (f"{x + 0.0:.4f}" if plain else f"{x:.6g}").replace("-", "−")


def _record(fields: list[str], turned: bool) -> Quoted:
    """A record label with the fields side by side, each shown letter by letter. In a turned graph, braces turn it back."""
    text = "|".join(quoted(field.replace("&", "&amp;"))[1:-1].translate(RECORD) for field in fields)
    return Quoted(f'"{{{text}}}"' if turned else f'"{text}"')
