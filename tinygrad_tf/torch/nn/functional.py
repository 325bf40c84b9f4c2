"""torch.nn.functional: the functions of `tinygrad_tf.nn.functional`, and a few that are compositions of them."""

from ...errors import tensors as _tensors
from ...nn import functional as _layers
from ...tensor import Tensor as _Tensor
from ..unsupported import lookup as _lookup

_OTHERS = {"Any", "Tensor", "as_array", "as_ids", "called", "check_ids", "mark_written", "real", "shown", "source", "swiglu",
           "tensors", "whole"}  # fmt: skip
_NAMES = [name for name, value in vars(_layers).items() if callable(value) and not name.startswith("_")]
globals().update({name: getattr(_layers, name) for name in _NAMES if name not in _OTHERS})


def normalize(input: _Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> _Tensor:
    """input / max(its p-norm along dim, eps)"""
    _tensors(input=input)
    return input / input.norm(p, dim, keepdim=True).clamp(min=eps)


__getattr__ = _lookup("torch.nn.functional")
