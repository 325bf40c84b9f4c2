"""Methods of `Tensor` about order and counts: the middle one, the most frequent one, the best so far, how many of each."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from . import ops
from .dtypes import as_array, int64
from .errors import real, whole
from .in_place import InPlace

values_and_indices = namedtuple("values_and_indices", "values indices")


def _along_an_axis(method: Callable) -> Any:
    """A method that gives values and indices, for a 0-d tensor too: that counts as one axis of size 1."""

    @wraps(method)
    def call(self: Any, *args: Any, **settings: Any) -> Any:
        if self.ndim:
            return method(self, *args, **settings)
        return values_and_indices(*(part.reshape(()) for part in method(self.reshape(1), *args, **settings)))

    return call


class Ordered(InPlace):
    """What `Tensor` has of these, under PyTorch's names and with its arguments."""

    __slots__ = ()

    @_along_an_axis
    def kthvalue(self: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
        """(values, indices): the k-th smallest along dim, k from 1."""
        if not 1 <= whole("k", k) <= self.shape[ops.axis(dim, self.ndim)]:
            raise ValueError(f"kthvalue: k={k} of the {self.shape[dim]} numbers along dim {dim}")
        return self._picked(dim, keepdim, self.argsort(dim).narrow(dim, k - 1, 1))

    def median(self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        """The number in the middle, of two the smaller: of all, or (values, indices) along dim; NaN if there is one."""
        if dim is None:
            if not self.numel():
                return self.sum() * math.nan
            whole = self.reshape(-1)
            place = whole._middle(0, False).indices
            return ops.amax(whole[(whole.array == whole.array[place.item()]) | np.isnan(whole.array)])  # ties share the slope
        return self._middle(dim, keepdim)

    @_along_an_axis
    def _middle(self: Any, dim: int, keepdim: bool) -> Any:
        size = self.shape[ops.axis(dim, self.ndim)]
        if not size:
            raise IndexError(f"median: a tensor of shape {self.shape} has no numbers along dim {dim}")
        order = self.argsort(dim)
        bad = np.isnan(self.array).any(ops.axis(dim, self.ndim), keepdims=True)  # NaN is the last in the order
        middle, last = order.narrow(dim, (size - 1) // 2, 1), order.narrow(dim, size - 1, 1)
        return self._picked(dim, keepdim, last.where(bad, middle))

    @_along_an_axis
    def mode(self: Any, dim: int = -1, keepdim: bool = False) -> Any:
        """(values, indices): the number that is there most often along dim, of several the smallest; its last place."""
        along, order = ops.axis(dim, self.ndim), self.argsort(dim)
        if not self.shape[along]:
            raise IndexError(f"mode: a tensor of shape {self.shape} has no numbers along dim {dim}")
        rising = np.take_along_axis(self.array, order.array, along)
        fresh = np.diff(rising, axis=along, prepend=rising.take([0], along)) != 0  # where a new number begins
        count = np.arange(self.shape[along]).reshape([-1 if i == along else 1 for i in range(self.ndim)])
        run = count - np.maximum.accumulate(np.where(fresh, count, 0), axis=along)  # how often it was there before
        return self._picked(dim, keepdim, order.gather(dim, self.result(run.argmax(along, keepdims=True))))

    def _picked(self: Any, dim: int, keepdim: bool, place: Any) -> Any:
        values = self.gather(dim, place)
        return values_and_indices(*((values, place) if keepdim else (values.squeeze(dim), place.squeeze(dim))))

    def cummax(self: Any, dim: int) -> Any:
        """(values, indices): the largest so far along dim, and where it was last."""
        return self._best_so_far(dim, np.maximum)

    def cummin(self: Any, dim: int) -> Any:
        """(values, indices): the smallest so far along dim, and where it was last."""
        return self._best_so_far(dim, np.minimum)

    @_along_an_axis
    def _best_so_far(self: Any, dim: int, better: Any) -> Any:
        along = ops.axis(dim, self.ndim)
        if not self.numel():
            return values_and_indices(self.clone(), self.result(np.zeros(self.shape, int64)))
        best = better.accumulate(self.array, axis=along)
        count = np.arange(self.shape[along]).reshape([-1 if i == along else 1 for i in range(self.ndim)])
        here = (self.array == best) | np.isnan(self.array)
        place = self.result(np.maximum.accumulate(np.where(here, count, 0), axis=along))
        return values_and_indices(self.gather(dim, place), place)

    def cumprod(self: Any, dim: int, dtype: Any = None) -> Any:
        """y_i = x_0 ... x_i along dim, with exact gradients where factors are zero"""
        x = self if dtype is None else self.to(dtype)
        return _scan(x if x.dtype.kind == "f" else x.long(), dim, ops.mul)

    def logcumsumexp(self: Any, dim: int) -> Any:
        """y_i = ln(e ** x_0 + ... + e ** x_i) along dim; nothing overflows"""
        return _scan(self, dim, lambda before, here: before.logaddexp(here))

    def count_nonzero(self: Any, dim: Any = None) -> Any:
        return self.bool().sum(dim)

    def bincount(self: Any, weights: Any = None, minlength: int = 0) -> Any:
        """(n,) -> (largest + 1,), at least minlength   how often each number is there, or the sum of its weights"""
        if self.ndim != 1 or self.dtype.kind not in "iu" or (self.array < 0).any():
            raise ValueError(f"bincount counts integers from 0 on, in one axis, not {self.dtype} of shape {self.shape}")
        if weights is not None and (shape := as_array(weights).shape) != self.shape:
            raise ValueError(f"bincount: weights of shape {shape} for {self.shape[0]} numbers: one for each")
        whole("minlength", minlength, 0)
        w = None if weights is None or not self.numel() else as_array(weights)  # of nothing: integers, as in PyTorch
        count = np.bincount(self.array, w, minlength)
        return self.result(count if w is None or w.dtype.kind != "f" else count.astype(w.dtype))

    def histc(self: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:
        """How many numbers lie in each of the bins of one width from min to max; both 0: from the smallest to the largest."""
        x = self._floats("histc").array.reshape(-1)
        whole("bins", bins, 1), real("min", min, -math.inf), real("max", max, -math.inf)
        if min == max == 0 and x.size:
            min, max = x.min().item(), x.max().item()
        if min == max:
            min, max = min - 1, max + 1
        if not -math.inf < min < max < math.inf:
            raise ValueError(f"histc: bins from {min} to {max}")
        return self.result(np.histogram(x, bins, (min, max))[0].astype(self.dtype))


def _scan(x: Any, dim: int, join: Callable) -> Any:
    """Every beginning of x along dim joined into one number, in log2(n) rounds: after k, y_i joins the last 2^k up to x_i"""
    if not x.ndim:
        return _scan(x.reshape(1), dim, join).reshape(())
    reach, along = 1, ops.axis(dim, x.ndim)
    size = x.shape[along]
    while reach < size:
        joined = join(x.narrow(along, 0, size - reach), x.narrow(along, reach, size - reach))
        x = ops.cat(x.narrow(along, 0, reach), joined, dim=along)
        reach *= 2
    return x.clone() if reach == 1 else x
