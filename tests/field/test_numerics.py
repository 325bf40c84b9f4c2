"""Numbers at the edge: very large, not finite, denormal, without variance, one alone; long sums; the dtype of everything.

float32 is compared with the same op in float64. What overflows float32 on the way is told by NumPy's RuntimeWarning.
"""

import warnings
from contextlib import nullcontext

import numpy as np
import pytest

from tinygrad_tf import Tensor, composed, fused, optim, tensor
from tinygrad_tf.engine import state, tap
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.nn import functional as F

OPS = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "logsumexp": lambda x: x.logsumexp(-1, keepdim=True),
    "cross_entropy": lambda x: F.cross_entropy(x, np.array([0])),
    "smoothed cross_entropy": lambda x: F.cross_entropy(x, np.array([0]), label_smoothing=0.1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1], eps=1e-6),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.reshape(1, 1, -1, 1)] * 3),
    "causal attention": lambda x: F.scaled_dot_product_attention(*[x.reshape(1, 1, -1, 1)] * 3, is_causal=True),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, "tanh"),
    "silu": F.silu,
    "sigmoid": F.sigmoid,
    "tanh": F.tanh,
}
each_op = pytest.mark.parametrize("name", OPS)
fused_or_not = pytest.mark.parametrize("inside", [False, True], ids=["fused", "composed"])


def run(name, row, dtype=np.float32, inside=False, seed=None):
    """The value and the gradient for a row of numbers."""
    x = tensor(np.array([row], dtype), requires_grad=True)
    with composed() if inside else nullcontext():
        y = OPS[name](x)
        y.backward(np.ones(y.shape, dtype) if seed is None else np.resize(np.array(seed, dtype), y.shape))
    assert y.dtype == x.grad.dtype == dtype
    return y.array.reshape(-1), x.grad.array.reshape(-1)


def assert_as_in_float64(name, row, inside=False, atol=1e-6):
    row = np.array(row, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = run(name, row, inside=inside, seed=[1.0, -2.0, 0.5])
        wanted = run(name, row.astype(np.float64), np.float64, inside, seed=[1.0, -2.0, 0.5])
    for mine, true in zip(found, wanted):
        np.testing.assert_allclose(mine, true, rtol=1e-5, atol=atol * max(1, abs(true).max(initial=0)))


@fused_or_not
@pytest.mark.parametrize("row", [[1e4, -1e4, 0], [1e4, 1e4 + 1, 1e4 - 2], [-1e4, -1e4 + 1, 0.5]], ids=repr)
@each_op
def test_at_ten_thousand(name, row, inside):
    if "attention" in name:
        row = [row[0] / 100, row[1] / 100, row[2]]  # scores are its products
    # A score of 1e4 is known to 1e-3; composed, a norm removes a mean that is known as well.
    assert_as_in_float64(name, row, inside, atol=5e-3 if "attention" in name or (name == "layer_norm" and inside) else 1e-6)


@pytest.mark.parametrize("row", [[1e30, -1e30, 1], [-1e30, 0, 1], [1e36, 1, -3e35]], ids=repr)
@pytest.mark.parametrize("name", [name for name in OPS if "norm" not in name and "attention" not in name])
def test_at_the_largest_numbers(name, row):
    if name in ("cross_entropy", "smoothed cross_entropy") and row[0] < 0:
        row = row[::-1]
    assert_as_in_float64(name, row)


@pytest.mark.parametrize("name", ["layer_norm", "rms_norm", "attention"])
def test_a_square_that_overflows_is_told(name):
    with pytest.warns(RuntimeWarning, match="overflow"):
        run(name, [1e30, -1e30, 1])


@fused_or_not
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@each_op
def test_what_is_not_finite_is_never_hidden(name, bad, inside):
    """NaN makes everything NaN that depends on it; infinity is a limit where there is one and NaN where there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value, gradient = run(name, [bad, 0.0, 1.0], inside=inside)
        if name in ("gelu", "gelu_tanh", "silu", "sigmoid", "tanh"):
            assert np.isnan(value[0]) if np.isnan(bad) else value[0] == {"sigmoid": 1, "tanh": 1}.get(name, np.inf)
            assert np.isfinite(value[1:]).all()
            assert np.isfinite(gradient[1:]).all()
        elif name == "logsumexp":
            assert np.isnan(value[0]) or (bad == np.inf and value[0] == np.inf)
        elif name == "rms_norm" and bad == np.inf:
            assert np.isnan(value[0])
        else:
            assert np.isnan(value).any()
            assert np.isnan(gradient).any()


@fused_or_not
def test_minus_infinity_is_a_probability_of_zero(inside):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value, gradient = run("softmax", [-np.inf, 0.0, 0.0], inside=inside, seed=[1, 2, 4])
        assert value.tolist() == [0, 0.5, 0.5]
        assert gradient.tolist() == [0, -0.5, 0.5]
        value, gradient = run("log_softmax", [-np.inf, 0.0, 0.0], inside=inside, seed=[0, 1, 0])
        np.testing.assert_allclose(value, [-np.inf, -np.log(2), -np.log(2)], rtol=1e-6)
        np.testing.assert_allclose(gradient, [0, 0.5, -0.5], rtol=1e-6)
        value, gradient = run("cross_entropy", [-np.inf, 0.0, 0.0], inside=inside)
        assert value[0] == np.inf
        np.testing.assert_allclose(gradient, [-1, 0.5, 0.5], rtol=1e-6)


TINY = float(np.finfo(np.float32).smallest_subnormal)


@fused_or_not
@each_op
def test_denormal_numbers(name, inside):
    assert_as_in_float64(name, [TINY, -TINY, 1e-40], inside, atol=1e-6)


@pytest.mark.parametrize("d", [1, 3, 7, 64, 100, 768])
@pytest.mark.parametrize("size", [0.1, 1.0, 12.3, 1e3, 1e4, 1e6])
def test_a_row_without_variance_is_the_shift(size, d):
    x = tensor(np.full((4, d), size, np.float32), requires_grad=True)
    gain, shift = tensor(np.full(d, 2.0), dtype=np.float32), tensor(np.arange(d), dtype=np.float32)
    y = F.layer_norm(x, d, gain, shift)
    y.sum().backward()
    np.testing.assert_allclose(y.array, np.broadcast_to(shift.array, y.shape), atol=1e-9 * size * d, rtol=1e-6)
    assert np.isfinite(x.grad.array).all()
    np.testing.assert_allclose(F.rms_norm(x, d).array, 1, rtol=1e-5)


def test_a_norm_keeps_the_digits_of_a_row_far_from_zero():
    """Removing the mean once leaves its rounding behind, which is 0.06 at a million."""
    x = np.float32(1e6) + np.random.default_rng(0).standard_normal((20, 100)).astype(np.float32)
    exact = x.astype(np.float64)
    exact = (exact - exact.mean(1, keepdims=True)) / np.sqrt(exact.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(F.layer_norm(tensor(x), 100).array, exact, atol=2e-6)


@fused_or_not
@each_op
def test_one_element(name, inside):
    wanted = {
        "softmax": 1, "log_softmax": 0, "logsumexp": 3, "cross_entropy": 0, "smoothed cross_entropy": 0, "layer_norm": 0,
        "rms_norm": 1, "attention": 3, "causal attention": 3,
    }  # fmt: skip
    assert_as_in_float64(name, [3.0], inside)
    if name in wanted:
        value, gradient = run(name, [3.0], inside=inside)
        np.testing.assert_allclose(value, wanted[name], atol=1e-6)
        slope = 1 if name == "logsumexp" or "attention" in name else 0
        np.testing.assert_allclose(gradient, slope, atol=1e-6)


def test_sums_of_ten_million_numbers():
    """A sum that takes one number after the other would be off by some percent: 0.1 is lost against a million."""
    x = Tensor(np.full(10_000_000, 0.1, np.float32))
    tenth = float(np.float32(0.1))
    assert x.sum().item() == pytest.approx(1e7 * tenth, rel=1e-6)
    assert x.mean().item() == pytest.approx(tenth, rel=1e-6)
    assert x.cumsum(0)[-1].item() == pytest.approx(1e7 * tenth, rel=1e-6)
    rows = x.reshape(-1, 2)
    np.testing.assert_allclose(rows.sum(0).array, 5e6 * tenth, rtol=1e-6)
    np.testing.assert_allclose(rows.mean((0, 1)).array, tenth, rtol=1e-6)

    bias = tensor([0.0, 0.0], requires_grad=True)
    (rows.detach() + bias).backward(rows.array)
    np.testing.assert_allclose(bias.grad.array, 5e6 * tenth, rtol=1e-6)
    bias.grad, eye = None, tensor([[1.0, 0.0], [0.0, 1.0]])
    fused.linear(rows, eye, bias).backward(rows.array)
    np.testing.assert_allclose(bias.grad.array, 5e6 * tenth, rtol=1e-4)


@pytest.mark.parametrize("inside", [False, True], ids=["fused", "composed"])
@pytest.mark.parametrize("options", [
    {"ffn": "gelu_tanh", "bias": True, "dropout": 0.2},
    {"norm": "rms", "ffn": "swiglu", "positions": "rotary", "qk_norm": True, "n_kv_head": 1, "tied": False, "layer_scale": 0.5},
], ids=["gpt2", "modern"])  # fmt: skip
def test_nothing_in_a_training_step_is_wider_than_float32(options, inside, monkeypatch):
    """Every value, every gradient that goes from one op to another, what is kept in between, and all the optimizer holds."""
    seen, values, kept = [], [], []

    def observe(node, value):
        values.append((node.op.name, value.dtype))
        kept.extend((node.op.name, a.dtype) for a in node.kept() if a.dtype.kind == "f")
        tap(node, lambda node, i, g, share: seen.extend((node.op.name, a.dtype) for a in (g, share) if a is not None))

    model = Decoder(DecoderConfig(7, 6, 2, 2, n_embd=8, **options), np.random.default_rng(0))
    optimizer = optim.AdamW(model.parameters(), lr=np.float64(1e-3), weight_decay=np.float64(0.1))
    monkeypatch.setattr(state, "observer", observe)
    with composed() if inside else nullcontext():
        loss = model.loss(np.array([[1, 2, 3, 4]]), np.array([[2, 3, 4, 5]])) * np.float64(0.5)
        loss.backward()
    optimizer.step()
    moments = [v for s in optimizer.state_dict()["state"].values() for k, v in s.items() if k != "step"]
    held = [("held", x.dtype) for x in (loss, *model.parameters(), *(p.grad for p in model.parameters()), *moments)]
    assert min(map(len, (values, kept, seen))) > 30
    assert {entry for entry in (*values, *kept, *seen, *held) if entry[1] != np.float32} == set()
