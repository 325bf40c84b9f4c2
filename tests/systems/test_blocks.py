"""S24 to S26: a whole block by hand, its shapes, and where its parameters live."""

import math

import numpy as np
import pytest

from tinygrad_tf import Tensor, fused, nn
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.nn.transformer import block_of_gpt2


def hand_block():
    """One head, identity projections, RMSNorm without gain and with eps 0, a ReLU network of width 4, no biases."""
    attn = nn.MultiHeadAttention(2, 1, bias=False).double()
    for projection in (attn.q_proj, attn.k_proj, attn.v_proj, attn.out_proj):
        projection.weight.data = np.eye(2)
    ffn = nn.FeedForward(2, 4, "relu", bias=False).double()
    ffn.up.weight.data = np.array([[1.0, -1, 0, 1], [0, 1, -1, 1]]).T
    ffn.down.weight.data = np.array([[0.5, 0], [0, 0.5], [-0.5, 0], [0, -0.5]]).T
    norm = lambda: nn.RMSNorm(2, eps=0.0, elementwise_affine=False)
    return nn.Block(nn.pre_norm(norm, attn=attn), nn.pre_norm(norm, ffn=ffn))


def embedded():
    tokens, positions = nn.Embedding(3, 2).double(), nn.Embedding(3, 2).double()
    tokens.weight.data = np.array([[1.0, 0], [0, 1], [1, 1]])
    positions.weight.data = np.array([[0.0, 0], [0.5, 0], [0, 0.5]])
    return (tokens(np.arange(3)) + positions(np.arange(3))).unsqueeze(0)


def watched(block, x, **options):
    """What each part of the block returned, by name, the stream in between as `h`, and the result as `y`."""
    seen = {}
    for name, module in block.named_modules():
        if name:
            module.register_forward_hook(lambda m, args, out, name=name: seen.__setitem__(name, out.array[0]))
    block.ffn_norm.register_forward_pre_hook(lambda m, args: seen.__setitem__("h", args[0].array[0]))
    seen["y"] = block(x, **options).array[0]
    return seen


def test_S24_the_cat_sat(prints):
    x = embedded()
    prints(x, "(1.0 0.0) (0.5 1.0) (1.0 1.5)")
    seen = watched(hand_block(), x)
    normed = seen["attn_norm"]
    prints(normed, "(1.4142 0.0000) (0.6325 1.2649) (0.7845 1.1767)")

    scores = Tensor(normed @ normed.T / math.sqrt(2))
    prints(scores, "1.4142 0.6325 0.7845  0.6325 1.4142 1.4033  0.7845 1.4033 1.4142")
    prints(scores[0].exp(), "4.113 1.882 2.191")
    prints(scores[0].exp().sum(), "8.187")
    prints(np.round(scores[0].exp().array, 3).sum(), "8.186")  # as the article has it: it adds the rounded numbers
    prints(scores.softmax(-1), "0.502 0.230 0.268  0.187 0.409 0.404  0.211 0.392 0.397")
    np.testing.assert_allclose((scores.softmax(-1) @ normed).array, seen["attn"], rtol=1e-14)

    prints(seen["attn"], "1.066 0.606  0.840 0.993  0.858 0.963")
    prints(seen["h"], "2.066 0.606  1.340 1.993  1.858 2.463")
    prints(np.sqrt((seen["h"] ** 2).mean(-1)), "1.522 1.698 2.181")
    prints(seen["ffn_norm"], "1.357 0.398  0.789 1.174  0.852 1.129")
    prints(seen["ffn.up"][0], "1.357 -0.959 -0.398 1.755")
    prints(seen["ffn"], "0.679 -0.877  0.395 -0.789  0.426 -0.852")
    prints(seen["y"], "2.744 -0.272  1.735 1.203  2.284 1.611")


def test_S24_the_cat_sat_masked(prints):
    x = embedded()
    seen, unmasked = watched(hand_block(), x, causal=True), watched(hand_block(), x)
    prints(seen["h"][0], "2.414 0.000")
    prints(seen["y"][0], "3.121 -0.707")
    for part in seen:  # the last token sees all three either way
        np.testing.assert_allclose(seen[part][2], unmasked[part][2], rtol=1e-14)
    assert abs(seen["y"][1] - unmasked["y"][1]).max() > 1e-3
    by_hand = 1 + math.sqrt(2)
    np.testing.assert_allclose(seen["h"][0], [by_hand, 0], atol=1e-15)
    np.testing.assert_allclose(seen["y"][0], [by_hand + math.sqrt(2) / 2, -math.sqrt(2) / 2], rtol=1e-14)


D, HEADS = 768, 12


@pytest.fixture(scope="module")
def wide():
    return block_of_gpt2(D, HEADS)


def size(module):
    return sum(p.numel() for p in module.parameters())


def test_S25_shapes_from_a_real_run(wide, monkeypatch):
    seen, n = {}, 5
    removers = [m.register_forward_hook(lambda m, args, out, name=name: seen.__setitem__(name, (args[0].shape, out.shape)))
                for name, m in wide.named_modules()]  # fmt: skip
    heads = []
    split = fused.split_heads

    def watched(x, **settings):
        y = split(x, **settings)
        heads.append(y.shape)
        return y

    monkeypatch.setattr(fused, "split_heads", watched)
    wide(Tensor(np.zeros((1, n, D), np.float32)))
    for remove in removers:
        remove()
    stream, inner = (1, n, D), (1, n, 4 * D)
    assert seen[""] == seen["attn_norm"] == seen["attn"] == seen["ffn_norm"] == seen["ffn"] == (stream, stream)
    assert seen["attn.q_proj"] == seen["attn.k_proj"] == seen["attn.v_proj"] == seen["attn.out_proj"] == (stream, stream)
    assert heads == [(1, 12, n, 64)] * 3
    assert seen["ffn.up"] == (stream, inner)
    assert seen["ffn.down"] == (inner, stream)


def test_S26_the_parameters_of_one_block(prints, wide):
    prints(size(wide.attn), "2,362,368")
    assert size(wide.attn) == 4 * D**2 + 4 * D
    prints(size(wide.ffn), "4,722,432")
    assert size(wide.ffn) == 8 * D**2 + 5 * D
    prints(size(wide), "7,087,872")
    prints(12 * size(wide), "85,054,464")
    matrices = sum(p.numel() for p in wide.parameters() if p.ndim == 2)
    assert matrices == 12 * D**2
    assert sum(p.numel() for p in wide.ffn.parameters() if p.ndim == 2) * 3 == matrices * 2  # two thirds


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 6, 8])
def test_S26_the_number_of_heads_changes_nothing(heads):
    assert size(nn.MultiHeadAttention(48, heads)) == size(nn.MultiHeadAttention(48, 12)) == 4 * 48**2 + 4 * 48


GPT2 = {"vocab_size": 50257, "block_size": 1024, "n_layer": 12, "n_head": 12, "n_embd": 768, "bias": True}


@pytest.mark.slow
def test_S26_gpt2_small(prints):
    model = Decoder(DecoderConfig(**GPT2))
    prints(size(model.blocks), "85,054,464")
    prints(size(model), "124,439,808")


def test_S26_gpt2_small_from_smaller_models(prints):
    """The count is linear in vocabulary, context and layers, so three small models of the same width give it."""
    base = {**GPT2, "vocab_size": 1, "block_size": 1, "n_layer": 1}
    one = size(Decoder(DecoderConfig(**base)))
    token = size(Decoder(DecoderConfig(**{**base, "vocab_size": 2}))) - one
    place = size(Decoder(DecoderConfig(**{**base, "block_size": 2}))) - one
    block = size(Decoder(DecoderConfig(**{**base, "n_layer": 2}))) - one
    prints(block, "7,087,872")
    prints(one + 50256 * token + 1023 * place + 11 * block, "124,439,808")


def test_S26_twice_the_width_is_four_times_the_matrices():
    def matrices(d):
        return sum(p.numel() for p in block_of_gpt2(d, 4).parameters() if p.ndim == 2)

    assert matrices(64) == 4 * matrices(32) == 12 * 64**2


def test_S26_cost_in_the_length_of_the_text():
    """Multiplications by shapes of a real run: scores and mixing grow with n^2 d, everything else in line with n."""
    block = block_of_gpt2(32, 4)

    def work(n):
        linear, quadratic = [], []
        for m in block.modules():
            if isinstance(m, nn.Linear):
                m.register_forward_hook(lambda m, args, out: linear.append(args[0].numel() * m.out_features))
        read = block.attn._read
        block.attn._read = lambda q, k, v, *rest: quadratic.append(2 * q.numel() * k.shape[2]) or read(q, k, v, *rest)
        block(Tensor(np.zeros((1, n, 32), np.float32)))
        del block.attn._read
        for m in block.modules():
            m.__dict__.pop("_hooks", None)
        return sum(linear), sum(quadratic)

    (l1, q1), (l2, q2) = work(64), work(128)
    assert l2 == 2 * l1 == 2 * 64 * 12 * 32**2
    assert q2 == 4 * q1 == 2 * 128**2 * 32


@pytest.mark.parametrize("masked", [False, True])
def test_S24_the_seven_steps_by_themselves(masked):
    """Each computed with NumPy alone, from the numbers of the one before, against what the block's parts returned."""
    seen = watched(hand_block(), embedded(), causal=masked)
    rms = lambda z: z / np.sqrt((z**2).mean(-1, keepdims=True))
    x = np.array([[1.0, 0], [0, 1], [1, 1]]) + np.array([[0.0, 0], [0.5, 0], [0, 0.5]])  # 1: token plus position
    a = rms(x)  # 2: norm
    scores = np.where(np.tri(3, dtype=bool) | (not masked), a @ a.T / math.sqrt(2), -np.inf)
    weights = np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    read = weights @ a  # 3: attention
    h = x + read  # 4: first sum
    b = rms(h)  # 5: norm
    out = np.maximum(b @ np.array([[1.0, -1, 0, 1], [0, 1, -1, 1]]), 0) @ np.array([[0.5, 0], [0, 0.5], [-0.5, 0], [0, -0.5]])
    y = h + out  # 6: feed-forward, 7: second sum
    for name, expected in {"attn_norm": a, "attn": read, "h": h, "ffn_norm": b, "ffn": out, "y": y}.items():
        np.testing.assert_allclose(seen[name], expected, rtol=1e-13, err_msg=name)
    if masked:
        np.testing.assert_array_equal(weights[0], [1, 0, 0])
        np.testing.assert_allclose(weights.sum(-1), 1)


@pytest.mark.parametrize("n", [1, 5, 9])
def test_S25_the_scores_are_n_by_n_and_never_leave_the_layer(n):
    """From the shapes that meet in a real run: queries and keys (12, n, 64), scores (12, n, n), mixtures (12, n, 64) again."""
    attn, met = nn.MultiHeadAttention(D, HEADS), []
    read = attn._read
    attn._read = lambda q, k, v, *rest: met.append((q.shape, k.shape, v.shape, (q @ k.transpose(-2, -1)).shape)) or read(
        q, k, v, *rest
    )
    y = attn(Tensor(np.ones((1, n, D), np.float32)))
    assert met == [((1, 12, n, 64),) * 3 + ((1, 12, n, n),)]
    assert y.shape == (1, n, D)
