"""Which elements: `x[index]`, gather, scatter and their kin, with the meaning that PyTorch gives them.

For nearly every index NumPy means the same. Where it does not, the brackets of a tensor follow PyTorch:

- Integers choose first, then arrays index what is left; NumPy counts the integers among the arrays. In x[0, :, [2, 3]] the
  axis of the list comes last, where the list stands; in NumPy it comes first.
- Bytes (uint8) are a mask, with a warning; in NumPy they are places.
- A short list with a list, a slice, a tensor, None or ... in it is the tuple of its items, with a warning; in NumPy an array.

A step may be negative, as in NumPy; PyTorch refuses. `ops.getitem`, `ops.put` and `ops.unindex` mean what NumPy means.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np

from . import ops
from .dtypes import as_array, bool_, int32, int64
from .engine import Traced

PLAIN = frozenset({int, slice, type(None), type(...)})  # what NumPy takes as it is and as PyTorch does
NUMBERS = frozenset({int, bool})
UNSIGNED = {8: np.uint64, 4: np.uint32}  # read as one of these a negative number is larger than any size
WITHIN_TUPLES = (Traced, np.ndarray, list, tuple, range, slice, type(None), type(...))


class Apart(NamedTuple):
    """An index in two steps: the integers, then the rest. For an index that NumPy would not read in this order."""

    first: tuple
    then: tuple

    def places(self, shape: tuple[int, ...]) -> np.ndarray:
        """Which elements of an array of this shape, counted in its own order."""
        return np.arange(math.prod(shape)).reshape(shape)[self.first][self.then]


def as_index(index: Any) -> Any:
    """What stands in a tensor's brackets, as an index for NumPy, or as two, one after the other. IndexError for fractions."""
    kind = type(index)
    if kind is tuple:
        return index if PLAIN.issuperset(map(type, index)) else _in_order(tuple(map(_part, index)))
    if kind in PLAIN:
        return index
    if kind is list and len(index) < 32 and not NUMBERS.issuperset(map(type, index)):
        if any(isinstance(part, WITHIN_TUPLES) for part in index):
            warnings.warn("x[[a, b]] with lists, slices or tensors in the list is read as x[a, b], as in PyTorch: write that, "
                          "or x[tensor([a, b])] for the places a and b", stacklevel=3)  # fmt: skip
            return as_index(tuple(index))
    return _part(index)


def _part(part: Any) -> Any:
    """One part of an index: lists and tensors as arrays, an integer alone as a number."""
    if type(part) in PLAIN:
        return part
    if isinstance(part, Traced):
        part = part.array
    elif isinstance(part, (list, tuple, range)):
        if not NUMBERS.issuperset(map(type, part)):
            part = [item.array if isinstance(item, Traced) else item for item in part]
        part = np.asarray(part)
        if not part.size:
            part = part.astype(np.intp)
    elif not isinstance(part, np.ndarray):
        return int(part) if isinstance(part, (int, np.integer)) and type(part) is not bool else part
    kind = part.dtype.kind
    if kind not in "biu":
        raise IndexError(f"an index holds integers or booleans, not {part.dtype}: .long() or .bool() converts")
    if kind == "u" and part.dtype.itemsize == 1:
        warnings.warn("an index of bytes (uint8) is a mask, as in PyTorch: say so with .bool(), or make it places with .long()",
                      stacklevel=4)  # fmt: skip
        return part != 0
    return part if part.ndim or kind == "b" else int(part)


def _in_order(index: tuple) -> Any:
    """The index, or two where NumPy would bring an array's axis to the front because of an integer away from the arrays."""
    if int not in map(type, index):
        return index
    numbers = [i for i, part in enumerate(index) if type(part) is int]
    arrays = [i for i, part in enumerate(index) if isinstance(part, (np.ndarray, bool, np.bool_))]
    together = sorted(numbers + arrays)
    if not arrays or together[-1] - together[0] + 1 == len(together):
        return index
    first: list[Any] = []
    for part in index:
        if type(part) is int or part is ...:
            first.append(part)
        elif part is not None:
            is_mask = isinstance(part, (bool, np.bool_)) or (isinstance(part, np.ndarray) and part.dtype == bool_)
            first += [slice(None)] * (np.ndim(part) if is_mask else 1)
    return Apart(tuple(first) if ... in first else (*first, ...), tuple(part for part in index if type(part) is not int))


class Indexed(Traced):
    """The methods of `Tensor` that read elements by their places, or make a copy with other values there.

    The index of a method is of int64 or int32, not negative unless it says so; IndexError where a place does not exist.
    """

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        index = as_index(index)
        if type(index) is Apart:
            return ops.getitem(ops.getitem(self, index=index.first), index=index.then)
        return ops.getitem(self, index=index)

    def gather(self, dim: int, index: Any) -> Any:
        """y[i][j][k] = self[index[i][j][k]][j][k] for dim = 0, and so on. index may be smaller than self off dim."""
        index = _integers("gather", index)
        x = _with_axis(self)
        y = ops.getitem(x, index=_along("gather", x, dim, _with_axis(index)))
        return y if index.ndim else ops.reshape(y, shape=())

    def scatter(self, dim: int, index: Any, src: Any = None, value: Any = None) -> Any:
        """A copy with src, or the number `value`, at the places that gather would read. In one named twice the last stays."""
        x, index = _with_axis(self), _with_axis(_integers("scatter", index))
        if isinstance(src, (Traced, np.ndarray)):
            new = _source("scatter", x, src, index)
        else:
            new = _number("scatter", x, value if src is None else src)
        y = ops.put(x, new, index=_along("scatter", x, dim, index))
        return y if self.array.ndim else ops.reshape(y, shape=())

    def scatter_add(self, dim: int, index: Any, src: Any) -> Any:
        """A copy with src added at the places that gather would read, twice where a place is named twice."""
        x, index = _with_axis(self), _with_axis(_integers("scatter_add", index))
        new, places = _source("scatter_add", x, src, index), _along("scatter_add", x, dim, index)
        y = ops.add(x, ops.unindex(new, index=places, shape=x.array.shape))
        return y if self.array.ndim else ops.reshape(y, shape=())

    def index_select(self, dim: int, index: Any) -> Any:
        """The places along dim that index (n,) names, in its order."""
        x = _with_axis(self)
        y = ops.getitem(x, index=_places_along("index_select", x, dim, index))
        return y if self.array.ndim else ops.reshape(y, shape=())

    def index_add(self, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
        """A copy with alpha * source added at these places along dim, twice where a place is named twice."""
        x, new = _with_axis(self), _with_axis(_alike("index_add", self, source))
        places = _places_along("index_add", x, dim, index)
        shape, wanted = new.array.shape, list(x.array.shape)
        wanted[len(places) - 1] = len(places[-1])
        if shape != tuple(wanted):
            raise ValueError(f"index_add: a source of shape {shape} for places of shape {tuple(wanted)}")
        y = ops.add(x, ops.unindex(new if alpha == 1 else ops.mul(new, alpha), index=places, shape=x.array.shape))
        return y if self.array.ndim else ops.reshape(y, shape=())

    def index_fill(self, dim: int, index: Any, value: Any) -> Any:
        """A copy with value at these places along dim; a negative one is counted from the end."""
        shape = self.array.shape or (1,)
        along, index = ops.axis(dim, len(shape)), _vector("index_fill", index)
        chosen = np.zeros(shape[along], bool)
        try:
            chosen[index] = True
        except IndexError as error:
            raise IndexError(f"index_fill: {error}") from None
        chosen = chosen.reshape([-1 if i == along else 1 for i in range(self.array.ndim)])
        return ops.where(_number("index_fill", self, value), self, condition=chosen)

    def take(self, index: Any) -> Any:
        """Elements of the flattened tensor; a negative place is counted from the end."""
        index = _integers("take", index)
        y = ops.getitem(ops.reshape(self, shape=(-1,)), index=_with_axis(index))
        return y if index.ndim else ops.reshape(y, shape=())

    def masked_select(self, mask: Any) -> Any:
        """The elements where the mask is true, in one axis; mask and tensor are broadcast to one another."""
        mask = as_array(mask)
        if mask.dtype != bool_:
            raise TypeError(f"masked_select: a mask holds booleans, not {mask.dtype}: .bool() makes one")
        try:
            shape = np.broadcast_shapes(self.array.shape, mask.shape)
        except ValueError:
            raise ValueError(f"masked_select: a mask of shape {mask.shape} does not fit {self.array.shape}") from None
        x = self if shape == self.array.shape else ops.expand(self, shape=shape)
        return ops.getitem(x, index=np.broadcast_to(mask, shape))

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
        """Where the place along dim2 is the place along dim1 plus offset: a view, its axis at the end."""
        return ops.diagonal(self, offset=offset, dim1=dim1, dim2=dim2)


# ------------------------------------------------------------------------------------------------ what the methods are given


def _with_axis(x: Any) -> Any:
    """A 0-d tensor or array as one axis of size 1."""
    if isinstance(x, Traced):
        return x if x.array.ndim else ops.reshape(x, shape=(1,))
    return x if x.ndim else x.reshape(1)


def _integers(name: str, index: Any) -> np.ndarray:
    index = as_array(index)
    if index.dtype != int64 and index.dtype != int32:
        raise TypeError(f"{name}: an index is of int64 or int32, not {index.dtype}: .long() makes one")
    return index


def _within(name: str, index: np.ndarray, size: int, dim: int) -> np.ndarray:
    """The index, if every place of it exists."""
    if index.size and index.view(UNSIGNED[index.itemsize]).max() >= size:
        wrong = index[(index < 0) | (index >= size)][0]
        raise IndexError(f"{name}: index {wrong} is out of range for the {size} places along dim {dim}")
    return index


def _vector(name: str, index: Any) -> np.ndarray:
    index = _integers(name, index)
    if index.ndim > 1:
        raise IndexError(f"{name}: an index has one axis, not the shape {index.shape}")
    return index.reshape(-1)


def _places_along(name: str, x: Any, dim: int, index: Any) -> tuple:
    """x[places] is what an index of one axis names along dim."""
    along = ops.axis(dim, x.array.ndim)
    return (*(slice(None),) * along, _within(name, _vector(name, index), x.array.shape[along], along))


def _along(name: str, x: Any, dim: int, index: np.ndarray) -> tuple:
    """x[places] is what gather reads: the index's places along dim, every place's own along the other axes."""
    shape = x.array.shape
    along = ops.axis(dim, len(shape))
    if not index.size:  # names nothing, in whatever shape
        return (index,) * len(shape)
    if index.ndim != len(shape):
        raise ValueError(f"{name}: an index of shape {index.shape} for a tensor of shape {shape}: the ranks must be equal")
    for i, n in enumerate(index.shape):
        if n > shape[i] and i != along:
            raise ValueError(f"{name}: an index of shape {index.shape} is larger than the tensor, {shape}, off dim {along}")
    places = [np.arange(n).reshape([-1 if i == j else 1 for j in range(index.ndim)]) for i, n in enumerate(index.shape)]
    places[along] = _within(name, index, shape[along], along)
    return tuple(places)


def _source(name: str, x: Any, src: Any, index: np.ndarray) -> Any:
    """What of a source goes to the places of an index, which may be smaller."""
    src = _with_axis(_alike(name, x, src))
    if not index.size:
        return ops.reshape(ops.getitem(ops.reshape(src, shape=(-1,)), index=slice(0)), shape=index.shape)
    shape = src.array.shape
    if len(shape) != index.ndim or any(n > m for n, m in zip(index.shape, shape, strict=True)):
        raise ValueError(f"{name}: an index of shape {index.shape} needs a source as large or larger, not {shape}")
    return src if shape == index.shape else ops.getitem(src, index=tuple(map(slice, index.shape)))


def _alike(name: str, x: Any, source: Any) -> Any:
    """A source as a tensor of the dtype of x: an array is converted, a tensor must have it."""
    if isinstance(source, np.ndarray):
        return x.result(source, dtype=x.array.dtype)
    if not isinstance(source, Traced):
        raise TypeError(f"{name} takes a tensor as source, not {source!r}")
    if source.array.dtype != x.array.dtype:
        raise TypeError(f"{name}: a source of {source.array.dtype} for a tensor of {x.array.dtype}: .to(dtype) converts")
    return source


def _number(name: str, x: Any, value: Any) -> Any:
    """A number, or a tensor with one, in the dtype of x."""
    if isinstance(value, Traced) and not value.array.ndim:
        return value if value.array.dtype == x.array.dtype else ops.cast(value, dtype=x.array.dtype)
    if value is None or np.ndim(value):
        raise TypeError(f"{name} takes one number as value, or a 0-d tensor")
    return x.array.dtype.type(value)
