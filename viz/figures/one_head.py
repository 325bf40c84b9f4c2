"""Two small figures for a single head: its one weight; its table of weights under a scale, a norm and a mask (S7, S11, S12)."""

from __future__ import annotations

import numpy as np

from tinygrad_tf import Tensor
from tinygrad_tf.nn import functional as F

from .figure import Control, Figure, Interactive, slider, switch
from .paint import WIDTH, circle, line, number, rect, svg, text, vector

VALUES = np.array([[2.0, 0.0], [0.0, 1.0]])  # (2, 2): what the two positions give
WANTED = np.array([1.5, 0.75])
TOKENS = np.array([[2.0, 0.5], [0.5, 1.5], [1.0, -1.0], [-1.0, 0.5]])  # (4, 2); no two keys fit a query equally well
MASKS = {
    "none": np.ones((4, 4), bool),
    "causal": np.tri(4, dtype=bool),
    "position 4 is padding": np.tile(np.arange(4) < 3, (4, 1)),
    "position 1 may look nowhere": np.tile(np.arange(4) > 0, (4, 1)).T,
}


def _one_weight(gap: float = 1.0) -> Figure:
    """The weights and the read of one head with the Values (2, 0) and (0, 1), for scores `gap` and 0."""
    weights = Tensor(np.array([gap, 0.0])).softmax(dim=-1)
    read = weights @ VALUES
    first, second = read.tolist()
    data = {"weights": weights.tolist(), "read": [first, second], "distance": float(np.hypot(*(WANTED - read.array)))}
    words = (
        f"Scores {number(gap, 2)} and 0 become the weights {number(data['weights'][0])} and "
        f"{number(data['weights'][1])}: the read is "
        f"{vector(data['read'])}, {number(data['distance'], 3)} away from the ring at (3/2, 3/4)."
    )
    return Figure(data, _segment(data), words)


def _segment(data: dict) -> str:
    at = lambda p: (90 + 145 * p[0], 278 - 145 * p[1])
    first, second = data["weights"]
    read, wanted = at(data["read"]), at(WANTED)
    return svg(
        WIDTH,
        318,
        [
            rect(90 + 290 * first, 22, 290 * second, 24, "panel", radius=0),
            rect(90, 22, 290 * first, 24, "branch", radius=0),
            text(80, 39, "weights", "soft", anchor="end", size=17),
            text(96, 40, number(first, 2), "page", size=17) if first > 0.15 else "",
            text(374, 40, number(second, 2), "ink", anchor="end", size=17) if second > 0.15 else "",
            line([at((0, 0)), at((2.25, 0))]),
            line([at((0, 0)), at((0, 1.2))]),
            line([at((2, 0)), at((0, 1))], "branch", width=4),
            line([at((1.5, 1.2)), at((1.5, 0))], "line", width=1, dashed=True),
            line([at((2.25, 0.75)), at((0, 0.75))], "line", width=1, dashed=True),
            circle(*at((2, 0)), 5, "branch"),
            circle(*at((0, 1)), 5, "branch"),
            text(at((2, 0))[0], 302, "Value of position 1", "branch", anchor="middle", size=17),
            text(at((0, 1))[0] + 10, at((0, 1))[1] - 6, "Value of position 2", "branch", size=17),
            circle(*wanted, 10, "clear"),
            f'<circle class="outline" cx="{wanted[0]:.1f}" cy="{wanted[1]:.1f}" r="9"/>',
            line([read, wanted], "grad", width=1.5, dashed=True),
            circle(*read, 8, "grad"),
            text(80, 72, "read", "soft", anchor="end", size=17),
            text(90, 72, vector(data["read"], 2), "grad", bold=True, size=17),
            text(at((1.5, 0))[0], at((0, 1.2))[1] - 6, "3/2", "soft", anchor="middle", size=17),
            text(80, at((0, 0.75))[1] + 5, "3/4", "soft", anchor="end", size=17),
        ],
    )


def _who_reads(times: float = 1.0, norm: bool = False, mask: str = "none") -> Figure:
    """The weights (T, T) of one head that asks, answers and offers with its input as it is, `times` as large.

    norm: RMSNorm comes first. Row i says what position i reads.
    """
    x = Tensor(TOKENS * times)
    x = F.rms_norm(x, 2, eps=1e-12) if norm else x
    weights = F.scaled_dot_product_attention(x, x, Tensor(np.eye(4)), attn_mask=MASKS[mask])  # one-hot values give the weights
    data = {"weights": weights.tolist(), "largest": weights.array.max(axis=1).tolist()}
    rows = ", ".join(f"{number(w, 2)}" for w in data["largest"])
    words = f"Inputs times {times:g}{', RMSNorm first' if norm else ''}: the largest weight of each row is {rows}."
    if not MASKS[mask].any(axis=1).all():
        words += " The row that may look nowhere is all zeros, and so is its read."
    return Figure(data, _map(weights.array, MASKS[mask]), words)


def _map(weights: np.ndarray, allowed: np.ndarray) -> str:
    marks = [
        text(44, 176, "who", "soft", anchor="middle", size=17),
        text(44, 194, "asks", "soft", anchor="middle", size=17),
        text(262, 22, "who is read", "soft", anchor="middle", size=17),
    ]
    for i in range(4):
        marks += [
            text(96, 92 + 62 * i, str(i + 1), "ink", anchor="end", bold=True, size=19),
            text(145 + 78 * i, 46, str(i + 1), "ink", anchor="middle", bold=True, size=19),
        ]
        for j in range(4):
            x, y, w = 108 + 78 * j, 56 + 62 * i, float(weights[i, j])
            marks.append(rect(x, y, 74, 58, "panel", radius=2))
            if allowed[i, j]:
                marks += [
                    rect(x, y, 74, 58, "branch", radius=2, opacity=0.75 * w),
                    text(x + 37, y + 36, number(w, 3), anchor="middle", size=20),
                ]
            else:
                marks += [
                    line([(x + 27, y + 19), (x + 47, y + 39)], "faint", width=2),
                    line([(x + 27, y + 39), (x + 47, y + 19)], "faint", width=2),
                ]
    return svg(WIDTH, 312, marks)


one_weight = Interactive(
    "one weight",
    "One head, one weight",
    (slider("gap", "Score of position 1, that of position 2 being 0", [i / 4 for i in range(-16, 17)], 1.0),),
    _one_weight,
)

who_reads = Interactive(
    "who reads",
    "Who reads whom",
    (
        slider("times", "Inputs times", (0.0, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0), 1.0),
        switch("norm", "RMSNorm first"),
        Control("mask", "Mask", tuple(MASKS), "none"),
    ),
    _who_reads,
)
