"""Names of PyTorch that are not here. Each says so when it is asked for, imported or called, and names the supported way."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from typing import Any

from ..missing import WAYS as OF_TENSORS
from ..missing import Unsupported, not_here, unsupported


class UnsupportedImport(NotImplementedError, ImportError):
    """Not implemented, and for `try: from ... import ... except ImportError` not there either."""


COMPLEX = "complex numbers are not here: write rotary positions with cos and sin, or take nn.Rotary of tinygrad_tf"
GRAPHS = "there is no graph compiler or exporter here: the model runs as it is, viz.draw shows its graph"
ATTENTION = "use torch.nn.functional.scaled_dot_product_attention, with a mask if needed; it works in blocks of queries"
WHOLE = "tensors are float32 or float64 here: quantized models are not supported"
SPARSE = "tensors are dense here"
MATRICES = "numpy.linalg on x.detach().numpy() computes it, without a gradient"
AXES = "convolutions and pools are over one axis or two: Conv1d, Conv2d, MaxPool1d, MaxPool2d, AvgPool1d, AvgPool2d"
BIGGER = "repeat_interleave(k, dim) along each axis makes a picture k times as large, and F.avg_pool2d smaller"
CUTS = "Tensor.unfold(dim, size, step) cuts the windows of one axis; call it once for each"
LARGEST = "F.max_pool1d and F.max_pool2d with the size of the axis as kernel_size, or x.amax(-1)"
DENSE = "gradients are dense here: take Adam"
PROCESSES = "one process computes here: run the program without distributed data parallelism"

WAYS = {
    "torch": {
        "polar": COMPLEX, "view_as_complex": COMPLEX, "view_as_real": COMPLEX, "complex": COMPLEX, "complex64": COMPLEX,
        "complex128": COMPLEX, "cfloat": COMPLEX, "fft": COMPLEX, "jit": GRAPHS, "onnx": GRAPHS, "export": GRAPHS, "fx": GRAPHS,
        "_dynamo": GRAPHS, "_inductor": GRAPHS, "quantization": WHOLE, "ao": WHOLE, "qint8": WHOLE, "quint8": WHOLE,
        "sparse": SPARSE, "sparse_coo_tensor": SPARSE, "func": "use backward(create_graph=True) or tinygrad_tf.grad",
        "vmap": "write the batch axis out: operations broadcast over leading axes", "hub": "load weights with torch.load",
        **dict.fromkeys(["svd", "inverse", "det", "qr", "cholesky", "pinverse", "slogdet", "logdet"], MATRICES),
        "profiler": "viz.record and python -m benchmarks measure here", "float8_e4m3fn": WHOLE, "float8_e5m2": WHOLE,
    },
    "torch.nn": {
        "attention": ATTENTION, "quantized": WHOLE, "DataParallel": PROCESSES, "Conv3d": AXES, "ConvTranspose1d": AXES,
        "ConvTranspose2d": AXES, "MaxPool3d": AXES, "AvgPool3d": AXES, "Upsample": BIGGER, "Fold": CUTS, "Unfold": CUTS,
        "AdaptiveMaxPool1d": LARGEST, "AdaptiveMaxPool2d": LARGEST,
        "Bilinear": "torch.einsum('bi,oij,bj->bo', x1, weight, x2) + bias with parameters of these shapes is this layer",
        "InstanceNorm1d": "GroupNorm(channels, channels) is the same norm", "Buffer": "register_buffer(name, tensor) holds it",
        "InstanceNorm2d": "GroupNorm(channels, channels) is the same norm",
        "AdaptiveLogSoftmaxWithLoss": "CrossEntropyLoss over the whole vocabulary",
        "CTCLoss": "CrossEntropyLoss on targets that are aligned with the positions",
    },
    "torch.nn.functional": {
        "conv3d": AXES, "conv_transpose1d": AXES, "conv_transpose2d": AXES, "interpolate": BIGGER, "upsample": BIGGER,
        "fold": CUTS, "unfold": CUTS, "adaptive_max_pool1d": LARGEST, "adaptive_max_pool2d": LARGEST,
        "bilinear": "torch.einsum('bi,oij,bj->bo', x1, weight, x2) + bias", "instance_norm": "group_norm(x, x.shape[1])",
    },
    "torch.optim": {"NAdam": "take Adam or RAdam", "SparseAdam": DENSE, "LBFGS": "take Adam: there are no closures here"},
    "torch.linalg": dict.fromkeys(["svd", "eig", "eigh", "inv", "pinv", "det", "qr", "solve", "lstsq", "cholesky"], MATRICES),
    "torch.nn.utils": {"weight_norm": "F.linear(x, g * F.normalize(v, dim=1)) in forward, with parameters g and v"},
    "torch.autograd": {
        "functional": "one grad() for each element makes a Jacobian; backward(create_graph=True) gives second derivatives",
        "gradcheck": "tinygrad_tf.check.gradcheck compares with finite differences, and names the op that is wrong",
        "forward_ad": "derivatives are taken backward here: grad() or backward()",
        "set_detect_anomaly": "with torch.autograd.detect_anomaly(): around what makes the NaN",
    },
}  # fmt: skip


def _way(module: str, name: str) -> str | None:
    """How to do without; a function of `torch` is a method of the tensor x."""
    return WAYS.get(module, {}).get(name) or (OF_TENSORS.get(name) if module == "torch" else None)


def lookup(module: str) -> Callable[[str], Any]:
    """A module's `__getattr__`: what is asked for and not there is either out of scope, or just not there."""

    def get(name: str) -> Any:
        way = _way(module, name)
        if way is not None:
            raise unsupported(f"{module}.{name}", way)
        raise Unsupported(not_here(f"{module}.{name}"))

    return get


class Refusing(MetaPathFinder):
    """Asked last when something under `tinygrad_tf.torch` is imported: what is not there says what to do instead.

    `from torch import jit` comes here too: Python asks the module for the name, and then for a module of that name.
    """

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname.startswith(f"{__package__}."):
            module, _, name = fullname.removeprefix(f"{__package__.rpartition('.')[0]}.").rpartition(".")
            way = PROCESSES if module == "torch.distributed" else _way(module, name)
            raise UnsupportedImport(f"{module}.{name} is not supported: {way}" if way else not_here(f"{module}.{name}"))


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
