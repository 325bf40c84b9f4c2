"""LY: layers."""

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn
from tinygrad_tf.generate import evaluating, generate
from tinygrad_tf.models import Decoder, DecoderConfig


def leaf(data, dtype=np.float64):
    return Tensor(np.array(data, dtype), requires_grad=True)


def test_LY_01_layer_norm_divides_by_n():
    y = nn.LayerNorm(4, eps=1e-5).double()(leaf([1, 0, 0, 0]))
    np.testing.assert_allclose(y.array, [1.732005, -0.577335, -0.577335, -0.577335], atol=5e-7)


def test_LY_03_the_sum_of_a_layer_norm_has_no_input_gradient_and_an_uneven_sum_has():
    norm, x = nn.LayerNorm(3, eps=1e-5).double(), leaf([1, 2, 4])
    norm(x).sum().backward()
    assert abs(x.grad.array).max() < 1e-6
    x.grad = None
    (norm(x) * Tensor(np.array([1.0, 2.0, 3.0]))).sum().backward()
    np.testing.assert_allclose(x.grad.array, [-0.114545, 0.171809, -0.057265], atol=5e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_LY_03_a_layer_norm_of_width_one_is_its_shift(dtype):
    norm, x = nn.LayerNorm(1).to(dtype), leaf([[3.0], [-1e4], [0.0]], dtype)
    norm.bias.data = np.array([0.25], dtype)
    norm.weight.data = np.array([7.0], dtype)
    y = norm(x)
    y.backward(np.array([[1], [2], [3]], dtype))
    assert y.tolist() == [[0.25]] * 3
    assert norm.weight.grad.tolist() == [0]
    assert norm.bias.grad.tolist() == [6]
    assert x.grad.tolist() == [[0]] * 3


def test_LY_05_rms_norm_has_no_centring_and_eps_inside_the_root():
    norm = nn.RMSNorm(2, eps=1e-6).double()
    np.testing.assert_allclose(norm(leaf([3, 4])).array, [0.848528, 1.131371], atol=5e-7)
    np.testing.assert_allclose(norm(leaf([2, 2])).array, [1, 1], atol=5e-7)
    zero = leaf([0, 0])
    y = norm(zero)
    y.backward(np.array([1.0, 2.0]))
    assert y.tolist() == [0, 0]
    np.testing.assert_allclose(zero.grad.array, [1000, 2000], rtol=1e-12)


def test_LY_07_dropout_scales_what_it_keeps_and_rests_in_evaluation():
    layer, ones = nn.Dropout(0.25, generator=np.random.default_rng(0)), Tensor(np.ones(10_000, np.float32))
    y = layer(ones).array
    np.testing.assert_allclose(np.unique(y), [0, 4 / 3], rtol=1e-6)
    assert y.mean() == pytest.approx(1, abs=0.02)
    assert layer.eval()(ones) is ones
    assert nn.Dropout(0.0)(ones) is ones
    everything, x = nn.Dropout(1.0), leaf([1, 2])
    everything(x).sum().backward()
    assert everything(x).tolist() == [0, 0]
    assert x.grad.tolist() == [0, 0]
    for p in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="probability"):
            nn.Dropout(p)


def test_LY_07_the_gradient_goes_where_the_value_went():
    x = leaf(np.ones(1000))
    y = nn.Dropout(0.5, generator=np.random.default_rng(0))(x)
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.array, y.array)


def interrupt(model, seen):
    with evaluating(model):
        seen.extend(m.training for m in model.modules())
        raise RuntimeError("inside")


def test_LY_07_evaluating_and_generating_restore_every_mode():
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
