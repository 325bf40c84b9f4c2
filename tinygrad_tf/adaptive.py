"""Optimizers that fit the size of the step to each number, in other ways than Adam: Adadelta, Adamax, RAdam."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from .errors import real
from .optim import _check, _needless
from .optimizer import Optimizer


class Adadelta(Optimizer):
    """p -= lr * d, d = g sqrt(u + eps) / sqrt(v + eps), v and u the running means of g^2 and of d^2 (Zeiler 2012)

    weight_decay adds weight_decay * p to the gradient.
    """

    moments = ("square_avg", "acc_delta")

    def __init__(self, params: Iterable[Any], lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0.0,
                 foreach: bool | None = None):
        _needless(foreach=foreach)
        _check(lr=lr, eps=eps, weight_decay=weight_decay)
        real("rho", rho, most=1)
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay})

    def update(self, group: dict[str, Any], step: int, p: np.ndarray, g: np.ndarray, *moments: np.ndarray) -> None:
        v, u = moments
        if group["weight_decay"]:
            g += group["weight_decay"] * p
        v *= group["rho"]
        v += (1 - group["rho"]) * g * g
        g *= np.sqrt(u + group["eps"]) / np.sqrt(v + group["eps"])
        u *= group["rho"]
        u += (1 - group["rho"]) * g * g
        p -= group["lr"] * g


class Adamax(Optimizer):
    """p -= lr / (1 - beta1^step) * m / u, m the running mean of g, u = max(beta2 u, |g| + eps) (Kingma and Ba 2015)

    weight_decay adds weight_decay * p to the gradient.
    """

    moments = ("exp_avg", "exp_inf")

    def __init__(self, params: Iterable[Any], lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0, foreach: bool | None = None):
        _needless(foreach=foreach)
        _check(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay})

    def update(self, group: dict[str, Any], step: int, p: np.ndarray, g: np.ndarray, *moments: np.ndarray) -> None:
        (m, u), (beta1, beta2) = moments, group["betas"]
        if group["weight_decay"]:
            g += group["weight_decay"] * p
        m += (1 - beta1) * (g - m)
        u *= beta2
        np.maximum(u, np.abs(g) + group["eps"], out=u)
        p -= group["lr"] / (1 - beta1**step) * m / u


class RAdam(Optimizer):
    """Adam whose first steps, as long as few g^2 have been averaged, do not divide by sqrt(v) (Liu et al. 2020)

    weight_decay adds weight_decay * p to the gradient; decoupled_weight_decay: p *= 1 - lr * weight_decay in its place.
    """

    moments = ("exp_avg", "exp_avg_sq")

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0, decoupled_weight_decay: bool = False, *, foreach: bool | None = None):
        _needless(foreach=foreach)
        _check(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
                                  "decoupled_weight_decay": decoupled_weight_decay})  # fmt: skip

    def update(self, group: dict[str, Any], step: int, p: np.ndarray, g: np.ndarray, *moments: np.ndarray) -> None:
        (m, v), (beta1, beta2) = moments, group["betas"]
        if group["decoupled_weight_decay"]:
            p *= 1 - group["lr"] * group["weight_decay"]
        elif group["weight_decay"]:
            g += group["weight_decay"] * p
        m += (1 - beta1) * (g - m)
        v *= beta2
        v += (1 - beta2) * g * g
        rate = group["lr"] / (1 - beta1**step)
        most = 2 / (1 - beta2) - 1  # how many g^2 the running mean is worth in the end
        now = most - 2 * step * beta2**step / (1 - beta2**step)  # and so far
        if now <= 5:
            p -= rate * m
            return
        rate *= math.sqrt((now - 4) * (now - 2) * most / ((most - 4) * (most - 2) * now) * (1 - beta2**step))
        p -= rate * m / (np.sqrt(v) + group["eps"])
