"""The gradients of a batch, slice by slice: one after the other to save memory, one on each thread to save time."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from .data import IGNORE
from .dtypes import as_array
from .engine import state
from .higher import leaf_gradients
from .random import apart, catch_up
from .tensor import Tensor
from .threads import count, in_parts, on_threads


def kept(y: np.ndarray) -> int:
    """How many targets count."""
    return int(np.count_nonzero(y != IGNORE))


def add_gradients(model: Any, x: np.ndarray, y: np.ndarray, parts: int) -> float:
    """ids x, targets y (B, T) -> mean loss   adds the gradients of the whole batch, computed in `parts` slices of it.

    model.loss(x, y) gives the mean loss of some sequences. Each slice counts by its kept targets (those that are not IGNORE):
    the sum is the gradient of the one big batch. A step draws all its sequences at once: there is no incomplete window.
    Inside `threads.parts` a slice is divided again, among the threads.
    """
    x, y = as_array(x), as_array(y)
    if parts < 1 or len(x) != len(y):
        raise ValueError(f"{parts} parts of {len(x)} sequences and {len(y)} targets: parts are at least 1, and targets as many")
    number = max(1, kept(y))
    if parts == 1:
        return _add(model, x, y, number)
    return sum(_add(model, *part, number) for part in zip(np.array_split(x, parts), np.array_split(y, parts), strict=True))


def _add(model: Any, x: np.ndarray, y: np.ndarray, number: int) -> float:
    """One slice. Threads that share its sequences go through all layers without waiting for each other.

    To divide every op among them instead takes longer: each op waits for the slower half, and Python for both. Dropout is drawn
    for each share from a part of the stream that is its own, so with another number of threads the zeros fall elsewhere.
    """
    shares = min(count(), len(x))
    parameters = [p for p in model.parameters() if p.requires_grad] if shares > 1 else []
    if shares < 2 or state.observer is not None or any(p.hooks for p in parameters):
        loss = _loss(model, x, y, number)
        loss.backward()
        return loss.item()

    replaying = state.replaying and len(x) % shares == 0  # which records a model for one shape

    def share(i: int) -> tuple[float, list[Any], Any]:
        before, state.replaying = state.replaying, replaying  # a thread has a state of its own
        try:
            with apart(i) as copies:
                loss = _loss(model, xs[i], ys[i], number)
                found = leaf_gradients(loss)
                return loss.item(), [found.get(p) for p in parameters], copies
        finally:
            state.replaying = before

    xs, ys = np.array_split(x, shares), np.array_split(y, shares)
    losses, gradients, copies = zip(*on_threads(share, range(shares)), strict=True)
    catch_up(copies[0])
    in_parts(_give, parameters, *gradients, numbers=sum(p.numel() for p in parameters))
    return sum(losses)


def _loss(model: Any, x: np.ndarray, y: np.ndarray, number: int) -> Tensor:
    loss, share = model.loss(x, y), kept(y) / number
    return loss if share == 1 else loss * share


def _give(parameters: list[Tensor], *gradients: list[np.ndarray | None]) -> None:
    """Add to each parameter's gradient what every share has for it."""
    for p, *given in zip(parameters, *gradients, strict=True):
        found = [g for g in given if g is not None]
        if not found:
            continue
        total = reduce(np.add, found) if len(found) > 1 else found[0].copy()  # in memory of its own: rules may share arrays
        if p.grad is None:
            p.grad = Tensor(total)
        else:
            p.grad.array += total
