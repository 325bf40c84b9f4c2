"""The picture of lesson 4: a small network learns a curve, and its loss beside it."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from tinygrad_tf import Tensor, nn, optim

from .figure import Figure
from .paint import WIDTH, circle, line, number, path, svg, text

X = np.linspace(-1, 1, 41).astype(np.float32)[:, None]  # (41, 1)
TARGETS = {"|x|": np.abs(X), "a wave": np.sin(5 * X) / 2 + 0.5, "a step": (X > 0.2).astype(np.float32)}
STEPS = 400
LOW, HIGH = -0.25, 1.25  # of what is drawn
RATES = (0.01, 0.03, 0.1, 0.3, 1.0)


@lru_cache(64)
def train(target: str, units: int, relu: bool = True, rate: float = 0.3, forget: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """(losses, outputs) before each of the steps and after the last: (STEPS + 1,), (STEPS + 1, 41).

    Linear, ReLU, Linear with this many units between, trained by SGD on the mean of squares. forget: zero_grad is left out.
    Stops where the loss is no number any more: what follows is left at infinity.
    """
    rng = np.random.default_rng(3)
    model = nn.Sequential(nn.Linear(1, units, generator=rng), nn.ReLU() if relu else nn.Identity(),
                          nn.Linear(units, 1, generator=rng))  # fmt: skip
    optimizer = optim.SGD(model.parameters(), lr=rate)
    x, y = Tensor(X), Tensor(TARGETS[target])
    losses, outputs = np.full(STEPS + 1, np.inf), np.full((STEPS + 1, len(X)), np.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        for step in range(STEPS + 1):
            output = model(x)
            loss = (output - y).square().mean()
            if not loss.item() < 1e6:
                break
            losses[step], outputs[step] = loss.item(), output.detach().numpy()[:, 0]
            if not forget:
                optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return losses, outputs


def fitting(
    target: str = "|x|", units: int = 8, rate: float = 0.3, step: int = STEPS, relu: bool = True, forget: bool = False
) -> Figure:
    """The network after `step` steps. target: one of TARGETS. See `train`."""
    losses, outputs = train(target, units, relu, rate, forget)
    data = {"loss": float(min(losses[step], 1e30)), "first loss": float(losses[0])}
    words = f"After {step} steps the loss is {_short(losses[step])}; it began at {_short(losses[0])}."
    if not np.isfinite(losses[step]):
        words = f"After {step} steps the numbers have grown beyond all bounds; the loss began at {_short(losses[0])}."
    elif losses[step] > losses[0]:
        words += " That is more than at the beginning: the steps are too long."
    if np.isfinite(losses[step]) and (outputs[step].min() < LOW or outputs[step].max() > HIGH):
        low, high = (number(float(end), 2) for end in (outputs[step].min(), outputs[step].max()))
        where = f"from {low} to {high}" if low != high else f"flat at {low}"
        words += f" The network's line, {where}, leaves the picture."
    return Figure(
        data, svg(WIDTH, 366, [*_curve(target, outputs[step]), *_losses(losses, step)]), words, "A network learns a curve"
    )


def _curve(target: str, output: np.ndarray) -> list[str]:
    """The points to be met, as dots, and what the network makes of the same x."""
    left, right, top, bottom = 40, 450, 28, 190

    def at(x: float, y: float) -> tuple[float, float]:
        return left + (right - left) * (x + 1) / 2, bottom - (bottom - top) * (y - LOW) / (HIGH - LOW)

    marks = [text(left, 16, "target", "soft"), text(left + 62, 16, "network", "branch", bold=True)]
    marks += [line([at(-1, y), at(1, y)], "faint") for y in (0, 1)]
    marks += [text(left - 8, at(-1, y)[1] + 5, str(y), "soft", anchor="end") for y in (0, 1)]
    marks += [circle(*at(float(x), float(y)), 3, "dot") for x, y in zip(X[:, 0], TARGETS[target][:, 0])]
    if np.isfinite(output).all():
        parts = _inside([(float(x), float(y)) for x, y in zip(X[:, 0], output)])
        marks += [line([at(x, y) for x, y in part], "branch", width=3) for part in parts]
    return marks


def _inside(points: list[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """The parts of a line that lie between LOW and HIGH."""
    parts: list[list[tuple[float, float]]] = [[]]
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        cuts = sorted((edge - y0) / (y1 - y0) for edge in (LOW, HIGH) if (y0 - edge) * (y1 - edge) < 0)
        ends = [0.0, *cuts, 1.0]
        for a, b in zip(ends, ends[1:]):
            start, end = ((x0 + t * (x1 - x0), y0 + t * (y1 - y0)) for t in (a, b))
            if LOW <= (start[1] + end[1]) / 2 <= HIGH:
                parts[-1] += [end] if parts[-1] else [start, end]
            elif parts[-1]:
                parts.append([])
    return [part for part in parts if part]


def _losses(losses: np.ndarray, step: int) -> list[str]:
    """The loss over the steps, on a logarithmic scale; the part still to come is grey."""
    left, right, top, bottom = 74, 450, 230, 340
    low, high = -6, 3

    def at(i: int) -> tuple[float, float]:
        power = min(max(math.log10(max(losses[i], 1e-9)), low), high)
        return left + (right - left) * i / STEPS, bottom - (bottom - top) * (power - low) / (high - low)

    marks = [text(left, 218, "loss, step by step", "soft")]
    for power, name in ((3, "1,000"), (0, "1"), (-3, "0.001"), (-6, "0.000001")):
        y = bottom - (bottom - top) * (power - low) / (high - low)
        marks += [line([(left, y), (right, y)], "faint"), text(left - 6, y + 5, name, "soft", anchor="end", size=14)]
    there = [i for i in range(STEPS + 1) if np.isfinite(losses[i])]
    for points, kind, width in ((there, "faint", 2), ([i for i in there if i <= step], "good", 3)):
        if points:
            marks.append(path("M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in map(at, points)), kind, width=width))
    end = max([i for i in there if i <= step], default=0)
    return [
        *marks,
        circle(*at(end), 5, "good"),
        text(left, 360, "0", "soft"),
        text(right, 360, f"{STEPS}", "soft", anchor="end"),
    ]


def _short(value: float) -> str:
    return f"{value:.4g}" if value >= 1e-4 else f"{value:.1e}"
