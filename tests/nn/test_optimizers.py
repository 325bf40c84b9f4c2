"""The optimizers against torch.optim, step by step, and what an optimizer must refuse."""

import copy
import math
import pickle

import numpy as np
import pytest

from tinygrad_tf import Tensor, adaptive, nn, optim

CASES = {
    "sgd": ("SGD", {"lr": 0.1}),
    "sgd momentum": ("SGD", {"lr": 0.05, "momentum": 0.9}),
    "sgd dampened": ("SGD", {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1}),
    "sgd nesterov": ("SGD", {"lr": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.01}),
    "adam": ("Adam", {"lr": 0.02}),
    "adam decay": ("Adam", {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-4, "weight_decay": 0.1}),
    "adamw": ("AdamW", {"lr": 0.02}),
    "rmsprop": ("RMSprop", {"lr": 0.02}),
    "rmsprop centered": ("RMSprop", {"lr": 0.02, "alpha": 0.9, "eps": 1e-4, "centered": True, "weight_decay": 0.1}),
    "rmsprop momentum": ("RMSprop", {"lr": 0.02, "momentum": 0.7}),
    "rmsprop both": ("RMSprop", {"lr": 0.01, "momentum": 0.7, "centered": True, "eps": 1e-3}),
    "adagrad": ("Adagrad", {"lr": 0.02}),
    "adagrad decay": ("Adagrad", {"lr": 0.05, "lr_decay": 0.1, "weight_decay": 0.1, "eps": 1e-4}),
    "adagrad start": ("Adagrad", {"lr": 0.05, "initial_accumulator_value": 0.3}),
    "adadelta": ("Adadelta", {}),
    "adadelta decay": ("Adadelta", {"lr": 0.5, "rho": 0.8, "eps": 1e-4, "weight_decay": 0.1}),
    "adamax": ("Adamax", {}),
    "adamax decay": ("Adamax", {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-4, "weight_decay": 0.1}),
    "radam": ("RAdam", {"lr": 0.02}),
    "radam decay": ("RAdam", {"lr": 0.02, "betas": (0.8, 0.9), "eps": 1e-4, "weight_decay": 0.1}),
    "radam apart": ("RAdam", {"lr": 0.02, "betas": (0.9, 0.95), "weight_decay": 0.1, "decoupled_weight_decay": True}),
    "adamw decay": ("AdamW", {"lr": 0.02, "betas": (0.9, 0.99), "eps": 1e-6, "weight_decay": 0.5}),
}
SHAPES = [(3, 4), (4,), (), (2, 2, 2), (40000,)]  # the last is longer than one piece


def find(name):
    return getattr(adaptive if hasattr(adaptive, name) else optim, name)


def start(dtype):
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape).astype(dtype) for shape in SHAPES]


def gradients(step, dtype):
    """Gradients of one step; now and then a parameter has none, or one of zeros."""
    generator = np.random.default_rng(100 + step)
    found = [generator.standard_normal(shape).astype(dtype) for shape in SHAPES]
    found[1] = None if step % 3 == 0 else found[1]
    found[3] = np.zeros_like(found[3]) if step % 4 == 1 else found[3]
    return found


def pair(torch, dtype, name, options, grouped=False):
    """The same optimizer over the same parameters, ours and theirs."""
    ours, theirs = (
        [nn.Parameter(a.copy()) for a in start(dtype)],
        [torch.nn.Parameter(torch.from_numpy(a)) for a in start(dtype)],
    )
    groups = lambda ps: [{"params": ps[:2], "lr": 0.3}, {"params": ps[2:], "weight_decay": 0.0}] if grouped else ps
    return ours, theirs, find(name)(groups(ours), **options), getattr(torch.optim, name)(groups(theirs), **options)


def advance(torch, steps, dtype, ours=None, theirs=None):
    """`ours` and `theirs`: (parameters, optimizer); runs the steps on each that is given."""
    for step in steps:
        for side, make in ((ours, lambda g: Tensor(g.copy())), (theirs, lambda g: torch.from_numpy(g.copy()))):
            if side is None:
                continue
            params, optimizer = side
            for p, g in zip(params, gradients(step, dtype)):
                p.grad = None if g is None else make(g)
            for group in optimizer.param_groups:
                group["lr"] *= 0.97  # a schedule
            optimizer.step()


def assert_equal(ours, theirs, dtype):
    for p, q in zip(ours, theirs):
        assert p.dtype == dtype
        np.testing.assert_allclose(p.array, q.detach().numpy(), rtol=1e-12 if dtype == np.float64 else 2e-6,
                                   atol=1e-12 if dtype == np.float64 else 2e-6)  # fmt: skip


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_twenty_steps(oracle, dtype, case, grouped):
    ours, theirs, mine, torchs = pair(oracle, dtype, *CASES[case], grouped)
    for step in range(20):
        advance(oracle, [step], dtype, (ours, mine), (theirs, torchs))
        assert_equal(ours, theirs, dtype)
    assert not np.allclose(ours[0].array, start(dtype)[0])


def as_arrays(torch, state):
    """PyTorch's state dict with arrays in place of its tensors, as a file of it would give."""
    convert = lambda x: x.numpy() if isinstance(x, torch.Tensor) else x
    return {**state, "state": {i: {k: convert(v) for k, v in entry.items()} for i, entry in state["state"].items()}}


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_continuing_from_the_state_that_pytorch_saved(oracle, dtype, case, grouped):
    ours, theirs, mine, torchs = pair(oracle, dtype, *CASES[case], grouped)
    advance(oracle, range(7), dtype, theirs=(theirs, torchs))
    for p, q in zip(ours, theirs):
        p.data = q.detach().numpy().copy()
    mine.load_state_dict(as_arrays(oracle, copy.deepcopy(torchs.state_dict())))
    advance(oracle, range(7, 14), dtype, (ours, mine), (theirs, torchs))
    assert_equal(ours, theirs, dtype)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_pytorch_continues_from_the_state_that_we_saved(oracle, dtype, case, grouped):
    ours, theirs, mine, torchs = pair(oracle, dtype, *CASES[case], grouped)
    advance(oracle, range(7), dtype, (ours, mine))
    state = mine.state_dict()
    for entry in state["state"].values():
        entry.update({k: oracle.from_numpy(v.array.copy()) for k, v in entry.items() if isinstance(v, Tensor)})
    with oracle.no_grad():
        for p, q in zip(ours, theirs):
            q.copy_(oracle.from_numpy(p.array.copy()))
    torchs.load_state_dict(state)
    advance(oracle, range(7, 14), dtype, (ours, mine), (theirs, torchs))
    assert_equal(ours, theirs, dtype)


@pytest.mark.parametrize("case", CASES)
def test_our_own_state_continues_bit_for_bit(dtype, case):
    name, options = CASES[case]
    ours = [nn.Parameter(a) for a in start(dtype)]
    first = find(name)(ours, **options)
    advance(None, range(7), dtype, (ours, first))
    copies = [nn.Parameter(p.array.copy()) for p in ours]
    state = first.state_dict()
    state = {
        "state": {
            i: {k: v.array.copy() if isinstance(v, Tensor) else v for k, v in e.items()} for i, e in state["state"].items()
        },
        "param_groups": copy.deepcopy(state["param_groups"]),
    }
    second = find(name)(copies, lr=99.0)
    second.load_state_dict(state)
    advance(None, range(7, 14), dtype, (ours, first))
    advance(None, range(7, 14), dtype, (copies, second))
    for p, q in zip(ours, copies):
        assert p.array.tobytes() == q.array.tobytes()


@pytest.mark.parametrize("damage", ["missing moment", "wrong shape", "other groups"])
def test_a_state_that_does_not_fit_changes_nothing(damage):
    ours = [nn.Parameter(a) for a in start(np.float32)[:2]]
    optimizer = optim.AdamW(ours, lr=0.25)
    advance(None, [1, 2], np.float32, (ours, optimizer))
    before = {i: {k: np.array(v) for k, v in entry.items()} for i, entry in optimizer.state_dict()["state"].items()}
    state = {
        "state": {i: {k: np.array(v) + 1 for k, v in e.items()} for i, e in before.items()},
        "param_groups": [{"params": [0, 1], "lr": 7.0}],
    }
    if damage == "missing moment":
        del state["state"][1]["exp_avg_sq"]
    elif damage == "wrong shape":
        state["state"][1]["exp_avg"] = np.zeros((9, 9))
    else:
        state["param_groups"][0]["params"] = [0, 1, 2]
    with pytest.raises(ValueError, match=r"exp_avg|groups"):
        optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.25 * 0.97**2)
    for i, entry in optimizer.state_dict()["state"].items():
        for k, v in entry.items():
            np.testing.assert_array_equal(np.array(v), before[i][k])


def test_the_state_of_a_parameter_that_is_not_there_is_refused():
    optimizer = optim.AdamW([nn.Parameter([1.0])])
    entry = {"step": 1, "exp_avg": np.zeros(1), "exp_avg_sq": np.zeros(1)}
    with pytest.raises(ValueError, match="3"):
        optimizer.load_state_dict({"state": {3: entry}, "param_groups": [{"params": [0]}]})


@pytest.mark.parametrize("max_norm", [0.5, 3.0, 1e6])
def test_clip_grad_norm(oracle, dtype, max_norm):
    ours, theirs = (
        [nn.Parameter(a) for a in start(dtype)[:4]],
        [oracle.nn.Parameter(oracle.from_numpy(a)) for a in start(dtype)[:4]],
    )
    for p, q, g in zip(ours, theirs, gradients(0, dtype)):
        p.grad, q.grad = (None, None) if g is None else (Tensor(g.copy()), oracle.from_numpy(g.copy()))
    length = nn.utils.clip_grad_norm_(iter(ours), max_norm)
    expected = oracle.nn.utils.clip_grad_norm_(theirs, max_norm)
    assert isinstance(length, float)
    assert length == pytest.approx(expected.item(), rel=1e-6)
    for p, q in zip(ours, theirs):
        assert (p.grad is None) == (q.grad is None)
        if p.grad is not None:
            assert p.grad.dtype == dtype
            np.testing.assert_allclose(p.grad.array, q.grad.numpy(), rtol=1e-6)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_clip_grad_norm_leaves_gradients_that_are_not_finite_as_they_are(bad):
    p = nn.Parameter([1.0, 2.0])
    p.grad = Tensor([bad, 5.0])
    assert not math.isfinite(nn.utils.clip_grad_norm_([p], 1.0))
    np.testing.assert_array_equal(p.grad.array, np.float32([bad, 5.0]))


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_switches_for_speed_are_accepted_and_said_to_change_nothing(name):
    made = [find(name)([nn.Parameter([1.0])], lr=0.1, fused=on, foreach=on) for on in (None, False)]
    for switch in ("fused", "foreach"):
        with pytest.warns(UserWarning, match=f"{switch}=True changes nothing"):
            made.append(find(name)([nn.Parameter([1.0])], lr=0.1, **{switch: True}))
    for optimizer in made:
        (p,) = optimizer.param_groups[0]["params"]
        p.grad = Tensor(np.ones(1, np.float32))
        optimizer.step()
    assert len({optimizer.param_groups[0]["params"][0].item() for optimizer in made}) == 1


def test_amsgrad_is_refused():
    for kind in (optim.Adam, optim.AdamW):
        with pytest.raises(NotImplementedError, match="amsgrad"):
            kind([nn.Parameter([1.0])], amsgrad=True)


def test_a_state_of_what_is_not_built_is_refused(oracle):
    theirs = oracle.optim.AdamW([oracle.nn.Parameter(oracle.ones(2))], amsgrad=True)
    with pytest.raises(ValueError, match="amsgrad"):
        optim.AdamW([nn.Parameter([1.0, 1.0])]).load_state_dict(theirs.state_dict())


def test_adagrad_is_the_same_from_a_state_before_its_first_step(oracle):
    def make(kind, module, x):
        return kind([module(x)], lr=0.1, initial_accumulator_value=0.5)

    theirs = make(oracle.optim.Adagrad, oracle.nn.Parameter, oracle.ones(2))
    ours = optim.Adagrad([nn.Parameter(np.ones(2, np.float32))], lr=0.1)
    ours.load_state_dict(theirs.state_dict())
    assert ours.state_dict()["state"][0]["sum"].tolist() == [0.5, 0.5]
    state = ours.state_dict()
    state["state"][0]["sum"] = oracle.from_numpy(state["state"][0]["sum"].array.copy())
    theirs = oracle.optim.Adagrad([oracle.nn.Parameter(oracle.ones(2))], lr=0.1)
    theirs.load_state_dict(state)
    for optimizer, grad in ((ours, Tensor(np.ones(2, np.float32))), (theirs, oracle.ones(2))):
        optimizer.param_groups[0]["params"][0].grad = grad
        optimizer.step()
    mine, torchs = (optimizer.param_groups[0]["params"][0].detach() for optimizer in (ours, theirs))
    np.testing.assert_allclose(mine.array, torchs.numpy(), rtol=1e-6)


@pytest.mark.parametrize("name, options", [("RMSprop", {"alpha": -1.0}), ("RMSprop", {"lr": -1}), ("Adagrad", {"eps": -1.0}),
                                           ("Adadelta", {"eps": -1.0}), ("Adamax", {"lr": -1.0}), ("RAdam", {"eps": -1.0})])
def test_negative_options_are_refused(name, options):
    with pytest.raises(ValueError, match="must not be negative"):
        find(name)([nn.Parameter([1.0])], **options)


def test_frozen_parameters_may_be_among_the_others_and_stay():
    layer = nn.Linear(3, 2)
    layer.weight.requires_grad = False
    before = layer.weight.array.copy()
    optimizer = optim.AdamW(layer.parameters(), lr=0.1)
    layer(Tensor(np.ones((4, 3), np.float32))).sum().backward()
    optimizer.step()
    np.testing.assert_array_equal(layer.weight.array, before)
    assert layer.bias.grad is not None
    with pytest.raises(ValueError, match="not what ops have computed"):
        optim.AdamW([layer.bias * 2])


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))], ids=["copy", "pickle"])
def test_a_copy_of_a_model_and_its_optimizer_goes_on_alike(duplicate):
    layer = nn.Linear(3, 2)
    optimizer = optim.AdamW(layer.parameters(), lr=0.1)

    def step(layer, optimizer):
        optimizer.zero_grad()
        layer(Tensor(np.ones((1, 3), np.float32))).square().sum().backward()
        optimizer.step()

    step(layer, optimizer)
    twins = duplicate((layer, optimizer))
    for _ in range(2):
        step(layer, optimizer)
        step(*twins)
    for p, q in zip(layer.parameters(), twins[0].parameters(), strict=True):
        np.testing.assert_allclose(p.array, q.array, rtol=1e-5)
        assert not np.shares_memory(p.array, q.array)


@pytest.mark.parametrize("change", ["append", "pop", "replace", "empty"])
def test_a_groups_list_of_parameters_may_change(oracle, change):
    """As whoever thaws a model layer by layer does."""
    found = []
    ours, theirs = lambda a: nn.Parameter(a.copy()), lambda a: oracle.nn.Parameter(oracle.tensor(a))
    for library, kind in ((optim, ours), (oracle.optim, theirs)):
        params = [kind(np.full(3, i + 1.0, np.float32)) for i in range(4)]
        optimizer = library.Adam(params[:2], lr=0.1)
        for step in range(6):
            if step == 3:
                group = optimizer.param_groups[0]
                match change:
                    case "append":
                        group["params"].append(params[2])
                    case "pop":
                        group["params"].pop()
                    case "replace":
                        group["params"] = [params[3], params[1]]
                    case "empty":
                        group["params"] = []
                        optimizer.add_param_group({"params": [params[2]]})
            optimizer.zero_grad()
            sum((p * p).sum() * (step + i) for i, p in enumerate(params)).backward()
            optimizer.step()
        found.append([p.detach().numpy() for p in params])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
