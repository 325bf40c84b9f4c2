"""Changes in place: `x += b`, `x[i] = b` and the methods that end in `_`, with the gradients of the forms that copy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from . import ops
from .dtypes import as_array
from .engine import Traced, note_write, origin_of, owner, state
from .errors import called, describe, real
from .indexing import Apart, Indexed, as_index
from .random import source as random_source


def _in_place(method: Callable) -> Any:
    """A method whose result takes the place of the tensor it is called on.

    Where backward needs the values that were there, the method runs on a copy of them.
    """

    def change(self: Any, *args: Any, **kwargs: Any) -> Any:
        out = method(self, *args, **kwargs)
        if out.node is not None and _keeps(out.node, owner(self.array)):
            out = method(_before(self), *args, **kwargs)
        return self._become(out)

    return change


def _keeps(node: Any, memory: np.ndarray) -> bool:
    """Whether the rule of a node keeps something that lies in this memory, or will when a checkpoint makes it again."""
    kept = getattr(node.rule, "memory", None)
    return any(owner(array) is memory for array in node.kept()) if kept is None else id(memory) in kept


def _before(x: Any) -> Any:
    """What x is before a change: its values in memory of their own, and its history."""
    copy = x.result(x.array.copy())
    copy.node, copy.requires_grad = x.node, x.requires_grad
    return copy


def _twin(name: str) -> Any:
    """The change in place that goes with the method of this name, whatever that is made of."""

    def change(self: Any, *args: Any, **settings: Any) -> Any:
        x = _before(self) if state.recording and self.requires_grad else self
        return self._become(getattr(x, name)(*args, **settings))

    return change


def _reshaping(name: str) -> Any:
    """The same for a method that shows the same memory in another shape: the tensor itself takes that shape."""

    def change(self: Any, *dims: Any) -> Any:
        if self.requires_grad and (self.node is None) == state.recording:
            raise RuntimeError(LEAF if state.recording else f"{name}_ outside the graph of a tensor inside it: detach() first")
        out = getattr(self, name)(*dims)
        self.array = out.array
        if out.node is not None:
            self._continue(out)
        return self

    return change


LEAF = "a leaf that requires a gradient cannot be changed in place: use no_grad() or a new tensor"


class InPlace(Indexed):
    """The methods of `Tensor` that keep its memory and change what is in it.

    Each is the form that makes a new tensor, computed first; then `_become` takes over its values and its history. So a
    change in place has no derivative of its own.
    """

    __slots__ = ()

    # the forms that make a new tensor, which `Tensor` has
    item: Callable[..., Any]
    clamp: Callable[..., Any]
    masked_fill: Callable[..., Any]

    def _tracks(self, *others: Any) -> bool:
        """Whether a change in place has to be recorded."""
        return state.recording and (self.requires_grad or any(isinstance(o, Traced) and o.requires_grad for o in others))

    def _check_writable(self) -> None:
        if not self.array.flags.writeable:
            raise ValueError("the memory of this tensor is read-only (expand() shows one number in many places): clone() first")

    def _become(self, out: Any) -> Self:
        """Take the values and the history of `out`, in this tensor's own memory.

        A view's change is one of the tensor that it is a view of: that gets the history of a put, and the view is taken anew.
        """
        if out.shape != self.array.shape:
            raise ValueError(f"an in-place change cannot turn shape {self.array.shape} into {out.shape}")
        if not np.can_cast(out.array.dtype, self.array.dtype, "same_kind"):
            raise TypeError(f"{called()}a result of {out.array.dtype} cannot be cast to {self.array.dtype}, which an in-place "
                            "change keeps: x = x + y makes a new tensor, .float() converts first")  # fmt: skip
        self._check_writable()
        base: Any = self if self.base is None else self.base
        recorded = state.recording and (out.requires_grad or self.requires_grad)
        if recorded:
            if base.node is None and base.requires_grad:
                raise RuntimeError(LEAF)
            if any(view is not None and view is not self for view in (reference() for reference in base.views)):
                raise RuntimeError(
                    "this tensor shares its memory with another (a view) that is still in use: changing it in place while "
                    "gradients are recorded is refused. Use the form that makes a new tensor, or clone() first"
                )
        np.copyto(self.array, out.array, casting="same_kind")
        if recorded and base is not self:
            places = (_places(base.array, self.array),)
            base._continue(ops.put(base.reshape(-1), out, index=places).reshape(base.shape))
            out = ops.getitem(base.reshape(-1), index=places)
        if recorded:
            self._continue(out)
        note_write(self, recorded=self.node is not None and self.node is out.node)
        return self

    def _continue(self, out: Any) -> None:
        """Take the history of `out`."""
        before = self.node
        if before is not None and before.watchers and out.node is not None:
            # retain_grad is about the tensor as it is at the end, a hook about the value that it was put on
            out.node.watchers = [watch for watch in before.watchers if watch.__name__ == "keep"]
            before.watchers = [watch for watch in before.watchers if watch.__name__ != "keep"]
        self.node, self.requires_grad = out.node, out.requires_grad

    __iadd__, __ipow__, relu_ = _in_place(ops.add), _in_place(ops.pow), _in_place(ops.relu)
    __isub__, __itruediv__ = _in_place(ops.sub), _in_place(ops.div)
    mul_ = multiply_ = __imul__ = _in_place(ops.mul)
    div_ = divide_ = true_divide_ = _twin("div")
    pow_, neg_, exp_, log_, sqrt_ = (_in_place(f) for f in (ops.pow, ops.neg, ops.exp, ops.log, ops.sqrt))
    abs_, tanh_, sigmoid_ = _in_place(ops.abs), _in_place(ops.tanh), _in_place(ops.sigmoid)
    log1p_, sin_, cos_ = _in_place(ops.log1p), _in_place(ops.sin), _in_place(ops.cos)
    square_, rsqrt_ = _in_place(lambda x: ops.mul(x, x)), _in_place(lambda x: ops.div(1.0, ops.sqrt(x)))
    reciprocal_, negative_ = _in_place(lambda x: ops.div(1.0, x)), neg_
    floor_, ceil_, round_, trunc_, sign_ = (_twin(name) for name in ("floor", "ceil", "round", "trunc", "sign"))
    erf_, expm1_, tan_, log2_, log10_ = (_twin(name) for name in ("erf", "expm1", "tan", "log2", "log10"))
    cumsum_, cumprod_, remainder_ = _twin("cumsum"), _twin("cumprod"), _twin("remainder")
    __imod__, floor_divide_ = remainder_, _twin("floor_divide")
    __ifloordiv__ = floor_divide_
    __iand__, __ior__, __ixor__ = _twin("__and__"), _twin("__or__"), _twin("__xor__")
    addmm_, baddbmm_ = _twin("addmm"), _twin("baddbmm")
    unsqueeze_, squeeze_, t_ = _reshaping("unsqueeze"), _reshaping("squeeze"), _reshaping("t")
    transpose_ = swapaxes_ = _reshaping("transpose")

    def detach_(self) -> Self:
        """Leave the graph, as a state that is carried on does where backpropagation through time is cut."""
        origin = origin_of(self)
        self.node = self.base = None
        self.requires_grad = False
        if origin is not None:
            self.origin = origin
        return self

    def clamp_(self, min: Any = None, max: Any = None) -> Self:
        return self._become(self.clamp(min, max))

    clip_ = clamp_

    def masked_fill_(self, mask: Any, value: Any) -> Self:
        return self._become(self.masked_fill(mask, value))

    def index_add_(self, dim: int, index: Any, source: Any, alpha: Any = 1) -> Self:
        return self._become(self.index_add(dim, index, source, alpha))

    def index_fill_(self, dim: int, index: Any, value: Any) -> Self:
        return self._become(self.index_fill(dim, index, value))

    def scatter_(self, dim: int, index: Any, src: Any = None, value: Any = None) -> Self:
        return self._become(self.scatter(dim, index, src, value))

    def scatter_add_(self, dim: int, index: Any, src: Any) -> Self:
        return self._become(self.scatter_add(dim, index, src))

    def add_(self, other: Any, alpha: Any = 1) -> Self:
        return self._become(ops.add(self, other if alpha == 1 else alpha * other))

    def sub_(self, other: Any, alpha: Any = 1) -> Self:
        return self._become(ops.sub(self, other if alpha == 1 else alpha * other))

    subtract_ = sub_

    def zero_(self) -> Self:
        return self.fill_(0)

    def fill_(self, value: Any) -> Self:
        return self._become(ops.put(self, value, index=...))

    def copy_(self, source: Any) -> Self:
        source = source if isinstance(source, Traced) else self.result(source)
        if source.array.ndim > self.array.ndim:
            raise ValueError(f"copy_: a source of shape {source.array.shape} is not broadcast into shape {self.array.shape}")
        return self._become(ops.put(self, source, index=...))

    def normal_(self, mean: Any = 0.0, std: Any = 1.0, generator: Any = None) -> Self:
        real("mean", mean, -math.inf), real("std", std)
        draw: Any = random_source(generator).normal(mean, std, self.array.shape)
        return self.copy_(draw.astype(self.array.dtype))

    def uniform_(self, low: Any = 0.0, high: Any = 1.0, generator: Any = None) -> Self:
        if real("low", low, -math.inf) > real("high", high, -math.inf):
            raise RuntimeError(f"uniform_: there is no number from {low} up to {high}")
        draw: Any = random_source(generator).uniform(low, high, self.array.shape)
        return self.copy_(draw.astype(self.array.dtype))

    def __setitem__(self, index: Any, value: Any) -> None:
        index = as_index(index)
        if not self._tracks(value):
            self._check_writable()
            array = self.array
            if type(index) is Apart:
                array, index = array[index.first], index.then
            try:
                if type(value) in (bool, int, float):
                    array[index] = value
                else:
                    ops.store(array, index, as_array(value))
            except (ValueError, IndexError) as error:
                raise describe(error, "put", (self, value), {"index": index}, state.scope) from error
            note_write(self, recorded=False)
        elif type(index) is Apart:
            flat, shape = ops.reshape(self, shape=(-1,)), self.array.shape
            out = ops.reshape(ops.put(flat, value, index=index.places(shape)), shape=shape)
            del flat  # a view of this tensor, which in use would be in the way
            self._become(out)
        elif not (isinstance(value, Traced) and value.base is not None and _is_at(value.array, self.array, index)):
            self._become(ops.put(self, value, index=index))


def _is_at(value: np.ndarray, array: np.ndarray, index: Any) -> bool:
    """Whether this is the very memory of array[index], as in `x[i] += y`: the sum is there before it is assigned."""
    place = array[index]
    if isinstance(place, np.generic):  # a number: as a 0-d view
        place = array[(*index, ...) if isinstance(index, tuple) else (index, ...)]
    where = [(a.__array_interface__["data"][0], a.shape, a.strides) for a in (value, place)]
    return where[0] == where[1]


def _places(base: np.ndarray, view: np.ndarray) -> np.ndarray:
    """Which elements of `base`, counted in its own order, each element of a view of it is."""

    def addresses(array: np.ndarray) -> np.ndarray:
        found = np.asarray(array.__array_interface__["data"][0])
        for n, stride in zip(array.shape, array.strides, strict=True):
            found = np.add.outer(found, np.arange(n) * stride)
        return found

    own = addresses(base).reshape(-1)
    order = np.argsort(own)
    return order[np.searchsorted(own[order], addresses(view))]
