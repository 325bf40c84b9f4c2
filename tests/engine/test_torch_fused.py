"""Fused functions against torch.nn.functional: attention, the loss, norms and activations, at ordinary and extreme values."""

import numpy as np
import pytest

import tinygrad_tf
from tinygrad_tf import activations, fused, tensor
from tinygrad_tf import attention as blocks
from tinygrad_tf.nn import functional


def names(m):
    return functional if m is tinygrad_tf else m.nn.functional


EXTREME = np.array(
    [0.0, -0.0, 1e-30, -1e-7, 3e-4, 0.5, -1, 4, -6, 9, -13, 20, -30, 60, -88, 100, -200, 1e4, -1e4], dtype=np.float32
)
BOTH = pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])


@pytest.mark.filterwarnings("error::RuntimeWarning")
@BOTH
@pytest.mark.parametrize(
    "name", ["gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "relu", "softmax", "log_softmax", "logsumexp"]
)
def test_activations_at_extreme_values(name, dtype, same_as_torch):
    functions = {
        "gelu": lambda m, x: names(m).gelu(x),
        "gelu_tanh": lambda m, x: names(m).gelu(x, approximate="tanh"),
        "silu": lambda m, x: names(m).silu(x),
        "sigmoid": lambda m, x: x.sigmoid(),
        "tanh": lambda m, x: x.tanh(),
        "relu": lambda m, x: x.relu(),
        "softmax": lambda m, x: names(m).softmax(x, dim=-1),
        "log_softmax": lambda m, x: names(m).log_softmax(x, dim=-1),
        "logsumexp": lambda m, x: x.logsumexp(-1),
    }
    atol = 4e-7 if dtype == np.float32 else 1e-14
    same_as_torch(functions[name], EXTREME.astype(dtype), atol=atol, rtol=1e-6 if dtype == np.float32 else 1e-12)


def test_sigmoid_keeps_its_digits_far_below_zero(same_as_torch):
    x = np.array([-5.0, -20, -40, -80], dtype=np.float32)
    same_as_torch(lambda m, x: [x.sigmoid(), x.sigmoid().log()], x, atol=1e-37, rtol=1e-5)


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu", "swiglu"])
def test_large_and_strided_inputs_are_worked_on_in_pieces_without_a_seam(name, calculus, monkeypatch):
    """More numbers than two pieces hold, in an order that is not the memory's."""
    monkeypatch.setattr(activations, "PIECE", 1 << 14)
    op = getattr(activations, name)
    arrays = [calculus.numbers(300, 250, low=-4, high=4, salt=i).T for i in range(2 if name == "swiglu" else 1)]
    assert arrays[0].size > 2 * activations.PIECE
    seed = calculus.numbers(300, 250, salt=5).T
    whole = [calculus.leaf(a) for a in arrays]
    y = op(*whole)
    y.backward(seed)
    for i in (0, 1, 131, 249):
        row = [calculus.leaf(a[i]) for a in arrays]
        part = op(*row)
        part.backward(seed[i])
        np.testing.assert_allclose(y.array[i], part.array, rtol=1e-14, atol=1e-300)
        for x, r in zip(whole, row):
            np.testing.assert_allclose(x.grad.array[i], r.grad.array, rtol=1e-13, atol=1e-300)


# ------------------------------------------------------------------------------------------------ norms

NORMS = {
    "layer": lambda m, x, w, b: [
        names(m).layer_norm(x, (6,), w, b),
        names(m).layer_norm(x, (6,), w),
        names(m).layer_norm(x, (6,)),
    ],
    "layer eps": lambda m, x, w, b: names(m).layer_norm(x, (6,), w, b, eps=0.3),
    "layer bias only": lambda m, x, w, b: names(m).layer_norm(x, (6,), None, b),
    "rms": lambda m, x, w, b: [
        names(m).rms_norm(x, (6,), w),
        names(m).rms_norm(x, (6,)),
        names(m).rms_norm(x, (6,), w, eps=0.2),
    ],
}
ROWS = {
    "ordinary": lambda x: x,
    "far from zero": lambda x: x + 100,
    "large": lambda x: x * 1e8,
    "tiny": lambda x: x * 1e-12,
    "zero": lambda x: x * 0,
    "constant": lambda x: x * 0 + 3,
    "one outlier": lambda x: np.where(np.arange(6) == 2, 1e6, x),
}


@BOTH
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("norm", NORMS)
def test_norms(norm, rows, dtype, same_as_torch, calculus):
    x = ROWS[rows](calculus.numbers(2, 3, 6)).astype(dtype)
    weight, bias = calculus.numbers(6, salt=1).astype(dtype), calculus.numbers(6, salt=2).astype(dtype)
    single = {"rtol": 5e-4, "atol": 3e-4 * max(1, 1 / max(float(np.std(x)), 1e-3))}  # both round: neither is the reference
    same_as_torch(NORMS[norm], x, weight, bias, **(single if dtype == np.float32 else {"rtol": 1e-8, "atol": 1e-8}))


def test_layer_norm_over_two_axes(same_as_torch, calculus):
    arrays = calculus.numbers(2, 3, 4), calculus.numbers(3, 4, salt=1), calculus.numbers(3, 4, salt=2)
    same_as_torch(lambda m, x, w, b: names(m).layer_norm(x, (3, 4), w, b), *arrays)


# ------------------------------------------------------------------------------------------------ the loss

TARGETS = {
    "all": np.array([2, 0, 4, 1, 1]),
    "some ignored": np.array([2, -1, 4, -1, 1]),
    "one kept": np.array([-1, -1, -1, -1, 3]),
}


@BOTH
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("target", TARGETS)
def test_cross_entropy(target, reduction, smoothing, dtype, same_as_torch, calculus):
    ids = TARGETS[target]

    def loss(m, x):
        return names(m).cross_entropy(x, m.tensor(ids), ignore_index=-1, reduction=reduction, label_smoothing=smoothing)

    same_as_torch(loss, (5 * calculus.numbers(5, 5)).astype(dtype))
    same_as_torch(loss, (300 * calculus.numbers(5, 5)).astype(dtype))  # exponentials that would overflow


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_with_the_class_axis_second_and_for_one_row(reduction, same_as_torch, calculus):
    ids = np.array([[0, 2, -100], [1, 1, 0]])
    same_as_torch(lambda m, x: names(m).cross_entropy(x, m.tensor(ids), reduction=reduction), calculus.numbers(2, 4, 3))
    same_as_torch(lambda m, x: names(m).cross_entropy(x, m.tensor(2), reduction=reduction), calculus.numbers(4))
    same_as_torch(
        lambda m, x: names(m).nll_loss(x.log_softmax(1), m.tensor(ids), reduction=reduction), calculus.numbers(2, 4, 3)
    )


def test_cross_entropy_by_keyword_and_with_an_impossible_class(same_as_torch, calculus):
    x = calculus.numbers(3, 4)
    x[0, 1] = x[2, 3] = -np.inf
    same_as_torch(lambda m, x: names(m).cross_entropy(input=x, target=m.tensor([0, 1, 2])), x)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int32])
def test_targets_of_any_integer_dtype(dtype, calculus):
    x, ids = calculus.numbers(3, 4), np.array([0, 3, 1])
    assert functional.cross_entropy(tensor(x), ids.astype(dtype)).item() == functional.cross_entropy(tensor(x), ids).item()


def test_embedding(same_as_torch, calculus):
    for size in (5, 700):  # the two ways of adding up rows
        ids = np.array([[1, 1, 4], [0, 4, 4]]) * (size // 5)
        same_as_torch(lambda m, w, ids=ids: names(m).embedding(m.tensor(ids), w), calculus.numbers(size, 3))


# ------------------------------------------------------------------------------------------------ attention

B, H, T, D = 2, 4, 7, 6
LOOK = np.random.default_rng(0).random((B, H, T, T)) > 0.4
LOOK[..., 0] = True  # every query may look somewhere: PyTorch gives NaN or zeros elsewhere, depending on the kernel
ATTENTION = {
    "plain": lambda m, q, k, v: names(m).scaled_dot_product_attention(q, k, v),
    "causal": lambda m, q, k, v: names(m).scaled_dot_product_attention(q, k, v, is_causal=True),
    "scale": lambda m, q, k, v: names(m).scaled_dot_product_attention(q, k, v, scale=0.7),
    "mask per head": lambda m, q, k, v: names(m).scaled_dot_product_attention(q, k, v, attn_mask=m.tensor(LOOK)),
    "mask (T, T)": lambda m, q, k, v: names(m).scaled_dot_product_attention(q, k, v, attn_mask=m.tensor(LOOK[0, 0])),
    "mask of keys": lambda m, q, k, v: names(m).scaled_dot_product_attention(q, k, v, attn_mask=m.tensor(LOOK[:, :1, :1])),
    "3 axes": lambda m, q, k, v: names(m).scaled_dot_product_attention(q[0], k[0], v[0], is_causal=True),
    "2 axes": lambda m, q, k, v: names(m).scaled_dot_product_attention(q[0, 0], k[0, 0], v[0, 0], is_causal=True),
    "3 axes and mask": lambda m, q, k, v: names(m).scaled_dot_product_attention(q[0], k[0], v[0], attn_mask=m.tensor(LOOK[0])),
    "keys longer": lambda m, q, k, v: names(m).scaled_dot_product_attention(q[:, :, :3], k, v),
    "queries longer": lambda m, q, k, v: names(m).scaled_dot_product_attention(q, k[:, :, :3], v[:, :, :3]),
    "values wider": lambda m, q, k, v: names(m).scaled_dot_product_attention(q, k, m.cat([v, v * 2], dim=-1), is_causal=True),
    "grouped": lambda m, q, k, v: names(m).scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True),
    "one group, causal": lambda m, q, k, v: names(m).scaled_dot_product_attention(
        q, k[:, :1], v[:, :1], is_causal=True, enable_gqa=True
    ),
    "one position": lambda m, q, k, v: names(m).scaled_dot_product_attention(q[:, :, :1], k[:, :, :1], v[:, :, :1]),
    "transposed": lambda m, q, k, v: names(m).scaled_dot_product_attention(
        *(x.transpose(1, 2).contiguous().transpose(1, 2) for x in (q, k, v))
    ),
}
BIAS = {
    "(B, H, T, T)": (B, H, T, T),
    "(T, T)": (T, T),
    "(H, 1, T)": (H, 1, T),
    "(B, 1, T, 1)": (B, 1, T, 1),
    "(1, H, T, T)": (1, H, T, T),
}


@pytest.fixture(params=[None, 1, 3, 7, 100], ids=lambda b: f"block={b}")
def block(request, monkeypatch):
    """Blocks smaller than T = 7, of which it is no multiple, and larger ones; with a small chunk the batch is split as well."""
    if request.param is not None:
        monkeypatch.setattr(blocks, "BLOCK", request.param)
    if request.param == 3:
        monkeypatch.setattr(blocks, "CHUNK", 1)


@BOTH
@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name, dtype, block, same_as_torch, calculus):
    same_as_torch(ATTENTION[name], *(calculus.numbers(B, H, T, D, salt=i).astype(dtype) for i in range(3)))


@pytest.mark.parametrize("shape", BIAS)
def test_attention_with_a_bias_that_learns(shape, block, same_as_torch, calculus):
    def attend(m, q, k, v, bias):
        return names(m).scaled_dot_product_attention(q, k, v, attn_mask=bias)

    same_as_torch(attend, *(calculus.numbers(B, H, T, D, salt=i) for i in range(3)), calculus.numbers(*BIAS[shape], salt=4))


def test_attention_with_large_scores(block, same_as_torch, calculus):
    q, k, v = (calculus.numbers(B, H, T, D, salt=i) for i in range(3))
    same_as_torch(ATTENTION["causal"], 300 * q, 300 * k, v, atol=1e-9)


def test_attention_with_minus_infinity_in_the_bias(block, same_as_torch, calculus):
    bias = np.where(LOOK, calculus.numbers(B, H, T, T, salt=4), -np.inf)
    same_as_torch(
        lambda m, q, k, v: names(m).scaled_dot_product_attention(q, k, v, attn_mask=m.tensor(bias)),
        *(calculus.numbers(B, H, T, D, salt=i) for i in range(3)),
    )


@pytest.mark.parametrize("causal", [-9, -3, 0, 2, 50])
def test_attention_of_queries_that_come_later_than_the_keys(causal, block, oracle, calculus):
    """Query i looks at keys 0 ... i + causal, as with a cache of `causal` earlier keys; it may be that it looks nowhere."""
    arrays = [calculus.numbers(B, H, t, D, salt=i) for i, t in enumerate((T, T + 2, T + 2))]
    look = np.tri(T, T + 2, causal, dtype=bool)
    leaves, theirs = [calculus.leaf(a) for a in arrays], [oracle.tensor(a, requires_grad=True) for a in arrays]
    seed = calculus.numbers(B, H, T, D, salt=8)
    y = fused.attention(*leaves, causal=causal)
    y.backward(seed)
    weights = (theirs[0] @ theirs[1].mT / D**0.5).masked_fill(~oracle.tensor(look), -1e300).softmax(-1) * oracle.tensor(look)
    t = weights @ theirs[2]
    t.backward(oracle.tensor(seed))
    np.testing.assert_allclose(y.array, t.detach().numpy(), rtol=1e-10, atol=1e-12)
    for x, w in zip(leaves, theirs):
        np.testing.assert_allclose(x.grad.array, w.grad.numpy(), rtol=1e-9, atol=1e-12)
