"""SM: softmax, cross-entropy, masks, attention."""

import warnings
from contextlib import nullcontext

import numpy as np
import pytest

from tinygrad_tf import Tensor, cat, composed, fused, nn, no_grad, optim, stack
from tinygrad_tf.generate import generate
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.nn import functional as F


def leaf(data, dtype=np.float64):
    return Tensor(np.array(data, dtype), requires_grad=True)


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.parametrize("inside", [False, True], ids=["fused", "composed"])
@pytest.mark.parametrize("path", ["mask", "bias", "dropout", "layer"])
def test_SM_02_a_query_that_may_look_nowhere_gives_zeros_and_sends_none_back(path, inside):
    mask = np.array([[False, False], [True, True]])
    q, k, v = leaf(np.zeros((1, 1, 2, 2))), leaf(np.zeros((1, 1, 2, 2))), leaf(np.eye(2)[None, None])
    with composed() if inside else nullcontext():
        if path == "layer":
            x = leaf(np.random.default_rng(0).standard_normal((1, 2, 2)))
            y = nn.MultiHeadAttention(2, 1, bias=False).double()(x, mask=mask)
            y.sum().backward()
            assert not y.array[0, 0].any()
            assert np.isfinite(x.grad.array).all()
            return
        how = {"attn_mask": np.where(mask, 0.0, -np.inf) if path == "bias" else mask,
               "dropout_p": 1e-12 if path == "dropout" else 0.0}  # fmt: skip
        y = F.scaled_dot_product_attention(q, k, v, **how)
        (y * Tensor(np.array([[1.0, 2.0], [3.0, 4.0]]))).sum().backward()
    np.testing.assert_allclose(y.array[0, 0], [[0, 0], [0.5, 0.5]], rtol=1e-9)
    assert all(np.isfinite(x.grad.array).all() for x in (q, k, v))
    assert not q.grad.array[0, 0, 0].any()
    assert "A query that may look nowhere gives zeros" in F.scaled_dot_product_attention.__doc__


def test_SM_02_softmax_of_a_row_that_is_all_minus_infinity():
    for inside in (False, True):
        x = leaf([[-np.inf, -np.inf], [0.0, 0.0]])
        with composed() if inside else nullcontext():
            y = x.softmax(-1)
            y.backward(np.array([[1.0, 2.0], [1.0, 2.0]]))
        assert y.tolist() == [[0, 0], [0.5, 0.5]]
        assert x.grad.tolist() == [[0, 0], [-0.25, 0.25]]
    assert "a row that is all -inf gives zeros" in fused.softmax.__doc__


def test_SM_04_only_the_valid_slots_are_read():
    one = np.ones((1, 1, 1, 1))
    values = np.array([5, np.nan]).reshape(1, 1, 2, 1)
    assert fused.attention(leaf(one), leaf(np.ones((1, 1, 2, 1))), leaf(values), causal=0).item() == 5
    fresh = nn.LayerCache(1, 1, 4, 1)
    assert not fresh.keys.any()
    assert not fresh.values.any()


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_SM_04_a_poisoned_cache_changes_nothing(positions):
    model = Decoder(DecoderConfig(7, 8, 2, 2, n_embd=8, positions=positions, init_std=0.5), np.random.default_rng(0))
    clean, new_cache = list(generate(model, np.array([1, 2]), 5, temperature=0)), model.new_cache

    def poisoned(batch=1):
        cache = new_cache(batch)
        for layer in cache.layers:
            layer.keys[...] = layer.values[...] = np.nan
        return cache

    model.new_cache = poisoned
    assert list(generate(model, np.array([1, 2]), 5, temperature=0)) == clean


@pytest.mark.parametrize("inside", [False, True], ids=["fused", "composed"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_SM_06_the_mean_is_over_the_targets_that_are_kept_and_over_none_it_is_zero(reduction, inside):
    with composed() if inside else nullcontext():
        logits = leaf([[1, 2, 3], [1, 2, 3]])
        loss = F.cross_entropy(logits, np.array([2, -1]), ignore_index=-1, reduction=reduction)
        loss.sum().backward()
        assert loss.sum().item() == pytest.approx(0.407606, abs=5e-7)
        np.testing.assert_allclose(logits.grad.array, [[0.090031, 0.244728, -0.334759], [0, 0, 0]], atol=5e-7)
        for smoothing in (0.0, 0.1):
            logits.grad = None
            loss = F.cross_entropy(logits, np.array([-1, -1]), None, -1, reduction, smoothing)
            loss.sum().backward()
            assert not loss.array.any()
            assert not logits.grad.array.any()
    assert "with none left the loss is 0" in F.cross_entropy.__doc__


@pytest.mark.parametrize("negative, axis", [(-1, 2), (-2, 1), (-3, 0)])
def test_SM_08_an_axis_counted_from_the_end_is_the_same_axis(negative, axis):
    data, g = np.random.default_rng(0).standard_normal((2, 2, 2, 4))
    functions = {
        "softmax": lambda x, dim: x.softmax(dim), "log_softmax": lambda x, dim: x.log_softmax(dim),
        "logsumexp": lambda x, dim: x.logsumexp(dim), "sum": lambda x, dim: x.sum(dim), "mean": lambda x, dim: x.mean(dim),
        "var": lambda x, dim: x.var(dim), "amax": lambda x, dim: x.amax(dim), "max": lambda x, dim: x.max(dim).values,
        "prod": lambda x, dim: x.prod(dim), "cumsum": lambda x, dim: x.cumsum(dim), "flip": lambda x, dim: x.flip(dim),
        "cat": lambda x, dim: cat([x, x], dim), "stack": lambda x, dim: stack([x, x], dim if dim >= 0 else dim - 1),
        "split": lambda x, dim: x.split(1, dim)[-1], "narrow": lambda x, dim: x.narrow(dim, 0, 1),
        "unsqueeze": lambda x, dim: x.unsqueeze(dim if dim >= 0 else dim - 1), "roll": lambda x, dim: x.roll(1, dim),
        "softmax sum": lambda x, dim: x.softmax(dim).sum(),
    }  # fmt: skip
    for name, function in functions.items():
        found = []
        for dim in (negative, axis):
            x = leaf(data)
            y = function(x, dim)
            y.backward(np.resize(g, y.shape))
            found.append((y.array, x.grad.array))
        np.testing.assert_array_equal(found[0][0], found[1][0], err_msg=name)
        np.testing.assert_array_equal(found[0][1], found[1][1], err_msg=name)
    assert np.abs(found[0][1]).max() < 1e-15  # the plain sum of a softmax is 1 whatever x is


def test_SM_10_changing_a_token_changes_no_logit_before_it():
    for positions in ("learned", "rotary", "none"):
        config = DecoderConfig(7, 4, 2, 2, n_embd=8, positions=positions, dropout=0.3, init_std=0.5)
        model = Decoder(config, np.random.default_rng(0))

        def dropped(ids, model=model):
            for module in model.modules():
                if isinstance(module, nn.Dropout):
                    module.generator = np.random.default_rng(5)
            return model.train()(ids).array

        def plain(ids, model=model):
            return model.eval()(ids).array

        def cached(ids, model=model):
            cache = model.eval().new_cache()
            with no_grad():
                return np.concatenate([model(ids[:, t : t + 1], cache=cache).array for t in range(4)], axis=1)

        def twins(ids, model=model):
            with composed():
                return model.eval()(ids).array

        for path in (plain, dropped, cached, twins):
            before, after = path(np.array([[1, 2, 3, 4]])), path(np.array([[1, 2, 3, 5]]))
            assert after[:, :3].tobytes() == before[:, :3].tobytes()
            assert (after[:, 3] != before[:, 3]).any()


def test_SM_10_the_first_position_sees_itself_alone():
    q = leaf(np.random.default_rng(0).standard_normal((1, 1, 4, 4)))
    for p in (0.0, 1e-9):
        weights = F.scaled_dot_product_attention(q, q, Tensor(np.eye(4)[None, None]), is_causal=True, dropout_p=p)
        np.testing.assert_allclose(weights.array[0, 0, 0], [1, 0, 0, 0], rtol=2 * p)
        assert (np.triu(weights.array[0, 0], 1) == 0).all()


def test_SM_10_with_random_targets_the_loss_stays_near_ln_v():
    """A context of one token and fresh random pairs: nothing can be learned, so a loss below ln 65 = 4.174 would be a leak."""
    model = Decoder(DecoderConfig(65, 1, n_layer=1, n_head=2, n_embd=16), np.random.default_rng(0))
    optimizer, generator, losses = optim.AdamW(model.parameters(), lr=3e-3), np.random.default_rng(1), []
    for _ in range(150):
        ids, targets = generator.integers(0, 65, (2, 64, 1))
        optimizer.zero_grad()
        loss = model.loss(ids, targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert np.mean(losses[-50:]) > 4.15
    assert np.mean(losses) == pytest.approx(np.log(65), abs=0.1)
