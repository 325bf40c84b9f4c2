"""SM-10: changing a token changes nothing before it, bit for bit, whichever way the numbers are computed."""

import contextlib

import numpy as np
import pytest

from tinygrad_tf import Tensor, composed, fused, nn, no_grad
from tinygrad_tf.models import Decoder, DecoderConfig

V, T = 13, 12
CONFIGS = {
    "gpt2": {"ffn": "gelu_tanh", "bias": True},
    "modern": {"norm": "rms", "ffn": "swiglu", "positions": "rotary", "qk_norm": True, "n_kv_head": 2, "tied": False},
    "post": {"norm_order": "post", "positions": "none"},
    "both": {"norm_order": "both", "positions": "rotary", "n_kv_head": 1, "layer_scale": 0.5},
}
each_model = pytest.mark.parametrize("name", CONFIGS)


def built(name, **options):
    config = DecoderConfig(
        **{
            "vocab_size": V,
            "block_size": T,
            "n_layer": 2,
            "n_head": 4,
            "n_embd": 16,
            "init_std": 0.3,
            **CONFIGS[name],
            **options,
        }
    )
    return Decoder(config, np.random.default_rng(0))


def assert_causal(run):
    """`run(ids)` gives logits (1, T, V). Whatever token is changed, the rows before it keep every bit, its own row moves."""
    ids = np.random.default_rng(1).integers(0, V, (1, T))
    before = run(ids)
    assert before.shape == (1, T, V)
    for j in range(T):
        changed = ids.copy()
        changed[0, j] = (changed[0, j] + 5) % V
        after = run(changed)
        assert after[:, :j].tobytes() == before[:, :j].tobytes(), f"token {j} changed an earlier row"
        assert (after[0, j] != before[0, j]).any(), f"token {j} does not see itself"
        if 0 < j < T - 1:
            assert (after[0, T - 1] != before[0, T - 1]).any(), f"the last row does not see token {j}"


@each_model
@pytest.mark.parametrize("mode", ["plain", "no_grad", "composed"])
def test_SM10_plain(name, mode):
    model = built(name)

    def run(ids):
        with {"plain": contextlib.nullcontext, "no_grad": no_grad, "composed": composed}[mode]():
            return model(ids).array

    assert_causal(run)


@each_model
@pytest.mark.parametrize("inside", [False, True])
def test_SM10_with_dropout(name, inside):
    model = built(name, dropout=0.4)

    def run(ids):
        generator = np.random.default_rng(5)
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.generator = generator
        with composed() if inside else contextlib.nullcontext():
            return model(ids).array

    assert_causal_with_gaps(run)


def assert_causal_with_gaps(run):
    """As assert_causal, but dropout may hide a token from a row."""
    ids = np.random.default_rng(1).integers(0, V, (1, T))
    before = run(ids)
    assert run(ids).tobytes() == before.tobytes()
    moved = 0
    for j in range(T):
        changed = ids.copy()
        changed[0, j] = (changed[0, j] + 5) % V
        after = run(changed)
        assert after[:, :j].tobytes() == before[:, :j].tobytes(), f"token {j} changed an earlier row"
        moved += (after[0, j] != before[0, j]).any()
    assert moved > T / 2


@each_model
@pytest.mark.parametrize("pieces", [[1] * T, [5, 4, 3], [3, 1, 8]])
def test_SM10_cached(name, pieces):
    model = built(name).eval()

    def run(ids):
        cache, start, out = model.new_cache(), 0, []
        with no_grad():
            for n in pieces:
                out.append(model(ids[:, start : start + n], cache=cache).array)
                start += n
        return np.concatenate(out, axis=1)

    assert_causal(run)


@each_model
@pytest.mark.parametrize("block", [1, 3, 5])
@pytest.mark.parametrize("keep", [0, 1000])
def test_SM10_several_blocks_of_queries(name, block, keep, monkeypatch):
    monkeypatch.setattr("tinygrad_tf.attention.KEEP", keep)
    monkeypatch.setattr("tinygrad_tf.attention.BLOCK", block)
    calls = []
    whole = fused.attend
    monkeypatch.setattr(fused, "attend", lambda *args: calls.append(args[5]) or whole(*args))
    model = built(name)
    assert_causal(lambda ids: model(ids).array)
    assert calls
    assert set(calls) <= {None, block}


@pytest.mark.parametrize("block", [None, 1, 4])
@pytest.mark.parametrize("keep", [0, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_SM10_gradients_do_not_flow_backward_in_time(block, keep, dtype, monkeypatch):
    """A loss at position i sends nothing at all to keys and values after i."""
    monkeypatch.setattr("tinygrad_tf.attention.KEEP", keep)
    q, k, v = (
        Tensor(np.random.default_rng(i).standard_normal((1, 2, 10, 4)).astype(dtype), requires_grad=True) for i in range(3)
    )
    for i in (0, 3, 9):
        for x in (q, k, v):
            x.grad = None
        fused.attention(q, k, v, causal=0, block=block)[:, :, i].sum().backward()
        assert not k.grad.array[:, :, i + 1 :].any()
        assert not v.grad.array[:, :, i + 1 :].any()
        assert not q.grad.array[:, :, np.arange(10) != i].any()
        assert v.grad.array[:, :, : i + 1].all()


@each_model
def test_SM04_the_unused_part_of_a_cache_is_never_read(name):
    model = built(name).eval()
    ids, outputs = np.random.default_rng(1).integers(0, V, (1, T)), []
    for poison in (0, np.nan):
        cache = model.new_cache()
        for layer in cache.layers:
            layer.keys[...], layer.values[...] = poison, poison
        with no_grad():
            outputs.append(np.concatenate([model(ids[:, t : t + 1], cache=cache).array for t in range(T)], axis=1))
    assert np.isfinite(outputs[1]).all()
    assert outputs[0].tobytes() == outputs[1].tobytes()
