"""Faults that users of other frameworks met in layers, losses and models, each as the small input that shows it."""

import math

import numpy as np
import pytest

from tinygrad_tf import Tensor, fused, nn
from tinygrad_tf.generate import evaluating, generate
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.nn import functional as F


def leaf(data, dtype=np.float64):
    return Tensor(np.array(data, dtype), requires_grad=True)


# ------------------------------------------------------------------------------------------------ LY: layers


def test_LY01_layer_norm_divides_by_n():
    y = nn.LayerNorm(4, eps=1e-5).double()(leaf([1, 0, 0, 0]))
    np.testing.assert_allclose(y.array, [1.732005, -0.577335, -0.577335, -0.577335], atol=5e-7)


def test_LY03_the_sum_of_a_layer_norm_has_no_input_gradient_and_an_uneven_sum_has():
    norm, x = nn.LayerNorm(3, eps=1e-5).double(), leaf([1, 2, 4])
    norm(x).sum().backward()
    assert abs(x.grad.array).max() < 1e-6
    x.grad = None
    (norm(x) * Tensor(np.array([1.0, 2.0, 3.0]))).sum().backward()
    np.testing.assert_allclose(x.grad.array, [-0.114545, 0.171809, -0.057265], atol=5e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_LY03_a_layer_norm_of_width_one_is_its_shift(dtype):
    norm, x = nn.LayerNorm(1).to(dtype), leaf([[3.0], [-1e4], [0.0]], dtype)
    norm.bias.data = np.array([0.25], dtype)
    norm.weight.data = np.array([7.0], dtype)
    y = norm(x)
    y.backward(np.array([[1], [2], [3]], dtype))
    assert y.tolist() == [[0.25]] * 3
    assert norm.weight.grad.tolist() == [0]
    assert norm.bias.grad.tolist() == [6]
    assert x.grad.tolist() == [[0]] * 3


def test_LY05_rms_norm():
    norm = nn.RMSNorm(2, eps=1e-6).double()
    np.testing.assert_allclose(norm(leaf([3, 4])).array, [0.848528, 1.131371], atol=5e-7)
    np.testing.assert_allclose(norm(leaf([2, 2])).array, [1, 1], atol=5e-7)
    zero = leaf([0, 0])
    y = norm(zero)
    y.backward(np.array([1.0, 2.0]))
    assert y.tolist() == [0, 0]
    np.testing.assert_allclose(zero.grad.array, [1000, 2000], rtol=1e-12)


def test_LY07_dropout_scales_what_it_keeps_and_rests_in_evaluation():
    layer, ones = nn.Dropout(0.25, np.random.default_rng(0)), Tensor(np.ones(10_000, np.float32))
    y = layer(ones).array
    np.testing.assert_allclose(np.unique(y), [0, 4 / 3], rtol=1e-6)
    assert y.mean() == pytest.approx(1, abs=0.02)
    assert layer.eval()(ones) is ones
    assert nn.Dropout(0.0)(ones).equal(ones)
    everything = nn.Dropout(1.0)
    x = leaf([1, 2])
    everything(x).sum().backward()
    assert everything(x).tolist() == [0, 0]
    assert x.grad.tolist() == [0, 0]
    for p in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="probability"):
            nn.Dropout(p)


def test_LY07_the_gradient_goes_where_the_value_went():
    x = leaf(np.ones(1000))
    y = nn.Dropout(0.5, np.random.default_rng(0))(x)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.array, y.array)


def test_LY07_a_dropout_of_its_own_does_not_touch_the_other_streams():
    layer = nn.Dropout(0.5, np.random.default_rng(3))
    first = layer(Tensor(np.ones(50, np.float32))).array
    layer.generator = np.random.default_rng(3)
    np.random.default_rng(9).random(100)
    nn.Dropout(0.5)(Tensor(np.ones(7, np.float32)))
    np.testing.assert_array_equal(layer(Tensor(np.ones(50, np.float32))).array, first)


def interrupt(model, seen):
    with evaluating(model):
        seen.extend(m.training for m in model.modules())
        raise RuntimeError("inside")


def test_LY07_evaluating_and_generating_restore_every_mode():
    model = Decoder(DecoderConfig(5, 4, 1, 1, n_embd=4, dropout=0.5))
    model.blocks[0].ffn.eval()
    modes = [m.training for m in model.modules()]
    list(generate(model, np.array([1]), 3, temperature=0))
    assert [m.training for m in model.modules()] == modes
    seen = []
    with pytest.raises(RuntimeError, match="inside"):
        interrupt(model, seen)
    assert seen == [False] * len(modes)
    assert [m.training for m in model.modules()] == modes
    nn.init.constant_(model.lm_head.weight, np.nan)
    with pytest.raises(ValueError, match="not finite"):
        list(generate(model, np.array([1]), 3, temperature=0))
    assert [m.training for m in model.modules()] == modes


# ------------------------------------------------------------------------------------------------ SM: softmax, loss, masks


@pytest.mark.parametrize("path", ["fused", "dropout", "layer"])
def test_SM02_a_query_that_may_look_nowhere_gives_zeros(path):
    q, k = leaf(np.zeros((1, 1, 2, 2))), leaf(np.zeros((1, 1, 2, 2)))
    v = leaf(np.eye(2)[None, None])
    mask = np.array([[False, False], [True, True]])
    with np.errstate(all="raise"):
        if path == "layer":
            attn = nn.MultiHeadAttention(2, 1, bias=False).double()
            x = leaf(np.random.default_rng(0).standard_normal((1, 2, 2)))
            y = attn(x, mask=mask)
            y.sum().backward()
            assert not y.array[0, 0].any()
            assert np.isfinite(x.grad.array).all()
            return
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=1e-12 if path == "dropout" else 0.0)
        y.backward(np.ones((1, 1, 2, 2)))
    np.testing.assert_allclose(y.array[0, 0], [[0, 0], [0.5, 0.5]], rtol=1e-9)
    assert all(np.isfinite(x.grad.array).all() for x in (q, k, v))
    assert not q.grad.array[0, 0, 0].any()


def test_SM02_minus_infinity_added_to_every_score_is_the_same():
    q = leaf(np.random.default_rng(0).standard_normal((1, 2, 3, 4)))
    bias = np.zeros((3, 3))
    bias[1] = -np.inf
    with np.errstate(all="raise"):
        y = F.scaled_dot_product_attention(q, q, q, attn_mask=bias)
        y.sum().backward()
    assert not y.array[:, :, 1].any()
    assert np.isfinite(q.grad.array).all()


def test_SM04_only_the_valid_slots_are_read():
    values = np.array([5, np.nan]).reshape(1, 1, 2, 1)
    one = np.ones((1, 1, 1, 1))
    y = fused.attention(leaf(one), leaf(np.ones((1, 1, 2, 1))), leaf(values), causal=0)
    assert y.item() == 5
    cache = nn.LayerCache(1, 1, 4, 1)
    assert not cache.keys.any()
    assert not cache.values.any()


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_SM06_targets_that_are_ignored(reduction):
    logits = leaf([[1, 2, 3], [1, 2, 3]])
    loss = F.cross_entropy(logits, np.array([2, -1]), ignore_index=-1, reduction=reduction)
    assert loss.item() == pytest.approx(0.407606, abs=5e-7)
    loss.backward()
    np.testing.assert_allclose(logits.grad.array, [[0.090031, 0.244728, -0.334759], [0, 0, 0]], atol=5e-7)

    logits.grad = None
    with np.errstate(all="raise"):
        loss = F.cross_entropy(logits, np.array([-1, -1]), ignore_index=-1, reduction=reduction)
        loss.backward()
    assert loss.item() == 0
    assert not logits.grad.array.any()


def test_SM06_a_target_that_is_no_class_is_refused_even_if_another_is_ignored():
    with pytest.raises(IndexError, match=r"3 at position .*table of 3"):
        F.cross_entropy(leaf([[1, 2, 3], [1, 2, 3]]), np.array([-1, 3]), ignore_index=-1)
    with pytest.raises(TypeError, match="integers"):
        F.cross_entropy(leaf([[1, 2, 3]]), np.array([1.0]))


@pytest.mark.parametrize("function", ["softmax", "log_softmax"])
@pytest.mark.parametrize("negative, axis", [(-1, 2), (-2, 1), (-3, 0)])
def test_SM08_negative_axes(function, negative, axis):
    data, g = np.random.default_rng(0).standard_normal((2, 2, 2, 4))
    found = []
    for dim in (negative, axis):
        x = leaf(data)
        y = getattr(F, function)(x, dim)
        y.backward(g)
        found.append((y.array, x.grad.array))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])
    x = leaf(data)
    F.softmax(x, negative).sum().backward()
    np.testing.assert_allclose(x.grad.array, 0, atol=1e-15)


# ------------------------------------------------------------------------------------------------ what a model refuses


@pytest.mark.parametrize("tied", [True, False])
def test_IX04_a_token_that_is_not_in_the_vocabulary(tied):
    model = Decoder(DecoderConfig(5, 4, 1, 1, n_embd=4, tied=tied))
    for bad, place in (([[0, 5]], r"5 at position \(0, 1\)"), ([[0], [-1]], r"-1 at position \(1, 0\)")):
        with pytest.raises(IndexError, match=rf"{place}.*5 rows"):
            model(np.array(bad))
    with pytest.raises(TypeError, match=r"integers.*float"):
        model(np.array([[0.0, 1.0]]))
    with pytest.raises(TypeError, match=r"integers.*bool"):
        model(np.array([[True]]))
    with pytest.raises(IndexError, match=r"7 at position"):
        model.loss(np.array([[0, 1]]), np.array([[1, 7]]))


def test_IX04_ids_must_have_the_shape_batch_by_time_and_targets_the_same():
    model = Decoder(DecoderConfig(5, 4, 1, 1, n_embd=4))
    with pytest.raises(ValueError, match=r"\(B, T\).*\(3,\)"):
        model(np.array([0, 1, 2]))
    for targets in (np.zeros((3, 2), int), np.zeros(6, int), np.zeros((2, 2), int)):
        with pytest.raises(ValueError, match=r"targets of shape.*\(2, 3\)"):
            model.loss(np.zeros((2, 3), int), targets)


def test_a_text_of_no_tokens_has_no_logits():
    for positions in ("learned", "rotary"):
        model = Decoder(DecoderConfig(5, 4, 2, 2, n_embd=4, positions=positions))
        assert model(np.zeros((2, 0), int)).shape == (2, 0, 5)


def test_GN11_a_head_width_that_cannot_be_turned_or_divided():
    options = {"vocab_size": 5, "n_head": 3, "n_embd": 9}
    with pytest.raises(ValueError, match=r"9.*3.*3"):
        DecoderConfig(**options, positions="rotary")
    model = Decoder(DecoderConfig(**options, block_size=4, n_layer=1))
    assert model(np.array([[1, 2]])).shape == (1, 2, 5)
    with pytest.raises(ValueError, match=r"n_embd=10.*n_head=3"):
        DecoderConfig(vocab_size=5, n_head=3, n_embd=10)


@pytest.mark.parametrize("field, value", [
    ("vocab_size", 0), ("vocab_size", 5.5), ("vocab_size", "5"), ("vocab_size", None), ("block_size", 0), ("n_layer", -1),
    ("n_head", 0), ("n_head", True), ("n_embd", 128.0), ("n_kv_head", 3), ("n_kv_head", 0), ("n_hidden", 0), ("n_hidden", 2.5),
    ("norm", "batch"), ("norm_order", "after"), ("ffn", "swish"), ("positions", "absolute"), ("dropout", 1.0),
    ("dropout", -0.1), ("dropout", math.nan), ("rope_base", 0.0), ("rope_base", math.inf), ("init_std", -1.0),
    ("init_std", math.nan), ("layer_scale", math.nan),
])  # fmt: skip
def test_a_configuration_names_the_field_that_cannot_be(field, value):
    with pytest.raises(ValueError, match=field):
        DecoderConfig(**{"vocab_size": 5, field: value})


def test_a_configuration_does_not_change():
    config = DecoderConfig(5)
    with pytest.raises(AttributeError):
        config.vocab_size = 6
    assert config == DecoderConfig(vocab_size=5)
    assert (config.head_dim, config.hidden) == (32, 512)
    assert DecoderConfig(5, ffn="swiglu").hidden == 344  # 8/3 of 128, up to a multiple of 8
    assert DecoderConfig(5, ffn="swiglu", n_hidden=100).hidden == 100


# ------------------------------------------------------------------------------------------------ starting values


def test_starting_values():
    model = Decoder(DecoderConfig(50, 8, n_layer=8, n_head=2, n_embd=64, bias=True, tied=False), np.random.default_rng(0))
    for name, p in model.named_parameters():
        if p.ndim == 1:
            assert (p.array == ("norm" in name and name.endswith("weight"))).all(), name
        else:
            narrow = name.endswith(("out_proj.weight", "down.weight"))
            np.testing.assert_allclose(p.array.std(), 0.02 / (16**0.5 if narrow else 1), rtol=0.15, err_msg=name)
    same = Decoder(model.config, np.random.default_rng(0))
    other = Decoder(model.config, np.random.default_rng(1))
    assert all(p.equal(q) for p, q in zip(model.parameters(), same.parameters()))
    assert not all(p.equal(q) for p, q in zip(model.parameters(), other.parameters()))


def test_zero_init_and_init_by_width():
    model = Decoder(DecoderConfig(50, 8, 2, 2, n_embd=64, zero_init=True, init_std=None), np.random.default_rng(0))
    for name, p in model.named_parameters():
        if name.endswith(("out_proj.weight", "down.weight")):
            assert not p.array.any(), name
        elif p.ndim == 2:
            np.testing.assert_allclose(p.array.std(), p.shape[1] ** -0.5, rtol=0.1, err_msg=name)
