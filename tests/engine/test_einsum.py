"""einsum against NumPy's, its gradient against finite differences, and its refusals."""

import numpy as np
import pytest

from tinygrad_tf import tensor
from tinygrad_tf.einsum import einsum

CASES = {
    "ij,jk": [(2, 3), (3, 4)],
    "bhqd,bhkd->bhqk": [(2, 3, 4, 5), (2, 3, 6, 5)],
    "b i d, b j d -> b i j": [(2, 3, 4), (2, 5, 4)],
    "...ij,...jk->...ik": [(2, 1, 3, 4), (5, 4, 2)],
    "ii->i": [(3, 3)],
    "ii": [(3, 3)],
    "iij->j": [(3, 3, 2)],
    "ij->": [(2, 3)],
    "ij->ji": [(2, 3)],
    "i,j->ij": [(2,), (3,)],
    "i,i->": [(4,), (4,)],
    "ij,ij->ij": [(2, 3), (2, 3)],
    "ij,ij->i": [(2, 0), (2, 0)],
    "ij,kl->i": [(2, 3), (4, 5)],
    "ijk,k,jl->il": [(2, 3, 4), (4,), (3, 2)],
    "a,ab,abc->c": [(2,), (2, 3), (2, 3, 4)],
}


@pytest.mark.parametrize("equation", CASES)
def test_value_and_gradient(equation, calculus):
    arrays = [calculus.numbers(*shape, salt=i) for i, shape in enumerate(CASES[equation])]
    leaves = [calculus.leaf(a) for a in arrays]
    y = einsum(equation, *leaves)
    plain = np.einsum(equation, *arrays)
    np.testing.assert_allclose(y.array, plain, rtol=1e-12, atol=1e-12)
    weights = calculus.numbers(*plain.shape, salt=9)
    (y * weights).sum().backward()
    wanted = calculus.slopes(lambda *xs: (np.einsum(equation, *xs) * weights).sum(), *arrays)
    for x, g in zip(leaves, wanted):
        np.testing.assert_allclose(x.grad.array, g, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "equation,shapes,words",
    [
        ("ij,jk", [(2, 3)], "names 2 operands, got 1"),
        ("ij", [(2,)], "'ij' does not fit a tensor of shape"),
        ("ij,jk->il", [(2, 3), (3, 2)], "and no other"),
        ("ij,jk->ik", [(2, 3), (4, 2)], "the letter 'j' has sizes 3 and 4"),
        ("ij->iij", [(2, 3)], "at most once"),
        ("i", [(2, 3)], "does not fit"),
    ],
)
def test_what_does_not_fit_says_so(equation, shapes, words):
    with pytest.raises(ValueError, match=words):
        einsum(equation, *(tensor(np.ones(shape)) for shape in shapes))


def test_a_diagonal_is_of_equal_sizes_and_nothing_beside_one_is_nothing():
    with pytest.raises(ValueError, match="the letter 'i' has sizes 1 and 3"):
        einsum("ii->i", tensor(np.ones((1, 3))))
    assert einsum("i,i->i", tensor(np.ones(1)), tensor(np.ones(0))).shape == (0,)
    assert einsum("i,i->i", tensor(np.ones(1)), tensor(np.ones(4))).shape == (4,)
