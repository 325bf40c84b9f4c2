"""Linear, Embedding, Dropout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import real, shown, whole
from ..tensor import Tensor
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter, blank


class Linear(Module):
    """(..., in) -> (..., out)   y = x @ weight^T + bias

    weight (out, in) and bias (out,) start uniform on +-1 / sqrt(in), as torch.nn.Linear.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, generator: np.random.Generator | None = None,
                 device: Any = None, dtype: Any = None):
        self.in_features, self.out_features = whole("in_features", in_features, 0), whole("out_features", out_features, 0)
        self.weight = blank(out_features, in_features, dtype=dtype, device=device)
        self.bias = blank(out_features, dtype=dtype) if bias else None
        self.reset_parameters(generator)

    def reset_parameters(self, generator: np.random.Generator | None = None) -> None:
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0
        init.uniform_(self.weight, -bound, bound, generator)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound, generator)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class Embedding(Module):
    """ids (...) -> (..., d)   a table with one row for each id; rows start standard normal, as torch.nn.Embedding

    The row `padding_idx` (negative: counted from the end) starts at zero and gets no gradient. max_norm: see F.embedding.
    """

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None,
                 max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
                 generator: np.random.Generator | None = None, device: Any = None, dtype: Any = None):
        if scale_grad_by_freq or sparse:
            raise NotImplementedError("Embedding: scale_grad_by_freq and sparse are not here: the gradient is dense, and sums "
                                      "over the places that read a row; a hook on the weight can scale it")  # fmt: skip
        whole("num_embeddings", num_embeddings, 0), whole("embedding_dim", embedding_dim, 0)
        if padding_idx is not None and not -num_embeddings <= whole("padding_idx", padding_idx) < num_embeddings:
            raise ValueError(f"padding_idx {padding_idx} is not a row of a table of {num_embeddings} rows")
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.max_norm, self.norm_type = max_norm, norm_type
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.weight = blank(num_embeddings, embedding_dim, dtype=dtype, device=device)
        self.reset_parameters(generator)

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None) -> Embedding:
        """A table with these rows, which stay as they are if `freeze`."""
        if getattr(embeddings, "ndim", None) != 2:
            raise ValueError(f"from_pretrained: a table (V, d), not {shown(embeddings)}")
        rows, width = embeddings.shape
        table = cls(rows, width, padding_idx)
        table.weight = Parameter(embeddings.detach(), requires_grad=not freeze)
        return table

    def reset_parameters(self, generator: np.random.Generator | None = None) -> None:
        init.normal_(self.weight, generator=generator)
        if self.padding_idx is not None:
            self.weight.detach()[self.padding_idx] = 0

    def forward(self, ids: Any) -> Tensor:
        return F.embedding(ids, self.weight, self.padding_idx, self.max_norm, self.norm_type)


class Dropout(Module):
    """In training, zero each element with probability p and scale the others by 1 / (1 - p); in evaluation, the identity.

    Draws from `generator`, or from the default generator if it is None.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False, generator: np.random.Generator | None = None):
        if not 0 <= real("p", p, -math.inf) <= 1:
            raise ValueError(f"dropout: p is a probability, not {p}")
        self.p, self.inplace, self.generator = p, inplace, generator

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.p, self.training, self.inplace, self.generator)

    def extra_repr(self) -> str:
        return f"p={self.p}"
