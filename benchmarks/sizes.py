"""The sizes at which a training step is measured, and the text that every framework reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_tf.data import get_batch

VOCABULARY = 65  # as many characters as Tiny Shakespeare has
LR, BETAS, WEIGHT_DECAY, CLIP = 1e-3, (0.9, 0.99), 0.1, 1.0  # nanoGPT's for its character models


@dataclass(frozen=True)
class Size:
    """A decoder and the batch it is trained on; the names are nanoGPT's."""

    n_layer: int
    n_head: int
    n_embd: int
    block_size: int
    batch_size: int

    @property
    def tokens(self) -> int:
        """Tokens in one step."""
        return self.batch_size * self.block_size


SIZES = {
    "tiny": Size(n_layer=2, n_head=2, n_embd=32, block_size=16, batch_size=8),
    "laptop": Size(n_layer=4, n_head=4, n_embd=128, block_size=64, batch_size=12),  # nanoGPT's settings for a CPU
    "baby": Size(n_layer=6, n_head=6, n_embd=384, block_size=256, batch_size=8),  # its character model, a smaller batch
}


def sized(size: str | dict[str, Any]) -> Size:
    """One of SIZES by its name, or another by its five numbers: what a worker is told over its pipe."""
    return SIZES[size] if isinstance(size, str) else Size(**size)


def text(seed: int = 0) -> np.ndarray:
    """(N,) int64   a made-up text of 50 words in random order: enough to learn that the losses fall."""
    generator = np.random.default_rng(seed)
    words = [generator.integers(0, VOCABULARY, n) for n in generator.integers(3, 9, 50)]
    return np.concatenate([words[i] for i in generator.integers(0, len(words), 40_000)])


def parts_of_attention(batch: int, heads: int, length: int, head_dim: int) -> list[np.ndarray]:
    """Queries, keys, values and the gradient of what is read, each (B, H, T, D) float32."""
    generator = np.random.default_rng(0)
    return [generator.standard_normal((batch, heads, length, head_dim), np.float32) for _ in range(4)]


def decaying(parameters: Iterable[Any], decay: float) -> list[dict[str, Any]]:
    """The groups of an optimizer, in any framework: matrices decay, gains do not."""
    parameters = list(parameters)
    return [
        {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]


def batches(size: Size, seed: int = 1) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Endless (ids, targets), each (B, T) int64; the same seed gives every framework the same ones."""
    ids, generator = text(), np.random.default_rng(seed)
    while True:
        yield get_batch(ids, size.block_size, size.batch_size, generator)
