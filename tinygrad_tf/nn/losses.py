"""Losses: how far a prediction is from what was wanted, each as a function and as the module that calls it.

Names and arguments are PyTorch's. `reduction` is "mean", "sum" or "none"; logarithms are natural, so losses are in nats.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import fused, ops
from ..dtypes import as_array, as_ids, between, int64, uint8
from ..errors import called, real, tensors, whole
from ..tensor import Tensor
from .module import Module


class Loss(Module):
    """What the losses share: a reduction, and the weights, if any, as buffers."""

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(self, reduction: str, **weights: Any):
        check_reduction(reduction)
        self.reduction = reduction
        for name, weight in weights.items():
            self.register_buffer(name, weight if weight is None or isinstance(weight, Tensor) else Tensor(weight))

    def extra_repr(self) -> str:
        return f"reduction={self.reduction}"


def check_reduction(reduction: str, *more: str) -> None:
    if reduction not in ("none", "mean", "sum", *more):
        raise ValueError(f'{called()}reduction is "none", "mean" or "sum", not {reduction!r}')


def reduced(x: Tensor, reduction: str) -> Tensor:
    return x if reduction == "none" else x.mean() if reduction == "mean" else x.sum()


# ------------------------------------------------------------------------------------------------ classes


def cross_entropy(input: Tensor, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean",
                  label_smoothing: float = 0.0) -> Tensor:
    """logits (N, V), (V,) or (N, V, ...), target ids (N,), () or (N, ...) -> () or the target's shape

    `mean` divides by the targets that are not ignore_index; with none left the loss is 0. weight (V,): one for each class;
    then `mean` divides by the weights of the targets. A target of floats, in the shape of the logits, is a distribution over
    the classes. Label smoothing s takes (1 - s) target + s / V in place of the target.
    """
    check_reduction(reduction)
    if not 0 <= real("label_smoothing", label_smoothing, -math.inf) <= 1:
        raise ValueError(f"label_smoothing lies between 0 and 1, not at {label_smoothing}")
    classes = as_array(target)
    if classes.dtype.kind == "f" and classes.ndim and classes.shape == input.shape:
        return _soft_cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)
    if weight is not None:
        logp = input.log_softmax(min(1, input.ndim - 1))
        return _weighted(logp, target, weight, ignore_index, reduction, label_smoothing)
    logits, target, shape = _class_last(input, target, ignore_index)
    loss = fused.cross_entropy(logits, target=target, ignore_index=ignore_index, reduction=reduction,
                               label_smoothing=label_smoothing)  # fmt: skip
    return loss.reshape(shape) if reduction == "none" else loss


def nll_loss(input: Tensor, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    """Minus the log-probability of the target: cross_entropy for an input that is log-probabilities already."""
    check_reduction(reduction)
    return _weighted(input, target, weight, ignore_index, reduction, 0.0)


def _weighted(logp: Tensor, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float) -> Tensor:
    """sum_i w[y_i] * -((1 - s) logp_i[y_i]) - s / V sum_c w[c] logp_i[c] over the kept i, and for `mean` over sum_i w[y_i]"""
    logp, target, shape = _class_last(logp, target, ignore_index)
    kept = target != ignore_index
    safe = np.where(kept, target, 0).astype(np.int64)  # bytes would be a mask
    w = _weights(weight, logp)
    share = np.where(kept, 1 if w is None else w[safe], 0).astype(logp.dtype)
    loss = ops.where(0, -logp[np.arange(len(target)), safe], condition=~kept) * share
    if smoothing:
        evenly = (logp if w is None else logp * w).sum(1) * (smoothing / logp.shape[1])
        loss = loss * (1 - smoothing) - ops.where(0, evenly, condition=~kept)
    if reduction == "none":
        return loss.reshape(shape)
    return loss.sum() / (float(share.sum()) or 1.0 if reduction == "mean" else 1.0)


def _soft_cross_entropy(input: Tensor, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float) -> Tensor:
    """-sum_c w[c] target_c logp_c, each row counting once"""
    if ignore_index >= 0:
        raise ValueError("ignore_index names a class to leave out; a target of probabilities has none")
    axis = min(1, input.ndim - 1)
    target = target if isinstance(target, Tensor) else Tensor(target)
    wanted = target * (1 - smoothing) + smoothing / input.shape[axis] if smoothing else target
    logp, w = input.log_softmax(axis), _weights(weight, input, axis)
    loss = -(logp * wanted if w is None else logp * wanted * w.reshape(-1, *(1,) * (input.ndim - axis - 1))).sum(axis)
    return reduced(loss, reduction)


def _weights(weight: Any, x: Tensor, axis: int = 1) -> np.ndarray | None:
    w = None if weight is None else as_array(weight).astype(x.dtype, copy=False)
    if w is not None and w.shape != x.shape[axis : axis + 1]:
        raise ValueError(f"{called()}weights of shape {w.shape} for {x.shape[axis]} classes: one for each")
    return w


def _class_last(input: Tensor, target: Any, ignore_index: int) -> tuple[Tensor, np.ndarray, tuple[int, ...]]:
    """Logits (N, V) and targets (N,), whatever extra axes there were; the class axis is the second, as in PyTorch.

    Every target is a class or ignore_index.
    """
    tensors("ndim", input=input)
    if input.dtype.kind != "f":
        raise TypeError(f"{called()}logits and log-probabilities are floats, not {input.dtype}: .float() converts")
    whole("ignore_index", ignore_index)
    target = as_ids(target, (int64, uint8))
    shape = target.shape
    if not input.ndim:
        raise ValueError(f"{called()}a 0-d tensor has no classes: logits are (V,), (N, V) or (N, V, ...)")
    if input.ndim == 1:
        if shape:
            raise ValueError(f"{called()}targets of shape {shape} for one row of logits, {input.shape}: its target is a number")
        input = input.reshape(1, -1)
    lead = (input.shape[0], *input.shape[2:])
    if input.ndim > 2:
        input = input.permute(0, *range(2, input.ndim), 1).reshape(-1, input.shape[1])
    if input.shape[0] != target.size:
        raise ValueError(f"{called()}{input.shape[0]} rows of logits and {target.size} targets (of shape {shape}) do not match")
    if shape != lead and (shape or lead != (1,)):
        raise ValueError(f"{called()}targets of shape {shape} do not match logits whose shape without the class axis is {lead}")
    check_targets(target, input.shape[1], ignore_index)
    return input, target.reshape(-1), shape


def check_targets(target: np.ndarray, classes: int, ignore_index: int = -100) -> None:
    """TypeError unless these are integers, IndexError unless each is one of 0 ... classes - 1, or ignore_index."""
    if target.dtype.kind not in "iu":
        raise TypeError(f"{called()}targets are ids of classes, or floats as the logits, not {target.dtype} of {target.shape}")
    if not between(target, classes):
        bad = np.argwhere((target != ignore_index) & ((target < 0) | (target >= classes)))
        if len(bad):
            place = tuple(map(int, bad[0]))
            raise IndexError(f"{called()}target {target[place]} at position {place} is none of {classes} classes "
                             f"(0 to {classes - 1}) and not ignore_index, {ignore_index}")  # fmt: skip


class CrossEntropyLoss(Loss):
    """logits (N, V) or (N, V, ...), target ids (N,) or (N, ...) -> ()   see `cross_entropy`"""

    def __init__(self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0):
        super().__init__(reduction, weight=weight)
        self.ignore_index, self.label_smoothing = whole("ignore_index", ignore_index), label_smoothing

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return cross_entropy(input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing)


class NLLLoss(Loss):
    """log-probabilities (N, V) or (N, V, ...), target ids (N,) or (N, ...) -> ()   see `nll_loss`"""

    def __init__(self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean"):
        super().__init__(reduction, weight=weight)
        self.ignore_index = whole("ignore_index", ignore_index)

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


# ------------------------------------------------------------------------------------------------ distributions


def kl_div(input: Tensor, target: Any, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """log-probabilities q (...), probabilities p (...) -> ()   p (ln p - q), with 0 ln 0 = 0

    Summed over a distribution this is its Kullback-Leibler divergence from the input. "mean" divides by the number of
    elements; "batchmean" by the first axis, which gives the divergence of one distribution on average. log_target: p comes as
    its logarithm.
    """
    check_reduction(reduction, "batchmean")
    tensors(input=input)
    target = target._floats("kl_div") if isinstance(target, Tensor) else Tensor(target)
    if log_target:
        loss = target.exp() * (target - input)
    else:
        none = target.array == 0
        loss = ops.where(0, target * ops.where(1, target, condition=none).log(), condition=none) - target * input
    if reduction == "batchmean":
        return loss.sum() / (input.shape[0] if input.ndim else 1)
    return reduced(loss, reduction)


class KLDivLoss(Loss):
    """log-probabilities (...), probabilities (...) -> ()   see `kl_div`"""

    def __init__(self, reduction: str = "mean", log_target: bool = False):
        super().__init__("mean" if reduction == "batchmean" else reduction)
        self.reduction, self.log_target = reduction, log_target

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return kl_div(input, target, self.reduction, self.log_target)


# ------------------------------------------------------------------------------------------------ yes or no


def binary_cross_entropy(input: Tensor, target: Any, weight: Any = None, reduction: str = "mean") -> Tensor:
    """probabilities (...), targets between 0 and 1 (...) -> () or (...)   -w (t log p + (1 - t) log(1 - p))

    Logarithms are at least -100, and of a probability that is exactly 0 or 1 the slope is 0, where PyTorch's is 1e12:
    `binary_cross_entropy_with_logits` has no such point.
    """
    check_reduction(reduction)
    tensors(input=input)
    target = as_array(target).astype(input.dtype, copy=False) if not isinstance(target, Tensor) else target
    if target.dtype != input.dtype:
        raise TypeError(f"{called()}targets of {target.dtype} for probabilities of {input.dtype}: .to(dtype) converts")
    if target.shape != input.shape:
        raise ValueError(f"{called()}targets of shape {target.shape} for probabilities of {input.shape}: shapes must be equal")
    if not ((input.array >= 0) & (input.array <= 1)).all():
        raise RuntimeError("binary_cross_entropy takes probabilities, all of them between 0 and 1: sigmoid() makes them")
    loss = -(target * _log(input) + (1 - target) * _log(1 - input))
    return reduced(loss if weight is None else loss * weight, reduction)


def _log(p: Tensor) -> Tensor:
    zero = p.array == 0
    return ops.where(-100, ops.where(1, p, condition=zero).log().clamp(min=-100), condition=zero)


def binary_cross_entropy_with_logits(input: Tensor, target: Any, weight: Any = None, reduction: str = "mean",
                                     pos_weight: Any = None) -> Tensor:
    """logits (...), targets between 0 and 1 (...) -> ()   -t ln sigmoid(x) - (1 - t) ln(1 - sigmoid(x))

    Written as (1 - t) x - ln sigmoid(x), which neither overflows nor loses digits. pos_weight multiplies the part of the
    positives, -t ln sigmoid(x); weight the whole.
    """
    check_reduction(reduction)
    tensors(input=input)
    if not (pos_weight is None or isinstance(pos_weight, (int, float))):
        tensors("ndim", pos_weight=pos_weight)
    target = target._floats("binary_cross_entropy_with_logits: target") if isinstance(target, Tensor) else Tensor(target)
    if target.shape != input.shape:
        raise ValueError(f"{called()}targets of shape {target.shape} for logits of shape {input.shape}: shapes must be equal")
    never = -ops.logsigmoid(input)
    loss = (1 - target) * input + (never if pos_weight is None else never * ((pos_weight - 1) * target + 1))
    return reduced(loss if weight is None else loss * weight, reduction)


class BCEWithLogitsLoss(Loss):
    """logits (...), targets between 0 and 1 (...) -> ()   see `binary_cross_entropy_with_logits`"""

    def __init__(self, weight: Any = None, reduction: str = "mean", pos_weight: Any = None):
        super().__init__(reduction, weight=weight, pos_weight=pos_weight)

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return binary_cross_entropy_with_logits(input, target, self.weight, self.reduction, self.pos_weight)


class BCELoss(Loss):
    """probabilities (...), targets between 0 and 1 (...) -> ()   see `binary_cross_entropy`"""

    def __init__(self, weight: Any = None, reduction: str = "mean"):
        super().__init__(reduction, weight=weight)

    def forward(self, input: Tensor, target: Any) -> Tensor:
        return binary_cross_entropy(input, target, self.weight, self.reduction)
