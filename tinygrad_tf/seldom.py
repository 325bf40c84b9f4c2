"""Methods of `Tensor` that programs seldom need, each put together from the frequent ones, under PyTorch's names."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from . import ops
from .activations import erf
from .dtypes import as_array, float64
from .engine import Traced
from .errors import real, shown, tensors, whole
from .in_place import _in_place
from .missing import missing
from .order import Ordered
from .random import source


class Seldom(Ordered):
    """What `Tensor` has besides the methods of its own file."""

    __slots__ = ()

    if not TYPE_CHECKING:  # else every name would be one that is there

        def __getattr__(self, name: str) -> Any:
            """What is not there says what to take instead. Python's own questions, and a slot that is empty, get a plain no."""
            raise AttributeError(name) if name.startswith("_") or name in Traced.__slots__ else missing(self, name)

    # -------------------------------------------------------------------------------------------- functions of one number

    erf, expm1, log2, log10 = erf, ops.expm1, ops.log2, ops.log10

    def tan(self: Any) -> Any:
        return self.sin() / self.cos()

    def logaddexp(self: Any, other: Any) -> Any:
        """ln(e ** x + e ** other)"""
        tensors(other=other)
        self._floats("logaddexp"), other._floats("logaddexp")
        shape = np.broadcast_shapes(self.shape, other.shape)
        return ops.cat(self.expand(1, *shape), other.expand(1, *shape), dim=0).logsumexp(0)

    def mm(self: Any, mat2: Any) -> Any:
        """(m, k), (k, n) -> (m, n)"""
        return _product("mm", 2, self, mat2)

    def bmm(self: Any, mat2: Any) -> Any:
        """(B, m, k), (B, k, n) -> (B, m, n)"""
        return _product("bmm", 3, self, mat2)

    def lerp(self: Any, end: Any, weight: Any) -> Any:
        """self + weight (end - self): from self, this part of the way to end"""
        tensors(end=end)
        return self._floats("lerp") + (end._floats("lerp") - self) * weight

    def addcmul(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
        return self + tensor1 * tensor2 * value

    def addcdiv(self: Any, tensor1: Any, tensor2: Any, *, value: Any = 1) -> Any:
        tensors(tensor1=tensor1, tensor2=tensor2)
        return self._floats("addcdiv") + tensor1._floats("addcdiv") / tensor2 * value

    def clamp_min(self: Any, min: Any) -> Any:
        return self.clamp(min=min)

    def clamp_max(self: Any, max: Any) -> Any:
        return self.clamp(max=max)

    def nan_to_num(self: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Any:
        """Numbers in place of NaN (0) and of the infinities (the largest and the smallest of the dtype)."""
        nan = 0.0 if nan is None else real("nan", nan, -math.inf)
        number = np.nan_to_num(self.array, nan=nan, posinf=posinf, neginf=neginf)
        return ops.where(self, number, condition=np.isfinite(self.array))

    lerp_, addcmul_, addcdiv_ = _in_place(lerp), _in_place(addcmul), _in_place(addcdiv)
    clamp_min_, clamp_max_, nan_to_num_ = _in_place(clamp_min), _in_place(clamp_max), _in_place(nan_to_num)

    # -------------------------------------------------------------------------------------------- shape and places

    def ravel(self: Any) -> Any:
        return self.reshape(-1)

    def reshape_as(self: Any, other: Any) -> Any:
        return self.reshape(other.shape)

    def broadcast_to(self: Any, *size: Any) -> Any:
        return self.expand(*size)

    def unflatten(self: Any, dim: int, sizes: Any) -> Any:
        """One axis as several: (..., n, ...) -> (..., *sizes, ...)"""
        dim, sizes = ops.axis(dim, self.ndim), [whole("a size", n, -1) for n in (sizes if np.iterable(sizes) else (sizes,))]
        if not sizes or sizes.count(-1) > 1 or (-1 not in sizes and math.prod(sizes) != self.shape[dim]):
            raise ValueError(f"unflatten: sizes {tuple(sizes)} do not make up an axis of size {self.shape[dim]}")
        return self.reshape(*self.shape[:dim], *sizes, *self.shape[dim + 1 :])

    def movedim(self: Any, source: Any, destination: Any) -> Any:
        """The axes `source` at the places `destination`; the others stay in their order."""
        before, after = ops.axes(source, self.ndim), ops.axes(destination, self.ndim)
        if len(before) != len(after):
            raise ValueError(f"movedim: axes {before} do not go to places {after}: one place for each")
        dims = [i for i in range(self.ndim) if i not in before]
        for place, dim in sorted(zip(after, before, strict=True)):
            dims.insert(place, dim)
        return self.permute(dims)

    moveaxis = movedim

    def diag(self: Any, diagonal: int = 0) -> Any:
        """(n,) -> a matrix with these numbers on its diagonal, which lies that far right of the main one; back of a matrix."""
        if self.ndim not in (1, 2):
            raise ValueError(f"diag takes a vector or a matrix, not a tensor of shape {self.shape}")
        if self.ndim == 2:
            return self.diagonal(diagonal).clone()
        place, size = np.arange(self.shape[0]), self.shape[0] + abs(diagonal)
        return ops.unindex(self, index=(place + max(-diagonal, 0), place + max(diagonal, 0)), shape=(size, size))

    def trace(self: Any) -> Any:
        if self.ndim != 2:
            raise ValueError(f"trace takes a matrix, not a tensor of shape {self.shape}")
        return self.diag().sum()

    def argwhere(self: Any) -> Any:
        return self.nonzero()

    def unfold(self: Any, dimension: int, size: int, step: int) -> Any:
        """(..., n, ...) -> (..., windows, ..., size)   every window of `size` places along an axis, `step` apart; a copy"""
        dim = ops.axis(dimension, self.ndim)
        if whole("size", size, 0) > self.shape[dim] or whole("step", step) < 1:
            raise ValueError(f"unfold: windows of {size}, {step} apart, do not fit an axis of size {self.shape[dim]}")
        starts = np.arange(0, self.shape[dim] - size + 1, step)
        return self[(slice(None),) * dim + (starts[:, None] + np.arange(size),)].movedim(dim + 1, -1)

    def tril_(self: Any, diagonal: int = 0) -> Any:
        return self._become(self.tril(diagonal))

    def triu_(self: Any, diagonal: int = 0) -> Any:
        return self._become(self.triu(diagonal))

    def fill_diagonal_(self: Any, fill_value: Any) -> Any:
        """fill_value where all indices are equal."""
        if self.ndim < 2 or (self.ndim > 2 and len(set(self.shape)) > 1):
            raise ValueError(f"fill_diagonal_ takes a matrix or a cube, not a tensor of shape {self.shape}")
        return self._become(ops.put(self, fill_value, index=(np.arange(min(self.shape)),) * self.ndim))

    def stride(self: Any, dim: int | None = None) -> Any:
        """How many numbers apart in memory neighbours along each axis are."""
        strides = tuple(s // self.array.itemsize for s in self.array.strides)
        if self.is_contiguous():  # where NumPy is free to say anything for an axis of size 1
            strides = tuple(math.prod(max(n, 1) for n in self.shape[i + 1 :]) for i in range(self.ndim))
        return strides if dim is None else strides[ops.axis(dim, self.ndim)]

    def data_ptr(self: Any) -> int:
        """The address of the first number: tensors that share it share memory."""
        return self.array.__array_interface__["data"][0]

    def ndimension(self: Any) -> int:
        return self.ndim

    # -------------------------------------------------------------------------------------------- products

    def dot(self: Any, tensor: Any) -> Any:
        """(n,), (n,) -> ()"""
        if self.ndim != 1 or self.shape != getattr(tensor, "shape", None):
            raise RuntimeError(f"dot: two vectors of one length, not {shown(self)} and {shown(tensor)}")
        return self @ tensor

    def mv(self: Any, vec: Any) -> Any:
        """(m, n), (n,) -> (m,)"""
        if (self.ndim, getattr(vec, "ndim", None)) != (2, 1):
            raise RuntimeError(f"mv: a matrix and a vector, not {shown(self)} and {shown(vec)}")
        return self @ vec

    def baddbmm(self: Any, batch1: Any, batch2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        """beta * self + alpha * batch1 @ batch2"""
        return self.addmm(batch1, batch2, beta, alpha)

    # -------------------------------------------------------------------------------------------- random numbers

    def multinomial(self: Any, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Any:
        """Indices drawn with these weights, one row of draws a row; weights need not add up to 1."""
        p = self._floats("multinomial").array.astype(float64)
        if not np.isfinite(p).all() or (p < 0).any() or (p.sum(-1) <= 0).any():
            raise ValueError("multinomial: weights must be finite, not negative, and not all zero")
        if not 1 <= p.ndim <= 2 or whole("num_samples", num_samples, 1) > (math.inf if replacement else p.shape[-1]):
            raise ValueError(f"multinomial: {num_samples} draws from weights of shape {p.shape}: weights have one axis or two, "
                             "and replacement=True draws a place more than once")  # fmt: skip
        rng, rows = source(generator), np.atleast_2d(p)
        draws = [rng.choice(rows.shape[1], num_samples, replace=replacement, p=row / row.sum()) for row in rows]
        return self.result(np.asarray(draws).reshape(*p.shape[:-1], num_samples))

    def exponential_(self: Any, lambd: float = 1, *, generator: Any = None) -> Any:
        """Draws from the exponential distribution of mean 1 / lambd."""
        if not real("lambd", lambd, -math.inf) > 0:
            raise ValueError(f"exponential_: lambd is above 0, not {lambd}")
        return self.copy_((source(generator).standard_exponential(self.shape) / lambd).astype(self.dtype))

    def random_(self: Any, low: int = 0, high: int | None = None, *, generator: Any = None) -> Any:
        """Whole numbers from low to high - 1; random_(high) starts from 0."""
        low, high = (0, low) if high is None else (low, high)
        if whole("low", low) >= whole("high", high):
            raise ValueError(f"random_: there is no number from {low} up to {high - 1}")
        return self.copy_(source(generator).integers(low, high, self.shape).astype(self.dtype))

    def bernoulli_(self: Any, p: Any = 0.5, *, generator: Any = None) -> Any:
        """1 with probability p, else 0."""
        shares = as_array(p)
        if not np.all((shares >= 0) & (shares <= 1)):
            raise ValueError("bernoulli_: probabilities lie from 0 to 1")
        return self.copy_((source(generator).random(self.shape) < shares).astype(self.dtype))


def _product(name: str, axes: int, a: Any, b: Any) -> Any:
    """a @ b, where PyTorch takes nothing but so many axes each, and no broadcasting."""
    shapes = np.shape(as_array(a)), np.shape(as_array(b))
    if {len(shape) for shape in shapes} != {axes} or shapes[0][:-2] != shapes[1][:-2]:
        raise ValueError(f"{name}: {shapes[0]} @ {shapes[1]}: it takes two tensors of {axes} axes"
                         f"{'' if axes == 2 else ' and one batch size'}; matmul, or @, takes all others")  # fmt: skip
    return ops.matmul(a, b)
