"""An SVG that a page can hold: parts named per figure, described for who cannot see it, as wide as its container."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from .graph import Graph, Node

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
PART = re.compile(r"^(n|e|m)(\d+)$")


def finish(svg: str, graph: Graph, prefix: str = "g", title: str = "", desc: str = "") -> str:
    """Graphviz's SVG with ids `<prefix>-n0` for nodes, `-e0` for edges, `-m0` for clusters, each with its place in the graph.

    Nodes carry data-id, edges data-source, data-target and data-slot, clusters data-module. `title` and `desc` are read out by
    screen readers; by default they tell what there is, skips first.
    """
    ET.register_namespace("", SVG)
    ET.register_namespace("xlink", XLINK)
    root = ET.fromstring(svg)
    size = [float(x) for x in root.attrib["viewBox"].split()[2:]]
    root.attrib.pop("width", None), root.attrib.pop("height", None)
    root.attrib |= {
        "role": "img", "aria-labelledby": f"{prefix}-title {prefix}-desc", "width": f"{size[0]:.0f}",
        "height": f"{size[1]:.0f}", "style": "max-width: 100%; height: auto", "class": "viz-graph",
    }  # fmt: skip
    for part in root.iter(f"{{{SVG}}}g"):
        told = part.find(f"{{{SVG}}}title")
        words = _name(part, graph, prefix)
        if told is not None and words:
            told.text = words  # what a browser shows under the pointer
        elif told is not None:
            part.remove(told)
    for tag, text in (("desc", desc or description(graph)), ("title", title or graph.title or repr(graph).strip("<>"))):
        element = ET.Element(f"{{{SVG}}}{tag}", {"id": f"{prefix}-{tag}"})
        element.text = _printable(text)
        root.insert(0, element)
    return ET.tostring(root, encoding="unicode") + "\n"


def _name(part: ET.Element, graph: Graph, prefix: str) -> str:
    """Give one group its id and its place in the graph; return the words for it."""
    found = PART.match(part.attrib.get("id", ""))
    part.attrib["id"] = f"{prefix}-{part.attrib.get('id', 'part')}"
    if found is None:
        return ""
    kind, i = found[1], int(found[2])
    if kind == "n":
        node = graph.nodes[i]
        part.attrib["data-id"] = node.id
        return _printable(_words(node))
    if kind == "m":
        part.attrib["data-module"] = graph.modules[i].id
        return _printable(f"{graph.modules[i].path or graph.modules[i].kind}: {graph.modules[i].kind}")
    edge = graph.edges[i]
    part.attrib |= {"data-source": edge.source, "data-target": edge.target, "data-slot": str(edge.slot)}
    return _printable(f"{'skip: ' if edge.skips else ''}{graph[edge.source].label} → {graph[edge.target].label}")


def _words(node: Node) -> str:
    shape = f" {tuple(node.shape)}" if node.shape is not None else ""
    return f"{node.id}: {node.label}{shape}" + (f", made at {node.line}" if node.line else "")


def description(graph: Graph) -> str:
    """What the picture shows, in words: the skips, then the nodes in the order of computing."""
    parts = [f"{len(graph.nodes)} nodes, {graph.skip_count} skips."]
    parts += [f"Skip from {graph[skip.source].id} to {graph[skip.target].id}." for skip in graph.skips]
    parts += [f"{node.id} holds {node.badge} skips." for node in graph.nodes if node.badge]
    parts += list(graph.notes)
    sources = {node.id: [edge.source for edge in graph.incoming[node.id]] for node in graph.nodes}
    parts += [_words(node) + (f", from {', '.join(sources[node.id])}." if sources[node.id] else ".") for node in graph.nodes]
    return " ".join(parts)


def _printable(text: str) -> str:
    """Without the characters that XML has no way to write."""
    return "".join(c if c.isprintable() or c in "\n\t" else "�" for c in text)
