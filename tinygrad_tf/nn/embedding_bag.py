"""The rows of a table added up, or averaged, for each bag of ids: a function and the module that calls it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import fused, ops
from ..dtypes import as_array, check_ids
from ..tensor import Tensor
from . import init
from .module import Module
from .parameter import Parameter, blank


def embedding_bag(input: Any, weight: Tensor, offsets: Any = None, max_norm: float | None = None, norm_type: float = 2,
                  scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, per_sample_weights: Any = None,
                  include_last_offset: bool = False, padding_idx: int | None = None) -> Tensor:
    """ids (B, n), table (V, d) -> (B, d)   the sum, or the mean, of the rows that each line names

    Or ids (n,) and offsets (B,), where each bag begins; include_last_offset: the last one is where the last bag ends. An empty
    bag gives zeros, padding_idx counts as if it were not there. per_sample_weights, in the shape of the ids: factors of the
    rows, for sums. sparse changes nothing.
    """
    if max_norm is not None or scale_grad_by_freq or mode not in ("sum", "mean"):
        raise NotImplementedError("embedding_bag sums and averages; of more, take Embedding and what follows it one by one")
    ids = check_ids(input, weight.shape[0])
    if (ids.ndim, offsets is None) not in ((2, True), (1, False)):
        raise ValueError(f"embedding_bag: ids (B, n), or ids (n,) with offsets, not {ids.shape}")
    if offsets is None:
        count, bag = ids.shape[0], np.repeat(np.arange(ids.shape[0]), ids.shape[1])
    else:
        starts = as_array(offsets)
        if starts.size and (starts[0] != 0 or (np.diff(starts) < 0).any() or starts[-1] > ids.size):
            raise ValueError(f"embedding_bag: offsets begin at 0 and rise to at most {ids.size}: {starts.tolist()}")
        if include_last_offset:
            ids, starts = ids[: starts[-1]], starts[:-1]
        count, bag = starts.size, np.searchsorted(starts, np.arange(ids.size), "right") - 1
    rows = fused.embedding(weight, ids=ids.reshape(-1))
    if per_sample_weights is not None:
        if mode != "sum" or per_sample_weights.shape != ids.shape:
            raise ValueError("embedding_bag: per_sample_weights, one for each id, are for mode='sum'")
        rows = rows * per_sample_weights.reshape(-1, 1)
    if padding_idx is not None:
        kept = ids.reshape(-1) != padding_idx % weight.shape[0]
        rows, bag = rows[kept], bag[kept]
    total = ops.unindex(rows, index=bag, shape=(count, weight.shape[1]))
    if mode == "sum":
        return total
    return total / np.maximum(np.bincount(bag, minlength=count), 1).astype(total.dtype)[:, None]


class EmbeddingBag(Module):
    """ids (B, n) -> (B, d), or ids (n,), offsets (B,) -> (B, d)   see `embedding_bag`; rows start standard normal"""

    def __init__(self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
                 scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, _weight: Tensor | None = None,
                 include_last_offset: bool = False, padding_idx: int | None = None, device: Any = None, dtype: Any = None):
        self.num_embeddings, self.embedding_dim, self.padding_idx = num_embeddings, embedding_dim, padding_idx
        self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode = max_norm, norm_type, scale_grad_by_freq, mode
        self.sparse, self.include_last_offset = sparse, include_last_offset
        given = _weight is not None
        self.weight = Parameter(_weight) if given else blank(num_embeddings, embedding_dim, dtype=dtype, device=device)
        if not given:
            self.reset_parameters()

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, **settings: Any) -> EmbeddingBag:
        """A table with these rows, which stay as they are if `freeze`."""
        rows, width = embeddings.shape
        bag = cls(rows, width, _weight=embeddings.detach(), **settings)
        bag.weight.requires_grad_(not freeze)
        return bag

    def reset_parameters(self) -> None:
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight.detach()[self.padding_idx] = 0

    def forward(self, input: Any, offsets: Any = None, per_sample_weights: Any = None) -> Tensor:
        return embedding_bag(input, self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode,
                             self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx)  # fmt: skip
