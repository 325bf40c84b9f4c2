"""`save` and `load` without pickle: a zip file of one JSON text and an .npy file for each array. No file can run code.

In the JSON, what is not a string, number, boolean, None, list or dict with string keys is an object with the key "$", which
names its kind. Tensors that show the same memory are one array in the file, and share memory again when loaded.
"""

from __future__ import annotations

import base64
import io
import json
import os
import pickle
import re
import struct
import zipfile
from collections import OrderedDict
from typing import Any

import numpy as np

from ..checkpoint import written_atomically
from ..device import device, on_cpu
from ..errors import OneLine, one_line
from ..nn.module import Module
from ..nn.parameter import Parameter
from ..tensor import Tensor
from .dtypes import bfloat16
from .pickled import read_pickled

TEXT = "tinygrad_tf.json"
HEADER = re.compile(r"{'descr': '([<>|]\w+)', 'fortran_order': (True|False), 'shape': \(([\d, ]*)\), } *\n")  # of an .npy file
PLAIN = (str, int, float, bool, type(None))
DAMAGED = (ValueError, TypeError, KeyError, IndexError, AttributeError, EOFError, OverflowError, RecursionError, MemoryError,
           NotImplementedError, RuntimeError, struct.error, zipfile.BadZipFile)  # whatever its bytes say, no other can come up


def save(obj: Any, f: Any, pickle_module: Any = None, pickle_protocol: Any = None) -> None:
    """Write tensors, numbers, strings and dicts, lists, tuples and sets of them to a path or an open binary file.

    A path is written as a checkpoint is: the old file or the new one, whole, whatever happens meanwhile.
    """
    arrays: dict[Any, np.ndarray] = {}
    text = json.dumps(_packed(obj, arrays, "the object"))
    if hasattr(f, "write"):
        return _write(f, text, list(arrays.values()))
    with written_atomically(os.fspath(f)) as file:  # a run that is stopped here leaves the file from before
        _write(file, text, list(arrays.values()))


def _write(file: Any, text: str, arrays: list[np.ndarray]) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(TEXT, text)
        for i, array in enumerate(arrays):
            with archive.open(f"{i}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def _packed(x: Any, arrays: dict[Any, np.ndarray], path: str) -> Any:
    if type(x) in PLAIN:
        return x
    inside = lambda items: [_packed(item, arrays, f"{path}[{i}]") for i, item in enumerate(items)]
    if type(x) in (dict, OrderedDict):
        if type(x) is dict and all(type(key) is str for key in x) and "$" not in x:
            return {key: _packed(value, arrays, f"{path}[{key!r}]") for key, value in x.items()}
        pairs = [[_packed(k, arrays, path), _packed(v, arrays, f"{path}[{k!r}]")] for k, v in x.items()]
        return {"$": "OrderedDict" if type(x) is OrderedDict else "dict", "pairs": pairs}
    if type(x) is list:
        return inside(x)
    if type(x) in (tuple, set):
        return {"$": type(x).__name__, "items": inside(x)}
    if isinstance(x, Tensor):
        kind = "Parameter" if isinstance(x, Parameter) else "Tensor"
        return {"$": kind, "array": _place(x.array, arrays), "requires_grad": x.requires_grad and x.node is None}
    if isinstance(x, np.ndarray) and x.dtype.kind in "biufc":
        return {"$": "ndarray", "array": _place(x, arrays)}
    if isinstance(x, np.generic) and x.dtype.kind in "biufc":
        return {"$": "number", "array": _place(np.asarray(x), arrays)}
    if type(x) is bytes:
        return {"$": "bytes", "base64": base64.b64encode(x).decode()}
    if isinstance(x, np.dtype):
        return {"$": "dtype", "name": x.name}
    if x is bfloat16:
        return {"$": "dtype", "name": "bfloat16"}
    if type(x) is device:
        return {"$": "device", "name": str(x)}
    if isinstance(x, Module):
        raise TypeError(f"{path} is a whole {type(x).__name__}: save its state_dict(), which load_state_dict() takes back")
    raise TypeError(f"{path} is a {type(x).__name__}, which save() does not write; vars(x), the dict of an object, it does")


def _place(array: np.ndarray, arrays: dict[Any, np.ndarray]) -> int:
    """The number of this array in the file; the same for all that show exactly the same memory."""
    key: Any = (array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str)
    key = key if array.size else (*key, len(arrays))  # arrays without elements have no memory of their own
    arrays.setdefault(key, array)
    return list(arrays).index(key)


# ------------------------------------------------------------------------------------------------ reading


def load(f: Any, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = None,
         mmap: bool | None = None) -> Any:
    """What `save` wrote, or a file of PyTorch's (1.6 or later) that holds tensors and plain containers.

    No code in a file is run, with `weights_only` or without, and nothing larger than the file is made of it. `map_location` can
    only be the CPU. With `mmap` the file is read all the same. Raises ValueError, in one line, for a file that is damaged or
    none of these, and pickle.UnpicklingError for one that holds other classes.
    """
    if isinstance(map_location, str):
        on_cpu(map_location)
    if not hasattr(f, "read"):
        with open(f, "rb") as file:
            return load(file, map_location)
    data = f.read()
    if not data.startswith(b"PK") and not zipfile.is_zipfile(io.BytesIO(data)):
        raise ValueError("this is no file of torch.save: those are zip files since PyTorch 1.6, older ones are not read")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if sum(entry.file_size for entry in entries) > len(data) or any(entry.compress_type for entry in entries):
                raise ValueError("torch.save compresses nothing, and this zip file says that more is in it than it is long")
            if TEXT not in archive.namelist():
                return read_pickled(archive)
            return _unpacked(json.loads(archive.read(TEXT)), archive, {})
    except pickle.UnpicklingError as error:
        raise pickle.UnpicklingError(one_line(str(error))) from None
    except DAMAGED as error:
        raise OneLine(f"this file of torch.save is damaged ({type(error).__name__}: {error})") from None


def _unpacked(x: Any, archive: zipfile.ZipFile, arrays: dict[int, np.ndarray]) -> Any:
    inside = lambda items: [_unpacked(item, archive, arrays) for item in items]
    if isinstance(x, list):
        return inside(x)
    if not isinstance(x, dict):
        return x
    kind = x.get("$")
    if kind is None:
        return {key: _unpacked(value, archive, arrays) for key, value in x.items()}
    if kind in ("dict", "OrderedDict"):
        return {"dict": dict, "OrderedDict": OrderedDict}[kind](inside(pair) for pair in x["pairs"])
    if kind in ("tuple", "set"):
        return {"tuple": tuple, "set": set}[kind](inside(x["items"]))
    if kind == "bytes":
        return base64.b64decode(x["base64"])
    if kind == "dtype":
        return bfloat16 if x["name"] == "bfloat16" else np.dtype(x["name"])
    if kind == "device":
        return device(x["name"])
    number = int(x["array"])
    if number not in arrays:
        arrays[number] = _array(archive.read(f"{number}.npy"))
    array = arrays[number]
    if kind == "ndarray":
        return array
    if kind == "number":
        return array[()]
    if kind not in ("Tensor", "Parameter"):
        raise ValueError(f"the file holds a {kind}, which this version does not read")
    return (Parameter if kind == "Parameter" else Tensor)(array, requires_grad=x["requires_grad"])


def _array(data: bytes) -> np.ndarray:
    """The array of an .npy file that `save` wrote.

    NumPy's own reader lets Python parse the header, and takes the memory before it looks whether the numbers are there.
    """
    start = 10 + int.from_bytes(data[8:10], "little")
    said = HEADER.fullmatch(data[10:start].decode("latin1")) if data.startswith(b"\x93NUMPY\x01\0") else None
    if said is None:
        raise ValueError("the header of an array is none that save() writes")
    flat = np.frombuffer(data[start:], said[1])
    shape = [int(size) for size in said[3].split(",") if size.strip()]
    return flat.reshape(shape, order="F" if said[2] == "True" else "C").copy("K")
