"""nn.MultiheadAttention and the layers of nn.Transformer against PyTorch's, from its state dicts."""

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn

E, H = 8, 2


def causal(t, dtype=None):
    hidden = ~np.tri(t, dtype=bool)
    return hidden if dtype is None else np.where(hidden, -np.inf, 0).astype(dtype)


def start(torch, module):
    """PyTorch starts biases at 0 and gains at 1: other values, so that a mistake with them shows."""
    torch.manual_seed(1)
    for p in module.parameters():
        torch.nn.init.normal_(p, 0.3, 0.5)
    return module


MASKS = {  # attn_mask, key_padding_mask, for 3 texts, 4 queries and 5 keys
    "none": (None, None),
    "boolean": (np.random.default_rng(0).random((4, 5)) < 0.3, None),
    "numbers": ("numbers", None),
    "each head": (np.random.default_rng(1).random((3 * H, 4, 5)) < 0.3, None),
    "numbers for each head": ("numbers 3", None),
    "padding": (None, np.arange(5) >= [[5], [3], [1]]),
    "padding in numbers": (None, "padding"),
    "both": (~np.tri(4, 5, 1, dtype=bool), np.arange(5) >= [[5], [3], [2]]),
    "boolean and numbers": (~np.tri(4, 5, 1, dtype=bool), "padding"),
    "numbers and boolean": ("numbers", np.arange(5) >= [[5], [3], [1]]),
}


def masks(name, dtype):
    draw = np.random.default_rng(3).standard_normal
    made = {"numbers": draw((4, 5)), "numbers 3": draw((3 * H, 4, 5)),
            "padding": np.where(np.arange(5) >= [[5], [3], [1]], -np.inf, 0.5)}  # fmt: skip
    chosen = [made[m].astype(dtype) if isinstance(m, str) else m for m in MASKS[name]]
    for m in chosen:  # a query that may look nowhere is a case of its own
        if m is not None and m.dtype == bool:
            m[..., 0] = False
    return chosen


@pytest.mark.parametrize("weights", ["mean", "each", "none"])
@pytest.mark.parametrize("options", [
    {}, {"bias": False}, {"batch_first": True}, {"kdim": 6, "vdim": 3}, {"add_bias_kv": True}, {"add_zero_attn": True},
    {"add_bias_kv": True, "add_zero_attn": True, "batch_first": True, "vdim": 5},
], ids=str)  # fmt: skip
@pytest.mark.parametrize("mask", MASKS)
def test_attention(oracle, against, randn, dtype, mask, options, weights):
    attn_mask, padding = masks(mask, dtype)
    ours, theirs = (kind(E, H, **options) for kind in (nn.MultiheadAttention, oracle.nn.MultiheadAttention))
    lead = ((3, 4), (3, 5)) if options.get("batch_first") else ((4, 3), (5, 3))
    arrays = [randn(*lead[0], E, dtype), randn(*lead[1], options.get("kdim", E), dtype),
              randn(*lead[1], options.get("vdim", E), dtype)]  # fmt: skip
    how = {"need_weights": weights != "none", "average_attn_weights": weights != "each"}

    def call(module, q, k, v, attn_mask, padding):
        return module(q, k, v, attn_mask=attn_mask, key_padding_mask=padding, **how)

    if attn_mask is not None and padding is not None and attn_mask.dtype != padding.dtype:
        with pytest.warns(UserWarning, match="mismatched"):
            against.same_layer(oracle, ours, start(oracle, theirs), *arrays, attn_mask, padding, call=call, times=4)
    else:
        against.same_layer(oracle, ours, start(oracle, theirs), *arrays, attn_mask, padding, call=call, times=4)


@pytest.mark.parametrize("options", [{}, {"bias": False}, {"batch_first": True}], ids=str)
@pytest.mark.parametrize("shape", [(4, 3), (1, 1), (1, 3), (4, 1), (7, 2), (70, 1), (4,), (1,)])
@pytest.mark.parametrize("mask", ["none", "causal", "causal in numbers", "hint"])
@pytest.mark.parametrize("weights", [True, False])
def test_self_attention(oracle, against, randn, dtype, shape, mask, options, weights):
    """The three are one tensor: then one product makes all three projections. Without a batch, too."""
    x = randn(*shape, E, dtype)
    t = shape[1 if options.get("batch_first") and len(shape) > 1 else 0]
    attn_mask = None if mask == "none" else causal(t, dtype if mask == "causal in numbers" else None)
    ours, theirs = (kind(E, H, **options) for kind in (nn.MultiheadAttention, oracle.nn.MultiheadAttention))

    def call(module, x, attn_mask):
        return module(x, x, x, attn_mask=attn_mask, need_weights=weights, is_causal=mask == "hint")

    against.same_layer(oracle, ours, start(oracle, theirs), x, attn_mask, call=call, times=4)


def test_without_a_batch_a_padding_mask_has_one_axis(oracle, against, randn, dtype):
    ours, theirs = nn.MultiheadAttention(E, H), oracle.nn.MultiheadAttention(E, H)
    arrays = [randn(4, E, dtype), randn(5, E, dtype), randn(5, E, dtype), np.array([0, 0, 1, 0, 1], bool)]
    for average in (True, False):
        call = lambda m, *x, each=average: m(*x[:3], key_padding_mask=x[3], average_attn_weights=each)
        against.same_layer(oracle, ours, theirs, *arrays, call=call, times=4)


def test_a_query_that_may_look_nowhere_gives_the_bias_of_the_output():
    layer = nn.MultiheadAttention(E, H)
    nn.init.normal_(layer.out_proj.bias)
    x = Tensor(np.ones((3, 1, E), np.float32), requires_grad=True)
    for need in (True, False):
        y, _ = layer(x, x, x, attn_mask=np.array([[True] * 3, [False] * 3, [True, True, False]]), need_weights=need)
        np.testing.assert_allclose(y.array[0, 0], layer.out_proj.bias.array, rtol=1e-6)
        y.sum().backward()
        assert np.isfinite(x.grad.array).all()


@pytest.mark.parametrize("need", [True, False])
def test_dropout_keeps_the_mean_and_is_off_in_evaluation(need):
    layer = nn.MultiheadAttention(E, H, dropout=0.4)
    x = Tensor(np.random.default_rng(0).standard_normal((4, 2000, E)).astype(np.float32))
    still = layer.eval()(x, x, x, need_weights=need)[0].array
    moving = layer.train()(x, x, x, need_weights=need)[0].array
    assert np.abs(moving - still).max() > 0.1
    np.testing.assert_allclose(moving.mean((0, 1)), still.mean((0, 1)), atol=0.02)


def test_parameters_start_as_in_pytorch(oracle):
    options = {"embed_dim": 64, "num_heads": 4, "kdim": 32, "add_bias_kv": True}
    ours, theirs = nn.MultiheadAttention(**options), oracle.nn.MultiheadAttention(**options)
    for (name, p), (other, q) in zip(ours.named_parameters(), theirs.named_parameters()):
        assert name == other
        assert p.array.std() == pytest.approx(q.std(correction=0).item(), rel=0.15, abs=1e-9), name


@pytest.mark.parametrize("call, kind, words", [
    (lambda m, x: nn.MultiheadAttention(8, 3), ValueError, "8 does not divide into 3"),
    (lambda m, x: m(x, x, x, is_causal=True), ValueError, "give the mask"),
    (lambda m, x: m(x, x[0], x[0]), ValueError, "two axes or of three"),
    (lambda m, x: m(x, x[:, :1], x[:, :1]), ValueError, "do not belong together"),
    (lambda m, x: m(x, x, x[:2]), ValueError, "do not belong together"),
    (lambda m, x: m(x, x, x, attn_mask=np.zeros((4, 5), bool)), ValueError, r"attn_mask of shape \(4, 5\)"),
    (lambda m, x: m(x, x, x, key_padding_mask=np.zeros((4, 3), bool)), ValueError, r"key_padding_mask of shape \(4, 3\)"),
    (lambda m, x: m(x, x, x, attn_mask=np.zeros((4, 4), int)), TypeError, "boolean"),
])  # fmt: skip
def test_what_is_no_attention_is_refused(call, kind, words):
    with pytest.raises(kind, match=words):
        call(nn.MultiheadAttention(E, H), Tensor(np.ones((4, 3, E), np.float32)))


# ------------------------------------------------------------------------------------------------ the transformer

LAYERS = [{}, {"norm_first": True}, {"batch_first": True}, {"activation": "gelu"}, {"bias": False, "norm_first": True},
          {"layer_norm_eps": 0.1, "batch_first": True, "norm_first": True}]  # fmt: skip
SIZES = {"d_model": E, "nhead": H, "dim_feedforward": 12, "dropout": 0.0}
PADDING = np.arange(5) >= [[5], [3], [4]]


def first(options, *shape):
    """(T, B, E) or (B, T, E)"""
    return (shape[1], shape[0], E) if options.get("batch_first") else (*shape, E)


@pytest.mark.parametrize("mask", ["none", "causal", "causal in numbers", "hint", "padding", "causal and padding", "alone"])
@pytest.mark.parametrize("options", LAYERS, ids=str)
def test_encoder_layer(oracle, against, randn, dtype, options, mask):
    ours = nn.TransformerEncoderLayer(**SIZES, **options)
    theirs = start(oracle, oracle.nn.TransformerEncoderLayer(**SIZES, **options))
    attn_mask = causal(5, dtype if "numbers" in mask else None) if "causal" in mask or mask == "hint" else None
    padding = PADDING if "padding" in mask else None
    x = randn(5, E, dtype) if mask == "alone" else randn(*first(options, 5, 3), dtype)
    call = lambda module, x, m, p: module(x, src_mask=m, src_key_padding_mask=p, is_causal=mask == "hint")
    against.same_layer(oracle, ours, theirs, x, attn_mask, padding, call=call, times=8)


@pytest.mark.parametrize("mask", ["none", "causal", "hint", "padding", "memory", "everything"])
@pytest.mark.parametrize("options", LAYERS, ids=str)
def test_decoder_layer(oracle, against, randn, dtype, options, mask):
    ours = nn.TransformerDecoderLayer(**SIZES, **options)
    theirs = start(oracle, oracle.nn.TransformerDecoderLayer(**SIZES, **options))
    everything = mask == "everything"
    given = {
        "tgt_mask": causal(4) if mask in ("causal", "hint") or everything else None,
        "memory_mask": ~np.tri(4, 5, 1, dtype=bool) if mask == "memory" or everything else None,
        "tgt_key_padding_mask": PADDING[:, :4] if mask == "padding" or everything else None,
        "memory_key_padding_mask": PADDING if mask in ("padding", "memory") or everything else None,
    }
    call = lambda module, x, y, *m: module(x, y, **dict(zip(given, m)), tgt_is_causal=mask == "hint")
    arrays = randn(*first(options, 4, 3), dtype), randn(*first(options, 5, 3), dtype)
    against.same_layer(oracle, ours, theirs, *arrays, *given.values(), call=call, times=8)


@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("mask", ["none", "causal", "causal in numbers", "padding", "causal and padding"])
@pytest.mark.parametrize("options", LAYERS[:3], ids=str)
@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:The PyTorch API of nested tensors")
def test_encoder(oracle, against, randn, dtype, options, mask, norm):
    made = []
    for m in (nn, oracle.nn):
        layer = m.TransformerEncoderLayer(**SIZES, **options)
        made.append(m.TransformerEncoder(layer, 2, m.LayerNorm(E) if norm else None))
    attn_mask = causal(5, dtype if "numbers" in mask else None) if "causal" in mask else None
    call = lambda module, x, m, p: module(x, mask=m if m is None else m.detach(), src_key_padding_mask=p)
    padding = PADDING if "padding" in mask else None
    against.same_layer(oracle, made[0], start(oracle, made[1]), randn(*first(options, 5, 3), dtype), attn_mask, padding,
                       call=call, times=8)  # fmt: skip


def test_the_layers_of_a_stack_are_copies():
    layer = nn.TransformerEncoderLayer(**SIZES)
    stack = nn.TransformerEncoder(layer, 3)
    weights = [p for name, p in stack.named_parameters() if name.endswith("linear1.weight")]
    assert len({id(p) for p in [*weights, layer.linear1.weight]}) == 4
    assert all(np.array_equal(p.array, layer.linear1.weight.array) for p in weights)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("options", [*LAYERS, {"num_encoder_layers": 1, "num_decoder_layers": 3}], ids=str)
@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:The PyTorch API of nested tensors")
def test_transformer(oracle, against, randn, dtype, options, masked):
    options = {"num_encoder_layers": 2, "num_decoder_layers": 2, **options}
    ours, theirs = (m.Transformer(**SIZES, **options) for m in (nn, oracle.nn))
    arrays = randn(*first(options, 5, 3), dtype), randn(*first(options, 4, 3), dtype)

    def call(module, src, tgt, *m):
        names = ("tgt_mask", "src_key_padding_mask", "memory_key_padding_mask")
        return module(src, tgt, **dict(zip(names, m)))

    given = (causal(4), PADDING, PADDING) if masked else ()
    against.same_layer(oracle, ours, start(oracle, theirs), *arrays, *given, call=call, times=20)


def test_the_causal_mask_and_the_start_are_pytorchs(oracle):
    for n in (0, 1, 5):
        mask = nn.Transformer.generate_square_subsequent_mask(n)
        expected = oracle.nn.Transformer.generate_square_subsequent_mask(n)
        np.testing.assert_array_equal(mask.array, expected.numpy())
        assert mask.dtype == np.float32
    ours, theirs = (m.Transformer(32, 4, 1, 1, 64) for m in (nn, oracle.nn))
    for (name, p), (other, q) in zip(ours.named_parameters(), theirs.named_parameters()):
        assert name == other
        assert p.array.std() == pytest.approx(q.std(correction=0).item(), rel=0.25, abs=1e-9), name


def test_dropout_acts_in_training_alone():
    model = nn.Transformer(E, H, 1, 1, 12, dropout=0.5, batch_first=True)
    x = Tensor(np.random.default_rng(0).standard_normal((2, 4, E)).astype(np.float32))
    first, second = model(x, x).array, model(x, x).array
    assert not np.allclose(first, second)
    model.eval()
    np.testing.assert_array_equal(model(x, x).array, model(x, x).array)


def test_a_mask_of_numbers_that_is_learned_is_not_taken_for_the_causal_one(randn):
    mask = Tensor(causal(4, np.float64), requires_grad=True)
    stack = nn.TransformerEncoder(nn.TransformerEncoderLayer(**SIZES), 1).double()
    stack(Tensor(randn(4, 3, E, np.float64)), mask=mask).square().sum().backward()
    assert np.abs(mask.grad.array).max() > 0


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="activation"):
        nn.TransformerEncoderLayer(8, 2, activation="swish")
    with pytest.raises(ValueError, match="width 8"):
        nn.Transformer(8, 2, 1, 1, 12)(Tensor(np.ones((2, 1, 8))), Tensor(np.ones((2, 1, 4))))
