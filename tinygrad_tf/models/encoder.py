"""The encoder-only transformer: every position sees the whole text; for each, a vector and a guess at the token there."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import nn
from ..dtypes import as_array
from ..nn import functional as F
from ..tensor import Tensor
from .config import TransformerConfig
from .stack import Transformer


class Encoder(Transformer):
    """ids (B, T) -> logits (B, T, V)   scores of the token that stands, or was hidden, at each position

    head=False leaves out the scoring (the left half of an encoder-decoder). What stands before the scoring is `hidden`, and
    `pooled` one vector a text.
    """

    def __init__(self, config: TransformerConfig, generator: np.random.Generator | None = None, head: bool = True):
        if config.arrangement != "encoder":
            raise ValueError(f"arrangement={config.arrangement!r} is no encoder; models.build(config) makes what it says")
        super().__init__(config, generator)
        self.pooler = nn.Linear(config.n_embd, config.n_embd, True, generator) if config.pooler else None
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size or 0, False, generator) if head else None
        if self.lm_head is not None and config.tied and self.token_embedding is not None:
            self.lm_head.weight = self.token_embedding.weight
        self._start(generator)

    def forward(self, ids: Any, mask: Any = None, segments: Any = None) -> Tensor:
        """Logits for each position of ids (B, T); without a head its vectors. mask (B, T): false where padding stands."""
        x = self.hidden(ids, mask, segments)
        return x if self.lm_head is None else self.lm_head(x)  # (B, T, d) -> (B, T, V)

    def hidden(self, ids: Any, mask: Any = None, segments: Any = None) -> Tensor:
        """The residual stream after the last block, (B, T, d). segments (B, T): which of the n_segment each token is in."""
        return self._stream(ids, mask, segments=segments)

    def pooled(self, ids: Any, mask: Any = None, segments: Any = None) -> Tensor:
        """(B, d)   tanh(linear) of the first position"""
        if self.pooler is None:
            raise ValueError("this encoder has no pooler: its configuration says pooler=False")
        return self.pooler(self.hidden(ids, mask, segments)[:, 0]).tanh()

    def loss(self, ids: Any, targets: Any, mask: Any = None, ignore_index: int = -100) -> Tensor:
        """The mean cross-entropy in nats over the positions whose target is not ignore_index: those that were hidden."""
        if self.lm_head is None:
            raise ValueError("this encoder has no lm_head, so it scores no tokens: hidden(ids) gives its vectors")
        targets = as_array(targets)
        logits = self(ids, mask)
        if targets.shape != logits.shape[:2]:
            raise ValueError(f"targets of shape {targets.shape} for ids of shape {logits.shape[:2]}: each has one target")
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=ignore_index)
