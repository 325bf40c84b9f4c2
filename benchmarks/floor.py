"""The physical floor of a training step: its matrix products and nothing else, in NumPy, into arrays that are there already."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .sizes import SIZES, VOCABULARY, Size


def products(size: Size) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], int]]:
    """(left, right, times): the shapes of every product of one step, forward and backward.

    A linear layer y = x w^T takes three: y itself, dx = dy w and dw = dy^T x. Attention takes six for each head, on the
    whole T x T, although half of it is masked.
    """
    n, d, layers = size.tokens, size.n_embd, size.n_layer
    linear = [(d, 3 * d, layers), (d, d, layers), (d, 4 * d, layers), (4 * d, d, layers), (d, VOCABULARY, 1)]
    for read, written, times in linear:
        yield (n, read), (read, written), times
        yield (n, written), (written, read), times
        yield (written, n), (n, read), times
    heads, t, head_dim = (size.batch_size, size.n_head), size.block_size, d // size.n_head
    yield (*heads, t, head_dim), (*heads, head_dim, t), 2 * layers  # the scores, and the gradient of the weights
    yield (*heads, t, t), (*heads, t, head_dim), 4 * layers  # what is read; the gradients of queries, keys and values


class Products:
    """One call of `once` does every matrix product of one step."""

    def __init__(self, size: str):
        generator = np.random.default_rng(0)
        self.work = []
        for left, right, times in products(SIZES[size]):
            a, b = (generator.standard_normal(shape, np.float32) for shape in (left, right))
            self.work += [(a, b, np.empty((*left[:-1], right[-1]), np.float32))] * times

    def once(self) -> None:
        for a, b, out in self.work:
            np.matmul(a, b, out=out)
