"""F5: widen, activate, narrow: what each hidden unit reads, whether it fires, and what it writes (S16)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tinygrad_tf import Tensor, nn
from tinygrad_tf.nn import functional as F

from .figure import Control, Figure, figure, slider
from .paint import WIDTH, arrow, circle, number, path, rect, svg, text, vector

X = np.array([1.0, -1.0])
W1 = np.array([[1.0, 0, 1, -1], [0, 1, 1, 1]])  # (2, 4)
B1 = np.array([0.0, 0, 0, 0.5])
W2 = np.array([[1.0, 0], [0, 1], [0.5, 0.5], [-1, 1]])  # (4, 2)
ACTIVATIONS: dict[str, Callable[..., Tensor]] = {"ReLU": F.relu, "GELU": F.gelu, "none": lambda z: z}
COLUMN = 112  # the width that one unit has in the drawing


@figure("F5", "Widen, activate, narrow", [
    Control("activation", "Activation", tuple(ACTIVATIONS), "ReLU"),
    slider("bias", "Bias of unit 4", (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5), 0.5),
])  # fmt: skip
def widen_narrow(activation: str = "ReLU", bias: float = 0.5) -> Figure:
    """x = (1, −1) through four hidden units and back to two numbers: sums x W1 + b1, activated, output; W1, b1 and W2 of S16.

    activation: ReLU, GELU, or none, which leaves one linear map. bias: the last value of b1.
    """
    up, down = nn.Linear(2, 4).double(), nn.Linear(4, 2).double()
    up.weight.data, up.bias.data = W1.T.copy(), np.array([*B1[:3], bias])
    down.weight.data, down.bias.data = W2.T.copy(), np.zeros(2)
    hidden = up(Tensor(X))
    active = ACTIVATIONS[activation](hidden)
    out = down(active)
    data = {"x": X.tolist(), "hidden": hidden.tolist(), "active": active.tolist(), "out": out.tolist(),
            "written": (active.unsqueeze(-1) * W2).tolist()}  # fmt: skip
    firing = [i + 1 for i, value in enumerate(data["active"]) if abs(value) > 1e-12]
    says = {
        "ReLU": f"ReLU keeps what is above 0: {'unit 1 fires' if firing == [1] else 'units 1 and 4 fire'}.",
        "GELU": f"GELU lets a little of the negative sums through: {vector(data['active'], 3)}.",
        "none": "Without an activation every sum passes as it is, and the two maps are no more than one matrix.",
    }  # fmt: skip
    words = (
        f"The input {vector(X, 0)} is widened to the sums {vector(data['hidden'], 1)}. {says[activation]} "
        f"What the units write adds up to {vector(data['out'], 3)}."
    )
    return Figure(data, _drawing(data, activation, bias), words)


def _drawing(data: dict, activation: str, bias: float) -> str:
    centres = [8 + COLUMN * (i + 0.5) for i in range(4)]
    ins = outs = (176, 340)
    marks = [text(8, 29, "input x", "branch", bold=True), text(8, 71, "widen", "soft"), text(8, 348, "narrow", "soft"),
             text(8, 405, "output", "branch", bold=True)]  # fmt: skip
    for i, centre in enumerate(centres):  # lines first, boxes over them
        on = abs(data["active"][i]) > 1e-12
        for k, x in enumerate(ins):
            if W1[k, i]:
                marks.append(_edge((x, 40), (centre, 84), W1[k, i], True))
            if W2[i, k]:
                marks.append(_edge((centre, 322), (outs[k], 382), W2[i, k], on))
    for x, value in zip(ins, data["x"]):
        marks += [rect(x - 42, 8, 84, 32, "cool"), text(x, 30, number(value, 0), anchor="middle", size=17, bold=True)]
    for i, centre in enumerate(centres):
        on = abs(data["active"][i]) > 1e-12
        b = bias if i == 3 else B1[i]
        shown = number(data["hidden"][i], 1)
        left = centre - COLUMN / 2 + 3
        marks += [
            rect(left, 84, COLUMN - 6, 238, "panel" if on else "faint"),
            text(centre, 103, f"unit {i + 1}", "ink" if on else "soft", anchor="middle", bold=True),
            text(centre, 123, f"reads {_pair(W1[:, i])}", "soft", anchor="middle", size=14),
            text(centre, 141, f"bias {number(b, 1) if b % 1 else number(b, 0)}", "soft", anchor="middle", size=14),
            text(centre, 168, shown, anchor="middle", size=18, bold=True),
            *_curve(left + 8, 178, COLUMN - 22, 70, activation, data["hidden"][i]),
            text(centre, 272, number(data["active"][i], 3), "good" if on else "soft", anchor="middle", size=18, bold=True),
            text(centre, 296, "writes", "soft", anchor="middle", size=14),
            text(centre, 314, _pair(W2[i], 1), "soft", anchor="middle", size=14),
        ]  # fmt: skip
    for x, value in zip(outs, data["out"]):
        marks += [rect(x - 42, 384, 84, 32, "warm"), text(x, 406, number(value, 3), anchor="middle", size=17, bold=True)]
    marks.append(text(8, 440, "dashed line: a weight below 0.  dashed box: the unit is off", "soft", size=14))
    return svg(WIDTH, 448, marks)


def _edge(start: tuple[float, float], end: tuple[float, float], weight: float, on: bool) -> str:
    return arrow([start, end], "branch" if on else "faint", width=1 + 1.5 * abs(weight), dashed=weight < 0)


def _pair(values: np.ndarray, digits: int = 0) -> str:
    return f"({', '.join(number(v, digits if v % 1 else 0) for v in values)})"


def _curve(left: float, top: float, width: float, height: float, activation: str, at: float) -> list[str]:
    """The activation from −3 to 3 as a small plot, with a point where this unit stands."""
    z = np.linspace(-3, 3, 49)
    y = ACTIVATIONS[activation](Tensor(z)).array
    across = lambda v: left + width * (v + 3) / 6
    up = lambda v: top + height * (1 - (np.clip(v, -1, 3) + 1) / 4)
    d = "M" + "L".join(f"{across(a):.1f} {up(b):.1f}" for a, b in zip(z, y) if b >= -1)
    point = float(ACTIVATIONS[activation](Tensor(np.array(at))).array)
    return [
        path(f"M{left:.1f} {up(0):.1f}H{left + width:.1f}", "faint"),
        path(f"M{across(0):.1f} {top:.1f}V{top + height:.1f}", "faint"),
        path(d, "line", width=2), circle(across(at), up(point), 5, "good" if abs(point) > 1e-12 else "panel"),
    ]  # fmt: skip
