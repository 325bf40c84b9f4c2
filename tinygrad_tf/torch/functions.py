"""`torch.cos(x)` is `x.cos()`: one table makes the functions from the methods. Below it, those that are no method."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import functions
from ..dtypes import as_array
from ..einsum import einsum
from ..functions import (
    bucketize,
    cartesian_prod,
    cat,
    cdist,
    combinations,
    concat,
    concatenate,
    isin,
    meshgrid,
    searchsorted,
    several,
    stack,
)
from ..nn.functional import cosine_similarity, pairwise_distance
from ..tensor import Tensor

__all__ = [
    "broadcast_tensors", "bucketize", "cartesian_prod", "cat", "cdist", "combinations", "concat", "concatenate",
    "cosine_similarity", "einsum", "histogram", "hstack", "is_tensor", "isin", "meshgrid", "pairwise_distance", "searchsorted",
    "stack", "vstack", "where",
]  # fmt: skip

METHODS = """
    abs add addcdiv addcmul addmm all allclose amax amin any argmax argmin argsort argwhere baddbmm bincount bitwise_not bmm
    broadcast_to ceil chunk clamp clamp_max clamp_min clip clone cos count_nonzero cummax cummin cumprod cumsum detach diag
    diagonal div divide dot eq equal erf exp expm1 flatten flip floor floor_divide gather ge gt histc index_add index_fill
    index_select is_floating_point isclose isfinite isinf isnan kthvalue le lerp log log10 log1p log2 log_softmax logaddexp
    logcumsumexp logical_and logical_not logical_or logical_xor logsumexp lt masked_fill masked_select matmul max maximum
    mean median min minimum mm mode moveaxis movedim mul multiply mv nan_to_num narrow ne neg negative nonzero norm numel
    outer permute pow prod ravel reciprocal relu remainder repeat_interleave reshape roll round rsqrt scatter scatter_add
    select sigmoid sign sin softmax sort split sqrt square squeeze std sub subtract sum swapaxes t take tan tanh tile topk
    trace transpose tril triu true_divide trunc unbind unflatten unique unsqueeze var
""".split()  # noqa: SIM905
OWN_VALUE = ("addcdiv", "addcmul", "index_fill", "masked_fill", "scatter")  # those whose `value` is no second operand
Histogram = namedtuple("Histogram", "hist bin_edges")
SECOND = ("other", "exponent", "mat2", "vec2", "value")  # PyTorch's names of a second operand, which is positional here


def _function(name: str) -> Callable:
    method = getattr(Tensor, name)

    def call(*args: Any, **settings: Any) -> Any:
        if not args and "input" not in settings:
            raise TypeError(f"torch.{name} takes a tensor first, as torch.{name}(x)")
        input, args = (args[0], args[1:]) if args else (settings.pop("input"), ())
        for key in SECOND[: len(SECOND) - (name in OWN_VALUE)]:
            if key in settings:
                args = (*args, settings.pop(key))
        if not isinstance(input, Tensor) and not any(isinstance(a, Tensor) for a in args):
            raise TypeError(f"torch.{name} takes a tensor, not {type(input).__name__}: torch.as_tensor() makes one")
        return method(input, *args, **settings)

    call.__name__, call.__doc__ = name, method.__doc__
    call.__wrapped__ = method  # type: ignore[attr-defined]  # for whoever asks for its signature
    return call


TABLE = {name: _function(name) for name in METHODS}


def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    return Tensor.add(input, other if alpha == 1 else other * alpha)


def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    return Tensor.sub(input, other if alpha == 1 else other * alpha)


TABLE.update(add=add, sub=sub, subtract=sub, absolute=TABLE["abs"])


def where(condition: Tensor, input: Any = None, other: Any = None) -> Any:
    """input where the condition holds, else other; with the condition alone, the places where it holds."""
    if (input is None) != (other is None):
        raise TypeError("where: the condition, what to take where it holds and what elsewhere, or the condition alone")
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    return functions.where(condition, input, other)


def is_tensor(obj: Any) -> bool:
    return isinstance(obj, Tensor)


def vstack(tensors: Any) -> Tensor:
    return cat([x if x.ndim > 1 else x.reshape(1, -1) for x in several(tensors)], 0)


def hstack(tensors: Any) -> Tensor:
    tensors = several(tensors)
    return cat([x if x.ndim else x.reshape(1) for x in tensors], 1 if tensors[0].ndim > 1 else 0)


def broadcast_tensors(*tensors: Tensor) -> list[Tensor]:
    try:
        shape = np.broadcast_shapes(*(x.shape for x in tensors))
    except ValueError:
        shapes = " and ".join(str(x.shape) for x in tensors)
        raise ValueError(f"broadcast_tensors: sizes on one axis differ and neither is 1: {shapes}") from None
    return [x.expand(shape) for x in tensors]


def histogram(input: Tensor, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> Any:
    """(hist, bin_edges): how many numbers lie in each bin; the last bin holds its right edge."""
    edges = as_array(bins) if isinstance(bins, Tensor) else bins
    weights = None if weight is None else as_array(weight).reshape(-1)
    hist, found = np.histogram(input.array.reshape(-1), edges, range, density, weights)
    return Histogram(Tensor(hist.astype(input.dtype)), Tensor(found.astype(input.dtype)))
