"""One HTML file that opens from disk and asks nothing of any network: the picture at several depths, and a stepper.

The steps go forward through the ops in the order in which they ran, then backward in the reverse order, each with its local
rule and its numbers in words. Names, paths and code that the reader wrote are text everywhere, never markup.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from . import explain
from .graph import Edge, Graph, Node, Numbers
from .quoting import in_utf8
from .style import THEMES, count, number

PAGE_THEMES = ("auto", "light", "dark")


@dataclass(frozen=True)
class Level:
    """One depth of the picture: the name on its button, what it shows, its SVG from `svg.finish` in light colours."""

    name: str
    graph: Graph
    svg: str


def page(levels: list[Level], graph: Graph, title: str, desc: str = "", theme: str = "auto") -> str:
    """The page as text.

    levels: the depths to switch between; the first is shown first. graph: the graph with every op; the steps tell its numbers.
    desc: what is said before the first step. theme: "auto" follows the reader's system. ValueError for no level or a theme that
    is none of auto, light, dark.
    """
    if not levels:
        raise ValueError("a page needs at least one level: give Level(name, graph, svg)")
    if theme not in PAGE_THEMES:
        raise ValueError(f"theme={theme!r} is none of {', '.join(PAGE_THEMES)}")
    title = in_utf8(title or graph.title or "computation graph")
    script = "(() => {\n\"use strict\";\n" + _file("picture.js") + "\n" + _file("page.js") + "})();\n"
    data = in_utf8(_data(levels, graph, title, desc))
    parts = {
        "title": html.escape(title),
        "hash": "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "style": _file("page.css") + _dark(),
        "prefix": "viz-" + hashlib.sha256(data.encode()).hexdigest()[:8],
        "theme": theme,
        "buttons": "".join(_button(i, level.name) for i, level in enumerate(levels)),
        "levels": "".join(_level(i, level) for i, level in enumerate(levels)),
        "last": str(len(json.loads(data)["steps"])),
        "data": data,
        "script": script,
    }
    return in_utf8(re.sub(r"\{\{(\w+)\}\}", lambda m: parts[m[1]], _file("page.html")))


def fragment(levels: list[Level], graph: Graph, title: str, desc: str = "", theme: str = "auto", height: int = 640) -> str:
    """The same figure for a notebook's cell: a frame of its own, so that no style, id or key of one figure touches another's.

    height: pixels. The frame may run its script and nothing else.
    """
    inner = html.escape(page(levels, graph, title, desc, theme))
    return (
        f'<iframe title="{html.escape(in_utf8(title or graph.title or "computation graph"))}" sandbox="allow-scripts" '
        f'style="width: 100%; height: {int(height)}px; border: 1px solid #8886; border-radius: 10px" srcdoc="{inner}"></iframe>'
    )


def _file(name: str) -> str:
    return (files(__package__) / "page" / name).read_text(encoding="utf-8")


def _dark() -> str:
    """The rules that give the light picture the colours of the dark theme."""
    lines = []
    for light, dark in THEMES["dark"].swap.items():
        words = [light, *({"#FFFFFF": ["white"], "#000000": ["black"]}.get(light, []))]
        for kind in ("fill", "stroke"):
            chosen = ", ".join(f'.viz[data-theme="dark"] .viz-level [{kind}="{word}" i]' for word in words)
            lines.append(f"{chosen} {{ {kind}: {dark}; }}")
    ink = THEMES["dark"].words
    return "\n".join([*lines, f'.viz[data-theme="dark"] .viz-level g:not(.viz-mark) > text:not([fill]) {{ fill: {ink}; }}', ""])


def _button(i: int, name: str) -> str:
    key = f"<kbd>{i + 1}</kbd>" if i < 9 else ""
    return f'<button type="button" data-depth="{i}" aria-pressed="{str(i == 0).lower()}">{key}{html.escape(name)}</button>'


def _level(i: int, level: Level) -> str:
    svg = level.svg[level.svg.index("<svg") :]  # without the prologue of a file
    return f'<div class="viz-level"{" hidden" if i else ""}>{svg}</div>'


# ------------------------------------------------------------------------------------------------ what the script reads


def _data(levels: list[Level], graph: Graph, title: str, desc: str) -> str:
    index = {node.id: i for i, node in enumerate(graph.nodes)}
    walk = steps(graph)
    forward = sum(step["phase"] == "forward" for step in walk)
    ahead = f"{count(forward)} step{'s' * (forward != 1)} forward in the order of computing"
    back = "; an op failed, so nothing goes backward" if _failed(graph) else f", then {count(len(walk) - forward)} backward"
    told = [["", desc]] if desc else []
    told.append(["", f"{ahead}{back}. → takes the next step, Space plays, a click on a node shows what it holds."])
    told += [["", note] for note in graph.notes]
    data = {
        "start": {"phase": "start", "title": title, "where": "", "lines": told},
        "nodes": [{"id": node.id, **details(node, graph)} for node in graph.nodes],
        "steps": walk,
        "levels": [
            {
                "inside": {index[id]: shown for id, shown in inside(level.graph, graph).items() if shown != id},
                "nodes": {node.id: details(node, level.graph) for node in level.graph.nodes if node.id not in index},
            }
            for level in levels
        ],
    }
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _failed(graph: Graph) -> bool:
    return any(node.failed for node in graph.nodes)


def steps(graph: Graph) -> list[dict[str, Any]]:
    """The ops by their order, then backward, unless an op failed.

    A leaf with several consumers has a step where its gradient is complete.
    """
    index = {node.id: i for i, node in enumerate(graph.nodes)}
    ops = sorted((node for node in graph.nodes if node.kind == "op"), key=lambda node: node.order)
    made = []
    for node in ops:
        carried = [(edge, graph[edge.source].value) for edge in graph.incoming[node.id]]
        made.append(_step(node, graph, index, "forward", explain.forward(node, graph), carried))
    if _failed(graph):
        return made
    complete: dict[str, list[Node]] = {}  # op -> the leaves whose first consumer, the last in backward, it is
    for node in graph.nodes:
        if node.kind in ("input", "parameter") and node.trained and (consumers := explain.fork(node, graph)):
            first = min(consumers, key=lambda edge: graph[edge.target].order)
            complete.setdefault(first.target, []).append(node)
    for op in reversed(ops):
        for node in [op, *complete.get(op.id, [])]:
            inputs = explain.operands(node, graph) if node.kind == "op" else []
            sent = [edge for _, edge in inputs if graph[edge.source].trained]
            carried = [(edge, edge.grad) for edge in [*sent, *explain.fork(node, graph)]]
            made.append(_step(node, graph, index, "backward", explain.backward(node, graph), carried))
    return made


def _step(node: Node, graph: Graph, index: dict[str, int], phase: str, text: str,
          carried: list[tuple[Edge, Numbers | None]]) -> dict[str, Any]:  # fmt: skip
    """One step: what it says, and the edges it shows, each as [source, target, slot, what it carries, whether it is a skip]."""
    shapes = explain.shape_line(node.op).replace("->", "→").replace("...", "…")
    told, formula = [["shapes", shapes]] if shapes else [], True
    for line in text.split("\n"):
        if re.match(r"(\d+ shares meet|g \+ Jᵀg): ", line):
            told.append(["meet", line])
            continue
        parts = re.match(r"(.*?): (norm .*)", line)  # the words of it, and its numbers
        told.append(["first" if formula else "", *(parts.groups() if parts else [line])])
        formula = False
    edges = [[index[e.source], index[e.target], e.slot, explain.short(x), bool(e.skips)] for e, x in carried]
    return {"node": index[node.id], "phase": phase, "title": _title(node), "where": _where(node, graph), "edges": edges,
            "flag": _flag("y", node.value) if phase == "forward" else _flag("g", node.grad), "lines": told}  # fmt: skip


def _flag(letter: str, numbers: Numbers | None) -> str:
    """The number, or the norm of an array."""
    array = numbers is not None and numbers.item is None
    return f"{f'‖{letter}‖' if array else letter} = {explain.short(numbers)}"


def inside(shown: Graph, graph: Graph) -> dict[str, str]:
    """Node of the full graph -> the node of a collapsed one that is it or holds it; those that are not drawn are left out."""
    holder: dict[str, str] = {}
    for node in shown.nodes:
        if node.kind == "module":
            holder[node.id] = node.id
        for member in node.members:
            holder[member] = node.id
    found = {}
    for node in graph.nodes:
        here = shown.by_id.get(node.id)
        if here is not None and here.kind == node.kind:
            found[node.id] = node.id
            continue
        around = next((holder[m.id] for m in graph.modules_around(node.module) if m.id in holder), None)
        if around is not None:
            found[node.id] = around
    return found


def details(node: Node, graph: Graph) -> dict[str, Any]:
    """What a click on a node shows: {"name": …, "rows": [[term, text], …]}."""
    around = graph.module_by_id.get(node.module)
    shapes = ", ".join(_shape(graph[edge.source].shape) for edge in graph.incoming[node.id])
    rows = [
        ("kind", node.kind if node.kind != "op" else ""),
        ("op", node.op),
        ("shape", (f"{shapes} → " if shapes and node.kind == "op" else "") + _shape(node.shape)),
        ("dtype", node.dtype),
        ("settings", ", ".join(f"{name} = {value}" for name, value in node.settings.items())),
        ("value", "none: it failed" if node.failed else _numbers(node.value) if node.kind not in ("module", "fold") else ""),
        ("gradient", _numbers(node.grad) if node.trained else ""),
        ("kept", f"{count(node.kept)} bytes for backward" if node.kept else ""),
        ("module", f"{around.path} · {around.kind}" if around is not None and around.path else around.kind if around else ""),
        ("parameters", count(node.parameters) if node.parameters else ""),
        ("ops", count(node.ops) if node.kind in ("module", "fold") else ""),
        ("skips inside", count(node.badge) if node.badge else ""),
        ("holds", ", ".join(node.members)),
        ("line", node.line),
    ]
    return {"name": _title(node), "rows": [list(row) for row in rows if row[1]]}


def _title(node: Node) -> str:
    return f"{node.name} = {node.label}" if node.kind == "op" and node.name else node.label


def _where(node: Node, graph: Graph) -> str:
    """The module calls around a node, the outermost first."""
    names = [f"{m.path.rpartition('.')[2]} · {m.kind}" if m.path else m.kind for m in graph.modules_around(node.module)]
    return " › ".join(reversed(names))


def _shape(shape: tuple[int, ...] | None) -> str:
    return "" if shape is None else f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def _numbers(numbers: Numbers | None) -> str:
    if numbers is None:
        return explain.UNSET
    if numbers.item is not None:
        return number(numbers.item)
    shown = ", ".join(number(x) for x in numbers.first[:6]) + (", …" if numbers.size > 6 else "")
    bad = f", {count(numbers.nonfinite)} NaN or inf" if numbers.nonfinite else ""
    return (f"norm {number(numbers.norm)}, mean {number(numbers.mean)} ± {number(numbers.std)}, "
            f"from {number(numbers.min)} to {number(numbers.max)}{bad}: {shown}")  # fmt: skip
