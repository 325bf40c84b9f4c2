"""torch.nn.functional's names with its results: losses, attention with every mask, padding."""

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn
from tinygrad_tf.nn import functional as F


@pytest.mark.parametrize("options", [
    {}, {"reduction": "sum"}, {"reduction": "none"}, {"ignore_index": 3}, {"label_smoothing": 0.1},
    {"label_smoothing": 0.2, "ignore_index": 0, "reduction": "sum"},
])  # fmt: skip
@pytest.mark.parametrize("axes", [(), (4,), (2, 3)])
def test_cross_entropy(oracle, against, randn, dtype, options, axes):
    logits = 4 * randn(6, 5, *axes, dtype)
    target = np.random.default_rng(0).integers(0, 5, (6, *axes))
    ours, theirs = Tensor(logits, requires_grad=True), oracle.tensor(logits, requires_grad=True)
    loss = F.cross_entropy(ours, target, **options)
    expected = oracle.nn.functional.cross_entropy(theirs, oracle.from_numpy(target), **options)
    against.close(loss, expected, "loss")
    loss.sum().backward()
    expected.sum().backward()
    against.close(ours.grad, theirs.grad, "gradient")


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
@pytest.mark.parametrize("mask", [None, "causal", "shared", "own", "numbers"])
def test_scaled_dot_product_attention(oracle, against, randn, dtype, rank, mask):
    lead = (2, 3, 2)[: rank - 2]
    arrays = [randn(*lead, 5, 4, dtype), randn(*lead, 7, 4, dtype), randn(*lead, 7, 6, dtype)]
    options = {"is_causal": True} if mask == "causal" else {}
    if mask in ("shared", "own"):
        options["attn_mask"] = np.random.default_rng(1).random((*(lead if mask == "own" else ()), 5, 7)) > 0.3
        options["attn_mask"][..., 0] = True
    if mask == "numbers":
        options["attn_mask"] = randn(*lead, 5, 7, dtype)
    ours, theirs = [Tensor(a, requires_grad=True) for a in arrays], [oracle.tensor(a, requires_grad=True) for a in arrays]
    torch_options = {k: oracle.from_numpy(v) if k == "attn_mask" else v for k, v in options.items()}
    y = F.scaled_dot_product_attention(*ours, **options)
    expected = oracle.nn.functional.scaled_dot_product_attention(*theirs, **torch_options)
    against.close(y, expected, "output")
    g = randn(*lead, 5, 6, dtype)
    y.backward(g)
    expected.backward(oracle.from_numpy(g))
    for a, b, name in zip(ours, theirs, "qkv"):
        against.close(a.grad, b.grad, f"gradient of {name}")


def test_a_mask_of_numbers_gets_its_gradient(oracle, against, randn):
    q, k, v = (randn(2, 4, 5, 3, np.float64) for _ in range(3))
    for shape in [(5, 5), (4, 5, 5), (1, 4, 1, 5), (2, 1, 5, 1)]:
        bias = randn(*shape, np.float64)
        ours, theirs = Tensor(bias, requires_grad=True), oracle.tensor(bias, requires_grad=True)
        F.scaled_dot_product_attention(Tensor(q), Tensor(k), Tensor(v), attn_mask=ours).square().sum().backward()
        args = [oracle.from_numpy(x) for x in (q, k, v)]
        oracle.nn.functional.scaled_dot_product_attention(*args, attn_mask=theirs).square().sum().backward()
        against.close(ours.grad, theirs.grad, f"bias of shape {shape}")


@pytest.mark.parametrize("shape", [(9, 9), (4, 1, 5, 5), (2, 3, 5, 5), (5, 4), (1, 5, 5, 5)])
def test_a_mask_of_the_wrong_shape_is_refused(shape):
    q = Tensor(np.ones((2, 4, 5, 3), np.float32))
    for mask in (np.ones(shape, bool), np.zeros(shape, np.float32)):
        with pytest.raises(ValueError, match=rf"mask of shape \({shape[0]}, .*\(2, 4, 5, 5\)"):
            F.scaled_dot_product_attention(q, q, q, attn_mask=mask)


def test_a_mask_of_integers_is_refused():
    """0 and 1 could mean two things: added to the scores they would hardly mask anything."""
    q = Tensor(np.ones((1, 2, 3, 4), np.float32))
    with pytest.raises(TypeError, match=r"boolean.*int64"):
        F.scaled_dot_product_attention(q, q, q, attn_mask=np.tri(3, dtype=np.int64))
    layer = nn.MultiHeadAttention(8, 2)
    with pytest.raises(TypeError, match=r"boolean.*int64"):
        layer(Tensor(np.ones((1, 3, 8), np.float32)), mask=np.tri(3, dtype=np.int64))


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("kind", ["none", "causal", "boolean", "numbers"])
def test_attention_with_dropout_is_the_other_one_but_for_the_dropout(randn, groups, kind):
    """With a probability of 1e-12 nothing is dropped, and the path that makes the weights whole must agree."""
    arrays = [randn(2, 4, 5, 3, np.float64), randn(2, groups, 7, 3, np.float64), randn(2, groups, 7, 2, np.float64)]
    options = {"is_causal": True} if kind == "causal" else {}
    if kind in ("boolean", "numbers"):
        mask = np.random.default_rng(0).random((2, 1, 5, 7)) > 0.4
        mask[0, 0, 2] = False
        options["attn_mask"] = mask if kind == "boolean" else np.where(mask, randn(2, 1, 5, 7, np.float64), -np.inf)
    found = []
    for p in (0.0, 1e-12):
        q, k, v = (Tensor(a, requires_grad=True) for a in arrays)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=p, scale=0.7, enable_gqa=True, **options)
        y.square().sum().backward()
        found.append([y.array, q.grad.array, k.grad.array, v.grad.array])
    for a, b in zip(*found):
        np.testing.assert_allclose(b, a, atol=1e-10)


def test_attention_with_dropout_drops_weights_and_keeps_the_mean():
    q = Tensor(np.zeros((1, 1, 2, 4)))
    values = Tensor(np.eye(4)[None, None])
    keys = Tensor(np.zeros((1, 1, 4, 4)))
    draw = lambda seed: (
        F.scaled_dot_product_attention(q, keys, values, dropout_p=0.5, generator=np.random.default_rng(seed)).array
    )
    draws = np.stack([draw(seed) for seed in range(400)])
    assert set(np.unique(draws)) == {0.0, 0.5}  # a weight of 1/4, doubled or dropped
    np.testing.assert_allclose(draws.mean(0), 0.25, atol=0.06)
    np.testing.assert_array_equal(draw(7), draw(7))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_nll_and_mse(oracle, against, randn, dtype, reduction):
    logp, target = randn(6, 5, dtype), np.array([0, 4, 2, -100, 1, 1])
    ours, theirs = Tensor(logp, requires_grad=True), oracle.tensor(logp, requires_grad=True)
    loss = F.nll_loss(ours, target, reduction=reduction)
    expected = oracle.nn.functional.nll_loss(theirs, oracle.from_numpy(target), reduction=reduction)
    against.close(loss, expected, "nll")
    wanted = randn(6, 5, dtype)
    (loss.sum() + F.mse_loss(ours, Tensor(wanted), reduction).sum()).backward()
    squares = oracle.nn.functional.mse_loss(theirs, oracle.from_numpy(wanted), reduction=reduction)
    against.close(F.mse_loss(ours, Tensor(wanted), reduction), squares, "mse")
    (expected.sum() + squares.sum()).backward()
    against.close(ours.grad, theirs.grad, "gradient")


@pytest.mark.parametrize("widths", [(1, 2), (0, 3, 2, 0), (-1, 1, 0, -2), (1, 1, 1, 1, 2, 0)])
def test_pad(oracle, against, randn, dtype, widths):
    x = randn(2, 3, 4, dtype)
    ours, theirs = Tensor(x, requires_grad=True), oracle.tensor(x, requires_grad=True)
    y, expected = F.pad(ours, widths, value=1.5), oracle.nn.functional.pad(theirs, widths, value=1.5)
    against.close(y, expected)
    g = randn(*y.shape, dtype)
    y.backward(g)
    expected.backward(oracle.from_numpy(g))
    against.close(ours.grad, theirs.grad, "gradient")


def test_one_hot(oracle):
    ids = np.array([[2, 0], [1, 2]])
    for classes in (-1, 5):
        expected = oracle.nn.functional.one_hot(oracle.from_numpy(ids), classes)
        np.testing.assert_array_equal(F.one_hot(ids, classes).array, expected.numpy())
    with pytest.raises(IndexError, match="2 at position"):
        F.one_hot(ids, 2)


def test_clip_grad_value(oracle):
    g = np.linspace(-3, 3, 7).astype(np.float32)
    ours, theirs = nn.Parameter(np.zeros(7, np.float32)), oracle.nn.Parameter(oracle.zeros(7))
    ours.grad, theirs.grad = Tensor(g.copy()), oracle.from_numpy(g.copy())
    nn.utils.clip_grad_value_([ours, nn.Parameter([1.0])], 1.25)
    oracle.nn.utils.clip_grad_value_([theirs], 1.25)
    np.testing.assert_array_equal(ours.grad.array, theirs.grad.numpy())


@pytest.mark.parametrize("shapes, mask, options", [
    (((4, 3, 5), (2, 6, 5), (2, 6, 5)), None, {"enable_gqa": True}),
    (((4, 3, 5), (4, 6, 5), (4, 6, 5)), (4, 3, 6), {}),
    (((4, 3, 5), (4, 6, 5), (4, 6, 5)), (3, 6), {}),
    (((2, 3, 4, 3, 5), (2, 3, 4, 6, 5), (2, 3, 4, 6, 5)), (2, 1, 1, 3, 6), {}),
    (((2, 3, 4, 3, 5), (2, 3, 4, 6, 5), (2, 3, 4, 6, 5)), (3, 4, 1, 6), {}),
    (((2, 3, 4, 3, 5), (2, 3, 2, 6, 5), (2, 3, 2, 6, 5)), (1, 3, 4, 3, 6), {"enable_gqa": True}),
    (((4, 0, 5), (4, 6, 5), (4, 6, 5)), None, {}),
    (((2, 1, 4, 0, 5), (2, 1, 4, 6, 5), (2, 1, 4, 6, 5)), None, {}),
    (((0, 5), (6, 5), (6, 5)), None, {}),
], ids=str)  # fmt: skip
def test_attention_with_any_number_of_axes(oracle, randn, dtype, shapes, mask, options):
    arrays = [randn(*shape, dtype) for shape in shapes]
    added = [] if mask is None else [randn(*mask, dtype)]
    parts = []
    for m, library in ((Tensor, F), (oracle.from_numpy, oracle.nn.functional)):
        leaves = [m(a.copy()).requires_grad_() for a in arrays + added]
        y = library.scaled_dot_product_attention(*leaves[:3], *leaves[3:], **options)
        (y * y).sum().backward()
        parts.append([y.detach().numpy(), *(x.grad.numpy() for x in leaves)])
    for mine, theirs in zip(*parts):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4 if dtype == np.float32 else 1e-10, atol=1e-5)


@pytest.mark.parametrize("mask", [(5, 1, 1, 3, 6), (2, 2, 3, 4, 3, 6), (2, 3, 6)])
def test_a_mask_that_fits_no_scores_is_named(mask):
    q, k = Tensor(np.ones((2, 3, 4, 3, 5))), Tensor(np.ones((2, 3, 4, 6, 5)))
    with pytest.raises(ValueError, match="does not fit scores"):
        F.scaled_dot_product_attention(q, k, k, attn_mask=np.ones(mask, bool))
