"""An educational deep-learning framework: a NumPy tensor with reverse-mode autodiff, and a transformer built on it."""

from __future__ import annotations

from . import nn, optim
from .engine import composed, enable_grad, is_grad_enabled, no_grad
from .functions import *  # noqa: F403
from .higher import grad
from .random import manual_seed
from .tensor import Tensor

__version__ = "0.1.0"
