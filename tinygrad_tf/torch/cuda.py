"""torch.cuda without CUDA: questions are answered no and 0, what needs it is an error, what only tunes it does nothing."""

from __future__ import annotations

from typing import Any

from ..device import on_cpu
from . import amp
from .unsupported import lookup

__all__ = [
    "Event", "amp", "current_device", "device_count", "empty_cache", "get_device_capability", "get_device_name",
    "get_device_properties", "is_available", "is_bf16_supported", "is_initialized", "manual_seed", "manual_seed_all",
    "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved", "reset_peak_memory_stats",
    "set_device", "synchronize",
]  # fmt: skip


def _no(*args: Any, **kwargs: Any) -> bool:
    """No: there is no CUDA here."""
    return False


def _zero(*args: Any, **kwargs: Any) -> int:
    """0: there is no CUDA here."""
    return 0


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Does nothing: there is no CUDA here to be tuned or seeded."""


def _needs_it(*args: Any, **kwargs: Any) -> None:
    """RuntimeError: no CUDA here."""
    on_cpu("cuda")


is_available = is_bf16_supported = is_initialized = _no
device_count = memory_allocated = max_memory_allocated = memory_reserved = max_memory_reserved = _zero
manual_seed = manual_seed_all = empty_cache = reset_peak_memory_stats = _nothing
synchronize = set_device = current_device = Event = _needs_it
get_device_name = get_device_properties = get_device_capability = _needs_it

__getattr__ = lookup("torch.cuda")
