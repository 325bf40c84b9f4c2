"""torch.backends: switches that can be set and change nothing, and devices that are not there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


def _no(*args: Any, **kwargs: Any) -> bool:
    """No: tensors live on the CPU."""
    return False


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Does nothing: the switch is for another device."""


mps = SimpleNamespace(is_available=_no, is_built=_no)
mkldnn = SimpleNamespace(is_available=_no, enabled=False)
cudnn = SimpleNamespace(
    is_available=_no, enabled=False, benchmark=False, deterministic=False, allow_tf32=False, version=_nothing,
)  # fmt: skip
cuda = SimpleNamespace(
    is_built=_no, matmul=SimpleNamespace(allow_tf32=False), enable_flash_sdp=_nothing, enable_math_sdp=_nothing,
    enable_mem_efficient_sdp=_nothing, flash_sdp_enabled=_no,
)  # fmt: skip

accelerator = SimpleNamespace(is_available=_no, device_count=lambda: 0, current_accelerator=_nothing)
