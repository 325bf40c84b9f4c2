"""The encoder-decoder: an encoder reads the source once; a decoder writes the target and looks at both."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import nn
from ..tensor import Tensor
from .config import TransformerConfig
from .decoder import Decoder
from .encoder import Encoder
from .stack import Cache


class EncoderDecoder(nn.Module):
    """source (B, S), ids (B, T) -> logits (B, T, V)   one table embeds both texts and, if tied, scores the target"""

    def __init__(self, config: TransformerConfig, generator: np.random.Generator | None = None):
        if config.arrangement != "encoder-decoder":
            raise ValueError(f"arrangement={config.arrangement!r} is not both; models.build(config) makes what it says")
        self.config = config
        self.encoder = Encoder(config.encoder_side(), generator, head=False)
        self.decoder = Decoder(config.decoder_side(), generator, cross=True)
        left, right = self.encoder.token_embedding, self.decoder.token_embedding
        if left is not None and right is not None:
            left.weight = right.weight

    def forward(self, source: Any, ids: Any, source_mask: Any = None) -> Tensor:
        """Logits for each position of ids. source_mask (B, S): true where a token stands, false where padding does."""
        return self.decode(ids, self.encode(source, source_mask), source_mask)

    def encode(self, source: Any, source_mask: Any = None) -> Tensor:
        """The memory that the decoder reads, (B, S, d)."""
        return self.encoder(source, source_mask)

    def decode(self, ids: Any, memory: Tensor, source_mask: Any = None, cache: Cache | None = None) -> Tensor:
        """Logits. With a cache, ids follow the tokens that it holds, and the memory's keys are computed once."""
        return self.decoder(ids, cache, memory, source_mask)

    def loss(self, source: Any, ids: Any, targets: Any, source_mask: Any = None) -> Tensor:
        """The mean cross-entropy in nats of the target's next tokens, given the source."""
        return self.decoder.loss(ids, targets, self.encode(source, source_mask), source_mask)

    def new_cache(self, batch: int = 1) -> Cache:
        """An empty cache for `batch` targets of up to block_size tokens, and for the keys and values of their sources."""
        size = self.encoder.config.block_size
        return Cache(self.decoder.new_cache(batch).layers, self.decoder._layer_caches("cross", batch, size))
