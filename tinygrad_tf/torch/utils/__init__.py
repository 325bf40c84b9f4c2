"""torch.utils: data and tensorboard."""

from ..unsupported import lookup as _lookup
from . import data

__all__ = ["data"]
__getattr__ = _lookup("torch.utils")
