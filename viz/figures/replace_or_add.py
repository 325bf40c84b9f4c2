"""F1: what reaches the next layer when a branch replaces what a position held, and when it is added to it (S1, S2)."""

from __future__ import annotations

import numpy as np

from tinygrad_tf import Tensor
from tinygrad_tf.nn import residual

from .figure import Control, Figure, figure, slider
from .paint import WIDTH, arrow, circle, line, number, rect, svg, text

HELD = np.array([[2.0, 0.0], [0.0, 1.0]])  # (T, 2): what the two positions hold; their Values are the same
MIX = np.array([[1.0, 0.0], [0.5, 0.5]])  # (T, T): position 1 sees itself, position 2 gives each half of its weight
READ, OWN = "what the head reads", "the input itself"
SCALES = tuple(i / 4 for i in range(-4, 5))
COLUMN = 230
UNIT = 46  # of a plane


@figure("F1", "Replace or add: set the branch to zero and follow what reaches the next layer", [
    slider("scale", "Branch times", SCALES, 1.0),
    Control("branch", "The branch returns", (READ, OWN), READ),
])  # fmt: skip
def replace_or_add(scale: float = 1.0, branch: str = READ) -> Figure:
    """Position 2 holds x = (0, 1); a branch returns F, the head's read (1, ½) or x itself, times `scale`.

    Once y = F, once y = x + F; y is what the next layer gets.
    """
    mix, held = Tensor(MIX), Tensor(HELD)
    whole = mix @ held if branch == READ else held
    returned = whole * scale
    ys = {"replaced": returned, "added": residual(held, returned)}
    data = {
        "input": HELD[1].tolist(),
        "whole": whole.tolist()[1],
        "branch": returned.tolist()[1],
        **{name: y.tolist()[1] for name, y in ys.items()},
    }
    return Figure(data, _drawing(data, scale, branch), _words(data, scale))


def short(values: list[float]) -> str:
    """As (1, 0.5): no zeros at the end."""
    return f"({', '.join(plain(v) for v in values)})"


def plain(value: float) -> str:
    """Up to three digits after the point, as many as say something."""
    said = number(value, 3)
    return said.rstrip("0").rstrip(".") if "." in said else said


def _words(data: dict, scale: float) -> str:
    gets = {name: short(data[name]) for name in ("replaced", "added")}
    if scale == 0:
        return (
            f"The branch returns {short(data['branch'])}. Replaced, nothing is left: the next layer gets {gets['replaced']}. "
            f"Added, the input arrives as it was, {gets['added']}."
        )
    said = f"The branch returns {short(data['branch'])}. Replaced, the next layer gets that and nothing else"
    if not any(data["added"]):
        return (
            f"{said}. Added, the branch takes exactly the input away: {gets['added']}. The skip path carries x to the sum; it "
            "cannot keep a branch from cancelling it there."
        )
    return f"{said}. Added, it gets {short(data['input'])} + {short(data['branch'])} = {gets['added']}."


def _drawing(data: dict, scale: float, branch: str) -> str:
    marks = []
    for name, left in (("replaced", 0.0), ("added", float(COLUMN))):
        marks += _lane(data, name, left, scale, branch) + _plane(data, name, left)
    marks.append(line([(COLUMN, 6), (COLUMN, 540)], "faint", width=1))
    return svg(WIDTH, 546, marks)


def _lane(data: dict, name: str, left: float, scale: float, branch: str) -> list[str]:
    """From x down to the next layer: the line, and the branch beside it."""
    add = name == "added"
    spine, side = left + 40, left + 140
    dead = scale == 0
    marks = [text(left + 14, 24, "y = x + F" if add else "y = F", "stream" if add else "branch", size=18, bold=True),
             text(left + (112 if add else 74), 24, "added" if add else "replaced", "soft", size=15)]  # fmt: skip
    if add:
        marks.append(arrow([(spine, 58), (spine, 172)], "stream", width=6))
    else:
        marks += [line([(spine, 58), (spine, 112)], "faint", width=2, dashed=True),
                  line([(spine - 9, 105), (spine + 9, 119)], "line", width=2),
                  line([(spine - 9, 119), (spine + 9, 105)], "line", width=2)]  # fmt: skip
    # the side trip: as wide as what it carries
    width = 0.75 + 3.5 * abs(scale)
    marks += [
        arrow([(spine + 6, 62), (side, 72), (side, 86)], "branch", width=2),
        rect(side - 62, 88, 124, 50, "panel"),
        text(side, 107, "the head reads" if branch == READ else "x itself", "branch", anchor="middle", size=14),
        text(side, 128, f"× {plain(scale)}", "ink" if not dead else "stream", anchor="middle", size=16, bold=dead),
        arrow([(side, 138), (side, 186), (spine + 18, 186)], "faint" if dead else "branch", width=width, dashed=dead),
        text(spine + 17, 210, f"F = {short(data['branch'])}", "branch", size=14, bold=True),
    ]
    marks += [circle(spine, 58, 7, "stream"), text(spine + 14, 52, f"x = {short(data['input'])}", "stream", size=15, bold=True)]
    if add:
        marks += [circle(spine, 186, 14, "sum"), text(spine, 192, "+", "stream", anchor="middle", size=18, bold=True)]
    else:
        marks.append(circle(spine, 186, 7, "branch" if not dead else "faint"))
    gone = not any(data[name])
    kind = "faint" if gone else "stream" if add else "branch"
    after = 3.0 if gone else 6.0 if add else width
    marks += [
        arrow([(spine, 202 if add else 195), (spine, 262)], kind, width=after, dashed=gone),
        text(spine + 17, 244, f"y = {short(data[name])}", "ink", size=15, bold=True),
        rect(left + 14, 264, 200, 50, "panel"),
        text(left + 114, 283, "the next layer gets", "soft", anchor="middle", size=14),
        text(left + 114, 304, short(data[name]), "ink", anchor="middle", size=15, bold=True),
    ]
    return marks


def _plane(data: dict, name: str, left: float) -> list[str]:
    """The same as arrows: where y can go as the branch is scaled."""
    add = name == "added"
    zero = (left + 112.0, 470.0)
    at = lambda v: (zero[0] + UNIT * v[0], zero[1] - UNIT * v[1])
    x, whole, f, y = (np.array(data[key]) for key in ("input", "whole", "branch", name))
    start = x if add else np.zeros(2)
    marks = [
        line([(left + 16, zero[1]), (left + 214, zero[1])], "faint", width=1),
        line([(zero[0], 356), (zero[0], 524)], "faint", width=1),
        text(left + 14, 346, "y at all scales from −1 to 1", "soft", size=14),
        line([at(start - whole), at(start + whole)], "line", width=1.5, dashed=True),
    ]
    same_way = not whole[0]  # both arrows upright: beside each other, not one on the other
    aside = 9 if same_way and add else 0
    if add:
        marks.append(arrow([at((0, 0)), at(x)], "stream", width=4))
        said_at = at(x) if same_way and y[1] <= 0.5 else at(x / 2)  # y's name stands on the same side, at y
        to, anchor = (-9, "end") if same_way else (9, "start")
        marks.append(text(said_at[0] + to, said_at[1] + (5 if said_at != at(x) else -4), "x", "stream", anchor=anchor))
    else:
        marks += [
            arrow([at((0, 0)), at(x)], "faint", width=2, dashed=True),
            text(at(x)[0] + (9 if same_way else -9), at(x)[1] + 4, "x", "soft", anchor="start" if same_way else "end"),
        ]
    if f.any():
        (tail_x, tail_y), (tip_x, tip_y) = at(start), at(start + f)
        marks.append(arrow([(tail_x + aside, tail_y), (tip_x + aside, tip_y)], "branch", width=3))
        middle = (tail_x + tip_x) / 2 + aside, (tail_y + tip_y) / 2
        dx, dy, anchor = (9, 5, "start") if same_way else (-6, -8, "end") if f[0] < 0 else (9, 17, "start")
        if UNIT * np.hypot(*f) > 20:  # room for its name
            marks.append(text(middle[0] + dx, middle[1] + dy, "F", "branch", anchor=anchor))
    right = f[0] > 0
    down = same_way and f[1] < 0 and not add
    side = 1 if f[0] < 0 or down else -1  # away from F and from the name of y
    marks += [circle(*zero, 3, "line"), text(zero[0] + 8 * side, zero[1] + (-6 if down else 17), "0", "soft", size=14,
                                             anchor="start" if side > 0 else "end")]  # fmt: skip
    marks.append(circle(*at(y), 7, "stream" if add else "branch"))
    marks.append(
        text(at(y)[0] + (11 if right else -11), at(y)[1] - 6, "y", anchor="start" if right else "end", size=16, bold=True)
    )
    return marks
