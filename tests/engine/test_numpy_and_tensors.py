"""NumPy on the left, NumPy functions on tensors, and tensors given to NumPy."""

import operator

import numpy as np
import pytest

from tinygrad_tf import Tensor, no_grad, tensor


def leaf():
    return tensor([1.0, 2.0], requires_grad=True)


@pytest.mark.filterwarnings("ignore:a float64 array beside")
@pytest.mark.parametrize(
    "f, value, slope",
    [
        (lambda t: np.float64(2) * t, [2, 4], [2, 2]),
        (lambda t: np.ones(2) - t, [0, -1], [-1, -1]),
        (lambda t: np.eye(2) @ t, [1, 2], [1, 1]),
        (lambda t: np.float32(1) / t, [1, 0.5], [-1, -0.25]),
        (lambda t: np.array(3.0) + t, [4, 5], [1, 1]),
        (lambda t: np.int64(2) ** t, [2, 4], [2 * np.log(2), 4 * np.log(2)]),
        (lambda t: np.arange(2) * t, [0, 2], [0, 1]),
        (lambda t: np.array([[1.0], [2.0]]) * t, [[1, 2], [2, 4]], [3, 3]),
        (lambda t: np.exp(t * 0), [1, 1], [0, 0]),
        (lambda t: np.maximum(t, np.float64(1.5)), [1.5, 2], [0, 1]),
        (lambda t: np.sum(t, axis=0, keepdims=True), [3], [1, 1]),
        (lambda t: np.where(np.array([True, False]), t, 0), [1, 0], [1, 0]),
    ],
)
def test_GR_10_numpy_on_the_left(f, value, slope):
    t = leaf()
    y = f(t)
    assert isinstance(y, Tensor)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y.array, value, rtol=1e-6)
    y.sum().backward()
    np.testing.assert_allclose(t.grad.array, slope, rtol=1e-6)


@pytest.mark.parametrize("op", [operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge])
@pytest.mark.parametrize("left", [np.float64(1.5), np.float32(1.5), np.array([1.0, 3.0]), np.int64(2)], ids=repr)
def test_GR_10_comparisons(op, left):
    y = op(left, leaf())
    assert isinstance(y, Tensor)
    assert y.tolist() == op(left, np.array([1.0, 2.0])).tolist()
    assert y.dtype == bool


@pytest.mark.parametrize("op", [operator.floordiv, operator.mod, operator.and_, operator.or_])
def test_GR_10_other_operators(op):
    y = op(np.array([7, 9]), tensor([2, 4]))
    assert isinstance(y, Tensor)
    assert y.tolist() == op(np.array([7, 9]), np.array([2, 4])).tolist()


def partly(t):
    return np.add(t, 1, where=np.array([True, False]))


@pytest.mark.parametrize("f", [np.square, np.sinh, np.arctan, lambda t: np.hypot(t, 1), partly, np.reciprocal])
def test_a_numpy_function_without_a_rule_never_loses_a_gradient_silently(f):
    with pytest.raises(TypeError, match="would lose the gradient"):
        f(leaf())
    if f is not partly:
        with no_grad():
            f(leaf())
        assert isinstance(f(tensor([1.0, 2.0])), Tensor)


@pytest.mark.parametrize("f", [np.sign, np.floor, np.ceil, np.isnan, np.isfinite, np.logical_not])
def test_numpy_functions_without_a_slope_give_tensors_without_a_gradient(f):
    y = f(leaf())
    assert isinstance(y, Tensor)
    assert not y.requires_grad


@pytest.mark.parametrize("f", [np.concatenate, np.stack, np.linalg.norm, np.median, np.einsum])
def test_other_numpy_functions_name_the_way_out(f):
    with pytest.raises(TypeError, match=rf"numpy\.{f.__name__} does not take a Tensor: .*detach\(\)\.numpy\(\)"):
        f([leaf(), leaf()]) if f in (np.concatenate, np.stack) else f("i->", leaf()) if f is np.einsum else f(leaf())


def test_IP_03_reductions_and_outputs_into_arrays_are_refused():
    for f in (
        lambda: np.add.reduce(leaf()),
        lambda: np.add(np.zeros(2), leaf(), out=np.zeros(2)),
        lambda: np.multiply.outer(leaf(), leaf()),
    ):
        with pytest.raises(TypeError, match="stack"):
            f()


def test_numpy_shares_memory_and_refuses_a_tensor_with_a_gradient():
    a = np.zeros(3, dtype=np.float32)
    t = Tensor(a)
    assert t.numpy() is a
    assert np.asarray(t) is a
    assert np.asarray(t, dtype=np.float64).dtype == np.float64
    assert not np.shares_memory(np.array(t), a)
    with pytest.raises(RuntimeError, match=r"\.detach\(\)\.numpy\(\)"):
        leaf().numpy()


def test_modulo_passes_the_gradient_on(calculus):
    x, m = calculus.leaf(np.array([5.3, -5.3, 0.4])), calculus.leaf(np.array([2.0, 2.0, 0.15]))
    (x % m).sum().backward()
    gx, gm = calculus.slopes(lambda x, m: np.mod(x, m).sum(), x.array, m.array)
    np.testing.assert_allclose(x.grad.array, gx, atol=1e-8)
    np.testing.assert_allclose(m.grad.array, gm, atol=1e-8)
