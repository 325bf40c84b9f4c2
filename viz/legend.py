"""The legend: a column with one sample of each kind of thing that occurs in a picture."""

from __future__ import annotations

from collections.abc import Iterator

from .graph import Graph
from .quoting import attributes, label, quoted
from .style import BLUE, LOOKS, ORANGE, Options, Theme, role, sums


def legend(graph: Graph, options: Options, theme: Theme, rails: bool) -> Iterator[str]:
    """Statements of DOT. `rails`: whether a folded run shows the skip path through it."""
    yield '  subgraph "cluster_legend" {'
    yield "    graph" + attributes(
        id="legend", label=label("legend"), style="rounded", color=theme.cluster, fontsize=10.0, fontcolor=theme.words,
        labeljust="l", margin="8",
    )  # fmt: skip
    above: str | None = None
    for kind, words in kinds(graph, options, rails).items():
        look, id_ = LOOKS[kind], f"legend/{kind}"
        yield f"    {quoted(id_)}" + attributes(
            label=label(*words), shape="ellipse" if kind == "sum" else look.shape, style=look.style or None,
            color=theme(look.line), fillcolor=theme(look.fill), fontcolor=theme(look.text),
            fontsize=9.0, penwidth=look.width, class_="legend",
            height=0.0, margin="0.06,0.03",
        )  # fmt: skip
        yield from below(above, id_)
        above = id_
    for name, line in lines(graph, options, theme, rails).items():
        start, end = f"legend/{name}/from", f"legend/{name}/to"
        for id_ in (start, end):
            yield f"    {quoted(id_)}" + attributes(label="", shape="point", width=0.05, color=line["color"], class_="legend")
        yield from below(above, start)
        yield f"    {quoted(start)} -> {quoted(end)}" + attributes(
            label=label(f"  {name} "), fontsize=9.0, fontcolor=theme.words, class_="legend", **line
        )
        above = end
    yield "  }"


def kinds(graph: Graph, options: Options, rails: bool) -> dict[str, list[str]]:
    """Kind of node -> the words in its sample."""
    ends = sums(graph) if options.skips else frozenset()
    found = {role(node, ends) for node in graph.nodes}
    said = {kind: [look.word] for kind, look in LOOKS.items() if kind in found or (kind == "sum" and rails)}
    if "sum" in said:
        said["sum"] = ["+ residual sum"]
    if any(node.badge and not node.rail for node in graph.nodes):
        said.setdefault("module", [LOOKS["module"].word]).append("↷2: two skips inside")
    if any(node.kind == "parameter" and node.grad is not None for node in graph.nodes) and options.grads != "none":
        said["parameter"].append("bold: has a gradient")
    return said


def lines(graph: Graph, options: Options, theme: Theme, rails: bool) -> dict[str, dict]:
    """Words -> the look of a line."""
    drawn = {skip.kind for skip in graph.skips} | ({"identity"} if rails else set()) if options.skips else set()
    said: dict[str, dict] = {}
    backward = options.grads == "edges" and any(edge.grad is not None for edge in graph.edges)
    skip = {"color": theme(ORANGE), "penwidth": 4.0, **({"dir": "back"} if backward else {})}
    if "identity" in drawn:
        said["skip"] = skip
    if drawn & {"scaled", "projected"}:
        said["skip, scaled or projected"] = {**skip, "style": "dashed"}
    if backward:
        said["gradient, by its norm"] = {"color": theme(BLUE), "penwidth": 3.0, "dir": "back"}
    return said


def below(above: str | None, id: str) -> Iterator[str]:
    if above is not None:
        yield f"    {quoted(above)} -> {quoted(id)}" + attributes(style="invis")
