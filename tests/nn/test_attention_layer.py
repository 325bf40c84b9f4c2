"""MultiHeadAttention and Block against torch.nn.MultiheadAttention and torch.nn.TransformerEncoderLayer."""

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn
from tinygrad_tf.nn.transformer import ORDERS

ATTENTION = {
    "in_proj_weight": "q_proj.weight k_proj.weight v_proj.weight",
    "in_proj_bias": "q_proj.bias k_proj.bias v_proj.bias",
    "out_proj.weight": "out_proj.weight",
    "out_proj.bias": "out_proj.bias",
}
BLOCK = {f"self_attn.{k}": " ".join(f"attn.{n}" for n in v.split()) for k, v in ATTENTION.items()}
for kind in ("weight", "bias"):
    BLOCK |= {f"linear1.{kind}": f"ffn.up.{kind}", f"linear2.{kind}": f"ffn.down.{kind}"}
    BLOCK |= {f"norm1.{kind}": f"attn_norm.{kind}", f"norm2.{kind}": f"ffn_norm.{kind}"}

T, S = 6, 9
MASKS = {  # true where a query may look; shape for T queries
    "none": lambda n: None,
    "causal": lambda n: np.tri(n, dtype=bool),
    "padding": lambda n: (np.arange(n) < np.array([[n - 3], [n]]))[:, None, None, :],
    "both": lambda n: np.tri(n, dtype=bool) & (np.arange(n) < np.array([[n - 3], [n]]))[:, None, None, :],
    "random": lambda n: (np.random.default_rng(1).random((2, 4, n, n)) > 0.4) | np.eye(n, dtype=bool),
}


def torch_masks(torch, mask):
    """What torch.nn.MultiheadAttention takes: true where a query may NOT look, heads along the batch axis."""
    if mask is None:
        return None
    full = (
        np.broadcast_to(mask, (2, 4, *mask.shape[-2:]))
        if mask.shape[-2] > 1
        else np.broadcast_to(mask, (2, 4, mask.shape[-1], mask.shape[-1]))
    )
    return torch.from_numpy(~full.reshape(8, *full.shape[-2:]))


def attention_pair(torch, against, dtype, bias=True):
    ours, theirs = (
        nn.MultiHeadAttention(8, 4, bias=bias).to(dtype),
        torch.nn.MultiheadAttention(8, 4, bias=bias, batch_first=True),
    )
    theirs.to(getattr(torch, str(dtype)))
    names = {k: v for k, v in ATTENTION.items() if bias or "bias" not in k}
    against.copy_weights(torch, ours, theirs, names)
    return ours, theirs, names


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("bias", [True, False])
def test_self_attention(oracle, against, randn, dtype, mask, bias):
    ours, theirs, names = attention_pair(oracle, against, dtype, bias)
    allowed = MASKS[mask](T)
    a = randn(2, T, 8, dtype)
    x, x2 = Tensor(a, requires_grad=True), oracle.tensor(a, requires_grad=True)
    y = ours(x, causal=True) if mask == "causal" else ours(x, mask=allowed)
    expected, _ = theirs(x2, x2, x2, attn_mask=torch_masks(oracle, allowed), need_weights=False)
    against.close(y, expected, "output")
    g = randn(2, T, 8, dtype)
    y.backward(g)
    expected.backward(oracle.from_numpy(g))
    against.close(x.grad, x2.grad, "input gradient")
    against.same_gradients(ours, theirs, names)


@pytest.mark.parametrize("padded", [False, True])
def test_cross_attention(oracle, against, randn, dtype, padded):
    ours, theirs, names = attention_pair(oracle, against, dtype)
    a, b = randn(2, T, 8, dtype), randn(2, S, 8, dtype)
    x, x2 = Tensor(a, requires_grad=True), oracle.tensor(a, requires_grad=True)
    memory, memory2 = Tensor(b, requires_grad=True), oracle.tensor(b, requires_grad=True)
    held = np.arange(S) < np.array([[4], [S]])
    y = ours(x, context=memory, mask=held[:, None, None, :] if padded else None)
    expected, _ = theirs(
        x2, memory2, memory2, key_padding_mask=oracle.from_numpy(~held) if padded else None, need_weights=False
    )
    against.close(y, expected, "output")
    g = randn(2, T, 8, dtype)
    y.backward(g)
    expected.backward(oracle.from_numpy(g))
    against.close(x.grad, x2.grad, "gradient of the queries")
    against.close(memory.grad, memory2.grad, "gradient of the memory")
    against.same_gradients(ours, theirs, names)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("causal", [True, False])
def test_grouped_keys_and_values(oracle, against, randn, dtype, groups, causal):
    """As full attention with each key and value matrix repeated; its gradients are the sums over the repeats."""
    grouped, full = (nn.MultiHeadAttention(8, 4, n_kv_head=n, bias=False).to(dtype) for n in (groups, 4))
    repeat = lambda w: np.repeat(w.reshape(groups, 2, 8), 4 // groups, axis=0).reshape(8, 8)
    for name in ("q_proj", "out_proj"):
        getattr(full, name).weight.data = getattr(grouped, name).weight.array
    for name in ("k_proj", "v_proj"):
        getattr(full, name).weight.data = repeat(getattr(grouped, name).weight.array)
    x, g = randn(2, T, 8, dtype), randn(2, T, 8, dtype)
    y, expected = grouped(Tensor(x), causal=causal), full(Tensor(x), causal=causal)
    against.close(y, oracle.from_numpy(np.ascontiguousarray(expected.array)))
    y.backward(g)
    expected.backward(g)
    for name in ("k_proj", "v_proj"):
        summed = getattr(full, name).weight.grad.array.reshape(groups, 4 // groups, 2, 8).sum(1).reshape(2 * groups, 8)
        against.close(getattr(grouped, name).weight.grad, oracle.from_numpy(summed), name)


@pytest.mark.parametrize("order", ["pre", "post"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("mask", ["none", "causal", "both"])
def test_block(oracle, against, randn, dtype, order, activation, mask):
    attn, ffn = nn.MultiHeadAttention(8, 4), nn.FeedForward(8, 20, activation)
    sublayer, norm = ORDERS[order], lambda: nn.LayerNorm(8)
    block = nn.Block(sublayer(norm, attn=attn), sublayer(norm, ffn=ffn)).to(dtype)
    theirs = oracle.nn.TransformerEncoderLayer(8, 4, 20, 0.0, activation, batch_first=True, norm_first=order == "pre",
                                               dtype=getattr(oracle, str(dtype)))  # fmt: skip
    for name, p in block.named_parameters():
        if "norm" in name:
            nn.init.uniform_(p, -1, 1)
    against.copy_weights(oracle, block, theirs, BLOCK)
    allowed = MASKS[mask](T)
    a, g = randn(2, T, 8, dtype), randn(2, T, 8, dtype)
    x, x2 = Tensor(a, requires_grad=True), oracle.tensor(a, requires_grad=True)
    y = block(x, causal=True) if mask == "causal" else block(x, mask=allowed)
    expected = theirs(x2, src_mask=torch_masks(oracle, allowed))
    against.close(y, expected, "output")
    y.backward(g)
    expected.backward(oracle.from_numpy(g))
    against.close(x.grad, x2.grad, "input gradient")
    against.same_gradients(block, theirs, BLOCK)


@pytest.mark.parametrize("what, options", [
    ("8 does not divide into 3", {"n_head": 3}), ("8 does not divide into 0", {"n_head": 0}),
    ("4 query heads.*3 key", {"n_head": 4, "n_kv_head": 3}),
    ("width 4 do not fit heads of width 2", {"n_head": 4, "positions": nn.Rotary(4)}),
])  # fmt: skip
def test_what_does_not_fit_is_refused_when_the_layer_is_made(what, options):
    with pytest.raises(ValueError, match=what):
        nn.MultiHeadAttention(8, **options)


def test_an_input_without_a_batch_axis_is_refused_by_name():
    with pytest.raises(ValueError, match=r"\(B, T, d\).*\(3, 8\)"):
        nn.MultiHeadAttention(8, 2)(Tensor(np.ones((3, 8), np.float32)))


def test_a_text_of_no_tokens_gives_no_rows():
    assert nn.MultiHeadAttention(8, 2)(Tensor(np.ones((2, 0, 8), np.float32)), causal=True).shape == (2, 0, 8)
