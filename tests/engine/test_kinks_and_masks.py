"""Policies at kinks, ties, singular points, masks and ignored targets: chosen once, documented, the same in every spelling."""

import warnings

import numpy as np
import pytest

import tinygrad_tf
from tinygrad_tf import composed, ops, tensor, where
from tinygrad_tf import functions as free
from tinygrad_tf.fused import attention
from tinygrad_tf.nn import functional


def slope(f, *values):
    x = tensor(list(values), dtype=np.float64, requires_grad=True)
    f(x).sum().backward()
    return x.grad.tolist()


def test_NS_02_relu_and_abs_are_flat_at_zero():
    for f in (lambda x: x.relu(), functional.relu, ops.relu, lambda x: x.abs(), abs):
        assert slope(f, 0.0, -0.0) == [0, 0]


def test_NS_02_clamp_passes_the_gradient_at_both_edges_in_every_spelling():
    """relu6 at 0 and 6: one, as in PyTorch's clamp."""
    lower, upper = tensor(0.0, dtype=np.float64), tensor(6.0, dtype=np.float64)
    for f in (
        lambda x: x.clamp(0, 6),
        lambda x: x.clip(0, 6),
        lambda x: np.clip(x, 0, 6),
        lambda x: x.clamp(min=0).clamp(max=6),
        lambda x: x.clamp(lower, upper),
    ):
        assert slope(f, 0.0, 6.0, -1.0, 7.0, 3.0) == [1, 1, 0, 0, 1]


def test_NS_02_maximum_and_minimum_split_a_tie_evenly():
    for f in (
        lambda x: x.maximum(tensor(0.0)),
        lambda x: free.maximum(x, 0.0),
        lambda x: np.maximum(0.0, x),
        lambda x: x.minimum(tensor(0.0)),
    ):
        assert slope(f, 0.0) == [0.5]


def test_NS_02_the_largest_of_all_shares_among_ties_and_along_a_dim_takes_the_first():
    assert slope(lambda x: x.max(), 3.0, 3.0, 1.0) == [0.5, 0.5, 0]
    assert slope(lambda x: x.amax(0), 3.0, 3.0, 1.0) == [0.5, 0.5, 0]
    assert slope(lambda x: x.min(), 3.0, 1.0, 1.0) == [0, 0.5, 0.5]
    assert slope(lambda x: x.max(0).values, 3.0, 3.0, 1.0) == [1, 0, 0]


def test_NS_02_the_table_of_kinks_is_in_the_documentation():
    text = " ".join(ops.__doc__.split())
    assert "relu and abs give 0 at 0" in text
    assert "clamp passes the gradient at both edges" in text
    assert "maximum and minimum split it evenly" in text


def test_NS_04_choose_first_then_take_the_root_gives_the_exact_gradient():
    def safe(x):
        zero = (x == 0).array
        return where(zero, x / 2, where(zero, 1.0, x).sqrt() + 1)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert slope(safe, 16.0, 0.0) == [0.125, 0.5]


def test_NS_04_the_recipe_is_in_the_documentation():
    """Somebody whose gradient is NaN from the branch that was not chosen reads the docstring of `where`."""
    text = f"{tinygrad_tf.where.__doc__} {ops.where.__doc__} {ops.__doc__}"
    assert "sqrt" in text
    assert "NaN" in text


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


# ------------------------------------------------------------------------------------------------ SM


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


def test_SM_02_the_policy_is_documented():
    assert "may look nowhere gives zeros" in functional.scaled_dot_product_attention.__doc__
    assert "all -inf gives zeros" in ops.__doc__ + tinygrad_tf.fused.softmax.__doc__


def test_SM_02_softmax_of_a_row_of_minus_infinity_is_zeros():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = tensor([[-np.inf, -np.inf], [0.0, 0.0]], requires_grad=True)
        y = x.softmax(-1)
        y.backward(tensor([[1.0, 2.0], [1.0, 2.0]]))
    assert y.tolist() == [[0, 0], [0.5, 0.5]]
    assert x.grad.tolist() == [[0, 0], [-0.25, 0.25]]


def test_SM_04_keys_beyond_the_causal_bound_are_never_read(calculus):
    q, k, v = (np.ones((1, 1, n, 1)) for n in (1, 2, 2))
    v[0, 0, :, 0] = k[0, 0, :, 0] = [5, np.nan]
    assert attention.raw(q, k, v, causal=0)[0].item() == 5


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_SM_06_ignored_targets(reduction, smoothing):
    row = [1.0, 2.0, 3.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = tensor([row, row], dtype=np.float64, requires_grad=True)
        functional.cross_entropy(
            x, tensor([-1, -1]), ignore_index=-1, reduction=reduction, label_smoothing=smoothing
        ).sum().backward()
        assert x.grad.tolist() == [[0, 0, 0]] * 2
        x = tensor([row, row], dtype=np.float64, requires_grad=True)
        loss = functional.cross_entropy(x, tensor([2, -1]), ignore_index=-1, reduction=reduction)
        loss.sum().backward()
    assert loss.sum().item() == pytest.approx(0.407606, abs=1e-6)
    assert x.grad.tolist() == [pytest.approx([0.090031, 0.244728, -0.334759], abs=1e-6), [0, 0, 0]]


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
