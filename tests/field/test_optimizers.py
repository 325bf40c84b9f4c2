"""OP: optimizers and schedules."""

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn, optim
from tinygrad_tf.data import IGNORE
from tinygrad_tf.evaluation import evaluate
from tinygrad_tf.gradients import add_gradients
from tinygrad_tf.nn import functional as F
from tinygrad_tf.optim import Optimizer


@pytest.mark.parametrize("make", [optim.Adam, lambda p, lr: optim.AdamW(p, lr, weight_decay=0)], ids=["Adam", "AdamW"])
def test_OP_01_one_step_count_for_all_parameters_from_one_on(make):
    params = [nn.Parameter([5.0]), nn.Parameter([[7.0]])]
    optimizer = make(params, lr=0.1)
    for p in params:
        p.grad = Tensor(np.ones(p.shape, np.float32))
    optimizer.step()
    np.testing.assert_allclose([params[0].item() - 5, params[1].item() - 7], [-0.1, -0.1], rtol=1e-5)
    state = optimizer.state_dict()
    assert [entry["step"] for entry in state["state"].values()] == [1, 1]
    again = make([nn.Parameter(p.array.copy()) for p in params], lr=0.1)
    again.load_state_dict(state)
    assert [entry["step"] for entry in again.state_dict()["state"].values()] == [1, 1]


def test_OP_03_no_gradient_is_skipped_and_a_zero_gradient_decays():
    absent, zero = nn.Parameter([1.0]), nn.Parameter([1.0])
    optimizer = optim.AdamW([absent, zero], lr=0.1, weight_decay=0.1)
    zero.grad = Tensor([0.0])
    optimizer.step()
    assert absent.item() == 1.0
    assert zero.item() == pytest.approx(0.99)
    assert list(optimizer.state_dict()["state"]) == [1]
    optimizer.zero_grad()
    assert zero.grad is None  # the default
    zero.grad = Tensor([3.0])
    optimizer.zero_grad(set_to_none=False)
    assert zero.grad.tolist() == [0.0]
    assert absent.grad is None
    text = " ".join(Optimizer.__doc__.split())
    assert "whose grad is None is skipped entirely; one whose grad is zero still decays" in text
    assert "`zero_grad()` sets None by default" in text


@pytest.mark.parametrize("schedule", [optim.warmup_cosine, optim.warmup_linear])
def test_OP_05_the_first_step_moves_and_the_last_one_has_the_minimum(schedule):
    rates = [schedule(step, lr=1.0, min_lr=0.1, warmup=10, total=30) for step in range(40)]
    np.testing.assert_allclose(rates[:10], np.arange(1, 11) / 10)
    assert max(rates) == rates[9] == 1.0
    assert all(a > b for a, b in zip(rates[9:29], rates[10:30]))
    assert rates[29] == rates[39] == pytest.approx(0.1)
    assert schedule(10**9, lr=1.0, min_lr=0.1, warmup=10, total=30) == pytest.approx(0.1)

    level = [schedule(step, lr=1.0, warmup=20, total=20) for step in range(20)]
    np.testing.assert_allclose(level, np.arange(1, 21) / 20)
    assert schedule(25, lr=1.0, min_lr=0.2, warmup=20, total=20) == pytest.approx(0.2)
    for warmup, total in [(0, 1), (1, 1), (0, 2), (1, 2), (0, 10), (5, 3)]:
        assert 0 < schedule(0, lr=1.0, min_lr=0.0, warmup=warmup, total=total) <= 1


def test_OP_07_parts_of_a_batch_count_by_their_kept_targets():
    generator = np.random.default_rng(0)
    layer = nn.Linear(4, 5).double()
    x, target = generator.standard_normal((12, 4)), generator.integers(0, 5, 12)
    target[[1, 2, 7]] = -100
    F.cross_entropy(layer(Tensor(x)), target).backward()
    whole = layer.weight.grad.array.copy()
    layer.zero_grad()
    kept = (target != -100).sum()
    for part in (slice(0, 3), slice(3, 12)):  # of 1 and of 8 targets
        (F.cross_entropy(layer(Tensor(x[part])), target[part], reduction="sum") / kept).backward()
    np.testing.assert_allclose(layer.weight.grad.array, whole, rtol=1e-12)


class _Means:
    """A model whose loss is a number that its input holds."""

    def modules(self):
        return []

    def loss(self, x, y):
        return Tensor(x[y != IGNORE].mean(), requires_grad=True)


def test_OP_07_means_count_by_their_tokens():
    batches = [(np.full((1, 10), 1.0), np.zeros((1, 10))), (np.full((1, 100), 2.0), np.zeros((1, 100)))]
    assert evaluate(_Means(), batches) == pytest.approx(1.909091, abs=1e-6)
    x, y = np.ones((2, 100)), np.zeros((2, 100))
    x[1], y[0, 10:] = 2.0, IGNORE
    assert add_gradients(_Means(), x, y, 2) == pytest.approx(1.909091, abs=1e-6)
    assert "there is no incomplete window" in add_gradients.__doc__
