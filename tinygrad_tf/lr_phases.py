"""More schedules as objects: rates that change by a factor, a decay with restarts, and several schedules one after another.

Those that go from one rate to the next by a factor carry along what somebody changed in between, as in PyTorch.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from .errors import called, real, shown
from .lr_scheduler import LambdaLR, LRScheduler, ReduceLROnPlateau


class ExponentialLR(LRScheduler):
    """Times gamma in every step."""

    def __init__(self, optimizer: Any, gamma: float, last_epoch: int = -1):
        self.gamma = real("gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def rate(self, i: int, group: dict[str, Any]) -> float:
        return group["lr"] if self.last_epoch == self.first else group["lr"] * self.gamma


class MultiplicativeLR(LambdaLR):
    """Times lr_lambda(step) in every step; one function for all groups, or a list with one for each."""

    def rate(self, i: int, group: dict[str, Any]) -> float:
        return group["lr"] if self.last_epoch == self.first else group["lr"] * self.factor(i)


def steps_of(milestones: Any) -> list[Any]:
    """Milestones: numbers of steps, in a list; 0.5 * epochs is a float, as in PyTorch."""
    if isinstance(milestones, str) or not isinstance(milestones, Iterable):
        raise TypeError(f"{called()}milestones is a list of steps, as [30, 80], not {shown(milestones)}")
    return [real("a milestone", step) for step in milestones]


class MultiStepLR(LRScheduler):
    """Times gamma at each of the milestones, twice at one that is named twice."""

    def __init__(self, optimizer: Any, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1):
        self.milestones, self.gamma = dict(Counter(steps_of(milestones))), real("gamma", gamma)
        super().__init__(optimizer, last_epoch)

    def rate(self, i: int, group: dict[str, Any]) -> float:
        return group["lr"] * self.gamma ** self.milestones.get(self.last_epoch, 0)


class ConstantLR(LRScheduler):
    """The starting rate times factor, and from step total_iters on the starting rate."""

    def __init__(self, optimizer: Any, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1):
        if not 0 <= real("factor", factor, -math.inf) <= 1:
            raise ValueError(f"ConstantLR: factor lies between 0 and 1, not at {factor}")
        self.factor, self.total_iters = factor, real("total_iters", total_iters)
        super().__init__(optimizer, last_epoch)

    def rate(self, i: int, group: dict[str, Any]) -> float:
        if self.last_epoch == 0:
            return group["lr"] * self.factor
        if self.last_epoch != self.total_iters:
            return group["lr"]
        return group["lr"] / self.factor if self.factor else self.base_lrs[i]


class LinearLR(LRScheduler):
    """The starting rate times a factor that goes in a line from start_factor to end_factor in total_iters steps."""

    def __init__(self, optimizer: Any, start_factor: float = 1 / 3, end_factor: float = 1.0, total_iters: int = 5,
                 last_epoch: int = -1):
        real("start_factor", start_factor, -math.inf), real("end_factor", end_factor, -math.inf)
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise ValueError(f"LinearLR: factors lie between 0 and 1, and the first is not 0: {start_factor}, {end_factor}")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, real("total_iters", total_iters)
        super().__init__(optimizer, last_epoch)

    def rate(self, i: int, group: dict[str, Any]) -> float:
        if self.last_epoch == 0:
            return group["lr"] * self.start_factor
        if self.last_epoch == self.first or self.last_epoch > self.total_iters:
            return group["lr"]
        rise = self.end_factor - self.start_factor
        return group["lr"] * (1 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))


class PolynomialLR(LRScheduler):
    """The starting rate times (1 - step / total_iters) ** power, and 0 from step total_iters on."""

    def __init__(self, optimizer: Any, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1):
        self.total_iters, self.power = real("total_iters", total_iters), real("power", power, -math.inf)
        super().__init__(optimizer, last_epoch)

    def rate(self, i: int, group: dict[str, Any]) -> float:
        if self.last_epoch == self.first or self.last_epoch > self.total_iters:
            return group["lr"]
        now, before = (1 - step / self.total_iters for step in (self.last_epoch, self.last_epoch - 1))
        return group["lr"] * (now / before) ** self.power


class CosineAnnealingWarmRestarts(LRScheduler):
    """Down half a cosine from the starting rate to eta_min in T_0 steps, then again in T_mult times as many, and so on.

    (Loshchilov and Hutter 2017.) `step(epoch)` goes to that step, which may be a fraction.
    """

    def __init__(self, optimizer: Any, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1):
        real("T_0", T_0, -math.inf), real("T_mult", T_mult, -math.inf), real("eta_min", eta_min, -math.inf)
        if T_0 < 1 or T_mult < 1 or int(T_0) != T_0 or T_mult != int(T_mult):
            raise ValueError(f"T_0 and T_mult are whole numbers from 1 on, not {T_0}, {T_mult}")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        self.T_i, self.T_cur = T_0, float(last_epoch)  # the length of this descent, and how far it is
        super().__init__(optimizer, last_epoch)

    def step(self, epoch: float | None = None) -> None:
        if epoch is None and self.last_epoch >= 0:
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = epoch or 0
            if epoch < 0:
                raise ValueError(f"step {epoch}: steps count from 0")
            self.last_epoch, self.T_cur, self.T_i = math.floor(epoch) - 1, epoch, self.T_0
            while self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        super().step()

    def rate(self, i: int, group: dict[str, Any]) -> float:
        return self.eta_min + (self.base_lrs[i] - self.eta_min) * (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2


class _Several(LRScheduler):
    """What holds other schedules of one optimizer."""

    left_out = ("optimizer", "_schedulers")

    def _hold(self, optimizer: Any, schedulers: Sequence[LRScheduler]) -> None:
        if not isinstance(schedulers, (list, tuple)) or not all(isinstance(s, LRScheduler) for s in schedulers):
            raise TypeError(f"{type(self).__name__} takes a list of schedules, not {shown(schedulers)}")
        if not schedulers or any(s.optimizer is not optimizer or isinstance(s, ReduceLROnPlateau) for s in schedulers):
            raise ValueError(f"{type(self).__name__} takes schedules of one optimizer, at least one, none that reads a number")
        self.optimizer, self._schedulers, self.last_epoch = optimizer, list(schedulers), 0
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        for schedule, own in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            schedule.load_state_dict(own)


class SequentialLR(_Several):
    """One schedule up to the first milestone, the next one, from its own step 0, up to the second, and so on."""

    def __init__(self, optimizer: Any, schedulers: Sequence[LRScheduler], milestones: Sequence[int], last_epoch: int = -1):
        self._hold(optimizer, schedulers)
        milestones = steps_of(milestones)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(f"{len(schedulers)} schedules need {len(schedulers) - 1} milestones, not {len(milestones)}")
        self._milestones, self.last_epoch = list(milestones), last_epoch + 1
        for schedule in self._schedulers:  # what each did when it was made is undone
            schedule.last_epoch -= 1
        self._start(bisect_right(self._milestones, 0))

    def restart(self) -> None:
        self.last_epoch = 0
        self._start(bisect_right(self._milestones, 0))

    def _start(self, number: int) -> None:
        self._schedulers[number].restart()
        self._last_lr = self._schedulers[number].get_last_lr()

    def step(self) -> None:
        self.last_epoch += 1
        number = bisect_right(self._milestones, self.last_epoch)
        if number and self._milestones[number - 1] == self.last_epoch:
            self._start(number)
        else:
            self._schedulers[number].step()
            self._last_lr = self._schedulers[number].get_last_lr()


class ChainedScheduler(_Several):
    """Several schedules at once: each changes what the one before it made of the rates."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Any = None):
        first = schedulers[0] if isinstance(schedulers, (list, tuple)) and schedulers else None
        self._hold(optimizer or getattr(first, "optimizer", None), schedulers)
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def restart(self) -> None:
        for group, base in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            group["lr"] = base
        for schedule in self._schedulers:
            schedule.last_epoch, schedule.first = -1, 0
        self.last_epoch = -1
        self.step()

    def step(self) -> None:
        self.last_epoch += 1
        for schedule in self._schedulers:
            schedule.step()
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]
