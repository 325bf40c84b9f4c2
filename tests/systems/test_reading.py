"""S6 and S34: the residual stream by name, heads, logits taken apart, and a model with a part of it taken away."""

import gc

import numpy as np
import pytest

from tinygrad_tf import Tensor, composed, nn, no_grad
from tinygrad_tf.edits import find, head_effects, replaced, zeroed
from tinygrad_tf.engine import Node, state
from tinygrad_tf.generate import generate
from tinygrad_tf.models import Decoder, DecoderConfig, Stack, TransformerConfig, build
from tinygrad_tf.reading import held, read
from tinygrad_tf.writes import attention_maps

SMALL = {"vocab_size": 29, "block_size": 16, "n_layer": 3, "n_head": 4, "n_embd": 24, "init_std": 0.2}
CONFIGS = {
    "gpt2": {**SMALL, "norm": "layer", "ffn": "gelu_tanh", "positions": "learned", "bias": True},
    "modern": {**SMALL, "norm": "rms", "ffn": "swiglu", "positions": "rotary", "n_kv_head": 2, "qk_norm": True, "tied": False},
    "both sides": {**SMALL, "norm": "layer", "norm_order": "both", "n_kv_head": 1, "layer_scale": 0.3, "bias": True},
    "both sides, rms": {**SMALL, "norm": "rms", "norm_order": "both", "positions": "rotary"},
    "parallel": {**SMALL, "norm": "rms", "parallel": True, "positions": "alibi", "window": 5, "layer_scale": 0.5},
    "no last norm": {**SMALL, "final_norm": False},
}
each_model = pytest.mark.parametrize("name", CONFIGS)
NAMES = ["embedding", *(f"blocks.{i}.{branch}" for i in range(3) for branch in ("attn", "ffn"))]


def built(name, kind=Decoder, **options):
    """A model whose biases and gains are not those of the start either, in float64."""
    generator = np.random.default_rng(0)
    model = kind(DecoderConfig(**{**CONFIGS[name], **options}), generator)
    for p in model.parameters():
        if p.ndim == 1:
            p.array[...] = generator.uniform(0.3, 1.5, p.shape)
    return model.double()


def tokens(*shape, seed=1):
    return np.random.default_rng(seed).integers(0, 29, shape)


def inside(model):
    """Everything that must be as before: values, gradients, modes, hooks, and what is switched on in this thread."""
    values = [(p.array.copy(), p.grad) for p in model.parameters()]
    modes = [(m.training, "_hooks" in vars(m)) for m in model.modules()]
    return values, modes, (state.observer, state.composed, state.recording, state.scope)


def same(a, b):
    assert a[1:] == b[1:]
    for (x, g), (y, h) in zip(a[0], b[0]):
        assert np.array_equal(x, y)
        assert g is h


# ------------------------------------------------------------------------------------------------ the stream (S6)


@each_model
def test_S6_the_final_stream_is_the_embedding_and_every_update(name):
    model, ids = built(name), tokens(2, 11)
    before = inside(model)
    reading = read(model, ids)
    same(before, inside(model))
    assert list(reading.updates) == NAMES
    assert all(update.shape == (2, 11, 24) for update in reading.updates.values())
    np.testing.assert_array_equal(sum(reading.updates.values()), reading.stream)  # in order, so bit for bit

    states = []
    handle = model.blocks[-1].register_forward_hook(lambda m, args, out: states.append(out.array))
    with no_grad():
        np.testing.assert_array_equal(model.eval()(ids).array, reading.out)
    handle.remove()
    np.testing.assert_array_equal(states[0], reading.stream)


@pytest.mark.parametrize("name", ["gpt2", "both sides"])
def test_S6_in_float32_to_float_tolerance(name):
    reading = read(built(name).float(), tokens(2, 11))
    total = sum(update.astype(np.float64) for update in reading.updates.values())
    assert reading.stream.dtype == np.float32
    np.testing.assert_allclose(total, reading.stream, atol=3e-6 * np.abs(reading.stream).max())


def test_S6_an_update_is_what_is_added_scale_and_norms_included():
    model, ids = built("both sides"), tokens(1, 7)
    seen = {}
    for part in ("attn_scale", "ffn_scale"):
        getattr(model.blocks[1], part).register_forward_hook(lambda m, a, out, part=part: seen.__setitem__(part, out.array))
    reading = read(model, ids)
    for branch in ("attn", "ffn"):
        np.testing.assert_array_equal(reading.updates[f"blocks.1.{branch}"], seen[f"{branch}_scale"])


def test_S6_other_models():
    config = TransformerConfig(**CONFIGS["gpt2"], arrangement="encoder-decoder", n_encoder_layer=2)
    model = build(config, np.random.default_rng(0)).double()
    source, target = tokens(2, 9), tokens(2, 6, seed=2)
    reading = read(model, source, target)
    assert list(reading.updates)[:4] == ["embedding", *(f"decoder.blocks.0.{b}" for b in ("attn", "cross", "ffn"))]
    assert len(reading.updates) == 1 + 3 * 3  # the decoder's stream; what the encoder wrote comes in through cross
    np.testing.assert_array_equal(sum(reading.updates.values()), reading.stream)
    assert reading.maps("decoder.blocks.2.cross").shape == (2, 4, 6, 9)
    effects = head_effects(model, source, target, np.roll(target, -1, 1))
    assert len(effects.heads) == 4 * (2 + 3 + 3)
    assert all(head.change != 0 for head in effects.heads)
    assert [*attention_maps(model, source, target)][:2] == ["encoder.blocks.0.attn", "encoder.blocks.1.attn"]

    stack = Stack(TransformerConfig(**{**CONFIGS["gpt2"], "vocab_size": None, "arrangement": "stack"})).double()
    x = np.random.default_rng(0).standard_normal((2, 5, 24))
    reading = read(stack, Tensor(x))
    np.testing.assert_array_equal(sum(reading.updates.values()), reading.stream)
    with pytest.raises(ValueError, match="not a norm and one linear map"):
        reading.lens()

    branches = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    plain = nn.Sequential(*(nn.Residual(branch, before=nn.RMSNorm(4)) for branch in branches))
    assert list(read(plain, Tensor(np.ones((2, 3, 4), np.float32))).updates) == ["embedding", "0.branch", "1.branch"]


def test_S6_a_post_norm_stream_is_no_such_sum():
    model = built("gpt2", norm_order="post")
    before = inside(model)
    with pytest.raises(ValueError, match="no sum of updates: layer_norm in blocks.2.attn_norm .* pre-norm"):
        read(model, tokens(1, 5))
    same(before, inside(model))
    with pytest.raises(ValueError, match="no residual sum"):
        read(nn.Linear(3, 3), Tensor(np.ones((1, 3), np.float32)))
    assert list(attention_maps(model, tokens(1, 5))) == [f"blocks.{i}.attn" for i in range(3)]  # maps need no stream


@pytest.mark.parametrize("how", ["frozen", "no_grad", "composed", "training", "observed"])
def test_S6_whatever_mode_the_caller_is_in(how):
    model, ids = built("gpt2", dropout=0.3), tokens(2, 8)
    expected = read(model, ids)
    if how == "frozen":
        model.requires_grad_(False)
    if how == "training":
        model.train()
    before, observed = inside(model), []
    if how == "observed":
        state.observer = lambda node, value: observed.append(node)
    try:
        with {"no_grad": no_grad, "composed": composed}.get(how, lambda: np.errstate())():
            reading = read(model, ids)
    finally:
        state.observer = None
    same(before, inside(model))
    assert bool(observed) == (how == "observed")
    for name, update in expected.updates.items():
        np.testing.assert_array_equal(reading.updates[name], update)
    np.testing.assert_array_equal(reading.maps("blocks.1.attn"), expected.maps("blocks.1.attn"))


def test_S6_a_reading_keeps_no_graph():
    gc.collect()
    before = {id(o) for o in gc.get_objects() if type(o) is Node}
    reading = read(built("both sides"), tokens(1, 5))
    reading.maps("blocks.0.attn")
    gc.collect()
    assert not {id(o) for o in gc.get_objects() if type(o) is Node} - before


def test_S6_an_error_inside_leaves_no_hook():
    model = built("gpt2")
    before = inside(model)
    with pytest.raises(IndexError):
        read(model, tokens(1, 5) + 100)
    same(before, inside(model))


# ------------------------------------------------------------------------------------------------ heads


@each_model
def test_S9_the_heads_of_a_layer_add_up_to_its_update(name):
    model = built(name)
    reading = read(model, tokens(2, 11))
    for i in range(3):
        layer = f"blocks.{i}.attn"
        parts = reading.heads(layer)
        biased = model.config.bias
        assert list(parts) == [f"{layer}.heads.{r}" for r in range(4)] + [f"{layer}.bias"] * biased
        np.testing.assert_allclose(sum(parts.values()), reading.updates[layer], rtol=1e-9, atol=1e-11)
    if name == "gpt2":  # H_r W_O^(r), from the values and the map
        attn, h = model.blocks[0].attn, model.blocks[0].attn_norm(Tensor(reading.updates["embedding"]))
        v = attn.v_proj(h).array.reshape(2, 11, 4, 6).swapaxes(1, 2)
        read_ = reading.maps("blocks.0.attn") @ v
        by_hand = read_[:, 2] @ attn.out_proj.weight.array[:, 12:18].T
        np.testing.assert_allclose(reading.heads("blocks.0.attn")["blocks.0.attn.heads.2"], by_hand, rtol=1e-10, atol=1e-12)


@each_model
def test_S34_maps_are_the_softmax_of_the_scores(name):
    model, ids = built(name), tokens(2, 11)
    reading, layer, seen = read(model, ids), model.blocks[1].attn, []
    layer._read = lambda q, k, v, *how: seen.append((q.array, k.array)) or nn.MultiHeadAttention._read(layer, q, k, v, *how)
    model(ids)
    q, k = seen[0]
    scores = q @ np.repeat(k, 4 // k.shape[1], axis=1).swapaxes(-1, -2) / np.sqrt(6)
    gap = np.arange(11)[:, None] - np.arange(11)
    allowed = gap >= 0
    if name == "parallel":
        scores += layer.positions.bias(11, 11, 0, np.float64).array
        allowed = allowed & (gap < 5)
    e = np.where(allowed, np.exp(scores), 0)
    np.testing.assert_allclose(reading.maps("blocks.1.attn"), e / e.sum(-1, keepdims=True), rtol=1e-9, atol=1e-12)


def test_S35_the_maps_of_linear_attention():
    model, ids = built("gpt2"), tokens(2, 11)
    for block in model.blocks:
        attn = nn.LinearAttention(24, 4).double()
        attn.load_state_dict(block.attn.state_dict())
        block.attn = attn
    reading = read(model, ids)
    maps = reading.maps("blocks.2.attn")
    assert maps.shape == (2, 4, 11, 11)
    assert not np.triu(maps, 1).any()
    np.testing.assert_allclose(maps.sum(-1), 1)
    np.testing.assert_allclose(sum(reading.heads("blocks.2.attn").values()), reading.updates["blocks.2.attn"], atol=1e-12)


def test_an_unknown_layer_names_the_known_ones():
    with pytest.raises(ValueError, match="'blocks.0.ffn' is no attention layer of this run; there are: blocks.0.attn, "):
        read(built("gpt2"), tokens(1, 4)).heads("blocks.0.ffn")


# ------------------------------------------------------------------------------------------------ logits (S34)


@each_model
@pytest.mark.parametrize("heads", [False, True])
def test_S34_the_contributions_add_up_to_the_logit(name, heads):
    model, ids, targets = built(name), tokens(2, 11), tokens(2, 11, seed=3)
    reading = read(model, ids)
    parts = reading.attribution(targets, heads)
    expected = np.take_along_axis(reading.out, targets[..., None], -1)[..., 0]
    assert all(part.shape == (2, 11) for part in parts.values())
    np.testing.assert_allclose(sum(parts.values()), expected, rtol=1e-9, atol=1e-11)
    assert ("blocks.0.attn.heads.3" in parts) == heads
    assert ("blocks.0.attn" in parts) != heads
    one = reading.attribution(7, heads)
    np.testing.assert_allclose(sum(one.values()), reading.out[..., 7], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("norm", [nn.LayerNorm(6), nn.RMSNorm(6), nn.LayerNorm(6, bias=False), nn.RMSNorm(6, eps=None)])
def test_S34_a_norm_with_its_scale_held_is_linear(norm):
    rng = np.random.default_rng(0)
    norm.double()
    for p in norm.parameters():
        p.array[...] = rng.standard_normal(6)
    x = rng.standard_normal((2, 3, 6))
    bias = 0 if getattr(norm, "bias", None) is None else norm.bias.array
    np.testing.assert_allclose(held(norm, x, x) + bias, norm(Tensor(x)).array, rtol=1e-12)
    a, b = rng.standard_normal((2, 2, 3, 6))
    np.testing.assert_allclose(held(norm, x, 2 * a + b), 2 * held(norm, x, a) + held(norm, x, b), rtol=1e-10, atol=1e-12)


def test_S34_a_bias_of_the_last_map_has_its_own_share():
    model = built("gpt2")
    model.lm_head.bias = nn.Parameter(np.arange(29.0))
    reading = read(model, tokens(1, 5))
    parts = reading.attribution(11)
    assert (parts["head.bias"] == 11).all()
    np.testing.assert_allclose(sum(parts.values()), reading.out[..., 11], rtol=1e-10)


@each_model
def test_S34_logit_lens(name):
    model, ids = built(name), tokens(2, 11)
    reading = read(model, ids)
    lens = reading.lens()
    assert list(lens) == ["embedding", "blocks.0", "blocks.1", "blocks.2"]
    for p in lens.values():
        np.testing.assert_allclose(p.sum(-1), 1)
    np.testing.assert_allclose(lens["blocks.2"], Tensor(reading.out).softmax(-1).array, rtol=1e-12)
    shorter = built(name)
    for part in ("blocks.1.*", "blocks.2.*"):  # after block 0 is what a model says whose later blocks write nothing
        for path, (module, head) in find(shorter, part).items():
            if head is None and path.count(".") == 2 and path.rsplit(".", 1)[1] in ("attn", "ffn"):
                (module.out_proj if hasattr(module, "out_proj") else module.down).weight.array[...] = 0
                bias = (module.out_proj if hasattr(module, "out_proj") else module.down).bias
                if bias is not None:
                    bias.array[...] = 0
    if "both" not in name:  # there a norm still writes its bias
        np.testing.assert_allclose(lens["blocks.0"], shorter(ids).softmax(-1).array, rtol=1e-9, atol=1e-14)


# ------------------------------------------------------------------------------------------------ taking away


@pytest.mark.parametrize("name", ["gpt2", "modern", "parallel", "no last norm"])
def test_S2_with_every_branch_zeroed_the_stream_is_the_embedding(name):
    model, ids = built(name), tokens(2, 11)
    reading = read(model, ids)
    with zeroed(model, "blocks.*.attn", "*.ffn"):
        nothing = read(model, ids)
    np.testing.assert_array_equal(nothing.stream, reading.updates["embedding"])
    assert not any(nothing.updates[name].any() for name in NAMES[1:])


@pytest.mark.parametrize("name", ["gpt2", "modern", "parallel"])
def test_S34_a_zeroed_head_takes_its_own_part_away_and_no_other(name):
    model, ids = built(name), tokens(2, 11)
    before, whole = inside(model), read(model, ids)
    with zeroed(model, "blocks.1.attn.heads.2"):
        without = read(model, ids)
    same(before, inside(model))
    parts = whole.heads("blocks.1.attn")
    taken = whole.updates["blocks.1.attn"] - without.updates["blocks.1.attn"]
    np.testing.assert_allclose(taken, parts["blocks.1.attn.heads.2"], rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(without.updates["blocks.0.ffn"], whole.updates["blocks.0.ffn"])
    assert (without.stream != whole.stream).any()
    with zeroed(model, "blocks.1.attn.heads.*"):  # all of them: the bias is left
        rest = read(model, ids).updates["blocks.1.attn"]
    np.testing.assert_allclose(rest, np.broadcast_to(parts.get("blocks.1.attn.bias", 0), rest.shape), atol=1e-12)


@pytest.mark.parametrize("positions", [3, [0, 3], slice(2, 5), -1, np.array([4, 1])])
def test_S34_at_some_positions(positions):
    model, ids = built("gpt2"), tokens(2, 6)
    whole = read(model, ids)
    chosen = np.zeros(6, bool)
    chosen[positions] = True
    for path in ("blocks.0.attn", "blocks.0.attn.heads.1"):
        with zeroed(model, path, positions=positions):
            without = read(model, ids)
        gone = whole.updates["blocks.0.attn"] - without.updates["blocks.0.attn"]
        part = whole.updates[path] if path in whole.updates else whole.heads("blocks.0.attn")[path]
        np.testing.assert_allclose(gone, np.where(chosen[:, None], part, 0), rtol=1e-9, atol=1e-12)
        first = int(np.flatnonzero(chosen)[0])
        np.testing.assert_array_equal(without.out[:, :first], whole.out[:, :first])
    told = "positions=6 are not among the 6 positions of this call"
    with zeroed(model, "blocks.0.attn", positions=6), pytest.raises(IndexError, match=told):
        model(ids)


def test_S34_replaced_by_a_number_an_array_a_tensor_or_a_function():
    model, ids = built("gpt2"), tokens(2, 6)
    other = read(model, tokens(2, 6, seed=9)).updates["blocks.1.ffn"]
    for with_ in (other, Tensor(other), lambda out: other):
        with replaced(model, "blocks.1.ffn", with_):
            np.testing.assert_array_equal(read(model, ids).updates["blocks.1.ffn"], other)
        with replaced(model, "blocks.1.ffn", with_, positions=[1, 2]):
            mixed = read(model, ids).updates["blocks.1.ffn"]
        np.testing.assert_array_equal(mixed[:, 1:3], other[:, 1:3])
        assert (mixed[:, 3:] != other[:, 3:]).any()
    with replaced(model, "blocks.1.ffn", 0.5):
        assert (read(model, ids).updates["blocks.1.ffn"] == 0.5).all()
    with replaced(model, "blocks.0.attn", lambda out: out * 2):
        doubled = read(model, ids).updates["blocks.0.attn"]
    np.testing.assert_array_equal(doubled, 2 * read(model, ids).updates["blocks.0.attn"])
    with replaced(model, "blocks.0.attn.heads.0", np.ones(6)):  # what the head read, at every position
        parts = read(model, ids).heads("blocks.0.attn")
    expected = model.blocks[0].attn.out_proj.weight.array[:, :6].sum(1)
    np.testing.assert_allclose(parts["blocks.0.attn.heads.0"], np.broadcast_to(expected, (2, 6, 24)), rtol=1e-10)
    with replaced(model, "blocks.0.attn", np.ones((2, 6, 25))), pytest.raises(ValueError, match="broadcast|shape"):
        model(ids)


def test_S34_loss_gradient_and_generation_inside():
    model, ids, targets = built("gpt2").eval(), tokens(2, 9), tokens(2, 9, seed=4)
    twin = built("gpt2").eval()
    twin.blocks[1].attn.out_proj.weight.array[:, 6:12] = 0  # head 1 is not listened to
    with zeroed(model, "blocks.1.attn.heads.1"):
        loss = model.loss(ids, targets)
        loss.backward()
        written = [list(generate(model, ids[0, :4], 9, temperature=0, cache=cache)) for cache in (True, False)]
    expected = twin.loss(ids, targets)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    assert written[0] == written[1] == list(generate(twin, ids[0, :4], 9, temperature=0))
    attn, other = model.blocks[1].attn, twin.blocks[1].attn
    np.testing.assert_allclose(attn.v_proj.weight.grad.array, other.v_proj.weight.grad.array, rtol=1e-9, atol=1e-13)
    assert not attn.q_proj.weight.grad.array[6:12].any()
    assert not attn.out_proj.weight.grad.array[:, 6:12].any()


def test_S34_a_value_that_is_not_finite_is_taken_away_too():
    model, ids = built("gpt2"), tokens(1, 5)
    model.blocks[0].ffn.down.bias.array[0] = np.inf
    with zeroed(model, "blocks.0.ffn"):
        assert np.isfinite(model(ids).array).all()


def test_S34_nested_and_after_an_exception():
    model, ids = built("gpt2"), tokens(1, 5)
    before, whole = inside(model), model(ids).array
    with zeroed(model, "blocks.0.attn"):
        one = model(ids).array
        with replaced(model, "blocks.0.attn", 1.0), zeroed(model, "blocks.2.ffn"):
            reading = read(model, ids)
            assert (reading.updates["blocks.0.attn"] == 1).all()  # the inner one has the last word
            assert not reading.updates["blocks.2.ffn"].any()
        np.testing.assert_array_equal(model(ids).array, one)
        with pytest.raises(KeyError), zeroed(model, "*"):
            raise KeyError
        np.testing.assert_array_equal(model(ids).array, one)
    np.testing.assert_array_equal(model(ids).array, whole)
    same(before, inside(model))
    for bad in ("blocks.7.attn", "blocks", "attn"):
        with pytest.raises(ValueError, match=f"'{bad}'"), zeroed(model, "blocks.0.attn", bad):
            raise AssertionError
    same(before, inside(model))


def test_paths_and_near_names():
    model = built("gpt2")
    assert list(find(model, "blocks.*.attn")) == [f"blocks.{i}.attn" for i in range(3)]
    assert len(find(model, "*.heads.*")) == 12
    assert list(find(model, ("blocks.0.ffn", "*.1.attn.heads.[01]"))) == [
        "blocks.0.ffn", "blocks.1.attn.heads.0", "blocks.1.attn.heads.1"
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"heads.4' names nothing in this Decoder; near: blocks.1.attn.heads.\d"):
        find(model, "blocks.1.attn.heads.4")
    with pytest.raises(ValueError, match=r"'blocks.1.atn' names nothing.*blocks.1.attn"):
        find(model, "blocks.1.atn")
    with pytest.raises(ValueError, match=r"'blocks' is a list.*blocks.\*"):
        find(model, "blocks")
    with pytest.raises(ValueError, match="no path is given"):
        find(model, [])


@pytest.mark.parametrize("order", ["pre", "post"])
def test_S34_the_loss_without_each_head_beside_its_map(order):
    model, ids, targets = built("gpt2", norm_order=order, dropout=0.2), tokens(2, 9), tokens(2, 9, seed=4)
    before = inside(model)
    effects = head_effects(model, ids, targets)
    same(before, inside(model))
    model.eval()
    assert effects.loss == model.loss(ids, targets).item()
    assert [head.path for head in effects.heads] == [f"blocks.{i}.attn.heads.{r}" for i in range(3) for r in range(4)]
    maps = attention_maps(model, ids)
    for head in effects.heads:
        layer, _, r = head.path.rpartition(".heads.")
        with zeroed(model, head.path):
            assert head.loss == model.loss(ids, targets).item()
        assert head.change == head.loss - effects.loss
        w = maps[layer][:, int(r)]
        np.testing.assert_array_equal(head.map, w)
        assert 0 <= head.spread <= np.log(9)
        assert head.reach == pytest.approx((w * (np.arange(9)[:, None] - np.arange(9))).sum(-1).mean())
    lines = str(effects).splitlines()
    assert lines[0] == f"loss {effects.loss:.4f} as it is"
    assert len(lines) == 3 + 12
    assert lines[3].split()[0] == max(effects.heads, key=lambda head: head.change).path
    assert len(head_effects(model, ids, targets, paths="blocks.1.*.heads.*").heads) == 4
    with pytest.raises(ValueError, match="names no head"):
        head_effects(model, ids, targets, paths="*.ffn")


def test_S34_a_sharp_map_that_changes_nothing():
    """Head 0 looks at one position alone, but its output projection is 0: the map is sharp, the change is none."""
    model, ids, targets = built("gpt2"), tokens(2, 9), tokens(2, 9, seed=4)
    attn = model.blocks[0].attn
    attn.q_proj.weight.array[:6] *= 100
    attn.out_proj.weight.array[:, :6] = 0
    head = head_effects(model, ids, targets).heads[0]
    assert head.spread < 0.2
    assert head.change == 0


def test_S34_a_reading_inside_an_edit_is_taken_apart_only_where_the_parts_still_add_up():
    model, ids = built("gpt2"), tokens(2, 6)
    with zeroed(model, ["blocks.0.attn"]):
        inside_edit = read(model, ids)
    with pytest.raises(ValueError, match="what blocks.0.attn returned in this run is not what its heads wrote"):
        inside_edit.heads("blocks.0.attn")
    parts = inside_edit.attribution(3)  # of whole updates, which are what they are
    np.testing.assert_allclose(sum(parts.values()), inside_edit.out[..., 3], rtol=1e-9, atol=1e-9)
    with zeroed(model, "lm_head"):
        silent = read(model, ids)
    for taken_apart in (lambda: silent.attribution(3), silent.lens):
        with pytest.raises(ValueError, match="the logits of this run are not what norm and head make of the stream"):
            taken_apart()


def test_S34_wrong_edits_name_the_path():
    model, ids = built("gpt2"), tokens(2, 6)
    for path, width in (("blocks.0.attn", 24), ("blocks.0.attn.heads.1", 6)):
        told = rf"{path}: its output has the shape \(2, 6, {width}\), and \(63,\) does not broadcast"
        with replaced(model, path, np.ones(63)), pytest.raises(ValueError, match=told):
            model(ids)
    with zeroed(model, "blocks.0.attn", positions=(0, 1)):
        assert not read(model, ids).updates["blocks.0.attn"][:, :2].any()
    with pytest.raises(TypeError, match="a path is a text such as"), zeroed(model, None):
        pass


def test_S34_effects_of_heads_under_a_mask():
    config = TransformerConfig(9, 8, n_layer=1, n_head=2, n_embd=8, arrangement="encoder")
    ids, mask = tokens(2, 6) % 9, np.arange(6) < [[6], [4]]
    found = head_effects(build(config, np.random.default_rng(0)), ids, ids, mask)
    assert not found.heads[0].map[1, :, 4:].any()
