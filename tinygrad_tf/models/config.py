"""What a transformer is made of: one configuration for all three arrangements."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..nn.feedforward import ACTIVATIONS, GATED
from ..nn.positions import SCALINGS
from ..nn.transformer import ORDERS

ADDED = ("learned", "sinusoidal", "sinusoidal_halves")  # positions that are added to the token embeddings
CHOICES: dict[str, tuple[str, ...]] = {
    "norm": ("layer", "rms"),
    "norm_order": tuple(ORDERS),
    "ffn": (*ACTIVATIONS, *GATED),
    "positions": (*ADDED, "rotary", "t5", "alibi", "none"),
    "arrangement": ("decoder", "encoder", "encoder-decoder", "stack"),
    "attention": ("softmax", "linear"),
    "rope_scaling": SCALINGS,
}
COUNTS = ("vocab_size", "block_size", "n_layer", "n_head", "n_kv_head", "n_embd", "n_hidden", "window", "rope_original",
          "n_encoder_layer", "encoder_size", "n_mels")  # fmt: skip
MAY_BE_NONE = ("n_kv_head", "n_hidden", "window", "n_encoder_layer", "encoder_size", "n_mels")
ONLY_IN = {  # fields that only some arrangements have a place for
    "n_segment": ("encoder",), "pooler": ("encoder",), "n_mels": ("encoder", "encoder-decoder"),
    "n_encoder_layer": ("encoder-decoder",), "encoder_size": ("encoder-decoder",), "encoder_positions": ("encoder-decoder",),
    "parallel": ("decoder", "encoder", "stack"),
}  # fmt: skip


@dataclass(frozen=True)
class TransformerConfig:
    """What a transformer is made of, in nanoGPT's names where it has them. A value that cannot be is a ValueError naming it."""

    vocab_size: int | None  # None in a stack, which reads vectors
    block_size: int = 64  # the longest context, in tokens
    n_layer: int = 4
    n_head: int = 4
    n_kv_head: int | None = None  # heads of keys and values; None: as many as n_head
    n_embd: int = 128  # width of the residual stream
    n_hidden: int | None = None  # width inside the feed-forward network; None: 4 n_embd, or 8/3 n_embd if it is gated
    norm: str = "layer"  # layer, rms
    norm_order: str = "pre"  # pre, post, both
    ffn: str = "gelu"  # relu, relu2, gelu, gelu_tanh, silu, swiglu, geglu
    positions: str = "learned"  # learned, sinusoidal, sinusoidal_halves, rotary, t5, alibi, none
    rope_base: float = 10000.0
    qk_norm: bool = False  # queries and keys brought to one scale before they meet
    bias: bool = False
    tied: bool = True  # one matrix embeds the tokens and scores them
    dropout: float = 0.0
    layer_scale: float | None = None  # start of a learned scale on each update; None: no scale
    zero_init: bool = False  # the last matrix of each branch starts at zero, so that the model starts as the identity
    init_std: float | None = 0.02  # of every matrix; None: 1 / sqrt(numbers read)

    arrangement: str = "decoder"  # decoder, encoder, encoder-decoder; stack: the blocks alone, vectors in and vectors out
    parallel: bool = False  # attention and feed-forward read the same normed stream side by side
    recompute: bool = False  # in training, keep what goes into each block alone and run it again for backward: nn.checkpoint
    attention: str = "softmax"  # softmax, linear: how a position mixes those that it looks at
    window: int | None = None  # a position looks at keys less than this far away; None: at all
    key_bias: bool = True  # False: where there are biases, keys have none
    norm_bias: bool | None = None  # None: as bias; RMSNorm has none either way
    norm_eps: float | None = None  # None: the layer's own, 1e-5, and 1e-6 of RMSNorm
    final_norm: bool | None = None  # a norm after the last block; None: unless the order is post
    rope_interleaved: bool = False  # pairs are neighbours, not halves
    rope_scaling: str = "none"  # none, linear, ntk, llama3
    rope_factor: float = 1.0  # how many times longer texts are than those of the training
    rope_original: int = 8192  # the training's context, for llama3
    scale_embedding: bool = False  # token embeddings times sqrt(n_embd), as in 2017
    embedding_norm: bool = False  # a norm on what goes into the first block, as in BERT
    n_segment: int = 0  # kinds of segments that an encoder tells apart; BERT has 2
    pooler: bool = False  # tanh(linear) of an encoder's first position, as in BERT
    n_encoder_layer: int | None = None  # blocks of the encoder; None: n_layer. n_layer then counts the decoder's
    encoder_size: int | None = None  # the longest source; None: block_size
    encoder_positions: str | None = None  # None: as positions
    n_mels: int | None = None  # the encoder reads spectrograms of so many bands through two convolutions, as Whisper's

    def __post_init__(self) -> None:
        self._check_types()
        for field in COUNTS:
            value = getattr(self, field)
            if value is None and (field in MAY_BE_NONE or (field == "vocab_size" and self.arrangement == "stack")):
                continue
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise ValueError(f"{field} must be a whole number, at least 1, not {value!r}")
        for field, allowed in {**CHOICES, "encoder_positions": (None, *CHOICES["positions"])}.items():
            if getattr(self, field) not in allowed:
                names = ", ".join(str(name) for name in allowed if name is not None)
                raise ValueError(f"{field}={getattr(self, field)!r} is none of {names}")
        for field, arrangements in ONLY_IN.items():
            if getattr(self, field) and self.arrangement not in arrangements:
                raise ValueError(f"{field}={getattr(self, field)!r} has no place in the arrangement {self.arrangement!r}, "
                                 f"only in {' or '.join(arrangements)}")  # fmt: skip
        self._check_widths()
        self._check_linear()
        self._check_numbers()

    def _check_types(self) -> None:
        for spec in fields(self):
            value, kind = getattr(self, spec.name), str(spec.type)
            if value is None and "None" in kind:
                continue
            if "bool" in kind and not isinstance(value, (bool, np.bool_)):
                raise ValueError(f"{spec.name}={value!r} is neither True nor False")
            if "float" in kind and (isinstance(value, bool) or not isinstance(value, (int, float, np.number))):
                raise ValueError(f"{spec.name}={value!r} is not a number")

    def _check_linear(self) -> None:
        """Linear attention sums over the keys before it meets a query: what belongs to one query and one key has no place.

        Its features of a turned query and a turned key say more than their distance, so rotary positions would not be what
        they are elsewhere: a text would go on otherwise beside a longer one.
        """
        if self.attention != "linear":
            return
        if self.window is not None:
            raise ValueError(f"window={self.window} has no place in attention='linear', which sums over all that came before")
        for field in ("positions", "encoder_positions"):
            if getattr(self, field) not in (None, "none", *ADDED):
                raise ValueError(f"{field}={getattr(self, field)!r} tells distances by scores, and attention='linear' has "
                                 f"none: it can have {', '.join(ADDED)}, none")  # fmt: skip

    def _check_widths(self) -> None:
        if self.n_embd % self.n_head:
            raise ValueError(f"n_embd={self.n_embd} does not divide into n_head={self.n_head} heads")
        if self.n_kv_head is not None and self.n_head % self.n_kv_head:
            raise ValueError(f"n_head={self.n_head} does not divide among n_kv_head={self.n_kv_head} key and value heads")
        for field in ("positions", "encoder_positions"):
            kind = getattr(self, field)
            if kind == "rotary" and self.head_dim % 2:
                heads = f"n_embd={self.n_embd} over n_head={self.n_head}"
                raise ValueError(f"rotary {field} turn pairs: {heads} is an odd head width, {self.head_dim}")
            if kind in ("sinusoidal", "sinusoidal_halves") and (self.n_embd % 2 or self.n_embd < 4):
                raise ValueError(f"{kind} {field} are pairs of numbers, at least two: n_embd={self.n_embd} does not do")

    def _check_numbers(self) -> None:
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout={self.dropout} is not in [0, 1)")
        for field in ("rope_base", "rope_factor"):
            if not 0 < getattr(self, field) < math.inf:
                raise ValueError(f"{field}={getattr(self, field)} is not a positive number")
        for field in ("init_std", "norm_eps"):
            if getattr(self, field) is not None and not 0 <= getattr(self, field) < math.inf:
                raise ValueError(f"{field}={getattr(self, field)} is not a number from 0 up")
        if self.layer_scale is not None and not math.isfinite(self.layer_scale):
            raise ValueError(f"layer_scale={self.layer_scale} is not a finite number")
        if isinstance(self.n_segment, bool) or not isinstance(self.n_segment, (int, np.integer)) or self.n_segment < 0:
            raise ValueError(f"n_segment must be a whole number, at least 0, not {self.n_segment!r}")

    @property
    def head_dim(self) -> int:
        return self.n_embd // self.n_head

    @property
    def hidden(self) -> int:
        """The feed-forward width: as given, else 4 d, or 8/3 d up to a multiple of 8 for three matrices in place of two."""
        if self.n_hidden is not None:
            return self.n_hidden
        return 8 * math.ceil(self.n_embd / 3) if self.ffn in GATED else 4 * self.n_embd

    @property
    def ends_in_norm(self) -> bool:
        return self.norm_order != "post" if self.final_norm is None else self.final_norm

    @property
    def norms_have_bias(self) -> bool:
        return self.norm == "layer" and (self.bias if self.norm_bias is None else self.norm_bias)

    def encoder_side(self) -> TransformerConfig:
        """The encoder of an encoder-decoder, as a configuration of its own."""
        return replace(
            self, arrangement="encoder", n_layer=self.n_encoder_layer or self.n_layer,
            block_size=self.encoder_size or self.block_size, positions=self.encoder_positions or self.positions,
            **NO_ENCODER)  # fmt: skip

    def decoder_side(self) -> TransformerConfig:
        """The decoder of an encoder-decoder; its blocks have cross-attention besides."""
        return replace(self, arrangement="decoder", n_mels=None, **NO_ENCODER)


NO_ENCODER: dict[str, Any] = {"n_encoder_layer": None, "encoder_size": None, "encoder_positions": None}
