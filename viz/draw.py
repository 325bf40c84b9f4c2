"""`draw`: from a tensor or a model to a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from . import layout
from .collapse import view as in_view
from .dot import to_dot
from .graph import Graph
from .scalars import scalars_dot
from .style import VIEWS, Options
from .svg import finish
from .trace import trace

PAGE = 200  # nodes up to which a page holds a further level beside the one that was asked for
_figures = count(1)
SUFFIXES = (".svg", ".html", ".png", ".pdf", ".dot", ".json")


def draw(what: Any, *, inputs: Any = None, view: str = "ops", depth: int | None = None, collapse: Sequence[str] = (),
         fold: Any = "auto", fused: bool = True, values: str = "none", grads: str = "auto", skips: bool = True,
         shapes: bool = True, params: bool = True, direction: str | None = None, theme: str = "light", legend: bool = True,
         title: str = "", desc: str = "", max_nodes: int | None = 2000, names: Mapping[str, Any] | None = None) -> Drawing:
    """Draw the computation behind `what`, with every residual path as a thick straight line.

        viz.draw(loss)                                        # a notebook shows it
        viz.draw(model, inputs=ids, view="modules").save("model.svg")

    what, inputs, names: as for `trace`: a Tensor, a Module with inputs=, a Tape of `record()`, a Graph.
    view: "ops" every op inside its modules; "modules" each innermost module a box; "blocks" each part of the model a box;
        "scalars" the picture of micrograd, for expressions of single numbers.
    depth: modules deeper than this are boxes. collapse: so are those whose paths match, as "blocks.*.attn".
    fold: repeated blocks as one box: "auto" from three on where the view has boxes, "first" from three on with the first one
        left open, a number from that many on, "off" never.
    fused: False opens each fused op into the small ops that it stands for.
    values: "none", "stats" (mean, deviation, norm), "preview" (the first elements), "full" (as many as fit; .json has all).
    grads: "auto" (parameters that have one are bold; norms beside values), "labels" (norms always; before backward() a dash),
        "edges" (the backward view: arrows turned, width by the logarithm of the norm; computed if need be), "none".
    skips, shapes, params, legend: what the picture shows. direction: "down", "up", "right", "left"; "down" unless the view is
        "scalars". theme: "light", "dark", "print". title, desc: the caption, and the words that a screen reader says.
    max_nodes: above it the picture is folded, then collapsed, and says so; None: no limit.

    Nothing is laid out before the picture is asked for. ValueError, with what is allowed, for a wrong option.
    """
    if not isinstance(title, str):
        raise TypeError(f"title is text, not {type(title).__name__}")
    if view not in VIEWS:
        raise ValueError(f"view={view!r} is none of {', '.join(VIEWS)}")
    direction = direction or ("right" if view == "scalars" else "down")
    options = Options(values, grads, skips, shapes, direction, theme, legend, title)
    numbers = True if values != "none" or grads in ("labels", "edges") or view == "scalars" else None
    if isinstance(what, Graph):
        full = what
    else:
        full = trace(what, inputs=inputs, names=names, fused=fused, numbers=numbers, full=values == "full", title=title)
    shown = full if view == "scalars" else in_view(full, view, depth, collapse, fold, max_nodes)
    return Drawing(full, shown if params else _without_parameters(shown), view, options, desc)


def _without_parameters(graph: Graph) -> Graph:
    gone = {node.id for node in graph.nodes if node.kind == "parameter"}
    return graph.replace(
        nodes=tuple(node for node in graph.nodes if node.id not in gone),
        edges=tuple(edge for edge in graph.edges if edge.source not in gone),
    )


class Drawing:
    """A picture, laid out when it is first looked at. `graph` is what it shows, `full` the graph with every op."""

    def __init__(self, full: Graph, graph: Graph, view: str, options: Options, desc: str = ""):
        self.full, self.graph, self.view, self.options, self.desc = full, graph, view, options, desc
        self._svg: dict[str, str] = {}
        self._failed = ""  # why the last layout failed

    @property
    def dot(self) -> str:
        """The picture in DOT, Graphviz's language."""
        return scalars_dot(self.graph, self.options) if self.view == "scalars" else to_dot(self.graph, self.options)

    def svg(self, prefix: str = "g") -> str:
        """The picture as SVG, its ids starting with `prefix`: one page may hold several. EngineNotFound without Graphviz."""
        if prefix not in self._svg:
            drawn = layout.run(self.dot, "svg").decode("utf-8")
            self._svg[prefix] = finish(drawn, self.graph, prefix, self.options.title, self.desc)
        return self._svg[prefix]

    def html(self) -> str:
        """One page that needs no other file: the picture at several depths, and a stepper through forward and backward."""
        from . import html

        theme = "dark" if self.options.theme == "dark" else "auto"
        light = replace(self.options, theme="light")  # the page itself turns the colours of its pictures
        levels = [html.Level(self.view, self.graph, self._in(self.graph, light, "level0"))]
        for view in ("ops", "modules", "blocks") if self.view != "scalars" else ():
            graph = in_view(self.full, view, fold="auto")
            if len(graph.nodes) <= PAGE and all(graph != level.graph for level in levels):
                with suppress(layout.EngineError):  # a page without this level is better than none
                    levels.append(html.Level(view, graph, self._in(graph, light, f"level{len(levels)}")))
        return html.page(levels, self.full, self.options.title or self.full.title, self.desc, theme)

    def _in(self, graph: Graph, options: Options, prefix: str) -> str:
        return Drawing(self.full, graph, self.view, options, self.desc).svg(prefix)

    def json(self) -> str:
        """The graph that is shown, as versioned JSON; `viz.Graph.from_json` reads it."""
        return self.graph.to_json()

    def save(self, path: str | Path) -> Path:
        """Write the picture; the suffix chooses the format: .svg .html .png .pdf .dot .json. Returns the path."""
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix not in SUFFIXES:
            raise ValueError(f"{path.name}: a picture is saved as {' '.join(SUFFIXES)}; choose one of these endings")
        if not path.parent.is_dir():
            raise ValueError(f"{path}: there is no folder {path.parent}; make it first")
        made = self._bytes(suffix)  # made whole before the file is touched
        path.write_bytes(made)
        return path

    def _bytes(self, suffix: str) -> bytes:
        if suffix in (".png", ".pdf"):
            return layout.run(self.dot.replace("↷", "skips inside: "), suffix[1:])  # the fonts of these have no such arrow
        texts = {".svg": self.svg, ".html": self.html, ".json": self.json, ".dot": lambda: self.dot}
        return texts[suffix]().encode("utf-8")

    def _repr_svg_(self) -> str | None:
        """What Jupyter, marimo and VS Code show; where it cannot be laid out they show the words of `repr`."""
        try:
            return self.svg(f"g{next(_figures)}")  # two figures in one notebook share no id
        except layout.EngineError as error:
            self._failed = str(error)
            return None

    def __repr__(self) -> str:
        try:
            layout.engine()
        except layout.EngineError as error:
            self._failed = str(error)
        if self._failed:
            return f"<Drawing of {self.graph!r}; not shown: {self._failed}>"
        return f"<Drawing of {self.graph!r}; .save('picture.svg') writes it>"
