"""The parameters of one group as one array: what lets an optimizer go through all of them at once.

The parameters are moved into one flat array, and so are their moments: an update is then a few passes over one array in pieces
that fit the cache, whatever the number of parameters. Each parameter remains a view of its part, under its own name and shape.
Gradients are brought in piece by piece, or lie in a row of their own.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from operator import attrgetter, is_
from typing import Any

import numpy as np

from .tensor import Tensor

array_of, grad_of = attrgetter("array"), attrgetter("grad")


class Flat:
    """The parameters of one group as one array, and an array for each moment."""

    def __init__(self, params: list[Tensor], moments: tuple[str, ...]):
        dtypes = {p.dtype for p in params}
        if len(dtypes) != 1:
            raise ValueError(f"the parameters of one group must have one dtype, not {', '.join(sorted(map(str, dtypes)))}")
        self.ends = np.cumsum([p.numel() for p in params]).tolist()
        self.parts = [slice(end - p.numel(), end) for p, end in zip(params, self.ends, strict=True)]
        self.params, self.steps = params, [0] * len(params)
        self.data, *rest = (np.zeros(self.ends[-1], params[0].dtype) for _ in range(1 + len(moments)))
        self.moments = dict(zip(moments, rest, strict=True))
        self.views: list[Any] = [None] * len(params)
        self.adopt()
        self._release()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy, by pickle or deepcopy: its arrays are no views of one another; the next step brings them together again."""
        vars(self).update(state, views=[None] * len(state["params"]))
        self._release()

    def _release(self) -> None:
        """Let gradients lie where they like."""
        self.whole: Any = None
        self.grads: list[Tensor] = []  # the parts of `whole.grad`, if gradients are to lie in a row too
        self.places: list[np.ndarray] = []  # their arrays

    def of(self, params: list[Tensor]) -> bool:
        """Whether these are the parameters, in this order."""
        return len(params) == len(self.params) and all(map(is_, params, self.params))

    def inherit(self, other: Flat) -> None:
        """Take over the moments and the step counts of the parameters that the other one has too."""
        places = {p: i for i, p in enumerate(other.params)}
        for i, p in enumerate(self.params):
            if (j := places.get(p)) is not None:
                self.steps[i] = other.steps[j]
                for name, moment in self.moments.items():
                    moment[self.parts[i]] = other.moments[name][other.parts[j]]

    def adopted(self) -> bool:
        return all(map(is_, map(array_of, self.params), self.views))

    def adopt(self) -> None:
        """Move parameters into the flat array: all at first, later those that somebody gave another array of its dtype."""
        if self.adopted():
            return
        for i, (p, part) in enumerate(zip(self.params, self.parts, strict=True)):
            if p.array is not self.views[i] and p.array.dtype == self.data.dtype:
                self.data[part] = p.array.reshape(-1)
                p.array = self.views[i] = self.data[part].reshape(p.shape)

    def move(self, make: Callable[[int, np.dtype], np.ndarray]) -> None:
        """Move the parameters and their moments to memory that make(size, dtype) gives."""
        self.data, self.views = make(self.data.size, self.data.dtype), [None] * len(self.params)
        self.adopt()
        for name, moment in self.moments.items():
            self.moments[name] = make(moment.size, moment.dtype)
            self.moments[name][...] = moment

    def hold(self, row: np.ndarray) -> None:
        """Have the gradients lie in this row from the next `take` on, as the parameters do in `data`."""
        self.whole = Tensor(self.data)
        self.whole.grad = Tensor(row)
        self.grads = [Tensor(row[part].reshape(p.shape)) for p, part in zip(self.params, self.parts, strict=True)]
        self.places = [*map(array_of, self.grads)]

    def spare(self) -> None:
        """Copy what lies in the row: somebody is about to write there."""
        for p, grad, place in zip(self.params, self.grads, self.places, strict=True):
            if p.grad is grad:
                p.grad = Tensor(grad.array.copy())
            grad.array = place  # somebody may have given it another

    def add(self, gradients: dict[Tensor, np.ndarray]) -> None:
        """Add some parameters' gradients to what lies in the row."""
        for p, grad in zip(self.params, self.grads, strict=True):
            if p in gradients:
                grad.array += gradients[p]

    def take(self, has: list[bool]) -> None:
        """The parameters that have a gradient in the row find it there, with what they had before added to it."""
        for p, grad, there in zip(self.params, self.grads, has, strict=True):
            if there:
                if p.grad is not None:
                    grad.array += p.grad.array
                p.grad = grad

    def in_a_row(self) -> bool:
        """Whether the parameters' gradients are the parts of one row."""
        return (
            bool(self.grads)
            and all(map(is_, map(grad_of, self.params), self.grads))
            and all(map(is_, map(array_of, self.grads), self.places))
        )

    def check(self) -> None:
        """Refuse a step that could not be taken whole."""
        if self.in_a_row() and self.adopted():
            return
        self.check_dtype()
        for p in self.params:
            array, grad = p.array, p.grad
            if grad is None:
                continue
            if not isinstance(grad, Tensor):
                raise TypeError(f"the gradient of a parameter of shape {p.shape} is a {type(grad).__name__}, and no tensor")
            if grad.array.shape != array.shape:
                raise ValueError(f"a gradient of shape {p.grad.shape} for a parameter of shape {p.shape}")

    def check_dtype(self) -> None:
        for p in self.params:
            if p.array.dtype != self.data.dtype:
                raise ValueError(f"a parameter is {p.dtype} now, the optimizer was made for {self.data.dtype}: make a new one")

    def runs(self) -> Iterator[tuple[slice, int]]:
        """(part of the flat arrays, its step count, from 1) for all parameters that have a gradient.

        Neighbours with the same count come as one part. A parameter whose `grad` is None is left out altogether.
        """
        start, stop, count = 0, 0, 0
        if self.in_a_row() and min(self.steps) == (count := max(self.steps)):
            self.steps = [count + 1] * len(self.steps)
            yield slice(0, self.ends[-1]), count + 1
            return
        for i, (p, part) in enumerate(zip(self.params, self.parts, strict=True)):
            if p.grad is None:
                continue
            self.steps[i] += 1
            if (part.start, self.steps[i]) != (stop, count):
                if stop > start:
                    yield slice(start, stop), count
                start, count = part.start, self.steps[i]
            stop = part.stop
        if stop > start:
            yield slice(start, stop), count

    def gradient(self, start: int, stop: int, out: np.ndarray) -> np.ndarray:
        """The gradients of the elements from start to stop, which all have one, copied to the front of `out`."""
        if self.in_a_row():
            out[: stop - start] = self.whole.grad.array[start:stop]
            return out[: stop - start]
        at, i = start, bisect_right(self.ends, start)
        while at < stop:
            first, end = self.parts[i].start, min(self.ends[i], stop)
            out[at - start : end - start] = self.params[i].grad.array.reshape(-1)[at - first : end - first]
            at, i = end, i + 1
        return out[: stop - start]
