"""An encoder-decoder that has read its sources is a decoder: `Reader` makes it one, and every way to generate then applies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any

import numpy as np

from .generate import GenerationStats, evaluating, generate, padded, whole_numbers
from .models.encoder_decoder import EncoderDecoder
from .models.stack import Cache
from .tensor import Tensor


class Reader:
    """ids (B, T) -> logits (B, T, V)   the decoder of `model` with B sources at hand, or one for all; they were encoded once

    sources: rows of ids, the shorter ones padded on the right; or what else the encoder takes, as spectrograms in one array.
    With a cache, the keys and values of the sources are computed once too.
    """

    def __init__(self, model: EncoderDecoder, sources: Any):
        if not isinstance(model, EncoderDecoder):
            raise TypeError(f"sources are read by an EncoderDecoder, not by a {type(model).__name__}")
        self.model, self.config = model, model.decoder.config
        self.mask: np.ndarray | None = None
        if model.encoder.token_embedding is not None:
            sources = [whole_numbers(row, "ids of a source") for row in sources]
            if not sources or not all(map(len, sources)):
                raise ValueError("nothing to read: there is at least one source, and in each at least one token")
            sources, mask = padded(sources)
            self.mask = None if mask.all() else mask
        with evaluating(model):
            self.memory = model.encode(sources, self.mask)  # (B, S, d)

    def __call__(self, ids: Any, cache: Cache | None = None) -> Tensor:
        memory = self.memory
        if len(memory) == 1 and len(ids) > 1:
            memory = Tensor(np.repeat(memory.array, len(ids), axis=0))  # a cache has rows for all by then, and reads no memory
        elif len(memory) != len(ids):
            raise ValueError(f"{len(ids)} texts for {len(memory)} sources: one for each, or one source for all")
        return self.model.decode(ids, memory, self.mask, cache)

    def take(self, rows: np.ndarray) -> Reader:
        """The reader of these sources (B',), each as often as it is named; one source for all stays it."""
        chosen = copy(self)
        if len(self.memory) > 1:
            chosen.memory = Tensor(self.memory.array[rows])
            chosen.mask = None if self.mask is None else self.mask[rows]
        return chosen

    def new_cache(self, batch: int = 1) -> Cache:
        return self.model.new_cache(batch)

    def modules(self) -> Iterator[Any]:
        return self.model.modules()


def translate(model: EncoderDecoder, sources: Sequence[Any], n: int, *, start: int, end: int, temperature: float = 0.0,
              top_k: int | None = None, top_p: float | None = None, generator: Any = None, cache: bool = True,
              stats: GenerationStats | None = None) -> list[np.ndarray]:
    """For each source, the target: from the token `start` up to `end`, both left out, at most n tokens. Greedy if nothing is
    said; the settings are those of `generate`."""
    reader = Reader(model, sources)
    first = np.full((len(reader.memory), 1), start)
    steps = list(generate(reader, first, n, temperature=temperature, top_k=top_k, top_p=top_p, generator=generator, cache=cache,
                          stats=stats, stop=end))  # fmt: skip
    targets = np.stack(steps, axis=1) if steps else np.zeros((len(first), 0), np.int64)  # (B, n)
    return [row[: np.argmax(np.append(row, end) == end)] for row in targets]
