"""The numbers of a folder of safetensors files, mapped into memory: what is not looked at is not read.

A safetensors file is 8 bytes that say how long the header is; the header, a JSON object that gives each entry its kind,
shape and place; and the numbers, one after the other. Nothing in it can run. The files come from strangers, so every size
is checked against the file before anything is made of it.

The mapping is copy-on-write: an array shows the file's own memory, and where somebody writes into it the operating system
copies that page for this process. The file never changes.
"""

from __future__ import annotations

import json
import math
import mmap
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from ..errors import OneLine

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
BYTES = {"F32": 4, "F16": 2, "BF16": 2}  # of the kinds of numbers that a model is made of
SIZES = BYTES | {"F64": 8, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4, "U16": 2, "U8": 1, "BOOL": 1}
LONGEST_HEADER = 100_000_000  # bytes, the format's own bound
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")


class PretrainedError(OneLine):
    """A folder that cannot be used, or does not fit. The message is one line that names the file and the next step."""


@dataclass(frozen=True)
class Entry:
    """Where the numbers of one name lie."""

    file: Path
    kind: str  # as the format writes it: F32, BF16, ...
    shape: tuple[int, ...]
    start: int  # first byte in the file

    @property
    def size(self) -> int:
        return math.prod(self.shape)


class Weights:
    """The entries of all files of a folder by name; `read` gives the numbers of one."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.entries: dict[str, Entry] = {}
        self._maps: dict[Path, mmap.mmap] = {}
        files, promised = weight_files(self.folder)
        for file in files:
            for name, entry in read_header(file).items():
                if name in self.entries:
                    raise PretrainedError(f"{file}: {name} stands in {self.entries[name].file.name} as well")
                self.entries[name] = entry
        there = {name: entry.file.name for name, entry in self.entries.items()}
        wrong = [name for name, file in promised.items() if there.get(name) != file]
        if wrong:
            raise PretrainedError(f"{self.folder / INDEX}: not in the files that it names: {', '.join(wrong)}")

    @property
    def held(self) -> int:
        """How many numbers of a kind that a model is made of there are in all."""
        return sum(entry.size for entry in self.entries.values() if entry.kind in BYTES)

    def read(self, name: str) -> np.ndarray:
        """The numbers as float32: the file's own memory if they are, else a widened copy."""
        entry = self.entries[name]
        if entry.size == 0:
            return np.zeros(entry.shape, np.float32)
        if entry.file not in self._maps:
            with open(entry.file, "rb") as file:
                self._maps[entry.file] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        stored = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}[entry.kind]
        array = np.frombuffer(self._maps[entry.file], stored, entry.size, entry.start).reshape(entry.shape)
        if entry.kind == "BF16":  # the upper half of a float32; NumPy has no such type
            wide = array.astype(np.uint32)
            wide <<= 16
            return wide.view(np.float32)
        return np.require(array, np.float32, "A")  # a copy of a half, or of what does not start on a number's boundary


def weight_files(folder: Path) -> tuple[list[Path], dict[str, str]]:
    """The safetensors files of a folder, and what its index promises: name -> file name, empty without an index."""
    if not folder.is_dir():
        if folder.suffix in PICKLED:
            raise PretrainedError(_pickled(folder))
        what = "is a file" if folder.exists() else "there is no such folder"
        raise PretrainedError(f"{folder}: {what}; name the folder that holds config.json and {WEIGHTS}")
    if (folder / INDEX).exists():
        promised = _index(folder / INDEX)
        return [folder / name for name in sorted(set(promised.values()))], promised
    found = sorted(folder.glob("*.safetensors"))
    if (folder / WEIGHTS).exists():
        found = [folder / WEIGHTS]
    if len(found) == 1:
        return found, {}
    if found:
        raise PretrainedError(f"{folder} holds {len(found)} safetensors files, and no {WEIGHTS} or {INDEX} says which count")
    pickled = [path for path in sorted(folder.iterdir()) if path.suffix in PICKLED]
    raise PretrainedError(_pickled(pickled[0]) if pickled else f"{folder} holds no weights: there is no {WEIGHTS} in it")


def _pickled(path: Path) -> str:
    return (f"{path} holds pickled weights, which can run any program when they are opened, and are never opened here; where "
            f"PyTorch is installed, safetensors.torch.save_file(torch.load(\"{path.name}\", weights_only=True), \"{WEIGHTS}\") "
            "writes the same numbers as safetensors")  # fmt: skip


def _index(path: Path) -> dict[str, str]:
    """name -> the name of its file, which must be one in the same folder."""
    promised = read_json(path).get("weight_map")
    if not isinstance(promised, dict) or not promised:
        raise PretrainedError(f"{path}: weight_map is not an object of file names by entry")
    for name in set(map(str, promised.values())):
        plain = PurePosixPath(name).name == name and PureWindowsPath(name).name == name
        if not plain or len(name) > 200 or not name.endswith(".safetensors"):
            raise PretrainedError(f"{path}: {name!r} is not the name of a safetensors file beside it; nothing else is read")
        if not (path.parent / name).is_file():
            raise PretrainedError(f"{path} names {name}, which is not in the folder; fetch that file too")
    return {entry: str(name) for entry, name in promised.items()}


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        if not path.is_file():
            raise PretrainedError(f"{path.parent} holds no {path.name}; it comes with the weights")
        if path.stat().st_size > LONGEST_HEADER:
            raise PretrainedError(f"{path} has {path.stat().st_size:,} bytes, which is no settings file")
        value = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        if isinstance(error, PretrainedError):
            raise
        raise PretrainedError(f"{path} is not JSON ({' '.join(str(error).split())}); fetch it again") from None
    if not isinstance(value, dict):
        raise PretrainedError(f"{path} holds {type(value).__name__}, not an object with names")
    return value


def read_header(path: Path) -> dict[str, Entry]:
    """The entries of one file, once it is sure that each lies inside it, is as long as its shape, and shares no byte."""
    if not path.is_file():
        raise PretrainedError(f"{path} is not a regular file")
    size = path.stat().st_size
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, LONGEST_HEADER):
            raise PretrainedError(f"{path}: no safetensors file, or one cut short: a header of {length:,} bytes in a file of "
                                  f"{size:,}; fetch it again")  # fmt: skip
        try:
            header = json.loads(file.read(length), object_pairs_hook=_each_once)
        except (ValueError, RecursionError) as error:
            raise PretrainedError(f"{path}: its header is not JSON ({' '.join(str(error).split())}); fetch it again") from None
    if not isinstance(header, dict):
        raise PretrainedError(f"{path}: its header is no object of entries by name")
    header.pop("__metadata__", None)
    entries = {name: _entry(path, name, value, 8 + length, size) for name, value in header.items()}
    ends = 8 + length
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].size)):
        if entry.start < ends:
            raise PretrainedError(f"{path}: {name} overlaps the entry before it; fetch the file again")
        ends = entry.start + entry.size * SIZES.get(entry.kind, 0)
    return entries


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name stands twice")
    return dict(pairs)


def _entry(path: Path, name: str, value: Any, base: int, size: int) -> Entry:
    try:
        kind, shape, (start, stop) = value["dtype"], tuple(value["shape"]), value["data_offsets"]
    except (TypeError, KeyError, ValueError):
        raise PretrainedError(f"{path}: {name} does not say its dtype, shape and data_offsets; fetch it again") from None
    numbers = (*shape, start, stop)
    if not isinstance(kind, str) or any(type(n) is not int or n < 0 for n in numbers) or not start <= stop <= size - base:
        raise PretrainedError(f"{path}: {name} lies at {start!r} to {stop!r} of {size - base:,} bytes; the file is cut short "
                              "or damaged, fetch it again")  # fmt: skip
    if len(shape) > 32 or (0 in shape and max(shape) > size):  # no bytes bound it
        raise PretrainedError(f"{path}: {name} has {len(shape)} axes of up to {max(shape):,}, as no array of a model has")
    each = SIZES.get(kind)
    if each is not None and math.prod(shape) * each != stop - start:
        raise PretrainedError(f"{path}: {name} has {stop - start:,} bytes, which {kind} of shape {shape} does not fill")
    return Entry(path, kind, shape, base + start)
