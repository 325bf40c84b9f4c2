"""The decoder-only transformer: tokens in, for each position a guess at the next one out."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import nn
from ..dtypes import as_array
from ..nn import functional as F
from ..tensor import Tensor
from .config import TransformerConfig
from .stack import Cache, Transformer

DecoderConfig = TransformerConfig  # whose default arrangement is the decoder


class Decoder(Transformer):
    """ids (B, T) -> logits (B, T, V): embed, add or turn in positions, n_layer blocks, norm, score every token.

    cross=True: every block also reads a memory, which `hidden` then takes (the right half of an encoder-decoder).
    """

    causal = True

    def __init__(self, config: TransformerConfig, generator: np.random.Generator | None = None, cross: bool = False):
        if config.arrangement != "decoder":
            raise ValueError(f"arrangement={config.arrangement!r} is no decoder; models.build(config) makes what it says")
        super().__init__(config, generator, cross)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size or 0, False, generator)
        if config.tied and self.token_embedding is not None:
            self.lm_head.weight = self.token_embedding.weight
        self._start(generator)

    def forward(self, ids: Any, cache: Cache | None = None, memory: Tensor | None = None, memory_mask: Any = None) -> Tensor:
        """Logits for each position of ids (B, T). With a cache, ids follow the tokens that it holds and are added to it."""
        x = self.hidden(ids, cache, memory, memory_mask)
        return self.lm_head(x)  # (B, T, d) -> (B, T, V)

    def hidden(self, ids: Any, cache: Cache | None = None, memory: Tensor | None = None, memory_mask: Any = None) -> Tensor:
        """The residual stream after the last block and norm, (B, T, d)."""
        return self._stream(ids, causal=True, cache=cache, memory=memory, memory_mask=memory_mask)

    def loss(self, ids: Any, targets: Any, memory: Tensor | None = None, memory_mask: Any = None) -> Tensor:
        """The mean cross-entropy in nats over the B x T positions: minus the log-probability of the token that comes next."""
        ids, targets = as_array(ids), as_array(targets)
        if targets.shape != ids.shape:
            raise ValueError(f"targets of shape {targets.shape} for ids of shape {ids.shape}: each position has one target")
        logits = self(ids) if memory is None else self(ids, None, memory, memory_mask)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))
