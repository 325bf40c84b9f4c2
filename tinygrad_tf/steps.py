"""Steps: which decoders take one new token after the other by `decoding.py`, and which of these by compiled loops.

Both work on the model's own weights, as they are at that moment, and on its own cache: the model reads the prompt, they go on
from there, and it can take over again after any token. Where numba is in use a small decoder's arrays are given to the loops of
`kernels/decoding.py`; a large one, or one with many texts, is faster by the matrix products of NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import repeat
from operator import attrgetter, contains, is_
from typing import Any

import numpy as np

from . import kernels, nn
from .decoding import decode
from .dtypes import check_ids
from .engine import FLOAT32, state
from .models.decoder import Decoder
from .models.stack import Cache
from .replay import untouched

STOCK = {Decoder, nn.Embedding, nn.LearnedPositions, nn.SinusoidalPositions, nn.Dropout, nn.ModuleList, nn.Block, nn.LayerNorm,
         nn.RMSNorm, nn.LayerScale, nn.MultiHeadAttention, nn.Rotary, nn.Linear, nn.FeedForward}  # fmt: skip
PRE_NORM = (("pre", ("attn",)), ("pre", ("ffn",)))
LARGE = 1 << 24  # parameters from which on the loops are slower: BLAS has threads for products of that size
MANY = 8  # texts up to which the loops are faster than products of matrices
NO_VECTOR = np.empty(0, np.float32)
array_of, keys_of, values_of = map(attrgetter, ("array", "keys", "values"))


def fit(model: Any, modules: list[Any], parameters: list[Any]) -> bool:
    """Whether `decode` does exactly what this model does: it is plain and float32, and nobody looks in or changes it."""
    return (
        all(type(module) in STOCK and untouched(module) for module in modules)
        and model.segment_embedding is model.embedding_norm is None
        and all(_plain(block) for block in model.blocks)
        and len({_turn(block.attn.positions) for block in model.blocks}) == 1
        and all(p.array.dtype is FLOAT32 for p in parameters)
        and None not in [getattr(module, "eps", 0.0) for module in modules]
        and not any(getattr(module, "max_norm", None) is not None for module in modules)
        and _in_proportion(model)
    )


def _in_proportion(model: Any) -> bool:
    """Whether every array has the shape that the other parts count on. The loops are told where arrays begin, and look at no
    shape again: one that somebody has exchanged would have them read beyond its end.
    """
    (words, d), head, places = model.token_embedding.weight.shape, model.lm_head.weight.shape, model.position_embedding
    heads = {(block.attn.n_head, block.attn.n_kv_head, block.attn.head_dim) for block in model.blocks}
    if len(heads) != 1 or head[0] > words:
        return False
    n, groups, size = heads.pop()
    if isinstance(places, nn.Embedding) and places.weight.shape != (max(model.config.block_size, len(places.weight)), d):
        return False
    shapes = [(model.norm, (d,)), (model.lm_head, (head[0], d))]
    for block in model.blocks:
        attn, ffn, hidden = block.attn, block.ffn, len(block.ffn.up.weight.array)
        shapes += [(attn.q_proj, (n * size, d)), (attn.out_proj, (d, n * size))]
        shapes += [(layer, (groups * size, d)) for layer in (attn.k_proj, attn.v_proj)]
        shapes += [(layer, (hidden, d)) for layer in (ffn.up, ffn.gate)] + [(ffn.down, (d, hidden))]
        shapes += [(getattr(block, name, None), (d,)) for name in ("attn_norm", "ffn_norm", "attn_scale", "ffn_scale")]
    return all(_shaped(part, shape) for part, shape in shapes)


def _shaped(part: Any, shape: tuple[int, ...]) -> bool:
    """Whether the weight has this shape, and the bias that of one of its columns; what is not there has."""
    return all(array is None or array.shape == wanted for array, wanted in zip(_affine(part), (shape, shape[:1])))




def _plain(block: Any) -> bool:
    attn = block.attn
    places, norms = attn.positions, (attn.q_norm, attn.k_norm)
    return (
        block.plan == PRE_NORM
        and attn.window is None
        and (places is None or type(places) is nn.Rotary)
        and (norms == (None, None) or (type(norms[0]) is type(norms[1]) is nn.RMSNorm and norms[0].eps == norms[1].eps
                                       and norms[0].weight is norms[1].weight is None))
    )


def _turn(places: Any) -> Any:
    """What is the same for rotary positions that turn alike."""
    return None if places is None else (places.interleaved, places.speeds.tobytes())


class Steps:
    """ids (B,) -> logits (B, V)   of one new token of each text, which is added to the cache"""

    @classmethod
    def of(cls, model: Any) -> Steps | None:
        """None for a model that `decode` does not fit: it steps by itself."""
        modules = list(model.modules())
        parameters = [part for module in modules for part in vars(module).values() if isinstance(part, nn.Parameter)]
        return cls(model, modules, parameters) if type(model) is Decoder and fit(model, modules, parameters) else None

    def __init__(self, model: Any, modules: list[Any], parameters: list[Any]):
        self.model, self.blocks, self.inside = model, tuple(model.blocks), [vars(module) for module in modules]
        self.hooked, self.loops = nn.Module._hooked, Loops.of(model, parameters)

    def hold(self) -> bool:
        """Whether still no module has hooks, nobody watches the ops, and the arrays that the loops were told of are in use.

        What else is changed between two tokens, as another module in the place of one, counts from the next generation on.
        """
        return (
            state.observer is None
            and not state.composed
            and (nn.Module._hooked == self.hooked or not any(map(contains, self.inside, repeat("_hooks"))))
            and (self.loops is None or self.loops.hold())
        )

    def __call__(self, ids: np.ndarray, cache: Cache, first: np.ndarray | None = None) -> np.ndarray:
        """first (B,): how much padding stands on the left of each text."""
        layers, at = cache.layers, cache.length
        if not at:  # later ones have been chosen among the logits
            check_ids(ids, len(self.model.token_embedding.weight.array))
        if self.loops is not None and len(ids) <= MANY:
            logits = self.loops(layers, ids, first, at)
        else:
            logits = decode(self.model, self.blocks, [(layer.keys, layer.values) for layer in layers], ids, first, at)
        for layer in layers:
            layer.length = layer.kept = at + 1
        return logits


class Loops:
    """The compiled `decode`, and what it is told of a model: where its arrays begin, in tables."""

    @classmethod
    def of(cls, model: Any, parameters: list[Any]) -> Loops | None:
        """None where nothing is compiled, and for a model that is faster without."""
        arrays = [p.array for p in parameters]
        if kernels.IN_USE != "numba" or sum(a.size for a in arrays) >= LARGE or not all(a.flags.carray for a in arrays):
            return None
        if kernels.lacking():
            return None
        from .kernels import decoding

        return cls(model, decoding, parameters, arrays)

    def __init__(self, model: Any, loops: Any, parameters: list[Any], arrays: list[np.ndarray]):
        self.loops, self.parameters, self.arrays, self.cached = loops, parameters, arrays, list[np.ndarray]()
        self.rotary, places, c = model.blocks[0].attn.positions, model.position_embedding, model.config
        self.told = None  # what positions add, a row for each
        if places is not None:
            self.told = places.weight.array if isinstance(places, nn.Embedding) else places(np.arange(c.block_size)).array
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
        return all(map(is_, map(array_of, self.parameters), self.arrays))

    def __call__(self, layers: list[Any], ids: np.ndarray, first: np.ndarray | None, at: int) -> np.ndarray:
        cos = sin = NO_VECTOR
        if self.rotary is not None:
            cos, sin = (table[at] for table in self.rotary.tables(at + 1, FLOAT32))
        cached = [*map(keys_of, layers), *map(values_of, layers)]
        if not self.cached or not all(map(is_, cached, self.cached)):  # the first token, or fewer texts go on
            self.cached, self.caches = cached, np.array([*map(_address, cached)]).reshape(2, -1).T.copy()
            self.none = np.zeros(len(ids), np.int64)
        first = self.none if first is None else first
        given = (self.table, self.numbers, self.caches, cached[0].shape, cos, sin, ids, first, at)
        try:
            return self.loops.decode(*given)
        except Exception as error:
            return kernels.again(error, self.loops.decode, given)


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
    return loops.RMS if type(norm) is nn.RMSNorm else loops.LAYER, norm.eps


def _affine(part: Any) -> tuple[Any, Any]:
    """The arrays of the weight and the bias, None for what is not there."""
    weight, bias = getattr(part, "weight", None), getattr(part, "bias", None)
    return None if weight is None else weight.array, None if bias is None else bias.array


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]
