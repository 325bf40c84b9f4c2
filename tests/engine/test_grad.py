"""Gradients as tensors: grad() of leaves and intermediates, and derivatives of derivatives."""

import contextlib

import numpy as np
import pytest

from tinygrad_tf import grad, no_grad, tensor


def test_grad_of_leaves_touches_no_grad():
    x, w = tensor([1.0, 2], requires_grad=True), tensor([3.0, 4], requires_grad=True)
    gx, gw = grad((x * w).sum(), [x, w])
    assert (gx.tolist(), gw.tolist()) == ([3, 4], [1, 2])
    assert x.grad is None
    assert w.grad is None
    assert gx.array.flags.writeable


def test_grad_of_intermediate_inputs():
    x = tensor(2.0, requires_grad=True)
    h = x * 3
    y = h * h + x
    gh, gx = grad(y, (h, x))
    assert (gh.item(), gx.item()) == (12, 37)


def test_grad_of_an_output_itself_and_of_several_outputs():
    x = tensor(2.0, requires_grad=True)
    y, z = x * 3, x * x
    gy, gx = grad([y, z], [y, x], retain_graph=True)
    assert (gy.item(), gx.item()) == (1, 7)
    (gx,) = grad([y, z], x, [tensor(10.0), tensor(100.0)])
    assert gx.item() == 430


def test_grad_outputs_as_an_array_and_results_that_own_their_memory():
    x = tensor([1.0, 2], requires_grad=True)
    seed = np.array([1.0, 10], dtype=np.float32)
    (g,) = grad(x + 0, x, seed)
    g.array[:] = 0
    assert seed.tolist() == [1, 10]


def test_grad_of_unused_inputs():
    x, unused = tensor(2.0, requires_grad=True), tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    with pytest.raises(RuntimeError, match=r"input 1 of shape \(2,\) was not used .*allow_unused=True"):
        grad(y, [x, unused], retain_graph=True)
    gx, gu = grad(y, [x, unused], allow_unused=True)
    assert gx.item() == 4
    assert gu is None


def test_grad_frees_unless_told_otherwise():
    x = tensor(2.0, requires_grad=True)
    y = x * x
    grad(y, x, retain_graph=True)
    grad(y, x)
    with pytest.raises(RuntimeError, match="already walked backward"):
        grad(y, x)


def test_derivatives_of_higher_order():
    x = tensor(2.0, dtype=np.float64, requires_grad=True)
    y = x**5
    for order, wanted in enumerate((80, 160, 240, 240, 120), 1):
        (y,) = grad(y, x, create_graph=True)
        assert y.item() == pytest.approx(wanted), order


def test_create_graph_through_backward_and_then_a_penalty():
    x = tensor([1.0, 2.0], dtype=np.float64, requires_grad=True)
    (x**3).sum().backward(create_graph=True)
    assert x.grad.requires_grad
    penalty = (x.grad**2).sum()
    x.grad = None
    penalty.backward()
    assert x.grad.tolist() == pytest.approx([36, 288])


def test_create_graph_with_respect_to_an_intermediate():
    x = tensor(2.0, dtype=np.float64, requires_grad=True)
    h = x * x
    (first,) = grad(h * h * h, h, create_graph=True)
    (second,) = grad(first, h, retain_graph=True)
    (by_x,) = grad(first, x)
    assert (first.item(), second.item(), by_x.item()) == pytest.approx((48, 24, 96))


def test_create_graph_leaves_leaves_alone(calculus):
    """Running a rule on tensors must not give a leaf a history, whatever op returns its own input."""
    from tinygrad_tf import ops

    x = calculus.leaf(calculus.numbers(3))
    for y in (ops.cast(x, dtype=x.dtype), x.reshape(3), x.expand(3), x[...], ops.sum(x, dim=()), x + 0):
        (g,) = grad((y * y).sum(), x, create_graph=True)
        assert x.is_leaf
        np.testing.assert_allclose(g.array, 2 * x.array)


def right_or_refused(call):
    """The number that it returns, or "refused" where it says that a value was changed in place."""
    with contextlib.suppress(RuntimeError):
        return call()[0].item()
    with pytest.raises(RuntimeError, match="changed in place"):
        call()
    return "refused"


def test_create_graph_after_a_leaf_has_changed_is_right_or_refused():
    """z = (x + 1)^2 at x = 2 has the slope 6. The rule is run anew, so a leaf that was changed since must be noticed."""
    x = tensor(2.0, requires_grad=True)
    y = x + 1
    z = y * y
    with no_grad():
        x.add_(10)
    assert right_or_refused(lambda: grad(z, x, create_graph=True)) in (6, "refused")


def test_an_accumulated_gradient_with_a_graph_is_not_changed_under_that_graph():
    """x.grad is part of a loss of its own: adding to it in place must not change that loss's backward silently."""
    x = tensor(3.0, dtype=np.float64, requires_grad=True)
    y = x**3
    y.backward(create_graph=True)
    penalty = x.grad * x.grad  # (3 x^2)^2, slope 36 x^3 = 972
    (x * 1).backward()  # adds 1 to x.grad
    assert right_or_refused(lambda: grad(penalty, x)) in (pytest.approx(972), "refused")
