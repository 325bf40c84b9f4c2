"""Whole models, each made from one configuration."""

from .decoder import Cache, Decoder, DecoderConfig

__all__ = ["Cache", "Decoder", "DecoderConfig"]
