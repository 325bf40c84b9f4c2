"""Functions that make tensors, and the free forms of what joins several. Names and arguments are PyTorch's."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import inf, isfinite
from typing import Any

import numpy as np

from . import ops
from .dtypes import as_array, as_condition, bool_, float16, float32, float64, int8, int16, int32, int64, uint8  # noqa: F401  (part of the API)
from .errors import called, real, shown, tensors, whole
from .random import source
from .tensor import Tensor, _shape


def tensor(data: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor with a copy of the data. Python floats become float32, integers int64."""
    return Tensor(as_array(data, dtype).copy(), requires_grad)


def as_tensor(data: Any, dtype: Any = None) -> Tensor:
    """A tensor that shares the memory of a NumPy array where the dtype allows."""
    return data if isinstance(data, Tensor) and dtype in (None, data.dtype) else Tensor(as_array(data, dtype))


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor on the memory of this array."""
    return Tensor(array)


def zeros(*size: Any, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    return Tensor(np.zeros(_shape(size), dtype), requires_grad)


def ones(*size: Any, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    return Tensor(np.ones(_shape(size), dtype), requires_grad)


def empty(*size: Any, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    """Zeros: memory with leftovers in it would let a mistake look like a number."""
    return zeros(*size, dtype=dtype, requires_grad=requires_grad)


def full(size: Sequence[int], fill_value: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    return Tensor(np.full(_shape((size,)), as_array(fill_value, dtype)), requires_grad)


def zeros_like(x: Tensor, dtype: Any = None) -> Tensor:
    tensors(input=x)
    return zeros(x.shape, dtype=dtype or x.dtype)


def ones_like(x: Tensor, dtype: Any = None) -> Tensor:
    tensors(input=x)
    return ones(x.shape, dtype=dtype or x.dtype)


def full_like(x: Tensor, fill_value: Any, dtype: Any = None) -> Tensor:
    tensors(input=x)
    return full(x.shape, fill_value, dtype=dtype or x.dtype)


def arange(start: Any, end: Any = None, step: Any = 1, dtype: Any = None) -> Tensor:
    """start, start + step, ... below end; arange(n) counts 0 ... n - 1. Integers give int64, a float gives float32."""
    start, end = (0, start) if end is None else (start, end)
    start, end, step = (x.item() if isinstance(x, Tensor) else x for x in (start, end, step))
    if any(isinstance(x, (str, list, tuple, type(None))) for x in (start, end, step)) or not step or not isfinite(end - start):
        raise ValueError(f"arange: numbers, and a step that is not 0, not {start!r}, {end!r}, {step!r}")
    counting = all(isinstance(x, (int, np.integer)) for x in (start, end, step))
    return Tensor(np.arange(start, end, step), dtype=dtype or (int64 if counting else float32))


def linspace(start: float, end: float, steps: int, dtype: Any = float32) -> Tensor:
    ends = float(real("start", start, -inf)), float(real("end", end, -inf))
    return Tensor(np.linspace(*ends, whole("steps", steps, 0)).astype(dtype))


def eye(n: int, m: int | None = None, dtype: Any = float32) -> Tensor:
    return Tensor(np.eye(whole("n", n, 0), None if m is None else whole("m", m, 0), dtype=dtype))


def rand(*size: Any, generator: Any = None, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    """Uniform on [0, 1)."""
    return Tensor(source(generator).random(_shape(size), dtype), requires_grad)


def randn(*size: Any, generator: Any = None, dtype: Any = float32, requires_grad: bool = False) -> Tensor:
    """Standard normal."""
    return Tensor(source(generator).standard_normal(_shape(size), dtype), requires_grad)


def randint(low: int = 0, high: Any = None, size: Any = None, generator: Any = None, dtype: Any = int64) -> Tensor:
    """Integers low ... high - 1; randint(high, size) starts from 0."""
    if size is None:
        high, size = None, high
    low, high = (0, low) if high is None else (low, high)
    if whole("low", low) >= whole("high", high):
        raise ValueError(f"randint: there is no integer from {low} up to {high - 1}: randint(low, high, size)")
    return Tensor(source(generator).integers(low, high, None if size is None else _shape((size,)), dtype))


def randperm(n: int, generator: Any = None) -> Tensor:
    return Tensor(source(generator).permutation(whole("n", n, 0)))


def multinomial(probs: Tensor, num_samples: int, replacement: bool = False, generator: Any = None) -> Tensor:
    """Indices drawn with the given weights, one row of draws a row. As torch.multinomial: weights need not add up to 1."""
    return as_tensor(probs).multinomial(num_samples, replacement, generator=generator)


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Join along an axis that they all have. Beside others, an empty tensor of one axis counts as nothing, as in PyTorch."""
    tensors = several(tensors)
    shape = next((t.shape for t in tensors if t.shape != (0,)), (0,))
    if len(shape) > 1 and any(t.shape == (0,) for t in tensors):
        along = ops.axis(dim, len(shape))
        tensors = [t.reshape(*shape[:along], 0, *shape[along + 1 :]) if t.shape == (0,) else t for t in tensors]
    return ops.cat(*tensors, dim=dim)


concat = concatenate = cat


def several(tensors: Any) -> Any:
    """What cat() and stack() join: tensors in a list."""
    if isinstance(tensors, Tensor) or not np.iterable(tensors):
        raise TypeError(f"{called()}a list of tensors, not {shown(tensors)}: [x, y], and x.flatten() joins the rows of one")
    tensors = list(tensors)
    if not tensors:
        raise ValueError(f"{called().replace(':', '')}needs at least one tensor")
    for tensor in tensors:
        if not hasattr(tensor, "ndim"):
            raise TypeError(f"{called()}a list of tensors, not with {shown(tensor)} in it: tensor(...) makes one of numbers")
    return tensors


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Join along a new axis."""
    tensors = [as_tensor(t) for t in several(tensors)]
    if len(shapes := {t.shape for t in tensors}) > 1:
        raise ValueError(f"stack: tensors of one shape, not {' and '.join(map(str, sorted(shapes)))}: cat() joins along one")
    return ops.cat(*(t.unsqueeze(dim) for t in tensors), dim=dim)


def where(condition: Any, input: Any, other: Any) -> Tensor:
    """input where the condition holds, else other.

    Both sides are computed everywhere, and the side not chosen sends back 0 times its slope: NaN where that is infinite. Choose
    a safe input first: `where(x > 0, where(x > 0, x, 1).sqrt(), 0)` has the exact gradient at x = 0.
    """
    condition = as_condition(condition, "where")
    return ops.where(as_tensor(input) if not isinstance(other, Tensor) else input, other, condition=condition)


def maximum(input: Any, other: Any) -> Tensor:
    return ops.maximum(input, other)


def minimum(input: Any, other: Any) -> Tensor:
    return ops.minimum(input, other)


def matmul(input: Any, other: Any) -> Tensor:
    return ops.matmul(input, other)


def outer(input: Tensor, vec2: Tensor) -> Tensor:
    return input.outer(vec2)


def residual(x: Tensor, branch: Tensor) -> Tensor:
    """x + branch, noted in the graph as a residual sum whose skip is x."""
    return ops.residual(x, branch)


def searchsorted(sorted_sequence: Any, input: Any, *, out_int32: bool = False, right: bool = False,
                 side: str | None = None) -> Tensor:
    """(..., n) rising, (..., m) -> (..., m)   where each number would go in: before those equal to it, or after if `right`

    A sequence of one axis serves numbers of any shape.
    """
    rising, x = as_array(sorted_sequence), as_array(input)
    if rising.ndim > 1 and rising.shape[:-1] != x.shape[:-1]:
        raise ValueError(f"searchsorted: sequences of shape {rising.shape} for numbers of shape {x.shape}: equal but the last")
    if side not in (None, "left", "right") or (side == "left" and right):
        raise ValueError(f'searchsorted: side is "left" or "right", as `right` says, not {side!r}')
    way: Any = "right" if right or side == "right" else "left"
    found = np.empty(x.shape, int32 if out_int32 else int64)
    for row in [()] if rising.ndim == 1 else np.ndindex(x.shape[:-1]):
        found[row] = np.searchsorted(rising[row], x[row], way)
    return Tensor(found)


def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Which bucket each number falls into; a number equal to a boundary belongs below it, or above if `right`."""
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def isin(elements: Any, test_elements: Any, *, invert: bool = False) -> Tensor:
    """Whether each element is one of test_elements."""
    return Tensor(np.isin(as_array(elements), as_array(test_elements), invert=invert))


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """The coordinates of a grid: one tensor for each axis, all of the shape of the grid."""
    axes = list(tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors)
    if indexing not in ("ij", "xy"):
        raise ValueError(f'meshgrid: indexing is "ij" or "xy", not {indexing!r}')
    for x in axes:
        if not isinstance(x, Tensor) or x.ndim > 1:
            raise ValueError(f"meshgrid: tensors of one axis, not {shown(x)}")
    shape = tuple(x.numel() for x in axes)
    grid = [x.reshape([-1 if i == k else 1 for i in range(len(axes))]).expand(shape) for k, x in enumerate(axes)]
    return tuple(x.transpose(0, 1) if indexing == "xy" and len(axes) > 1 else x for x in grid)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """(n,), (m,), ... -> (n m ..., how many)   every choice of one number from each, the last running fastest"""
    if any(x.ndim != 1 for x in tensors):
        raise ValueError("cartesian_prod takes vectors")
    return stack([x.reshape(-1) for x in meshgrid(*tensors)], -1) if len(tensors) > 1 else tensors[0]


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """(n,) -> (how many, r)   every choice of r elements, in their order"""
    if input.ndim != 1 or r < 0:
        raise ValueError(f"combinations: of a vector, not of shape {input.shape}, and not {r} at a time")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    return input[np.array(list(choose(range(len(input)), r)), int64).reshape(-1, r)] if r else input[:0]


def cdist(x1: Tensor, x2: Tensor, p: float = 2.0) -> Tensor:
    """(..., m, d), (..., n, d) -> (..., m, n)   the p-norm of every difference"""
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ValueError(f"cdist: (..., m, d) and (..., n, d), not {x1.shape} and {x2.shape}")
    return (x1.unsqueeze(-2) - x2.unsqueeze(-3)).norm(p, -1)


def allclose(input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    return as_tensor(input).allclose(other, rtol, atol, equal_nan)
