"""Checkpoint files: whole or not at all, no pickle, every array as it was."""

import errno
import json
import os
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save_file

from tinygrad_tf import checkpoint
from tinygrad_tf.checkpoint import CheckpointError, load, save, write_atomically

ARRAYS = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array([1.5], dtype=np.float64)}
STATE = {"step": 3, "random": {"state": 2**127 + 1}, "text": "é😀\ud83d", "loss": [0.1, 1e-300]}


@pytest.fixture
def file(tmp_path):
    save(tmp_path / "a.safetensors", ARRAYS, STATE)
    return tmp_path / "a.safetensors"


def assert_unreadable(path, *words):
    with pytest.raises(CheckpointError) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    for word in words:
        assert word in message


def test_round_trip(file):
    arrays, state = load(file)
    assert state == STATE
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        assert arrays[name].dtype == array.dtype
        assert np.array_equal(arrays[name], array)


def test_the_same_content_gives_the_same_bytes(file, tmp_path):
    save(tmp_path / "b.safetensors", dict(reversed(ARRAYS.items())), STATE)
    assert (tmp_path / "b.safetensors").read_bytes() == file.read_bytes()


def test_any_safetensors_reader_opens_the_file(file):
    with safe_open(file, framework="numpy") as reader:
        assert set(reader.keys()) == {"w", "b"}
        assert json.loads(reader.metadata()["tinygrad_tf"])["state"]["step"] == 3


def test_CK_06_arrays_in_any_memory_order(tmp_path):
    base = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
    arrays = {
        "fortran": np.asfortranarray(base), "transposed": base.T, "sliced": base[:, ::2], "reversed": base[::-1, ::-1],
        "broadcast": np.broadcast_to(base[:, :1], (2, 3)), "scalar": np.float32(7), "empty": base[:0],
        "big endian": base.astype(">f4"),
    }
    save(tmp_path / "c", arrays, {})
    for name, array in load(tmp_path / "c")[0].items():
        assert array.shape == np.shape(arrays[name]), name
        assert np.array_equal(array, arrays[name]), name


class Canary:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_CK_04_a_pickle_is_refused_and_not_run(tmp_path):
    path = tmp_path / "evil.safetensors"
    path.write_bytes(pickle.dumps(Canary(tmp_path / "canary")))
    assert_unreadable(path)
    np.save(tmp_path / "evil.npy", np.array([Canary(tmp_path / "canary")], dtype=object), allow_pickle=True)
    assert_unreadable(tmp_path / "evil.npy")
    assert not (tmp_path / "canary").exists()
    with pytest.raises(TypeError, match="w: an array of objects"):
        save(tmp_path / "c", {"w": np.array([None])}, {})


def test_foreign_safetensors(tmp_path):
    save_file(ARRAYS, tmp_path / "other.safetensors", metadata={"format": "pt"})
    assert_unreadable(tmp_path / "other.safetensors", "is a safetensors file, but no checkpoint of tinygrad-tf")


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"version": 1, "sha256": "0", "state": 3}', "[" * 100_000])
def test_foreign_metadata(tmp_path, content):
    save_file(ARRAYS, tmp_path / "x", metadata={"tinygrad_tf": content})
    assert_unreadable(tmp_path / "x", "damaged")


def test_a_newer_version_says_so(tmp_path):
    save_file(ARRAYS, tmp_path / "x", metadata={"tinygrad_tf": '{"version": 2, "sha256": "", "state": {}}'})
    assert_unreadable(tmp_path / "x", "version 2", "reads version 1")


def test_a_missing_file(tmp_path):
    assert_unreadable(tmp_path / "none", "no such checkpoint")


def test_a_folder(tmp_path):
    assert_unreadable(tmp_path)


def test_truncated_anywhere(file):
    content = file.read_bytes()
    for length in [0, 1, 7, 8, 9, len(content) // 2, len(content) - 1]:
        file.write_bytes(content[:length])
        assert_unreadable(file)


@given(st.data())
def test_any_flipped_bit_is_noticed(tmp_path_factory, data):
    file = tmp_path_factory.getbasetemp() / f"flip-{os.getpid()}"
    if not file.exists():
        save(file.with_suffix(".good"), ARRAYS, STATE)
    content = bytearray(file.with_suffix(".good").read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    file.write_bytes(content)
    try:
        arrays, state = load(file)
    except CheckpointError:
        return
    assert state == STATE  # a flip in the padding of the header harms nothing
    assert all(np.array_equal(arrays[name], array) for name, array in ARRAYS.items())


def test_sizes_are_checked_before_memory_is_taken(tmp_path):
    header = json.dumps({"__metadata__": {"tinygrad_tf": "{}"},
                         "w": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}).encode()
    (tmp_path / "huge").write_bytes(struct.pack("<Q", len(header)) + header + bytes(16))
    assert_unreadable(tmp_path / "huge")
    (tmp_path / "header").write_bytes(struct.pack("<Q", 2**60) + header)
    assert_unreadable(tmp_path / "header")


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failure_at_any_point_leaves_the_old_file(file, monkeypatch, call):
    def fail(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match="No space left"):
            save(file, ARRAYS, {"step": 4})
    assert load(file)[1] == STATE
    assert os.listdir(file.parent) == [file.name]


def test_a_crash_between_writing_and_renaming_leaves_the_old_file(file, monkeypatch):
    """The process dies there, so nothing is tidied up; the next save goes through all the same."""
    def die(*args):
        raise SystemExit

    monkeypatch.setattr(os, "replace", die)
    monkeypatch.setattr("pathlib.Path.unlink", lambda *args, **options: None)
    with pytest.raises(SystemExit):
        save(file, ARRAYS, {"step": 4})
    monkeypatch.undo()
    assert load(file)[1] == STATE
    save(file, ARRAYS, {"step": 5})
    assert load(file)[1] == {"step": 5}
    assert os.listdir(file.parent) == [file.name]


def test_the_file_is_on_the_disk_before_it_is_renamed(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, name=name, real=real: (calls.append(name), real(*args))[1])
    write_atomically(tmp_path / "x", "a\nb")
    assert calls[:2] == ["fsync", "replace"]
    assert (tmp_path / "x").read_bytes() == b"a\nb"


def test_infinity_is_no_json(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        save(tmp_path / "x", {}, {"loss": float("inf")})
    assert not checkpoint.Path(tmp_path / "x").exists()


def test_a_checkpoint_that_may_not_be_read_is_not_said_to_be_missing(tmp_path, monkeypatch):
    """safetensors says of both that there is no such file."""
    path = tmp_path / "x.safetensors"
    checkpoint.save(path, {"w": np.zeros(2, np.float32)}, {})

    def refuse(*arguments, **settings):
        raise FileNotFoundError("No such file or directory")

    monkeypatch.setattr("safetensors.safe_open", refuse)
    with pytest.raises(checkpoint.CheckpointError, match=r"x\.safetensors: it may not be read; change its permissions"):
        checkpoint.load(path)
    with pytest.raises(checkpoint.CheckpointError, match=r"y\.safetensors: no such checkpoint"):
        checkpoint.load(tmp_path / "y.safetensors")
