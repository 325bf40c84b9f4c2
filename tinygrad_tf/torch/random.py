"""`torch.Generator`, and the default one. The streams are NumPy's: no seed gives the numbers that it gives in PyTorch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import random
from ..device import device as Device
from ..device import on_cpu
from ..errors import real
from ..tensor import Tensor


class Generator(np.random.Generator):
    """A stream of random numbers: NumPy's generator under PyTorch's names."""

    def __init__(self, device: Any = "cpu"):
        on_cpu(device)
        super().__init__(np.random.PCG64(0))
        self.device = Device(device)

    def manual_seed(self, seed: int) -> Generator:
        self.bit_generator.state = np.random.PCG64(_positive(seed)).state
        self._seed = int(seed)
        return self

    def initial_seed(self) -> int:
        return getattr(self, "_seed", 0)

    def seed(self) -> int:
        """Start anew from a seed that nobody chose; return it."""
        return self.manual_seed(int(np.random.SeedSequence().entropy) % 2**63).initial_seed()  # type: ignore[arg-type]

    def get_state(self) -> Tensor:
        return _packed(self)

    def set_state(self, new_state: Any) -> Generator:
        _unpack(self, new_state)
        return self


def manual_seed(seed: int) -> np.random.Generator:
    """Start the default generator anew."""
    return random.manual_seed(_positive(seed))


def seed() -> int:
    number = int(np.random.SeedSequence().entropy) % 2**63  # type: ignore[arg-type]
    random.manual_seed(number)
    return number


def get_rng_state() -> Tensor:
    return _packed(random.default())


def set_rng_state(new_state: Any) -> None:
    _unpack(random.default(), new_state)


def _positive(seed: Any) -> int:
    """NumPy takes no negative seed; PyTorch counts it from 2 ** 64 down."""
    return int(real("seed", seed, -math.inf)) % 2**64


def _packed(generator: np.random.Generator) -> Tensor:
    """The state of a PCG64 as bytes in a tensor, which torch.save takes."""
    state = generator.bit_generator.state
    inner = state["state"]
    words = inner["state"].to_bytes(16, "little") + inner["inc"].to_bytes(16, "little")
    words += int(state["has_uint32"]).to_bytes(4, "little") + int(state["uinteger"]).to_bytes(4, "little")
    return Tensor(np.frombuffer(words, np.uint8).copy())


def _unpack(generator: np.random.Generator, packed: Any) -> None:
    words = bytes(np.asarray(packed, np.uint8))
    if len(words) != 40:
        raise ValueError(f"the state of a generator is 40 bytes here, not {len(words)}: it comes from another program")
    number = lambda part: int.from_bytes(part, "little")
    generator.bit_generator.state = {
        "bit_generator": "PCG64",
        "state": {"state": number(words[:16]), "inc": number(words[16:32])},
        "has_uint32": number(words[32:36]),
        "uinteger": number(words[36:]),
    }
