"""F4: the gradient walks back, layer by layer, through a stack that replaces x and through one that adds to it (S4)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from tinygrad_tf import Tensor, grad
from tinygrad_tf.nn import residual

from .figure import Control, Figure, figure, slider, steps
from .paint import WIDTH, arrow, circle, line, number, path, rect, svg, text

LAYERS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh(x/2)": lambda x: (x * 0.5).tanh(),
    "x/2": lambda x: x * 0.5,
    "−x/2": lambda x: x * -0.5,
    "−x": lambda x: x * -1.0,
    "0": lambda x: x * 0.0,
}
NAMES = ("plain", "residual")
DEPTHS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30)
COLUMN = 230
SUPERSCRIPT = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


@figure("F4", "The gradient walks back through a stack that replaces and one that adds", [
    slider("depth", "Layers", DEPTHS, 5),
    Control("layer", "Each layer is F(x) =", tuple(LAYERS), "tanh(x/2)"),
    steps(max(DEPTHS) + 1, "Layers walked back"),
])  # fmt: skip
def gradient_walk(depth: int = 5, layer: str = "tanh(x/2)", step: int = 0) -> Figure:
    """Two stacks of `depth` layers that begin with x₀ = 1: plain, x ← F(x), and residual, x ← x + F(x).

    At `step` 0 the gradient is 1, at the output; each further step takes it back through one layer. For either stack the data
    holds `inputs` x₀ … of each layer, `slopes` F′ there, `factors` (F′, or 1 + F′), `arrived` (the gradient of the output with
    respect to x₀ … x_depth) and `forward` (that of x₁ … x_depth with respect to x₀): five lists of numbers.
    """
    step = min(step, depth)
    stacks = {name: {key: [*numbers] for key, numbers in stack(depth, layer, name == "residual").items()} for name in NAMES}
    at = depth - step
    data = {"steps": depth + 1, "step": step, "at": at, **stacks}
    return Figure(data, _drawing(data, depth), _words(data, depth, layer))


@cache  # the steps of a walk share them
def stack(depth: int, layer: str, add: bool) -> dict[str, list[float]]:
    """The numbers of one stack, every slope and gradient computed by the engine's backward."""
    function = LAYERS[layer]
    x = Tensor(np.float64(1.0), requires_grad=True)
    xs, branches = [x], []
    for _ in range(depth):
        branches.append(function(xs[-1]))
        xs.append(residual(xs[-1], branches[-1]) if add else branches[-1])
    slopes = [grad(branch, x, retain_graph=True)[0].item() for branch, x in zip(branches, xs)]
    arrived = [g.item() for g in grad(xs[-1], xs[:-1], retain_graph=True)] + [1.0]
    return {
        "inputs": [x.item() for x in xs[:-1]],
        "slopes": slopes,
        "factors": [1 + slope if add else slope for slope in slopes],
        "arrived": arrived,
        "forward": [grad(x, xs[0], retain_graph=True)[0].item() for x in xs[1:]],
    }


def shown(value: float) -> str:
    """A gradient in a few characters: 0.0229, 57.7, 7.0·10⁻⁷."""
    size = abs(value)
    if value == 0:
        return "0"
    if 1e-4 <= size < 1e6:
        return number(value, 5 if size < 1e-3 else 4 if size < 10 else 1 if size < 1000 else 0)
    digits, exponent = f"{value:.1e}".split("e")
    return f"{digits.replace('-', '−')}·10{str(int(exponent)).translate(SUPERSCRIPT)}"


def _words(data: dict, depth: int, layer: str) -> str:
    step, at = data["step"], data["at"]
    plain, added = (data[name]["arrived"][at] for name in NAMES)
    if step == 0:
        return (f"Both stacks have {_layers(depth)}, F(x) = {layer}, and begin with x₀ = 1. The gradient starts as 1 at the "
                f"output, x{_low(depth)}. Walk it back: each layer multiplies it by its slope.")  # fmt: skip
    slope = {name: data[name]["slopes"][at] for name in NAMES}
    said = (
        f"Layer {at + 1} multiplies by F′(x{_low(at)}): {shown(slope['plain'])} in the plain stack, and by 1 + "
        f"F′(x{_low(at)}) = "
        f"{shown(1 + slope['residual'])} in the residual one."
    )
    if at:
        return f"{said} At x{_low(at)} the gradient is {shown(plain)} and {shown(added)}."
    end = f"{shown(plain)} arrives at x₀ in the plain stack and {shown(added)} in the residual one."
    return f"{said} After {_layers(depth)}, {end}"


def _layers(depth: int) -> str:
    return f"{depth} layers" if depth > 1 else "one layer"


def _low(k: int) -> str:
    return str(k).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


def _drawing(data: dict, depth: int) -> str:
    pitch = max(20.0, min(44.0, 400 / depth))
    sizes = [abs(g) for name in NAMES for g in data[name]["arrived"] if g]
    low, high = min(-2, math.floor(math.log10(min(sizes)) - 0.3)), max(1, math.ceil(math.log10(max(sizes))))
    marks = []
    for name, left in (("plain", 0), ("residual", COLUMN)):
        marks += _column(data, name, left, depth, pitch, low, high)
    marks.append(line([(COLUMN - 4, 8), (COLUMN - 4, 130 + pitch * depth + 16)], "faint", width=1))
    return svg(WIDTH, 130 + pitch * depth + 20, marks)


def _column(data: dict, name: str, left: float, depth: int, pitch: float, low: int, high: int) -> list[str]:
    """One stack, from x₀ at the top to the output; bars on the decades low … high, the same for both stacks."""
    add, at, step = name == "residual", data["at"], data["step"]
    numbers = data[name]
    spine, first, reach = left + 48, left + 88, 130.0
    top = 130.0
    place = lambda g: first + reach * (math.log10(abs(g)) - low) / (high - low) if g else first
    title, kind = ("adds: x + F(x)", "stream") if add else ("replaces: F(x)", "branch")
    marks = [text(left + 8, 22, title, kind, bold=True, size=18)]
    marks += _arithmetic(numbers, left + 8, at, step, add)
    marks += [
        line([(place(1.0), top - 28), (place(1.0), top + pitch * depth + 12)], "line", width=1, dashed=True),
        text(place(1.0), top - 33, "1", "soft", anchor="middle", size=16),
    ]
    if place(1.0) - first > 60:
        marks.append(text(first, top - 33, f"10{str(low).translate(SUPERSCRIPT)}", "soft", size=16))
    for k in range(depth):  # the way from x_k to x_(k+1)
        y, walked = top + pitch * k, k >= at
        middle, end, box = y + pitch / 2, y + pitch, min(7.0, pitch / 3.4)
        if add:
            marks.append(
                line([(spine, y), (spine, y + pitch)], "stream", width=5)
                + path(f"M{spine},{y + 3} C{spine + 26},{y + 4} {spine + 26},{end - 4} {spine},{end - 3}", "branch", width=1.5)
                + rect(spine + 19.5 - box, middle - box, 2 * box, 2 * box, "branch" if walked else "panel", radius=2)
            )  # fmt: skip
        else:
            marks.append(
                line([(spine, y), (spine, y + pitch)], "branch", width=2)
                + rect(spine - box, middle - box, 2 * box, 2 * box, "branch" if walked else "panel", radius=2)
            )
        if walked and pitch >= 32:
            slope = numbers["slopes"][k]
            said = f"× (1 {'−' if slope < 0 else '+'} {shown(abs(slope))})" if add else f"× {shown(slope)}"
            marks.append(text(first + 2, middle + 6, said, "ink over" if k == at else "soft over", size=16))
    for k in range(depth + 1):
        y, value = top + pitch * k, numbers["arrived"][k]
        here = k == at
        row = []
        if depth <= 12 or k % 5 == 0 or k == depth or here:
            row.append(text(left + 13, y + 5, f"x_{k}", "ink" if here else "soft", size=17, bold=here))
        row.append(circle(spine, y, 6 if here else 4, "grad" if k >= at else "panel"))
        if k >= at:
            row += _bar(first, place(value), y, value, min(18.0, pitch - 2), here, first + reach)
        marks.append("".join([*row, rect(left, y - pitch / 2, COLUMN - 8, pitch, "clear", step=depth - k)]))
    end = top + pitch * depth
    if step:
        marks.append(arrow([(left + 6, end + 8), (left + 6, end - pitch * step - 8)], "grad", width=3))
    return marks


def _bar(first: float, end: float, y: float, value: float, height: float, here: bool, edge: float) -> list[str]:
    said = shown(value)
    width, room = end - first, _long(said, 16) + 2
    bar = rect(first, y - height / 2, width, height, "grad", radius=2)
    if here:
        bar += rect(first, y - height / 2, width, height, "outline", radius=2)
    if width > room:
        return [bar, text(end - 3, y + 5.5, said, "page", anchor="end", size=16, bold=here)]
    return [bar, text(min(end + 5, edge - room + 5), y + 5.5, said, "ink over", size=16, bold=here)]


def _long(said: str, size: float) -> float:
    """About how long a number is in a wide font."""
    return size * sum(0.33 if c in ".·" else 0.85 if c == "−" else 0.45 if c in "⁰¹²³⁴⁵⁶⁷⁸⁹⁻" else 0.645 for c in said)


def _arithmetic(numbers: dict, x: float, at: int, step: int, add: bool) -> list[str]:
    """What this step multiplies, large, in two lines."""
    if step == 0:
        return [text(x, 50, "The gradient starts", size=16), text(x, 72, "at the output as 1.", size=16)]
    before, slope, after = numbers["arrived"][at + 1], numbers["slopes"][at], numbers["arrived"][at]
    factor = f"(1 {'−' if slope < 0 else '+'} {shown(abs(slope))})" if add else shown(slope)
    return [
        text(x, 50, f"{shown(before)} × {factor}", size=16),
        text(x, 72, f"= {shown(after)}", "grad", size=18, bold=True),
    ]
