"""torch.distributions: Categorical."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import tensors
from ..functions import multinomial
from ..tensor import Tensor, _sizes
from .unsupported import lookup


class Categorical:
    """Numbers 0 ... V - 1 with the probabilities (..., V), or with those that softmax makes of the logits (..., V)."""

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None):
        if (probs is None) == (logits is None):
            raise ValueError("Categorical takes probs or logits, one of the two")
        tensors(**({"probs": probs} if logits is None else {"logits": logits}))
        if logits is None:
            assert probs is not None
            if probs.ndim < 1 or (probs < 0).any() or not probs.isfinite().all():
                raise ValueError("Categorical: probs are finite, not negative, with at least one axis")
            self.probs = probs / probs.sum(-1, keepdim=True)
            eps = float(np.finfo(self.probs.dtype).eps)
            self.logits = self.probs.clamp(eps, 1 - eps).log()  # as in PyTorch: no logarithm is infinite
        else:
            self.logits = logits - logits.logsumexp(-1, keepdim=True)
            self.probs = self.logits.softmax(-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """(*sample_shape, ...)"""
        shape = _sizes((tuple(sample_shape),))
        rows = self.probs.detach().reshape(-1, self.probs.shape[-1])
        drawn = multinomial(rows, math.prod(shape), replacement=True)  # (rows, draws)
        return drawn.t().reshape(*shape, *self.probs.shape[:-1])

    def log_prob(self, value: Tensor) -> Tensor:
        shape = np.broadcast_shapes(value.shape, self.logits.shape[:-1])
        places = value.long().expand(shape).unsqueeze(-1)
        return self.logits.expand(*shape, -1).gather(-1, places).squeeze(-1)

    def entropy(self) -> Tensor:
        """In nats; a probability of 0 counts 0."""
        return -(self.probs * self.logits.masked_fill(self.probs == 0, 0.0)).sum(-1)


__getattr__ = lookup("torch.distributions")
