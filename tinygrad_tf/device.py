"""Where a tensor lives: here always on the CPU. What asks for another place is an error, never the CPU in silence."""

from __future__ import annotations

from typing import Any

KINDS = ("cpu", "cuda", "mps", "xpu", "meta", "mtia", "hpu")  # what PyTorch programs ask for by name


class device(str):
    """A place by name, as torch.device: `device("cuda:1")` has the type "cuda" and the index 1. Only the CPU holds tensors."""

    __slots__ = ()

    def __new__(cls, type: Any = "cpu", index: int | None = None) -> device:
        name = str(type) if index is None else f"{type}:{index}"
        kind, colon, number = name.partition(":")
        if kind not in KINDS or (colon and not number.isdigit()):
            raise RuntimeError(f"no device is called {name!r}: the kinds are {', '.join(KINDS)}")
        return super().__new__(cls, name)

    @property
    def type(self) -> str:
        return str(self).partition(":")[0]  # of a plain string: a device without a number would give itself

    @property
    def index(self) -> int | None:  # type: ignore[override]  # a string's own index() is of no use here
        return int(self.partition(":")[2]) if ":" in self else None

    def __repr__(self) -> str:
        return f"device(type={self.type!r}" + (f", index={self.index})" if ":" in self else ")")


CPU = device("cpu")


def on_cpu(place: Any) -> None:
    """RuntimeError unless `place` is the CPU, by name or as a device, or None."""
    if place is not None and place is not CPU and (kind := device(place).type) != "cpu":
        raise RuntimeError(f"no {kind.upper() if kind == 'cuda' else kind} here: tensors live on the CPU")
