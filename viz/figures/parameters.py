"""F9: where the parameters of a GPT-2 live, by formula (S26).

The saved page computes the same formulas in its own script, parameters.js, so that its sliders are free; the tests hold both
against real models.
"""

from __future__ import annotations

import math

from .figure import Figure, figure, slider
from .paint import WIDTH, rect, svg, text

PARTS = {
    "tokens": ("token table", "V d"),
    "positions": ("position table", "T d"),
    "attention": ("attention", "N (4 d² + 4 d)"),
    "ffn": ("feed-forward", "N (8 d² + 5 d)"),
    "norms": ("norms", "N 4 d + 2 d"),
}
BAR, TOP, ROW = WIDTH - 24, 74, 50


def count(layers: int, width: int, vocabulary: int, context: int) -> dict[str, int]:
    """The parameters of each part. The number of heads is in none of the formulas."""
    n, d = layers, width
    return {"tokens": vocabulary * d, "positions": context * d, "attention": n * (4 * d * d + 4 * d),
            "ffn": n * (8 * d * d + 5 * d), "norms": n * 4 * d + 2 * d}  # fmt: skip


@figure("F9", "Where the parameters live", [
    slider("layers", "Layers N", (1, 2, 4, 6, 8, 12, 16, 24, 36, 48, 64, 96), 12),
    slider("width", "Width d", (64, 128, 256, 384, 512, 768, 1024, 1280, 1600, 2048, 3072, 4096), 768),
    slider("heads", "Heads", (1, 2, 4, 8, 12, 16, 20, 25, 32, 64), 12),
    slider("vocabulary", "Vocabulary V", (64, 256, 1000, 5000, 10000, 32000, 50257, 100000, 128256, 256000), 50257),
    slider("context", "Context T", (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384), 1024),
], page="parameters.js")  # fmt: skip
def parameters(layers: int = 12, width: int = 768, heads: int = 12, vocabulary: int = 50257, context: int = 1024) -> Figure:
    """The parameters of each part of a decoder with biases, LayerNorms, and a head tied to the token table."""
    parts = count(layers, width, vocabulary, context)
    total = sum(parts.values())
    blocks = total - parts["tokens"] - parts["positions"] - 2 * width
    data = {"parts": parts, "total": total, "blocks": blocks, "block": blocks // layers, "12 N d²": 12 * layers * width * width}
    inside, outside = f"{percent(blocks, total)} %", f"{percent(total - blocks, total)} %"
    split = (
        f"{heads:,} heads of {width // heads:,}: any other number of heads gives the same count."
        if width % heads == 0
        else f"{heads:,} heads do not divide {width:,}, so no such model can be built; heads are in no formula."
    )
    words = (
        f"{total:,} parameters: {blocks:,} ({inside}) in {layers:,} block{'s' * (layers > 1)} of {data['block']:,}, and "
        f"{total - blocks:,} ({outside}) outside. {split}"
    )
    return Figure(data, _drawing(data), words)


def percent(part: int, total: int) -> str:
    """The share with one digit; a half goes up, as in the page's script."""
    return f"{math.floor(1000 * part / total + 0.5) / 10:.1f}"


def _drawing(data: dict) -> str:
    total, right = data["total"], WIDTH - 12
    told = text(right, 30, f"{total:,}", anchor="end", size=22, bold=True)
    marks = [_group("total", text(12, 30, "all parameters", "soft"), told)]
    for i, (name, (label, formula)) in enumerate(PARTS.items()):
        y, part, kind = TOP + ROW * i, data["parts"][name], "stream" if name in ("tokens", "positions") else "branch"
        number = text(right - 68, y, f"{part:,}", anchor="end") + text(right, y, f"{percent(part, total)} %", anchor="end")
        whole, bar = rect(12, y + 8, BAR, 12, "faint", radius=3), rect(12, y + 8, BAR * part / total, 12, kind, radius=3)
        marks.append(_group(name, text(12, y, label), text(150, y, formula, "soft"), number, whole, bar))
    below = {"block": "one block", "blocks": "all blocks", "12 N d²": "12 N d², the rule of thumb"}
    for i, (name, label) in enumerate(below.items()):
        y = TOP + ROW * len(PARTS) + 6 + 25 * i
        marks.append(_group(name, text(12, y, label, "soft"), text(right, y, f"{data[name]:,}", anchor="end")))
    return svg(WIDTH, y + 12, marks)


def _group(name: str, *marks: str) -> str:
    """Marks that the page's script finds again."""
    return f'<g data-part="{name}">{"".join(marks)}</g>'
