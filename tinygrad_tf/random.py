"""The generator that is used where none is given, and numbers that are drawn a second time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .errors import called, shown

_default = np.random.default_rng()
Drawn = dict[int, tuple[np.random.Generator, Any]]  # id of a generator -> the generator, and its state before the first draw
Copies = dict[int, tuple[np.random.Generator, np.random.Generator]]  # id of a generator -> the generator, and its copy


class _Here(threading.local):
    """Of this thread."""

    drawn: Drawn | None = None  # what is noted, inside `noted`
    instead: Callable[[np.random.Generator], np.random.Generator] | None = None  # who draws in whose place


_here = _Here()


def source(generator: np.random.Generator | None = None) -> np.random.Generator:
    """Whom to draw from: this generator, or the default one; inside `drawn_again` and `apart`, a copy in its place."""
    own = _default if generator is None else generator
    if not isinstance(own, np.random.Generator):
        raise TypeError(f"{called()}a generator is one that np.random.default_rng(seed) makes, not {shown(own)}")
    now = own if _here.instead is None else _here.instead(own)
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
    copies = {key: _copy(*entry) for key, entry in drawn.items()}
    before = _here.drawn, _here.instead
    _here.drawn, _here.instead = None, lambda own: copies.get(id(own), own)
    try:
        yield
    finally:
        _here.drawn, _here.instead = before


@contextmanager
def apart(number: int) -> Iterator[Copies]:
    """Have `source` give copies which stand `number` jumps further on, where nobody else comes: the generators do not move.

    A jump is 2^127 numbers of NumPy's own generator. What it gives is for `catch_up`.
    """
    copies: Copies = {}

    def instead(own: np.random.Generator) -> np.random.Generator:
        if id(own) not in copies:
            copies[id(own)] = own, _copy(own, own.bit_generator.jumped(number).state)  # type: ignore[attr-defined]
        return copies[id(own)][1]

    before, _here.instead = _here.instead, instead
    try:
        yield copies
    finally:
        _here.instead = before


def catch_up(copies: Copies) -> None:
    """Move the generators to where their copies stand."""
    for own, copy in copies.values():
        own.bit_generator.state = copy.bit_generator.state


def _copy(generator: np.random.Generator, state: Any) -> np.random.Generator:
    bits = type(generator.bit_generator)(0)
    bits.state = state
    return np.random.Generator(bits)
