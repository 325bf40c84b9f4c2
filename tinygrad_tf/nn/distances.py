"""Losses between numbers and between vectors, each as a function and as the module that calls it; see losses.py."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from .. import ops
from ..dtypes import as_array
from ..errors import real, tensors
from ..tensor import Tensor
from .losses import Loss, check_reduction, reduced
from .module import Module, of_its_own

# ------------------------------------------------------------------------------------------------ numbers


def _off(input: Tensor, target: Any) -> Tensor:
    """input - target; a warning if the shapes differ, since (N, 1) and (N,) make N x N differences."""
    tensors("ndim", input=input)
    off = input - target
    shape = getattr(target, "shape", ())
    if shape != input.shape:
        warnings.warn(f"a target of shape {shape} for an input of shape {input.shape}: both are broadcast to {off.shape}",
                      stacklevel=3)  # fmt: skip
    return off


def mse_loss(input: Tensor, target: Any, reduction: str = "mean") -> Tensor:
    """(...), (...) -> ()   (input - target) ** 2"""
    check_reduction(reduction)
    off = _off(input, target)._floats("mse_loss")
    return reduced(off * off, reduction)


class MSELoss(Loss):
    """(...), (...) -> ()   see `mse_loss`"""

    def __init__(self, reduction: str = "mean"):
        super().__init__(reduction)

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return mse_loss(input, target, self.reduction)


def l1_loss(input: Tensor, target: Any, reduction: str = "mean") -> Tensor:
    """(...), (...) -> ()   |input - target|"""
    check_reduction(reduction)
    return reduced(_off(input, target).abs(), reduction)


@of_its_own
class L1Loss(MSELoss):
    """(...), (...) -> ()   see `l1_loss`"""

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return l1_loss(input, target, self.reduction)


def smooth_l1_loss(input: Tensor, target: Any, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """(...), (...) -> ()   d ** 2 / (2 beta) where d = |input - target| is below beta, and d - beta / 2 beyond"""
    check_reduction(reduction)
    if real("beta", beta, -math.inf) < 0:
        raise ValueError(f"smooth_l1_loss: beta must not be negative: {beta}")
    off = _off(input, target)
    if not beta:
        return reduced(off.abs(), reduction)
    near = off.abs().array < beta
    square = ops.where(off, 0, condition=near).square() * (0.5 / beta)  # 0 far away: a square there might be infinite
    return reduced(square + ops.where(0, off.abs() - 0.5 * beta, condition=near), reduction)


class SmoothL1Loss(Loss):
    """(...), (...) -> ()   see `smooth_l1_loss`"""

    def __init__(self, reduction: str = "mean", beta: float = 1.0):
        super().__init__(reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return smooth_l1_loss(input, target, self.reduction, self.beta)


def huber_loss(input: Tensor, target: Any, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """(...), (...) -> ()   d ** 2 / 2 where d = |input - target| is below delta, and delta (d - delta / 2) beyond"""
    if real("delta", delta, -math.inf) <= 0:
        raise ValueError(f"huber_loss: delta must be positive: {delta}")
    return smooth_l1_loss(input, target, reduction, delta) * delta


class HuberLoss(Loss):
    """(...), (...) -> ()   see `huber_loss`"""

    def __init__(self, reduction: str = "mean", delta: float = 1.0):
        super().__init__(reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return huber_loss(input, target, self.reduction, self.delta)


# ------------------------------------------------------------------------------------------------ vectors


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """(..., d, ...), (..., d, ...) -> (...)   x1 . x2 / (|x1| |x2|) along dim, each length at least eps"""
    tensors(x1=x1, x2=x2)
    try:
        shape = np.broadcast_shapes(x1.shape, x2.shape)
    except ValueError:
        raise ValueError(f"cosine_similarity: shapes {x1.shape} and {x2.shape} do not go together") from None
    x1, x2 = (x.expand(shape) / x.expand(shape).norm(dim=dim, keepdim=True).clamp(min=eps) for x in (x1, x2))
    return (x1 * x2).sum(dim)


class CosineSimilarity(Module):
    """(..., d, ...), (..., d, ...) -> (...)   see `cosine_similarity`"""

    def __init__(self, dim: int = 1, eps: float = 1e-8):
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return cosine_similarity(x1, x2, self.dim, self.eps)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """(..., d), (..., d) -> (...)   the p-norm of x1 - x2 + eps"""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


class PairwiseDistance(Module):
    """(..., d), (..., d) -> (...)   see `pairwise_distance`"""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False):
        self.p, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return pairwise_distance(x1, x2, self.p, self.eps, self.keepdim)


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Any, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """(N, d), (N, d), (N,) of 1 and -1 -> ()   1 - cos for pairs that belong together, max(0, cos - margin) for the others

    Without the axis N, the target is 0-d.
    """
    check_reduction(reduction)
    tensors(input1=input1, input2=input2)
    wanted = as_array(target)
    if input1.ndim not in (1, 2) or wanted.ndim != input1.ndim - 1:
        raise ValueError(f"cosine_embedding_loss: (N, d), (N, d), (N,) or (d,), (d,), (), not {input1.shape}, {wanted.shape}")
    lengths = [x.square().sum(-1) + 1e-12 for x in (input1, input2)]
    cos = (input1 * input2).sum(-1) / (lengths[0] * lengths[1]).sqrt()
    loss = ops.where(1 - cos, 0, condition=wanted == 1) + ops.where((cos - margin).clamp(min=0), 0, condition=wanted == -1)
    return reduced(loss, reduction)


class CosineEmbeddingLoss(Loss):
    """(N, d), (N, d), (N,) of 1 and -1 -> ()   see `cosine_embedding_loss`"""

    def __init__(self, margin: float = 0.0, reduction: str = "mean"):
        super().__init__(reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Any) -> Tensor:
        return cosine_embedding_loss(input1, input2, target, self.margin, self.reduction)


def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Any, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """(...), (...), (...) of 1 and -1 -> ()   max(0, margin - target (input1 - input2)): which of the two should be larger"""
    check_reduction(reduction)
    tensors(input1=input1, input2=input2, target=target)
    return reduced((margin - target * (input1 - input2)).clamp(min=0), reduction)


@of_its_own
class MarginRankingLoss(CosineEmbeddingLoss):
    """(...), (...), (...) of 1 and -1 -> ()   see `margin_ranking_loss`"""

    def forward(self, input1: Tensor, input2: Tensor, target: Any) -> Tensor:
        return margin_ranking_loss(input1, input2, target, self.margin, self.reduction)


def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2.0,
                        eps: float = 1e-6, swap: bool = False, reduction: str = "mean") -> Tensor:
    """(..., d) three times -> ()   max(0, margin + |anchor - positive| - |anchor - negative|)

    swap: the negative's distance is that to the anchor or to the positive, whichever is less.
    """
    check_reduction(reduction)
    tensors(anchor=anchor, positive=positive, negative=negative)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = far.minimum(pairwise_distance(positive, negative, p, eps))
    return reduced((margin + pairwise_distance(anchor, positive, p, eps) - far).clamp(min=0), reduction)


class TripletMarginLoss(Loss):
    """(..., d) three times -> ()   see `triplet_margin_loss`"""

    def __init__(self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False, reduction: str = "mean"):
        super().__init__(reduction)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return triplet_margin_loss(anchor, positive, negative, self.margin, self.p, self.eps, self.swap, self.reduction)
