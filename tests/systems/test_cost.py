"""What the length of a text costs, counted in real runs and fitted: its square between tokens, in line in the matrices."""

import math
from contextlib import contextmanager

import numpy as np
import pytest

from tinygrad_tf import attention, composed
from tinygrad_tf.engine import history, state, tap
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.models.ledger import multiplications

D, LENGTHS = 16, (64, 128, 256, 512)


def model(length, **options):
    return Decoder(DecoderConfig(7, length, n_layer=2, n_head=2, n_embd=D, positions="none", **options))


def ids(length):
    return np.random.default_rng(0).integers(0, 7, (1, length))


def power(costs):
    """The p of cost = c T^p that fits best, by least squares on the logarithms; and how far the worst length is from it."""
    x, y = np.log(list(costs)), np.log(list(costs.values()))
    p, c = np.polyfit(x, y, 1)
    return p, abs(np.exp(p * x + c - y) - 1).max()


def products(loss):
    """The matrix products of a run in its blocks: (between tokens or not, node, multiplications)."""
    for node in history(loss.node):
        if node.op.name == "matmul" and node.scope is not None and "blocks." in node.scope.path:
            between = len(node.shape) == 5  # (B, G, H / G, T, S), where q meets k and the weights meet v
            yield between, node, math.prod(node.shape) * node.inputs[0].shape[-1]


def counted(length, backward, **options):
    """Multiplications of a run on the composed twins: (in matrices, between tokens); backward: of its backward pass, tapped."""
    found, made = [0, 0], model(length, **options)
    with composed():
        loss = made.loss(ids(length), ids(length))
        each = list(products(loss))
        if backward:
            for between, node, number in each:
                tap(node, lambda node, i, g, share, at=between, n=number: found.__setitem__(at, found[at] + n))
            loss.backward()
        else:
            for between, _, number in each:
                found[between] += number
    return found


@pytest.mark.parametrize("backward", [False, True])
def test_cost_in_T_is_the_square_between_tokens_and_in_line_in_matrices(backward):
    """Every product of the run, forward, and each gradient that its rules return, backward: twice as many."""
    found = {length: counted(length, backward) for length in LENGTHS}
    for length, (matrices, pairs) in found.items():
        expected = multiplications(model(length).config, length)
        assert (matrices, pairs) == tuple((1 + backward) * n for n in expected)
    for i, expected in ((0, 1), (1, 2)):
        assert power({n: both[i] for n, both in found.items()}) == pytest.approx((expected, 0), abs=1e-9)


@contextmanager
def scores_made(monkeypatch):
    """How many scores the fused attention computes inside."""
    total, whole = [0], attention._scores

    def watched(*args):
        s = whole(*args)
        total[0] += s.size
        return s

    with monkeypatch.context() as inside:
        inside.setattr(attention, "_scores", watched)
        inside.setattr(attention, "KEEP", 0)  # backward makes them again
        yield total


@pytest.mark.parametrize("options, low, high", [
    ({}, 1.9, 2.0), ({"window": 64}, 1.0, 1.1), ({"window": 16}, 0.99, 1.05), ({"attention": "linear"}, 0, 0),
])  # fmt: skip
def test_cost_in_T_of_what_is_run(monkeypatch, options, low, high):
    """The fused ops as a training step runs them: half of the square where the future is hidden, in line in a window."""
    costs = {}
    for length in (512, 1024, 2048, 4096):
        made = model(length, **options)
        with scores_made(monkeypatch) as total:
            made.loss(ids(length), ids(length)).backward()
        costs[length] = total[0]
    if not high:
        assert set(costs.values()) == {0}  # no score of a single pair
        return
    p, off = power(costs)
    assert low <= p <= high
    assert off < 0.1
    if not options:
        whole = 4096 * (4096 + 64) // 2  # the blocks on the diagonal are computed whole
        assert costs[4096] == 2 * 2 * 2 * whole  # passes, layers, heads


@pytest.mark.parametrize("options", [{}, {"attention": "linear"}])
def test_cost_in_T_of_everything_that_ops_return(options):
    """Numbers that the ops of a training step return: in line, with softmax attention too, since no op returns its scores."""
    costs = {}
    for length in (512, 1024, 2048):
        made, total = model(length, **options), [0]
        before = state.observer
        state.observer = lambda node, value, total=total: total.__setitem__(0, total[0] + value.size)
        try:
            made.loss(ids(length), ids(length))
        finally:
            state.observer = before
        costs[length] = total[0]
    p, off = power(costs)
    assert p == pytest.approx(1, abs=0.01)
    assert off < 0.01
