"""Schedules as objects that set the learning rate of an optimizer's groups, with PyTorch's names and numbers.

Each is made from an optimizer and sets the first rate; every `step()` sets the next. `optim.warmup_cosine` is the same idea as
a function of the step, which needs no state.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

from .errors import called, real, shown, whole


def of_optimizer(optimizer: Any) -> Any:
    """The optimizer, if it is one."""
    if not hasattr(optimizer, "param_groups"):
        raise TypeError(f"{called()}an optimizer comes first, not {shown(optimizer)}")
    return optimizer


def steps(what: str, number: Any) -> Any:
    """A number of steps that is more than 0; epochs / 3 may be a fraction, as in PyTorch."""
    if not real(what, number):
        raise ValueError(f"{called()}{what} counts steps, so it is not {number}")
    return number


class LRScheduler:
    """What the schedules share: the count of steps, the rates at the start, and the state to go on from.

    The rate at the start is a group's "initial_lr", which is its "lr" if it has none. last_epoch: the step to go on from, for
    an optimizer whose groups are those of a run that was interrupted.
    """

    left_out: tuple[str, ...] = ("optimizer",)  # what is no part of the state

    def __init__(self, optimizer: Any, last_epoch: int = -1):
        whole("last_epoch", last_epoch, -1)
        self.optimizer, self.last_epoch, self.first = of_optimizer(optimizer), last_epoch, last_epoch + 1
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(f"to go on from step {last_epoch}, group {i} of the optimizer needs its 'initial_lr'")
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.step()

    def step(self) -> None:
        """Set the rates of the next step."""
        self.last_epoch += 1
        for i, group in enumerate(self.optimizer.param_groups):
            group["lr"] = self.rate(i, group)
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def restart(self) -> None:
        """Step 0 again, from the rates of the start."""
        for group, base in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = base
        self.last_epoch, self.first = -1, 0
        self.step()

    def rate(self, i: int, group: dict[str, Any]) -> float:
        """The rate of group i at step `last_epoch`; group["lr"] still holds that of the step before."""
        raise NotImplementedError(f"{type(self).__name__} defines no rate")

    def get_last_lr(self) -> list[float]:
        """The rates that were set last, one for each group."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer, which has a state of its own, and functions."""
        return {name: value for name, value in vars(self).items() if name not in self.left_out}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what `state_dict` of such a schedule returned, or of PyTorch's; names unknown here are left out."""
        if not isinstance(state_dict, dict):
            raise TypeError(f"{called()}a dict, which state_dict() gave, not {shown(state_dict)}")
        own = vars(self).keys() - set(self.left_out)
        vars(self).update({name: value for name, value in state_dict.items() if name in own})


class LambdaLR(LRScheduler):
    """The starting rate times lr_lambda(step); one function for all groups, or a list with one for each."""

    left_out = ("optimizer", "lr_lambdas")

    def __init__(self, optimizer: Any, lr_lambda: Any, last_epoch: int = -1):
        groups = len(of_optimizer(optimizer).param_groups)
        self.lr_lambdas: list[Callable[[int], float]] = (
            list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * groups
        )
        if len(self.lr_lambdas) != groups:
            raise ValueError(f"{len(self.lr_lambdas)} functions for {groups} parameter groups: one for each")
        for function in self.lr_lambdas:
            if not callable(function):
                raise TypeError(f"{called()}lr_lambda is a function of the step, not {shown(function)}")
        super().__init__(optimizer, last_epoch)

    def rate(self, i: int, group: dict[str, Any]) -> float:
        return self.base_lrs[i] * self.factor(i)

    def factor(self, i: int) -> float:
        return real("lr_lambda(step)", self.lr_lambdas[i](self.last_epoch), -math.inf)

    def state_dict(self) -> dict[str, Any]:
        """Of a function nothing is kept, of an object that can be called its attributes."""
        kept = [None if isinstance(f, FunctionType) else vars(f).copy() for f in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        for function, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            vars(function).update(attributes or {})


class StepLR(LRScheduler):
    """Times gamma every step_size steps."""

    def __init__(self, optimizer: Any, step_size: int, gamma: float = 0.1, last_epoch: int = -1):
        self.step_size, self.gamma = steps("step_size", step_size), real("gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def rate(self, i: int, group: dict[str, Any]) -> float:
        same = self.last_epoch == 0 or self.last_epoch % self.step_size
        return group["lr"] if same else group["lr"] * self.gamma


class CosineAnnealingLR(LRScheduler):
    """Down half a cosine from the starting rate to eta_min in T_max steps, then up again (Loshchilov and Hutter 2017)

    Each rate is computed from the one before, so that a rate somebody changed in between is carried along.
    """

    def __init__(self, optimizer: Any, T_max: int, eta_min: float = 0.0, last_epoch: int = -1):
        self.T_max, self.eta_min = steps("T_max", T_max), real("eta_min", eta_min, -math.inf)
        super().__init__(optimizer, last_epoch)

    def rate(self, i: int, group: dict[str, Any]) -> float:
        if self.last_epoch == self.first:
            return group["lr"]
        before, now = ((1 + math.cos(math.pi * n / self.T_max)) / 2 for n in (self.last_epoch - 1, self.last_epoch))
        if (self.last_epoch - 1) % (2 * self.T_max) == self.T_max:  # up from the lowest point, whose share is 0
            return group["lr"] + (self.base_lrs[i] - self.eta_min) * now
        return self.eta_min + (group["lr"] - self.eta_min) * now / before


class OneCycleLR(LRScheduler):
    """Up from max_lr / div_factor to max_lr in the first pct_start of all steps, then down (Smith and Topin 2018)

    At the end the rate is 1 / final_div_factor of that at the start. The number of steps is total_steps, or epochs *
    steps_per_epoch. anneal_strategy: along half a cosine, "cos", or "linear". three_phase: down to the start as long as up,
    then on down. cycle_momentum: the momentum (beta1 of Adam) goes from max_momentum to base_momentum while the rate goes up,
    and back. max_lr and the momenta: numbers, or lists of one a group.
    """

    def __init__(self, optimizer: Any, max_lr: Any, total_steps: int | None = None, epochs: int | None = None,
                 steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = "cos",
                 cycle_momentum: bool = True, base_momentum: Any = 0.85, max_momentum: Any = 0.95, div_factor: float = 25.0,
                 final_div_factor: float = 1e4, three_phase: bool = False, last_epoch: int = -1):
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("one cycle needs total_steps, or epochs and steps_per_epoch")
            total_steps = whole("epochs", epochs) * whole("steps_per_epoch", steps_per_epoch)
        real("div_factor", div_factor), real("final_div_factor", final_div_factor), real("pct_start", pct_start, -math.inf)
        if not div_factor or not final_div_factor:
            raise ValueError(f"OneCycleLR: rates are divided by {div_factor} and {final_div_factor}, so neither is 0")
        if whole("total_steps", total_steps) <= 0 or not 0 <= pct_start <= 1:
            raise ValueError(f"total_steps must be positive and pct_start lie in [0, 1]: {total_steps}, {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f'anneal_strategy is "cos" or "linear", not {anneal_strategy!r}')
        groups = of_optimizer(optimizer).param_groups
        if cycle_momentum and not all("betas" in group or "momentum" in group for group in groups):
            raise ValueError("this optimizer has neither momentum nor betas: cycle_momentum=False leaves them alone")
        self.total_steps, self.anneal_strategy, self.cycle_momentum = total_steps, anneal_strategy, cycle_momentum
        rise = float(pct_start * total_steps) - 1
        low, high, least = "initial_lr", "max_lr", "min_lr"
        if three_phase:  # each phase: its last step, rates from and to, momenta from and to
            self.phases = [(rise, low, high, "max_momentum", "base_momentum"),
                           (2 * rise, high, low, "base_momentum", "max_momentum"),
                           (total_steps - 1, low, least, "max_momentum", "max_momentum")]  # fmt: skip
        else:
            self.phases = [(rise, low, high, "max_momentum", "base_momentum"),
                           (total_steps - 1, high, least, "base_momentum", "max_momentum")]  # fmt: skip
        if last_epoch == -1:
            given = {"max_lr": max_lr, "base_momentum": base_momentum, "max_momentum": max_momentum}
            lists = [[real(name, number) for number in _each(x, len(groups))] for name, x in given.items()]
            for group, top, base, most in zip(groups, *lists, strict=True):
                group["initial_lr"], group["max_lr"] = top / div_factor, top
                group["min_lr"] = group["initial_lr"] / final_div_factor
                if cycle_momentum:
                    group["base_momentum"], group["max_momentum"] = base, most
        super().__init__(optimizer, last_epoch)

    def rate(self, i: int, group: dict[str, Any]) -> float:
        if self.last_epoch > self.total_steps:
            raise ValueError(f"step {self.last_epoch} of a cycle that has {self.total_steps} steps")
        last = len(self.phases) - 1  # one step beyond it still is allowed: its line goes on
        number = next((n for n, phase in enumerate(self.phases) if self.last_epoch <= phase[0]), last)
        start = self.phases[number - 1][0] if number else 0.0
        end, lr_from, lr_to, momentum_from, momentum_to = self.phases[number]
        done = (self.last_epoch - start) / (end - start) if end > start else 1.0
        if self.cycle_momentum:
            momentum = self._between(group[momentum_from], group[momentum_to], done)
            if "betas" in group:
                group["betas"] = (momentum, *group["betas"][1:])
            else:
                group["momentum"] = momentum
        return self._between(group[lr_from], group[lr_to], done)

    def _between(self, start: float, end: float, done: float) -> float:
        if self.anneal_strategy == "linear":
            return start + (end - start) * done
        return end + (start - end) / 2 * (1 + math.cos(math.pi * done))


class ReduceLROnPlateau(LRScheduler):
    """Times factor when a measured number, given to `step(metrics)`, has not got better for more than `patience` steps.

    mode: "min" if smaller is better, else "max". Better is by more than threshold, as a share of the best ("rel") or as a
    number ("abs"). After a reduction, `cooldown` steps are not counted. A rate never falls below min_lr, and not by less than
    eps.
    """

    def __init__(self, optimizer: Any, mode: str = "min", factor: float = 0.1, patience: int = 10, threshold: float = 1e-4,
                 threshold_mode: str = "rel", cooldown: int = 0, min_lr: Any = 0.0, eps: float = 1e-8):
        whole("patience", patience, 0), whole("cooldown", cooldown, 0), real("threshold", threshold, -math.inf)
        if real("factor", factor) >= 1:
            raise ValueError(f"a factor of {factor} does not reduce: it must be below 1")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(f'mode is "min" or "max", threshold_mode "rel" or "abs": not {mode!r}, {threshold_mode!r}')
        self.optimizer, self.mode, self.factor, self.patience = of_optimizer(optimizer), mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = threshold, threshold_mode, cooldown, eps
        self.min_lrs = _each(min_lr, len(optimizer.param_groups))
        self.best = math.inf if mode == "min" else -math.inf
        self.cooldown_counter = self.num_bad_epochs = self.last_epoch = 0
        self._last_lr = [group["lr"] for group in optimizer.param_groups]

    def step(self, metrics: Any) -> None:  # type: ignore[override]  # this one looks at a number
        real("metrics", metrics, -math.inf)
        self.last_epoch += 1
        if self.is_better(float(metrics)):
            self.best, self.num_bad_epochs = float(metrics), 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                lower = max(group["lr"] * self.factor, least)
                if group["lr"] - lower > self.eps:
                    group["lr"] = lower
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def is_better(self, number: float) -> bool:
        """Whether the number beats the best so far by more than the threshold."""
        by = -self.threshold if self.mode == "min" else self.threshold
        edge = self.best * (1 + by) if self.threshold_mode == "rel" else self.best + by
        return number < edge if self.mode == "min" else number > edge


def _each(value: Any, groups: int) -> list[Any]:
    """A list with one value for each group, from such a list or from one value."""
    values = list(value) if isinstance(value, (list, tuple)) else [value] * groups
    if len(values) != groups:
        raise ValueError(f"{len(values)} values for {groups} parameter groups: one for each")
    return values
