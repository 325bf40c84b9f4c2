"""torch.nn.utils.rnn: sequences of different lengths, padded and packed."""

from ....nn.packed import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
    pad_sequence,
    unpack_sequence,
    unpad_sequence,
)
from ...unsupported import lookup as _lookup

__all__ = [
    "PackedSequence", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence", "pad_sequence", "unpack_sequence",
    "unpad_sequence",
]  # fmt: skip
__getattr__ = _lookup("torch.nn.utils.rnn")
