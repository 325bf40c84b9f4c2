"""F7: a query and a key turned by their positions; moved together, they keep their dot product (S23)."""

from __future__ import annotations

import math

import numpy as np

from tinygrad_tf import Tensor, fused

from .figure import Control, Figure, figure, slider, steps
from .paint import WIDTH, arrow, circle, line, number, svg, text, vector

EXAMPLES = {  # degrees a position, query, key
    "30°, q = (1, 0), k = (2, 1)": (30.0, (1.0, 0.0), (2.0, 1.0)),
    "4°, q = k = (1, 0)": (4.0, (1.0, 0.0), (1.0, 0.0)),
}
PLACES = (0, 1, 2, 3, 4, 6, 8, 12)
REACH = 12  # the gaps that the curve shows, either way


@figure("F7", "Turned by position: only the gap counts", [
    Control("example", "A position turns by", tuple(EXAMPLES), next(iter(EXAMPLES))),
    slider("query", "Query stands at", PLACES, 1),
    slider("key", "Key stands at", PLACES, 0),
    steps(13, "Both moved on by"),
])  # fmt: skip
def rotary_arrows(example: str = next(iter(EXAMPLES)), query: int = 1, key: int = 0, step: int = 0) -> Figure:
    """Query and key, each turned by its position times one angle, and their dot product; the same product over all gaps.

    query, key: where they stand. step: how many positions both are moved on.
    """
    degrees, q, k = EXAMPLES[example]
    m, n = query + step, key + step
    turned_q, turned_k = turned(q, m, degrees), turned(k, n, degrees)
    score = float(turned_q @ turned_k)
    gaps = list(range(-REACH, REACH + 1))
    by_gap = [float(turned(q, gap, degrees) @ turned(k, 0, degrees)) for gap in gaps]
    data = {
        "query": turned_q.tolist(), "key": turned_k.tolist(), "positions": [m, n], "gap": m - n,
        "turned by": [m * degrees, n * degrees], "angle between": _between(turned_q, turned_k),
        "score": score, "unturned score": float(np.dot(q, k)), "score by gap": by_gap,
    }  # fmt: skip
    words = (
        f"The query at position {m} is turned by {m * degrees:.0f}°, the key at {n} by {n * degrees:.0f}°. "
        f"The gap is {_signed(m - n)} and q·k is {number(score, 3)}"
        + (f", as it was before both moved on by {step}." if step else ". Press play: both move on.")
    )
    return Figure(data, _drawing(data, q, k, degrees), words)


def turned(x: tuple[float, float], position: int, degrees: float) -> np.ndarray:
    """The pair x, turned by the engine's rotary op by position · degrees."""
    angle = np.full((1, 1), math.radians(position * degrees))
    return fused.rotary(Tensor(np.array([x])), cos=np.cos(angle), sin=np.sin(angle), interleaved=False).array[0]


def _between(a: np.ndarray, b: np.ndarray) -> float:
    return abs(math.degrees(math.atan2(a[0] * b[1] - a[1] * b[0], a @ b)))


def _signed(gap: int) -> str:
    return str(gap).replace("-", "−")


def _drawing(data: dict, q: tuple[float, float], k: tuple[float, float], degrees: float) -> str:
    ox, oy, unit = 122, 128, 46
    at = lambda v: (ox + unit * v[0], oy - unit * v[1])
    marks = [circle(ox, oy, unit, "faint"), circle(ox, oy, unit * math.hypot(*k), "faint"),
             line([(ox - 112, oy), (ox + 112, oy)], "faint"), line([(ox, oy - 112), (ox, oy + 112)], "faint")]  # fmt: skip
    for start, end in ((q, data["query"]), (k, data["key"])):
        if any(abs(a - b) > 1e-9 for a, b in zip(start, end)):
            marks.append(arrow([(ox, oy), at(start)], "faint", width=2, dashed=True))
    marks += [arrow([(ox, oy), at(data["key"])], "grad", width=4), arrow([(ox, oy), at(data["query"])], "branch", width=4)]
    for name, v, other, kind in (("k", data["key"], data["query"], "grad"), ("q", data["query"], data["key"], "branch")):
        side = 1 if v[0] * other[1] - v[1] * other[0] < 0 or (name == "q" and data["gap"] == 0 and q == k) else -1
        far = math.hypot(*v)  # the label stands beside the tip, on the side away from the other arrow
        x, y = at((v[0] - side * v[1] / far * 0.22 + 0.12 * v[0] / far, v[1] + side * v[0] / far * 0.22 + 0.12 * v[1] / far))
        marks.append(text(x, y + 6, name, kind, anchor="middle", size=18, bold=True))
    (m, n), (by_q, by_k) = data["positions"], data["turned by"]
    marks += [
        text(256, 34, f"query at {m}", "branch", bold=True, size=16), text(256, 54, f"{m} × {degrees:.0f}° = {by_q:.0f}°"),
        text(256, 74, vector(data["query"], 3)),
        text(256, 108, f"key at {n}", "grad", bold=True, size=16), text(256, 128, f"{n} × {degrees:.0f}° = {by_k:.0f}°"),
        text(256, 148, vector(data["key"], 3)),
        text(256, 182, f"gap {_signed(data['gap'])},  {data['angle between']:.1f}° apart"),
        text(256, 212, f"q·k = {number(data['score'], 3)}", "good", bold=True, size=22),
    ]  # fmt: skip
    return svg(WIDTH, 388, marks + _curve(data))


def _curve(data: dict) -> list[str]:
    """q·k for every gap, with the present one marked."""
    gaps, values = range(-REACH, REACH + 1), data["score by gap"]
    top, bottom, high = 272, 352, max(abs(v) for v in values)
    across = lambda gap: 40 + 380 * (gap + REACH) / (2 * REACH)
    up = lambda v: (top + bottom) / 2 - v / high * (bottom - top) / 2
    marks = [text(8, 258, "q·k for every gap (query's position minus key's)", "soft"),
             line([(30, up(0)), (430, up(0))], "faint"),
             line([(across(g), up(v)) for g, v in zip(gaps, values)], "faint")]  # fmt: skip
    marks += [circle(across(g), up(v), 3, "line") for g, v in zip(gaps, values)]
    marks += [text(across(g), 378, _signed(g), "soft", anchor="middle", size=14) for g in (-12, -6, 0, 6, 12)]
    here = across(data["gap"])
    return [*marks, line([(here, top - 4), (here, bottom + 6)], "good"), circle(here, up(data["score"]), 6, "good")]
