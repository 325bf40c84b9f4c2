"""What the three arrangements share: embed, tell the positions, run the blocks, norm."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from .. import nn
from ..dtypes import as_array
from ..nn import functional as F
from ..nn.transformer import ORDERS
from ..tensor import Tensor
from .config import ADDED, TransformerConfig


class Transformer(nn.Module):
    """Tokens, sound or vectors in, the residual stream after the last block and norm out: what the arrangements are made from.

    cross=True: every block has cross-attention besides. Matrices start normal with init_std; the last one of each branch is
    scaled by 1 / sqrt(2 n_layer) (GPT-2), or zero.
    """

    causal = False  # whether a position sees the earlier ones only; for positions that tell the two directions apart

    def __init__(self, config: TransformerConfig, generator: np.random.Generator | None = None, cross: bool = False):
        self.config = c = config
        tokens = c.arrangement != "stack" and c.n_mels is None
        self.token_embedding = nn.Embedding(c.vocab_size or 0, c.n_embd, generator=generator) if tokens else None
        self.front = AudioFrontEnd(c.n_mels, c.n_embd, generator) if c.n_mels is not None else None
        self.position_embedding = self._added_positions(generator) if c.positions in ADDED else None
        self.segment_embedding = nn.Embedding(c.n_segment, c.n_embd, generator=generator) if c.n_segment else None
        self.embedding_norm = self._norm() if c.embedding_norm else None
        self.dropout = nn.Dropout(c.dropout)
        shared = self._shared_positions(generator)
        self.blocks = nn.ModuleList(self._block(generator, shared, cross) for _ in range(c.n_layer))
        self.norm = self._norm() if c.ends_in_norm else None

    def _added_positions(self, generator: np.random.Generator | None) -> nn.Positions:
        c = self.config
        if c.positions == "learned":
            return nn.LearnedPositions(c.block_size, c.n_embd, generator=generator)
        return nn.SinusoidalPositions(c.n_embd, halves=c.positions == "sinusoidal_halves")

    def _shared_positions(self, generator: np.random.Generator | None) -> nn.Positions | None:
        """Positions that add to the scores: one object for all blocks, as T5 has it."""
        c = self.config
        if c.positions == "t5":
            return nn.T5Bias(c.n_head, two_sided=not self.causal, generator=generator)
        return nn.ALiBi(c.n_head) if c.positions == "alibi" else None

    def _rotary(self) -> nn.Positions | None:
        c = self.config
        if c.positions != "rotary":
            return None
        return nn.Rotary(c.head_dim, c.rope_base, c.rope_interleaved, c.rope_scaling, c.rope_factor, c.rope_original)

    def _norm(self) -> nn.Module:
        c = self.config
        eps: dict[str, Any] = {} if c.norm_eps is None else {"eps": c.norm_eps}
        return nn.RMSNorm(c.n_embd, **eps) if c.norm == "rms" else nn.LayerNorm(c.n_embd, bias=c.norms_have_bias, **eps)

    def _block(self, generator: np.random.Generator | None, shared: nn.Positions | None, cross: bool) -> nn.Block:
        """The sublayers of one block, by name: attention, cross-attention if there is a memory to read, feed-forward."""
        c = self.config
        heads: dict[str, Any] = {"n_embd": c.n_embd, "n_head": c.n_head, "n_kv_head": c.n_kv_head, "bias": c.bias,
                                 "dropout": c.dropout, "qk_norm": c.qk_norm, "generator": generator, "key_bias": c.key_bias}
        kind = nn.LinearAttention if c.attention == "linear" else nn.MultiHeadAttention
        branches: dict[str, nn.Module] = {"attn": kind(**heads, positions=shared or self._rotary(), window=c.window)}
        if cross:
            branches["cross"] = kind(**heads)  # positions of two texts have no distance
        branches["ffn"] = nn.FeedForward(c.n_embd, c.hidden, c.ffn, c.bias, c.dropout, generator)
        start = c.layer_scale
        scale = None if start is None else lambda: nn.LayerScale(c.n_embd, start)
        sublayers = [branches] if c.parallel else [{name: branch} for name, branch in branches.items()]
        return nn.Block(*(ORDERS[c.norm_order](self._norm, scale, **each) for each in sublayers))

    def _start(self, generator: np.random.Generator | None) -> None:
        c = self.config
        done: set[int] = set()
        for name, module in self.named_modules():
            if not isinstance(module, (nn.Linear, nn.Embedding)) or id(module.weight) in done:
                continue
            done.add(id(module.weight))
            std = c.init_std if c.init_std is not None else 1 / math.sqrt(module.weight.shape[1])
            if name.endswith(("out_proj", "down")):
                std = 0.0 if c.zero_init else std / math.sqrt(2 * c.n_layer)
            nn.init.normal_(module.weight, 0.0, std, generator)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def _embed(self, inputs: Any, start: int, segments: Any = None, padding: Any = 0) -> Tensor:
        """ids (B, T), spectrograms (B, bands, frames) or vectors (B, T, d) -> (B, T, d)   what goes into the first block

        start: how many came before; padding (B,): how many of all are no tokens and stand on the left.
        """
        c = self.config
        if self.front is not None:
            x = self.front(inputs)
        elif self.token_embedding is None:
            x = inputs
        else:
            ids = as_array(inputs)
            if ids.ndim != 2:
                raise ValueError(f"ids have the shape (B, T), not {ids.shape}")
            _check_length(ids.shape[1], start, c.block_size)
            x = self.token_embedding(ids)  # (B, T) -> (B, T, d)
        _check_length(x.shape[1], start, c.block_size)
        if c.scale_embedding:
            x = x * math.sqrt(c.n_embd)
        if self.position_embedding is not None:
            x = self.position_embedding.add(x, start - padding)
        if self.segment_embedding is not None:
            x = x + self.segment_embedding(np.zeros(x.shape[:2], int) if segments is None else segments)
        x = x if self.embedding_norm is None else self.embedding_norm(x)
        return self.dropout(x)

    def _stream(self, inputs: Any, mask: Any = None, causal: bool = False, cache: Cache | None = None, segments: Any = None,
                memory: Tensor | None = None, memory_mask: Any = None, padding: Any = 0) -> Tensor:
        """What the blocks and the norm make of the inputs."""
        x = self._embed(inputs, 0 if cache is None else cache.length, segments, padding)
        mask, memory_mask = _for_keys(mask), _for_keys(memory_mask)
        bias = self._bias(x, 0 if cache is None else cache.length)
        again = self.config.recompute and self.training and cache is None
        for i, block in enumerate(self.blocks):
            held, read = (None, None) if cache is None else cache.of(i)
            call = partial(nn.checkpoint, block) if again else block
            x = call(x, mask, causal, held, memory, memory_mask, read, bias)
        return x if self.norm is None else self.norm(x)

    def _bias(self, x: Tensor, start: int) -> Tensor | None:
        """(H, T, S)   what the positions add to the scores, made once for all blocks; None: nothing, or each block its own"""
        first, *others = (getattr(block.attn, "positions", None) for block in self.blocks)  # type: ignore[attr-defined]
        if first is None or any(other is not first for other in others):
            return None
        return first.bias(x.shape[1], start + x.shape[1], start, x.dtype)

    def new_cache(self, batch: int = 1) -> Cache:
        """An empty cache for `batch` texts of up to block_size tokens, of the kind that the attention of each block keeps."""
        return Cache(self._layer_caches("attn", batch, self.config.block_size))

    def _layer_caches(self, branch: str, batch: int, size: int) -> list[Any]:
        layers = [getattr(block, branch) for block in self.blocks]
        dtype = next(layers[0].parameters()).dtype  # those of one layer are found sooner than those of the model
        return [layer.new_cache(batch, dtype, size=size) for layer in layers]


def _check_length(tokens: int, start: int, size: int) -> None:
    if start + tokens > size:
        held = f" after the {start} that the cache holds" if start else ""
        raise ValueError(f"{tokens} tokens{held} are more than the context, block_size={size}")


def _for_keys(mask: Any) -> np.ndarray | None:
    """(B, S) -> (B, 1, 1, S)   true where there is something to look at, for all heads and queries"""
    if mask is None:
        return None
    mask = as_array(mask)
    if mask.ndim != 2 or mask.dtype != bool:
        raise ValueError(f"a mask is boolean of shape (B, S), true where a token stands, not {mask.dtype} of {mask.shape}")
    return mask[:, None, None, :]


class Stack(Transformer):
    """(B, T, d) -> (B, T, d)   the blocks alone, on vectors that something else made, as between the halves of a codec"""

    def __init__(self, config: TransformerConfig, generator: np.random.Generator | None = None):
        if config.arrangement != "stack":
            raise ValueError(f"arrangement={config.arrangement!r} is no stack; models.build(config) makes what it says")
        super().__init__(config, generator)
        self._start(generator)

    def forward(self, x: Tensor, mask: Any = None, causal: bool = False, cache: Cache | None = None) -> Tensor:
        """mask (B, S): which of the positions are there, and not padding."""
        return self._stream(x, mask, causal, cache)


class AudioFrontEnd(nn.Module):
    """(B, bands, frames) -> (B, frames / 2, d)   two convolutions over three frames each, the second at every other place

    What stands before Whisper's encoder in place of an embedding table.
    """

    def __init__(self, n_mels: int, n_embd: int, generator: np.random.Generator | None = None):
        self.conv1 = nn.Conv1d(n_mels, n_embd, 3, padding=1, generator=generator)
        self.conv2 = nn.Conv1d(n_embd, n_embd, 3, stride=2, padding=1, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.conv2(F.gelu(self.conv1(x)))).transpose(1, 2)


class Cache:
    """What every layer keeps of the tokens seen so far; for a decoder with a memory, of the memory besides.

    That is keys and values (nn.LayerCache), or the sums of linear attention (nn.LinearCache).
    """

    def __init__(self, layers: list[Any], memory: list[Any] | None = None):
        self.layers, self.memory = layers, memory

    def of(self, i: int) -> tuple[Any, Any]:
        """Of layer i: what its attention keeps, and what its cross-attention does."""
        return self.layers[i], None if self.memory is None else self.memory[i]

    def take(self, rows: Any) -> None:
        """Go on with these texts (B',), each as often as it is named: what a search kept of its beams."""
        for layer in [*self.layers, *(self.memory or [])]:
            layer.keys, layer.values = layer.keys[rows], layer.values[rows]

    @property
    def length(self) -> int:
        """How many tokens it has seen."""
        return self.layers[0].length

    @property
    def nbytes(self) -> int:
        """Memory of all that is kept, used or not."""
        return sum(layer.nbytes for layer in [*self.layers, *(self.memory or [])])
