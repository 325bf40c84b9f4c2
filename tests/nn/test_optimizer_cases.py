"""Muon, schedules, and the faults that users of other frameworks met in optimizers."""

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn, optim
from tinygrad_tf.nn import functional as F


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


# ------------------------------------------------------------------------------------------------ field cases


def test_BC02_a_bias_keeps_its_shape_and_a_gradient_of_another_shape_is_refused():
    bias = nn.Parameter(np.zeros(4, np.float32))
    optimizer = optim.SGD([bias], lr=0.1)
    (Tensor(np.ones((4, 4), np.float32)) + bias).sum().backward()
    assert bias.grad.tolist() == [4, 4, 4, 4]
    optimizer.step()
    np.testing.assert_allclose(bias.array, np.full(4, -0.4), rtol=1e-6)

    bias.grad = Tensor(np.ones((4, 4), np.float32))
    before = bias.array.copy()
    with pytest.raises(ValueError, match=r"\(4, 4\).*\(4,\)"):
        optimizer.step()
    np.testing.assert_array_equal(bias.array, before)


def test_BC02_a_refused_step_changes_no_other_parameter():
    first, second = nn.Parameter([1.0, 2.0]), nn.Parameter([3.0])
    optimizer = optim.AdamW([first, second], lr=0.1)
    first.grad, second.grad = Tensor([1.0, 1.0]), Tensor([[1.0]])
    with pytest.raises(ValueError, match="shape"):
        optimizer.step()
    assert first.tolist() == [1.0, 2.0]
    assert optimizer.state_dict()["state"] == {}
    second.grad = Tensor([1.0])
    optimizer.step()
    np.testing.assert_allclose(first.array, np.float32([1 - 0.1 - 0.001, 2 - 0.1 - 0.002]), rtol=1e-6)  # still the first step


def test_OP01_one_step_count_for_all_parameters():
    params = [nn.Parameter([5.0]), nn.Parameter([[7.0]])]
    optimizer = optim.Adam(params, lr=0.1)
    for p in params:
        p.grad = Tensor(np.ones(p.shape, np.float32))
    optimizer.step()
    np.testing.assert_allclose([params[0].item() - 5, params[1].item() - 7], [-0.1, -0.1], rtol=1e-5)
    assert [entry["step"] for entry in optimizer.state_dict()["state"].values()] == [1, 1]


def test_OP03_no_gradient_is_skipped_and_a_zero_gradient_decays():
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


@pytest.mark.parametrize("schedule", [optim.warmup_cosine, optim.warmup_linear])
def test_OP05_schedules(schedule):
    rates = [schedule(step, lr=1.0, min_lr=0.1, warmup=10, total=30) for step in range(40)]
    np.testing.assert_allclose(rates[:10], np.arange(1, 11) / 10)
    assert max(rates) == rates[9] == 1.0
    assert all(a > b for a, b in zip(rates[9:29], rates[10:30]))
    assert rates[29] == rates[39] == pytest.approx(0.1)
    assert schedule(10**9, lr=1.0, min_lr=0.1, warmup=10, total=30) == pytest.approx(0.1)

    level = [schedule(step, lr=1.0, warmup=20, total=20) for step in range(20)]
    np.testing.assert_allclose(level, np.arange(1, 21) / 20)
    assert schedule(25, lr=1.0, min_lr=0.2, warmup=20, total=20) == pytest.approx(0.2)


@pytest.mark.parametrize("schedule", [optim.warmup_cosine, optim.warmup_linear])
@pytest.mark.parametrize("warmup, total", [(0, 1), (1, 1), (0, 2), (1, 2), (0, 10), (5, 3)])
def test_OP05_the_first_step_moves(schedule, warmup, total):
    assert 0 < schedule(0, lr=1.0, min_lr=0.0, warmup=warmup, total=total) <= 1


def test_OP07_accumulated_gradients_are_those_of_the_whole_batch():
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


def test_WT01_a_weight_used_twice_is_stepped_once():
    w = nn.Parameter(3.0)
    optimizer = optim.SGD([w], lr=0.1)
    (w * w).backward()
    assert w.grad.item() == 6.0
    optimizer.step()
    assert w.item() == pytest.approx(2.4)
    for duplicated in ([w, w], [{"params": [w]}, {"params": [w]}]):
        with pytest.raises(ValueError, match="twice"):
            optim.SGD(duplicated, lr=0.1)


def test_what_cannot_be_optimised_is_refused():
    with pytest.raises(ValueError, match="no parameters"):
        optim.SGD([])
    with pytest.raises(ValueError, match="leaf"):
        optim.SGD([nn.Parameter([1.0]) * 2])
    with pytest.raises(ValueError, match="require"):
        optim.SGD([Tensor([1.0])])
    for options in ({"lr": -1.0}, {"betas": (1.0, 0.9)}, {"eps": -1e-8}, {"weight_decay": -0.1}):
        with pytest.raises(ValueError, match="negative"):
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
