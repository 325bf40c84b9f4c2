"""torch.nn.utils: clipping that returns a tensor, as PyTorch's does; sequences of one length."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ....dtypes import float32
from ....errors import real
from ....nn import utils
from ....nn.utils import clip_grad_value_
from ....tensor import Tensor
from ...unsupported import lookup
from . import rnn

__all__ = ["clip_grad_norm_", "clip_grad_value_", "rnn"]


def clip_grad_norm_(parameters: Iterable[Tensor] | Tensor, max_norm: float, norm_type: float = 2.0,
                    error_if_nonfinite: bool = False, foreach: bool | None = None) -> Tensor:
    """Scale all gradients by one factor so that, as one vector, they are at most max_norm long; the length before, 0-d."""
    if norm_type != 2:
        raise NotImplementedError(f"clip_grad_norm_ measures the 2-norm, not the {norm_type}-norm")
    parameters = utils.listed(parameters)
    if error_if_nonfinite and not all(np.isfinite(p.grad.array).all() for p in parameters if p.grad is not None):
        raise RuntimeError("the gradients hold NaN or infinity, so their norm is no number")
    return Tensor(np.asarray(utils.clip_grad_norm_(parameters, float(real("max_norm", max_norm, -np.inf))), float32))


__getattr__: Any = lookup("torch.nn.utils")
