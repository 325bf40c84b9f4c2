"""Marks of a drawing, each one line of SVG. Colours are classes of figure.css, so that one drawing serves light and dark.

Units are those of the view box; a drawing is at most 460 wide and its words are at least 14 high, so that they are read on a
phone. The classes: ink (words), soft (quieter words), line, stream (the residual path, orange), branch (blue), grad (violet),
good, warm, cool, panel (a box), faint (a box that is not reached yet). An arrow's head is a shape of its own: no ids, which are
global in a page.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable

WIDTH = 460


def svg(width: float, height: float, marks: Iterable[str], title: str = "") -> str:
    """The marks as one `<svg>`, a line each."""
    name = f'role="img" aria-label="{html.escape(title)}"' if title else 'aria-hidden="true"'
    start = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_(width)} {_(height)}" {name}>'
    return "\n".join([start, *marks, "</svg>"])


def text(x: float, y: float, words: str, kind: str = "ink", *, anchor: str = "start", size: float = 15, bold: bool = False,
         step: int | None = None) -> str:  # fmt: skip
    """Words whose baseline is at y; `W_O` has O as its index. anchor: start, middle or end. step: a click goes to that step."""
    weight = ' font-weight="700"' if bold else ""
    return (f'<text class="{kind}" x="{_(x)}" y="{_(y)}" text-anchor="{anchor}" font-size="{_(size)}"{weight}{_step(step)}>'
            f"{_indexed(html.escape(words), size)}</text>")  # fmt: skip


def rect(x: float, y: float, width: float, height: float, kind: str = "panel", *, radius: float = 6, opacity: float = 1,
         step: int | None = None) -> str:  # fmt: skip
    """A box."""
    faded = f' opacity="{_(opacity)}"' if opacity != 1 else ""
    return (f'<rect class="{kind}" x="{_(x)}" y="{_(y)}" width="{_(max(width, 0))}" height="{_(max(height, 0))}" '
            f'rx="{_(radius)}"{faded}{_step(step)}/>')  # fmt: skip


def circle(x: float, y: float, radius: float, kind: str = "panel", *, step: int | None = None) -> str:
    return f'<circle class="{kind}" cx="{_(x)}" cy="{_(y)}" r="{_(radius)}"{_step(step)}/>'


def line(points: Iterable[tuple[float, float]], kind: str = "line", *, width: float = 1.5, dashed: bool = False) -> str:
    """A line through the points."""
    where = " ".join(f"{_(x)},{_(y)}" for x, y in points)
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<polyline class="{kind}" points="{where}" stroke-width="{_(width)}" fill="none"{dash}/>'


def arrow(points: Iterable[tuple[float, float]], kind: str = "line", *, width: float = 1.5, dashed: bool = False) -> str:
    """A line through the points, with a head at the last."""
    *before, start, end = points
    length = math.dist(start, end) or 1.0
    ux, uy = (end[0] - start[0]) / length, (end[1] - start[1]) / length
    head = min(4 + 2 * width, length)
    back = (end[0] - head * ux, end[1] - head * uy)
    half = 0.55 * head
    corners = [end, (back[0] - half * uy, back[1] + half * ux), (back[0] + half * uy, back[1] - half * ux)]
    where = " ".join(f"{_(x)},{_(y)}" for x, y in corners)
    return line([*before, start, back], kind, width=width, dashed=dashed) + f'<polygon class="{kind} head" points="{where}"/>'


def path(d: str, kind: str = "line", *, width: float = 1.5) -> str:
    """A curve, by SVG's own path commands."""
    return f'<path class="{kind}" d="{d}" stroke-width="{_(width)}" fill="none"/>'


def number(x: float, digits: int = 4) -> str:
    """x with that many digits after the point, a true minus sign, and no minus before zero."""
    shown = f"{x:.{digits}f}"
    return (shown.lstrip("-") if not float(shown) else shown).replace("-", "−")


def vector(values: Iterable[float], digits: int = 4) -> str:
    """As (1.2483, 0.5035)."""
    return f"({', '.join(number(float(v), digits) for v in values)})"


def _(x: float) -> str:
    return f"{x:.2f}".rstrip("0").rstrip(".")


def _indexed(words: str, size: float) -> str:
    """What follows a low line, one letter or number, set low and small."""
    lower = lambda m: f'<tspan dy="4" font-size="{_(0.75 * size)}">{m[1]}</tspan><tspan dy="-4">&#8203;</tspan>'
    return re.sub(r"_([A-Za-z]|\d+)", lower, words)


def _step(step: int | None) -> str:
    return "" if step is None else f' data-step="{step}"'
