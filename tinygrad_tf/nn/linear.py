"""Linear, Embedding, Dropout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..tensor import Tensor
from . import functional as F
from . import init
from .module import Module, Parameter


class Linear(Module):
    """(..., in) -> (..., out)   y = x @ weight^T + bias

    weight (out, in) and bias (out,) start uniform on +-1 / sqrt(in), as torch.nn.Linear.
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, generator: np.random.Generator | None = None):
        self.in_features, self.out_features = in_features, out_features
        self.weight = Parameter(np.empty((out_features, in_features), np.float32))
        self.bias = Parameter(np.empty(out_features, np.float32)) if bias else None
        self.reset_parameters(generator)

    def reset_parameters(self, generator: np.random.Generator | None = None) -> None:
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0
        init.uniform_(self.weight, -bound, bound, generator)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound, generator)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)


class Embedding(Module):
    """ids (...) -> (..., d)   a table with one row for each id; rows start standard normal, as torch.nn.Embedding"""

    def __init__(self, num_embeddings: int, embedding_dim: int, generator: np.random.Generator | None = None):
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.weight = Parameter(np.empty((num_embeddings, embedding_dim), np.float32))
        init.normal_(self.weight, generator=generator)

    def forward(self, ids: Any) -> Tensor:
        return F.embedding(ids, self.weight)


class Dropout(Module):
    """In training, zero each element with probability p and scale the others by 1 / (1 - p); in evaluation, the identity.

    Draws from `generator`, or from the default generator if it is None.
    """

    def __init__(self, p: float = 0.5, generator: np.random.Generator | None = None):
        if not 0 <= p <= 1:
            raise ValueError(f"dropout: p is a probability, not {p}")
        self.p, self.generator = p, generator

    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.p, self.training, self.generator)

    def extra_repr(self) -> str:
        return f"p={self.p}"
