"""torch.distributed and torch.multiprocessing: importable, since programs import them at the top; one process computes here."""

from __future__ import annotations

from typing import Any

from .unsupported import PROCESSES, lookup, refusal, refused_class

__all__ = [
    "all_gather", "all_reduce", "barrier", "broadcast", "destroy_process_group", "get_rank", "get_world_size",
    "init_process_group", "is_available", "is_initialized", "reduce", "spawn",
]  # fmt: skip


def is_available() -> bool:
    return False


def is_initialized() -> bool:
    return False


def _refused(name: str) -> Any:
    return refusal(f"torch.distributed.{name}", PROCESSES)


init_process_group, destroy_process_group = _refused("init_process_group"), _refused("destroy_process_group")
get_rank, get_world_size, barrier = _refused("get_rank"), _refused("get_world_size"), _refused("barrier")
broadcast, all_reduce, all_gather, reduce = map(_refused, ("broadcast", "all_reduce", "all_gather", "reduce"))
spawn: Any = refusal("torch.multiprocessing.spawn", PROCESSES)

__path__: list[str] = []  # modules below it, as torch.distributed.fsdp, are refused with the same words


def __getattr__(name: str) -> Any:
    """Whatever else a program imports from it: a class to ask about, which refuses to be made."""
    if name.startswith("_"):
        return lookup("torch.distributed")(name)
    return refused_class(f"torch.distributed.{name}", PROCESSES)
