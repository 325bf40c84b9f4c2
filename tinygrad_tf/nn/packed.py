"""Packed sequences: texts of different lengths one after the other, position by position, without padding.

The numbers of all texts at position 0 come first, those of all that reach position 1 next, and so on; so the texts are sorted
by length, the longest first. The recurrent layers take them, and every text's state ends where the text ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import ops
from ..dtypes import as_array
from ..errors import shown, tensors
from ..functions import full, stack
from ..tensor import Tensor


class PackedSequence(NamedTuple):
    """data (all positions of all texts, ...), batch_sizes (T,): how many texts reach each position

    sorted_indices: which text is the first, the second, ... of the sorted ones; unsorted_indices: the way back. None both: they
    were sorted already.
    """

    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None

    def places(self) -> tuple[np.ndarray, ...]:
        """The position and the number, among the sorted texts, of each row of data."""
        sizes = as_array(self.batch_sizes)
        return np.nonzero(np.arange(sizes[0]) < sizes[:, None])

    def lengths(self) -> np.ndarray:
        """(B,)   of the sorted texts"""
        return np.bincount(self.places()[1])

    def to(self, *args: Any, **settings: Any) -> PackedSequence:
        return self._replace(data=self.data.to(*args, **settings))

    def padded(self, value: float = 0.0, length: int | None = None) -> Tensor:
        """(T, B, ...)   the sorted texts, each filled up with `value`"""
        shape = (length or len(self.batch_sizes), int(self.batch_sizes[0].item()), *self.data.shape[1:])
        return ops.put(full(shape, value, dtype=self.data.dtype), self.data, index=self.places())

    def holding(self, padded: Tensor) -> PackedSequence:
        """The same texts with other numbers (T, B, ...) in place of theirs."""
        return self._replace(data=padded[self.places()])


def pack_padded_sequence(input: Tensor, lengths: Any, batch_first: bool = False,
                         enforce_sorted: bool = True) -> PackedSequence:
    """(T, B, ...), or (B, T, ...) if `batch_first`, and the length of each text (B,), as a packed sequence

    enforce_sorted=False sorts the texts; what comes from a recurrent layer or from `pad_packed_sequence` is in their order.
    """
    tensors(input=input)
    x, count = input.transpose(0, 1) if batch_first and input.ndim > 1 else input, as_array(lengths)
    if x.ndim < 2 or count.shape != x.shape[1:2] or not count.size or count.min() < 1 or count.max() > x.shape[0]:
        axes = "(B, T, ...)" if batch_first else "(T, B, ...)"
        raise RuntimeError(f"pack_padded_sequence: an input {axes} of shape {input.shape} takes B lengths from 1 to T, not "
                           f"{count.tolist()}; batch_first says which of the axes is B")  # fmt: skip
    order = np.argsort(-count, kind="stable")
    if enforce_sorted and (np.diff(count) > 0).any():
        raise RuntimeError(f"pack_padded_sequence: lengths {count.tolist()} do not fall: enforce_sorted=False sorts the texts")
    sizes = (count[:, None] > np.arange(count.max())).sum(0)
    indices = (None, None) if enforce_sorted else (Tensor(order), Tensor(np.argsort(order)))
    packed = PackedSequence(x, Tensor(sizes), *indices)
    return packed.holding(x if enforce_sorted else x[:, order])


def pad_packed_sequence(sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0,
                        total_length: int | None = None) -> tuple[Tensor, Tensor]:
    """(T, B, ...), or (B, T, ...) if `batch_first`, and the lengths (B,); T is the longest, or total_length."""
    if not isinstance(sequence, PackedSequence):
        raise TypeError(f"pad_packed_sequence takes what pack_padded_sequence or a recurrent layer made, not {shown(sequence)}")
    if total_length is not None and total_length < len(sequence.batch_sizes):
        raise ValueError(f"total_length {total_length} is less than the longest text, {len(sequence.batch_sizes)}")
    x, lengths = sequence.padded(padding_value, total_length), sequence.lengths()
    if sequence.unsorted_indices is not None:
        back = as_array(sequence.unsorted_indices)
        x, lengths = x[:, back], lengths[back]
    return x.transpose(0, 1) if batch_first else x, Tensor(lengths)


def pad_sequence(sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0,
                 padding_side: str = "right") -> Tensor:
    """Tensors (L_i, ...) -> (T, B, ...), or (B, T, ...) if `batch_first`, T the longest: the rest is `padding_value`."""
    if padding_side not in ("left", "right"):
        raise ValueError(f'padding_side is "left" or "right", not {padding_side!r}')
    if not np.iterable(sequences) or not all(isinstance(x, Tensor) and x.ndim for x in sequences):
        raise TypeError(f"pad_sequence takes a list of tensors with an axis each, not {shown(sequences)}")
    if not len(sequences):
        raise RuntimeError("pad_sequence takes one sequence or more")
    longest = max(len(x) for x in sequences)
    rows = []
    for x in sequences:
        parts = [x, full((longest - len(x), *x.shape[1:]), padding_value, dtype=x.dtype)]
        rows.append(ops.cat(*(parts if padding_side == "right" else parts[::-1])) if len(x) < longest else x)
    return stack(rows, dim=1 if not batch_first else 0)


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Tensors (L_i, ...) as a packed sequence; see `pack_padded_sequence`."""
    return pack_padded_sequence(pad_sequence(sequences), [len(x) for x in sequences], enforce_sorted=enforce_sorted)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences that `pad_sequence` made one tensor of, by their lengths (B,)."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[: int(n)] for row, n in zip(rows, lengths, strict=True)]


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that `pack_sequence` packed."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences))
