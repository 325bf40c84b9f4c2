"""The walk backward: long chains, shared nodes, second walks, seeds, and who owns what."""

import copy
from collections import Counter

import numpy as np
import pytest

from tinygrad_tf import Tensor, grad, no_grad, tensor
from tinygrad_tf.engine import Node, history

LONG = 100_000


def grads(*tensors):
    return [t.grad.tolist() for t in tensors]


def test_a_chain_of_100_000_ops_forward_backward_and_deletion():
    x = tensor(1.0, requires_grad=True)
    y = x
    for _ in range(LONG):
        y = -y
    assert "grad_fn" in repr(y)
    y.backward(retain_graph=True)  # so that rules and inputs are still there when the chain is deleted
    assert x.grad.item() == 1.0
    del y  # a recursive deletion would end the process here


def test_a_long_chain_with_create_graph():
    x = tensor(0.5, dtype=np.float64, requires_grad=True)
    y = x
    for _ in range(1000):
        y = y * 1.0001 + y * y * 1e-5
    (first,) = grad(y, x, create_graph=True)
    (second,) = grad(first, x)
    step = 1e-5

    def plain(value):
        for _ in range(1000):
            value = value * 1.0001 + value * value * 1e-5
        return value

    assert abs(first.item() - (plain(0.5 + step) - plain(0.5 - step)) / (2 * step)) < 1e-6
    assert abs(second.item() - (plain(0.5 + step) - 2 * plain(0.5) + plain(0.5 - step)) / step**2) < 1e-3


def counted(loss):
    """Count how often the rule of each node in the history of `loss` is called, input by input."""
    calls: Counter = Counter()

    def count(node, rule, i):
        def call(g):
            calls[node, i] += 1
            return rule(g)

        return call

    nodes = history(loss.node)
    for node in nodes:
        rule = node.rule
        node.rule = tuple(count(node, r, i) for i, r in enumerate(rule)) if isinstance(rule, tuple) else count(node, rule, None)
    return nodes, calls


def test_64_residual_blocks_visit_each_node_exactly_once():
    start = np.linspace(-1, 1, 6)
    x, w = tensor(start, requires_grad=True), tensor(0.1, dtype=np.float64, requires_grad=True)
    y = x
    for _ in range(64):
        y = y + (y * w).tanh() * w
    loss = y.sum()
    nodes, calls = counted(loss)
    assert len(nodes) == 64 * 4 + 1
    loss.backward()
    assert set(calls.values()) == {1}
    assert {node for node, _ in calls} == set(nodes)
    value, slope = start, np.ones(6)
    for _ in range(64):
        slope = slope * (1 + (1 - np.tanh(value * 0.1) ** 2) * 0.01)
        value = value + np.tanh(value * 0.1) * 0.1
    np.testing.assert_allclose(x.grad.array, slope, rtol=1e-12)


def test_nodes_are_walked_newest_first_and_a_node_after_all_its_consumers():
    x = tensor([1.0, 2.0], requires_grad=True)
    a = x * 2
    b, c = a + 1, a * a
    d = (b * c).sum()
    order = history(d.node)
    assert [node.op.name for node in order] == ["sum", "mul", "mul", "add", "mul"]
    place = {node: i for i, node in enumerate(order)}
    assert all(place[source] > place[node] for node in order for source in node.inputs if isinstance(source, Node))


def test_backward_goes_through_a_node_once_and_after_all_its_consumers():
    x, seen = Tensor([2.0], requires_grad=True), []
    a = x * x
    b = a * 3
    c = a * b  # reaches a before b does
    d = c + a
    for name, y in zip("abcd", (a, b, c, d), strict=True):
        y.register_hook(lambda g, name=name: seen.append((name, g.item())))
    d.backward()
    assert seen == [("d", 1.0), ("c", 1.0), ("b", 4.0), ("a", 25.0)]  # d = 3 a^2 + a at a = 4
    assert x.grad.item() == 100.0


def test_a_plus_a():
    a = tensor(3.0, requires_grad=True)
    for f, slope in [
        (lambda: a + a, 2),
        (lambda: a * a, 6),
        (lambda: a - a, 0),
        (lambda: a / a, 0),
        (lambda: a * a * a, 27),
        (lambda: (a + a) * (a + a), 24),
    ]:
        a.grad = None
        f().backward()
        assert a.grad.item() == slope


def test_diamonds_in_a_row_cost_one_visit_each():
    x = tensor(1.0, requires_grad=True)
    y = x
    for _ in range(200):  # 2 ** 200 paths
        y = (y + y) * 0.5
    y.backward()
    assert x.grad.item() == 1.0


def test_GR_02_one_input_as_query_key_and_value(calculus):
    from tinygrad_tf.fused import attention

    x = calculus.leaf(calculus.numbers(1, 1, 3, 2))
    h = x * 1
    attention(h, h, h).sum().backward()
    (wanted,) = calculus.slopes(lambda x: attention.raw(x, x, x)[0].sum(), x.array)
    np.testing.assert_allclose(x.grad.array, wanted, atol=1e-9)


@pytest.mark.parametrize(
    "again", [lambda y: y.backward(), lambda y: y.backward(retain_graph=True), lambda y: (y * 2).backward()]
)
def test_GR_04_a_second_backward_on_a_freed_graph_says_how_to_keep_it(again):
    x = tensor(3.0, requires_grad=True)
    y = x * x
    y.backward()
    with pytest.raises(
        RuntimeError, match=r"^<mul \(\)>: this graph was already walked backward and freed\. .*backward\(retain_graph=True\)"
    ):
        again(y)
    assert x.grad.item() == 6  # nothing half done


def test_backward_of_what_has_no_graph_is_an_error():
    with pytest.raises(RuntimeError, match="needs no gradient"):
        tensor(1.0).backward()
    with no_grad():
        y = tensor(1.0, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="needs no gradient"):
        y.backward()


def test_backward_of_a_leaf_itself():
    x = tensor([2.0], requires_grad=True)
    x.backward()
    x.backward()
    assert x.grad.tolist() == [2]


def test_a_leaf_owns_its_gradient():
    seed = np.ones(3, dtype=np.float32)
    x, y = tensor(np.zeros(3), dtype=np.float32, requires_grad=True), tensor([0.0, 0, 0], requires_grad=True)
    (x + y).backward(tensor(seed))
    assert x.grad.dtype == np.float32
    x.grad.array[:] = 7
    assert y.grad.tolist() == [1, 1, 1]
    z = tensor([1.0, 2.0, 3.0], requires_grad=True).reshape(3)
    assert z.grad is None


@pytest.mark.parametrize("create_graph", [False, True])
def test_IP_05_gradients_of_broadcast_sums_are_dense_and_writable(create_graph):
    x = tensor([1.0, 2, 3], requires_grad=True)
    x.sum().backward(create_graph=create_graph)
    assert x.grad.array.flags.writeable
    assert x.grad.array.strides == (4,)
    (x.sum() + (x * x).sum()).backward(create_graph=create_graph)
    assert x.grad.tolist() == [4, 6, 8]
    x.grad = None
    (x.sum() + (x * x).sum()).backward(create_graph=create_graph)
    assert x.grad.tolist() == [3, 5, 7]


def test_gradients_accumulate_in_leaves_only():
    x = tensor(2.0, requires_grad=True)
    h = x * 3
    (h * h).backward(retain_graph=True)
    assert h.grad is None
    assert x.grad.item() == 36
    (h * 1).backward()
    assert x.grad.item() == 39


def test_a_leaf_that_needs_no_gradient_gets_none():
    x, w = tensor(2.0), tensor(3.0, requires_grad=True)
    (x * w).backward()
    assert x.grad is None
    assert w.grad.item() == 2


def test_deepcopy_of_leaves():
    x = tensor([1.0, 2], requires_grad=True)
    (x * 2).sum().backward()
    y = copy.deepcopy(x)
    assert y.requires_grad
    assert y.grad.tolist() == [2, 2]
    y.array[0] = y.grad.array[0] = 9
    assert x.tolist() == [1, 2]
    assert x.grad.tolist() == [2, 2]
    tied = copy.deepcopy([x, x])
    assert tied[0] is tied[1]
    with pytest.raises(RuntimeError, match=r"only leaf tensors .*detach"):
        copy.deepcopy(x * 2)


def test_detach_shares_memory_and_stops_gradients():
    x = tensor(3.0, requires_grad=True)
    y = x * x
    (y * y.detach()).backward()
    assert x.grad.item() == 54
    assert not y.detach().requires_grad
    assert np.shares_memory(y.detach().array, y.array)


def test_results_have_the_class_tensor_for_parameters_too():
    from tinygrad_tf.nn import Parameter

    p = Parameter([1.0, 2.0])
    assert type(p * 2) is Tensor
    assert type(copy.deepcopy(p)) is Parameter
    (p * p).sum().backward()
    assert type(p.grad) is Tensor
