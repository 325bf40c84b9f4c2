"""The transformer of 2017 as PyTorch has it: encoder and decoder layers, stacks of them, and the two stacks together.

Arguments, defaults and parameter names are PyTorch's, and so are the masks, in which true hides (see `MultiheadAttention`).
Inputs are (T, B, d), or (B, T, d) if `batch_first`. `transformer.py` has the blocks of this engine's own models.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from ..dtypes import as_array
from ..errors import whole
from ..tensor import Tensor
from . import functional as F
from . import init
from .linear import Dropout, Linear
from .module import Module, ModuleList
from .multihead import MultiheadAttention
from .norm import LayerNorm
from .residual import residual

Activation = str | Callable[[Tensor], Tensor]


class _Layer(Module):
    """What encoder and decoder layers share: a sublayer with its norm before or after, and the feed-forward network."""

    norm_first: bool
    activation: Callable[[Tensor], Tensor]
    linear1: Linear
    linear2: Linear
    dropout: Dropout

    def _write(self, x: Tensor, norm: Module, branch: Callable[[Tensor], Tensor]) -> Tensor:
        """norm_first: x + branch(norm(x)), else norm(x + branch(x))"""
        return residual(x, branch(norm(x))) if self.norm_first else norm(residual(x, branch(x)))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


def _activation(activation: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise ValueError(f'activation is "relu", "gelu" or a function, not {activation!r}')
    return F.relu if activation == "relu" else F.gelu


class TransformerEncoderLayer(_Layer):
    """(T, B, d) -> (T, B, d)   self-attention and a feed-forward network, each with a residual sum and a norm"""

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: Activation = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
                 norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None):
        place = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **place)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **place)
        self.norm_first, self.activation = norm_first, _activation(activation)
        self.norm1, self.norm2 = (LayerNorm(d_model, layer_norm_eps, bias=bias, **place) for _ in range(2))
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)

    def forward(self, src: Tensor, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False) -> Tensor:
        def read(x: Tensor) -> Tensor:
            return self.dropout1(self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0])

        x = self._write(src, self.norm1, read)
        return self._write(x, self.norm2, lambda x: self.dropout2(self._feed_forward(x)))


class TransformerDecoderLayer(_Layer):
    """(T, B, d), memory (S, B, d) -> (T, B, d)   self-attention, attention to the memory, and a feed-forward network"""

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: Activation = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
                 norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None):
        place = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **place)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **place)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **place)
        self.norm_first, self.activation = norm_first, _activation(activation)
        self.norm1, self.norm2, self.norm3 = (LayerNorm(d_model, layer_norm_eps, bias=bias, **place) for _ in range(3))
        self.dropout1, self.dropout2, self.dropout3 = (Dropout(dropout) for _ in range(3))

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Any = None, memory_mask: Any = None,
                tgt_key_padding_mask: Any = None, memory_key_padding_mask: Any = None, tgt_is_causal: bool = False,
                memory_is_causal: bool = False) -> Tensor:
        def read(x: Tensor) -> Tensor:
            return self.dropout1(self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)[0])

        def look_up(x: Tensor) -> Tensor:
            return self.dropout2(self.multihead_attn(x, memory, memory, memory_key_padding_mask, False, memory_mask,
                                                     is_causal=memory_is_causal)[0])  # fmt: skip

        x = self._write(tgt, self.norm1, read)
        x = self._write(x, self.norm2, look_up)
        return self._write(x, self.norm3, lambda x: self.dropout3(self._feed_forward(x)))


class TransformerEncoder(Module):
    """(T, B, d) -> (T, B, d)   num_layers copies of a layer, then a norm, if any

    What comes out at padded positions is of no meaning; PyTorch writes zeros there when no gradient is asked for.
    `enable_nested_tensor` and `mask_check` are about that and change nothing here.
    """

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None, enable_nested_tensor: bool = True,
                 mask_check: bool = True):
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(whole("num_layers", num_layers, 0)))
        self.num_layers, self.norm = num_layers, norm

    def forward(self, src: Tensor, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool | None = None) -> Tensor:
        causal = _is_causal(mask) if is_causal is None else is_causal
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=causal)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """(T, B, d), memory (S, B, d) -> (T, B, d)   num_layers copies of a layer, then a norm, if any"""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None):
        self.layers = ModuleList(copy.deepcopy(decoder_layer) for _ in range(whole("num_layers", num_layers, 0)))
        self.num_layers, self.norm = num_layers, norm

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Any = None, memory_mask: Any = None,
                tgt_key_padding_mask: Any = None, memory_key_padding_mask: Any = None, tgt_is_causal: bool | None = None,
                memory_is_causal: bool = False) -> Tensor:
        causal = _is_causal(tgt_mask) if tgt_is_causal is None else tgt_is_causal
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                        memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=causal,
                        memory_is_causal=memory_is_causal)  # fmt: skip
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """src (S, B, d), tgt (T, B, d) -> (T, B, d)   an encoder, and a decoder that reads what it wrote (Vaswani et al. 2017)

    Matrices start Xavier uniform. Embeddings, positions and the head belong to the caller.
    """

    def __init__(self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
                 dim_feedforward: int = 2048, dropout: float = 0.1, activation: Activation = F.relu,
                 custom_encoder: Module | None = None, custom_decoder: Module | None = None, layer_norm_eps: float = 1e-5,
                 batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None):
        place = {"device": device, "dtype": dtype}
        sizes = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)
        made = lambda kind: kind(*sizes, **place)
        norm = lambda: LayerNorm(d_model, layer_norm_eps, bias=bias, **place)
        if custom_encoder is not None:
            self.encoder: Module = custom_encoder
        else:
            self.encoder = TransformerEncoder(made(TransformerEncoderLayer), num_encoder_layers, norm())
        if custom_decoder is not None:
            self.decoder: Module = custom_decoder
        else:
            self.decoder = TransformerDecoder(made(TransformerDecoderLayer), num_decoder_layers, norm())
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for p in self.parameters():
            if p.ndim > 1:
                init.xavier_uniform_(p)

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Any = None, tgt_mask: Any = None, memory_mask: Any = None,
                src_key_padding_mask: Any = None, tgt_key_padding_mask: Any = None, memory_key_padding_mask: Any = None,
                src_is_causal: bool | None = None, tgt_is_causal: bool | None = None, memory_is_causal: bool = False) -> Tensor:
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise ValueError(f"src {src.shape} and tgt {tgt.shape} must be of width {self.d_model}")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
                            memory_is_causal=memory_is_causal)  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """(sz, sz)   what to add to scores so that no position looks at a later one: 0 and -inf"""
        return Tensor(np.triu(np.full((whole("sz", sz, 0), sz), -np.inf, dtype or np.float32), 1))


def _is_causal(mask: Any) -> bool:
    """Whether a mask is the causal one, so that nothing need be computed where it hides."""
    if mask is None or (isinstance(mask, Tensor) and mask.requires_grad):
        return False
    array = as_array(mask)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        return False
    later = ~np.tri(len(array), dtype=bool)
    return np.array_equal(array, later if array.dtype == bool else np.where(later, -np.inf, 0))
