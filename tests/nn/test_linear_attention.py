"""S35: linear attention, the same layer with another mixing rule."""

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn, no_grad, optim
from tinygrad_tf.beam import beam_search
from tinygrad_tf.check import gradcheck, gradgradcheck
from tinygrad_tf.engine import state
from tinygrad_tf.generate import GenerationStats, generate
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn.linear_attention import LinearMix, features
from tinygrad_tf.pretrained import export

SHAPES = {  # B, H, G, T, S, D, E, chunk
    "one chunk": (2, 4, 4, 5, 5, 3, 3, 8),
    "chunks of several": (2, 4, 2, 12, 12, 3, 5, 4),
    "the last one short": (1, 4, 1, 10, 10, 2, 2, 4),
    "one position a chunk": (1, 2, 2, 5, 5, 3, 2, 1),
    "keys from before": (2, 2, 1, 7, 12, 4, 3, 3),
    "one of everything": (1, 1, 1, 1, 1, 1, 1, 64),
}
each_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
both_forms = pytest.mark.parametrize("causal", [True, False])


def arrays(shape, dtype=np.float64, low=0.1):
    b, h, g, t, s, d, e, _ = shape
    rng = np.random.default_rng(0)
    return [rng.uniform(low, 1.5, size).astype(dtype) for size in ((b, h, t, d), (b, g, s, d), (b, g, s, e))]


def by_pairs(q, k, v, causal):
    """The same numbers from the matrix of all weights."""
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    w = q @ k.swapaxes(-1, -2)
    if causal:
        w = np.tril(w, k.shape[2] - q.shape[2])
    total = w.sum(-1, keepdims=True)
    return w @ v / np.where(total == 0, 1, total)


@each_shape
@both_forms
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_S35_equals_its_quadratic_form(shape, causal, dtype):
    q, k, v = arrays(shape, dtype)
    y = LinearMix(shape[-1])(Tensor(q), Tensor(k), Tensor(v), causal)
    assert y.dtype == dtype
    np.testing.assert_allclose(y.array, by_pairs(q, k, v, causal), rtol=1e-12 if dtype == np.float64 else 3e-6)


@each_shape
@both_forms
def test_S35_gradients(shape, causal):
    leaves = [Tensor(a, requires_grad=True) for a in arrays(shape)]
    assert gradcheck(lambda q, k, v: LinearMix(shape[-1])(q, k, v, causal), leaves)


@both_forms
def test_S35_second_derivatives(causal):
    leaves = [Tensor(a, requires_grad=True) for a in arrays((1, 2, 1, 3, 3, 2, 2, 2))]
    assert gradgradcheck(lambda q, k, v: LinearMix(2)(q, k, v, causal), leaves)


@each_shape
@both_forms
def test_S35_a_query_that_weighs_nothing_gives_zeros_and_sends_none_back(shape, causal):
    q, k, v = (Tensor(a, requires_grad=True) for a in arrays(shape))
    q.array[:, :, 0] = 0
    y = LinearMix(shape[-1])(q, k, v, causal)
    assert not y.array[:, :, 0].any()
    y[:, :, 0].sum().backward()
    assert not any(x.grad.array.any() for x in (k, v))
    assert np.isfinite(q.grad.array).all()


def test_S35_features_are_elu_plus_one():
    x = np.array([-30.0, -2, -0.5, 0, 0.5, 3])
    np.testing.assert_allclose(features(Tensor(x)).array, np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))), rtol=1e-15)
    t = Tensor(x, requires_grad=True)
    features(t).sum().backward()
    np.testing.assert_allclose(t.grad.array, np.where(x > 0, 1, np.exp(np.minimum(x, 0))), rtol=1e-15)  # smooth at 0 too


def test_S35_the_empty_text():
    for causal in (True, False):
        y = LinearMix()(*(Tensor(np.zeros((2, h, 0, 3))) for h in (4, 2, 2)), causal)
        assert y.shape == (2, 4, 0, 3)


# ------------------------------------------------------------------------------------------------ causality and cost


@pytest.mark.parametrize("chunk", [1, 4, 5, 64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_S35_changing_a_token_changes_nothing_before_it_bit_for_bit(chunk, dtype):
    q, k, v = arrays((1, 2, 2, 13, 13, 4, 4, chunk), dtype)
    run = lambda: LinearMix(chunk)(Tensor(q), Tensor(k), Tensor(v), True).array
    before = run()
    for j in range(13):
        saved = [x[:, :, j].copy() for x in (q, k, v)]
        for x in (q, k, v):
            x[:, :, j] *= 3
        after = run()
        assert after[:, :, :j].tobytes() == before[:, :, :j].tobytes()
        assert (after[:, :, j:] != before[:, :, j:]).any(axis=(0, 1, 3)).all()
        for x, old in zip((q, k, v), saved):
            x[:, :, j] = old


@pytest.mark.parametrize("chunk", [1, 4, 64])
def test_S35_gradients_do_not_flow_backward_in_time(chunk):
    for i in (0, 5, 12):
        q, k, v = (Tensor(a, requires_grad=True) for a in arrays((1, 2, 2, 13, 13, 4, 4, chunk)))
        LinearMix(chunk)(q, k, v, True)[:, :, i].sum().backward()
        for x in (k, v):
            assert not x.grad.array[:, :, i + 1 :].any()
        assert v.grad.array[:, :, : i + 1].all()
        assert not q.grad.array[:, :, np.arange(13) != i].any()


def test_S35_the_work_grows_with_T_and_there_is_no_loop_over_positions():
    """Counted, not timed: how many ops run, and how many numbers they make and multiply."""

    def counted(t):
        ops, numbers = 0, 0

        def observe(node, value):
            nonlocal ops, numbers
            ops, numbers = ops + 1, numbers + value.size

        q, k, v = (Tensor(a, requires_grad=True) for a in arrays((1, 2, 2, t, t, 8, 8, 0)))
        state.observer = observe
        try:
            LinearMix(16)(q, k, v, True)
        finally:
            state.observer = None
        return ops, numbers

    sizes = [counted(t) for t in (64, 128, 256, 512)]
    assert len({ops for ops, _ in sizes}) == 1
    steps = np.diff([numbers for _, numbers in sizes])
    np.testing.assert_allclose(steps[1:] / steps[:-1], 2)  # twice as far, twice as much: a straight line


# ------------------------------------------------------------------------------------------------ the layer


def layer(**options):
    return nn.LinearAttention(12, 4, generator=np.random.default_rng(2), **options).double()


def inputs(b=2, t=9, d=12, seed=3):
    return np.random.default_rng(seed).standard_normal((b, t, d))


@pytest.mark.parametrize("options", [{}, {"n_kv_head": 1, "bias": False}, {"positions": nn.Rotary(6), "qk_norm": True}])
def test_S35_the_same_projections_as_softmax_attention(options):
    ours, softmax = (kind(12, 2, **options) for kind in (nn.LinearAttention, nn.MultiHeadAttention))
    assert [(n, p.shape) for n, p in ours.named_parameters()] == [(n, p.shape) for n, p in softmax.named_parameters()]
    ours.load_state_dict(softmax.state_dict())
    ours.double()
    assert gradcheck(lambda x: ours(x, causal=True), [Tensor(inputs(1, 4), requires_grad=True), ours])


def test_S35_by_hand_through_the_layer():
    attn = layer()
    x = inputs()
    heads = lambda p: (x @ p.weight.array.T + p.bias.array).reshape(2, 9, 4, 3).swapaxes(1, 2)
    phi = lambda z: np.where(z > 0, z + 1, np.exp(np.minimum(z, 0)))
    for causal in (True, False):
        read = by_pairs(phi(heads(attn.q_proj)), phi(heads(attn.k_proj)), heads(attn.v_proj), causal)
        expected = read.swapaxes(1, 2).reshape(2, 9, 12) @ attn.out_proj.weight.array.T + attn.out_proj.bias.array
        np.testing.assert_allclose(attn(Tensor(x), causal=causal).array, expected, rtol=1e-11)


def test_S35_masked_keys_are_as_if_they_were_not_there():
    attn, x = layer(n_kv_head=2), inputs()
    held = np.arange(9) < np.array([[6], [9]])
    y = attn(Tensor(x), mask=held[:, None, None, :]).array
    np.testing.assert_allclose(y[0, :6], attn(Tensor(x[:1, :6])).array[0], rtol=1e-12)
    np.testing.assert_allclose(y[1], attn(Tensor(x[1:])).array[0], rtol=1e-12)
    both = attn(Tensor(x), mask=held[:, None, None, :], causal=True).array
    np.testing.assert_allclose(both[0, :6], attn(Tensor(x[:1, :6]), causal=True).array[0], rtol=1e-12)
    one = attn(Tensor(x), mask=held[0]).array[1]
    np.testing.assert_allclose(one, attn(Tensor(x[1:]), mask=held[:1]).array[0], rtol=1e-12, atol=1e-15)

    nothing = Tensor(x, requires_grad=True)
    out = attn(nothing, mask=np.zeros(9, bool))
    np.testing.assert_array_equal(out.array, np.broadcast_to(attn.out_proj.bias.array, out.shape))
    out.sum().backward()
    assert not nothing.grad.array.any()


def test_S35_dropout_acts_on_the_output():
    attn, x = layer(dropout=0.5), Tensor(inputs())
    assert (attn(x).array == 0).mean() == pytest.approx(0.5, abs=0.15)
    np.testing.assert_array_equal(attn.eval()(x).array, layer()(x).array)


def test_S35_cross_attention():
    attn, x, memory = layer(), inputs(), inputs(t=5, seed=4)
    whole = attn(Tensor(x), Tensor(memory)).array
    cache = attn.new_cache(2, np.float64)
    for t in range(9):  # the memory is taken in at the first call alone
        step = attn(Tensor(x[:, t : t + 1]), Tensor(memory), cache=cache).array
        np.testing.assert_allclose(step, whole[:, t : t + 1], rtol=1e-11)
    assert cache.length == 5


def test_S35_what_has_no_linear_form_is_refused():
    x = Tensor(inputs())
    for mask in (np.tri(9, dtype=bool), np.ones((2, 4, 1, 9), bool), np.zeros(9)):
        with pytest.raises(ValueError, match="a mask of keys"):
            layer()(x, mask=mask)
    with pytest.raises(ValueError, match="ALiBi adds to scores"):
        layer(positions=nn.ALiBi(4))(x)
    with pytest.raises(ValueError, match="9 queries need 9 keys or more"):
        layer()(x, Tensor(inputs(t=5)), causal=True)
    with pytest.raises(ValueError, match="window=3"):
        layer(window=3)
    attn = layer()
    with pytest.raises(ValueError, match="do not fit a state"):
        attn(x, cache=attn.new_cache(3, np.float64))


# ------------------------------------------------------------------------------------------------ step by step


@pytest.mark.parametrize("pieces", [[1] * 12, [5, 1, 1, 5], [12]])
@pytest.mark.parametrize("options", [{}, {"n_kv_head": 1, "positions": nn.Rotary(4), "qk_norm": True}])
def test_S35_the_recurrent_form_agrees_at_every_step(pieces, options):
    attn = nn.LinearAttention(16, 4, generator=np.random.default_rng(2), **options).double()
    x, start, cache, sizes = inputs(t=12, d=16), 0, attn.new_cache(2, np.float64), set()
    whole = attn(Tensor(x), causal=True).array
    ordinary = nn.LayerCache(2, attn.n_kv_head, 12, 4, np.float64)
    for n in pieces:
        piece = Tensor(x[:, start : start + n])
        for each in (cache, ordinary):  # that of softmax attention does as well; it grows
            np.testing.assert_allclose(attn(piece, causal=True, cache=each).array, whole[:, start : start + n], rtol=1e-10)
        start += n
        sizes.add(cache.nbytes)
    assert cache.length == 12
    assert sizes == {2 * attn.n_kv_head * 4 * (4 + 1) * 8}  # texts, heads, D rows of E + 1 numbers: however long the text


@pytest.mark.parametrize("pieces", [[1] * 9, [4, 1, 4]])
def test_S35_a_masked_key_is_left_out_of_the_state(pieces):
    """At the call that brings it; a mask is for all positions so far, as softmax attention takes it."""
    attn, x, start = layer(n_kv_head=2), inputs(), 0
    mask = np.ones((2, 1, 1, 9), bool)
    mask[0, ..., :3] = False
    cache = attn.new_cache(2, np.float64)
    whole = attn(Tensor(x), mask=mask, causal=True).array
    for n in pieces:
        step = attn(Tensor(x[:, start : start + n]), mask=mask[..., : start + n], causal=True, cache=cache).array
        np.testing.assert_allclose(step, whole[:, start : start + n], rtol=1e-10)
        start += n
    np.testing.assert_allclose(whole[0, 3:], attn(Tensor(x[:1, 3:]), causal=True).array[0], rtol=1e-10)


KINDS = ("learned", "sinusoidal", "sinusoidal_halves", "none")


@pytest.mark.parametrize("positions", KINDS)
def test_S35_a_decoder_of_it_goes_on_from_a_state_of_constant_size(positions):
    config = DecoderConfig(13, block_size=20, n_layer=2, n_head=2, n_embd=16, init_std=0.3, positions=positions,
                           attention="linear")  # fmt: skip
    model = Decoder(config, np.random.default_rng(0)).double().eval()
    assert all(type(block.attn) is nn.LinearAttention for block in model.blocks)
    ids = np.random.default_rng(1).integers(0, 13, (2, 20))
    cache = model.new_cache(2)
    sizes = {cache.nbytes}
    with no_grad():
        whole = model(ids).array
        for t in range(20):
            np.testing.assert_allclose(model(ids[:, t : t + 1], cache=cache).array[:, 0], whole[:, t], atol=1e-12)
            sizes.add(cache.nbytes)
    assert sizes == {2 * 2 * 2 * 8 * (8 + 1) * 8}  # layers, texts, heads, D rows of E + 1 numbers, bytes
    assert cache.length == 20


def test_S35_generation_keeps_the_state_and_no_keys():
    """Twice the context, the same memory; and each new token goes through the model alone."""
    for size in (16, 32):
        config = DecoderConfig(13, block_size=size, n_layer=2, n_head=2, n_embd=16, init_std=0.3, positions="none",
                               attention="linear")  # fmt: skip
        model, stats = Decoder(config, np.random.default_rng(0)), GenerationStats()
        found = list(generate(model, [1, 2, 3], size - 3, temperature=0, stats=stats))
        assert found == list(generate(model, [1, 2, 3], size - 3, temperature=0, cache=False))
        assert stats.cache_bytes == 2 * 2 * 8 * (8 + 1) * 4
        assert (stats.computed, stats.recomputed) == (size - 1, 0)


def test_S35_a_beam_takes_its_states_along():
    config = DecoderConfig(7, block_size=12, n_layer=2, n_head=2, n_embd=16, init_std=0.5, attention="linear")
    model = Decoder(config, np.random.default_rng(0))
    texts = [[each.ids for each in beam_search(model, [1, 2], 6, end=0, width=3, cache=cache)] for cache in (True, False)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize("layout", ["gpt2", "llama"])
def test_S35_a_public_layout_has_no_place_for_it(layout, tmp_path):
    model = Decoder(DecoderConfig(13, 8, n_layer=1, n_head=2, n_embd=16, attention="linear"))
    with pytest.raises(ValueError, match="no place for .*attention='linear'"):
        export(model, tmp_path / "out", layout)


# ------------------------------------------------------------------------------------------------ the experiment


def trained_to_copy(kind, length, steps=300, tokens=16):
    """One layer, four heads of width 4: tokens, and then the same again. The share of the second half that it gets right."""
    generator = np.random.default_rng(1)
    options = {"block_size": 2 * length, "n_layer": 1, "n_head": 4, "n_embd": 16}
    model = Decoder(DecoderConfig(tokens, **options), np.random.default_rng(0))
    if kind is nn.LinearAttention:
        model.blocks[0].attn = kind(16, 4, bias=False, generator=np.random.default_rng(5))
    optimizer = optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0)

    def answers(texts, generator):
        words = generator.integers(0, tokens, (texts, length))
        return model(np.concatenate([words, words], 1)[:, :-1])[:, length - 1 :], words

    for _ in range(steps):
        logits, words = answers(32, generator)
        loss = F.cross_entropy(logits.reshape(-1, tokens), words.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    with no_grad():
        logits, words = answers(200, np.random.default_rng(2))
    return float((logits.array.argmax(-1) == words).mean())


@pytest.mark.slow
def test_S35_copying_softmax_attention_wins_once_the_text_is_longer_than_the_state():
    """A head's 4 x 4 matrix holds four tokens easily; thirty-two do not fit, while softmax attention can still point at one."""
    assert trained_to_copy(nn.LinearAttention, 4) > 0.99
    assert trained_to_copy(nn.LinearAttention, 32) < 0.5
    assert trained_to_copy(nn.MultiHeadAttention, 32) > 0.99
