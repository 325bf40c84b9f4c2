"""Several optimizers as one: steps, state, and what must not slip between them."""

import copy

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn, optim


def model():
    return nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 2))


def together(layers):
    matrices = [p for p in layers.parameters() if p.ndim == 2]
    rest = [p for p in layers.parameters() if p.ndim < 2]
    groups = [{"params": rest[:2], "weight_decay": 0.0}, {"params": rest[2:]}]
    return optim.Together(optim.Muon(matrices, lr=0.02), optim.AdamW(groups, lr=0.01))


def train(layers, optimizer, steps):
    for step in steps:
        x = np.random.default_rng(step).standard_normal((5, 3)).astype(np.float32)
        optimizer.zero_grad()
        layers(Tensor(x)).square().sum().backward()
        for group in optimizer.param_groups:
            group["lr"] *= 0.95
        optimizer.step()


def values(state):
    return copy.deepcopy(
        {
            "state": {i: {k: np.array(v) for k, v in entry.items()} for i, entry in state["state"].items()},
            "param_groups": state["param_groups"],
        }
    )


def test_it_does_what_its_parts_do():
    one, two = model(), model()
    two.load_state_dict(one.state_dict())
    both, apart = together(one), together(two)
    train(one, both, range(4))
    for step in range(4):
        x = np.random.default_rng(step).standard_normal((5, 3)).astype(np.float32)
        for part in apart.optimizers:
            part.zero_grad()
        two(Tensor(x)).square().sum().backward()
        for part in apart.optimizers:
            for group in part.param_groups:
                group["lr"] *= 0.95
            part.step()
    for p, q in zip(one.parameters(), two.parameters()):
        np.testing.assert_array_equal(p.array, q.array)


def test_state_is_numbered_through_and_continues_bit_for_bit():
    one = model()
    first = together(one)
    train(one, first, range(5))
    state = values(first.state_dict())
    assert [group["params"] for group in state["param_groups"]] == [[0, 1], [2, 3], [4, 5]]
    assert sorted(state["state"]) == [0, 1, 2, 3, 4, 5]
    assert [sorted(state["state"][i]) for i in (0, 5)] == [["momentum_buffer", "step"], ["exp_avg", "exp_avg_sq", "step"]]
    two = model()
    two.load_state_dict(one.state_dict())
    second = together(two)
    second.load_state_dict(state)
    train(one, first, range(5, 9))
    train(two, second, range(5, 9))
    for p, q in zip(one.parameters(), two.parameters()):
        assert p.array.tobytes() == q.array.tobytes()


@pytest.mark.parametrize("damage", ["in the second part", "a group too many", "a parameter too many"])
def test_a_state_that_does_not_fit_changes_none_of_them(damage):
    layers = model()
    optimizer = together(layers)
    train(layers, optimizer, range(2))
    before, bad = values(optimizer.state_dict()), values(optimizer.state_dict())
    for entry in bad["state"].values():
        for k in entry:
            entry[k] = entry[k] + 1
    bad["param_groups"][0]["lr"] = 7.0
    if damage == "in the second part":
        del bad["state"][5]["exp_avg"]
    elif damage == "a group too many":
        bad["param_groups"].append({"params": [6], "lr": 1.0})
    else:
        bad["state"][6] = bad["state"][5]
    with pytest.raises(ValueError, match=r"exp_avg|group|6"):
        optimizer.load_state_dict(bad)
    after = values(optimizer.state_dict())
    assert after["param_groups"] == before["param_groups"]
    for i, entry in before["state"].items():
        for k, v in entry.items():
            np.testing.assert_array_equal(after["state"][i][k], v)


def test_a_parameter_in_two_of_them_is_refused():
    w = nn.Parameter(np.ones((2, 2), np.float32))
    with pytest.raises(ValueError, match="twice"):
        optim.Together(optim.SGD([w]), optim.AdamW([w]))
