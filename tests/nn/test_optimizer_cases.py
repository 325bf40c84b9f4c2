"""Muon, schedules, and the faults that users of other frameworks met in optimizers."""

from collections import defaultdict

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn, optim


@pytest.mark.parametrize("shape", [(6, 6), (4, 30), (30, 4), (1, 5)])
def test_muon_moves_by_a_nearly_orthogonal_matrix(shape):
    x = np.random.default_rng(0).standard_normal(shape)
    y = optim.orthogonal(x)
    u, _, vt = np.linalg.svd(x, full_matrices=False)
    directions = u.T @ y @ vt.T  # in the basis of x's own directions: diagonal, near 1
    values = np.diag(directions)
    assert ((values > 0.6) & (values < 1.3)).all()
    np.testing.assert_allclose(directions, np.diag(values), atol=1e-9)
    np.testing.assert_allclose(optim.orthogonal(x.T), y.T, rtol=1e-12)
    np.testing.assert_allclose(optim.orthogonal(1e3 * x), y, rtol=1e-4)


@pytest.mark.parametrize(
    "options", [{}, {"nesterov": False, "momentum": 0.8, "weight_decay": 0.0}, {"lr": 0.05, "ns_steps": 3}]
)
def test_muon_against_pytorch(oracle, options):
    """PyTorch rounds to bfloat16 inside, so the directions agree to a few parts in a thousand, the sizes too."""
    generator = np.random.default_rng(0)
    starts = [generator.standard_normal(shape).astype(np.float32) for shape in ((6, 8), (12, 4))]
    ours, theirs = [nn.Parameter(a.copy()) for a in starts], [oracle.nn.Parameter(oracle.from_numpy(a.copy())) for a in starts]
    mine = optim.Muon(ours, **options)
    torchs = oracle.optim.Muon(theirs, **{"lr": 1e-3, **options}, adjust_lr_fn="match_rms_adamw")
    for _ in range(8):
        for p, q in zip(ours, theirs):
            g = generator.standard_normal(p.shape).astype(np.float32)
            p.grad, q.grad = Tensor(g), oracle.from_numpy(g.copy())
        mine.step()
        torchs.step()
    for p, q, a in zip(ours, theirs, starts):
        moved, expected = p.array - a, q.detach().numpy() - a
        assert np.linalg.norm(moved - expected) < 0.02 * np.linalg.norm(expected)


def test_muon_takes_matrices_only():
    with pytest.raises(ValueError, match=r"\(4,\).*AdamW"):
        optim.Muon([nn.Parameter(np.ones((2, 2), np.float32)), nn.Parameter(np.ones(4, np.float32))])


# ------------------------------------------------------------------------------------------------ what is refused


def test_BC02_a_refused_step_changes_no_other_parameter():
    first, second = nn.Parameter([1.0, 2.0]), Tensor([3.0], requires_grad=True)  # no parameter
    optimizer = optim.AdamW([first, second], lr=0.1)
    first.grad, second.grad = Tensor([1.0, 1.0]), Tensor([[1.0]])
    with pytest.raises(ValueError, match="shape"):
        optimizer.step()
    assert first.tolist() == [1.0, 2.0]
    assert optimizer.state_dict()["state"] == {}
    second.grad = Tensor([1.0])
    optimizer.step()
    np.testing.assert_allclose(first.array, np.float32([1 - 0.1 - 0.001, 2 - 0.1 - 0.002]), rtol=1e-6)  # still the first step


def test_what_cannot_be_optimised_is_refused():
    with pytest.raises(ValueError, match="no parameters"):
        optim.SGD([])
    with pytest.raises(ValueError, match="leaf"):
        optim.SGD([nn.Parameter([1.0]) * 2])
    for options in ({"lr": -1.0}, {"betas": (1.0, 0.9)}, {"eps": -1e-8}, {"weight_decay": -0.1}):
        with pytest.raises(ValueError, match=r"^AdamW: (lr|eps|weight_decay|a beta) (must not be negative|lies in \[0, 1\))"):
            optim.AdamW([nn.Parameter([1.0])], **options)


def test_a_state_dict_taken_before_the_first_step_shows_the_trained_values():
    layer = nn.Linear(2, 2)
    optimizer = optim.SGD(layer.parameters(), lr=0.1)
    state = layer.state_dict()
    layer(Tensor([[1.0, 2.0]])).sum().backward()
    optimizer.step()
    np.testing.assert_array_equal(state["weight"].array, layer.weight.array)


def test_a_model_cast_after_the_optimizer_was_made_is_refused_not_cast_back():
    layer = nn.Linear(2, 2)
    optimizer = optim.SGD(layer.parameters(), lr=0.1)
    layer(Tensor([[1.0, 2.0]])).sum().backward()
    optimizer.step()
    layer.to(np.float64)
    layer(Tensor(np.ones((1, 2)))).sum().backward()
    with pytest.raises(ValueError, match=r"float64.*float32|float32.*float64"):
        optimizer.step()


def test_what_is_no_list_of_tensors_is_named():
    layer = nn.Linear(1, 1)
    with pytest.raises(ValueError, match=r"not a tuple: pass parameters\(\), not named_parameters\(\)"):
        optim.SGD(layer.named_parameters())
    with pytest.raises(ValueError, match="takes tensors, not a int"):
        optim.SGD([1])
    with pytest.raises(TypeError, match="put this one in a list"):
        optim.SGD(layer.weight)


class Counting(optim.Optimizer):
    """An optimizer as programs write their own: what it keeps is in `state`."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state.update(step=0, mean=Tensor(np.zeros(p.shape, np.float32)))
                state["step"] += 1
                state["mean"].mul_(0.5).add_(p.grad, alpha=0.5)
                p.data.add_(state["mean"], alpha=-group["lr"])


def test_an_optimizer_of_ones_own_keeps_its_state_and_it_is_saved():
    runs = []
    for stopped in (False, True):
        p, q = nn.Parameter([1.0, 2.0]), nn.Parameter([3.0])
        optimizer = Counting([{"params": [p]}, {"params": [q], "lr": 0.2}])
        assert optimizer.state_dict()["state"] == {}
        for i in range(4):
            if stopped and i == 2:
                saved, optimizer = optimizer.state_dict(), Counting([{"params": [p]}, {"params": [q]}])
                optimizer.load_state_dict(saved)
            p.grad, q.grad = Tensor([1.0 + i, -1.0]), Tensor([2.0])
            optimizer.step()
        assert optimizer.state[p]["step"] == 4
        assert sorted(optimizer.state_dict()["state"]) == [0, 1]
        runs.append((p.tolist(), q.tolist()))
    assert runs[0] == runs[1]


class Fading(optim.Optimizer):
    """One with an `update` keeps its count of steps, though it has a step() of its own as well."""

    def step(self, closure=None):
        return super().step(closure)

    def update(self, group, step, p, g):
        p -= group["lr"] / step * g


def test_an_update_of_ones_own_keeps_its_count():
    p = nn.Parameter([1.0])
    optimizers = [Fading([p], {"lr": 0.1}) for _ in range(2)]
    for optimizer in optimizers:
        p.grad = Tensor([1.0])
        optimizer.step()
        assert optimizer.state[p]["step"] == optimizer.state_dict()["state"][0]["step"]
        optimizers[1].load_state_dict(optimizer.state_dict())
    assert optimizers[1].state[p]["step"] == 2


def test_the_state_of_each_parameter_can_be_looked_at():
    p, q = nn.Parameter([1.0, 2.0]), nn.Parameter([3.0])
    optimizer = optim.AdamW([p, q])
    assert len(optimizer.state) == 0
    p.grad = Tensor([1.0, -1.0])
    optimizer.step()
    assert list(optimizer.state) == [p]
    assert optimizer.state[p]["step"] == 1
    np.testing.assert_allclose(optimizer.state[p]["exp_avg"].array, [0.1, -0.1], rtol=1e-6)
    optimizer.state[p]["exp_avg"].zero_()
    assert optimizer.state_dict()["state"][0]["exp_avg"].tolist() == [0, 0]
    for entry in optimizer.state.values():  # the habit of programs that move a state to another place
        for name, value in entry.items():
            if isinstance(value, Tensor):
                entry[name] = value.to("cpu")
    with pytest.raises(TypeError, match="step.. would not see another exp_avg: change it in place"):
        optimizer.state[p]["exp_avg"] = Tensor([1.0, 1.0])
    with pytest.raises(TypeError):
        optimizer.state[p] = {}


@pytest.mark.parametrize("make", [lambda ps: optim.AdamW(ps, lr=0.1), lambda ps: optim.SGD(ps, lr=0.1, momentum=0.9)])
def test_a_state_can_be_put_in_its_place(make):
    """`optimizer.state = defaultdict(dict)`, as programs for PyTorch have it, begins anew; its own state changes nothing."""

    def steps(optimizer, p, number):
        for _ in range(number):
            p.grad = Tensor([1.0, -2.0])
            optimizer.step()
        return p.array.copy()

    p, other = nn.Parameter([1.0, 1.0]), nn.Parameter([1.0, 1.0])
    optimizer, fresh = make([p]), make([other])
    steps(optimizer, p, 3)
    p.array[...] = 1
    optimizer.state = defaultdict(dict)
    assert not optimizer.state
    np.testing.assert_array_equal(steps(optimizer, p, 2), steps(fresh, other, 2))
    optimizer.state = optimizer.state
    np.testing.assert_array_equal(steps(optimizer, p, 1), steps(fresh, other, 1))
    with pytest.raises(ValueError, match="a parameter that this optimizer has not"):
        optimizer.state = {other: {}}
