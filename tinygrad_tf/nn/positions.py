"""Positions: how a model is told where a token stands. One interface with three hooks; each kind fills in one of them.

    add    what is added to the token embeddings         SinusoidalPositions, LearnedPositions
    turn   what turns queries and keys                   Rotary
    bias   what is added to the scores of attention      T5Bias, ALiBi
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from .. import fused
from ..dtypes import as_array
from ..tensor import Tensor
from . import functional as F
from . import init
from .linear import Embedding
from .module import Module, Parameter


class Positions(Module):
    """What every kind of positions has: three hooks that do nothing until a kind fills one in, and a map to plot."""

    def add(self, x: Tensor, start: Any = 0) -> Tensor:
        """(B, T, d) -> (B, T, d)   token embeddings, the first of which stands at position `start`, one or one a text (B,)

        Below 0 stands padding, whose position does not matter.
        """
        return x

    def turn(self, x: Tensor, start: int = 0) -> Tensor:
        """(B, H, T, D) -> (B, H, T, D)   queries or keys, the first of which stands at position `start`"""
        return x

    def bias(self, queries: int, keys: int, start: int = 0, dtype: Any = np.float32) -> Tensor | None:
        """(H, T, S) for the scores of queries at start, start + 1, ... over keys at 0, 1, ...; None: nothing to add

        Layers that share one object of positions share this too: a model asks for it once in a forward pass.
        """
        return None

    def map(self, n: int) -> np.ndarray:
        """The numbers of the first n positions, as a plain array to plot."""
        raise NotImplementedError(f"{type(self).__name__} has no map")


# ------------------------------------------------------------------------------------------------ added to the embeddings


def standing(start: Any, n: int) -> np.ndarray:
    """(n,), or (B, n) for starts (B,)   the positions from `start` on, padding at 0"""
    return _from(start, n) if type(start) is int else np.maximum(np.asarray(start)[..., None] + np.arange(n), 0)


@lru_cache(64)
def _from(start: int, n: int) -> np.ndarray:
    positions = np.maximum(np.arange(start, start + n), 0)
    positions.flags.writeable = False  # all who ask get this one array, and `replay` takes it for fixed
    return positions


class SinusoidalPositions(Positions):
    """positions (T,) -> (T, d)   pair i of position p is sin and cos of p base^(-2i / d) (Vaswani et al. 2017); no parameters

    A step of k positions turns every pair by one angle, wherever the step begins. halves=True is Whisper's layout: first all
    sines, then all cosines, with the slowest at exactly 1 / base.
    """

    def __init__(self, n_embd: int, base: float = 10000.0, halves: bool = False):
        if n_embd % 2 or (halves and n_embd < 4):
            raise ValueError(f"sinusoidal positions are pairs of sine and cosine: a width of {n_embd} does not do")
        self.n_embd, self.base, self.halves = n_embd, base, halves

    def map(self, n: int) -> np.ndarray:
        """(n, d)"""
        return self._table(np.arange(n))

    def _table(self, positions: np.ndarray) -> np.ndarray:
        pairs = self.n_embd // 2
        angles = positions[..., None] * self.base ** (-np.arange(pairs) / (pairs - 1 if self.halves else pairs))
        waves = [np.sin(angles), np.cos(angles)]  # float64: far from the start, float32 angles are off
        return np.concatenate(waves, -1) if self.halves else np.stack(waves, -1).reshape(*positions.shape, -1)

    def forward(self, positions: Any, dtype: Any = np.float32) -> Tensor:
        return Tensor(self._table(as_array(positions)).astype(dtype))

    def add(self, x: Tensor, start: Any = 0) -> Tensor:
        return x + self(standing(start, x.shape[1]), x.dtype)

    def extra_repr(self) -> str:
        return f"base={self.base:g}"


class LearnedPositions(Embedding, Positions):
    """positions (T,) -> (T, d)   a row of a table for each position; with its last row the positions end"""

    def forward(self, positions: Any) -> Tensor:
        positions = as_array(positions)
        if positions.size and np.maximum.reduce(positions, None) >= self.num_embeddings:
            raise IndexError(f"position {int(positions.max())} is past the table of learned positions, "
                             f"which has {self.num_embeddings} rows (0 to {self.num_embeddings - 1})")  # fmt: skip
        return F.embedding(positions, self.weight)

    def add(self, x: Tensor, start: Any = 0) -> Tensor:
        return x + self(standing(start, x.shape[1]))

    def map(self, n: int) -> np.ndarray:
        """(n, d)"""
        return self.weight.detach().numpy()[:n].copy()


# ------------------------------------------------------------------------------------------------ turning queries and keys


class Rotary(Positions):
    """(..., T, D) -> (..., T, D)   pair i of position p turned by p * base^(-2i / D) (Su et al. 2021); no parameters

    A query at p and a key at q then meet at the angle of p - q alone. The pairs are (x_i, x_{i + D/2}), or neighbours
    with interleaved=True. Angles are computed in float64 and used in the dtype of x. scaling, factor and original slow
    the turning down for texts longer than those of the training: see `slowed`.
    """

    def __init__(self, head_dim: int, base: float = 10000.0, interleaved: bool = False, scaling: str = "none",
                 factor: float = 1.0, original: int = 8192):
        if head_dim % 2:
            raise ValueError(f"rotary positions turn pairs of numbers: a head width of {head_dim} is odd")
        self.head_dim, self.base, self.interleaved = head_dim, base, interleaved
        self.slower = "" if scaling == "none" else f", {scaling} scaling for texts {factor:g} times as long"
        self.speeds = slowed(base ** (-np.arange(0, head_dim, 2) / head_dim), scaling, factor, original)
        self._tables: dict[np.dtype, tuple[np.ndarray, np.ndarray]] = {}

    def angles(self, positions: np.ndarray) -> np.ndarray:
        """positions (T,) -> (T, D / 2) radians"""
        return np.outer(positions, self.speeds)

    def map(self, n: int) -> np.ndarray:
        """(n, D / 2)   the cosine of each pair's angle"""
        return np.cos(self.angles(np.arange(n)))

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Turn x, whose first row stands at position `start`."""
        stop = start + x.shape[-2]
        cos, sin = self.tables(stop, x.dtype)
        return fused.rotary(x, cos=cos[start:stop], sin=sin[start:stop], interleaved=self.interleaved)

    def tables(self, stop: int, dtype: Any) -> tuple[np.ndarray, np.ndarray]:
        """cos, sin (at least `stop`, D / 2) of the angles of positions 0, 1, ..."""
        cos, sin = self._tables.get(dtype, (np.empty((0, self.head_dim // 2)),) * 2)
        if len(cos) < stop:
            angles = self.angles(np.arange(max(stop, 2 * len(cos))))
            cos, sin = self._tables[dtype] = np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)
        return cos, sin

    def turn(self, x: Tensor, start: int = 0) -> Tensor:
        return self(x, start)

    def extra_repr(self) -> str:
        return f"base={self.base:g}{', interleaved' if self.interleaved else ''}{self.slower}"


SCALINGS = ("none", "linear", "ntk", "llama3")


def slowed(speeds: np.ndarray, scaling: str, factor: float, original: int) -> np.ndarray:
    """Radians per position (D / 2,), slowed down so that a text `factor` times as long turns as far as one did in training.

    linear: every pair by the whole factor (Chen et al. 2023). ntk: the base grows, so that the slowest pair slows by the
    factor and the fastest not at all. llama3: pairs that turn more than four times within `original` positions stay, those
    that turn less than once slow by the factor, those in between by a share of it.
    """
    if scaling not in SCALINGS:
        raise ValueError(f"scaling of rotary positions {scaling!r} is none of {', '.join(SCALINGS)}")
    if not 0 < factor < math.inf:
        raise ValueError(f"a factor of {factor} cannot slow rotary positions down")
    if scaling == "none":
        return speeds
    if scaling == "linear":
        return speeds / factor
    if scaling == "ntk":  # base * factor^(D / (D - 2)), written for the speeds that the base gives
        return speeds * factor ** (-np.arange(len(speeds)) / max(len(speeds) - 1, 1))
    turns = original * speeds / (2 * math.pi)
    kept = np.clip((turns - 1) / (4 - 1), 0, 1)
    return speeds * (kept + (1 - kept) / factor)


# ------------------------------------------------------------------------------------------------ added to the scores


def gaps(queries: int, keys: int, start: int = 0) -> np.ndarray:
    """(T, S)   how far behind its query each key stands; below 0 for a key that comes later"""
    return np.arange(start, start + queries)[:, None] - np.arange(keys)


class T5Bias(Positions):
    """(H, T, S)   a learned number for each head and each bucket of distances (Raffel et al. 2020)

    Half of the buckets are one distance each, the others grow to max_distance, and the last holds all that is farther. If
    two_sided, half of all are for keys that come later; else such keys share bucket 0 with the query's own position.
    """

    def __init__(self, n_head: int, two_sided: bool = False, buckets: int = 32, max_distance: int = 128,
                 generator: np.random.Generator | None = None):
        if buckets < 4 or buckets % 4 or max_distance <= buckets // 2:
            raise ValueError(f"{buckets} buckets up to a distance of {max_distance} do not do: a multiple of 4, half of which "
                             "are single distances")  # fmt: skip
        self.two_sided, self.buckets, self.max_distance = two_sided, buckets, max_distance
        self.weight = Parameter(np.empty((buckets, n_head), np.float32))
        init.normal_(self.weight, 0.0, 0.02, generator)

    def bucket(self, gaps: np.ndarray) -> np.ndarray:
        """The bucket of each gap (query's position minus key's)."""
        n, first = self.buckets, np.zeros_like(gaps)
        if self.two_sided:
            n, first = n // 2, np.where(gaps < 0, n // 2, 0)
            gaps = abs(gaps)
        gaps, single = np.maximum(gaps, 0), n // 2
        share = np.log(np.maximum(gaps, 1) / single) / math.log(self.max_distance / single)
        return first + np.where(gaps < single, gaps, np.minimum(single + (share * (n - single)).astype(int), n - 1))

    def forward(self, queries: int, keys: int, start: int = 0) -> Tensor:
        return F.embedding(self.bucket(gaps(queries, keys, start)), self.weight).permute(2, 0, 1)  # (T, S, H) -> (H, T, S)

    def bias(self, queries: int, keys: int, start: int = 0, dtype: Any = np.float32) -> Tensor:
        return self(queries, keys, start)

    def map(self, n: int) -> np.ndarray:
        """(H, n, n)"""
        return self.weight.detach().numpy()[self.bucket(gaps(n, n))].transpose(2, 0, 1)

    def extra_repr(self) -> str:
        return f"buckets={self.buckets}, max_distance={self.max_distance}"


class ALiBi(Positions):
    """(H, T, S)   minus the distance times a slope that is each head's own (Press et al. 2022); no parameters

    It depends on the gap alone, so T + S numbers a head are all there are: what is returned shows each of them many times.
    """

    def __init__(self, n_head: int):
        self.slopes = alibi_slopes(n_head)

    def map(self, n: int) -> np.ndarray:
        """(H, n, n)"""
        return self(n, n, dtype=np.float64).numpy().copy()

    def forward(self, queries: int, keys: int, start: int = 0, dtype: Any = np.float32) -> Tensor:
        distances = abs(np.arange(start - keys + 1, start + queries + 1)).astype(dtype)  # of all gaps, the smallest first
        numbers = -self.slopes.astype(dtype)[:, None] * distances
        rows = np.lib.stride_tricks.sliding_window_view(numbers, keys, axis=1)  # (H, T + 1, S), nothing is copied
        return Tensor(rows[:, :queries, ::-1])

    def bias(self, queries: int, keys: int, start: int = 0, dtype: Any = np.float32) -> Tensor:
        return self(queries, keys, start, dtype)


def alibi_slopes(n_head: int) -> np.ndarray:
    """(H,)   2^(-8/H), 2^(-16/H), ..., 2^-8; where H is no power of two, those of the power below, then every other one of
    twice as many."""
    power = 2 ** int(math.log2(n_head))
    slopes = 2.0 ** (-8 * np.arange(1, power + 1) / power)
    between = 2.0 ** (-4 * np.arange(1, 2 * power + 1, 2) / power)
    return np.concatenate([slopes, between[: n_head - power]])
