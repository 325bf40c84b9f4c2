"""torch.nn.utils.rnn: sequences of different lengths as one tensor. Packed ones are not here: a mask does their work."""

from __future__ import annotations

from collections.abc import Sequence

from ....functions import full, stack
from ....ops import cat
from ....tensor import Tensor
from ...unsupported import PACKED, lookup, refusal, refused_class

__all__ = ["PackedSequence", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence", "unpad_sequence"]

PackedSequence = refused_class("torch.nn.utils.rnn.PackedSequence", PACKED)
pack_padded_sequence = refusal("torch.nn.utils.rnn.pack_padded_sequence", PACKED)
pad_packed_sequence = refusal("torch.nn.utils.rnn.pad_packed_sequence", PACKED)
pack_sequence = refusal("torch.nn.utils.rnn.pack_sequence", PACKED)


def pad_sequence(sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0,
                 padding_side: str = "right") -> Tensor:
    """Tensors (L_i, ...) -> (T, B, ...), or (B, T, ...) if `batch_first`, T the longest: the rest is `padding_value`."""
    if padding_side not in ("left", "right"):
        raise ValueError(f'padding_side is "left" or "right", not {padding_side!r}')
    if not sequences:
        raise RuntimeError("pad_sequence takes one sequence or more")
    longest = max(len(x) for x in sequences)
    rows = []
    for x in sequences:
        parts = [x, full((longest - len(x), *x.shape[1:]), padding_value, dtype=x.dtype)]
        rows.append(cat(*(parts if padding_side == "right" else parts[::-1])) if len(x) < longest else x)
    return stack(rows, dim=1 if not batch_first else 0)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences that `pad_sequence` made one tensor of, by their lengths (B,)."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[: int(n)] for row, n in zip(rows, lengths, strict=True)]


__getattr__ = lookup("torch.nn.utils.rnn")
