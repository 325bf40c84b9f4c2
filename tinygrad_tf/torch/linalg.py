"""torch.linalg: the norm, which is what such programs use of it."""

from __future__ import annotations

from typing import Any

from ..errors import tensors
from ..tensor import Tensor
from .unsupported import lookup

__all__ = ["norm", "vector_norm"]


def vector_norm(x: Tensor, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The ord-norm along dim; of all elements as one vector if dim is None."""
    return (x if dtype is None else x.to(dtype)).norm(2 if ord is None else ord, dim, keepdim)


def norm(A: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The length of a vector, or of all elements; with `ord`, that norm of vectors. Of the matrix norms, "fro" alone."""
    tensors(A=A)
    if ord == "fro":
        ord = None
    matrix = (A.ndim == 2 and dim is None) or (isinstance(dim, (tuple, list)) and len(dim) == 2)
    if isinstance(ord, str) or (ord is not None and matrix):
        raise NotImplementedError(f"linalg.norm: the matrix norm {ord!r} is not here, the Frobenius norm is: leave ord out")
    return vector_norm(A, ord, dim, keepdim, dtype)


__getattr__ = lookup("torch.linalg")
