"""Policies at kinks, ties, singular points, masks and ignored targets: chosen once, documented, the same in every spelling."""

import warnings

import numpy as np
import pytest

from tinygrad_tf import composed, tensor
from tinygrad_tf.fused import attention
from tinygrad_tf.nn import functional


def slope(f, *values):
    x = tensor(list(values), dtype=np.float64, requires_grad=True)
    f(x).sum().backward()
    return x.grad.tolist()


def test_NS_02_the_largest_of_all_shares_among_ties_and_along_a_dim_takes_the_first():
    assert slope(lambda x: x.max(), 3.0, 3.0, 1.0) == [0.5, 0.5, 0]
    assert slope(lambda x: x.amax(0), 3.0, 3.0, 1.0) == [0.5, 0.5, 0]
    assert slope(lambda x: x.min(), 3.0, 1.0, 1.0) == [0, 0.5, 0.5]
    assert slope(lambda x: x.max(0).values, 3.0, 3.0, 1.0) == [1, 0, 0]


def test_NS_a_length_of_zero_has_slope_zero_and_not_nan():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert slope(lambda x: x.norm(), 0.0, 0.0) == [0, 0]
        assert slope(lambda x: x.std(), 2.0, 2.0, 2.0) == [0, 0, 0]
    assert slope(lambda x: x.norm(), 3.0, 4.0) == pytest.approx([0.6, 0.8])


def test_powers_at_zero():
    assert slope(lambda x: x**0, 0.0, 2.0) == [0, 0]
    assert slope(lambda x: x**1, 0.0, 2.0) == [1, 1]
    assert slope(lambda x: x**2, 0.0, -2.0) == [0, -4]
    assert slope(lambda x: x ** tensor([0.0, 2.0], dtype=np.float64), 0.0, 0.0) == [0, 0]
    assert slope(lambda b: tensor([0.0, 2.0], dtype=np.float64) ** b, 2.0, 0.0) == [0, pytest.approx(np.log(2))]


# ------------------------------------------------------------------------------------------------ masks


@pytest.mark.parametrize("twin", [False, True])
@pytest.mark.parametrize("how", ["mask", "bias", "causal", "functional"])
def test_SM_02_a_query_that_may_look_nowhere_gives_zeros_and_sends_none_back(how, twin, calculus):
    q, k = calculus.leaf(np.zeros((1, 1, 2, 2))), calculus.leaf(np.zeros((1, 1, 2, 2)))
    v = calculus.leaf(np.eye(2)[None, None])
    mask = np.array([[False, False], [True, True]])
    attend = {
        "mask": lambda: attention(q, k, v, mask=mask),
        "bias": lambda: attention(q, k, v, tensor(np.where(mask, 0.0, -np.inf))),
        "causal": lambda: attention(q, k, v, causal=-1),
        "functional": lambda: functional.scaled_dot_product_attention(q, k, v, attn_mask=tensor(mask)),
    }[how]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if twin:
            with composed():
                y = attend()
        else:
            y = attend()
        (y * tensor([[1.0, 2.0], [3.0, 4.0]], dtype=np.float64)).sum().backward()
    second = [1, 0] if how == "causal" else [0.5, 0.5]
    assert y.tolist() == [[[[0, 0], second]]]
    assert q.grad.array[0, 0, 0].tolist() == [0, 0]
    assert all(np.isfinite(x.grad.array).all() for x in (q, k, v))


@pytest.mark.parametrize("block", [None, 1, 2, 3])
def test_SM_10_a_later_token_changes_no_earlier_output_bit_for_bit(block, calculus):
    q, k, v = (calculus.numbers(2, 2, 4, 3, salt=i).astype(np.float32) for i in range(3))
    before = attention.raw(q, k, v, causal=0, block=block)[0]
    for x in (q, k, v):
        x[:, :, 3] += 1
    after = attention.raw(q, k, v, causal=0, block=block)[0]
    assert np.array_equal(before[:, :, :3], after[:, :, :3])
    assert not np.array_equal(before[:, :, 3], after[:, :, 3])
    eye = np.broadcast_to(np.eye(4, dtype=np.float32), (2, 2, 4, 4))
    assert attention.raw(q, k, eye, causal=0, block=block)[0][0, 0, 0].tolist() == [1, 0, 0, 0]


def test_a_mask_of_integers_is_refused_and_not_added():
    q = tensor(np.ones((1, 1, 2, 2)))
    with pytest.raises(TypeError, match="boolean"):
        functional.scaled_dot_product_attention(q, q, q, attn_mask=tensor([[1, 0], [1, 1]]))
