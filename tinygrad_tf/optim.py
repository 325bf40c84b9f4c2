"""The optimizers, each as its update, and learning-rate schedules as functions of the step."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from .errors import called, real, shown
from .flat import Flat
from .kernels import fast
from .optimizer import Optimizer, evaluated
from .threads import on_threads


def _needless(**switches: Any) -> None:
    """PyTorch's ways to make the same step faster: here there is one way."""
    for name, wanted in switches.items():
        if wanted:
            warnings.warn(f"{name}=True changes nothing here: a step is a few passes over one flat array anyway", stacklevel=3)


def _check(*, betas: Any = (), **numbers: Any) -> None:
    """Refuse what no optimizer can take: a number that is none or negative, a beta outside [0, 1)."""
    for name, number in numbers.items():
        real(name, number)
    if betas != ():
        if not isinstance(betas, (tuple, list)) or len(betas) != 2:
            raise TypeError(f"{called()}betas are two numbers, as (0.9, 0.999), not {shown(betas)}")
        for beta in betas:
            real("a beta", beta, below=1)


class SGD(Optimizer):
    """p -= lr * g, with momentum v = momentum * v + g in place of g, and g + weight_decay * p in place of g."""

    moments = ("momentum_buffer",)

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0,
                 weight_decay: float = 0.0, nesterov: bool = False, *, maximize: bool = False, foreach: bool | None = None,
                 fused: bool | None = None):
        _needless(foreach=foreach, fused=fused)
        _check(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening):
            raise ValueError("Nesterov momentum needs a momentum and no dampening")
        super().__init__(params, {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                                  "nesterov": nesterov, "maximize": maximize})  # fmt: skip

    def update(self, group: dict[str, Any], step: int, p: np.ndarray, g: np.ndarray, *moments: np.ndarray) -> None:
        (v,) = moments
        if group["weight_decay"]:
            g += group["weight_decay"] * p
        if group["momentum"]:
            v *= group["momentum"]
            v += g if step == 1 else (1 - group["dampening"]) * g
            g = g + group["momentum"] * v if group["nesterov"] else v
        p -= group["lr"] * g


class Adam(Optimizer):
    """p -= lr * m / (sqrt(v) + eps), m and v the running means of g and g^2, each divided by 1 - beta^step (Kingma and Ba 2015)

    weight_decay adds weight_decay * p to the gradient.
    """

    moments = ("exp_avg", "exp_avg_sq")
    decoupled = False

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.0, amsgrad: bool = False, *, maximize: bool = False, foreach: bool | None = None,
                 fused: bool | None = None):
        _needless(foreach=foreach, fused=fused)
        if amsgrad:
            raise NotImplementedError("amsgrad is not built: leave it out, or lower betas[1] for a shorter memory of g^2")
        _check(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
                                  "maximize": maximize})  # fmt: skip

    def update(self, group: dict[str, Any], step: int, p: np.ndarray, g: np.ndarray, *moments: np.ndarray) -> None:
        m, v = moments
        beta1, beta2 = group["betas"]
        if self.decoupled:
            shrink, decay = 1 - group["lr"] * group["weight_decay"], 0.0
        else:
            shrink, decay = 1.0, group["weight_decay"]
        unbias = math.sqrt(1 - beta2**step)  # of sqrt(v); drawn out of the fraction, it costs no pass of its own
        rate = group["lr"] * unbias / (1 - beta1**step)
        adam(shrink, decay, beta1, beta2, group["eps"] * unbias, rate, g, m, v, p)


@fast
def adam(shrink: float, decay: float, beta1: float, beta2: float, eps: float, rate: float,
         g: np.ndarray, m: np.ndarray, v: np.ndarray, p: np.ndarray) -> None:
    """p *= shrink;  p -= rate * m / (sqrt(v) + eps), m and v moved on by g + decay * p first; g may be overwritten"""
    if shrink != 1:
        p *= shrink
    if decay:
        g += decay * p
    m *= beta1
    m += (1 - beta1) * g
    g *= g
    g *= 1 - beta2
    v *= beta2
    v += g
    np.sqrt(v, out=g)
    g += eps
    np.divide(m, g, out=g)
    g *= rate
    p -= g


class AdamW(Adam):
    """Adam with the decay apart from the gradient: p *= 1 - lr * weight_decay first (Loshchilov and Hutter 2019)."""

    decoupled = True

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.01, amsgrad: bool = False, *, maximize: bool = False, foreach: bool | None = None,
                 fused: bool | None = None):
        _needless(foreach=foreach, fused=fused)
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)


class RMSprop(Optimizer):
    """p -= lr * g / (sqrt(v) + eps), v the running mean of g^2 (Hinton 2012)

    centered: the variance, v - m^2 with m the running mean of g, in place of v (Graves 2013). momentum: p -= lr * b, where
    b = momentum * b + g / (sqrt(v) + eps). weight_decay adds weight_decay * p to the gradient.
    """

    moments = ("square_avg", "momentum_buffer", "grad_avg")

    def __init__(self, params: Iterable[Any], lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
                 weight_decay: float = 0.0, momentum: float = 0.0, centered: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None):
        _needless(foreach=foreach)
        _check(lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum)
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum,
                                  "centered": centered, "maximize": maximize})  # fmt: skip

    def kept(self, group: dict[str, Any]) -> tuple[str, ...]:
        return ("square_avg", *["momentum_buffer"] * (group["momentum"] > 0), *["grad_avg"] * group["centered"])

    def update(self, group: dict[str, Any], step: int, p: np.ndarray, g: np.ndarray, *moments: np.ndarray) -> None:
        v, b, m = moments
        if group["weight_decay"]:
            g += group["weight_decay"] * p
        v *= group["alpha"]
        v += (1 - group["alpha"]) * g * g
        if group["centered"]:
            m += (1 - group["alpha"]) * (g - m)
        g /= np.sqrt(v - m * m if group["centered"] else v) + group["eps"]
        if group["momentum"] > 0:
            b *= group["momentum"]
            b += g
            g = b
        p -= group["lr"] * g


class Adagrad(Optimizer):
    """p -= lr * g / (sqrt(s) + eps), s the sum of g^2 over all steps, from initial_accumulator_value on (Duchi et al. 2011)

    lr_decay: in step t, counted from 0, with lr / (1 + t * lr_decay). weight_decay adds weight_decay * p to the gradient.
    """

    moments = ("sum",)

    def __init__(self, params: Iterable[Any], lr: float = 1e-2, lr_decay: float = 0.0, weight_decay: float = 0.0,
                 initial_accumulator_value: float = 0.0, eps: float = 1e-10, foreach: bool | None = None, *,
                 maximize: bool = False, fused: bool | None = None):
        _needless(foreach=foreach, fused=fused)
        _check(lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, eps=eps,
               initial_accumulator_value=initial_accumulator_value)  # fmt: skip
        super().__init__(params, {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
                                  "initial_accumulator_value": initial_accumulator_value, "maximize": maximize})  # fmt: skip

    def first(self, group: dict[str, Any]) -> float:
        return group["initial_accumulator_value"]

    def update(self, group: dict[str, Any], step: int, p: np.ndarray, g: np.ndarray, *moments: np.ndarray) -> None:
        (s,) = moments
        if group["weight_decay"]:
            g += group["weight_decay"] * p
        s += g * g
        g /= np.sqrt(s) + group["eps"]
        p -= group["lr"] / (1 + (step - 1) * group["lr_decay"]) * g


class Muon(Optimizer):
    """For the matrices inside a model: move by the momentum's nearest orthogonal matrix (Jordan et al. 2024).

    v is the running mean of g and u that of v (Nesterov); `ns_steps` Newton-Schulz steps bring every singular value of u near
    1, so that all directions of the update count alike. The step is scaled by 0.2 sqrt(max(rows, columns)), which makes its
    size that of an AdamW step at the same lr (Liu et al. 2025). As torch.optim.Muon with adjust_lr_fn="match_rms_adamw".
    """

    moments = ("momentum_buffer",)

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
                 nesterov: bool = True, ns_steps: int = 5):
        _check(lr=lr, weight_decay=weight_decay, momentum=momentum)
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
                                  "ns_steps": ns_steps})  # fmt: skip

    def add_param_group(self, group: dict[str, Any]) -> None:
        super().add_param_group(group)
        for p in self.param_groups[-1]["params"]:
            if p.ndim != 2:
                raise ValueError(f"Muon takes matrices, not a parameter of shape {p.shape}: give that one to AdamW")

    def _move(self, group: dict[str, Any], flat: Flat) -> None:
        on_threads(partial(self._move_one, group, flat), [i for i, p in enumerate(flat.params) if p.grad is not None])

    def _move_one(self, group: dict[str, Any], flat: Flat, i: int) -> None:
        flat.steps[i] += 1
        p, g = flat.params[i].array, flat.params[i].grad.array
        v = flat.moments["momentum_buffer"][flat.parts[i]].reshape(p.shape)
        v *= group["momentum"]
        v += g * (1 - group["momentum"])
        u = g * (1 - group["momentum"]) + v * group["momentum"] if group["nesterov"] else v
        p *= 1 - group["lr"] * group["weight_decay"]
        p -= group["lr"] * 0.2 * math.sqrt(max(p.shape)) * orthogonal(u, group["ns_steps"])


def orthogonal(x: np.ndarray, steps: int = 5) -> np.ndarray:
    """(m, n) -> (m, n)   about U V^T, for x = U S V^T: a quintic whose iteration takes every singular value to 0.7 ... 1.2"""
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / (np.linalg.norm(x) + 1e-7)
    for _ in range(steps):
        a = x @ x.T
        b = a @ a  # x = (3.4445 I - 4.7750 a + 2.0315 a a) @ x, in passes over the smaller of the two sizes
        b *= 2.0315
        a *= -4.7750
        b += a
        b.flat[:: len(b) + 1] += 3.4445
        x = b @ x
    return x.T if tall else x


class Together:
    """Several optimizers as one, each for its own parameters. Groups, parameters and state are numbered one after the other."""

    def __init__(self, *optimizers: Optimizer):
        self.optimizers = optimizers
        params = [p for group in self.param_groups for p in group["params"]]
        if len({id(p) for p in params}) < len(params):
            raise ValueError("a parameter is in two of the optimizers: it would be stepped twice")

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return [group for optimizer in self.optimizers for group in optimizer.param_groups]

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = evaluated(closure)
        for optimizer in self.optimizers:
            optimizer.step()
        return loss

    def flats(self) -> list[Flat]:
        return [flat for optimizer in self.optimizers for flat in optimizer.flats()]

    def rows(self) -> list[Any]:
        return [p for optimizer in self.optimizers for p in optimizer.rows()]

    def zero_grad(self, set_to_none: bool = True) -> None:
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        state, groups, first = {}, [], 0
        for optimizer in self.optimizers:
            own = optimizer.state_dict()
            state.update({first + i: entry for i, entry in own["state"].items()})
            groups += [{**group, "params": [first + i for i in group["params"]]} for group in own["param_groups"]]
            first += sum(len(group["params"]) for group in own["param_groups"])
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        groups, state, first = list(state_dict["param_groups"]), state_dict["state"], 0
        if len(groups) != len(self.param_groups):
            raise ValueError(f"the state has {len(groups)} parameter groups, these optimizers {len(self.param_groups)}")
        plans, known = [], set[int]()
        for optimizer in self.optimizers:
            own, groups = groups[: len(optimizer.param_groups)], groups[len(optimizer.param_groups) :]
            numbers = range(first, first + sum(len(group["params"]) for group in own))
            mine = {int(i) - first: entry for i, entry in state.items() if int(i) in numbers}
            plans.append((optimizer, optimizer._read_state({"state": mine, "param_groups": own})))
            known.update(numbers)
            first = numbers.stop
        if unknown := {int(i) for i in state} - known:
            raise ValueError(f"the state has a parameter {min(unknown)}, these optimizers have {first}")
        for optimizer, plan in plans:
            optimizer._write_state(*plan)


# ------------------------------------------------------------------------------------------------ schedules


# Name -> from the share of the way down that is done to what is left of the rate.
FALLS: dict[str, Callable[[float], float]] = {
    "cosine": lambda done: 0.5 * (1 + math.cos(math.pi * done)),
    "linear": lambda done: 1 - done,
}


def warmup_cosine(step: int, *, lr: float, min_lr: float = 0.0, warmup: int = 0, total: int) -> float:
    """The learning rate at `step`, from 0: up in a line for `warmup` steps, then down half a cosine to min_lr at the last step.

    Step 0 already moves (lr / warmup), step warmup - 1 has the peak, and from step total - 1 on it is min_lr. With warmup =
    total the last step is the peak; with one step in all, that step has lr.
    """
    return _warmup(step, lr, min_lr, warmup, total, FALLS["cosine"])


def warmup_linear(step: int, *, lr: float, min_lr: float = 0.0, warmup: int = 0, total: int) -> float:
    """As warmup_cosine, but down in a line."""
    return _warmup(step, lr, min_lr, warmup, total, FALLS["linear"])


def _warmup(step: int, lr: float, min_lr: float, warmup: int, total: int, fall: Callable[[float], float]) -> float:
    if step < warmup:
        return lr * (step + 1) / warmup
    if step == 0 and total == 1:
        return lr
    done = min(1.0, (step - warmup + 1) / (total - warmup)) if total > warmup else 1.0
    return min_lr + (lr - min_lr) * fall(done)
