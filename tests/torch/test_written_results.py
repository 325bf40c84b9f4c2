"""A result that is written to in place before backward: scores that a bias is added to, a quotient that goes on as a sum.

PyTorch allows it wherever the gradient does not need the result itself; against PyTorch, values and gradients.
"""

import numpy as np
import pytest

# x and y are (3, 3), positive; the result is (3, 3) and belongs to nobody else
RESULTS = {
    "matrix product": lambda m, x, y: x @ y,
    "einsum": lambda m, x, y: m.einsum("ij,jk->ik", x, y),
    "einsum of a batch": lambda m, x, y: m.einsum("bij,bkj->bik", x[None], y[None])[0],
    "einsum, outer product": lambda m, x, y: m.einsum("i,j->ij", x[0], y[0]),
    "expand to the same shape": lambda m, x, y: (x * 2).expand(3, 3),
    "expand with a new axis": lambda m, x, y: (x * 2).expand(1, -1, -1),
    "repeat": lambda m, x, y: x[:1].repeat(3, 1),
    "quotient": lambda m, x, y: x / y,
    "quotient by a sum": lambda m, x, y: x / x.sum(-1, keepdim=True),
    "normalize": lambda m, x, y: m.nn.functional.normalize(x, dim=-1),
    "batch norm": lambda m, x, y: m.nn.BatchNorm1d(3, affine=False)(x),
    "linear": lambda m, x, y: m.nn.functional.linear(x, y),
    "gelu": lambda m, x, y: m.nn.functional.gelu(x),
    "masked fill": lambda m, x, y: x.masked_fill(m.eye(3).bool(), -1.0),
    "logarithm": lambda m, x, y: x.log(),
}


@pytest.mark.parametrize("name", RESULTS)
def test_written_to_afterwards(agree, name):
    def f(m, x, y, b):
        scores = RESULTS[name](m, x, y)
        scores += b
        return [scores]

    rng = np.random.default_rng(0)
    for _ in range(10):
        x, y, b = rng.random((3, 3, 3)).astype(np.float32)
        agree(f, x + np.float32(0.2), y + np.float32(0.2), b - np.float32(0.5), rtol=2e-4, atol=2e-5)


def test_what_shows_one_number_in_many_places_is_not_written_to(agree):
    agree(lambda m, x: (x * 2).expand(4, 3).add_(1), np.ones((1, 3)))
