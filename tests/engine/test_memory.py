"""What backward keeps, and when it goes: by reference counting alone, with the cyclic collector off."""

import gc
import weakref

import numpy as np
import pytest

from tinygrad_tf import Tensor, composed, grad, no_grad, ops, tensor
from tinygrad_tf.activations import gelu
from tinygrad_tf.engine import history, registry
from tinygrad_tf.fused import attention, layer_norm, linear


@pytest.fixture(autouse=True)
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def leaf(*shape):
    return tensor(np.random.default_rng(0).random(shape), requires_grad=True)


def refs(arrays):
    return [weakref.ref(a) for a in arrays]


def alive(references):
    return sum(r() is not None for r in references)


LOSSES = {
    "primitives": lambda x: ((x.exp() + x.tanh() * x).log() / (x * x + 1).sqrt() - x**3).sum(),
    "shapes": lambda x: (x.T.reshape(2, -1)[:, ::2] * 2).softmax(-1).amax(1).prod(),
    "matmul": lambda x: (x @ x.T @ x).logsumexp(0).cumsum(0).sum(),
    "linear": lambda x: gelu(linear(x, x * 2, x[:, 0] * 1)).sum(),
    "norm": lambda x: layer_norm(x * 2, x[0] * 1, x[1] * 1).sum(),
    "attention": lambda x: _attend((x * 2).reshape(1, 1, *x.shape)).sum(),
    "in place": lambda x: _in_place(x).sum(),
    "hooks": lambda x: _hooked(x).sum(),
}


def _attend(h):
    return attention(h, h, h, causal=0, block=1)


def _in_place(x):
    y = x * 2
    y[0] = x[1] * 3
    y += x
    return y.exp()


def _hooked(x):
    y = x.exp()
    y.retain_grad()
    y.register_hook(lambda g: g * 2)
    return y * y


@pytest.mark.parametrize("name", LOSSES)
def test_arrays_and_nodes_go_with_the_loss(name):
    x = leaf(4, 4)
    loss = LOSSES[name](x)
    nodes = history(loss.node)
    kept = refs([a for node in nodes for a in node.kept() if not np.shares_memory(a, x.array)]) + refs(nodes)
    assert alive(kept) == len(kept) > 0
    del nodes
    del loss
    assert alive(kept) == 0


@pytest.mark.parametrize("name", LOSSES)
def test_backward_frees_as_it_walks(name):
    x = leaf(4, 4)
    loss = LOSSES[name](x)
    kept = refs([a for node in history(loss.node) for a in node.kept() if not np.shares_memory(a, x.array)])
    loss.backward()
    assert alive(kept) == 0  # the loss itself is still there


@pytest.mark.parametrize("name", LOSSES)
def test_a_recorded_backward_leaves_no_cycle(name):
    x = leaf(4, 4)
    loss = LOSSES[name](x)
    (g,) = grad(loss, x, create_graph=True)
    nodes = refs(history(loss.node, g.node))
    (again,) = grad((g * g).sum(), x)
    assert again.shape == x.shape
    del loss, g
    assert alive(nodes) == 0


def test_the_walk_frees_a_node_before_it_reaches_the_next():
    x = leaf(3)
    first = x.exp()
    kept = weakref.ref(first.array)
    second = first.exp()
    later = weakref.ref(second.array)
    seen = []
    first.register_hook(lambda g: seen.append((kept() is not None, later() is not None)))
    loss = second.exp().sum()
    del first, second
    loss.backward()
    assert seen == [(True, False)]


def test_a_failed_op_leaves_nothing_behind():
    x = leaf(3)
    y = x.exp()
    ref = weakref.ref(y.array)
    with pytest.raises(ValueError, match="add"):
        y + Tensor(np.zeros(4))
    del y
    gc.collect()  # the traceback of an exception is a cycle of Python's own
    assert ref() is None


def test_no_grad_keeps_nothing():
    x = leaf(3)
    with no_grad():
        h = x.exp()
        ref = weakref.ref(h.array)
        h = h.exp()
    assert ref() is None
    assert h.node is None


def test_keeping_a_hook_remover_does_not_keep_the_graph():
    x = leaf(3)
    y = x.exp()
    ref, remove = weakref.ref(y.array), y.register_hook(print)
    del y
    assert ref() is None
    remove()


# ------------------------------------------------------------------------------------------------ Node.kept()


def kept(y):
    return {id(a) for a in y.node.kept()}


def test_kept_is_what_the_rule_closes_over():
    a, b = leaf(2, 3), leaf(2, 3)
    assert kept(a * b) == {id(a.array), id(b.array)}
    assert kept(a + b) == kept(a - b) == kept(-a) == kept(a.sum()) == kept(a.reshape(6)) == kept(a.T) == set()
    y = a.exp()
    assert kept(y) == {id(y.array)}
    y = a.tanh()
    assert kept(y) == {id(y.array)}
    y = a.softmax(-1)
    assert kept(y) == {id(y.array)}
    y = a.relu()
    assert kept(y) <= {id(y.array), id(a.array)}
    assert kept(a @ b.T.contiguous()) >= {id(a.array)}


def test_kept_sees_helpers_lists_and_tuples_of_a_rule(calculus):
    q = leaf(1, 2, 5, 4)
    whole, parts = attention(q, q, q), attention(q, q, q, block=2)
    square = (1, 2, 5, 5)
    assert sum(a.size for a in whole.node.kept() if a is not q.array) >= np.prod(square)
    assert max(a.size for a in parts.node.kept()) < np.prod(square)  # the T x T weights are not kept
    assert len(parts.node.kept()) >= 3


def test_kept_is_empty_after_backward():
    a = leaf(3)
    y = a * a
    y.sum().backward()
    assert y.node.kept() == []


def test_add_alone_keeps_no_intermediate_alive():
    x = leaf(3)
    h = x + 1
    ref = weakref.ref(h.array)
    y = h + 1
    del h
    assert ref() is None
    y.sum().backward()
    assert x.grad.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "name, f",
    [
        ("times a number", lambda x, c: x * 2.0),
        ("times a constant", lambda x, c: x * c),
        ("divided by a constant", lambda x, c: x / c),
        ("matrix product with a constant", lambda x, c: x @ c),
        ("linear with frozen weights", lambda x, c: linear(x, c)),
    ],
)
def test_an_input_that_needs_no_gradient_costs_nothing(name, f):
    """The rule for the constant would need x; there is no such gradient, so x is not kept."""
    x, c = leaf(3, 3), Tensor(np.ones((3, 3)))
    h = x + 1
    ref = weakref.ref(h.array)
    y = f(h, c)
    del h
    assert ref() is None, name
    assert y.node is not None


def test_composed_runs_twins_in_this_block_only():
    x = leaf(2, 3)
    plain = x.softmax(-1)
    with composed():
        small = x.softmax(-1)
        with composed():
            pass
        assert x.softmax(-1).node.op is not registry["softmax"]
    assert plain.node.op is registry["softmax"] is x.softmax(-1).node.op
    assert {node.op.name for node in history(small.node)} >= {"exp", "sum", "div"}
    np.testing.assert_allclose(small.array, plain.array, rtol=1e-6)


def test_raw_runs_without_an_engine():
    a, b = np.ones((2, 3)), np.full((3,), 2.0)
    value, (by_a, by_b) = ops.mul.raw(a, b)
    assert np.array_equal(value, np.full((2, 3), 2.0))
    assert np.array_equal(by_a(np.ones((2, 3))), np.full((2, 3), 2.0))
    assert by_b(value).shape == (2, 3)  # summing over broadcast axes is the engine's work
    assert isinstance(ops.mul(a, b), np.ndarray)
