"""Where does the first NaN or inf come from? `detect_anomaly` stops at the op that made it, forward or backward.

An op is blamed for what it made, not for what it was given:
- NaN among its results is an error; if an input held NaN already, that input is named;
- inf is an error unless an input or a setting holds inf of that sign: -inf is how a mask says "not here". A difference, a
  product and a quotient may turn its sign. A parameter that holds inf is no mask;
- a gradient is never a mask: any NaN or inf in it is an error.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .engine import Node, Traced, state, tap
from .lines import operand, operands, path, quoted, title, user_line

TURNS_SIGN = frozenset({"neg", "sub", "mul", "div"})
AT_ZERO = {  # op -> why its rule is not finite
    "sqrt": "the slope of sqrt at 0 is 1 / 0. Add a small number first, or choose first: x.where(x > 0, 1).sqrt()",
    "log": "the slope of log at 0 is 1 / 0. Choose first: x.where(x > 0, 1).log(), or use log_softmax",
    "div": "the slope of a / b at b = 0 is infinite. Choose first: a / b.where(b != 0, 1)",
    "pow": "the slope of x ** b at 0 is infinite for b < 1. Keep x away from 0",
}


class NonFiniteError(RuntimeError):
    """A NaN or inf, at the op where it first appears. `when` is "forward", "backward" or "input" (the op was given it)."""

    def __init__(self, message: str, when: str, node: Node, element: tuple[int, ...]):
        super().__init__(message)
        self.when, self.op, self.path, self.line, self.element = when, node.op.name, path(node), node.line, element


@contextmanager
def detect_anomaly() -> Iterator[None]:
    """Raise NonFiniteError at the first op that makes a NaN or inf: a context manager and a decorator, for this thread.

    It sees the ops that are recorded inside the block, and their backward pass, even if that is called after the block. Nothing
    is seen under no_grad. As torch.autograd.detect_anomaly, which looks at gradients alone.
    """
    before = state.observer
    watch = _Watch()

    def observe(node: Node, value: np.ndarray) -> None:
        watch.forward(node, value)
        if before is not None:
            before(node, value)

    state.observer = observe
    try:
        yield
    finally:
        state.observer = before


class _Watch:
    """What is known of the nodes that were seen: their values, as long as somebody holds them, and the infs that they carry."""

    def __init__(self) -> None:
        self.values: weakref.WeakKeyDictionary[Node, weakref.ref] = weakref.WeakKeyDictionary()
        self.carried: weakref.WeakKeyDictionary[Node, set[str]] = weakref.WeakKeyDictionary()

    def forward(self, node: Node, value: np.ndarray) -> None:
        node.line = user_line()
        self.values[node] = weakref.ref(value)
        if not np.isfinite(value).all():
            self.judge(node, value)
        tap(node, _look)

    def judge(self, node: Node, value: np.ndarray) -> None:
        """Raise, unless `value` only carries infs on."""
        arrays = [self.array(source) for source in node.inputs]
        given: set[str] = set()
        for i, (source, array) in enumerate(zip(node.inputs, arrays, strict=True)):
            kinds = self.carried.get(source, set()) if type(source) is Node else _kinds(array)
            if "nan" in kinds or (kinds and isinstance(source, Traced)):
                raise _given(node, i, array, kinds)
            given |= kinds
        for setting in node.settings.values():
            given |= _kinds(setting)
        made = _kinds(value)
        if made <= given or (given and "nan" not in made and node.op.name in TURNS_SIGN):
            self.carried[node] = made
            return
        unseen = [operand(node.op, i) for i, array in enumerate(arrays) if array is None]
        hint = _hint(node, arrays) if not unseen else f"{unseen[0]} was computed before detect_anomaly(): look there first"
        shown, element = _count(value, made - given or made)
        raise NonFiniteError(
            f"{title(node)} made {shown}.\n  Inputs: {operands(node)}\n  Called at {quoted(node.line)}\n  Hint: {hint}.",
            "forward", node, element,
        )  # fmt: skip

    def array(self, source: Any) -> Any:
        """The values of an input, or None if nobody holds them any more."""
        if type(source) is Node:
            reference = self.values.get(source)
            return None if reference is None else reference()
        return np.asarray(source.array if isinstance(source, Traced) else source)


TESTS: dict[str, Callable] = {"nan": np.isnan, "inf": np.isposinf, "-inf": np.isneginf}


def _kinds(value: Any) -> set[str]:
    """Which of nan, inf and -inf there are in an array or a number; none in anything else."""
    if not isinstance(value, (float, np.ndarray, np.generic)) or np.asarray(value).dtype.kind != "f":
        return set()
    return {kind for kind, test in TESTS.items() if test(value).any()}


def _count(value: np.ndarray, kinds: set[str]) -> tuple[str, tuple[int, ...]]:
    """As in `NaN: 2 of 12 elements, the first at [0, 3]`, and that place."""
    bad = np.any([TESTS[kind](value) for kind in kinds], axis=0)
    place = tuple(int(i) for i in np.argwhere(bad)[0])
    words = " and ".join("NaN" if kind == "nan" else kind for kind in TESTS if kind in kinds)
    return f"{words}: {int(bad.sum())} of {bad.size} elements" + (f", the first at {list(place)}" if place else ""), place


def _given(node: Node, i: int, array: np.ndarray, kinds: set[str]) -> NonFiniteError:
    shown, element = _count(array, kinds)
    what = "a leaf that requires a gradient: look at its start and at the last step"
    if not isinstance(node.inputs[i], Traced):
        what = "a constant: look at the data"
    return NonFiniteError(
        f"{title(node)} was given {shown}, in input {i}, {operand(node.op, i)} {np.shape(array)}.\n"
        f"  Called at {quoted(node.line)}\n  Hint: it is {what}.",
        "input", node, element,
    )  # fmt: skip


def _hint(node: Node, arrays: list) -> str:
    """Why this op has no finite value on these inputs."""
    name, x, last = node.op.name, arrays[0], arrays[-1]
    infinite = [operand(node.op, i) for i, a in enumerate(arrays) if _kinds(a)]
    if infinite:
        return f"{', '.join(infinite)} holds inf, and inf - inf, 0 * inf and inf / inf are NaN"
    if name == "log" and (x < 0).any():
        return "log of a negative number is NaN"
    if name == "log" and (x == 0).any():
        return "log of 0 is -inf; log_softmax takes logarithms of probabilities without passing 0"
    if name == "sqrt" and (x < 0).any():
        return "the square root of a negative number is NaN; rounding may have pushed a 0 below 0"
    if name == "div" and (last == 0).any():
        return "division by 0: 0 / 0 is NaN, anything else / 0 is inf"
    if name == "pow" and (x <= 0).any():
        return "0 to a negative power is inf, a negative number to a fractional power is NaN"
    largest = max((float(np.abs(a).max()) for a in arrays if a.size), default=0.0)
    end = float(np.finfo(node.dtype).max)
    if name == "exp":
        return (f"exp of {largest:.4g} overflows {node.dtype}, which ends at exp of {np.log(end):.4g}; subtract the largest "
                "first, as softmax and logsumexp do")  # fmt: skip
    return f"overflow: the largest input is {largest:.4g}, and {node.dtype} ends at {end:.4g}"


def _look(node: Node | None, i: int, g: Any, share: Any) -> None:
    if node is None or share is None or np.isfinite(share).all():
        return
    arrived = _kinds(g)
    shown, element = _count(np.asarray(g if arrived else share), arrived or _kinds(np.asarray(share)))
    if arrived:
        head = f"The gradient that arrives at {title(node)} {node.shape} holds {shown}"
        hint = "it was passed to backward() or made by a hook, or finite shares of several consumers overflowed in their sum"
    else:
        head = f"The gradient that {title(node)} sends to input {i}, {operand(node.op, i)} {np.shape(share)}, holds {shown}"
        hint = f"its rule divides by 0, multiplies 0 by inf, or overflows on a gradient of {np.abs(g).max():.4g}"
        if any((array == 0).any() for array in node.kept()):
            hint = AT_ZERO.get(node.op.name, hint)
    text = f"{head}.\n  Inputs: {operands(node)}\n  Called at {quoted(node.line)}\n  Hint: {hint}."
    raise NonFiniteError(text, "backward", node, element)
