"""Turns, spreads, floors and the profile: what the measurements rest on."""

import mmap
import os
import time

import numpy as np
import pytest

from benchmarks import floor, memory, ours
from benchmarks.machine import Others, describe
from benchmarks.profile import Profile, Stopwatch, timed_ops
from benchmarks.sizes import SIZES, batches, text
from benchmarks.turns import ratio, spread, take_turns
from tinygrad_tf.engine import registry


def test_every_second_round_goes_the_other_way():
    order = []

    def turn(name):
        return lambda: order.append(name) or (2.0 if name == "b" else 1.0, 0.5)

    rounds = take_turns({name: turn(name) for name in "abc"}, 3, Others([]))
    assert "".join(order) == "abccbaabc"
    assert rounds.wall == {"a": [1, 1, 1], "b": [2, 2, 2], "c": [1, 1, 1]}
    assert rounds.cpu["a"] == [0.5] * 3


def test_a_ratio_is_taken_round_by_round():
    # the machine gets ten times slower: the ratio of the medians would be 0.2, each round says 2
    assert ratio([2, 2, 20, 20, 20], [1, 1, 10, 10, 10])["median"] == 2
    assert spread([4, 1, 2, 3, 5], scale=10) == {"min": 10, "lower": 20, "median": 30, "upper": 40, "max": 50}


def test_the_same_seed_gives_the_same_batches():
    a, b = batches(SIZES["tiny"]), batches(SIZES["tiny"])
    for _ in range(3):
        (x, y), (x2, y2) = next(a), next(b)
        assert x.shape == y.shape == (8, 16)
        assert (x[:, 1:] == y[:, :-1]).all()
        assert (x == x2).all()
        assert (y == y2).all()
    assert text().min() >= 0
    assert text().max() < 65


@pytest.mark.parametrize("size", SIZES)
def test_the_floor_counts_the_products_of_a_step(size):
    s = SIZES[size]
    done = sum(times * np.prod(left) * right[-1] for left, right, times in floor.products(s))
    weights = 12 * s.n_layer * s.n_embd**2 + 65 * s.n_embd  # of the matrices that multiply
    attention = 2 * s.n_layer * s.batch_size * s.block_size**2 * s.n_embd  # scores and reading, all heads together
    assert done == 3 * (weights * s.tokens + attention)


def test_the_products_are_done():
    products = floor.Products("tiny")
    products.once()
    for a, b, out in products.work:
        np.testing.assert_allclose(out, a @ b, rtol=1e-5)


def test_the_profile_sees_every_op_and_takes_its_stopwatches_away():
    plain = {name: op.raw for name, op in registry.items()}
    training = ours.Training("tiny")
    forward, backward = Stopwatch(time.perf_counter), Stopwatch(time.perf_counter)
    with timed_ops(forward, backward, shapes=False):
        training.once()
    assert {"linear", "gelu", "attention", "layer_norm", "cross_entropy", "embedding"} <= set(forward.calls)
    assert forward.calls["linear"] == 6 * 2 + 1
    assert backward.calls["linear"] == 2 * forward.calls["linear"]
    seen = sum(forward.calls.values())
    training.once()
    assert sum(forward.calls.values()) == seen
    assert {name: op.raw for name, op in registry.items()} == plain


def test_the_profile_changes_no_number_and_accounts_for_the_whole_step():
    profiled, plain = Profile("tiny"), ours.Training("tiny")
    measured = profiled.measure(shapes=True, threads=1, seconds=0.05)
    parts = sum(part["forward"] + part["backward"] for part in measured["ops"])
    parts += sum(part["forward"] + part["backward"] for part in measured["parts"].values())
    assert 0 < parts <= measured["step"]
    assert any("128×32" in op["name"] for op in measured["ops"])
    for _ in range(profiled.steps):
        expected = plain.once()
    assert profiled.last_loss == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="resource usage is not measured on this system")
def test_peak_memory_counts_what_was_held_and_let_go():
    exact = memory.forget_peak()
    before = memory.peak()
    with mmap.mmap(-1, 64 << 20) as held:  # not by way of malloc, which may still have as much from an earlier test
        np.frombuffer(held, np.uint8)[:] = 1
    added = memory.peak() - before
    assert added >= (60 << 20 if exact else 0)


def test_other_programs_are_told_from_our_own():
    others = Others([])
    until = time.process_time() + 0.3
    while time.process_time() < until:
        pass
    busy = others.cores()
    assert busy is None or 0 <= busy <= os.cpu_count() + 0.5
    others.own.append(2**22 + 1)  # a process that has ended
    assert others.cores() is None


def test_patience_is_spent_once(monkeypatch):
    others = Others([])
    monkeypatch.setattr(others, "cores", lambda: 1.0)
    assert others.wait(0.3) == 0.0
    monkeypatch.setattr(others, "cores", lambda: 0.0)
    assert 0 < others.wait(5) < 5
    assert others.wait(0) == 0.0


def test_the_machine_is_described():
    facts = describe()
    assert facts["numpy"] == np.__version__
    assert facts["cores"] == os.cpu_count()
    assert facts["cpu"]
