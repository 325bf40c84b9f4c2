"""torch.multiprocessing: importable; calling spawn refuses."""

from .distributed import spawn
from .unsupported import lookup

__all__ = ["spawn"]
__getattr__ = lookup("torch.multiprocessing")
