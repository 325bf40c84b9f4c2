"""GR: the graph and the walk backward."""

import operator
import threading

import numpy as np
import pytest

from tinygrad_tf import Tensor, composed, enable_grad, is_grad_enabled, no_grad, tensor


def leaf(*values):
    return tensor(values[0] if len(values) == 1 else list(values), requires_grad=True)


def test_GR_02_a_node_is_freed_only_after_its_complete_gradient_has_gone_on():
    x = leaf(2.0)
    y = 3 * x
    (2 * y + 5 * y).backward()
    assert x.grad.item() == 21
    x.grad = None
    h = 3 * x
    (h + h.relu()).backward()
    assert x.grad.item() == 6


def test_GR_04_a_second_backward_is_an_error_that_says_how_to_keep_the_graph():
    x = leaf(3.0)
    y = x * x * x
    y.backward()
    with pytest.raises(RuntimeError, match=r"already walked backward and freed\. .*retain_graph=True"):
        y.backward()
    assert x.grad.item() == 27
    assert "a second backward on a freed graph is an error" in Tensor.backward.__doc__


def test_GR_04_on_a_kept_graph_it_adds_exactly_the_same_again():
    a, b, d = leaf(3.0), leaf(2.0), leaf(1.0)
    e = (a + b) * d
    e.backward(retain_graph=True)
    e.backward(retain_graph=True)
    assert [v.grad.item() for v in (a, b, d)] == [2, 2, 10]
    x = leaf(3.0)
    y = x * x * x
    y.backward(retain_graph=True)
    x.grad = None
    y.backward()
    assert x.grad.item() == 27
    assert "on a kept one it adds the same gradients again" in " ".join(Tensor.backward.__doc__.split())


def test_GR_06_a_seed_has_exactly_the_shape_of_the_tensor():
    x = leaf(1.0, 2.0, 3.0)
    (2 * x).backward(tensor([1.0, 10, 100]))
    assert x.grad.tolist() == [2, 20, 200]
    for seed in (1.0, [1.0], tensor(1.0), tensor([1.0]), np.ones((1, 3)), [1.0, 1]):
        with pytest.raises(RuntimeError, match=r"the gradient has shape .*, the tensor \(3,\); it is never broadcast"):
            (2 * x).backward(seed)
    with pytest.raises(RuntimeError, match=r"shape \(3,\) needs a gradient of that shape"):
        (2 * x).backward()
    with pytest.raises(RuntimeError, match=r"shape \(0,\) needs a gradient"):
        (2 * x)[:0].backward()
    for shape in ((), (1,), (1, 1), (1, 1, 1)):  # one element needs no seed, whatever its rank
        x.grad = None
        (2 * x).sum().reshape(shape).backward()
        assert x.grad.tolist() == [2, 2, 2]
    assert "ones if this tensor has one element" in Tensor.backward.__doc__


def test_GR_08_no_grad_is_restored_on_every_way_out_and_by_nesting():
    with pytest.raises(KeyError), no_grad():
        raise KeyError
    assert is_grad_enabled()

    @no_grad()
    def function():
        return leaf(1.0) * 2

    assert is_grad_enabled()
    assert not function().requires_grad
    with no_grad():
        with enable_grad():
            assert is_grad_enabled()
        assert not is_grad_enabled()


def test_GR_08_no_grad_is_a_matter_of_one_thread():
    seen = []
    with no_grad():
        thread = threading.Thread(target=lambda: (seen.append(is_grad_enabled()), no_grad().__enter__()))
        thread.start()
        thread.join()
        assert not is_grad_enabled()
    assert is_grad_enabled()
    assert seen == [True]
    assert "per thread" in no_grad.__doc__


@pytest.mark.parametrize("inside", [False, True], ids=["fused", "composed"])
def test_GR_10_numpy_on_the_left_leaves_a_tensor_a_tensor(inside):
    rows = [
        (lambda t: np.float64(2) * t, [2, 4], [2, 2]),
        (lambda t: np.ones(2) - t, [0, -1], [-1, -1]),
        (lambda t: np.eye(2) @ t, [1, 2], [1, 1]),
        (lambda t: np.float32(1) / t, [1, 0.5], [-1, -0.25]),
    ]
    for f, value, slope in rows:
        t = leaf(1.0, 2.0)
        if inside:
            with composed():
                y = f(t)
        else:
            y = f(t)
        assert isinstance(y, Tensor)
        assert y.tolist() == value
        y.sum().backward()
        assert t.grad.tolist() == slope
    for op in (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge):
        for left in (np.float64(1.5), np.array([1.0, 3.0])):
            y = op(left, leaf(1.0, 2.0))
            assert isinstance(y, Tensor)
            assert y.tolist() == op(left, np.array([1.0, 2.0])).tolist()
