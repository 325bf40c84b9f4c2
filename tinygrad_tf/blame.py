"""Which op's rule is wrong: each recorded op is run again alone, and its rule is compared with finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .causes import cause_of, fitting
from .engine import Node, Traced, enable_grad, promote
from .lines import operand, path, quoted, title
from .recompute import settings_of
from .tensor import Tensor


class GradientError(RuntimeError):
    """A gradient that finite differences do not confirm.

    For programs, `op`, `path`, `input` and `element` say where, and `cause` is one word. A wrong rule: sign, factor, zero,
    transposed, broadcast, swapped, order, missing, elements, shape, nonfinite, raised, unknown; second: its rule has a wrong
    gradient. Right rules, but off the tape: cut. A point without a slope: kink, edge.
    """

    def __init__(self, message: str, cause: str, op: str | None = None, path: str = "", input: Any = None, element: tuple = ()):
        super().__init__(message)
        self.cause, self.op, self.path, self.input, self.element = cause, op, path, input, element


DOUBTS = ("edge", "kink")  # causes that are the fault of the point, not of a rule
KINK = "a corner (relu or abs at 0, a tie in max), or a curve too sharp for eps. Check at a point away from it."
EDGE = "the value is not finite on one side (sqrt or log at 0, division by 0), and a where() after it comes too late."


class Limits(NamedTuple):
    eps: float
    atol: float
    rtol: float


class Comparison(NamedTuple):
    """Our gradient of one array, and the slopes measured to the left and to the right of each element."""

    ours: np.ndarray
    left: np.ndarray
    right: np.ndarray
    limits: Limits
    seeds: list[np.ndarray]  # the upstream gradients

    @property
    def measured(self) -> np.ndarray:
        return (self.left + self.right) / 2

    @property
    def slack(self) -> np.ndarray:
        return self.limits.atol + self.limits.rtol * np.abs(self.measured)

    @property
    def wrong(self) -> np.ndarray:
        return ~(np.abs(self.ours - self.measured) <= self.slack)  # so that NaN is wrong

    @property
    def kinked(self) -> np.ndarray:
        """Wrong, but between the slopes of the two sides: no number could agree with both."""
        low, high = np.minimum(self.left, self.right), np.maximum(self.left, self.right)
        return self.wrong & (low - self.slack <= self.ours) & (self.ours <= high + self.slack)

    def smooth(self, at: tuple[int, ...]) -> bool:
        """Whether the two sides agree so well that no kink explains the error."""
        gap, error = abs(self.left[at] - self.right[at]), abs(self.ours[at] - self.measured[at])
        return bool(np.isfinite(error) and gap <= 1e-3 * error)

    def worst(self, among: np.ndarray) -> tuple[int, ...]:
        error = np.where(among, np.nan_to_num(np.abs(self.ours - self.measured), nan=np.inf), -1)
        return tuple(int(i) for i in np.unravel_index(np.argmax(error), error.shape))

    def sides(self, at: tuple[int, ...]) -> str:
        low, high = (float(side[at]) + 0.0 for side in (self.left, self.right))  # + 0.0: no -0
        return f"{self._at(at)}the slope is {low:.6g} on the left and {high:.6g} on the right."

    def numbers(self, among: np.ndarray, who: str) -> str:
        at = self.worst(among)
        ours, measured = float(self.ours[at]) + 0.0, float(self.measured[at]) + 0.0
        return (f"{self._at(at)}{who} gives {ours:.6g}, finite differences give {measured:.6g}; "
                f"wrong in {among.sum()} of {among.size} elements.")  # fmt: skip

    def _at(self, place: tuple[int, ...]) -> str:
        start = "At" if len(self.seeds) == self.seeds[0].size == 1 else "For a random upstream gradient, at"
        return f"{start} element {list(place)} " if place else f"{start} its one element "


def upstream(shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    """A random upstream gradient, no element near 0; 1 for a single number, so that messages show the gradient itself."""
    drawn = np.asarray(random.uniform(0.5, 1.5, shape) * random.choice([-1.0, 1.0], shape))
    return drawn if drawn.size > 1 else np.ones(shape)


def slopes_of(evaluate: Callable, x: np.ndarray, seeds: list[np.ndarray], eps: float) -> tuple[np.ndarray, np.ndarray]:
    """d(sum(seed * y))/dx by one-sided differences, to the left and to the right of each element, which is varied in place."""

    def change(low: list[np.ndarray], high: list[np.ndarray]) -> float:
        return sum(float(np.sum(np.where(a == b, 0, (b - a) * g))) for a, b, g in zip(low, high, seeds, strict=True)) / eps

    left, right, middle = np.empty(x.shape), np.empty(x.shape), evaluate()
    for place in np.ndindex(x.shape):
        kept = x[place]
        try:
            x[place] = kept + eps
            above = evaluate()
            x[place] = kept - eps
            below = evaluate()
        finally:
            x[place] = kept
        left[place], right[place] = change(below, middle), change(middle, above)
    return left, right


def first_wrong(order: list[Node], values: dict[Node, np.ndarray], limits: Limits) -> GradientError | None:
    """The first op, in the order of computing, whose rule is wrong; failing that, one that has no slope where it stands."""
    doubts = []
    for node in reversed(order):
        error = _fault(node, arrays_of(node, values), limits) if recorded(node, values) else None
        if error is not None and error.cause not in DOUBTS:
            return error
        doubts += [error] if error is not None else []
    return min(doubts, key=lambda error: DOUBTS.index(error.cause), default=None)


@enable_grad()
@np.errstate(all="ignore")  # what is not finite is reported in words
def _fault(node: Node, arrays: list, limits: Limits) -> GradientError | None:
    """Compare the rule of one op with differences of its function, input by input."""
    settings = settings_of(node)
    value, rule = node.op.raw(*arrays, **settings)
    g = upstream(np.shape(value), np.random.default_rng(0))
    g.flags.writeable = False  # a rule that writes into it would spoil the gradients of others

    def evaluate() -> list[np.ndarray]:
        return [np.array(node.op.raw(*arrays, **settings)[0])]

    def error(i: int, what: str, numbers: str, cause: tuple[str, str], element: tuple = ()) -> GradientError:
        return GradientError(
            f"{title(node)} {what} input {i}, {operand(node.op, i)} {np.shape(arrays[i])}.\n"
            f"  {numbers}\n  Likely cause: {cause[1]}\n  Called at {quoted(node.line)}",
            cause[0], node.op.name, path(node), i, element,
        )  # fmt: skip

    wanted = [i for i, source in enumerate(node.inputs) if tracked(source)]
    given: dict[int, np.ndarray] = {}
    try:
        shares = None if isinstance(rule, tuple) else rule(g)
        for i in wanted:
            share = rule[i](g) if shares is None else shares[i]
            given[i] = np.zeros(arrays[i].shape) if share is None else np.asarray(share)
    except Exception as e:
        reason = f"{type(e).__name__}: {e}."
        if "read-only" in str(e):
            reason = "it writes into the gradient that it is given, which other rules read: work on a copy."
        if isinstance(rule, tuple) and len(rule) < len(arrays):
            reason = f"there are {len(rule)} rules for {len(arrays)} inputs."
        return error(wanted[len(given)], "has a rule that fails for", "It raised an error.", ("raised", reason))
    slopes = {i: slopes_of(evaluate, arrays[i], [g], limits.eps) for i in wanted}
    others = {i: (operand(node.op, i), given[i], (slopes[i][0] + slopes[i][1]) / 2) for i in wanted}
    doubt = None
    for i in wanted:
        ours = fitting(given[i], arrays[i].shape)
        if ours is None:
            numbers = f"The rule gives a gradient of shape {given[i].shape}, the input has {arrays[i].shape}."
            return error(i, "has a wrong rule for", numbers, cause_of(given[i], others[i][2]))
        c = Comparison(ours, *slopes[i], limits, [g])
        wrong = c.wrong & ~c.kinked & np.isfinite(c.measured)
        if wrong.any():
            cause = cause_of(given[i], c.measured, wrong, [others[j] for j in wanted if j != i])
            return error(i, "has a wrong rule for", c.numbers(wrong, "the rule"), cause, c.worst(wrong))
        if c.wrong.any() and doubt is None:
            at = c.worst(c.wrong)
            cause = ("kink", KINK) if c.kinked[at] else ("edge", EDGE)
            what = "has a kink within eps of" if c.kinked[at] else "has no slope within eps of"
            numbers = f"{c.sides(at)} The rule gives {ours[at] + 0.0:.6g}; the input is {arrays[i][at] + 0.0:.6g}."
            doubt = error(i, f"is no bug, but it {what}", numbers, cause, at)
    return doubt


def tracked(source: Any) -> bool:
    return isinstance(source, (Node, Traced))


def recorded(node: Node, values: dict[Node, np.ndarray]) -> bool:
    """Whether the values that this op worked on are known."""
    return node in values and all(type(source) is not Node or source in values for source in node.inputs)


def arrays_of(node: Node, values: dict[Node, np.ndarray]) -> list:
    """The arrays that this op worked on, as copies that can be varied; plain numbers as they are."""
    args = [Tensor(values[source]) if type(source) is Node else source for source in node.inputs]
    arrays = promote(tuple(args), [a.array if isinstance(a, Traced) else a for a in args])
    return [np.array(a, order="C") if isinstance(a, np.ndarray) else a for a in arrays]
