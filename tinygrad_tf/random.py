"""The generator that is used where none is given, and numbers that are drawn a second time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

_default = np.random.default_rng()
Drawn = dict[int, tuple[np.random.Generator, Any]]  # id of a generator -> the generator, and its state before the first draw


class _Here(threading.local):
    """Of this thread."""

    drawn: Drawn | None = None  # what is noted, inside `noted`
    copies: dict[int, np.random.Generator] | None = None  # inside `drawn_again`: who draws in whose place


_here = _Here()


def source(generator: np.random.Generator | None = None) -> np.random.Generator:
    """Whom to draw from: this generator, or the default one. Inside `drawn_again`, a copy that draws what was drawn before."""
    own = _default if generator is None else generator
    now = own if _here.copies is None else _here.copies.get(id(own), own)
    if _here.drawn is not None and id(own) not in _here.drawn:
        _here.drawn[id(own)] = own, now.bit_generator.state
    return now


def default() -> np.random.Generator:
    """The generator that initialisation, dropout and sampling draw from unless they are given their own."""
    return source()


def manual_seed(seed: int) -> np.random.Generator:
    """Start the default generator anew, in place: who already holds it draws from the new seed too."""
    generator = source()
    generator.bit_generator.state = np.random.default_rng(seed).bit_generator.state
    return generator


@contextmanager
def noted(drawn: Drawn) -> Iterator[None]:
    """Note in `drawn` who is drawn from inside, through `source`, and where each stood."""
    before, _here.drawn = _here.drawn, drawn
    try:
        yield
    finally:
        _here.drawn = before


@contextmanager
def drawn_again(drawn: Drawn) -> Iterator[None]:
    """Have `source` give the numbers that were drawn inside `noted` once more. The generators themselves do not move."""
    before = _here.drawn, _here.copies
    _here.drawn, _here.copies = None, {key: _copy(*entry) for key, entry in drawn.items()}
    try:
        yield
    finally:
        _here.drawn, _here.copies = before


def _copy(generator: np.random.Generator, state: Any) -> np.random.Generator:
    bits = type(generator.bit_generator)(0)
    bits.state = state
    return np.random.Generator(bits)
