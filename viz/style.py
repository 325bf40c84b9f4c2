"""What a picture looks like: one shape, one line and one colour for each kind of thing, and the options of a drawing.

Nothing is told by colour alone. The colours are those of Okabe and Ito (2008), which colour-blind readers can tell apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from .graph import Graph, Node

VIEWS = ("ops", "modules", "blocks", "scalars")
VALUES = ("none", "stats", "preview", "full")
GRADS = ("auto", "none", "labels", "edges")
DIRECTIONS = {"down": "TB", "up": "BT", "right": "LR", "left": "RL"}

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "swiglu", "sigmoid", "tanh", "softmax", "log_softmax", "clamp")
NORMS = ("layer_norm", "rms_norm")


@dataclass(frozen=True)
class Options:
    """How a graph is drawn; `viz.draw` says what each of them does."""

    values: str = "none"
    grads: str = "auto"
    skips: bool = True
    shapes: bool = True
    direction: str = "down"
    theme: str = "light"
    legend: bool = True
    title: str = ""

    def __post_init__(self) -> None:
        for name, allowed in (("values", VALUES), ("grads", GRADS), ("direction", tuple(DIRECTIONS)), ("theme", tuple(THEMES))):
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name}={getattr(self, name)!r} is none of {', '.join(allowed)}")


@dataclass(frozen=True)
class Look:
    """One kind of thing: Graphviz's shape, and the colours of its line, its inside and its words."""

    word: str  # what the legend calls it
    shape: str
    line: str
    fill: str
    text: str = "#1A1A1A"
    width: float = 1.0  # of the line, in points
    size: float = 11.0  # of the words, in points
    style: str = "filled"


ORANGE, BLUE, GREY = "#D55E00", "#0072B2", "#999999"

LOOKS = {
    "input": Look("input", "ellipse", "#0072B2", "#CCE5F6"),
    "output": Look("output", "ellipse", "#0072B2", "#CCE5F6", width=2),
    "parameter": Look("parameter", "cylinder", "#E69F00", "#F6E5CC", size=10),
    "constant": Look("constant", "plaintext", "#999999", "none", text="#6B6B6B", size=9, style=""),
    "op": Look("op", "box", "#555555", "#FFFFFF", style="rounded,filled"),
    "activation": Look("activation", "hexagon", "#CC79A7", "#F7E4EE"),
    "norm": Look("norm", "house", "#56B4E9", "#DDF0FB"),
    "sum": Look("residual sum", "circle", ORANGE, "#FFFFFF", text=ORANGE, width=3, size=14),
    "loss": Look("loss", "doubleoctagon", "#000000", "#FFF7CC"),
    "module": Look("module, collapsed", "tab", "#555555", "#F2F2F2"),
    "fold": Look("equal modules, folded", "box3d", "#555555", "#F2F2F2"),
    "failed": Look("failed", "box", "#000000", "#FFFFFF", width=3, style="dashed,filled"),
}

TINTS = {  # a word in the name of a module's class -> the background of its cluster
    "attention": "#EAF3FA", "feedforward": "#EAF6F1", "mlp": "#EAF6F1", "embedding": "#FDF6E7", "position": "#FDF6E7",
    "norm": "#F0F8FD", "block": "#F7F7F7",
}  # fmt: skip


@dataclass(frozen=True)
class Theme:
    """The colours of the page, and what becomes of each colour of a look."""

    page: str
    words: str
    cluster: str  # line around a module
    tinted: bool
    swap: dict[str, str]

    def __call__(self, colour: str) -> str:
        return self.swap.get(colour, colour)


DARK = {
    "#1A1A1A": "#EDEDED", "#FFFFFF": "#22262B", "#CCE5F6": "#12395A", "#F6E5CC": "#4A3510", "#F7E4EE": "#4A2439",
    "#DDF0FB": "#143B52", "#FFF7CC": "#4A4314", "#F2F2F2": "#30353B",
    "#000000": "#FFFFFF", "#555555": "#9AA3AD", "#999999": "#8A929B",
    "#6B6B6B": "#A9B1BA", ORANGE: "#FF8533", BLUE: "#5CB3E8", "#EAF3FA": "#1A242E", "#EAF6F1": "#18261F", "#FDF6E7": "#2A2517",
    "#F0F8FD": "#1B252C",
    "#F7F7F7": "#1C1F23",
}  # fmt: skip
PRINT = {look.fill: "#FFFFFF" for look in LOOKS.values() if look.fill != "none"} | {
    look.line: "#000000" for look in LOOKS.values()
} | {ORANGE: "#000000", BLUE: "#000000", "#6B6B6B": "#333333", "#1A1A1A": "#000000"}  # fmt: skip

THEMES = {
    "light": Theme("#FFFFFF", "#1A1A1A", "#B8B8B8", True, {}),
    "dark": Theme("#16181B", "#EDEDED", "#4C535B", True, DARK),
    "print": Theme("#FFFFFF", "#000000", "#000000", False, PRINT),
}


def role(node: Node, sums: frozenset[str]) -> str:
    """Which look a node has. `sums` holds the ids of the nodes that end a skip."""
    if node.failed:
        return "failed"
    if node.loss and node.kind == "op":
        return "loss"
    if node.kind != "op":
        return node.kind
    if node.id in sums:
        return "sum"
    return "activation" if node.op in ACTIVATIONS else "norm" if node.op in NORMS else "op"


def sums(graph: Graph) -> frozenset[str]:
    """The additions where a skip meets what its branches wrote: several of them in (x + f(x)) + g(x)."""
    ends = {skip.target for skip in graph.skips}
    on_the_way = {edge.target for edge in graph.edges if edge.skips and graph[edge.target].op == "add"}
    return frozenset(id_ for id_ in ends | on_the_way if graph[id_].kind == "op")


def tint(kind: str, theme: Theme) -> str | None:
    """The background of a module, by a word in the name of its class; None for any other class."""
    name = kind.partition(",")[0].lower()  # of "Decoder, as it is" the class
    found = next((colour for word, colour in TINTS.items() if word in name), None)
    return theme(found) if found is not None and theme.tinted else None


def number(x: float | None) -> str:
    """As `%.4g`, with a true minus sign; a dash for what is not there."""
    if x is None:
        return "–"
    return f"{x + 0.0:.4g}".replace("-", "−")


def count(n: int) -> str:
    """As 1,234,567."""
    return f"{n:,}"
