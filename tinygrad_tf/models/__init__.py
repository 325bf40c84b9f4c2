"""Whole models, each made from one configuration."""

from __future__ import annotations

from typing import Any

import numpy as np

from .config import TransformerConfig
from .decoder import Decoder, DecoderConfig
from .encoder import Encoder
from .encoder_decoder import EncoderDecoder
from .stack import Cache, Stack, Transformer

ARRANGEMENTS: dict[str, Any] = {"decoder": Decoder, "encoder": Encoder, "encoder-decoder": EncoderDecoder, "stack": Stack}


def build(config: TransformerConfig, generator: np.random.Generator | None = None) -> Any:
    """The model that the configuration describes: a Decoder, Encoder, EncoderDecoder or Stack."""
    if not isinstance(config, TransformerConfig):
        raise TypeError(f"build takes a TransformerConfig, not {config!r:.60}; that of a named model is "
                        "models.presets.named('gpt2').config")  # fmt: skip
    return ARRANGEMENTS[config.arrangement](config, generator)


__all__ = [
    "Cache", "Decoder", "DecoderConfig", "Encoder", "EncoderDecoder", "Stack", "Transformer", "TransformerConfig", "build",
]  # fmt: skip
