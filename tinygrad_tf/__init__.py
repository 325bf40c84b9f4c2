"""An educational deep-learning framework: a NumPy tensor with reverse-mode autodiff, and a transformer built on it."""

from __future__ import annotations

from . import process  # before what takes time

# isort: split
from . import kernels, nn, optim  # kernels first: what it refuses is then told in a few lines
from .engine import composed, enable_grad, is_grad_enabled, no_grad
from .functions import *  # noqa: F403
from .higher import grad
from .random import manual_seed
from .replay import replaying
from .tensor import Tensor

__version__ = "0.1.0"
