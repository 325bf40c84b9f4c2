"""One new token through a decoder by compiled loops: which decoders these fit, and how their arrays are handed over.

Around one token the Python of the layers takes several times as long as their arithmetic. `Steps` gives the arrays of a plain
decoder to the loops of `kernels/decoding.py` instead. They work on the model's own weights, as they are at that moment, and on
its own cache: the model reads the prompt, they go on from there, and it can take over again after any token.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import repeat
from operator import attrgetter, contains, is_
from typing import Any

import numpy as np

from . import kernels, nn
from .dtypes import check_ids
from .engine import FLOAT32, state
from .models.decoder import Decoder
from .models.stack import Cache
from .replay import untouched

STOCK = {Decoder, nn.Embedding, nn.LearnedPositions, nn.SinusoidalPositions, nn.Dropout, nn.ModuleList, nn.Block, nn.LayerNorm,
         nn.RMSNorm, nn.LayerScale, nn.MultiHeadAttention, nn.Rotary, nn.Linear, nn.FeedForward}  # fmt: skip
PRE_NORM = (("pre", ("attn",)), ("pre", ("ffn",)))
LARGE = 1 << 24  # parameters from which on the products alone take most of the time, and BLAS has threads for them
MANY = 16  # texts up to which the loops are faster than products of matrices
NO_VECTOR = np.empty(0, np.float32)
array_of = attrgetter("array")


def fit(model: Any, modules: list[Any], parameters: list[Any]) -> bool:
    """Whether the loops do exactly what this model does: it is plain, float32, small, and nobody looks in or changes it."""
    return (
        all(type(module) in STOCK and untouched(module) for module in modules)
        and model.segment_embedding is model.embedding_norm is None
        and all(_plain(block) for block in model.blocks)
        and len({_turn(block.attn.positions) for block in model.blocks}) == 1
        and all(p.array.dtype is FLOAT32 and p.array.flags.carray for p in parameters)
        and sum(p.array.size for p in parameters) < LARGE
    )


def _plain(block: Any) -> bool:
    attn = block.attn
    places, norms = attn.positions, (attn.q_norm, attn.k_norm)
    return (
        block.plan == PRE_NORM
        and attn.window is None
        and (places is None or type(places) is nn.Rotary)
        and (norms == (None, None) or (norms[0].eps == norms[1].eps and norms[0].weight is norms[1].weight is None))
    )


def _turn(places: Any) -> Any:
    """What is the same for rotary positions that turn alike."""
    return None if places is None else (places.interleaved, places.speeds.tobytes())


class Steps:
    """ids (B,) -> logits (B, V)   of one new token of each text, which is added to the cache"""

    @classmethod
    def of(cls, model: Any) -> Steps | None:
        """None for a model that the loops do not fit, and where nothing is compiled: it steps by itself."""
        if kernels.IN_USE != "numba" or type(model) is not Decoder:
            return None
        modules = list(model.modules())
        parameters = [part for module in modules for part in vars(module).values() if isinstance(part, nn.Parameter)]
        if not fit(model, modules, parameters):
            return None
        try:
            from .kernels import decoding
        except (ImportError, RuntimeError):  # numba cannot be used here: the first op that wanted it has said so
            return None
        return cls(model, decoding, modules, parameters)

    def __init__(self, model: Any, loops: Any, modules: list[Any], parameters: list[Any]):
        self.inside = [vars(module) for module in modules]
        self.parameters, self.arrays = parameters, [p.array for p in parameters]
        self.loops, self.cached = loops, list[np.ndarray]()
        self.rotary, places, c = model.blocks[0].attn.positions, model.position_embedding, model.config
        self.told = None  # what positions add, a row for each
        if places is not None:
            self.told = places.weight.array if isinstance(places, nn.Embedding) else places(np.arange(c.block_size)).array
        self.vocabulary = c.vocab_size
        self.table = np.zeros((c.n_layer + 1, loops.ARRAYS, 3), np.int64)
        self.numbers = np.zeros((c.n_layer + 1, loops.NUMBERS))
        for i, block in enumerate(model.blocks):
            self._note(i, *_layer(block, loops))
        around = [model.token_embedding.weight.array, self.told, *_affine(model.norm), *_affine(model.lm_head)]
        self._note(-1, around, [*_norm(model.norm, loops), math.sqrt(c.n_embd) if c.scale_embedding else 1.0])

    def _note(self, row: int, arrays: Iterable[Any], numbers: list[float]) -> None:
        """In the tables, which array begins where, with its shape; zeros for None."""
        for column, array in enumerate(arrays):
            if array is not None:
                self.table[row, column, : 1 + array.ndim] = _address(array), *array.shape
        self.numbers[row, : len(numbers)] = numbers

    def hold(self) -> bool:
        """Whether still no module has hooks, the arrays are the same, and nobody watches the ops.

        What else is changed between two tokens, as another module in the place of one, counts from the next generation on.
        """
        return (
            state.observer is None
            and not state.composed
            and not any(map(contains, self.inside, repeat("_hooks")))
            and all(map(is_, map(array_of, self.parameters), self.arrays))
        )

    def __call__(self, ids: np.ndarray, cache: Cache, mask: np.ndarray | None = None) -> np.ndarray:
        """mask (B, S): false for the padding on the left of a text; the new token is its last column."""
        layers, at = cache.layers, cache.length
        first = np.zeros(len(ids), np.int64) if mask is None else np.count_nonzero(~mask, axis=1)
        if not at:  # later ones have been chosen among the logits
            check_ids(ids, self.vocabulary)
        cos = sin = NO_VECTOR
        if self.rotary is not None:
            cos, sin = (table[at] for table in self.rotary.tables(at + 1, FLOAT32))
        cached = [array for layer in layers for array in (layer.keys, layer.values)]
        if not self.cached or not all(map(is_, cached, self.cached)):  # the first token, or fewer texts go on
            self.cached, self.caches = cached, np.array([*map(_address, cached)]).reshape(-1, 2)
        logits = self.loops.decode(self.table, self.numbers, self.caches, cached[0].shape, cos, sin, ids, first, at)
        for layer in layers:
            layer.length = layer.kept = at + 1
        return logits


def _layer(block: Any, loops: Any) -> tuple[list[Any], list[float]]:
    """A block's rows in the two tables."""
    attn, ffn = block.attn, block.ffn
    branches = [(block.attn_norm, attn.q_proj, attn.k_proj, attn.v_proj, attn.out_proj),
                (block.ffn_norm, ffn.gate, ffn.up, ffn.down)]  # fmt: skip
    scales = [getattr(block, name, None) for name in ("attn_scale", "ffn_scale")]
    arrays = []
    for parts, scale in zip(branches, scales):
        arrays += [array for part in parts for array in _affine(part)] + [None if scale is None else scale.weight.array]
    numbers = [*_norm(block.attn_norm, loops), *_norm(block.ffn_norm, loops), *_norm(attn.q_norm, loops), loops.KINDS[ffn.kind],
               getattr(attn.positions, "interleaved", False)]  # fmt: skip
    return arrays, numbers


def _norm(norm: Any, loops: Any) -> tuple[int, float]:
    if norm is None:
        return loops.NONE, 0.0
    kind = loops.RMS if type(norm) is nn.RMSNorm else loops.LAYER
    return kind, float(np.finfo(np.float32).eps) if norm.eps is None else norm.eps


def _affine(part: Any) -> tuple[Any, Any]:
    """The arrays of the weight and the bias, None for what is not there."""
    weight, bias = getattr(part, "weight", None), getattr(part, "bias", None)
    return None if weight is None else weight.array, None if bias is None else bias.array


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
