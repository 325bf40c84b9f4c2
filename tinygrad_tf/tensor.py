"""`Tensor`: an array, its gradient, and the node that made it. Every method is one call of an op, under PyTorch's name."""

from __future__ import annotations

import builtins
import math
import warnings
import weakref
from collections.abc import Callable, Iterator
from functools import wraps
from operator import index
from typing import Any

import numpy as np

from . import fused, higher, ops
from .device import CPU, KINDS, on_cpu
from .device import device as Device
from .dtypes import as_array, as_condition, bool_, float16, float32, float64, int8, int16, int32, int64, uint8
from .engine import Traced, note_write, origin_of, promote, recast, state
from .errors import called, describe, shown, whole
from .order import values_and_indices
from .printing import numbers
from .seldom import Seldom


def _number(x: Any) -> Any:
    return x.array if isinstance(x, Traced) else x


def _constant(function: Callable, alike: builtins.bool = False, foreign: Any = None) -> Any:
    """A NumPy function as a method that carries no gradient.

    `alike`: its operands meet in one dtype as those of an op do, so that a 0-d float64 does not make float32 numbers unequal.
    `foreign`: what it answers beside None or a string.
    """

    def method(*inputs: Any) -> Tensor:
        if foreign is not None and (inputs[-1] is None or isinstance(inputs[-1], str)):
            return foreign
        try:
            arrays = [*map(_number, inputs)]
            return Tensor(np.asarray(function(*(promote(inputs, arrays) if alike else arrays))))
        except (TypeError, ValueError) as error:
            raise describe(error, function.__name__, inputs, {}, state.scope) from error

    return method


def _flat(function: Callable) -> Any:
    """A NumPy function of slope 0 as a method."""

    def method(self: Tensor, **settings: Any) -> Tensor:
        return ops.where(Tensor(function(self.array, **settings)), self, condition=np.True_)  # self is never chosen

    return method


def _rounded_once(method: Callable) -> Any:
    """A method on floats whose intermediate results float16 cannot hold: it computes in float32."""

    @wraps(method)
    def wide(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return method(self.float(), *args, **kwargs).half() if self.dtype == float16 else method(self, *args, **kwargs)

    return wide


def _reflected(method: Callable) -> Any:
    """The same with its operands exchanged, for a tensor on the right of the operator."""
    return lambda self, other: method(other, self)


def _dividing(function: Callable) -> Callable:
    """function(a, b), with an error of its own for integers divided by 0, for which NumPy answers 0"""

    def method(a: Any, b: Any) -> Tensor:
        x, y = promote((a, b), [_number(a), _number(b)])
        if np.result_type(x, y).kind != "f" and np.size(x) and not np.all(y):
            raise ZeroDivisionError("integers divided by 0")
        return function(a, b)

    return method


_floor_divide, _remainder = _dividing(_constant(np.floor_divide, alike=True)), _dividing(ops.remainder)


class RemovableHandle:
    """What registering a hook returns: `remove()`, or a call, takes the hook away again; once more does no harm."""

    __slots__ = ("remove",)

    def __init__(self, remove: Callable[[], None]):
        self.remove = remove

    def __call__(self) -> None:
        self.remove()


class Tensor(Seldom):
    """An n-dimensional array that remembers how it was computed.

    `Tensor(data, requires_grad=False, dtype=None)` shares the memory of a NumPy array, and that of another tensor, but not
    its graph, like `detach()`; `tensor(data)` copies.
    `array` is the NumPy array, `grad` the gradient (a Tensor, or None before backward).

    A change in place (`x += b`, `x[i] = b`, methods that end in `_`) keeps the memory: every other name of this tensor sees the
    new value, and the gradient is that of the form that makes a new tensor. It is an error for a leaf that requires a gradient,
    and where it has to be recorded for memory that a view shares; backward refuses where it needs a value that is gone.
    """

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: builtins.bool = False, dtype: Any = None):
        self.array = as_array(data, dtype)
        self.grad, self.node, self.hooks, self.base, self.views = None, None, None, None, ()
        self.requires_grad = False
        if isinstance(data, Traced) and (origin := origin_of(data)) is not None:
            self.origin = origin
        if requires_grad:
            self.requires_grad_()

    # -------------------------------------------------------------------------------------------- what it is

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def device(self) -> Device:
        return CPU

    @property
    def is_cuda(self) -> builtins.bool:
        return False

    @property
    def grad_fn(self) -> Any:
        """The node that made this tensor; None for a leaf."""
        return self.node

    @property
    def is_leaf(self) -> builtins.bool:
        return self.node is None

    @property
    def data(self) -> Tensor:
        """The same memory, outside the graph. Setting it replaces the values; shape and dtype must stay."""
        return self.detach()

    @data.setter
    def data(self, value: Any) -> None:
        array = as_array(value)
        if array is not self.array:
            if array.shape != self.shape:
                raise ValueError(f"data of shape {array.shape} cannot replace data of shape {self.shape}")
            self.array = recast(array, self.dtype)
            note_write(self, recorded=False)

    def dim(self) -> int:
        return self.array.ndim

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[ops.axis(dim, self.ndim)]

    def numel(self) -> int:
        return self.array.size

    nelement = numel

    def element_size(self) -> int:
        return self.array.itemsize

    def item(self) -> Any:
        """The one element, as a Python number."""
        if self.array.size != 1:
            raise ValueError(f"item() of a tensor of shape {self.shape}: it takes exactly one element")
        return self.array.item()

    def numpy(self) -> np.ndarray:
        """The NumPy array, sharing memory. A tensor that requires a gradient must be detached first."""
        if self.requires_grad:
            raise RuntimeError("numpy() of a tensor that requires a gradient would leave the graph: use .detach().numpy()")
        return self.array

    def tolist(self) -> Any:
        return self.array.tolist()

    def is_floating_point(self) -> builtins.bool:
        return self.dtype.kind == "f"

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("a 0-d tensor has no len(): item() is its one number")
        return len(self.array)

    def __iter__(self) -> Iterator[Tensor]:
        if not self.ndim:
            raise TypeError("a 0-d tensor cannot be iterated")
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        text = numbers(self.array)
        if not self.array.size and self.ndim != 1:
            text += f", size={self.shape}"
        if self.dtype not in (float32, int64, bool_) or (not self.array.size and self.dtype != float32):
            text += f", dtype={self.dtype}"
        if self.node is not None:
            text += f", grad_fn=<{self.node.op.name}>"
        elif self.requires_grad:
            text += ", requires_grad=True"
        return f"tensor({text})"

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec or not self.ndim else str(self)

    def __bool__(self) -> builtins.bool:
        if self.array.size != 1:
            raise ValueError(f"a tensor of shape {self.shape} is neither true nor false: take .any() or .all(), & for `and`")
        return builtins.bool(self.item())

    def __float__(self) -> float:
        return float(self._as_number())

    def __int__(self) -> int:
        return int(self._as_number())

    def _as_number(self) -> Any:
        """What NumPy asks for to store a tensor into an array: then the gradient is lost, so that is said, as in PyTorch."""
        instead = "stack() or cat() put tensors together, item() is for a number to look at"
        if self.array.size != 1:
            raise ValueError(f"a tensor of shape {self.shape} is no single number, which takes exactly one element: {instead}")
        if self.requires_grad and state.recording:
            warnings.warn(f"a tensor that requires a gradient becomes a number without one: {instead}", stacklevel=3)
        return self.array.item()

    def __index__(self) -> int:
        if self.dtype.kind not in "iub":
            raise TypeError(f"only an integer tensor can be an index, not {self.dtype}")
        return int(self.item())

    def __contains__(self, value: Any) -> builtins.bool:
        return builtins.bool((self.array == as_array(value)).any())

    __hash__ = Traced.__hash__  # by identity: a class that defines == has none of its own

    def __deepcopy__(self, memo: dict) -> Tensor:
        if self.node is not None:
            raise RuntimeError("only leaf tensors can be deep-copied: detach() first")
        out = type(self)(self.array.copy(), requires_grad=self.requires_grad)
        out.grad = None if self.grad is None else self.grad.clone()
        memo[id(self)] = out
        return out

    # -------------------------------------------------------------------------------------------- the graph

    def requires_grad_(self, requires_grad: builtins.bool = True) -> Tensor:
        """Ask for a gradient (or stop asking). Leaves of a float dtype only."""
        if requires_grad and self.dtype.kind != "f":
            raise RuntimeError(f"only tensors of a float dtype can require a gradient, not {self.dtype}")
        if self.node is not None and not requires_grad:
            raise RuntimeError("an intermediate tensor always requires a gradient: use detach() for one that does not")
        self.requires_grad = requires_grad
        return self

    def backward(self, gradient: Any = None, retain_graph: builtins.bool = False, create_graph: builtins.bool = False,
                 inputs: Any = None) -> None:
        """Add the gradient of this tensor to `grad` of every leaf it depends on.

        gradient: what arrives from above, of exactly this tensor's shape; ones if this tensor has one element.
        The graph is freed on the way unless `retain_graph`; a second backward on a freed graph is an error, on a kept one it
        adds the same gradients again. `create_graph` records the backward pass, for higher derivatives. `inputs`: the leaves
        whose `grad` it adds to, where not all of them should change.
        """
        leaves = None if inputs is None else [inputs] if isinstance(inputs, Tensor) else list(inputs)
        higher.backward(self, higher.seed_for(self, gradient), retain_graph or create_graph, create_graph, leaves)

    def detach(self) -> Tensor:
        """The same memory, outside the graph."""
        return Tensor(self)

    def retain_grad(self) -> None:
        """Keep the gradient of this intermediate tensor in `grad` when backward passes through."""
        if self.node is None:
            return
        reference = weakref.ref(self)

        def keep(g: Any) -> None:
            tensor = reference()
            if tensor is not None:
                g = g if isinstance(g, Traced) else Tensor(np.array(g))
                tensor.grad = g if tensor.grad is None else tensor.grad + g

        watchers = self.node.watchers or ()
        if not builtins.any(watch.__name__ == "keep" for watch in watchers):
            self.node.watchers = [*watchers, keep]

    def register_hook(self, hook: Callable) -> RemovableHandle:
        """Call `hook(gradient)` in backward; what it returns, if anything, replaces the gradient.

        Hooks run in the order of registration, then `retain_grad` keeps what they made of the gradient.
        """
        if not self.requires_grad:
            raise RuntimeError("a hook needs a tensor that requires a gradient")

        def call(g: Any) -> Any:
            answer = hook(g if isinstance(g, Traced) else Tensor(g))
            return answer.array if isinstance(answer, Traced) and not isinstance(g, Traced) else answer

        holder, field = (self, "hooks") if self.node is None else (self.node, "watchers")
        hooks = [*(getattr(holder, field) or ()), call]
        setattr(holder, field, sorted(hooks, key=lambda hook: hook.__name__ == "keep"))
        reference = weakref.ref(holder)  # whoever keeps the remover does not keep the graph

        def remove() -> None:
            holder = reference()
            if holder is not None:
                setattr(holder, field, [hook for hook in getattr(holder, field) if hook is not call])

        return RemovableHandle(remove)

    # -------------------------------------------------------------------------------------------- NumPy meets Tensor

    def __array__(self, dtype: Any = None, copy: builtins.bool | None = None) -> np.ndarray:
        if self.requires_grad:
            raise RuntimeError("NumPy would take this tensor out of the graph: use stack() or cat(), or x.detach() first")
        array = self.array if dtype is None else self.array.astype(dtype, copy=False)
        return array.copy() if copy else array

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs.get("out") is not None:
            raise TypeError("a Tensor cannot be written into a NumPy array: use stack() or cat(), or x.detach().numpy()")
        if ufunc in UFUNCS and not kwargs:
            return UFUNCS[ufunc](*inputs)
        if ufunc not in FLAT and state.recording and builtins.any(isinstance(x, Traced) and x.requires_grad for x in inputs):
            raise TypeError(f"numpy.{ufunc.__name__} here would lose the gradient: use methods of Tensor, or x.detach()")
        plain = ufunc(*(x.array if isinstance(x, Traced) else x for x in inputs), **kwargs)
        return Tensor(plain) if isinstance(plain, (np.ndarray, np.generic)) else plain

    def __array_function__(self, function: Any, types: Any, args: tuple, kwargs: dict) -> Any:
        if function in ops.FUNCTIONS:
            return ops.FUNCTIONS[function](*args, **kwargs)
        raise TypeError(f"numpy.{function.__name__} does not take a Tensor: use the method of that name, or x.detach().numpy()")

    # -------------------------------------------------------------------------------------------- arithmetic and comparison
    # A method that is one op is that op itself: Tensor.exp is ops.exp, its shape line is the method's docstring.

    add = __add__ = ops.add
    sub = __sub__ = subtract = ops.sub
    mul = __mul__ = multiply = ops.mul
    __truediv__ = true_divide = ops.div
    pow = __pow__ = ops.pow
    matmul = __matmul__ = ops.matmul
    neg = __neg__ = negative = ops.neg
    abs = __abs__ = ops.abs
    floor_divide = __floordiv__ = _floor_divide
    remainder = __mod__ = _remainder

    __radd__, __rsub__, __rmul__ = _reflected(ops.add), _reflected(ops.sub), _reflected(ops.mul)
    __rtruediv__, __rpow__, __rmatmul__ = _reflected(ops.div), _reflected(ops.pow), _reflected(ops.matmul)
    __rfloordiv__, __rmod__ = _reflected(_floor_divide), _reflected(_remainder)

    eq = __eq__ = _constant(np.equal, alike=True, foreign=NotImplemented)
    ne = __ne__ = _constant(np.not_equal, alike=True, foreign=NotImplemented)
    lt = __lt__ = _constant(np.less, alike=True)
    le = __le__ = _constant(np.less_equal, alike=True)
    gt = __gt__ = _constant(np.greater, alike=True)
    ge = __ge__ = _constant(np.greater_equal, alike=True)
    __and__ = __rand__ = _constant(np.bitwise_and)
    __or__ = __ror__ = _constant(np.bitwise_or)
    __xor__ = __rxor__ = _constant(np.bitwise_xor)
    logical_not, bitwise_not = _constant(np.logical_not), _constant(np.invert)
    __invert__ = bitwise_not
    logical_and, logical_or, logical_xor = _constant(np.logical_and), _constant(np.logical_or), _constant(np.logical_xor)
    isnan, isinf, isfinite = _constant(np.isnan), _constant(np.isinf), _constant(np.isfinite)

    def __pos__(self) -> Tensor:
        return self

    def div(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """self / other; rounded down with rounding_mode="floor", towards 0 with "trunc", both of slope 0."""
        if rounding_mode is None:
            return ops.div(self, other)
        if rounding_mode not in ("floor", "trunc"):
            raise ValueError(f'div: rounding_mode is None, "floor" or "trunc", not {rounding_mode!r}')
        whole = _floor_divide(self, other)
        if whole.dtype.kind != "f":
            return whole if rounding_mode == "floor" else whole + ((whole < 0) & (whole * other != self))
        return ops.where(whole, self, condition=np.True_) if rounding_mode == "floor" else ops.div(self, other).trunc()

    divide = div

    def all(self, dim: Any = None, keepdim: builtins.bool = False) -> Tensor:
        return self._truth(np.all, dim, keepdim)

    def any(self, dim: Any = None, keepdim: builtins.bool = False) -> Tensor:
        return self._truth(np.any, dim, keepdim)

    def _truth(self, function: Callable, dim: Any, keepdim: builtins.bool) -> Tensor:
        found = np.asarray(function(self.array, axis=ops.axes(dim, self.ndim), keepdims=keepdim))
        return Tensor(found.astype(uint8) if self.dtype == uint8 else found)  # bytes were PyTorch's booleans once

    def isclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: builtins.bool = False) -> Tensor:
        try:
            return Tensor(np.isclose(self.array, as_array(other), rtol, atol, equal_nan))
        except ValueError as error:
            raise describe(error, "isclose", (self, other), {}, state.scope) from error

    def equal(self, other: Tensor) -> builtins.bool:
        return builtins.bool(np.array_equal(self.array, as_array(other)))

    def allclose(self, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: builtins.bool = False) -> builtins.bool:
        return builtins.bool(self.isclose(other, rtol, atol, equal_nan).array.all())

    # -------------------------------------------------------------------------------------------- functions of one number

    exp, log, log1p, sqrt, sin, cos, tanh = ops.exp, ops.log, ops.log1p, ops.sqrt, ops.sin, ops.cos, ops.tanh
    sigmoid, relu, maximum, minimum, clone = ops.sigmoid, ops.relu, ops.maximum, ops.minimum, ops.clone
    sign, floor, ceil, round, trunc = (_flat(f) for f in (np.sign, np.floor, np.ceil, np.round, np.trunc))

    def rsqrt(self) -> Tensor:
        return 1.0 / self.sqrt()

    def reciprocal(self) -> Tensor:
        return 1.0 / self

    def addmm(self, mat1: Tensor, mat2: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """beta * self + alpha * mat1 @ mat2"""
        product = mat1 @ mat2
        if product.dtype != self.dtype:
            raise TypeError(f"addmm: a product of dtype {product.dtype} beside dtype {self.dtype}: .to(dtype) converts")
        return beta * self + alpha * product

    def outer(self, vec2: Tensor) -> Tensor:
        """(m,), (n,) -> (m, n)   every product"""
        if self.ndim != 1 or np.ndim(_number(vec2)) != 1:
            raise ValueError(f"outer: two vectors, not {shown(self)} and {shown(vec2)}")
        return self.unsqueeze(1) * vec2.unsqueeze(0)

    def square(self) -> Tensor:
        return self * self

    def clamp(self, min: Any = None, max: Any = None) -> Tensor:
        """At least `min` and at most `max`; a number, a tensor or None each. The gradient passes at the edges."""
        if min is None and max is None:
            raise ValueError("clamp needs min, max or both")
        if not isinstance(min, Tensor) and not isinstance(max, Tensor):
            return ops.clamp(self, min=min, max=max)
        x = self if min is None else ops.where(min, self, condition=(self < min).array)
        return x if max is None else ops.where(max, x, condition=(x > max).array)

    clip = clamp

    def where(self, condition: Any, other: Any) -> Tensor:
        """self where the condition holds, else other."""
        return ops.where(self, other, condition=as_condition(condition, "where"))

    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        """value where the mask is true, else self, in the dtype of self."""
        value = self.dtype.type(value) if isinstance(value, (builtins.bool, int, float)) else value
        return ops.where(value, self, condition=as_condition(mask, "masked_fill"))

    # -------------------------------------------------------------------------------------------- sums over axes

    def sum(self, dim: Any = None, keepdim: builtins.bool = False, dtype: Any = None, *,
            axis: Any = None, keepdims: builtins.bool = False) -> Tensor:
        """The sum along dim (None: of all). `axis` and `keepdims` are NumPy's names for the same."""
        x = _wide(self) if dtype is None else self.to(dtype)
        dim = axis if dim is None else dim if axis is None else _twice()
        return ops.sum(x, dim=_every(dim), keepdim=keepdim or keepdims)

    def mean(self, dim: Any = None, keepdim: builtins.bool = False, dtype: Any = None, *,
             axis: Any = None, keepdims: builtins.bool = False) -> Tensor:
        if dtype is not None:
            return self.to(dtype).mean(dim, keepdim, axis=axis, keepdims=keepdims)
        dim = axis if dim is None else dim if axis is None else _twice()
        return self._mean(dim, keepdim or keepdims)

    @_rounded_once
    def _mean(self, dim: Any, keepdim: builtins.bool) -> Tensor:
        return self._floats("mean").sum(dim, keepdim) / self._count(dim)

    def _floats(self, what: str) -> Tensor:
        """This tensor, if it holds floats: PyTorch has no mean, norm or softmax of integers, which would not be integers."""
        if self.array.dtype.kind != "f":
            raise TypeError(f"{what} takes a tensor of floats, not of dtype {self.dtype}: .float() converts")
        return self

    def _count(self, dim: Any) -> int:
        """How many elements are reduced along dim."""
        return math.prod([self.shape[i] for i in ops.axes(_every(dim), self.ndim)])

    @_rounded_once
    def var(self, dim: Any = None, correction: float = 1, keepdim: builtins.bool = False, unbiased: Any = None) -> Tensor:
        """The variance: squares of the distance from the mean, summed, over n - correction."""
        correction = correction if unbiased is None else int(unbiased)
        off = self._floats("var") - self.mean(dim, keepdim=True)
        return (off * off).sum(dim, keepdim) / max(self._count(dim) - correction, 0)

    @_rounded_once
    def std(self, dim: Any = None, correction: float = 1, keepdim: builtins.bool = False, unbiased: Any = None) -> Tensor:
        return _root(self.var(dim, correction, keepdim, unbiased))

    def amax(self, dim: Any = None, keepdim: builtins.bool = False) -> Tensor:
        """The largest; elements that tie share the gradient."""
        return ops.amax(self, dim=_every(dim), keepdim=keepdim)

    def amin(self, dim: Any = None, keepdim: builtins.bool = False) -> Tensor:
        """The smallest; elements that tie share the gradient."""
        if self.dtype.kind != "f":  # the negative of an unsigned number is no smaller
            return Tensor(np.min(self.array, axis=ops.axes(_every(dim), self.ndim), keepdims=keepdim))
        return -ops.amax(-self, dim=_every(dim), keepdim=keepdim)

    def max(self, dim: Any = None, keepdim: builtins.bool = False) -> Any:
        """The largest of all; along `dim` also where it is: (values, indices); with a tensor, the larger of the two."""
        return self._extreme(dim, keepdim, ops.amax, Tensor.argmax) if not isinstance(dim, Tensor) else self.maximum(dim)

    def min(self, dim: Any = None, keepdim: builtins.bool = False) -> Any:
        """The smallest of all; along `dim` also where it is: (values, indices); with a tensor, the smaller of the two."""
        return self._extreme(dim, keepdim, Tensor.amin, Tensor.argmin) if not isinstance(dim, Tensor) else self.minimum(dim)

    def _extreme(self, dim: Any, keepdim: builtins.bool, over_all: Callable, place: Callable) -> Any:
        if dim is None:
            return over_all(self)
        if not self.ndim:
            return values_and_indices(*(part.reshape(()) for part in self.reshape(1)._extreme(dim, False, over_all, place)))
        where = place(self, dim, keepdim=True)
        values = self.gather(dim, where)
        return values_and_indices(*((values, where) if keepdim else (values.squeeze(dim), where.squeeze(dim))))

    def argmax(self, dim: int | None = None, keepdim: builtins.bool = False) -> Tensor:
        return self._found("argmax", dim, keepdim)

    def argmin(self, dim: int | None = None, keepdim: builtins.bool = False) -> Tensor:
        return self._found("argmin", dim, keepdim)

    def _found(self, function: str, dim: int | None, keepdim: builtins.bool) -> Tensor:
        along = dim if dim is None else ops.place(dim, self.ndim)
        if not (self.shape[along] if self.ndim and along is not None else self.numel()):
            where = "" if dim is None else f" along dim {dim}"
            raise IndexError(f"{function}: a tensor of shape {self.shape} has no numbers{where}")
        return Tensor(getattr(np, function)(self.array, axis=along, keepdims=keepdim))

    def argsort(self, dim: int = -1, descending: builtins.bool = False, stable: builtins.bool = True) -> Tensor:
        """The places in rising (or falling) order, always stable: equal elements stay in theirs. NaN counts as the largest."""
        dim = ops.place(dim, self.ndim)
        if not self.ndim:
            return Tensor(np.zeros((), int64))
        if not descending:
            return Tensor(np.argsort(self.array, axis=dim, kind="stable"))
        backwards = np.argsort(np.flip(self.array, dim), axis=dim, kind="stable")
        return Tensor(np.flip(self.shape[dim] - 1 - backwards, dim).copy())

    def sort(self, dim: int = -1, descending: builtins.bool = False, stable: builtins.bool = True) -> Any:
        """(values, indices) in rising or falling order along dim; always stable."""
        order = self.argsort(dim, descending)
        return values_and_indices(self.gather(dim, order), order)

    def topk(self, k: int, dim: int = -1, largest: builtins.bool = True, sorted: builtins.bool = True) -> Any:
        """The k largest along dim, falling, with their places; always sorted."""
        if not self.ndim:
            return values_and_indices(*(part.reshape(()) for part in self.reshape(1).topk(k)))
        if whole("k", k, 0) > self.shape[ops.axis(dim, self.ndim)]:
            raise ValueError(f"topk: k={k} is more than the {self.shape[dim]} elements along dim {dim}")
        order = self.argsort(dim, descending=largest).narrow(dim, 0, k)
        return values_and_indices(self.gather(dim, order), order)

    def prod(self, dim: int | None = None, keepdim: builtins.bool = False) -> Tensor:
        """The product along dim (None: of all). Exact gradients where factors are zero."""
        if dim is None:
            return ops.prod(_wide(self).reshape(-1), dim=0)
        return _along_one(ops.prod, _wide(self), dim, keepdim=keepdim)

    def cumsum(self, dim: int, dtype: Any = None) -> Tensor:
        return _along_one(ops.cumsum, _wide(self) if dtype is None else self.to(dtype), dim)

    def logsumexp(self, dim: Any, keepdim: builtins.bool = False) -> Tensor:
        return ops.logsumexp(self, dim=_every(dim), keepdim=keepdim)

    @_rounded_once
    def norm(self, p: float = 2, dim: Any = None, keepdim: builtins.bool = False) -> Tensor:
        """The p-norm along dim (None: of all elements as one vector); the slope of a length is 0 where all are 0."""
        self._floats("norm")
        if p in (2, "fro"):
            return _root((self * self).sum(dim, keepdim))
        if p in (math.inf, -math.inf):
            return self.abs().amax(dim, keepdim) if p > 0 else self.abs().amin(dim, keepdim)
        if p == 0:
            return (self != 0).to(self.dtype).sum(dim, keepdim)
        return self.abs().sum(dim, keepdim) if p == 1 else _power(_power(self.abs(), p).sum(dim, keepdim), 1 / p)

    # -------------------------------------------------------------------------------------------- shape

    def reshape(self, *shape: Any) -> Tensor:
        return ops.reshape(self, shape=_sizes(shape))

    def view(self, *shape: Any) -> Tensor:
        """As reshape, which shares memory wherever NumPy can; view(dtype) is not offered."""
        return ops.reshape(self, shape=_sizes(shape))

    def view_as(self, other: Tensor) -> Tensor:
        return self.reshape(other.shape)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        if not self.ndim:
            return self.reshape(1)
        start, end = ops.axis(start_dim, self.ndim), ops.axis(end_dim, self.ndim)
        if start > end:
            raise ValueError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim}")
        return self.reshape(*self.shape[:start], math.prod(self.shape[start : end + 1]), *self.shape[end + 1 :])

    def permute(self, *dims: Any) -> Tensor:
        dims = _sizes(dims)
        ops.axes(dims, self.ndim)
        return ops.permute(self, dims=dims)

    def transpose(self, dim0: int, dim1: int) -> Tensor:
        dims = list(range(self.ndim))
        dim0, dim1 = ops.place(dim0, self.ndim), ops.place(dim1, self.ndim)
        if dim0 != dim1:
            dims[dim0], dims[dim1] = dims[dim1], dims[dim0]
        return ops.permute(self, dims=tuple(dims))

    swapaxes = transpose

    def t(self) -> Tensor:
        if self.ndim > 2:
            raise ValueError(f"t() takes a matrix, not a tensor of shape {self.shape}: use transpose(dim0, dim1)")
        return self.T

    @property
    def T(self) -> Tensor:
        return ops.permute(self, dims=tuple(range(self.ndim))[::-1])

    @property
    def mT(self) -> Tensor:
        return self.transpose(-2, -1)

    def unsqueeze(self, dim: int) -> Tensor:
        dim = ops.axis(dim, self.ndim + 1)
        return ops.reshape(self, shape=(*self.shape[:dim], 1, *self.shape[dim:]))

    def squeeze(self, dim: Any = None) -> Tensor:
        along = ops.axes(dim, self.ndim)
        return ops.reshape(self, shape=tuple(n for i, n in enumerate(self.shape) if i not in along or n != 1))

    def expand(self, *sizes: Any) -> Tensor:
        sizes = _sizes(sizes)
        new = len(sizes) - self.ndim
        if new < 0 or -1 in sizes[:new]:
            raise ValueError(f"expand: {sizes} for shape {self.shape}: one size for each axis, -1 only for an axis that exists")
        return ops.expand(self, shape=tuple(k if n == -1 else n for n, k in zip(sizes, (1,) * new + self.shape, strict=True)))

    def expand_as(self, other: Tensor) -> Tensor:
        return self.expand(other.shape)

    def repeat(self, *repeats: Any) -> Tensor:
        """Copies along each axis: (2, 3).repeat(4, 1) -> (8, 3)."""
        repeats = _sizes(repeats)
        if len(repeats) < self.ndim or min(repeats, default=0) < 0:
            raise ValueError(f"repeat: {repeats} for shape {self.shape}: one number for each axis, from 0 on")
        if builtins.all(r == 1 for r in repeats):
            return self.clone().reshape((1,) * (len(repeats) - self.ndim) + self.shape)
        x = self.reshape((1,) * (len(repeats) - self.ndim) + self.shape)
        pairs = [n for r, size in zip(repeats, x.shape, strict=True) for n in (r, size)]
        x = x.reshape([n for size in x.shape for n in (1, size)]).expand(pairs)
        return x.reshape([r * size for r, size in zip(repeats, pairs[1::2], strict=True)]).contiguous()

    tile = repeat

    def repeat_interleave(self, repeats: Any, dim: int | None = None) -> Tensor:
        """Each element `repeats` times in a row along dim (None: of the flattened tensor)."""
        if dim is None:
            return self.reshape(-1).repeat_interleave(repeats, 0)
        counts, size = as_array(repeats), self.shape[ops.axis(dim, self.ndim)]
        if counts.dtype.kind not in "iu" or counts.shape not in ((), (1,), (size,)) or (counts < 0).any():
            raise ValueError(f"repeat_interleave: repeats is a whole number from 0 on, or one for each of {size} places along "
                             f"dim {dim}, not {repeats!r}")  # fmt: skip
        return self.index_select(dim, np.repeat(np.arange(size), counts))

    def contiguous(self) -> Tensor:
        return self if self.array.flags.c_contiguous else self.clone()

    def is_contiguous(self) -> builtins.bool:
        return self.array.flags.c_contiguous

    def narrow(self, dim: int, start: int, length: int) -> Tensor:
        """`length` places along dim, from `start` on (negative: counted from the end)."""
        dim = ops.axis(dim, self.ndim)
        size, start, length = self.shape[dim], whole("start", start), whole("length", length)
        first = start + size if start < 0 else start
        if first < 0 or length < 0 or first + length > size:
            raise IndexError(f"narrow: {length} places from {start} on do not fit into {size}")
        return self[(slice(None),) * dim + (slice(first, first + length),)]

    def split(self, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
        """Pieces along dim: of this size (the last may be smaller), or of the sizes listed."""
        total = self.shape[ops.axis(dim, self.ndim)]
        if isinstance(split_size, (int, np.integer)):
            size = int(split_size)
            if size <= 0:
                raise ValueError(f"split: a size of {size} makes no pieces")
            sizes = [min(size, total - i) for i in range(0, total, size)] or [0]
        else:
            sizes = [whole("a size", size, 0) for size in (split_size if np.iterable(split_size) else (split_size,))]
            if builtins.sum(sizes) != total:
                raise ValueError(f"split: sizes {sizes} add up to {builtins.sum(sizes)}, not to {total}")
        ends = np.cumsum(sizes).tolist()
        return tuple(self.narrow(dim, end - size, size) for end, size in zip(ends, sizes, strict=True))

    def chunk(self, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
        """At most this many pieces along dim, all of one size but the last."""
        whole("chunks", chunks, 1)
        if not self.shape[ops.axis(dim, self.ndim)]:
            return tuple(self.narrow(dim, 0, 0) for _ in range(chunks))
        return self.split(max(1, -(-self.shape[ops.axis(dim, self.ndim)] // chunks)), dim)

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        return tuple(self.select(dim, i) for i in range(self.shape[ops.axis(dim, self.ndim)]))

    def select(self, dim: int, index: int) -> Tensor:
        return self[(slice(None),) * ops.axis(dim, self.ndim) + (index,)]

    def flip(self, *axes: Any, dims: Any = ()) -> Tensor:
        """The other way round along these axes: flip(0, 1), flip((0, 1)) or flip(dims=(0, 1))."""
        along = ops.axes(_sizes(axes or (dims,)), self.ndim)
        return self[tuple(slice(None, None, -1) if i in along else slice(None) for i in range(self.ndim))].clone()

    def roll(self, shifts: Any, dims: Any = None) -> Tensor:
        """Move along dims, what falls off the end coming in at the start."""
        if dims is None:
            return self.reshape(-1).roll(shifts, 0).reshape(self.shape)
        x, shifts, dims = self, _sizes((shifts,)), _sizes((dims,))
        if len(shifts) != len(dims):
            raise ValueError(f"roll: shifts {shifts} for dims {dims}: one for each")
        for shift, dim in zip(shifts, dims, strict=True):
            size = x.shape[ops.axis(dim, x.ndim)]
            cut = -shift % size if size else 0
            x = ops.cat(x.narrow(dim, cut, size - cut), x.narrow(dim, 0, cut), dim=dim)
        return x

    def tril(self, diagonal: int = 0) -> Tensor:
        """Zeros above the diagonal."""
        return ops.where(self, self.dtype.type(0), condition=self._triangle(diagonal))

    def triu(self, diagonal: int = 0) -> Tensor:
        """Zeros below the diagonal."""
        return ops.where(self.dtype.type(0), self, condition=self._triangle(diagonal - 1))

    def _triangle(self, diagonal: int) -> np.ndarray:
        if self.ndim < 2:
            raise ValueError(f"{called()}a tensor of shape {self.shape} has no triangle: it takes two axes or more")
        rows, columns = self.shape[-2:]
        return np.tri(rows, columns, whole("diagonal", diagonal), dtype=builtins.bool)

    # -------------------------------------------------------------------------------------------- places

    def nonzero(self, as_tuple: builtins.bool = False) -> Any:
        """Where the elements are not zero: (n, axes), or a tensor for each axis."""
        if as_tuple:
            return tuple(Tensor(places) for places in np.nonzero(np.atleast_1d(self.array)))
        return Tensor(np.argwhere(self.array))

    def unique(self, sorted: builtins.bool = True, return_inverse: builtins.bool = False,
               return_counts: builtins.bool = False, dim: int | None = None) -> Any:
        """The different elements (along dim: the different slices), rising; then where each went, and how often it is there."""
        along = dim if dim is None else ops.axis(dim, self.ndim)
        found = np.unique(self.array, return_inverse=True, return_counts=True, axis=along)
        inverse = found[1].reshape(self.shape if dim is None else -1)
        wanted = [found[0], *([inverse] if return_inverse else []), *([found[2]] if return_counts else [])]
        return Tensor(wanted[0]) if len(wanted) == 1 else tuple(map(Tensor, wanted))

    # -------------------------------------------------------------------------------------------- fused functions

    def softmax(self, dim: int, dtype: Any = None) -> Tensor:
        return _along_one(fused.softmax, self._floats("softmax") if dtype is None else self.to(dtype), dim)

    def log_softmax(self, dim: int, dtype: Any = None) -> Tensor:
        return _along_one(fused.log_softmax, self._floats("log_softmax") if dtype is None else self.to(dtype), dim)

    # -------------------------------------------------------------------------------------------- dtype

    def to(self, *args: Any, dtype: Any = None, device: Any = None, non_blocking: builtins.bool = False,
           copy: builtins.bool = False) -> Tensor:
        """to(dtype), to(other tensor), to("cpu") or to(device, dtype): the same values in that dtype, always on the CPU."""
        for target in args:
            if isinstance(target, Tensor):
                dtype = target.dtype
            elif isinstance(target, str) and target.partition(":")[0] in KINDS:
                device = target
            elif target is not None and not isinstance(target, builtins.bool):
                dtype = target
        on_cpu(device)
        try:
            dtype = None if dtype is None else np.dtype(dtype)
        except TypeError:
            raise TypeError(f"{called()}{shown(dtype)} is no dtype and no device, as float32 and 'cpu' are") from None
        if dtype is None or dtype == self.dtype:
            return self.clone() if copy else self
        return ops.cast(self, dtype=dtype)

    astype = to

    def type(self, dtype: Any = None) -> Any:
        """The values in this dtype; without one, the name of the dtype that they have, as in "torch.FloatTensor"."""
        return f"torch.{TYPE_NAMES[self.dtype.name]}Tensor" if dtype is None else self.to(dtype)

    def type_as(self, other: Tensor) -> Tensor:
        return self.to(other.dtype)

    def float(self) -> Tensor:
        return self.to(float32)

    def double(self) -> Tensor:
        return self.to(float64)

    def half(self) -> Tensor:
        return self.to(float16)

    def long(self) -> Tensor:
        return self.to(int64)

    def int(self) -> Tensor:
        return self.to(int32)

    def short(self) -> Tensor:
        return self.to(int16)

    def char(self) -> Tensor:
        return self.to(int8)

    def byte(self) -> Tensor:
        return self.to(uint8)

    def bool(self) -> Tensor:
        return self.to(bool_)

    def cpu(self) -> Tensor:
        return self

    def cuda(self, *args: Any, **kwargs: Any) -> Tensor:
        return self.to("cuda")

    def pin_memory(self) -> Tensor:
        """This tensor: memory is pinned for the sake of another device."""
        return self

    # -------------------------------------------------------------------------------------------- new ones like this

    def new_tensor(self, data: Any, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
        """A tensor with a copy of the data, in the dtype of this one unless another is given."""
        on_cpu(device)
        return Tensor(np.array(as_array(data, dtype or self.dtype)), requires_grad)

    def new_full(self, size: Any, fill_value: Any, dtype: Any = None, device: Any = None,
                 requires_grad: builtins.bool = False) -> Tensor:
        on_cpu(device)
        return Tensor(np.full(_shape((size,)), as_array(fill_value), dtype or self.dtype), requires_grad)

    def new_zeros(self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
        return self.new_full(_sizes(size), 0, dtype, device, requires_grad)

    def new_ones(self, *size: Any, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False) -> Tensor:
        return self.new_full(_sizes(size), 1, dtype, device, requires_grad)

    new_empty = new_zeros  # memory with leftovers in it would let a mistake look like a number


Tensor.result = Tensor


TYPE_NAMES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "int64": "Long", "int32": "Int", "int16": "Short",
    "int8": "Char", "uint8": "Byte", "bool": "Bool",
}  # fmt: skip

FLAT = {  # NumPy functions without a slope anywhere
    np.sign, np.floor, np.ceil, np.trunc, np.rint, np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
    np.isnan, np.isinf, np.isfinite, np.signbit, np.logical_and, np.logical_or, np.logical_xor, np.logical_not,
}  # fmt: skip


UFUNCS: dict[Any, Callable] = {**ops.UFUNCS, np.floor_divide: _floor_divide, np.remainder: _remainder}


def _root(x: Tensor) -> Tensor:
    """The square root of squares added up, with slope 0 at 0, where the length of a vector has a kink."""
    return _smooth(ops.sqrt, x)


def _power(x: Tensor, p: float) -> Tensor:
    """x ** p of sizes x, with slope 0 at 0, where that of a p below 1 is infinite"""
    return _smooth(lambda x: x**p, x) if p > 0 else x**p


def _smooth(function: Callable, x: Tensor) -> Tensor:
    """function(x), and 0 with slope 0 where x is 0"""
    zero = x.array == 0
    return ops.where(0, function(ops.where(1, x, condition=zero)), condition=zero)


def _every(dim: Any) -> Any:
    """What a reduction goes along: no axis named is all of them, () and [] too."""
    return None if isinstance(dim, (tuple, list)) and not dim else dim


def _wide(x: Tensor) -> Tensor:
    """Sums and products of unsigned integers are signed, as in PyTorch: lengths are subtracted later."""
    return x.long() if x.dtype.kind == "u" else x


def _twice() -> Any:
    raise TypeError(f"{called()}dim and axis are two names for the same: give one of them")


def _along_one(op: Callable, x: Tensor, dim: int, **settings: Any) -> Tensor:
    """An op along one axis; a 0-d tensor counts as one axis of size 1."""
    return op(x, dim=dim, **settings) if x.ndim else op(x.reshape(1), dim=dim, **settings).reshape(())


def _sizes(sizes: tuple) -> tuple[int, ...]:
    """Sizes given as f(2, 3), f((2, 3)) or f(tensor_size): one tuple of ints."""
    if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)):
        sizes = tuple(sizes[0])
    try:
        return tuple(map(index, sizes))
    except (TypeError, ValueError):
        return tuple(whole("a size or an axis", size) for size in sizes)


def _shape(sizes: tuple) -> tuple[int, ...]:
    """The same for a new tensor, whose sizes are known."""
    return tuple(whole("a size", size, 0) for size in _sizes(sizes))
