"""F10: from a mixture of values to an update of one position, and why the two are different things (S10)."""

from __future__ import annotations

import math

import numpy as np

from tinygrad_tf import Tensor

from .figure import Control, Figure, figure, switch
from .paint import WIDTH, arrow, circle, line, number, rect, svg, text, vector

NAMES = ("the", "Eiffel", "tower")
WORDS = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])  # (T, 2): structure, Paris identity
SWAP, SAME = np.array([[0.0, 1.0], [1.0, 0.0]]), np.eye(2)
MAPS = {"swapped": SWAP, "as it is": SAME}


@figure("F10", "Follow the mixture into an update", [
    Control("query", "Query of “tower”", tuple(MAPS), "swapped"),
    Control("value", "Values", tuple(MAPS), "as it is"),
    switch("negate", "W_O negates structure"),
])  # fmt: skip
def mixture(query: str = "swapped", value: str = "as it is", negate: bool = False) -> Figure:
    """“tower” reads the, Eiffel and tower: weights, mixture h, update h W_O, result x + h W_O, as pairs (structure, Paris).

    query, value: what the projection does with the two coordinates; "swapped" or "as it is". negate: W_O = diag(−1, 1) rather
    than the identity. Scores are divided by √2; no norm, no bias, no mask.
    """
    x = Tensor(WORDS[2], dtype=np.float64)
    keys = Tensor(WORDS, dtype=np.float64)
    q, values = x @ MAPS[query], keys @ MAPS[value]
    weights = (keys @ q / math.sqrt(2)).softmax(dim=-1)  # (T,)
    h = weights @ values
    update = h @ np.diag([-1.0 if negate else 1.0, 1.0])
    result = x + update
    rows = {"input": x.tolist(), "mixture": h.tolist(), "update": update.tolist(), "result": result.tolist()}
    data = {"weights": weights.tolist(), **rows}
    change = result.tolist()[0] - 1.0
    words = (
        f"“tower” reads with weights {', '.join(f'{name} {number(w)}' for name, w in zip(NAMES, data['weights']))}. "
        f"The mixture {vector(rows['mixture'])} becomes the update {vector(rows['update'])}; added to the input it gives "
        f"{vector(rows['result'])}: structure {'falls' if change < 0 else 'rises' if change > 0 else 'stays'}, "
        f"though the operation is an addition."
    )
    return Figure(data, _drawing(data), words)


def _drawing(data: dict) -> str:
    marks = [text(16, 24, "who is read", "soft")]
    for i, (name, weight) in enumerate(zip(NAMES, data["weights"])):
        y = 34 + 26 * i
        marks += [text(100, y + 15, name, anchor="end"), rect(110, y, 270 * weight, 20, "cool", radius=3),
                  text(118 + 270 * weight, y + 15, number(weight))]  # fmt: skip
    marks += [text(288, 142, "structure", "soft", anchor="middle"), text(404, 142, "Paris identity", "soft", anchor="middle")]
    ys = {"input": 172, "mixture": 240, "update": 308, "result": 376}
    says = {"input": "input  x", "mixture": "mixture  h", "update": "update  h W_O", "result": "result  x + h W_O"}
    marks += [
        arrow([(40, 186), (40, 362)], "stream", width=5),
        arrow([(40, 192), (76, 212), (76, 230)], "branch", width=2), arrow([(76, 252), (76, 294)], "branch", width=2),
        arrow([(76, 322), (76, 352), (54, 370)], "branch", width=2),
        circle(40, 376, 13, "sum"), text(40, 382, "+", "stream", anchor="middle", size=18, bold=True),
        circle(40, 172, 6, "stream"),
    ]  # fmt: skip
    for name, y in ys.items():
        kind = "stream" if name in ("input", "result") else "branch"
        marks.append(text(96 if kind == "branch" else 62, y + 5, says[name], kind, bold=True))
        for centre, amount in zip((288, 404), data[name]):
            marks += _bar(centre, y, amount, kind)
    return svg(WIDTH, 408, marks)


def _bar(centre: float, y: float, amount: float, kind: str) -> list[str]:
    """One coordinate, on a scale from −1.5 to 1.5 around its centre."""
    reach = 34 * amount
    return [
        line([(centre, y - 12), (centre, y + 12)], "faint"),
        rect(min(centre, centre + reach), y - 9, abs(reach), 9, kind, radius=2),
        text(centre, y + 17, number(amount), anchor="middle", size=14),
    ]
