"""Checkpoints: one safetensors file that is always either the old one or the new one, whole.

The arrays (parameters, optimizer moments) are ordinary safetensors entries, so any safetensors reader opens the file.
Everything else (configuration, vocabulary, step, random states, metrics) is JSON in the file's metadata, under the
single key `tinygrad_tf`, together with a SHA-256 of all of it. One file means one rename, and no pickle means that
opening a stranger's checkpoint runs nothing.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .errors import OneLine

KEY = "tinygrad_tf"
VERSION = 1
INSTEAD = "put back a copy of it, or train again in another folder"


class CheckpointError(OneLine):
    """A file that is no usable checkpoint, or one that does not fit the model. The message is one line."""


class NoCheckpoint(CheckpointError):
    """A file that never was one."""


@contextmanager
def written_atomically(path: str | Path) -> Iterator[BinaryIO]:
    """A new file beside `path` to write into; at the end of the block it is flushed to the disk and renamed to `path`.

    A crash at any moment leaves the old file or the new one, never a part. One writer at a time: the run folder's
    lock sees to that. Raises OSError (disk full, read-only folder), naming `path`, with the old file untouched.
    """
    path = Path(path)
    beside = path.with_name(path.name + ".tmp")
    try:
        beside.unlink(missing_ok=True)  # what a crash left, or, in a folder from elsewhere, a link out of it
        with open(beside, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        _sync_folder(path.parent)
    except BaseException as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # a full disk names no file, and nobody knows the one beside
        raise


def write_atomically(path: str | Path, data: bytes | str) -> None:
    """Write `data` (text as UTF-8) to `path` in that way."""
    with written_atomically(path) as file:
        file.write(data.encode("utf-8") if isinstance(data, str) else data)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power cut; Windows cannot open a folder and needs no such call."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def save(path: str | Path, tensors: Mapping[str, np.ndarray], state: Mapping[str, Any]) -> None:
    """Write `tensors` and `state` (JSON values only; NaN and infinity are refused) to one file, atomically.

    The same tensors and state give the same bytes. Raises OSError as `write_atomically` does, TypeError for an array
    of objects.
    """
    from safetensors.numpy import save as to_bytes

    dense = {name: _dense(name, array) for name, array in tensors.items()}
    text = json.dumps({"version": VERSION, "sha256": _digest(dense, state), "state": state}, allow_nan=False)
    write_atomically(path, to_bytes(dense, {KEY: text}))


def load(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The tensors and the state that `save` wrote. Raises CheckpointError for every file it did not write."""
    from safetensors import SafetensorError, safe_open

    if Path(path).exists() and not Path(path).is_file():  # a pipe may never begin
        raise CheckpointError(f"{path} is no regular file; name the folder of a run, or its checkpoint")
    try:
        with safe_open(path, framework="numpy") as file:  # checks every offset against the file's size first
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()} if KEY in metadata else {}
    except FileNotFoundError:  # also where it may not be read
        found = "it may not be read; change its permissions" if Path(path).exists() else "no such checkpoint"
        raise CheckpointError(f"{path}: {found}") from None
    except (SafetensorError, OSError, TypeError, ValueError, AttributeError, KeyError) as error:
        if _foreign(path):
            raise NoCheckpoint(f"{path} is no checkpoint; name the folder of a run, such as runs/tiny-1") from None
        reason = " ".join(str(error).split())
        raise CheckpointError(f"{path}: no safetensors file, or a damaged one ({reason}); {INSTEAD}") from None
    if KEY not in metadata:
        raise NoCheckpoint(f"{path} is a safetensors file, but no checkpoint of tinygrad-tf; name the folder of a run, such as "
                           "runs/tiny-1")
    try:
        content = json.loads(metadata[KEY])
        version, digest, state = content["version"], content["sha256"], content["state"]
        intact = version == VERSION and isinstance(state, dict) and digest == _digest(tensors, state)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CheckpointError(f"{path}: damaged checkpoint (its metadata cannot be read); {INSTEAD}") from None
    if version != VERSION:
        raise CheckpointError(f"{path}: checkpoint version {version!r}; this program reads version {VERSION}")
    if not intact:
        raise CheckpointError(f"{path}: damaged checkpoint (its contents do not match its SHA-256); {INSTEAD}")
    return tensors, state


def _foreign(path: str | Path) -> bool:
    """Whether a file does not even begin as a safetensors file does: eight bytes, then a list of names as JSON."""
    try:
        with open(path, "rb") as file:
            return file.read(9)[8:] not in (b"{", b"")  # nothing: one that was cut off
    except OSError:
        return False


def _dense(name: str, array: np.ndarray) -> np.ndarray:
    """In C order, little-endian, as the format stores it: safetensors copies raw memory."""
    array = np.asarray(array)
    if array.dtype.hasobject:
        raise TypeError(f"{name}: an array of objects cannot be saved")
    return np.array(array, dtype=array.dtype.newbyteorder("<"), order="C", copy=None)


def _digest(tensors: Mapping[str, np.ndarray], state: Mapping[str, Any]) -> str:
    total = hashlib.sha256(json.dumps(state, allow_nan=False).encode())
    for name, array in sorted(tensors.items()):
        total.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        total.update(array.tobytes())
    return total.hexdigest()


# ------------------------------------------------------------------------------------------- models and optimizers


def pack_model(model: Any) -> dict[str, np.ndarray]:
    """The arrays of `model.state_dict()` by name; a matrix shared by two layers once, under its first name."""
    return {names[0]: array for array, names in _by_memory(model)}


def unpack_model(model: Any, tensors: Mapping[str, np.ndarray]) -> None:
    """Copy `tensors` into the parameters of `model`, in place. For a shared matrix any of its names will do.

    Raises CheckpointError before the first number is written: it names every entry that is missing, unexpected or of
    the wrong shape, and both names of a shared matrix that is given twice with different values.
    """
    values = dict(tensors)
    for _, names in _by_memory(model):
        found = [name for name in names if name in tensors]
        for name in names if found else ():
            values.setdefault(name, tensors[found[0]])
    try:
        model.load_state_dict(values)
    except ValueError as error:
        raise CheckpointError(str(error)) from None


def _by_memory(model: Any) -> list[tuple[np.ndarray, list[str]]]:
    """Each array of the state dict with all the names it goes by."""
    groups: dict[Any, tuple[np.ndarray, list[str]]] = {}
    for name, tensor in model.state_dict().items():
        array = tensor.array
        place = (array.__array_interface__["data"][0], array.shape, array.strides) if array.size else name
        groups.setdefault(place, (array, []))[1].append(name)
    return list(groups.values())


def pack_optimizer(optimizer: Any, names: list[str]) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """(arrays, JSON values) of an optimizer's state; `names[i]` is the name of its i-th parameter.

    The arrays are called `optimizer.<parameter>.<what>`, as in `optimizer.blocks.0.ffn.up.weight.exp_avg`. Learning
    rates and other options are no part of it: the configuration has them.
    """
    arrays, plain = {}, {}
    for i, entries in optimizer.state_dict()["state"].items():
        tensors = {key: value for key, value in entries.items() if hasattr(value, "array")}
        arrays.update({f"optimizer.{names[i]}.{key}": tensor.array for key, tensor in tensors.items()})
        plain[names[i]] = {key: value for key, value in entries.items() if key not in tensors}
    return arrays, plain


def unpack_optimizer(optimizer: Any, names: list[str], arrays: Mapping[str, np.ndarray], plain: dict[str, Any]) -> None:
    """Put back what `pack_optimizer` gave. Raises CheckpointError for entries that are missing or of another shape."""
    try:
        state = {names.index(name): dict(entries) for name, entries in plain.items()}
        for path, array in arrays.items():
            name, _, key = path.removeprefix("optimizer.").rpartition(".")
            state[names.index(name)][key] = array
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise CheckpointError(f"the optimizer's state does not fit the model ({error})") from None
