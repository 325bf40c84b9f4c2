"""Schedules against torch.optim.lr_scheduler, step by step; and going on from a state that either side saved.

optim.lr_scheduler.OneCycleLR optim.lr_scheduler.StepLR optim.lr_scheduler.MultiStepLR optim.lr_scheduler.ExponentialLR
optim.lr_scheduler.MultiplicativeLR optim.lr_scheduler.ConstantLR optim.lr_scheduler.LinearLR optim.lr_scheduler.PolynomialLR
optim.lr_scheduler.CosineAnnealingWarmRestarts optim.lr_scheduler.SequentialLR optim.lr_scheduler.ChainedScheduler
"""

import copy
import math

import numpy as np
import pytest

from tinygrad_tf import Tensor, lr_phases, lr_scheduler, nn, optim


def half(step):
    return 0.5**step


class Warmup:
    """A schedule with numbers of its own, as programs write them."""

    def __init__(self, steps=4):
        self.steps = steps

    def __call__(self, step):
        return min((step + 1) / self.steps, 1.0)


CASES = {
    "constant": ("LambdaLR", {"lr_lambda": lambda step: 1.0}),
    "half": ("LambdaLR", {"lr_lambda": half}),
    "object": ("LambdaLR", {"lr_lambda": Warmup()}),
    "each": ("LambdaLR", {"lr_lambda": [half, Warmup(3)]}),
    "noam": ("LambdaLR", {"lr_lambda": lambda step: 64**-0.5 * min(max(step, 1) ** -0.5, max(step, 1) * 5**-1.5)}),
    "step": ("StepLR", {"step_size": 3, "gamma": 0.5}),
    "every step": ("StepLR", {"step_size": 1}),
    "cosine": ("CosineAnnealingLR", {"T_max": 10}),
    "cosine to a floor": ("CosineAnnealingLR", {"T_max": 7, "eta_min": 0.01}),
    "cosine and up again": ("CosineAnnealingLR", {"T_max": 3, "eta_min": 0.02}),
    "cosine of one step": ("CosineAnnealingLR", {"T_max": 1}),
    "exponential": ("ExponentialLR", {"gamma": 0.9}),
    "multiplicative": ("MultiplicativeLR", {"lr_lambda": lambda step: 1 / step}),
    "multiplicative, each": ("MultiplicativeLR", {"lr_lambda": [half, Warmup(3)]}),
    "milestones": ("MultiStepLR", {"milestones": [3, 8, 8]}),
    "milestones from the start": ("MultiStepLR", {"milestones": (0, 1, 19), "gamma": 0.5}),
    "a third, then all": ("ConstantLR", {}),
    "a tenth, then all": ("ConstantLR", {"factor": 0.1, "total_iters": 12}),
    "warmup": ("LinearLR", {}),
    "warmup from little": ("LinearLR", {"start_factor": 1e-3, "total_iters": 8}),
    "down in a line": ("LinearLR", {"start_factor": 1.0, "end_factor": 0.0, "total_iters": 9}),
    "polynomial": ("PolynomialLR", {}),
    "polynomial, squared": ("PolynomialLR", {"total_iters": 11, "power": 2.0}),
    "restarts": ("CosineAnnealingWarmRestarts", {"T_0": 4}),
    "longer restarts": ("CosineAnnealingWarmRestarts", {"T_0": 3, "T_mult": 2, "eta_min": 0.01}),
    "restarts each step": ("CosineAnnealingWarmRestarts", {"T_0": 1, "T_mult": 3}),
    "warmup, then cosine": ("SequentialLR", {"parts": ["warmup", "cosine"], "milestones": [5]}),
    "three in a row": ("SequentialLR", {"parts": ["a tenth, then all", "exponential", "longer restarts"],
                                       "milestones": [2, 7]}),
    "steps, then polynomial": ("SequentialLR", {"parts": ["step", "polynomial, squared"], "milestones": [6]}),
    "half, then warmup": ("SequentialLR", {"parts": ["half", "down in a line"], "milestones": [1]}),
    "cosine, then milestones": ("SequentialLR", {"parts": ["cosine", "milestones"], "milestones": [4]}),
    "two at once": ("ChainedScheduler", {"parts": ["a third, then all", "exponential"]}),
    "three at once": ("ChainedScheduler", {"parts": ["warmup", "step", "milestones"]}),
    "one cycle": ("OneCycleLR", {"max_lr": 0.5, "total_steps": 20}),
    "one cycle, linear": ("OneCycleLR", {"max_lr": 0.5, "epochs": 4, "steps_per_epoch": 6, "anneal_strategy": "linear"}),
    "one cycle, three phases": ("OneCycleLR", {"max_lr": 0.5, "total_steps": 23, "three_phase": True, "div_factor": 10}),
    "one cycle, lists": ("OneCycleLR", {"max_lr": [0.5, 0.1], "total_steps": 20, "pct_start": 0.5, "final_div_factor": 50,
                                        "base_momentum": [0.8, 0.7], "max_momentum": 0.99}),
    "one cycle, no momentum": ("OneCycleLR", {"max_lr": 0.5, "total_steps": 20, "cycle_momentum": False}),
    "one cycle, down only": ("OneCycleLR", {"max_lr": 0.5, "total_steps": 20, "pct_start": 0.0}),
}  # fmt: skip
OPTIMIZERS = {"AdamW": {"lr": 0.1}, "SGD": {"lr": 0.1, "momentum": 0.9}}


def pair(torch, name, options, optimizer="AdamW"):
    """(our schedule, PyTorch's), each on an optimizer with two groups."""
    made = []
    for modules, optims, schedules, one in ((nn, optim, lr_scheduler, Tensor(np.ones(1, np.float32))),
                                            (torch.nn, torch.optim, torch.optim.lr_scheduler, torch.ones(1))):  # fmt: skip
        groups = [{"params": [modules.Parameter(one)]}, {"params": [modules.Parameter(one + 1)], "lr": 0.03}]
        stepped = getattr(optims, optimizer)(groups, **OPTIMIZERS[optimizer])
        made.append(build(schedules, name, copy.deepcopy(options), stepped))
    return made


def build(schedules, name, options, optimizer):
    """A schedule of that module; "parts" are the cases that it is made of."""
    cls = getattr(schedules, name) if hasattr(schedules, name) else getattr(lr_phases, name)
    if name == "ChainedScheduler":
        return cls([build(schedules, *CASES[part], optimizer) for part in options["parts"]])
    if name == "SequentialLR":
        parts = [build(schedules, *CASES[part], optimizer) for part in options["parts"]]
        return cls(optimizer, parts, options["milestones"])
    return cls(optimizer, **options)


def rates(schedule):
    names = ("lr", "initial_lr", "max_lr", "min_lr", "betas", "momentum", "base_momentum", "max_momentum")
    return [[group.get(name) for name in names] for group in schedule.optimizer.param_groups]


def same(ours, theirs):
    for mine, torchs in zip(rates(ours), rates(theirs)):
        for a, b in zip(mine, torchs):
            assert a == b if b is None else a == pytest.approx(b, rel=1e-12, abs=1e-17)
    assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), rel=1e-12, abs=1e-17)
    if type(ours).__name__ != "ChainedScheduler":  # which counts no steps of its own
        assert ours.last_epoch == theirs.last_epoch


def step(ours, theirs, *numbers):
    theirs.optimizer._opt_called = True  # or it would warn of the order of the steps
    ours.step(*numbers)
    theirs.step(*numbers)
    same(ours, theirs)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("case", CASES)
def test_twenty_steps(oracle, case, optimizer):
    ours, theirs = pair(oracle, *CASES[case], optimizer)
    same(ours, theirs)
    seen = {str(rates(ours))}
    for _ in range(20):
        step(ours, theirs)
        seen.add(str(rates(ours)))
    assert len(seen) > 1 or case == "constant"


@pytest.mark.parametrize("case", CASES)
def test_going_on_from_what_either_side_saved(oracle, case):
    ours, theirs = pair(oracle, *CASES[case])
    for _ in range(5):
        step(ours, theirs)
    for saved in (ours, theirs):
        again = pair(oracle, *CASES[case])
        for schedule in again:
            for group, old in zip(schedule.optimizer.param_groups, saved.optimizer.param_groups):
                group.update({k: v for k, v in old.items() if k in group and k != "params"})
            schedule.load_state_dict(copy.deepcopy(saved.state_dict()))
        for _ in range(5):
            step(*again)


def test_an_object_that_makes_the_rate_goes_on_with_its_own_numbers():
    def schedule(steps):
        return lr_scheduler.LambdaLR(optim.SGD([nn.Parameter([1.0])], lr=1.0), Warmup(steps))

    new = schedule(4)
    new.load_state_dict(schedule(10).state_dict())
    assert new.lr_lambdas[0].steps == 10


def test_restarts_at_a_fraction_of_a_step(oracle):
    for case in ("restarts", "longer restarts", "restarts each step"):
        ours, theirs = pair(oracle, *CASES[case])
        for epoch in (0.5, 1, 2.25, 3, 9.5, 22.75, 4, 0):
            step(ours, theirs, epoch)
            step(ours, theirs)


@pytest.mark.parametrize("case", ["cosine", "step", "half", "exponential", "milestones", "warmup", "polynomial", "restarts"])
def test_a_rate_that_was_changed_by_hand(oracle, case):
    ours, theirs = pair(oracle, *CASES[case])
    for _ in range(3):
        step(ours, theirs)
    for schedule in (ours, theirs):
        schedule.optimizer.param_groups[0]["lr"] = 0.7
    for _ in range(6):
        step(ours, theirs)


@pytest.mark.parametrize("case", ["cosine", "step", "half", "one cycle", "exponential", "milestones", "warmup", "polynomial",
                                  "multiplicative", "a third, then all", "restarts"])  # fmt: skip
def test_last_epoch_goes_on_with_the_groups_of_an_interrupted_run(oracle, case):
    name, options = CASES[case]
    ours, theirs = pair(oracle, name, options)
    for _ in range(4):
        step(ours, theirs)
    ours = getattr(lr_scheduler if hasattr(lr_scheduler, name) else lr_phases, name)(ours.optimizer, **options, last_epoch=4)
    theirs = getattr(oracle.optim.lr_scheduler, name)(theirs.optimizer, **options, last_epoch=4)
    same(ours, theirs)
    for _ in range(4):
        step(ours, theirs)


def test_last_epoch_needs_the_rates_of_the_start():
    with pytest.raises(KeyError, match="initial_lr"):
        lr_scheduler.StepLR(optim.SGD([nn.Parameter([1.0])]), 3, last_epoch=4)


MEASURED = {
    "better": [1 / (i + 1) for i in range(20)],
    "worse": [float(i) for i in range(20)],
    "flat": [1.0] * 20,
    "flat below zero": [-1.0] * 20,
    "up and down": [math.sin(i) for i in range(30)],
    "not a number": [1.0, math.nan, math.nan, math.nan, math.nan, 0.5],
    "hardly better": [1 - 1e-6 * i for i in range(20)],
}


@pytest.mark.parametrize("options", [
    {}, {"patience": 2}, {"patience": 0, "factor": 0.5}, {"mode": "max", "patience": 1}, {"patience": 1, "cooldown": 3},
    {"patience": 1, "threshold": 0.1, "threshold_mode": "abs"}, {"mode": "max", "patience": 0, "threshold_mode": "abs"},
    {"patience": 0, "min_lr": 0.02}, {"patience": 0, "min_lr": [0.02, 0.001]}, {"patience": 0, "eps": 1e-3},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("case", MEASURED)
def test_reduce_on_plateau(oracle, case, options):
    ours, theirs = pair(oracle, "ReduceLROnPlateau", options)
    same(ours, theirs)
    for i, number in enumerate(MEASURED[case]):
        step(ours, theirs, number)
        assert (ours.best, ours.num_bad_epochs, ours.cooldown_counter) == pytest.approx(
            (theirs.best, theirs.num_bad_epochs, theirs.cooldown_counter), nan_ok=True)  # fmt: skip
        if i == 4:  # from now on, new ones with the state of the old
            again = pair(oracle, "ReduceLROnPlateau", options)
            for new, old in zip(again, (theirs, ours)):
                new.load_state_dict(copy.deepcopy(old.state_dict()))
                for group, was in zip(new.optimizer.param_groups, old.optimizer.param_groups):
                    group["lr"] = was["lr"]
            ours, theirs = again


def test_it_takes_a_tensor_as_the_number():
    schedule = lr_scheduler.ReduceLROnPlateau(optim.SGD([nn.Parameter([1.0])], lr=1.0), patience=0)
    for number in (1.0, 2.0):
        schedule.step(Tensor(np.array(number)))
    assert schedule.get_last_lr() == [0.1]
    with pytest.raises(TypeError, match="metrics"):
        schedule.step()


@pytest.mark.parametrize("make, words", [
    (lambda o: lr_scheduler.LambdaLR(o, [half, half]), "2 functions for 1"),
    (lambda o: lr_scheduler.OneCycleLR(o, 0.1), "total_steps, or epochs"),
    (lambda o: lr_scheduler.OneCycleLR(o, [0.1, 0.2], total_steps=5), "2 values for 1"),
    (lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=0), "total_steps must be positive"),
    (lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=9, pct_start=1.5), "pct_start"),
    (lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=9, anneal_strategy="cosine"), "anneal_strategy"),
    (lambda o: lr_phases.ConstantLR(o, factor=1.5), "between 0 and 1"),
    (lambda o: lr_phases.LinearLR(o, start_factor=0.0), "first is not 0"),
    (lambda o: lr_phases.CosineAnnealingWarmRestarts(o, 0), "from 1 on"),
    (lambda o: lr_phases.SequentialLR(o, [], []), "at least one"),
    (lambda o: lr_phases.SequentialLR(o, [lr_phases.ExponentialLR(o, 0.9)], [3]), "0 milestones"),
    (lambda o: lr_phases.ChainedScheduler([]), "at least one"),
    (lambda o: lr_phases.ChainedScheduler([lr_scheduler.ReduceLROnPlateau(o)]), "reads a number"),
    (lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=1.0), "does not reduce"),
    (lambda o: lr_scheduler.ReduceLROnPlateau(o, mode="least"), "mode is"),
])  # fmt: skip
def test_what_is_no_schedule_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make(optim.SGD([nn.Parameter([1.0])], lr=1.0))


def test_one_cycle_refuses_an_optimizer_without_momentum_and_a_step_too_many():
    with pytest.raises(ValueError, match="cycle_momentum=False"):
        lr_scheduler.OneCycleLR(optim.Adagrad([nn.Parameter([1.0])]), 0.1, total_steps=5)
    schedule = lr_scheduler.OneCycleLR(optim.SGD([nn.Parameter([1.0])], lr=1.0), 0.1, total_steps=3)
    for _ in range(3):
        schedule.step()
    with pytest.raises(ValueError, match="3 steps"):
        schedule.step()


def test_schedules_of_several_within_others():
    def rates(make, steps=9):
        optimizer = optim.SGD([nn.Parameter(np.ones(1, np.float32))], lr=0.1)
        schedule, found = make(optimizer), []
        for _ in range(steps):
            found.append(round(optimizer.param_groups[0]["lr"], 6))
            schedule.step()
        return found

    S, P = lr_scheduler, lr_phases
    both = lambda o: [P.ConstantLR(o, 0.5, 2), P.ExponentialLR(o, 0.9)]
    chained = lambda o: P.SequentialLR(o, [P.ChainedScheduler(both(o)), P.ExponentialLR(o, 0.5)], [4])
    assert rates(chained) == [0.05, 0.045, 0.081, 0.0729, 0.1, 0.05, 0.025, 0.0125, 0.00625]
    inner = lambda o: P.SequentialLR(o, [P.ExponentialLR(o, 0.5), S.StepLR(o, 2)], [3])
    nested = lambda o: P.SequentialLR(o, [P.ConstantLR(o, 0.5, 2), inner(o)], [2])
    assert rates(nested) == [0.05, 0.05, 0.1, 0.05, 0.025, 0.1, 0.1, 0.01, 0.01]
