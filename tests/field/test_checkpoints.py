"""CK: checkpoints, loading, interruption."""

import pickle

import numpy as np
import pytest

from tinygrad_tf import Tensor, report
from tinygrad_tf import train as training
from tinygrad_tf.checkpoint import CheckpointError, load, save
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.pretrained import layouts, load_pretrained
from tinygrad_tf.pretrained.exporting import export
from tinygrad_tf.runfolder import CHECKPOINT
from tinygrad_tf.settings import TrainConfig
from tinygrad_tf.text import TextError, Vocabulary, read_text


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A run of 20 steps that looks at itself every so many."""
    monkeypatch.setattr(training, "draw_curves", lambda *args: None)
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat; the dog sat on the cat.\n" * 20, encoding="utf-8", newline="")
    settings = {"n_layer": 1, "n_head": 2, "n_embd": 16, "block_size": 8, "batch_size": 4, "warmup": 2, "dropout": 0.2,
                "eval_batches": 2, "sample_tokens": 5, "checkpoint_every": 10}  # fmt: skip
    return lambda steps, every: TrainConfig(text=str(path), steps=steps, eval_every=every, sample_every=every, **settings)


def parameters(run):
    return {name: tensor.array.tobytes() for name, tensor in run.model.state_dict().items()}


def test_CK_02_stopped_and_resumed_it_is_the_straight_run_and_looking_changes_nothing(tmp_path, small):
    straight = training.train(small(20, 10), tmp_path / "straight", report.Progress())

    class Stop(report.Progress):
        def step(self, step, metrics):
            if step == 11:
                raise MemoryError  # the step after the checkpoint

    with pytest.raises(MemoryError):
        training.train(small(20, 10), tmp_path / "stopped", Stop())
    assert load(tmp_path / "stopped" / CHECKPOINT)[1]["step"] == 10
    training.resume(tmp_path / "stopped", report.Progress())
    for name in (CHECKPOINT, "metrics.jsonl"):
        assert (tmp_path / "stopped" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()
    often = training.train(small(20, 1), tmp_path / "often", report.Progress())
    assert parameters(often) == parameters(straight)


class Canary:
    """Unpickling this would create a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_CK_04_nothing_that_is_loaded_is_run(tmp_path):
    canary = Canary(tmp_path / "canary")
    (tmp_path / "pickle").write_bytes(pickle.dumps(canary))
    np.save(tmp_path / "array.npy", np.array([canary], dtype=object), allow_pickle=True)
    for name in ("pickle", "array.npy"):
        with pytest.raises(CheckpointError):
            load(tmp_path / name)
        with pytest.raises(TextError):
            read_text(tmp_path / name)
    for value in (pickle.dumps(canary), [canary]):
        with pytest.raises(TextError):
            Vocabulary.from_json(value)
    with pytest.raises(TypeError, match="w: an array of objects"):
        save(tmp_path / "c", {"w": np.array([None])}, {})
    assert not (tmp_path / "canary").exists()


def test_CK_06_arrays_in_any_memory_order_come_back_as_they_were(tmp_path):
    base = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    arrays = {
        "fortran": np.asfortranarray(base), "transposed": base.T, "sliced": base[:, ::2], "reversed": base[::-1, ::-1],
        "broadcast": np.broadcast_to(base[:, :1], (2, 3)), "big endian": base.astype(">f4"),
    }  # fmt: skip
    save(tmp_path / "c", arrays, {})
    found = load(tmp_path / "c")[0]
    assert found["fortran"].tolist() == [[1, 2, 3], [4, 5, 6]]
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def test_CK_08_a_square_matrix_is_turned_by_its_name_and_not_by_its_shape(tmp_path):
    """GPT-2's four matrices are (in, out) in its files, Llama's are (out, in); width 2 makes attn.c_proj 2 x 2."""
    w, x = np.array([[1, 2], [3, 4]], np.float32), Tensor([[1.0, 0.0]])
    gpt2 = Decoder(DecoderConfig(5, 4, 1, 1, n_embd=2, bias=True, ffn="gelu_tanh", tied=True))
    llama = Decoder(DecoderConfig(5, 4, 1, 1, n_embd=2, norm="rms", ffn="swiglu", positions="rotary", tied=False))
    for layout, model, name in (("gpt2", gpt2, "h.0.attn.c_proj.weight"), ("llama", llama, "layers.0.self_attn.o_proj.weight")):
        export(model, tmp_path / layout, layout)
        file = tmp_path / layout / "model.safetensors"
        from safetensors.numpy import load_file, save_file

        arrays = load_file(file)
        (key,) = [key for key in arrays if key.endswith(name)]
        save_file({**arrays, key: w}, file)
        layer = load_pretrained(tmp_path / layout).blocks[0].attn.out_proj
        layer.bias = None
        assert layer(x).tolist() == [[1, 2] if layout == "gpt2" else [1, 3]], layout
    assert layouts.CONV1D == ("attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
