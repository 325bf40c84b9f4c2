"""S15 to S19: what one position can do on its own, and the norms that stand before it."""

import math

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn
from tinygrad_tf import tensor as t
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn.transformer import ORDERS


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def test_S15_one_hidden_unit_adds_the_excess():
    rule = nn.FeedForward(2, 1, "relu", bias=False).double()
    rule.up.weight.data = np.array([[-1.0, 1.0]])  # q - p
    rule.down.weight.data = np.array([[1.0], [0.0]])  # written to p
    assert nn.Residual(rule)(t(np.array([3 / 4, 7 / 4]))).tolist() == [7 / 4, 7 / 4]
    assert nn.Residual(rule)(t(np.array([7 / 4, 3 / 4]))).tolist() == [7 / 4, 3 / 4]  # no excess, no change

    collapsed = rule.down.weight.array @ rule.up.weight.array  # what is left of the two maps without ReLU
    x = random(5, 2)
    np.testing.assert_allclose(rule.down(rule.up(Tensor(x))).array, x @ collapsed.T, rtol=1e-14)
    one_sided = rule(Tensor(np.array([[0.0, 1.0], [0.0, -1.0]]))).array
    assert one_sided.tolist() == [[1, 0], [0, 0]]  # no matrix sends x and -x to these


W1 = np.array([[1.0, 0, 1, -1], [0, 1, 1, 1]])
W2 = np.array([[1.0, 0], [0, 1], [0.5, 0.5], [-1, 1]])


def widened(kind, last_bias=0.5):
    """(hidden sums, activated, output) of x = (1, -1)."""
    network = nn.FeedForward(2, 4, kind).double()
    network.up.weight.data, network.up.bias.data = W1.T, np.array([0, 0, 0, last_bias])
    network.down.weight.data, network.down.bias.data = W2.T, np.zeros(2)
    seen = []
    network.up.register_forward_hook(lambda m, args, out: seen.append(out.array))
    network.down.register_forward_pre_hook(lambda m, args: seen.append(args[0].array))
    seen.append(network(t(np.array([1.0, -1.0]))).array)
    return seen


def test_S16_widen_activate_narrow(prints):
    hidden, active, out = widened("relu")
    assert hidden.tolist() == [1, -1, 0, -1.5]
    assert active.tolist() == [1, 0, 0, 0]
    assert out.tolist() == [1, 0]

    hidden, active, out = widened("gelu")
    assert hidden.tolist() == [1, -1, 0, -1.5]
    prints(active, "0.841 -0.159 0.000 -0.100")
    prints(out, "0.942 -0.259")

    hidden, active, out = widened("relu", last_bias=2.5)
    assert hidden.tolist() == [1, -1, 0, 0.5]
    assert out.tolist() == [0.5, 0.5]


def test_S17_gelu(prints):
    x = t(np.array([1.0, -1.0, 2.0]))
    prints(F.gelu(x)[:2], "0.841 -0.159")
    prints(F.gelu(x, "tanh"), "0.841 -0.159 1.955")
    prints(F.gelu(x)[2], "1.9545")  # 1.95449974: the article's 1.955 is this rounded twice
    exact = [v * 0.5 * (1 + math.erf(v / math.sqrt(2))) for v in x.tolist()]
    np.testing.assert_allclose(F.gelu(x).array, exact, rtol=1e-14)
    tanh = [v * 0.5 * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))) for v in x.tolist()]
    np.testing.assert_allclose(F.gelu(x, "tanh").array, tanh, rtol=1e-14)
    assert 1e-5 < abs(np.subtract(exact, tanh)).max() < 1e-3
    with pytest.raises(ValueError, match="'erf'"):
        F.gelu(x, "erf")


def test_S17_relu_silu_and_the_gated_networks():
    x = t(np.array([[2.0, -3.0]]))
    assert F.relu(x).tolist() == [[2, 0]]
    sigmoid = 1 / (1 + np.exp(-x.array))
    np.testing.assert_allclose(F.silu(x).array, x.array * sigmoid, rtol=1e-14)
    for kind, act in (("swiglu", F.silu), ("geglu", F.gelu)):
        network = nn.FeedForward(2, 3, kind).double()
        by_hand = network.down(act(network.gate(x)) * network.up(x))
        np.testing.assert_allclose(network(x).array, by_hand.array, rtol=1e-14)
        nn.init.zeros_(network.gate.weight)
        nn.init.zeros_(network.gate.bias)
        np.testing.assert_array_equal(network(x).array, network.down.bias.array[None])  # a closed gate lets nothing through


LAYERS = {
    **{
        kind: lambda kind=kind: nn.FeedForward(6, 12, kind)
        for kind in ("relu", "relu2", "gelu", "gelu_tanh", "silu", "swiglu", "geglu")
    },
    "layer norm": lambda: nn.LayerNorm(6),
    "rms norm": lambda: nn.RMSNorm(6),
    "a pre-norm sublayer": lambda: nn.Residual(nn.FeedForward(6, 12), before=nn.LayerNorm(6)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_S18_a_change_in_one_row_stays_in_that_row(name):
    layer = LAYERS[name]()
    x = random(2, 5, 6).astype(np.float32)
    before = layer(Tensor(x)).array
    x[1, 3] += 1
    changed = (layer(Tensor(x)).array != before).any(-1)
    np.testing.assert_array_equal(np.argwhere(changed), [[1, 3]])


def test_S19_layer_norm_centres_and_rms_norm_does_not():
    x = random(4, 6) + 5
    layer, rms = nn.LayerNorm(6, eps=1e-12).double(), nn.RMSNorm(6, eps=1e-12).double()
    n, r = layer(Tensor(x)).array, rms(Tensor(x)).array
    np.testing.assert_allclose(n.mean(-1), 0, atol=1e-14)
    np.testing.assert_allclose(n.std(-1), 1, rtol=1e-10)
    np.testing.assert_allclose((r**2).mean(-1), 1, rtol=1e-10)
    assert (r.mean(-1) > 0.5).all()
    np.testing.assert_allclose(layer(Tensor(x + 3)).array, n, atol=1e-9)
    assert abs(rms(Tensor(x + 3)).array - r).max() > 0.1


def test_S19_gains_and_shifts_are_by_coordinate():
    x = random(3, 4)
    norm = nn.LayerNorm(4).double()
    plain = norm(Tensor(x)).array
    norm.weight.data, norm.bias.data = np.array([1.0, 2, 0, -1]), np.array([0.0, 1, 5, 0])
    np.testing.assert_allclose(norm(Tensor(x)).array, plain * [1, 2, 0, -1] + [0, 1, 5, 0], rtol=1e-14)


@pytest.mark.parametrize("c", [1e-3, 0.5, 2.0, 1e6])
def test_S19_rms_norm_does_not_see_a_positive_factor(c):
    z = random(3, 6)
    norm = nn.RMSNorm(6, eps=1e-30).double()
    np.testing.assert_allclose(norm(Tensor(c * z)).array, norm(Tensor(z)).array, rtol=1e-13)
    np.testing.assert_allclose(norm(Tensor(-z)).array, -norm(Tensor(z)).array, rtol=1e-13)
    gaps = [abs(nn.RMSNorm(6, eps=eps).double()(Tensor(2 * z)).array - nn.RMSNorm(6, eps=eps).double()(Tensor(z)).array).max()
            for eps in (1e-1, 1e-3, 1e-5)]  # fmt: skip
    assert gaps[0] > gaps[1] > gaps[2] > 0  # the limit, from above


@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
def test_S19_three_arrangements_of_one_block(norm):
    x = Tensor(random(1, 5, 8))
    made = {}
    for order, sublayer in ORDERS.items():
        attn, ffn, recipe = nn.MultiHeadAttention(8, 2), nn.FeedForward(8, 16), lambda: norm(8)
        made[order] = nn.Block(sublayer(recipe, attn=attn), sublayer(recipe, ffn=ffn)).double()
    for block in made.values():
        for name, p in made["pre"].named_parameters():
            dict(block.named_parameters())[name].data = p.array
    pre, post, both = made["pre"], made["post"], made["both"]
    h = x + pre.attn(pre.attn_norm(x))
    np.testing.assert_array_equal(pre(x).array, (h + pre.ffn(pre.ffn_norm(h))).array)
    h = post.attn_norm(x + post.attn(x))
    np.testing.assert_array_equal(post(x).array, post.ffn_norm(h + post.ffn(h)).array)
    h = x + both.attn_after(both.attn(both.attn_norm(x)))
    np.testing.assert_array_equal(both(x).array, (h + both.ffn_after(both.ffn(both.ffn_norm(h)))).array)
    assert len({block(x).array.tobytes() for block in made.values()}) == 3
