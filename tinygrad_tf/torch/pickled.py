"""Reading PyTorch's own zip files. Their pickle may name tensors and plain containers, no more: it can run no code."""

from __future__ import annotations

import io
import pickle
import pickletools
import sys
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import numpy as np

from ..device import device
from ..dtypes import bool_, float16, float32, float64, int8, int16, int32, int64, uint8
from ..nn.parameter import Parameter
from ..tensor import Tensor
from .dtypes import bfloat16

STORAGES: dict[str, Any] = {
    "FloatStorage": float32, "DoubleStorage": float64, "HalfStorage": float16, "BFloat16Storage": bfloat16,
    "LongStorage": int64, "IntStorage": int32, "ShortStorage": int16, "CharStorage": int8, "ByteStorage": uint8,
    "BoolStorage": bool_,
}  # fmt: skip
DTYPES = {d.name: d for d in (float16, float32, float64, int8, int16, int32, int64, uint8, bool_)} | {"bfloat16": bfloat16}


class _Storage:
    """The dtype of a storage, by the name of its class in the pickle."""

    def __init__(self, name: str):
        self.dtype = STORAGES[name]

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError("the file changes the class of its storages, which is not a part of it")


def _tensor(storage: np.ndarray, offset: int, size: tuple, stride: tuple, requires_grad: bool = False, *rest: Any) -> Tensor:
    """A view of a storage; ValueError where it would reach beyond it."""
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    if min([offset, *size, *stride]) < 0 or (0 not in size and last >= storage.size):
        raise ValueError(f"a tensor of shape {size}, strides {stride}, from {offset} on is not in {storage.size} elements")
    if 0 in size:
        return Tensor(np.zeros(size, storage.dtype), requires_grad)
    steps = [step * storage.itemsize for step in stride]
    return Tensor(np.lib.stride_tricks.as_strided(storage[offset:], size, steps), requires_grad)


def _parameter(data: Tensor, requires_grad: bool = True, *rest: Any) -> Parameter:
    return Parameter(data, requires_grad)


class _Callable:
    """What a pickle may call and nothing more: a class of Python's that it got hold of it could also change, for everybody."""

    __slots__ = ("call",)

    def __init__(self, call: Callable):
        self.call = call

    def __call__(self, *args: Any) -> Any:
        return self.call(*args)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError(f"the file changes {getattr(self.call, '__name__', 'a class')}, which is not a part of it")


KNOWN: dict[tuple[str, str], Any] = {
    ("torch._utils", "_rebuild_tensor_v2"): _Callable(_tensor),
    ("torch._utils", "_rebuild_parameter"): _Callable(_parameter),
    ("torch", "Size"): _Callable(tuple),
    ("torch", "device"): _Callable(device),
    ("collections", "OrderedDict"): _Callable(OrderedDict),
    ("collections", "Counter"): _Callable(Counter),
    ("builtins", "set"): _Callable(set),
    ("__builtin__", "set"): _Callable(set),
    ("_codecs", "encode"): _Callable(lambda text, encoding: text.encode("latin1")),  # how old protocols write bytes
    **{("torch", name): _Storage(name) for name in STORAGES},
    **{("torch", name): dtype for name, dtype in DTYPES.items()},
}


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, read_storage: Callable):
        super().__init__(file, encoding="utf-8")
        self.read_storage = read_storage

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in KNOWN:
            raise pickle.UnpicklingError(
                f"the file holds a {module}.{name}; tensors, numbers, strings and plain containers are read here, no other "
                "class: in PyTorch, save a state_dict() and plain dicts"
            )
        return KNOWN[module, name]

    def persistent_load(self, pid: Any) -> Any:
        kind, storage, key, _, numel = pid
        if kind != "storage" or not isinstance(storage, _Storage):
            raise pickle.UnpicklingError(f"the file refers to {kind!r}, which is no storage of a tensor")
        return self.read_storage(storage.dtype, str(key), int(numel))


def read_pickled(archive: zipfile.ZipFile) -> Any:
    """The object in an archive that torch.save of PyTorch wrote; bfloat16 becomes float32, which holds its numbers exactly."""
    names = archive.namelist()
    pickles = [name for name in names if name.endswith("/data.pkl") or name == "data.pkl"]
    if len(pickles) != 1:
        raise ValueError("this zip file is not one of torch.save: there is no data.pkl in it")
    folder = pickles[0].removesuffix("data.pkl")
    order = archive.read(f"{folder}byteorder").decode() if f"{folder}byteorder" in names else "little"
    storages: dict[tuple[str, str], np.ndarray] = {}

    def read_storage(dtype: Any, key: str, numel: int) -> np.ndarray:
        place = (key, str(dtype))
        if place not in storages:
            raw = np.frombuffer(archive.read(f"{folder}data/{key}"), np.uint16 if dtype is bfloat16 else dtype).copy()
            raw = raw if order == sys.byteorder else raw.byteswap()
            if raw.size < numel:
                raise ValueError(f"storage {key} holds {raw.size} elements, not {numel}")
            storages[place] = (raw.astype(np.uint32) << 16).view(np.float32) if dtype is bfloat16 else raw
        return storages[place]

    program = archive.read(pickles[0])
    for op, argument, _ in pickletools.genops(program):  # checks lengths against the bytes there; the unpickler does not
        if op.name.endswith("PUT") and int(argument or 0) > len(program):  # it would make a list so long
            raise ValueError(f"the pickle numbers its objects up to {argument}, and has {len(program)} bytes")
    return _Unpickler(io.BytesIO(program), read_storage).load()
