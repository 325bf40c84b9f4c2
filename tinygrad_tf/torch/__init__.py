"""The door for code written for PyTorch: `import tinygrad_tf.torch as torch`, and the rest stays as it is.

Everything real is in the engine, the layers and the optimizers, under the same names. Here is what belongs to PyTorch alone.
COVERAGE.md lists every name, its keywords and where it differs.
"""

from __future__ import annotations

import math
import sys as _sys
from contextlib import suppress as _suppress
from types import SimpleNamespace
from typing import Any

from ..device import device
from ..engine import is_grad_enabled
from ..printing import set_printoptions
from . import (
    amp,
    autograd,
    backends,
    cuda,
    distributed,
    distributions,
    linalg,
    multiprocessing,
    nn,
    optim,
    random,
    testing,
    utils,
)  # fmt: skip
from .amp import autocast
from .autograd import enable_grad, inference_mode, no_grad, set_grad_enabled
from .backends import accelerator
from .creation import *  # noqa: F403
from .dtypes import *  # noqa: F403
from .dtypes import BUILTIN_NAMES as _BUILTIN_NAMES
from .functions import *  # noqa: F403
from .functions import TABLE as _TABLE
from .legacy import CLASSES as _CLASSES
from .legacy import Tensor
from .random import Generator, get_rng_state, manual_seed, seed, set_rng_state
from .serialization import load, save
from .unsupported import lookup as _lookup

__version__ = "2.13.0+tinygrad_tf"  # the version whose behaviour is compared
Size = tuple
version = SimpleNamespace(cuda=None, hip=None, __version__=__version__)
inf, nan, pi, e = math.inf, math.nan, math.pi, math.e
newaxis = None
strided, contiguous_format, preserve_format = "strided", "contiguous_format", "preserve_format"


def compile(model: Any = None, **settings: Any) -> Any:
    """The model or function as it is; as a decorator too. Nothing is compiled here."""
    return model if model is not None else lambda function: function


def set_float32_matmul_precision(precision: str) -> None:
    """Does nothing: matrix products are in float32."""


def get_float32_matmul_precision() -> str:
    return "highest"


def use_deterministic_algorithms(mode: bool, **settings: Any) -> None:
    """Does nothing: the same program gives the same numbers here."""


def set_default_device(place: Any) -> None:
    """Only the CPU."""
    Tensor(1).to(device=place)


def get_num_threads() -> int:
    """The most threads that the work is given."""
    import os

    return os.cpu_count() or 1


def set_num_threads(count: int) -> None:
    """Does nothing: OMP_NUM_THREADS, set before the program starts, says how many threads matrix products use."""


with _suppress(ImportError):  # no einops: then no program asks for it
    from . import einops_backend
for _name, _module in {"cuda.amp": amp, "nn.parameter": nn, "nn.modules": nn, "optim.optimizer": optim}.items():
    _sys.modules[f"{__name__}.{_name}"] = _module  # PyTorch has these as modules of their own, and programs import from them
nn.parameter = nn.modules = nn
optim.optimizer = optim
globals().update(_TABLE | _BUILTIN_NAMES | _CLASSES)
__getattr__ = _lookup("torch")
