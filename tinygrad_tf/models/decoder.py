"""The decoder-only transformer: tokens in, for each position a guess at the next one out."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import nn
from ..dtypes import as_array, check_ids
from ..nn import functional as F
from ..nn.losses import check_targets
from ..replay import replayed
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

    def forward(self, ids: Any, cache: Cache | None = None, memory: Tensor | None = None, memory_mask: Any = None,
                mask: Any = None) -> Tensor:
        """Logits for each position of ids (B, T). With a cache, ids follow the tokens that it holds and are added to it.

        mask (B, S), over those in the cache and ids: false for padding, which stands left of a text that is shorter than
        others. The text's own positions are counted from its first token.
        """
        return self.lm_head(self.hidden(ids, cache, memory, memory_mask, mask))

    def hidden(self, ids: Any, cache: Cache | None = None, memory: Tensor | None = None, memory_mask: Any = None,
               mask: Any = None) -> Tensor:
        """The residual stream after the last block and norm, (B, T, d)."""
        padding = 0 if mask is None else _left_padding(mask)
        return self._stream(ids, mask, True, cache, memory=memory, memory_mask=memory_mask, padding=padding)

    def loss(self, ids: Any, targets: Any, memory: Tensor | None = None, memory_mask: Any = None) -> Tensor:
        """The mean cross-entropy in nats over the B x T positions: minus the log-probability of the token that comes next."""
        ids, targets = as_array(ids), as_array(targets)
        if targets.shape != ids.shape:
            raise ValueError(f"targets of shape {targets.shape} for ids of shape {ids.shape}: each position has one target")

        def run(ids: np.ndarray, targets: np.ndarray) -> Tensor:
            logits = self(ids) if memory is None else self(ids, None, memory, memory_mask)
            return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))

        table, head = self.token_embedding, self.lm_head
        if memory is not None or self.config.recompute or type(table) is not nn.Embedding or type(head) is not nn.Linear:
            return run(ids, targets)  # what reads a memory too, runs twice, or has something else in their places
        check_ids(ids, table.weight.shape[0])
        check_targets(targets, head.weight.shape[0])
        return replayed(self, run, ids, targets)


def _left_padding(mask: Any) -> np.ndarray:
    """(B, S) -> (B,)   how many positions before the first token are padding"""
    mask = as_array(mask)
    if (mask[:, :-1] & ~mask[:, 1:]).any():
        raise ValueError("a decoder's padding stands on the left: no token may come before it")
    return np.count_nonzero(~mask, axis=1)
