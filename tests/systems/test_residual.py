"""S1 to S6: what it means to add an update to what is there."""

import numpy as np
import pytest

from tinygrad_tf import Tensor, grad, nn
from tinygrad_tf import tensor as t
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn.residual import residual, write
from tinygrad_tf.nn.transformer import ORDERS


def test_S01_replace_or_add():
    held = t([0.0, 1.0])
    values, scores = t([[2.0, 0.0], [0.0, 1.0]]), t([[0.0, 0.0]])
    weights = scores.softmax(-1)
    assert weights.tolist() == [[1 / 2, 1 / 2]]
    read = (weights @ values)[0]
    assert read.tolist() == [1, 1 / 2]
    assert write(held, lambda x: read).tolist() == [1, 3 / 2]


def test_S02_a_branch_of_zero_replaces_with_zero_and_adds_nothing():
    x = t([0.7, -1.3, 2.0])
    nothing = nn.Linear(3, 3)
    nn.init.zeros_(nothing.weight)
    nn.init.zeros_(nothing.bias)
    assert nothing(x).tolist() == [0.0, 0.0, 0.0]
    assert nn.Residual(nothing)(x).equal(x)
    assert residual(x, -x).tolist() == [0.0, 0.0, 0.0]


def zeroed_block(order, norm=nn.LayerNorm, bias=True):
    attn, ffn = nn.MultiHeadAttention(8, 2, bias=bias), nn.FeedForward(8, 32, bias=bias)
    for last in (attn.out_proj, ffn.down):
        nn.init.zeros_(last.weight)
        if last.bias is not None:
            nn.init.zeros_(last.bias)
    sublayer = ORDERS[order]
    block = nn.Block(sublayer(lambda: norm(8), attn=attn), sublayer(lambda: norm(8), ffn=ffn))
    for name, p in block.named_parameters():
        if "norm" in name:
            nn.init.uniform_(p, 0.5, 1.5)  # gains and shifts that would show
    return block


@pytest.mark.parametrize("order", ["pre", "both"])
@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("causal", [False, True])
def test_S02_a_pre_norm_block_with_zero_branches_is_the_identity_bit_for_bit(order, norm, dtype, causal):
    block = zeroed_block(order, norm).to(dtype)
    if order == "both":  # a norm of zeros is its shift
        for module in (block.attn_after, block.ffn_after):
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)
    x = Tensor(np.random.default_rng(1).standard_normal((2, 5, 8)).astype(dtype) * 1e3)
    assert block(x, causal=causal).array.tobytes() == x.array.tobytes()


def test_S02_the_whole_model_starts_as_the_identity_with_zero_init():
    model = Decoder(DecoderConfig(17, 8, n_layer=3, n_head=2, n_embd=8, zero_init=True, bias=True), np.random.default_rng(0))
    ids = np.array([[3, 1, 4, 1]])
    x = model.token_embedding(ids) + model.position_embedding(np.arange(4))
    assert model.hidden(ids).equal(model.norm(x))


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
def test_S02_a_post_norm_block_with_zero_branches_is_norm_of_norm(norm):
    block = zeroed_block("post", norm)
    x = Tensor(np.random.default_rng(1).standard_normal((2, 5, 8)).astype(np.float32))
    y = block(x)
    assert y.equal(block.ffn_norm(block.attn_norm(x)))
    assert not y.allclose(x)


def test_S02_without_the_first_x_plus_the_block_gives_zero():
    block = zeroed_block("pre")
    x = Tensor(np.random.default_rng(1).standard_normal((1, 4, 8)).astype(np.float32))
    update = block.attn(block.attn_norm(x))
    assert not update.array.any()
    u = update  # in place of x + update
    y = u + block.ffn(block.ffn_norm(u))
    assert y.shape == x.shape
    assert not y.array.any()


def test_S03_the_gradient_is_g_plus_the_jacobian_transposed_times_g():
    rng = np.random.default_rng(0)
    branch = nn.Sequential(nn.RMSNorm(4), nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 4)).double()
    x = Tensor(rng.standard_normal(4), requires_grad=True)
    g = Tensor(rng.standard_normal(4))

    update = branch(x)
    jacobian = np.stack([grad(update[i], x, retain_graph=True)[0].array for i in range(4)])
    (through_branch,) = grad(update, x, g, retain_graph=True)
    np.testing.assert_allclose(through_branch.array, jacobian.T @ g.array, rtol=1e-12)

    (total,) = grad(residual(x, update), x, g)
    np.testing.assert_allclose(total.array, g.array + jacobian.T @ g.array, rtol=1e-12)
    np.testing.assert_allclose(total.array - through_branch.array, g.array, rtol=1e-12)  # the direct path

    steps = 1e-6 * np.eye(4)
    measured = np.stack([(branch(Tensor(x.array + s)).array - branch(Tensor(x.array - s)).array) / 2e-6 for s in steps], axis=1)
    np.testing.assert_allclose(jacobian, measured, atol=1e-8)


@pytest.mark.parametrize("order", ["pre", "both"])
def test_S03_the_graph_knows_which_of_the_two_paths_is_direct(order):
    """A residual sum is a node of its own kind; its first input is the stream itself, the second what the branch returned."""
    block, x = zeroed_block(order), Tensor(np.ones((1, 3, 8), np.float32), requires_grad=True)
    parts = {}
    block.ffn_norm.register_forward_pre_hook(lambda m, args: parts.__setitem__("middle", args[0].node))
    writers = (block.attn_after, block.ffn_after) if order == "both" else (block.attn, block.ffn)
    for name, module in zip(("first", "second"), writers):
        module.register_forward_hook(lambda m, args, out, name=name: parts.__setitem__(name, out.node))
    y = block(x)
    assert parts["middle"].op.name == y.node.op.name == "residual"
    assert parts["middle"].inputs == (x, parts["first"])
    assert y.node.inputs == (parts["middle"], parts["second"])


def walk(layers, start, branch, add):
    """(inputs, slopes of the branch, running gradients) of a stack of scalar layers."""
    x0 = x = Tensor(np.float64(start), requires_grad=True)
    inputs, slopes, running = [], [], []
    for _ in range(layers):
        inputs.append(x.item())
        update = branch(x)
        slopes.append(grad(update, x, retain_graph=True)[0].item())
        x = residual(x, update) if add else update
        running.append(grad(x, x0, retain_graph=True)[0].item())
    return inputs, slopes, running


def half_tanh(x):
    return (x * 0.5).tanh()


def test_S04_the_plain_stack(prints):
    inputs, slopes, running = walk(5, 1.0, half_tanh, add=False)
    prints(inputs, "1.0000 0.4621 0.2270 0.1130 0.0565")
    prints(slopes, "0.3932 0.4742 0.4936 0.4984 0.4996")
    prints(running, "0.3932 0.1865 0.0920 0.0459 0.0229")
    prints(walk(10, 1.0, half_tanh, add=False)[2][-1], "0.00072")
    prints(walk(20, 1.0, half_tanh, add=False)[2][-1], "7.0e-7")


def test_S04_the_residual_stack(prints):
    inputs, slopes, running = walk(5, 1.0, half_tanh, add=True)
    prints(inputs, "1.0000 1.4621 2.0858 2.8649 3.7570")
    prints(slopes, "0.3932 0.3055 0.1966 0.1020 0.0446")
    prints([1 + slope for slope in slopes], "1.3932 1.3055 1.1966 1.1020 1.0446")
    prints(running, "1.3932 1.8188 2.1763 2.3984 2.5053")
    prints(walk(10, 1.0, half_tanh, add=True)[2][-1], "2.576")
    prints(walk(20, 1.0, half_tanh, add=True)[2][-1], "2.577")


def test_S04_ten_linear_layers_explode(prints):
    prints(walk(10, 1.0, lambda x: x * 0.5, add=True)[2][-1], "57.7")
    np.testing.assert_allclose(walk(10, 1.0, lambda x: x * 0.5, add=False)[2][-1], 0.5**10, rtol=1e-12)


@pytest.mark.parametrize("order", ["pre", "both"])
@pytest.mark.parametrize("layer_scale", [None, 0.01])
@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_S06_the_stream_is_the_embedding_plus_every_update(order, layer_scale, positions):
    config = DecoderConfig(17, 8, 3, 2, n_embd=8, norm_order=order, layer_scale=layer_scale, positions=positions, init_std=0.5)
    model = Decoder(config, np.random.default_rng(0)).double()
    states, updates = {}, {}
    writers = (
        ("attn_scale", "ffn_scale") if layer_scale else ("attn_after", "ffn_after") if order == "both" else ("attn", "ffn")
    )
    for name, module in model.named_modules():
        if name.endswith(tuple(f".{w}" for w in writers)):
            module.register_forward_hook(lambda m, args, out, name=name: updates.__setitem__(name, out))
    model.blocks[0].register_forward_pre_hook(lambda m, args: states.__setitem__("start", args[0]))
    model.blocks[-1].register_forward_hook(lambda m, args, out: states.__setitem__("end", out))
    hidden = model.hidden(np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]]))

    assert list(updates) == [f"blocks.{i}.{w}" for i in range(3) for w in writers]
    total = states["start"]
    for update in updates.values():
        assert update.array.any()
        total = total + update
    np.testing.assert_allclose(total.array, states["end"].array, rtol=0, atol=1e-14)
    np.testing.assert_array_equal(F.layer_norm(states["end"], 8, model.norm.weight).array, hidden.array)
