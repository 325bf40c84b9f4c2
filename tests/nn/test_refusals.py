"""What layers and models keep apart, what they refuse, and the values they start with."""

import math

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn, stack
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.nn import functional as F


def leaf(data, dtype=np.float64):
    return Tensor(np.array(data, dtype), requires_grad=True)


def test_LY07_a_dropout_of_its_own_does_not_touch_the_other_streams():
    layer = nn.Dropout(0.5, generator=np.random.default_rng(3))
    first = layer(Tensor(np.ones(50, np.float32))).array
    layer.generator = np.random.default_rng(3)
    np.random.default_rng(9).random(100)
    nn.Dropout(0.5)(Tensor(np.ones(7, np.float32)))
    np.testing.assert_array_equal(layer(Tensor(np.ones(50, np.float32))).array, first)


def test_SM02_minus_infinity_added_to_every_score_is_the_same():
    q = leaf(np.random.default_rng(0).standard_normal((1, 2, 3, 4)))
    bias = np.zeros((3, 3))
    bias[1] = -np.inf
    with np.errstate(all="raise"):
        y = F.scaled_dot_product_attention(q, q, q, attn_mask=bias)
        y.sum().backward()
    assert not y.array[:, :, 1].any()
    assert np.isfinite(q.grad.array).all()


# ------------------------------------------------------------------------------------------------ what a model refuses


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


# ------------------------------------------------------------------------------------------------ what a message names


@pytest.mark.parametrize("name", ["Conv2d", "MaxPool2d", "AvgPool2d", "AdaptiveAvgPool2d", "BatchNorm2d", "LSTM", "GRU",
                                  "LSTMCell", "GRUCell", "MarginRankingLoss", "L1Loss"])  # fmt: skip
def test_wrong_arguments_are_those_of_the_class_that_was_called(name):
    with pytest.raises(TypeError, match=rf"^{name}\.__init__\(\) got an unexpected keyword argument 'colour'"):
        getattr(nn, name)(colour=1)


@pytest.mark.parametrize("name, shapes", [
    ("max_pool1d", [(4,), (2, 2, 3, 4)]), ("avg_pool1d", [(4,), (2, 2, 3, 4)]), ("adaptive_avg_pool1d", [(), (2, 2, 3, 4)]),
    ("max_pool2d", [(4,), (3, 4), (1, 2, 2, 3, 4)]), ("avg_pool2d", [(3, 4), (1, 2, 2, 3, 4)]),
    ("adaptive_avg_pool2d", [(3, 4)]),
])  # fmt: skip
def test_pools_take_channels_and_at_most_one_axis_before_them(name, shapes):
    pool, axes = getattr(F, name), int(name[-2])
    for shape in shapes:
        with pytest.raises(ValueError, match=rf"^{name} takes inputs of shape \(B, C, "):
            pool(Tensor(np.zeros(shape, np.float32)), 2)
    for shape in [(2, 3, 4, 4), (3, 4, 4)] if axes == 2 else [(2, 3, 4), (3, 4)]:
        assert pool(Tensor(np.zeros(shape, np.float32)), 2).shape == (*shape[:-axes], *(2,) * axes)
        for dtype in (np.int64, bool):
            if (name, dtype) != ("max_pool2d", np.int64):
                with pytest.raises(TypeError, match=rf"^{name} takes a tensor of floats, not of dtype {np.dtype(dtype)}"):
                    pool(Tensor(np.zeros(shape, dtype)), 2)


def test_a_convolution_names_itself():
    for name, shape in {"Conv1d": (1, 2, 5), "Conv2d": (1, 2, 5, 5)}.items():
        with pytest.raises(TypeError, match=f"^{name.lower()}: an input of dtype int64 and weights of dtype float32"):
            getattr(nn, name)(2, 3, 2)(Tensor(np.zeros(shape, np.int64)))


def test_stack_names_itself_and_the_shapes():
    with pytest.raises(ValueError, match=r"^stack: tensors of one shape, not \(2,\) and \(3,\): cat\(\) joins"):
        stack([Tensor([1.0, 2.0]), Tensor([1.0, 2.0, 3.0]), Tensor([0.0, 1.0])])


@pytest.mark.parametrize("target, words", [([0, 5], r"5 at position \(1,\)"), ([-1, 0], r"-1 at position \(0,\)")])
def test_a_target_that_is_no_class_is_named_with_the_classes(target, words):
    for loss in (F.cross_entropy, F.nll_loss):
        with pytest.raises(IndexError, match="target " + words + r" is none of 5 classes \(0 to 4\) and not ignore_index, -1"):
            loss(Tensor(np.zeros((2, 5), np.float32)), target)
        loss(Tensor(np.zeros((2, 5), np.float32)), [-100, 0])


def test_the_state_of_a_recurrent_layer_is_named():
    x, h = Tensor(np.zeros((3, 2, 4), np.float32)), Tensor(np.zeros((1, 2, 5), np.float32))
    for layer, step in ((nn.LSTM(4, 5), x), (nn.LSTMCell(4, 5), x[0])):
        name = type(layer).__name__
        with pytest.raises(TypeError, match=rf"^{name} takes as its state a tuple \(h, c\) of shape .* each, not a Tensor"):
            layer(step, h)
        with pytest.raises(ValueError, match=rf"^{name} takes as its state h and c of shape .*, not of \(1, 2, 5\), \(1,\)"):
            layer(step, (h, Tensor([0.0])))
    for layer, step in ((nn.GRU(4, 5), x), (nn.RNNCell(4, 5), x[0])):
        with pytest.raises(TypeError, match=rf"^{type(layer).__name__} takes as its state a tensor h of shape .*, not a tuple"):
            layer(step, (h, h))
    with pytest.raises(ValueError, match=r"^LSTM takes inputs of shape \(B, T, 4\)"):
        nn.LSTM(4, 5, batch_first=True)(Tensor(np.zeros((2, 3, 5), np.float32)))


def test_the_lengths_of_texts_are_named():
    from tinygrad_tf.nn.packed import pack_padded_sequence

    x = Tensor(np.zeros((2, 4, 3), np.float32))
    with pytest.raises(RuntimeError, match=r"^pack_padded_sequence: an input \(B, T, ...\) of shape \(2, 4, 3\) .* \[5, 1\]"):
        pack_padded_sequence(x, [5, 1], batch_first=True)
    with pytest.raises(RuntimeError, match=r"^pack_padded_sequence: lengths \[1, 4\] do not fall: enforce_sorted=False"):
        pack_padded_sequence(x, [1, 4], batch_first=True)
    with pytest.raises(RuntimeError, match=r"^pack_padded_sequence: an input \(T, B, ...\) of shape \(4,\)"):
        pack_padded_sequence(x[0, :, 0], [4])
