"""torch.utils.checkpoint: recomputation under PyTorch's names. What it does, `nn.checkpoint` says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...recompute import checkpoint
from ..nn import Sequential
from ..unsupported import lookup as _lookup


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any) -> Any:
    """The functions, or the layers of an nn.Sequential, one after the other, in so many checkpoints; the last one plain."""
    layers = list(functions.children() if isinstance(functions, Sequential) else functions)
    if not 1 <= segments <= len(layers):
        raise ValueError(f"checkpoint_sequential: {len(layers)} layers do not make {segments} segments")

    size = len(layers) // segments

    def segment(start: int, end: int) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            for layer in layers[start:end]:
                x = layer(x)
            return x

        return run

    for start in range(0, size * (segments - 1), size):
        input = checkpoint(segment(start, start + size), input, use_reentrant=use_reentrant, **kwargs)
    return segment(size * (segments - 1), len(layers))(input)


__getattr__ = _lookup("torch.utils.checkpoint")
