"""F2: two heads' outputs through concatenation, projection and the separate addition; one weight for both (S7, S8)."""

from __future__ import annotations

import numpy as np

from tinygrad_tf import Tensor, cat
from tinygrad_tf.nn import residual

from .figure import Control, Figure, figure, slider, switch
from .paint import WIDTH, arrow, circle, line, rect, svg, text
from .replace_or_add import plain, short

HELD = np.array([0.0, 1.0])
VALUES = {"A": np.array([[2.0], [0.0]]), "B": np.array([[0.0], [1.0]])}  # (T, 1): A takes the first coordinate
WEIGHTS = tuple(i / 8 for i in range(9))
OUTPUTS = {
    "(1, 0) and (−1, 1)": np.array([[1.0, 0.0], [-1.0, 1.0]]),
    "(1, 0) and (0, 1)": np.eye(2),
    "(0, 1) and (1, 0)": np.array([[0.0, 1.0], [1.0, 0.0]]),
}

FIRST = next(iter(OUTPUTS))


@figure(
    "F2",
    "From two heads to one update",
    [
        slider("a", "Head A: weight on position 1", WEIGHTS, 0.75),
        slider("b", "Head B: weight on position 1", WEIGHTS, 0.25),
        switch("shared", "One weight for both (a single head)"),
        Control("output", "Rows of the output matrix", tuple(OUTPUTS), FIRST),
    ],
)
def heads_to_update(a: float = 0.75, b: float = 0.25, shared: bool = False, output: str = FIRST) -> Figure:
    """Position 2 holds (0, 1). Head A mixes the numbers 2 and 0, head B the numbers 0 and 1, each with its own weights.

    shared: B takes A's weights, which is what one head with the Values (2, 0) and (0, 1) does. `parts` are what each head
    contributes to the update through its own row of W_O.
    """
    on_first = {"A": a, "B": a if shared else b}
    weights = {head: Tensor(np.array([w, 1 - w])) for head, w in on_first.items()}
    reads = {head: weights[head] @ Tensor(VALUES[head]) for head in on_first}  # (1,) each
    joined = cat([reads["A"], reads["B"]])
    w_o = Tensor(OUTPUTS[output])
    update = joined @ w_o
    result = residual(Tensor(HELD), update)
    data = {
        "weights": {head: w.tolist() for head, w in weights.items()},
        "joined": joined.tolist(),
        "output": w_o.tolist(),
        "parts": {head: (reads[head] @ w_o[i : i + 1]).tolist() for i, head in enumerate(reads)},
        "update": update.tolist(),
        "input": HELD.tolist(),
        "result": result.tolist(),
        "shared": shared,
    }
    return Figure(data, _drawing(data), _words(data))


def _words(data: dict) -> str:
    first, second = data["joined"]
    said = f"Head A brings {plain(first)}, head B {plain(second)}. "
    if data["shared"]:
        said += "With one weight for both, more of one is less of the other: the pair stays on the segment. "
    return (
        f"{said}The output matrix makes {short(data['parts']['A'])} of A’s number and {short(data['parts']['B'])} of B’s: "
        f"the update is their sum, {short(data['update'])}. Added to {short(data['input'])} it gives {short(data['result'])}."
    )


COLOUR = {"A": "branch", "B": "good"}


def _drawing(data: dict) -> str:
    spine = 34.0
    marks = [
        text(14, 24, f"x = {short(data['input'])}", "stream", bold=True),
        circle(spine, 40, 7, "stream"),
        arrow([(spine, 40), (spine, 376)], "stream", width=6),
    ]
    for i, head in enumerate(("A", "B")):
        y = 36 + 68 * i
        marks += [arrow([(spine + 5, y + 12), (70, y + 20), (92, y + 20)], COLOUR[head], width=1.5), *_head(data, head, i, y)]
    # side by side
    marks.append(text(98, 200, "side by side", "soft", size=14))
    for i, head in enumerate(("A", "B")):
        x, y = 200 + 92 * i, 56 + 68 * i
        marks += [
            rect(x, 182, 92, 28, "panel", radius=0),
            text(x + 46, 202, plain(data["joined"][i]), COLOUR[head], anchor="middle", size=17, bold=True),
            arrow([(428, y), (450 - 10 * i, y), (450 - 10 * i, 201 - 10 * i), (388, 201 - 10 * i)], COLOUR[head], width=1.5),
        ]
    # through the matrix, a row for each head
    marks.append(text(98, 236, "times W_O: a row for each head", "soft", size=14))
    for i, head in enumerate(("A", "B")):
        y = 260 + 24 * i
        marks += [
            text(98, y, f"{head}:  {plain(data['joined'][i])} × {short(data['output'][i])}", COLOUR[head], size=15),
            text(270, y, f"= {short(data['parts'][head])}", COLOUR[head], size=15, bold=True),
        ]
    marks += [
        line([(98, 292), (420, 292)], "line"),
        text(98, 312, "the update", "ink", size=15),
        text(270, 312, f"= {short(data['update'])}", "ink", size=15, bold=True),
        arrow([(320, 322), (320, 392), (54, 392)], "branch", width=3),
        circle(spine, 392, 14, "sum"),
        text(spine, 398, "+", "stream", anchor="middle", size=18, bold=True),
        text(66, 358, f"{short(data['input'])} + {short(data['update'])}", "soft", size=15),
        text(66, 380, f"= {short(data['result'])}", "ink", size=17, bold=True),
        arrow([(spine, 408), (spine, 440)], "stream", width=6),
    ]
    return svg(WIDTH, 632, [*marks, *_plane(data)])


def _head(data: dict, head: str, i: int, y: float) -> list[str]:
    """The weights of a head as one bar, cut in two; what it mixes; what it brings."""
    width, (first, second) = 180.0, data["weights"][head]
    values, colour = VALUES[head][:, 0], COLOUR[head]
    sums = " + ".join(f"{plain(w)} · {plain(v)}" for w, v in zip((first, second), values))
    return [
        text(98, y + 26, f"head {head}", colour, size=15, bold=True),
        text(164, y + 4, "position 1", "soft", size=14),
        text(344, y + 4, "position 2", "soft", anchor="end", size=14),
        rect(164 + width * first, y + 10, width * second, 20, "panel", radius=0),
        rect(164, y + 10, width * first, 20, colour, radius=0),
        text(170, y + 25, plain(first), "page", size=14) if first >= 0.25 else "",
        text(338, y + 25, plain(second), "ink", anchor="end", size=14) if second >= 0.25 else "",
        text(164, y + 47, sums, "soft", size=14),
        text(354, y + 26, f"= {plain(data['joined'][i])}", colour, size=16, bold=True),
    ]


def _plane(data: dict) -> list[str]:
    """What the two numbers can be: a segment with one weight, a whole rectangle with two."""
    at = lambda a, b: (150 + 110 * a, 604 - 110 * b)
    x, y = at(*data["joined"])
    left = x < 280
    shared = data["shared"]
    marks = [text(98, 470, f"every pair that {'one weight' if shared else 'two weights'} can bring", "soft", size=14)]
    if not shared:
        marks.append(rect(*at(0, 1), 220, 110, "cool", radius=0))
    marks += [
        line([at(0, 0), at(2.35, 0)], "line"),
        line([at(0, 0), at(0, 1.12)], "line"),
        line([at(2, 0), at(0, 1)], "stream" if shared else "line", width=4 if shared else 1.5, dashed=not shared),
        text(at(2, 0)[0], at(0, 0)[1] + 20, "2", "soft", anchor="middle"),
        text(at(0, 1)[0] - 8, at(0, 1)[1] + 5, "1", "soft", anchor="end"),
        text(at(1, 0)[0], at(0, 0)[1] + 20, "head A", "branch", anchor="middle"),
        text(at(0, 0.5)[0] - 8, at(0, 0.5)[1], "head B", "good", anchor="end"),
        line([(x, y), (x, at(0, 0)[1])], "branch", width=1, dashed=True),
        line([(x, y), (at(0, 0)[0], y)], "good", width=1, dashed=True),
        circle(x, y, 7, "grad"),
        text(x + (11 if left else -11), y - 8, short(data["joined"]), "ink", anchor="start" if left else "end", bold=True),
    ]
    return marks
