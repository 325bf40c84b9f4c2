"""The physical floor: the matrix products and nothing else, in NumPy, into arrays that are there already.

Of a training step, and of causal attention alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tinygrad_tf.threads import in_parts

from .ours import as_the_trainer
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


class AttentionProducts:
    """One call of `once` does the products of causal attention alone: half of the T x T matrix for each head.

    A query reads T / 2 keys on average, so the products are those of T queries with T / 2 keys: two forward (scores, reading)
    and four more backward (the gradients of weights, queries, keys and values). Some queries at a time, so that their scores
    stay in the cache; some heads on each thread. Nothing that attention adds to this is there: no softmax, no mask.
    """

    QUERIES, SCORES = 256, 1 << 16  # at a time

    def set(self, batch: int, heads: int, length: int, head_dim: int, backward: bool) -> None:
        generator = np.random.default_rng(0)
        n, half = batch * heads, length // 2
        self.q, self.out = (generator.standard_normal((n, length, head_dim), np.float32) for _ in range(2))
        self.k, self.v, self.dk, self.dv = (generator.standard_normal((n, half, head_dim), np.float32) for _ in range(4))
        self.rows, self.backward = min(length, self.QUERIES), backward
        self.heads = max(1, self.SCORES // (self.rows * half))
        if not hasattr(self, "threads"):
            self.threads = as_the_trainer(Size(1, heads, heads * head_dim, length, batch))

    def once(self) -> None:
        numbers = self.q.shape[0] * self.q.shape[1] * self.k.shape[1]
        in_parts(self._some, self.q, self.k, self.v, self.out, self.dk, self.dv, numbers=numbers)

    def _some(self, *arrays: np.ndarray) -> None:
        scores, slopes = (np.empty((self.heads, self.rows, self.k.shape[1]), np.float32) for _ in range(2))
        for i in range(0, len(arrays[0]), self.heads):
            q, k, v, out, dk, dv = (a[i : i + self.heads] for a in arrays)
            for j in range(0, q.shape[1], self.rows):
                some, to = q[:, j : j + self.rows], out[:, j : j + self.rows]
                w, d = (a[: len(q), : some.shape[1]] for a in (scores, slopes))
                np.matmul(some, k.swapaxes(1, 2), out=w)
                if self.backward:
                    np.matmul(some, v.swapaxes(1, 2), out=d)
                    np.matmul(d, k, out=to)
                    np.matmul(d.swapaxes(1, 2), some, out=dk)
                    np.matmul(w.swapaxes(1, 2), some, out=dv)
                np.matmul(w, v, out=to)
