"""F6: sinusoidal positions as a heat map, and a shift of positions as one rotation of each pair (S20)."""

from __future__ import annotations

import math

import numpy as np

from tinygrad_tf import Tensor, fused, nn

from .figure import Figure, figure, slider
from .paint import WIDTH, arrow, circle, line, rect, svg, text, vector

WIDTHS = (4, 8, 16, 32, 64, 128)
ROWS = 48  # positions that the map shows
LEVELS = 12  # shades of each sign
LEFT, ACROSS, TOP, DOWN = 50, 400, 44, 288


@figure("F6", "Waves at many speeds", [
    slider("width", "Width d", WIDTHS, 4),
    slider("position", "Position p", (0, 1, 2, 3, 5, 10, 20, 30), 1),
    slider("shift", "Shift k", (0, 1, 2, 3, 5, 10), 3),
])  # fmt: skip
def sinusoidal_map(width: int = 4, position: int = 1, shift: int = 3) -> Figure:
    """The rows of positions 0 … 47, and four of their pairs at p and at p + k, apart by k times the pair's speed.

    width: of the rows; half as many pairs. position, shift: p and k.
    """
    table = nn.SinusoidalPositions(width).map(ROWS)  # (T, d)
    here, there = table[position], table[position + shift]
    speeds = 10000.0 ** (-np.arange(0, width, 2) / width)
    pairs = sorted({round(i) for i in np.linspace(0, width // 2 - 1, min(4, width // 2))})
    data = {
        "row": here.tolist(), "shifted": there.tolist(), "turned": turned(here, speeds * shift).tolist(),
        "pairs": pairs, "angles": np.degrees(speeds * shift)[pairs].tolist(), "speeds": speeds.tolist(),
    }  # fmt: skip
    first, last = data["angles"][0], data["angles"][-1]
    words = (
        f"Width {width}: {width // 2} pairs of sine and cosine. Position {position} begins {vector(here[:4])}. "
        f"{shift} position{'s' * (shift != 1)} later the first pair has turned by {first:.1f}° and the last by {last:.3g}°; "
        f"from any other position it would be the same."
    )
    return Figure(data, _drawing(table, data, position, shift), words)


def turned(row: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Each pair (sine, cosine) turned by its angle, by the engine's rotary op."""
    swapped = row.reshape(-1, 2)[:, ::-1].reshape(1, -1)  # cosine first: the usual plane
    moved = fused.rotary(Tensor(swapped.copy()), cos=np.cos(angles)[None], sin=np.sin(angles)[None], interleaved=True).array
    return moved.reshape(-1, 2)[:, ::-1].reshape(-1)


def _drawing(table: np.ndarray, data: dict, position: int, shift: int) -> str:
    rows, width = table.shape
    marks = [text(LEFT, 18, "the d numbers of a row: fast pairs left, slow right", "soft", size=14),
             text(LEFT, 36, "orange above 0, blue below; the stronger the farther", "soft", size=14)]  # fmt: skip
    tall, wide = DOWN / rows, ACROSS / width
    marks.append(rect(LEFT, TOP, ACROSS, DOWN, "panel", radius=0))
    marks += _heat(table, wide, tall)
    for p in (0, 10, 20, 30, 40):
        marks.append(text(LEFT - 22, TOP + tall * (p + 0.5) + 5, str(p), "soft", anchor="end", size=14))
    for p, kind, name in ((position, "branch", "p"), (position + shift, "stream", "p + k")):
        y = TOP + tall * p
        if p != position or name == "p":
            box = [(LEFT, y), (LEFT + ACROSS, y), (LEFT + ACROSS, y + tall), (LEFT, y + tall), (LEFT, y)]
            marks += [line(box, kind, width=2.5),
                      arrow([(LEFT - 18, y + tall / 2), (LEFT - 2, y + tall / 2)], kind, width=2.5)]  # fmt: skip
    dots = ", …)" if width > 4 else ")"
    for y, p, kind, name in ((360, position, "branch", "p"), (382, position + shift, "stream", "p + k")):
        marks.append(text(4, y, f"{name} = {p}", kind, bold=True))
        marks.append(text(106, y, vector(table[p, :4])[:-1] + dots, kind))
    marks.append(text(4, 412, "each pair is one hand of a clock:", "soft", size=14))
    centres = [WIDTH * (i + 0.5) / len(data["pairs"]) for i in range(len(data["pairs"]))]
    for centre, pair, angle in zip(centres, data["pairs"], data["angles"]):
        here, there = (data[row][2 * pair : 2 * pair + 2] for row in ("row", "shifted"))
        marks += _clock(centre, 472, here, there, shift)
        shown = f"{angle:.0f}°" if angle >= 100 else f"{angle:.3g}°"
        marks += [text(centre, 538, f"pair {pair}", "soft", anchor="middle", size=14),
                  text(centre, 556, f"turns {shown}", anchor="middle", size=15)]  # fmt: skip
    return svg(WIDTH, 566, marks)


def _clock(x: float, y: float, here: list[float], there: list[float], shift: int) -> list[str]:
    at = lambda pair: (x + 38 * pair[1], y - 38 * pair[0])  # cosine across, sine up
    marks = [circle(x, y, 44, "panel"), arrow([(x, y), at(here)], "branch", width=3)]
    return marks + ([arrow([(x, y), at(there)], "stream", width=3)] if shift else [])


def _heat(table: np.ndarray, wide: float, tall: float) -> list[str]:
    """One mark a shade: every cell of that shade, neighbours below each other joined."""
    level = np.rint(table * LEVELS).astype(int)
    runs: dict[int, list[str]] = {}
    for c in range(table.shape[1]):
        start = 0
        for p in range(1, len(table) + 1):
            if p == len(table) or level[p, c] != level[start, c]:
                where = f"M{LEFT + wide * c:.2f} {TOP + tall * start:.0f}h{wide:.2f}v{tall * (p - start):.0f}h-{wide:.2f}z"
                runs.setdefault(int(level[start, c]), []).append(where)
                start = p
    assert math.isclose(tall, round(tall))
    return [
        f'<path class="heat {"warmest" if shade > 0 else "coolest"}" fill-opacity="{abs(shade) / LEVELS:.2f}" '
        f'd="{"".join(cells)}"/>'
        for shade, cells in sorted(runs.items())
        if shade
    ]
