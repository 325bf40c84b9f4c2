"""BC: what was broadcast is summed back, and a parameter keeps its shape."""

import numpy as np
import pytest

from tinygrad_tf import nn, ones, optim, tensor


@pytest.mark.parametrize("make", [optim.SGD, optim.AdamW], ids=["SGD", "AdamW"])
def test_BC_02_a_bias_keeps_its_shape_and_a_gradient_of_another_is_refused(make):
    bias, other = nn.Parameter(np.zeros(4, np.float32)), nn.Parameter([1.0])
    optimizer = make([other, bias], lr=0.1)
    (ones(4, 4) + bias).sum().backward()
    assert bias.grad.tolist() == [4, 4, 4, 4]
    memory = bias.array
    optimizer.step()
    assert bias.array is memory
    assert bias.shape == (4,)
    if make is optim.SGD:
        np.testing.assert_allclose(bias.array, -0.4, rtol=1e-6)

    with pytest.raises(RuntimeError, match=r"\(4, 4\) for a parameter of shape \(4,\)"):
        bias.grad = ones(4, 4)
    other.grad, bias.grad = tensor([1.0]), ones(4)
    bias.grad.array = np.ones((4, 4), np.float32)  # past the check
    before = bias.array.copy()
    with pytest.raises(ValueError, match=r"\(4, 4\) for a parameter of shape \(4,\)"):
        optimizer.step()
    np.testing.assert_array_equal(bias.array, before)
    assert other.item() == 1  # a step is taken whole or not at all


def test_BC_04_a_shared_operand_of_a_batched_matmul_gets_the_sum_over_the_batch():
    a = tensor(np.arange(1.0, 9).reshape(2, 2, 2), requires_grad=True)
    b = tensor([[9.0, 10], [11, 12]], dtype=np.float64, requires_grad=True)
    loss = (a @ b).sum()
    loss.backward()
    assert loss.item() == 764
    assert b.grad.tolist() == [[16, 16], [20, 20]]
    assert a.grad.tolist() == [[[19, 23]] * 2] * 2
    a, b = ones(1, 2, 2, requires_grad=True), ones(3, 2, 2, requires_grad=True)
    (a @ b).sum().backward()
    assert a.grad.tolist() == [[[6, 6]] * 2]
    assert b.grad.tolist() == [[[2, 2]] * 2] * 3
    a, b = ones(3, 2, 2, requires_grad=True), ones(1, 2, 2, requires_grad=True)
    (a @ b).sum().backward()
    assert b.grad.tolist() == [[[6, 6]] * 2]
