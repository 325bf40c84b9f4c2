"""One token by `decode`, in NumPy and in compiled loops: the logits and the texts of the layers, and the layers where somebody
looks in."""

from importlib.util import find_spec

import numpy as np
import pytest

from tinygrad_tf import composed, kernels, nn, steps
from tinygrad_tf.edits import zeroed
from tinygrad_tf.engine import state
from tinygrad_tf.generate import GenerationStats, evaluating, generate, padded
from tinygrad_tf.models.decoder import Decoder, DecoderConfig
from tinygrad_tf.nn.feedforward import ACTIVATIONS, GATED
from tinygrad_tf.nn.positions import SCALINGS
from tinygrad_tf.steps import Steps

NO_NUMBA = "tokens not decoded by compiled loops (numba is not installed: pip install -e '.[fast]')"
needs_numba = pytest.mark.skipif(find_spec("numba") is None, reason=NO_NUMBA)
BOTH = ["numpy", pytest.param("numba", marks=needs_numba)]

ROTARY = {"positions": "rotary"}
FIT = [
    {},
    {"bias": True, "tied": False},
    {"bias": True, "key_bias": False, "norm_bias": False},
    {"norm": "rms", "qk_norm": True, "n_kv_head": 2, **ROTARY},
    {"n_kv_head": 1, "layer_scale": 0.5, "dropout": 0.3},
    {"norm_eps": 1e-3, "scale_embedding": True, "final_norm": False},
    {"recompute": True, "n_hidden": 33, "n_layer": 1},
    *[{"ffn": kind, "bias": True} for kind in (*ACTIVATIONS, *GATED)],
    *[{"positions": kind} for kind in ("sinusoidal", "sinusoidal_halves", "none")],
    *[{**ROTARY, "rope_interleaved": pairs, "rope_scaling": scaling, "rope_factor": 4.0, "rope_original": 8}
      for pairs in (False, True) for scaling in SCALINGS],
]  # fmt: skip
UNFIT = [{"window": 5}, {"attention": "linear"}, {"positions": "alibi"}, {"positions": "t5"}, {"norm_order": "post"},
         {"norm_order": "both"}, {"parallel": True}, {"embedding_norm": True}]  # fmt: skip
name = lambda settings: " ".join(f"{key}={value}" for key, value in settings.items()) or "plain"


@pytest.fixture(autouse=True, params=BOTH)
def which(monkeypatch, request):
    """By which of the two tokens are decoded, whatever the environment chose for the ops."""
    monkeypatch.setattr(kernels, "IN_USE", request.param)
    return request.param


def made(size=12, **settings):
    """A decoder whose every parameter, gains and biases too, is random."""
    rng = np.random.default_rng(0)
    model = Decoder(DecoderConfig(17, size, **{"n_layer": 2, "n_head": 4, "n_embd": 32, "init_std": 0.3} | settings), rng)
    for p in model.parameters():
        p.detach().array[...] += rng.normal(0, 0.2, p.shape)
    return model


def logits_of(model, ids, cache, **options):
    with evaluating(model):
        return model(ids, cache=cache, **options).numpy()[:, -1]


def by_itself(monkeypatch):
    """From here on the model steps by itself."""
    monkeypatch.setattr(Steps, "of", lambda model: None)


def near(ours, theirs):
    assert ours.dtype == np.float32
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5 * np.abs(theirs).max())


@pytest.mark.parametrize("texts", [1, 3])
@pytest.mark.parametrize("settings", FIT, ids=name)
def test_every_step_has_the_logits_and_the_cache_of_the_layers(which, settings, texts):
    model, ids = made(**settings), np.random.default_rng(1).integers(0, 17, (texts, 12))
    decoding, ours, theirs = Steps.of(model), model.new_cache(texts), model.new_cache(texts)
    assert (decoding.loops is None) == (which == "numpy")
    for cache in (ours, theirs):
        logits_of(model, ids[:, :4], cache)
    for at in range(4, 12):
        near(decoding(ids[:, at], ours), logits_of(model, ids[:, at : at + 1], theirs))
        assert ours.length == theirs.length == at + 1
        for a, b in zip(ours.layers, theirs.layers):
            assert a.kept == b.kept
            np.testing.assert_allclose(a.keys, b.keys, rtol=1e-5, atol=3e-5)
            np.testing.assert_allclose(a.values, b.values, rtol=1e-5, atol=3e-5)


def test_the_layers_go_on_from_a_cache_that_was_filled_here():
    model, ids = made(**ROTARY), np.random.default_rng(1).integers(0, 17, (2, 12))
    decoding, cache = Steps.of(model), model.new_cache(2)
    for at in range(9):
        decoding(ids[:, at], cache)
    near(logits_of(model, ids[:, 9:], cache), logits_of(model, ids, None))


@pytest.mark.parametrize("settings", [{}, {"positions": "sinusoidal"}, ROTARY], ids=name)
def test_padding_on_the_left_is_not_seen(settings):
    model = made(**settings)
    ids, mask = padded([[1, 2, 3, 4, 5, 6], [7, 8, 9], [3]], left=True)
    decoding, ours, theirs = Steps.of(model), model.new_cache(3), model.new_cache(3)
    for cache in (ours, theirs):
        logits_of(model, ids, cache, mask=mask)
    first = np.array([0, 3, 5])
    for token in range(4):
        if token == 2:  # the first text is over, and then the second
            rows = [1, 2]
        elif token == 3:
            rows = [1]
        else:
            rows = slice(None)
        for cache in (ours, theirs):
            cache.take(rows)
        first, mask = first[rows], np.pad(mask[rows], ((0, 0), (0, 1)), constant_values=True)
        new = np.full((len(first), 1), token)
        near(decoding(new[:, 0], ours, first), logits_of(model, new, theirs, mask=mask))
    assert len(first) == 1


class Counted:
    """How often a token was decoded so."""

    def __init__(self, monkeypatch):
        self.n, step = 0, Steps.__call__

        def counted(steps, *args, **options):
            self.n += 1
            return step(steps, *args, **options)

        monkeypatch.setattr(Steps, "__call__", counted)


@pytest.fixture
def counted(monkeypatch):
    return Counted(monkeypatch)


def written(model, prompt, n=9, **options):
    options = {"temperature": 0.0, **options}
    if options["temperature"]:
        options["generator"] = np.random.default_rng(3)
    return [np.array(token).tolist() for token in generate(model, prompt, n, **options)]


HOW = [{}, {"temperature": 0.8}, {"temperature": 1.2, "top_k": 5}, {"temperature": 1.0, "top_p": 0.7}]


@pytest.mark.parametrize("how", HOW, ids=name)
@pytest.mark.parametrize("prompt", [[5], [1, 2, 3], [[1, 2], [3, 4]], [[1, 2, 3], [4]]], ids=str)
def test_texts_are_the_same_past_the_context_too(monkeypatch, counted, prompt, how):
    model, costs, texts = made(), [], []
    for alone in (False, True):
        if alone:
            by_itself(monkeypatch)
        costs.append(GenerationStats())
        texts.append(written(model, prompt, 20, stats=costs[-1], **how))
    assert texts[0] == texts[1]
    assert costs[0] == costs[1] and costs[0].recomputed and costs[0].cache_bytes
    long = max(map(len, prompt)) if isinstance(prompt[0], list) else len(prompt)
    assert counted.n == 12 - long + (long == 1)  # until the window moves; a prompt of one token is one too


@pytest.mark.parametrize("prompts", [[[1, 2], [3, 4], [5, 6], [7, 8]], [[1, 2, 3], [4], [5, 6], [7, 8, 9, 10]]], ids=str)
def test_texts_that_are_over_leave_and_the_others_go_on(monkeypatch, counted, prompts):
    model, texts = made(), []
    for alone in (False, True):
        if alone:
            by_itself(monkeypatch)
        texts.append(written(model, prompts, temperature=1.0, stop=[0, 1, 2, 3]))
    assert texts[0] == texts[1] and counted.n
    lengths = {next((i for i, token in enumerate(text) if token < 4), 9) for text in zip(*texts[0])}
    assert len(lengths) > 1  # they do not all end at once


@pytest.mark.parametrize("settings", UNFIT, ids=name)
def test_other_models_step_by_themselves(counted, settings):
    model = made(**settings)
    assert Steps.of(model) is None
    assert len(written(model, [1])) == 9 and not counted.n


def test_a_model_of_float64_steps_by_itself():
    assert Steps.of(made().double()) is None
    assert Steps.of(made()) is not None


@needs_numba
def test_a_large_model_and_many_texts_are_no_work_for_the_loops(monkeypatch):
    monkeypatch.setattr(kernels, "IN_USE", "numba")
    monkeypatch.setattr(steps, "MANY", 2)
    few = Steps.of(made())
    monkeypatch.setattr(few.loops, "loops", None)  # calling them is an error from here on
    cache = few.model.new_cache(3)
    assert few(np.array([1, 2, 3]), cache).shape == (3, 17)
    with pytest.raises(AttributeError):
        few(np.array([1, 2]), few.model.new_cache(2))
    monkeypatch.setattr(steps, "LARGE", 1000)
    assert Steps.of(made()).loops is None


class Mine(nn.FeedForward):
    pass


class Adapted(nn.Module):
    """A layer with something beside it, as in LoRA: no weight of its own."""

    def __init__(self, inner):
        self.inner, self.beside = inner, nn.Linear(inner.in_features, inner.out_features)

    def forward(self, x):
        return self.inner(x) + self.beside(x)


def test_a_layer_in_another_one_s_place_runs(counted):
    model = made()
    model.blocks[0].attn.q_proj = Adapted(model.blocks[0].attn.q_proj)
    assert written(model, [1]) == written(model, [1], cache=False) and not counted.n


def test_a_class_or_a_forward_of_the_user_s_own_runs():
    model = made()
    model.blocks[1].ffn = Mine(32, 128)
    assert Steps.of(model) is None
    model = made()
    model.blocks[0].attn.forward = lambda x, **_: x
    assert Steps.of(model) is None


def test_a_hook_runs_from_the_next_token_on(counted):
    model, seen = made(), []
    tokens = generate(model, [1, 2], 6, temperature=0)
    before = [next(tokens) for _ in range(3)]
    assert counted.n == 2
    model.blocks[1].attn.attn_dropout.register_forward_hook(lambda *_: None)
    model.blocks[1].ffn.register_forward_pre_hook(lambda module, args: seen.append(args[0].shape))
    after = list(tokens)
    assert counted.n == 2 and seen == [(1, 1, 32)] * 3
    assert before + after == written(made(), [1, 2], 6)


def test_an_edit_counts(counted):
    model = made()
    plain = written(model, [1, 2])
    assert counted.n
    counted.n = 0
    with zeroed(model, "blocks.0.attn.heads.1", "blocks.1.ffn"):
        edited = written(model, [1, 2])
        assert edited == written(model, [1, 2], cache=False) and edited != plain
    assert not counted.n
    assert written(model, [1, 2]) == plain and counted.n


def test_weights_are_read_as_they_are_at_each_token(monkeypatch, counted):
    texts = []
    for alone in (False, True):
        if alone:
            by_itself(monkeypatch)
        model = made()
        tokens = generate(model, [1], 9, temperature=0)
        text = [next(tokens) for _ in range(3)]
        model.lm_head.weight.detach().array[::2] *= -1
        texts.append(text + list(tokens))
    assert counted.n == 9 and texts[0] == texts[1] != written(made(), [1])


def test_another_array_in_a_parameter_is_noticed(which, counted):
    model = made()
    tokens = generate(model, [1], 9, temperature=0)
    assert len([next(tokens) for _ in range(3)]) == counted.n
    model.lm_head.weight.array = model.lm_head.weight.array.copy()
    model.lm_head.weight.array[::2] *= -1
    rest = list(tokens)
    assert counted.n == (9 if which == "numpy" else 3)  # NumPy reads what is there, the loops where it was
    model, counted.n = made(), 0
    tokens = generate(model, [1], 9, temperature=0)
    for _ in range(3):
        next(tokens)
    model.lm_head.weight.detach().array[::2] *= -1
    assert rest == list(tokens) and rest != written(made(), [1])[3:]


def test_who_watches_the_ops_sees_them(counted, monkeypatch):
    model = made()
    decoding = Steps.of(model)
    assert decoding.hold()
    with composed():
        assert not decoding.hold()
    monkeypatch.setattr(state, "observer", lambda *_: None)
    assert not decoding.hold()
    written(model, [1])
    assert not counted.n


def test_the_first_token_is_checked():
    model = made()
    for wrong in (17, -1):
        with pytest.raises(IndexError, match=f"id {wrong} at position"):
            list(generate(model, [wrong], 2, temperature=0))


def test_logits_that_are_not_finite_are_told(counted):
    model = made()
    tokens = generate(model, [1], 5, temperature=0)
    next(tokens)
    model.blocks[0].ffn.up.weight.detach().array[0, 0] = np.nan
    with pytest.raises(ValueError, match="new token 2: the logits are not finite"):
        next(tokens)
    assert counted.n == 2


def test_without_a_numba_that_can_be_loaded_numpy_goes_on(monkeypatch):
    monkeypatch.setattr(kernels, "IN_USE", "numba")
    monkeypatch.setattr(kernels, "lacking", lambda: "another NumPy")
    assert Steps.of(made()).loops is None


def exchanged(model, change):
    block = model.blocks[1]
    rng = np.random.default_rng(3)
    weight = lambda *shape: nn.Parameter(rng.standard_normal(shape).astype(np.float32))
    match change:
        case "fewer key heads in one block":
            block.attn = nn.MultiHeadAttention(32, 4, 1, generator=rng)
        case "a norm of the queries alone":
            block.attn.q_norm = nn.RMSNorm(8, elementwise_affine=False)
        case "a LayerNorm of the keys":
            for each in model.blocks:
                each.attn.q_norm = nn.RMSNorm(8, elementwise_affine=False)
                each.attn.k_norm = nn.LayerNorm(8, elementwise_affine=False)
        case "a largest norm":
            model.token_embedding.max_norm = 0.05
        case "more words":
            model.token_embedding.weight, model.lm_head.weight = weight(40, 32), weight(40, 32)
        case "another width inside":
            block.ffn.up.weight, block.ffn.down.weight = weight(48, 32), weight(32, 48)
            block.ffn.up.bias = block.ffn.down.bias = None
        case "a patched class":
            return lambda self, x: self.down(self.up(x).relu()) * 2
    return None


@pytest.mark.parametrize("change", ["fewer key heads in one block", "a norm of the queries alone", "a LayerNorm of the keys",
                                    "a largest norm", "more words", "another width inside", "a patched class"])  # fmt: skip
def test_an_exchanged_part_counts_in_generation(which, change, monkeypatch):
    model = made(n_embd=32, n_head=4, tied=False)
    forward = exchanged(model, change)
    if forward is not None:
        monkeypatch.setattr(nn.FeedForward, "forward", forward)
    prompt = [1, 2, 33] if change == "more words" else [1, 2, 3]
    found, wanted = (list(map(int, generate(model, prompt, 8, temperature=0, cache=cache))) for cache in (True, False))
    assert found == wanted


@pytest.mark.parametrize("change", ["more answers than words", "fewer places", "fewer words"])
def test_arrays_that_do_not_fit_are_never_read_beyond_their_ends(which, change):
    model = made(n_embd=32, n_head=4, tied=False, positions="learned")
    part, rows = {"more answers than words": (model.lm_head, 400), "fewer places": (model.position_embedding, 4),
                  "fewer words": (model.token_embedding, 5)}[change]  # fmt: skip
    part.weight = nn.Parameter(np.random.default_rng(0).standard_normal((rows, 32)).astype(np.float32))
    with pytest.raises((IndexError, ValueError)):
        list(generate(model, [1, 2, 9], 9, temperature=0))
