"""Mixed precision in name: all is computed in the dtype that it has, so autocast and the loss scaler pass things through."""

from __future__ import annotations

import warnings
from contextlib import ContextDecorator
from typing import Any

import numpy as np

from ..dtypes import float16
from .dtypes import bfloat16

__all__ = ["GradScaler", "autocast"]

_warned = False


class autocast(ContextDecorator):
    """Changes no dtype. Says so once if it is switched on for a half dtype."""

    def __init__(self, device_type: str = "cpu", dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None):
        global _warned  # noqa: PLW0603
        half = dtype is bfloat16 or (dtype is not None and np.dtype(dtype) == float16)
        if enabled and half and not _warned:
            _warned = True
            warnings.warn(f"autocast to {dtype} computes in float32 here, as without it", stacklevel=2)

    def __enter__(self) -> autocast:
        return self

    def __exit__(self, *error: object) -> None:
        pass


class GradScaler:
    """Scales nothing: float32 gradients do not underflow. `step(optimizer)` steps."""

    def __init__(self, device: str = "cuda", init_scale: float = 65536.0, growth_factor: float = 2.0,
                 backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True):
        if enabled:
            warnings.warn("GradScaler is enabled, but CUDA is not available: it scales nothing", stacklevel=2)

    def scale(self, outputs: Any) -> Any:
        return outputs

    def unscale_(self, optimizer: Any) -> None:
        pass

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: Any = None) -> None:
        pass

    def get_scale(self) -> float:
        return 1.0

    def is_enabled(self) -> bool:
        return False

    def state_dict(self) -> dict:
        return {}

    def load_state_dict(self, state_dict: dict) -> None:
        pass
