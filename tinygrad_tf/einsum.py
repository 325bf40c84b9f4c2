"""`einsum`: products summed over the letters that the result does not name, as matrix products of two tensors at a time."""

from __future__ import annotations

import math
from typing import Any

from .errors import shown
from .tensor import Tensor

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def einsum(equation: str, *operands: Any) -> Tensor:
    """As torch.einsum: `einsum("bhqd,bhkd->bhqk", q, k)`.

    Without an arrow the result has the letters that occur once, in alphabetical order. An ellipsis stands for the axes that
    have no letter, and is broadcast. A letter twice in one operand is its diagonal.
    """
    if not isinstance(equation, str):
        raise TypeError(f'einsum: the equation comes first, as in einsum("ij,jk->ik", a, b), not {shown(equation)}')
    tensors: list[Tensor] = list(operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands)
    for x in tensors:
        if not isinstance(x, Tensor):
            raise TypeError(f"einsum: an operand of {equation!r} is {shown(x)} and no tensor: tensor(...) makes one of numbers")
    inputs, result = _letters(equation.replace(" ", ""), tensors)
    sizes = _sizes(equation, inputs, tensors)
    named = [_diagonals(x, letters) for x, letters in zip(tensors, inputs, strict=True)]
    done, letters = named[0]
    for i, (x, more) in enumerate(named[1:], 2):
        later = set(result).union(*(letters for _, letters in named[i:]))
        done, letters = _product(done, letters, x, more, later)
    done, letters = _summed(done, letters, set(result))
    done = done.expand([sizes[c] for c in letters])  # a letter of size 1 everywhere it is left
    return done.permute([letters.index(c) for c in result]) if result else done.reshape(())


def _letters(equation: str, tensors: list[Tensor]) -> tuple[list[str], str]:
    """The letters of each operand and of the result, with letters for the axes of an ellipsis too."""
    left, arrow, result = equation.partition("->")
    if set(equation.replace("...", "")) - set(LETTERS + ",->") or "->" in result:
        raise ValueError(f"einsum: {equation!r} is letters, commas, ... and one -> at most")
    inputs = left.split(",")
    if len(inputs) != len(tensors):
        raise ValueError(f"einsum: {equation!r} names {len(inputs)} operands, got {len(tensors)}")
    rest = [x.ndim - len(letters.replace("...", "")) for x, letters in zip(tensors, inputs, strict=True)]
    free = [c for c in LETTERS if c not in equation][: max([0, *rest])]
    for x, letters, n in zip(tensors, inputs, rest, strict=True):
        if n < 0 or (n and "..." not in letters):
            raise ValueError(f"einsum: {letters!r} does not fit a tensor of shape {x.shape}")
    inputs = [letters.replace("...", "".join(free[len(free) - n :])) for letters, n in zip(inputs, rest, strict=True)]
    if not arrow:
        every = "".join(inputs)
        result = "".join([*free, *sorted(c for c in set(every) if every.count(c) == 1 and c not in free)])
    result = result.replace("...", "".join(free))
    if len(set(result)) < len(result) or not set(result) <= set("".join(inputs)):
        raise ValueError(f"einsum: the result of {equation!r} names each letter of the operands at most once, and no other")
    return inputs, result


def _sizes(equation: str, inputs: list[str], tensors: list[Tensor]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for x, letters in zip(tensors, inputs, strict=True):
        own: dict[str, int] = {}  # on a diagonal nothing is broadcast
        for c, n in zip(letters, x.shape, strict=True):
            before = own[c] if c in own else sizes.setdefault(c, n)
            if before != n and (c in own or 1 not in (before, n)):
                raise ValueError(f"einsum: in {equation!r} the letter {c!r} has sizes {before} and {n}")
            own[c] = n
            sizes[c] = n if sizes[c] == 1 else sizes[c]
    return sizes


def _diagonals(x: Tensor, letters: str) -> tuple[Tensor, str]:
    """Each letter once."""
    for c in dict.fromkeys(letters):
        while letters.count(c) > 1:
            i, j = letters.index(c), letters.rindex(c)
            x = x.diagonal(0, i, j)
            letters = "".join(d for k, d in enumerate(letters) if k not in (i, j)) + c
    return x, letters


def _summed(x: Tensor, letters: str, kept: set[str]) -> tuple[Tensor, str]:
    """Without the letters that nobody needs any more."""
    gone = tuple(i for i, c in enumerate(letters) if c not in kept)
    return (x.sum(gone), "".join(c for c in letters if c in kept)) if gone else (x, letters)


def _product(a: Tensor, a_letters: str, b: Tensor, b_letters: str, later: set[str]) -> tuple[Tensor, str]:
    """One matrix product: letters that both have and later ones need count the batch, those that go are its inner axis."""
    a, a_letters = _summed(a, a_letters, later | set(b_letters))
    b, b_letters = _summed(b, b_letters, later | set(a_letters))
    shared = [c for c in a_letters if c in b_letters]
    batch, inner = [c for c in shared if c in later], [c for c in shared if c not in later]
    rows, columns = [c for c in a_letters if c not in shared], [c for c in b_letters if c not in shared]
    for c in inner:  # an inner letter of size 1 on one side only is repeated
        n = max(a.shape[a_letters.index(c)], b.shape[b_letters.index(c)])
        a, b = (x.expand([n if d == c else -1 for d in letters]) for x, letters in ((a, a_letters), (b, b_letters)))
    left = _grouped(a, a_letters, batch, rows, inner)
    right = _grouped(b, b_letters, batch, inner, columns)
    y = left @ right if inner else left * right  # (..., rows, 1) * (..., 1, columns)
    shape = [*y.shape[:-2], *_shape(a, a_letters, rows), *_shape(b, b_letters, columns)]
    return y.reshape(shape), "".join(batch + rows + columns)


def _shape(x: Tensor, letters: str, some: list[str]) -> list[int]:
    return [x.shape[letters.index(c)] for c in some]


def _grouped(x: Tensor, letters: str, *groups: list[str]) -> Tensor:
    """The first group axis by axis, each other one as one axis."""
    x = x.permute([letters.index(c) for group in groups for c in group])
    first = len(groups[0])
    shape, sizes = list(x.shape[:first]), list(x.shape[first:])
    for group in groups[1:]:
        shape.append(math.prod(sizes[: len(group)]))
        sizes = sizes[len(group) :]
    return x.reshape(shape)
