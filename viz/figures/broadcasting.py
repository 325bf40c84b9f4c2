"""The picture of lesson 2: the elements of a gradient that meet in one element of a smaller tensor."""

from __future__ import annotations

import numpy as np

from tinygrad_tf import Tensor

from .figure import Figure
from .paint import WIDTH, arrow, rect, svg, text

SHAPES = {"(3,)": (3,), "(4, 1)": (4, 1), "(1,)": (1,), "(4, 3)": (4, 3)}
G = np.array([[1.0, 0.0, 2.0], [3.0, 1.0, -1.0], [0.0, 2.0, 1.0], [2.0, -1.0, 4.0]])
CELL, TOP, LEFT, RIGHT = 44, 34, 20, 262


def broadcasting(shape: str = "(3,)", element: int = 0) -> Figure:
    """y = x + b for x of shape (4, 3) and b of the chosen shape: which elements of y's gradient one element of b gets.

    shape: one of SHAPES. element: counted row by row; beyond the last it is the last.
    """
    b = Tensor(np.zeros(SHAPES[shape]), requires_grad=True)
    (Tensor(np.zeros(G.shape)) + b).backward(G)
    assert b.grad is not None
    grad = b.grad.numpy()
    element = min(element, grad.size - 1)
    user = np.broadcast_to(np.arange(grad.size).reshape(grad.shape), G.shape)  # the element that each place of y used
    met = G[user == element]
    data = {"gradient": grad.tolist(), "element": element, "met": met.tolist()}
    terms = " + ".join(f"({_number(v)})" if v < 0 else _number(v) for v in met)
    times = {1: "once", len(G): f"{len(G)} times"}.get(len(met), f"{len(met)} times")
    words = f"This element of b was used {times}, so its gradient is {terms} = {_number(grad.ravel()[element])}."
    if len(met) == 1:
        words = f"Every element of b was used once: its gradient is what arrived at its place, here {_number(met[0])}."
    marks = [text(LEFT, 20, "gradient of y, (4, 3)", "soft"), text(RIGHT, 20, f"gradient of b, {shape}", "soft")]
    for (i, j), value in np.ndenumerate(G):
        marks += _cell(LEFT + CELL * j, TOP + CELL * i, value, user[i, j] == element)
    column = grad.reshape(1, -1) if grad.ndim == 1 else grad
    place = (1.5 * CELL if grad.ndim == 1 else 0) + TOP  # one row stands in the middle
    for (i, j), value in np.ndenumerate(column):
        marks += _cell(RIGHT + CELL * j, place + CELL * i, value, i * column.shape[1] + j == element)
    marks.append(arrow([(LEFT + 3 * CELL + 14, TOP + 2 * CELL), (RIGHT - 14, TOP + 2 * CELL)], "grad", width=3))
    return Figure(data, svg(WIDTH, TOP + 4 * CELL + 8, marks), words, "Where a gradient is summed")


def _cell(x: float, y: float, value: float, lit: bool) -> list[str]:
    middle = (x + CELL / 2, y + CELL / 2 + 5)
    return [
        rect(x + 2, y + 2, CELL - 4, CELL - 4, "lilac" if lit else "panel"),
        text(*middle, _number(value), "grad" if lit else "ink", anchor="middle", bold=lit),
    ]


def _number(value: float) -> str:
    return f"{value:g}".replace("-", "−")
