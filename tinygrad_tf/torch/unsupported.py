"""Names of PyTorch that are not here. Each says so when it is asked for, imported or called, and names the supported way."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from typing import Any


class Unsupported(NotImplementedError, AttributeError):
    """Not implemented, and for `hasattr` not there either."""


class UnsupportedImport(NotImplementedError, ImportError):
    """Not implemented, and for `try: from ... import ... except ImportError` not there either."""


COMPLEX = "complex numbers are not here: write rotary positions with cos and sin, or take nn.Rotary of tinygrad_tf"
GRAPHS = "there is no graph compiler or exporter here: the model runs as it is, viz.draw shows its graph"
ATTENTION = "use torch.nn.functional.scaled_dot_product_attention, with a mask if needed; it never holds the T x T matrix"
WHOLE = "tensors are float32 or float64 here: quantized models are not supported"
SPARSE = "tensors are dense here"
PACKED = ("packed sequences are not here: give the padded batch, and take what you need by a mask, or each text's last state "
          "by out[range(B), lengths - 1] with batch_first=True")
PROCESSES = "one process computes here: run the program without distributed data parallelism"

WAYS = {
    "torch": {
        "polar": COMPLEX, "view_as_complex": COMPLEX, "view_as_real": COMPLEX, "complex": COMPLEX, "complex64": COMPLEX,
        "complex128": COMPLEX, "cfloat": COMPLEX, "fft": COMPLEX, "jit": GRAPHS, "onnx": GRAPHS, "export": GRAPHS, "fx": GRAPHS,
        "_dynamo": GRAPHS, "_inductor": GRAPHS, "quantization": WHOLE, "ao": WHOLE, "qint8": WHOLE, "quint8": WHOLE,
        "sparse": SPARSE, "sparse_coo_tensor": SPARSE, "func": "use backward(create_graph=True) or tinygrad_tf.grad",
        "vmap": "write the batch axis out: operations broadcast over leading axes", "hub": "load weights with torch.load",
        "profiler": "viz.record and python -m benchmarks measure here", "float8_e4m3fn": WHOLE, "float8_e5m2": WHOLE,
    },
    "torch.nn": {"attention": ATTENTION, "quantized": WHOLE, "DataParallel": PROCESSES},
}  # fmt: skip


def unsupported(name: str, way: str) -> Unsupported:
    return Unsupported(f"{name} is not supported: {way}")


def _missing(module: str, name: str) -> str:
    return f"tinygrad_tf has no {module}.{name}: tinygrad_tf/torch/COVERAGE.md lists the names that are here"


def lookup(module: str) -> Callable[[str], Any]:
    """A module's `__getattr__`: what is asked for and not there is either out of scope, or just not there."""

    def get(name: str) -> Any:
        way = WAYS.get(module, {}).get(name)
        if way is not None:
            raise unsupported(f"{module}.{name}", way)
        raise Unsupported(_missing(module, name))

    return get


class Refusing(MetaPathFinder):
    """Asked last when something under `tinygrad_tf.torch` is imported: what is not there says what to do instead.

    `from torch import jit` comes here too: Python asks the module for the name, and then for a module of that name.
    """

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname.startswith(f"{__package__}."):
            module, _, name = fullname.removeprefix(f"{__package__.rpartition('.')[0]}.").rpartition(".")
            way = PROCESSES if module == "torch.distributed" else WAYS.get(module, {}).get(name)
            raise UnsupportedImport(f"{module}.{name} is not supported: {way}" if way else _missing(module, name))


if not any(isinstance(finder, Refusing) for finder in sys.meta_path):
    sys.meta_path.append(Refusing())


def refusal(name: str, way: str) -> Callable[..., Any]:
    """A function that can be imported, and refuses to be called."""

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise unsupported(name, way)

    refuse.__name__ = name.rpartition(".")[2]
    return refuse


def refused_class(name: str, way: str) -> type:
    """A class that can be imported and asked about with isinstance, and refuses to be made."""

    def refuse(self: Any, *args: Any, **kwargs: Any) -> None:
        raise unsupported(name, way)

    return type(name.rpartition(".")[2], (), {"__init__": refuse})
