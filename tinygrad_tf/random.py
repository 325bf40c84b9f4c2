"""The generator that is used where none is given."""

from __future__ import annotations

import numpy as np

_default = np.random.default_rng()


def default() -> np.random.Generator:
    """The generator that initialisation, dropout and sampling draw from unless they are given their own."""
    return _default


def manual_seed(seed: int) -> np.random.Generator:
    """Start the default generator anew, in place: who already holds it draws from the new seed too."""
    _default.bit_generator.state = np.random.default_rng(seed).bit_generator.state
    return _default
