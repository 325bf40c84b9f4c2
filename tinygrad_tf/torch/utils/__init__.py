"""torch.utils: data, checkpoint and tensorboard."""

from ..unsupported import lookup as _lookup
from . import checkpoint, data

__all__ = ["checkpoint", "data"]
__getattr__ = _lookup("torch.utils")
