"""What a wrong gradient looks like: from two arrays, ours and the right one, to what was probably forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from .engine import unbroadcast

WORDS = {
    "nonfinite": "NaN or inf on one side only: a division by 0, 0 * inf or an overflow inside the rule.",
    "zero": "zeros (or None) where the gradient is not zero: nothing flows to this input.",
    "sign": "the sign is flipped.",
    "elements": "the other elements are right, so look at what is special about these places (an edge, a mask, an index).",
    "order": "the right numbers stand in the wrong places: the rule does not undo the op's order of elements.",
    "unknown": "none of the usual ones; derive the rule again on paper for two elements.",
}


def fitting(given: np.ndarray, shape: tuple[int, ...]) -> np.ndarray | None:
    """A rule's gradient as the engine takes it, summed over broadcast axes; None if it does not fit the input's shape."""
    if given.ndim < len(shape):
        return None
    summed = np.asarray(unbroadcast(given, shape))
    return summed if summed.shape == shape else None


def cause_of(given: np.ndarray, right: np.ndarray, wrong: np.ndarray | None = None, others: Sequence = ()) -> tuple[str, str]:
    """(one word, one sentence) for the gradient `given` where `right` should be.

    wrong: which elements differ; all if None. others: (name, given, right) of the op's other inputs.
    """
    ours = fitting(given, right.shape)
    if ours is None:
        return next(_misplaced(given, right), ("shape", "the rule does not bring the gradient back to the input's shape."))
    wrong = np.ones(right.shape, bool) if wrong is None else wrong
    a, b = ours[wrong], right[wrong]
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return "nonfinite", WORDS["nonfinite"]
    key, text = _scaled(a, b, given.shape, right.shape)
    partly = bool((np.abs(right[~wrong]) > 1e-4).any())  # some elements are right, and not just because they are 0
    if key in ("zero", "sign") and not partly:
        return key, text
    found = [*_misplaced(given, right), *_swapped(ours, right, others)]
    if found:
        return found[0]
    if key == "factor" and not partly:
        return key, text
    if right.size > 1 and _close(np.sort(ours, None), np.sort(right, None)):
        return "order", WORDS["order"]
    if partly:
        return "elements", WORDS["elements"] + (f" There: {text}" if key in ("zero", "sign") or (key and a.size > 1) else "")
    return next(_missing(ours, right), ("unknown", WORDS["unknown"]))


def _close(a: Any, b: Any) -> bool:
    return bool(np.allclose(a, b, rtol=1e-3, atol=1e-5))


def _scaled(a: np.ndarray, b: np.ndarray, given: tuple[int, ...], shape: tuple[int, ...]) -> tuple[str, str]:
    """Whether b is one number times a."""
    if not a.any():
        return "zero", WORDS["zero"]
    c = float(a @ b / (a @ a))
    if not _close(c * a, b) or abs(c) < 1e-3:
        return "", ""
    if abs(c + 1) < 1e-3:
        return "sign", WORDS["sign"]
    if abs(c - 2) < 1e-3:
        return "factor", "half of the gradient: a factor 2 is missing, or the input is used twice and counted once."
    if abs(c - 0.5) < 1e-3:
        return "factor", "twice the gradient: a factor 1/2 is missing, or a use of the input is counted twice."
    sizes = {n: f"the size of axis {i}" for s in (given, shape) for i, n in enumerate(s)}
    sizes[int(np.prod(shape))] = "the number of elements"
    for n, what in sizes.items():
        if n > 1 and abs(c - n) < 1e-3 * n:
            return "factor", f"{n} times too small, and {n} is {what}: a mean stands where a sum belongs."
        if n > 1 and abs(c * n - 1) < 1e-3:
            return "factor", f"{n} times too large, and {n} is {what}: a sum stands where a mean belongs."
    return "factor", f"a constant factor: the right gradient is {c:.4g} times as large."


def _misplaced(given: np.ndarray, right: np.ndarray) -> Iterator[tuple[str, str]]:
    """Transposed, or not summed over the axes that were broadcast."""
    if given.ndim == right.ndim > 1 and given.size > 1 and given.shape == np.swapaxes(right, -1, -2).shape:
        if _close(np.swapaxes(given, -1, -2), right):
            yield "transposed", "the matrix is transposed."
    long = [axis for axis in range(given.ndim) if given.shape[axis] > 1]
    for count in range(1, len(long) + 1):
        for axes in combinations(long, count):
            summed = given.sum(axis=axes)
            if summed.size == right.size and _close(summed.reshape(right.shape), right):
                along = ", ".join(map(str, axes))
                yield "broadcast", (f"the gradient {given.shape} is not summed over axis {along}, along which the op repeats "
                                    f"the input {right.shape}; summed there it is right.")  # fmt: skip


def _swapped(ours: np.ndarray, right: np.ndarray, others: Sequence) -> Iterator[tuple[str, str]]:
    for name, given, truth in others:
        if ours.shape == truth.shape == given.shape and _close(ours, truth) and _close(given, right):
            yield "swapped", f"it is the gradient of {name}, and the other way round: the rules stand in the wrong order."


def _missing(ours: np.ndarray, right: np.ndarray) -> Iterator[tuple[str, str]]:
    """What is missing is the same along an axis: the path by way of a sum over that axis."""
    gap = right - ours
    for axis in range(gap.ndim):
        if gap.shape[axis] > 1 and _close(gap, gap.mean(axis=axis, keepdims=True)):
            yield "missing", (f"one contribution is missing: the difference is the same all along axis {axis}, as when the "
                              "path through a mean or a sum over that axis is forgotten.")  # fmt: skip
