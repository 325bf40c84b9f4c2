"""Optimizers and learning-rate schedules.

The parameters of a group are moved into one flat array, and so are their gradients and moments at each step: an update is
then a few passes over one array in pieces that fit the cache, whatever the number of parameters. Each parameter remains a
view of its part, under its own name and shape.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from .dtypes import as_array
from .engine import mark_written
from .tensor import Tensor
from .threads import in_parts

PIECE = 1 << 16  # elements updated at a time: parameter, gradient, moments and scratch together fit a core's cache


class _Flat:
    """The parameters of one group as one array, their gradients as another, and an array for each moment."""

    def __init__(self, params: list[Tensor], moments: tuple[str, ...]):
        dtypes = {p.dtype for p in params}
        if len(dtypes) != 1:
            raise ValueError(f"the parameters of one group must have one dtype, not {', '.join(sorted(map(str, dtypes)))}")
        ends = np.cumsum([p.numel() for p in params]).tolist()
        self.parts = [slice(end - p.numel(), end) for p, end in zip(params, ends, strict=True)]
        self.params, self.steps = params, [0] * len(params)
        self.data, self.grad, *rest = (np.zeros(ends[-1], params[0].dtype) for _ in range(2 + len(moments)))
        self.moments = dict(zip(moments, rest, strict=True))
        self.views: list[Any] = [None] * len(params)
        self.adopt()

    def adopt(self) -> None:
        """Move parameters into the flat array: all at first, later those that somebody gave another array."""
        for i, (p, part) in enumerate(zip(self.params, self.parts, strict=True)):
            if p.array is not self.views[i]:
                self.data[part] = p.array.reshape(-1)
                p.array = self.views[i] = self.data[part].reshape(p.shape)

    def check(self) -> None:
        """Refuse a step that could not be taken whole."""
        for p in self.params:
            if p.array.dtype != self.data.dtype:
                raise ValueError(f"a parameter is {p.dtype} now, the optimizer was made for {self.data.dtype}: make a new one")
            if p.grad is not None and p.grad.array.shape != p.array.shape:
                raise ValueError(f"a gradient of shape {p.grad.shape} for a parameter of shape {p.shape}")

    def gather(self) -> Iterator[tuple[slice, int]]:
        """Bring in the gradients; yield (part of the flat arrays, its step count, from 1) for all that have one.

        Neighbours with the same count come as one part. A parameter whose `grad` is None is left out altogether.
        """
        self.adopt()
        in_parts(self._copy, self.params, self.parts, numbers=self.grad.size)
        start, stop, count = 0, 0, 0
        for i, (p, part) in enumerate(zip(self.params, self.parts, strict=True)):
            if p.grad is None:
                continue
            self.steps[i] += 1
            if (part.start, self.steps[i]) != (stop, count):
                if stop > start:
                    yield slice(start, stop), count
                start, count = part.start, self.steps[i]
            stop = part.stop
        if stop > start:
            yield slice(start, stop), count

    def _copy(self, params: list[Tensor], parts: list[slice]) -> None:
        for p, part in zip(params, parts, strict=True):
            if p.grad is not None:
                self.grad[part] = p.grad.array.reshape(-1)


class Optimizer:
    """Parameters in groups, each a dict with its own options, as torch.optim.Optimizer.

    `params`: tensors, or dicts with "params" and options of their own. A parameter whose grad is None is skipped entirely;
    one whose grad is zero still decays and moves by its momentum. `zero_grad()` sets None by default.
    """

    moments: tuple[str, ...] = ()

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]):
        if callable(getattr(params, "parameters", None)):
            raise TypeError(f"an optimizer takes parameters, not a {type(params).__name__}: pass model.parameters()")
        given = list(params)
        if not given:
            raise ValueError("the optimizer got no parameters")
        groups = given if isinstance(given[0], dict) else [{"params": given}]
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self._flat: list[_Flat | None] = []
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, group: dict[str, Any]) -> None:
        params = [group["params"]] if isinstance(group["params"], Tensor) else list(group["params"])
        known = {id(p) for g in self.param_groups for p in g["params"]}
        for p in params:
            if not isinstance(p, Tensor) or p.node is not None or not p.requires_grad:
                raise ValueError("an optimizer takes leaf tensors that require a gradient")
            if id(p) in known:
                raise ValueError(f"a parameter of shape {p.shape} is listed twice: it would be stepped twice")
            known.add(id(p))
        self.param_groups.append({**self.defaults, **group, "params": params})
        self._flat.append(_Flat(params, self.moments) if params else None)

    def zero_grad(self, set_to_none: bool = True) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none or p.grad is None:
                    p.grad = None
                else:
                    p.grad.array[...] = 0

    def step(self) -> None:
        """Update every parameter that has a gradient."""
        for group, flat in self._checked():
            for part, count in flat.gather():
                work = partial(self._in_pieces, group, count)
                arrays = [a[part] for a in (flat.data, flat.grad, *flat.moments.values())]
                in_parts(work, *arrays, numbers=arrays[0].size)
            mark_written(flat.data)

    def _in_pieces(self, group: dict[str, Any], step: int, *arrays: np.ndarray) -> None:
        for at in range(0, arrays[0].size, PIECE):
            self.update(group, step, *[a[at : at + PIECE] for a in arrays])

    def _checked(self) -> list[tuple[dict[str, Any], _Flat]]:
        """Groups with their flat arrays, once it is sure that every one of them can be stepped."""
        pairs = [(group, flat) for group, flat in zip(self.param_groups, self._flat, strict=True) if flat is not None]
        for _, flat in pairs:
            flat.check()
        return pairs

    def update(self, group: dict[str, Any], step: int, p: np.ndarray, g: np.ndarray, *moments: np.ndarray) -> None:
        """Change p in place, elementwise; g may be overwritten."""
        raise NotImplementedError(f"{type(self).__name__} defines no update")

    def state_dict(self) -> dict[str, Any]:
        """{"state": {index: {"step", moments ...}}, "param_groups": [...]}, in PyTorch's layout; tensors share memory."""
        state, groups, index = {}, [], 0
        for group, flat in zip(self.param_groups, self._flat, strict=True):
            numbers = range(index, index + len(group["params"]))
            groups.append({**{k: v for k, v in group.items() if k != "params"}, "params": list(numbers)})
            for i, number in enumerate(numbers):
                if flat is not None and flat.steps[i]:
                    views = {name: Tensor(m[flat.parts[i]].reshape(flat.params[i].shape)) for name, m in flat.moments.items()}
                    state[number] = {"step": flat.steps[i], **views}
            index += len(numbers)
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` of an optimizer over the same parameters returned. Checked before anything is written."""
        self._write_state(*self._read_state(state_dict))

    def _read_state(self, state_dict: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[int, dict[str, Any]]]:
        """The groups and the state, if they fit. A moment without a step count, as PyTorch saves for SGD, has seen one step."""
        groups = state_dict["param_groups"]
        sizes, own = [len(g["params"]) for g in groups], [len(g["params"]) for g in self.param_groups]
        if sizes != own:
            raise ValueError(f"the state has parameter groups of sizes {sizes}, this optimizer {own}")
        state = {int(number): {"step": 1, **entry} for number, entry in state_dict["state"].items()}
        params = [p for group in self.param_groups for p in group["params"]]
        for number, entry in state.items():
            if not 0 <= number < len(params):
                raise ValueError(f"the state has a parameter {number}, this optimizer has 0 to {len(params) - 1}")
            for name in self.moments:
                if entry.get(name) is None or as_array(entry[name]).shape != params[number].shape:
                    raise ValueError(f"the state of parameter {number} has no {name} of shape {params[number].shape}")
        return groups, state

    def _write_state(self, groups: list[dict[str, Any]], state: dict[int, dict[str, Any]]) -> None:
        for group, new in zip(self.param_groups, groups, strict=True):
            group.update({k: v for k, v in new.items() if k != "params"})
        places = [(flat, i) for flat in self._flat if flat is not None for i in range(len(flat.params))]
        for number, (flat, i) in enumerate(places):
            entry = state.get(number, {"step": 0})
            flat.steps[i] = int(entry["step"])
            for name, moment in flat.moments.items():
                moment[flat.parts[i]] = as_array(entry[name]).reshape(-1) if flat.steps[i] else 0


class SGD(Optimizer):
    """p -= lr * g, with momentum v = momentum * v + g in place of g, and g + weight_decay * p in place of g."""

    moments = ("momentum_buffer",)

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0,
                 weight_decay: float = 0.0, nesterov: bool = False):
        if lr < 0 or momentum < 0 or weight_decay < 0:
            raise ValueError(f"lr, momentum and weight_decay must not be negative: {lr}, {momentum}, {weight_decay}")
        if nesterov and (momentum <= 0 or dampening):
            raise ValueError("Nesterov momentum needs a momentum and no dampening")
        super().__init__(params, {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                                  "nesterov": nesterov})  # fmt: skip

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
                 weight_decay: float = 0.0):
        if lr < 0 or eps < 0 or weight_decay < 0 or not all(0 <= b < 1 for b in betas):
            given = f"lr={lr}, betas={betas}, eps={eps}, weight_decay={weight_decay}"
            raise ValueError(f"lr, eps and weight_decay must not be negative, betas lie in [0, 1): {given}")
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay})

    def update(self, group: dict[str, Any], step: int, p: np.ndarray, g: np.ndarray, *moments: np.ndarray) -> None:
        m, v = moments
        beta1, beta2 = group["betas"]
        if self.decoupled:
            p *= 1 - group["lr"] * group["weight_decay"]
        elif group["weight_decay"]:
            g += group["weight_decay"] * p
        m *= beta1
        m += (1 - beta1) * g
        g *= g
        g *= 1 - beta2
        v *= beta2
        v += g
        unbias = math.sqrt(1 - beta2**step)  # of sqrt(v); drawn out of the fraction, it costs no pass of its own
        np.sqrt(v, out=g)
        g += group["eps"] * unbias
        np.divide(m, g, out=g)
        g *= group["lr"] * unbias / (1 - beta1**step)
        p -= g


class AdamW(Adam):
    """Adam with the decay apart from the gradient: p *= 1 - lr * weight_decay first (Loshchilov and Hutter 2019)."""

    decoupled = True

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0.01):
        super().__init__(params, lr, betas, eps, weight_decay)


class Muon(Optimizer):
    """For the matrices inside a model: move by the momentum's nearest orthogonal matrix (Jordan et al. 2024).

    v is the running mean of g and u that of v (Nesterov); `ns_steps` Newton-Schulz steps bring every singular value of u near
    1, so that all directions of the update count alike. The step is scaled by 0.2 sqrt(max(rows, columns)), which makes its
    size that of an AdamW step at the same lr (Liu et al. 2025). As torch.optim.Muon with adjust_lr_fn="match_rms_adamw".
    """

    moments = ("momentum_buffer",)

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
                 nesterov: bool = True, ns_steps: int = 5):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
                                  "ns_steps": ns_steps})  # fmt: skip

    def add_param_group(self, group: dict[str, Any]) -> None:
        super().add_param_group(group)
        for p in self.param_groups[-1]["params"]:
            if p.ndim != 2:
                raise ValueError(f"Muon takes matrices, not a parameter of shape {p.shape}: give that one to AdamW")

    def step(self) -> None:
        for group, flat in self._checked():
            for part, _ in flat.gather():
                whole = zip(flat.params, flat.parts, strict=True)
                own = [(p.shape, at) for p, at in whole if part.start <= at.start < part.stop]
                in_parts(partial(self._move_all, group, flat), own, numbers=part.stop - part.start)
            mark_written(flat.data)

    def _move_all(self, group: dict[str, Any], flat: _Flat, own: list[tuple[tuple[int, ...], slice]]) -> None:
        for shape, at in own:
            self._move(group, *(a[at].reshape(shape) for a in (flat.data, flat.grad, *flat.moments.values())))

    def _move(self, group: dict[str, Any], p: np.ndarray, g: np.ndarray, v: np.ndarray) -> None:
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
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
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

    def step(self) -> None:
        for optimizer in self.optimizers:
            optimizer.step()

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


def warmup_cosine(step: int, *, lr: float, min_lr: float = 0.0, warmup: int = 0, total: int) -> float:
    """The learning rate at `step`, from 0: up in a line for `warmup` steps, then down half a cosine to min_lr at the last step.

    Step 0 already moves (lr / warmup), step warmup - 1 has the peak, and from step total - 1 on it is min_lr. With warmup =
    total the last step is the peak; with one step in all, that step has lr.
    """
    return _warmup(step, lr, min_lr, warmup, total, lambda done: 0.5 * (1 + math.cos(math.pi * done)))


def warmup_linear(step: int, *, lr: float, min_lr: float = 0.0, warmup: int = 0, total: int) -> float:
    """As warmup_cosine, but down in a line."""
    return _warmup(step, lr, min_lr, warmup, total, lambda done: 1 - done)


def _warmup(step: int, lr: float, min_lr: float, warmup: int, total: int, fall: Any) -> float:
    if step < warmup:
        return lr * (step + 1) / warmup
    if step == 0 and total == 1:
        return lr
    done = min(1.0, (step - warmup + 1) / (total - warmup)) if total > warmup else 1.0
    return min_lr + (lr - min_lr) * fall(done)
