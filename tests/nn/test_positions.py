"""Every kind of positions: what its hooks give, its gradients, its map, and that the three hooks are all there is."""

import math
import tracemalloc

import numpy as np
import pytest

from tinygrad_tf import Tensor, composed, nn
from tinygrad_tf.check import gradcheck
from tinygrad_tf.engine import history
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.nn.positions import alibi_slopes, gaps, slowed

H, D, T = 4, 6, 7
d = H * D
KINDS = {
    "sinusoidal": lambda: nn.SinusoidalPositions(d),
    "sinusoidal halves": lambda: nn.SinusoidalPositions(d, halves=True),
    "learned": lambda: nn.LearnedPositions(16, d),
    "rotary": lambda: nn.Rotary(D),
    "rotary interleaved": lambda: nn.Rotary(D, interleaved=True),
    "rotary linear": lambda: nn.Rotary(D, scaling="linear", factor=4),
    "rotary ntk": lambda: nn.Rotary(D, scaling="ntk", factor=4),
    "rotary llama3": lambda: nn.Rotary(D, scaling="llama3", factor=8, original=32),
    "t5": lambda: nn.T5Bias(H, buckets=8, max_distance=16),
    "t5 two-sided": lambda: nn.T5Bias(H, two_sided=True, buckets=8, max_distance=16),
    "alibi": lambda: nn.ALiBi(H),
}
ADD, TURN, BIAS = ["sinusoidal", "sinusoidal halves", "learned"], [k for k in KINDS if k.startswith("rotary")], ["alibi"]
BIAS += [k for k in KINDS if k.startswith("t5")]
each_kind = pytest.mark.parametrize("kind", KINDS)


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


@each_kind
def test_each_kind_fills_in_one_hook_and_leaves_the_others(kind):
    positions, x, q = KINDS[kind]().double(), Tensor(random(2, T, d)), Tensor(random(2, H, T, D))
    told = [positions.add(x, 2) is not x, positions.turn(q, 2) is not q, positions.bias(T, T) is not None]
    assert told == [kind in ADD, kind in TURN, kind in BIAS]
    assert sum(told) == 1
    assert isinstance(positions, nn.Positions)


@each_kind
@pytest.mark.parametrize("start", [0, 3])
def test_the_gradient_of_what_it_does(kind, start):
    positions = KINDS[kind]().double()
    if kind in ADD:
        assert gradcheck(lambda x: positions.add(x, start), [Tensor(random(2, 3, d), requires_grad=True), positions])
    elif kind in TURN:
        assert gradcheck(lambda x: positions.turn(x, start), [Tensor(random(2, H, 3, D), requires_grad=True)])
    elif list(positions.parameters()):
        weights = Tensor(random(H, 3, 3 + start))
        assert gradcheck(lambda: positions.bias(3, 3 + start, start) * weights, [positions])


@each_kind
@pytest.mark.parametrize("inside", [False, True])
def test_the_gradient_through_attention(kind, inside):
    """The parameters of the positions get theirs, and those of the layer, by the fused ops and by their twins."""
    positions = KINDS[kind]()
    layer = nn.MultiHeadAttention(d, H, 2, positions=positions).double()
    x = Tensor(random(1, 3, d), requires_grad=True)
    probe = Tensor(random(1, 3, d, seed=1))

    def run(x):
        if not inside:
            return layer(positions.add(x, 0), causal=True)
        with composed():
            return layer(positions.add(x, 0), causal=True)

    assert gradcheck(lambda x: (run(x) * probe).sum(), [x, positions])
    run(x).sum().backward()
    assert all(p.grad is not None for p in [*positions.parameters(), *layer.parameters()])


@each_kind
def test_the_map_is_what_the_hook_uses(kind):
    positions = KINDS[kind]().double()
    drawn = positions.map(T)
    assert type(drawn) is np.ndarray
    if kind in ADD:
        zero = Tensor(np.zeros((1, T, d)))
        np.testing.assert_allclose(positions.add(zero).array[0], drawn, atol=1e-15)
    elif kind in TURN:
        ones = Tensor(np.ones((1, 1, T, D)))
        pairs = positions.turn(ones).array[0, 0]
        a, b = (pairs[:, 0::2], pairs[:, 1::2]) if positions.interleaved else (pairs[:, : D // 2], pairs[:, D // 2 :])
        np.testing.assert_allclose((a + b) / 2, drawn, atol=1e-15)  # (cos - sin) + (sin + cos)
    else:
        np.testing.assert_allclose(positions.bias(T, T, 0, np.float64).array, drawn, atol=1e-15)
        assert drawn.shape == (H, T, T)


@each_kind
def test_a_start_continues_where_the_text_stopped(kind):
    positions = KINDS[kind]().double()
    x, q = Tensor(random(1, T, d)), Tensor(random(1, H, T, D))
    np.testing.assert_allclose(positions.add(x[:, 3:], 3).array, positions.add(x).array[:, 3:], atol=1e-14)
    np.testing.assert_allclose(positions.turn(q[:, :, 3:], 3).array, positions.turn(q).array[:, :, 3:], atol=1e-14)
    if kind in BIAS:
        later = positions.bias(T - 3, T, 3, np.float64).array
        np.testing.assert_array_equal(later, positions.bias(T, T, 0, np.float64).array[:, 3:])


@each_kind
def test_float32_stays_float32(kind):
    positions = KINDS[kind]()
    layer = nn.MultiHeadAttention(d, H, positions=positions)
    x = Tensor(random(1, T, d).astype(np.float32), requires_grad=True)
    y = layer(positions.add(x), causal=True)
    y.sum().backward()
    assert y.dtype == x.grad.dtype == np.float32
    assert {p.grad.dtype for p in layer.parameters()} <= {np.dtype(np.float32)}


@pytest.mark.parametrize("kind", [k for k in KINDS if k in TURN + BIAS])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_with_positions_is_pytorchs(oracle, against, kind, causal):
    """scaled_dot_product_attention on queries and keys that were turned, with the bias as a mask of numbers."""
    positions = KINDS[kind]().double()
    layer = nn.MultiHeadAttention(d, H, 2, bias=False, positions=positions).double()
    x = random(2, T, d)
    ours = layer(Tensor(x), causal=causal)

    weights = {name: oracle.from_numpy(p.array) for name, p in layer.named_parameters()}
    split = lambda name, n: (oracle.from_numpy(x) @ weights[name].T).view(2, T, n, D).transpose(1, 2)
    q, k, v = split("q_proj.weight", H), split("k_proj.weight", 2), split("v_proj.weight", 2)
    if kind in TURN:
        turns = oracle.from_numpy(np.exp(1j * positions.angles(np.arange(T))))  # a complex number for each pair

        def turned(y):
            if positions.interleaved:
                return oracle.view_as_real(oracle.view_as_complex(y.reshape(*y.shape[:-1], -1, 2)) * turns).flatten(-2)
            z = oracle.complex(y[..., : D // 2], y[..., D // 2 :]) * turns
            return oracle.cat([z.real, z.imag], -1)

        q, k = turned(q), turned(k)
    bias = oracle.zeros(H, T, T, dtype=oracle.float64)
    if kind in BIAS:
        bias = bias + oracle.from_numpy(positions.map(T))
    if causal:
        bias = bias.masked_fill(oracle.ones(T, T).triu(1).bool(), -math.inf)
    read = oracle.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, enable_gqa=True)
    against.close(ours, read.transpose(1, 2).reshape(2, T, d) @ weights["out_proj.weight"].T, kind)


def buckets_by_search(gap, two_sided, buckets, far):
    """The rule in words: half of the buckets are one distance each; in the others, each is larger than the one before by one
    and the same factor, up to `far`."""
    first = 0
    if two_sided:
        buckets //= 2
        first, gap = (buckets, -gap) if gap < 0 else (0, gap)
    gap, single = max(gap, 0), buckets // 2
    if gap < single:
        return first + gap
    edges = [single * (far / single) ** (i / (buckets - single)) for i in range(1, buckets - single)]
    return first + single + sum(gap >= edge - 1e-9 for edge in edges)


@pytest.mark.parametrize("two_sided", [False, True])
@pytest.mark.parametrize("buckets, far", [(32, 128), (8, 16), (64, 1000)])
def test_T5_buckets(two_sided, buckets, far):
    bias = nn.T5Bias(2, two_sided, buckets, far)
    given = np.arange(-2 * far, 2 * far)
    found = bias.bucket(given)
    assert found.tolist() == [buckets_by_search(int(gap), two_sided, buckets, far) for gap in given]
    assert (found.min(), found.max()) == (0, buckets - 1)
    assert bias.weight.shape == (buckets, 2)


def test_T5_buckets_of_the_published_size():
    """32 buckets, 128 positions, one-sided: singles to 15, then 16-18, 19-20, ..., and everything from 113 on together."""
    bucket = nn.T5Bias(1).bucket(np.arange(200))
    assert bucket[:16].tolist() == list(range(16))
    starts = [int(np.argmax(bucket == b)) for b in range(16, 32)]
    assert starts == [16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]
    assert bucket[199] == 31


@pytest.mark.parametrize("settings", [{"buckets": 6}, {"buckets": 0}, {"buckets": 32, "max_distance": 16}])
def test_T5_buckets_that_cannot_be(settings):
    with pytest.raises(ValueError, match="buckets"):
        nn.T5Bias(1, **settings)


def test_alibi_slopes():
    np.testing.assert_allclose(alibi_slopes(8), 0.5 ** np.arange(1, 9))  # as printed in the paper
    np.testing.assert_allclose(alibi_slopes(16), 0.5 ** (np.arange(1, 17) / 2))
    np.testing.assert_allclose(alibi_slopes(1), [2**-8])
    twelve = alibi_slopes(12)
    np.testing.assert_allclose(twelve[:8], alibi_slopes(8))
    np.testing.assert_allclose(twelve[8:], alibi_slopes(16)[:8:2])
    assert len(set(twelve)) == 12


def decoder(kind, **options):
    config = DecoderConfig(11, 40, n_layer=3, n_head=4, n_embd=16, positions=kind, init_std=0.3, **options)
    return Decoder(config, np.random.default_rng(0)).double()


@pytest.mark.parametrize("kind", ["t5", "alibi"])
def test_what_is_added_to_the_scores_is_made_once_for_all_layers(kind, monkeypatch):
    model, calls = decoder(kind), []
    own = type(model.blocks[0].attn.positions)
    whole = own.bias
    monkeypatch.setattr(own, "bias", lambda *args: calls.append(args[1:4]) or whole(*args))
    assert len({id(block.attn.positions) for block in model.blocks}) == 1
    ids = np.random.default_rng(1).integers(0, 11, (2, 12))
    loss = model.loss(ids, ids)
    assert calls == [(12, 12, 0)]
    if kind == "t5":  # one look-up of the table, for which all layers then send their gradient
        names = [node.op.name for node in history(loss.node)
                 if node.scope is not None and node.scope.path.endswith("positions")]
        assert sorted(names) == ["embedding", "permute"]
    model.eval()
    cache = model.new_cache()
    for t in range(3):
        model(ids[:1, t : t + 1], cache)
    assert calls[1:] == [(1, 1, 0), (1, 2, 1), (1, 3, 2)]


@pytest.mark.parametrize("kind", ["t5", "alibi"])
def test_sharing_changes_no_number(kind, monkeypatch):
    """Against each layer making its own: the same loss, and the table's gradient is the sum over the layers."""
    model = decoder(kind)
    ids = np.random.default_rng(1).integers(0, 11, (2, 12))
    found = []
    for own in (False, True):
        if own:
            monkeypatch.setattr(Decoder, "_bias", lambda *args: None)
        model.zero_grad()
        loss = model.loss(ids, ids)
        loss.backward()
        found.append((loss.item(), {name: p.grad.array.copy() for name, p in model.named_parameters()}))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-14)
    for name, g in found[0][1].items():
        np.testing.assert_allclose(found[1][1][name], g, atol=1e-14, err_msg=name)
    names = [name for name in found[0][1] if "positions" in name]
    assert names == (["blocks.0.attn.positions.weight"] if kind == "t5" else [])


def test_a_layer_with_positions_of_its_own_makes_its_own_bias():
    model = decoder("alibi")
    model.blocks[1].attn.positions = nn.T5Bias(4).double()
    ids = np.array([[1, 2, 3, 4]])
    x = model._embed(ids, 0)
    for block in model.blocks:
        x = block(x, causal=True)
    np.testing.assert_array_equal(model(ids).array, model.lm_head(model.norm(x)).array)


def test_alibi_shows_T_and_S_numbers_a_head_and_copies_none():
    bias = nn.ALiBi(8).bias(500, 700, 200)
    assert bias.shape == (8, 500, 700)
    whole = bias.array
    while whole.base is not None:
        whole = whole.base
    assert whole.nbytes == 8 * 1200 * 4
    assert [nn.ALiBi(2).bias(*shape).shape for shape in ((0, 0), (0, 5, 5), (1, 5, 4))] == [(2, 0, 0), (2, 0, 5), (2, 1, 5)]
    expected = -alibi_slopes(8).astype(np.float32)[:, None, None] * abs(gaps(500, 700, 200)).astype(np.float32)
    np.testing.assert_array_equal(bias.array, expected)


def test_alibi_never_makes_the_matrix_of_all_pairs():
    """Nor its gradient: it has none."""
    layer = nn.MultiHeadAttention(8, 2, positions=nn.ALiBi(2))
    x = Tensor(random(1, 2048, 8).astype(np.float32), requires_grad=True)
    tracemalloc.start()
    try:
        layer(x, causal=True).sum().backward()
        assert tracemalloc.get_traced_memory()[1] < 2 * 2048 * 2048 * 4 / 2, "half of what (H, T, T) of float32 takes"
    finally:
        tracemalloc.stop()


def test_gaps_are_query_minus_key():
    assert gaps(2, 4, 2).tolist() == [[2, 1, 0, -1], [3, 2, 1, 0]]


# ------------------------------------------------------------------------------------------------ scaling of rotary positions


def test_linear_scaling_is_positions_in_between():
    plain, slow = nn.Rotary(8), nn.Rotary(8, scaling="linear", factor=4)
    np.testing.assert_allclose(slow.angles(np.arange(0, 40, 4)), plain.angles(np.arange(10)), rtol=1e-14)


def test_ntk_scaling_is_a_larger_base():
    """The slowest pair slows by the factor, the fastest not at all; that is the base times factor^(D / (D - 2))."""
    plain, slow = nn.Rotary(8), nn.Rotary(8, scaling="ntk", factor=4)
    np.testing.assert_allclose(slow.speeds, nn.Rotary(8, base=10000 * 4 ** (8 / 6)).speeds, rtol=1e-14)
    np.testing.assert_allclose(plain.speeds / slow.speeds, [1, 4 ** (1 / 3), 4 ** (2 / 3), 4], rtol=1e-14)


def test_llama3_scaling_by_its_published_rule():
    """Wavelengths below original / 4 stay, above original slow by the factor, in between a mixture; as published for 3.1."""
    base, factor, original = 500000.0, 8.0, 8192
    speeds = base ** (-np.arange(0, 128, 2) / 128)
    expected = []
    for speed in speeds:
        wavelength = 2 * math.pi / speed
        smooth = (original / wavelength - 1.0) / (4.0 - 1.0)
        mixed = (1 - smooth) * speed / factor + smooth * speed
        expected.append(speed if wavelength < original / 4 else speed / factor if wavelength > original else mixed)
    found = slowed(speeds, "llama3", factor, original)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    assert found[0] == speeds[0]
    np.testing.assert_allclose(found[-1], speeds[-1] / 8, rtol=1e-14)
    assert len(set(np.round(speeds / found, 9))) > 3


def test_an_unknown_scaling():
    with pytest.raises(ValueError, match=r"'yarn' is none of none, linear, ntk, llama3"):
        nn.Rotary(8, scaling="yarn")
    for factor in (0, -1, math.nan):
        with pytest.raises(ValueError, match=f"factor of {factor}"):
            nn.Rotary(8, scaling="linear", factor=factor)


@pytest.mark.parametrize("width, halves", [(3, False), (1, False), (2, True)])
def test_sinusoidal_widths_that_cannot_be(width, halves):
    with pytest.raises(ValueError, match=f"width of {width}"):
        nn.SinusoidalPositions(width, halves=halves)


def test_a_window(oracle, against):
    """As boolean mask: |query - key| < window, with and without the causal one."""
    layer, plain = (nn.MultiHeadAttention(d, H, window=w).double() for w in (3, None))
    plain.load_state_dict(layer.state_dict())
    x = Tensor(random(2, T, d))
    near = abs(gaps(T, T)) < 3
    np.testing.assert_allclose(layer(x).array, plain(x, mask=near).array, atol=1e-14)
    np.testing.assert_allclose(layer(x, causal=True).array, plain(x, mask=near & np.tri(T, dtype=bool)).array, atol=1e-14)
    kept = np.arange(T) < 5
    np.testing.assert_allclose(layer(x, mask=kept).array, plain(x, mask=near & kept).array, atol=1e-14)
    with pytest.raises(ValueError, match="window of 0"):
        nn.MultiHeadAttention(d, H, window=0)


@pytest.mark.parametrize("stride, padding, bias", [(1, 0, True), (1, 1, True), (2, 1, True), (3, 2, False)])
def test_a_convolution_is_pytorchs(oracle, against, dtype, stride, padding, bias):
    ours = nn.Conv1d(3, 5, 4, stride, padding, bias=bias).to(dtype)
    theirs = oracle.nn.Conv1d(3, 5, 4, stride, padding, bias=bias, dtype=getattr(oracle, str(dtype)))
    names = {name: name for name in ("weight", "bias")[: 1 + bias]}
    against.copy_weights(oracle, ours, theirs, names)
    a = random(2, 3, 9).astype(dtype)
    x, x2 = Tensor(a, requires_grad=True), oracle.tensor(a, requires_grad=True)
    y, y2 = ours(x), theirs(x2)
    against.close(y, y2, "output")
    g = random(*y.shape, seed=1).astype(dtype)
    y.backward(g)
    y2.backward(oracle.from_numpy(g))
    against.close(x.grad, x2.grad, "input gradient")
    against.same_gradients(ours, theirs, names)


def test_a_convolution_that_does_not_fit():
    with pytest.raises(ValueError, match=r"\(B, 3, T\), not \(2, 4, 9\)"):
        nn.Conv1d(3, 5, 2)(Tensor(np.zeros((2, 4, 9), np.float32)))
    with pytest.raises(ValueError, match="fewer than a kernel of 4"):
        nn.Conv1d(3, 5, 4)(Tensor(np.zeros((2, 3, 3), np.float32)))
