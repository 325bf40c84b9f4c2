"""IP: changes in place, views, and memory that two tensors share."""

import numpy as np
import pytest

from tinygrad_tf import Tensor, tensor, zeros


def test_IP_01_a_bias_added_in_place_trains_and_an_alias_sees_the_new_value():
    x, b = tensor([1.0, 1.0]), tensor([0.0, 0.0], requires_grad=True)
    alias, memory = x, x.array
    x += b
    (x * tensor([2.0, 3.0])).sum().backward()
    assert b.grad.tolist() == [2, 3]
    assert alias is x
    assert alias.array is memory
    assert "every other name of this tensor sees the new value" in " ".join(Tensor.__doc__.split())
    with pytest.raises(RuntimeError, match="a leaf that requires a gradient cannot be changed in place: use no_grad"):
        b += 1


def test_IP_01_through_a_transposed_copy_that_is_not_contiguous():
    x, c = tensor(np.arange(6.0).reshape(2, 3), requires_grad=True), tensor(1.0, requires_grad=True)
    y = Tensor(np.zeros((3, 2), dtype=np.float32, order="F"))
    y += x.T
    y += c
    y.sum().backward()
    assert x.grad.tolist() == [[1, 1, 1], [1, 1, 1]]
    assert c.grad.item() == 6


def test_IP_03_item_assignment_has_the_right_gradients():
    x = tensor([1.0, 2, 3], requires_grad=True)
    y = 2 * x
    y[1] = 0
    y.sum().backward()
    assert x.grad.tolist() == [2, 0, 2]
    x.grad = None
    y, s = 2 * x, tensor(5.0, requires_grad=True)
    y[y > 3] = s  # chosen by a mask of itself
    (y * tensor([1.0, 10, 100])).sum().backward()
    assert x.grad.tolist() == [2, 0, 0]
    assert s.grad.item() == 110


def test_IP_03_a_row_of_a_constant_buffer():
    out, t = zeros(2, 3), tensor([1.0, 2, 3], requires_grad=True)
    out[0] = t
    out[1] = t * 2
    (out * out).sum().backward()
    assert t.grad.tolist() == [10, 20, 30]


def test_IP_03_a_tensor_stored_into_a_plain_array_is_told_to_use_stack():
    res, t = np.zeros((2, 2)), tensor([1.0, 2.0], requires_grad=True)
    for store in (lambda: res.__setitem__(0, t), lambda: res.__iadd__(t), lambda: np.array([t, t])):
        with pytest.raises((TypeError, RuntimeError), match="stack"):
            store()
    with pytest.raises(ValueError, match="sequence") as caught:  # NumPy's own words, with ours as their cause
        np.zeros(2)[0] = t
    assert "stack() or cat()" in str(caught.value.__cause__)
    with pytest.warns(UserWarning, match="becomes a number without one: stack"):
        np.zeros(2)[0] = t[0]  # one element is a number, and its gradient is lost


def test_IP_05_rules_leave_what_they_are_given_and_gradients_are_dense_and_writable():
    x = tensor([1.0, 2, 3], requires_grad=True)
    (x.sum() + (x * x).sum()).backward()
    assert x.grad.tolist() == [3, 5, 7]
    x.grad = None
    x.sum().backward()
    assert x.grad.array.flags.writeable
    assert x.grad.array.strides == (4,)
    (x * x).sum().backward()
    assert x.grad.tolist() == [3, 5, 7]

    x, seed = tensor(np.linspace(-1, 1, 6).reshape(2, 3), requires_grad=True), np.arange(6.0).reshape(2, 3)
    y = x.softmax(-1)
    before = y.array.copy()
    y.backward(seed)
    assert np.array_equal(seed, np.arange(6.0).reshape(2, 3))
    assert np.array_equal(y.array, before)
