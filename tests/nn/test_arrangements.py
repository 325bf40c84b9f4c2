"""Encoder, decoder, encoder-decoder and stack, in every arrangement of their blocks: the same sums whichever way they run."""

import contextlib
import math

import numpy as np
import pytest

from tinygrad_tf import Tensor, composed, nn, no_grad
from tinygrad_tf.check import gradcheck
from tinygrad_tf.engine import Node
from tinygrad_tf.models import Decoder, Encoder, EncoderDecoder, Stack, TransformerConfig, build
from tinygrad_tf.nn.transformer import ORDERS, block_of_2017, block_of_gpt2, block_of_llama

V, T, S = 13, 9, 7
SMALL = {"vocab_size": V, "block_size": T, "n_layer": 2, "n_head": 4, "n_embd": 16, "init_std": 0.3}
STYLES = {
    "gpt2": {"ffn": "gelu_tanh", "bias": True},
    "llama": {"norm": "rms", "ffn": "swiglu", "positions": "rotary", "n_kv_head": 2, "tied": False},
    "2017": {"norm_order": "post", "positions": "sinusoidal", "ffn": "relu", "scale_embedding": True, "bias": True},
    "t5": {"norm": "rms", "positions": "t5", "ffn": "relu"},
    "alibi": {"positions": "alibi", "n_kv_head": 1, "norm_order": "both"},
    "window": {"positions": "rotary", "window": 3, "qk_norm": True, "rope_interleaved": True, "norm": "rms"},
    "window and alibi": {"positions": "alibi", "window": 4, "bias": True, "key_bias": False},
    "linear": {"attention": "linear", "n_kv_head": 2, "qk_norm": True, "norm": "rms"},
    "linear, 2017": {"attention": "linear", "norm_order": "post", "positions": "sinusoidal", "bias": True},
    "parallel": {"parallel": True, "positions": "rotary", "layer_scale": 0.5, "rope_scaling": "ntk", "rope_factor": 2.0},
    "parallel, norms on both sides": {"parallel": True, "norm_order": "both", "norm_bias": True},
    "parallel, post-norm": {"parallel": True, "norm_order": "post", "final_norm": True},
    "scaled": {"layer_scale": 0.01, "norm_order": "both", "positions": "sinusoidal_halves", "embedding_norm": True},
}
LEFT_TO_RIGHT = pytest.mark.parametrize("style", STYLES)
TWO_SIDED = pytest.mark.parametrize("style", [name for name in STYLES if "parallel" not in name])


def made(style, arrangement="decoder", **options):
    config = TransformerConfig(**{**SMALL, **STYLES[style], "arrangement": arrangement, **options})
    return build(config, np.random.default_rng(0))


def ids(*shape, seed=1):
    return np.random.default_rng(seed).integers(0, V, shape)


def vectors(*shape, seed=1, dtype=np.float64):
    return Tensor(np.random.default_rng(seed).standard_normal(shape).astype(dtype))


# ------------------------------------------------------------------------------------------------ three blocks, and all others


def test_three_famous_blocks_are_what_the_configurations_make():
    """One composition each; the models made from a configuration have the same block, name by name and bit by bit."""
    famous = {
        "2017": (block_of_2017(16, 4), {"norm_order": "post", "ffn": "relu", "bias": True, "arrangement": "encoder"}),
        "gpt2": (block_of_gpt2(16, 4), {"ffn": "gelu_tanh", "bias": True}),
        "llama": (block_of_llama(16, 4, 2, 24), {**STYLES["llama"], "n_hidden": 24}),
    }
    for block, options in famous.values():
        other = build(TransformerConfig(**{**SMALL, **options}), np.random.default_rng(0)).blocks[0]
        other.load_state_dict(block.state_dict())
        x = vectors(2, T, 16, dtype=np.float32)
        assert other(x, causal=True).array.tobytes() == block(x, causal=True).array.tobytes()
        assert other.plan == block.plan
        assert [name for name, _ in other.named_modules()] == [name for name, _ in block.named_modules()]


def test_the_paths_of_a_block():
    names = dict(made("scaled", "encoder-decoder").decoder.blocks[0].named_children())
    assert [name for name in names if name.startswith("cross")] == ["cross_norm", "cross", "cross_after", "cross_scale"]
    parts = ("_norm", "", "_after", "_scale")
    assert list(names) == [f"{branch}{part}" for branch in ("attn", "cross", "ffn") for part in parts]
    assert [name for name, _ in made("parallel").blocks[0].named_children()] == [
        "attn_norm", "attn", "attn_scale", "ffn", "ffn_scale"]  # fmt: skip


@pytest.mark.parametrize("order", ORDERS)
def test_parallel_branches_read_the_same_and_both_write(order):
    norm = lambda: nn.RMSNorm(8)
    parts = {"attn": nn.MultiHeadAttention(8, 2), "ffn": nn.FeedForward(8, 12)}
    block = nn.Block(ORDERS[order](norm, **parts)).double()
    x = vectors(2, 5, 8)
    read = x if order == "post" else block.attn_norm(x)
    after = [getattr(block, f"{name}_after") if order == "both" else lambda y: y for name in parts]
    expected = (x + after[0](block.attn(read))) + after[1](block.ffn(read))
    expected = block.attn_norm(expected) if order == "post" else expected
    assert block(x).equal(expected)
    assert gradcheck(block, [Tensor(x.array[:1, :2], requires_grad=True), block.attn_norm])


def test_every_sum_of_a_block_is_a_residual():
    for style, arrangement in [(s, "decoder") for s in STYLES] + [("scaled", "encoder-decoder"), ("2017", "encoder-decoder")]:
        model = made(style, arrangement)
        model = model.decoder if arrangement == "encoder-decoder" else model
        memory = vectors(1, S, 16, dtype=np.float32) if arrangement == "encoder-decoder" else None
        loss = model.loss(ids(1, T), ids(1, T), memory)
        names, waiting = {}, [loss.node]
        while waiting:
            node = waiting.pop()
            if isinstance(node, Node) and id(node) not in names:
                names[id(node)] = node.op.name
                waiting += node.inputs
        sums = list(names.values()).count("residual")
        assert sums == model.config.n_layer * (3 if memory is not None else 2), style


def test_a_block_with_a_memory_to_read_says_when_there_is_none():
    block = made("gpt2", "encoder-decoder").decoder.blocks[0]
    with pytest.raises(ValueError, match="memory"):
        block(vectors(1, 3, 16, dtype=np.float32))


def test_the_table_of_a_model_names_the_arrangement_of_its_blocks():
    assert "norm on both sides, parallel" in repr(made("parallel, norms on both sides"))
    assert "window=3" in repr(made("window"))
    assert "cross" in repr(made("2017", "encoder-decoder"))


# ------------------------------------------------------------------------------------------------ fused and composed


def runs(style):
    """Each arrangement as a loss of its own: (model, loss())."""
    decoder = made(style).double()
    yield decoder, lambda: decoder.loss(ids(2, T), ids(2, T, seed=2))
    encoder = made(style, "encoder").double()
    yield encoder, lambda: encoder.loss(ids(2, T), ids(2, T, seed=2), mask=np.arange(T) < np.array([[5], [T]]))
    stack = made(style, "stack", vocab_size=None).double()
    yield stack, lambda: (stack(vectors(2, T, 16), causal=True) * vectors(2, T, 16, seed=3)).mean()
    if "parallel" not in style:
        both = made(style, "encoder-decoder").double()
        mask = np.arange(S) < np.array([[S], [4]])
        yield both, lambda: both.loss(ids(2, S), ids(2, T, seed=2), ids(2, T, seed=3), mask)


@LEFT_TO_RIGHT
def test_composed_is_fused(style):
    for model, loss in runs(style):
        found = []
        for switch in (contextlib.nullcontext, composed):
            model.zero_grad()
            with switch():
                value = loss()
                value.backward()
            found.append((value.item(), {name: p.grad.array for name, p in model.named_parameters()}))
        (one, grads), (other, others) = found
        assert one == pytest.approx(other, rel=1e-12)
        for name, g in grads.items():
            np.testing.assert_allclose(others[name], g, rtol=0, atol=1e-12 * max(1, abs(g).max()), err_msg=name)
            assert g.any() or name.endswith("k_proj.bias"), name  # what adds one number to all scores of a query moves nothing


@LEFT_TO_RIGHT
def test_float32_stays_float32(style):
    for model, loss in runs(style):
        if type(model) is Stack:
            continue  # its inputs are float64 here
        model.float()
        loss().backward()
        assert {p.grad.dtype for p in model.parameters()} == {np.dtype(np.float32)}


# ------------------------------------------------------------------------------------------------ nothing from later


@LEFT_TO_RIGHT
@pytest.mark.parametrize("mode", [contextlib.nullcontext, no_grad, composed])
def test_SM10_changing_a_token_changes_no_earlier_logit(style, mode):
    models = [(made(style), {})]
    if "parallel" not in style:
        models.append((made(style, "encoder-decoder").decoder, {"memory": vectors(1, S, 16, dtype=np.float32)}))
    for model, options in models:
        text = ids(1, T)
        with mode():
            before = model(text, **options).array
            for j in range(T):
                changed = text.copy()
                changed[0, j] = (changed[0, j] + 5) % V
                after = model(changed, **options).array
                assert after[:, :j].tobytes() == before[:, :j].tobytes(), f"token {j} changed an earlier row"
                assert (after[0, j] != before[0, j]).any()


@LEFT_TO_RIGHT
@pytest.mark.parametrize("pieces", [[1] * T, [4, 1, 1, 3], [2, 7]])
def test_cached_is_uncached(style, pieces):
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 2e-4)):
        model = made(style).to(dtype)
        text, whole, cache = ids(2, T), None, model.new_cache(2)
        with no_grad():
            whole = model(text).array
            parts = np.split(text, np.cumsum(pieces)[:-1], axis=1)
            stepped = np.concatenate([model(part, cache=cache).array for part in parts], axis=1)
        np.testing.assert_allclose(stepped, whole, atol=tolerance)
        assert cache.length == T


@TWO_SIDED
@pytest.mark.parametrize("pieces", [[1] * T, [4, 1, 1, 3]])
def test_cached_is_uncached_with_a_memory(style, pieces):
    """And the keys and values of the memory are computed once a layer, at the first call."""
    model = made(style, "encoder-decoder").double()
    mask = np.arange(S) < np.array([[S], [4]])
    source, text, cache, calls = ids(2, S), ids(2, T, seed=2), model.new_cache(2), []
    with no_grad():
        memory = model.encode(source, mask)
        whole = model(source, text, mask).array
        for block in model.decoder.blocks:
            block.cross.k_proj.register_forward_hook(lambda *_: calls.append("k"))
            block.cross.v_proj.register_forward_hook(lambda *_: calls.append("v"))
        stepped = [model.decode(part, memory, mask, cache).array for part in np.split(text, np.cumsum(pieces)[:-1], axis=1)]
    np.testing.assert_allclose(np.concatenate(stepped, axis=1), whole, atol=1e-12)
    assert calls == ["k", "v"] * model.config.n_layer
    assert (cache.length, cache.memory[0].length) == (T, S)
    c = model.config
    kept = 2 * (c.n_kv_head or 4) * 4 * 8  # texts, heads, width, bytes
    own = 2 * min(T, 2 * (c.window or T))  # keys and values; two windows at most
    expected = own + 2 * T if c.attention == "softmax" else 2 * (4 + 1)  # encoder_size is block_size where it is not given
    assert cache.nbytes == c.n_layer * kept * expected


def test_a_stack_streams_as_it_runs_at_once():
    model = made("window", "stack", vocab_size=None).double()
    x, cache = vectors(2, T, 16), model.new_cache(2)
    with no_grad():
        stepped = [model(x[:, t : t + 1], causal=True, cache=cache).array for t in range(T)]
        np.testing.assert_allclose(np.concatenate(stepped, axis=1), model(x, causal=True).array, atol=1e-12)


# ------------------------------------------------------------------------------------------------ padding and sources


@LEFT_TO_RIGHT
def test_padding_changes_nothing_in_an_encoder(style):
    model = made(style, "encoder").double()
    text = ids(2, T)
    mask = np.arange(T) < np.array([[5], [T]])
    y = model(text, mask).array
    np.testing.assert_allclose(y[0, :5], model(text[:1, :5]).array[0], atol=1e-12)
    changed = text.copy()
    changed[0, 5:] = (changed[0, 5:] + 1) % V
    np.testing.assert_array_equal(model(changed, mask).array[:, :5], y[:, :5])


def test_an_encoder_sees_both_ways_and_a_decoder_does_not():
    text = ids(1, T)
    changed = text.copy()
    changed[0, -1] = (changed[0, -1] + 1) % V
    moved = lambda model: (model(text).array != model(changed).array).any(-1)[0]
    assert moved(made("gpt2", "encoder")).all()
    assert moved(made("gpt2")).tolist() == [False] * (T - 1) + [True]


@TWO_SIDED
def test_a_source_reaches_every_word_and_its_padding_none(style):
    model = made(style, "encoder-decoder").double()
    mask = np.arange(S) < np.array([[S], [4]])
    source, text = ids(2, S), ids(2, T, seed=2)
    y = model(source, text, mask).array
    changed = source.copy()
    changed[:, 4:] = (changed[:, 4:] + 1) % V
    after = model(changed, text, mask).array
    assert (after[0] != y[0]).any(-1).all()
    np.testing.assert_array_equal(after[1], y[1])


def test_tied_matrices_are_one_tensor():
    model = made("2017", "encoder-decoder")
    table = model.encoder.token_embedding.weight
    assert table is model.decoder.token_embedding.weight is model.decoder.lm_head.weight
    assert made("llama", "encoder-decoder").decoder.lm_head.weight is not made("llama").token_embedding.weight
    encoder = made("gpt2", "encoder")
    assert encoder.lm_head.weight is encoder.token_embedding.weight
    blocks = made("t5").blocks
    assert blocks[0].attn.positions is blocks[1].attn.positions
    two_sided = [made("t5", a).blocks[0].attn.positions.two_sided for a in ("decoder", "encoder")]
    assert two_sided == [False, True]


def test_segments_and_the_pooler():
    model = made("gpt2", "encoder", n_segment=2, pooler=True, embedding_norm=True)
    text, segments = ids(1, T), np.array([[0] * 4 + [1] * 5])
    assert model(text).equal(model(text, segments=np.zeros((1, T), int)))
    assert not model(text).allclose(model(text, segments=segments))
    first = model.hidden(text, segments=segments).array[:, 0]
    expected = np.tanh(first @ model.pooler.weight.array.T + model.pooler.bias.array)
    np.testing.assert_allclose(model.pooled(text, segments=segments).array, expected, atol=1e-6)
    with pytest.raises(ValueError, match="pooler=False"):
        made("gpt2", "encoder").pooled(text)


def test_a_spectrogram_in_place_of_a_source():
    model = made("gpt2", "encoder-decoder", n_mels=6, encoder_size=10, encoder_positions="sinusoidal_halves")
    sound = vectors(2, 6, 20, dtype=np.float32)
    assert model.encode(sound).shape == (2, 10, 16)
    assert model(sound, ids(2, T)).shape == (2, T, V)
    assert model.encoder.token_embedding is None
    with pytest.raises(ValueError, match=r"11 tokens.*block_size=10"):
        model.encode(vectors(1, 6, 22, dtype=np.float32))


# ------------------------------------------------------------------------------------------------ what cannot be


@pytest.mark.parametrize("field, options", [
    ("arrangement", {"arrangement": "prefix"}), ("vocab_size", {"arrangement": "encoder", "vocab_size": None}),
    ("window", {"window": 0}), ("window", {"window": 2.5}), ("positions", {"positions": "relative"}),
    ("encoder_positions", {"arrangement": "encoder-decoder", "encoder_positions": "absolute"}),
    ("encoder_positions", {"encoder_positions": "rotary"}), ("encoder_size", {"encoder_size": 5}),
    ("n_encoder_layer", {"n_encoder_layer": 2}), ("attention", {"attention": "local"}),
    ("window", {"attention": "linear", "window": 3}), ("positions", {"attention": "linear", "positions": "alibi"}),
    ("positions", {"attention": "linear", "positions": "t5", "arrangement": "encoder"}),
    ("positions", {"attention": "linear", "positions": "rotary"}),
    ("encoder_positions", {"attention": "linear", "arrangement": "encoder-decoder", "encoder_positions": "t5"}),
    ("n_encoder_layer", {"arrangement": "encoder-decoder", "n_encoder_layer": 0}),
    ("n_mels", {"n_mels": 80}), ("pooler", {"pooler": True}), ("n_segment", {"n_segment": 2}),
    ("n_segment", {"arrangement": "encoder", "n_segment": -1}),
    ("parallel", {"arrangement": "encoder-decoder", "parallel": True}),
    ("rope_scaling", {"rope_scaling": "yarn"}), ("rope_factor", {"rope_factor": 0.0}),
    ("rope_factor", {"rope_factor": math.nan}),
    ("rope_original", {"rope_original": 0}), ("norm_eps", {"norm_eps": -1e-5}), ("norm_eps", {"norm_eps": math.inf}),
    ("positions", {"positions": "sinusoidal", "n_head": 3, "n_embd": 9}), ("n_layer", {"n_layer": None}),
    ("bias", {"bias": "no"}), ("tied", {"tied": 1}), ("dropout", {"dropout": "x"}), ("init_std", {"init_std": True}),
])  # fmt: skip
def test_a_configuration_names_the_field_that_cannot_be(field, options):
    with pytest.raises(ValueError, match=rf"\b{field}\b"):
        TransformerConfig(**{**SMALL, **options})


@pytest.mark.parametrize("kind, arrangement", [
    (Decoder, "encoder"), (Encoder, "decoder"), (EncoderDecoder, "encoder"), (Decoder, "stack"), (Stack, "decoder"),
])  # fmt: skip
def test_a_model_of_another_arrangement(kind, arrangement):
    config = TransformerConfig(**{**SMALL, "arrangement": arrangement})
    with pytest.raises(ValueError, match=f"arrangement='{arrangement}'"):
        kind(config)


@pytest.mark.parametrize("mask", [np.ones((2, T)), np.ones(T, bool), np.ones((2, 1, T), bool)])
def test_a_padding_mask_of_another_shape_or_kind(mask):
    with pytest.raises(ValueError, match="true where a token stands"):
        made("gpt2", "encoder")(ids(2, T), mask)


def test_the_two_sides_of_a_configuration():
    config = TransformerConfig(V, 8, 4, arrangement="encoder-decoder", n_encoder_layer=2, encoder_size=20,
                               encoder_positions="sinusoidal")  # fmt: skip
    left, right = config.encoder_side(), config.decoder_side()
    assert (left.arrangement, left.n_layer, left.block_size, left.positions) == ("encoder", 2, 20, "sinusoidal")
    assert (right.arrangement, right.n_layer, right.block_size, right.positions) == ("decoder", 4, 8, "learned")
