"""One comparison with PyTorch for every name: values, shapes, dtypes, gradients, and errors where PyTorch has them."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import tinygrad_tf.torch as ours

F32, F64 = np.float32, np.float64


def numbers(*shape, salt=0, dtype=F32):
    """Numbers between -2 and 2 without ties, the same for the same shape and salt."""
    size = int(np.prod(shape))
    even = np.linspace(-2, 2, size) if size > 1 else np.full(size, 0.6)
    return np.random.default_rng([salt, *shape]).permutation(even + 0.013 * (salt + 1)).reshape(shape).astype(dtype)


def whole(*shape, salt=0, high=5, dtype=np.int64):
    return np.random.default_rng([salt, *shape]).integers(-high, high, shape).astype(dtype)


SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-30, 1e30], F32)
FLOATS = [
    numbers(3),
    numbers(2, 3),
    numbers(2, 3, 4),
    numbers(),
    numbers(1),
    numbers(0),
    numbers(2, 0),
    numbers(3, 1),
    numbers(1, 1),
    numbers(4, 3).T,
    numbers(2, 3, salt=1, dtype=F64),
    numbers(5, 4, salt=2)[::2],
    np.array([[0, 1, 1], [1, 0, -1]], F32),
]
INTEGERS = [
    whole(3),
    whole(2, 3),
    whole(2, 3, 4),
    whole(),
    whole(1),
    whole(0),
    whole(2, 0),
    whole(4, 3).T,
    whole(3, dtype=np.int32),
    whole(3, salt=1, dtype=np.int8),
    np.arange(6, dtype=np.uint8).reshape(2, 3),
    np.zeros((2, 2), np.int64),
]
BOOLEANS = [x > 0 for x in FLOATS]
VECTORS = [x for x in FLOATS if x.ndim]
MATRICES = [
    numbers(2, 3),
    numbers(3, 3),
    numbers(1, 1),
    numbers(4, 2),
    numbers(2, 3, 4),
    numbers(2, 2, 3, 3),
    numbers(0, 3),
    numbers(3, 0),
    numbers(4, 3).T,
    numbers(3, 3, dtype=F64),
    numbers(1, 5),
    numbers(5, 1),
    np.zeros((2, 2), F32),
]
POSITIVE = [np.abs(x) + x.dtype.type(0.1) for x in FLOATS]
PAIRS = [
    (numbers(3), numbers(3, salt=1)),
    (numbers(2, 3), numbers(3, salt=1)),
    (numbers(2, 1), numbers(1, 3, salt=1)),
    (numbers(), numbers(3, salt=1)),
    (numbers(), numbers(salt=1)),
    (numbers(0), numbers(0)),
    (numbers(2, 0), numbers(1)),
    (numbers(2, 3, dtype=F64), numbers(2, 3, salt=1)),
    (numbers(2, 3), whole(2, 3, salt=1) + 7),
    (whole(3), whole(3, salt=1) + 7),
    (whole(3, dtype=np.int32), whole(3, salt=1) + 7),
    (numbers(2), numbers(3)),
    (numbers(2, 3, 4), numbers(4, salt=1)),
    (whole(2, 2), numbers(salt=3)),
    (np.array([True, False]), whole(2) + 7),
]


def flat(result):
    """A result and all its parts in one list."""
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (tuple, list)):
        return [part for item in result for part in flat(item)]
    return [result]


def outcome(f, module, arrays):
    """(the inputs as tensors, what f made of them, the error if there was one)"""
    leaves = [module.tensor(a, requires_grad=a.dtype.kind == "f") if isinstance(a, np.ndarray) else a for a in arrays]
    try:
        results = flat(f(module, *leaves))
        return leaves, [y * 1 if any(y is x and x.requires_grad for x in leaves) else y for y in results], None
    except Exception as error:
        return leaves, [], error


@pytest.fixture(scope="session")
def agree(oracle):
    """agree(f, *arrays): f(torch, *tensors) does the same here and in PyTorch, gradients included."""

    def compare(f, *arrays, rtol=None, atol=None):
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            mine, my_results, error = outcome(f, ours, arrays)
            theirs, their_results, their_error = outcome(f, oracle, arrays)
            shapes = [getattr(a, "shape", a) for a in arrays]
            if their_error is not None:
                assert error is not None, f"{shapes}: PyTorch says {their_error}; here {my_results}"
                return
            if error is not None:
                raise AssertionError(f"{shapes}: PyTorch gives {their_results}") from error
            assert len(my_results) == len(their_results)
            for y, t in zip(my_results, their_results):
                same(y, t, rtol, atol, oracle)
            backward(mine, my_results, ours)
            backward(theirs, their_results, oracle)
            for x, t in [*zip(mine, theirs), *zip(my_results, their_results)]:
                if isinstance(x, ours.Tensor) and x.is_leaf and x.requires_grad:
                    assert (x.grad is None) == (t.grad is None), f"{shapes}: gradient here {x.grad}, in PyTorch {t.grad}"
                    if t.grad is not None:
                        same(x.grad, t.grad, rtol, atol, oracle)

    return compare


def same(y, t, rtol, atol, oracle):
    if isinstance(t, oracle.Tensor):
        assert isinstance(y, ours.Tensor), f"{y!r} in place of {t!r}"
        assert tuple(y.shape) == tuple(t.shape)
        assert str(y.dtype) == str(t.dtype).removeprefix("torch.")
        assert y.requires_grad == t.requires_grad
        exact = t.dtype not in (oracle.float32, oracle.float16)
        np.testing.assert_allclose(
            y.detach().numpy(), t.detach().numpy(), rtol or (1e-9 if exact else 2e-5), atol or (1e-11 if exact else 2e-6)
        )
    elif isinstance(t, (int, float, np.ndarray)):
        np.testing.assert_allclose(y, t, rtol or 1e-6, atol or 1e-9)
    elif isinstance(t, (str, type(None))):
        assert y == t
    else:
        assert type(y).__name__ == type(t).__name__


def backward(leaves, results, module):
    """Send the same numbers back from every result that has a gradient."""
    total = None
    for y in results:
        if isinstance(y, module.Tensor) and y.requires_grad and not y.is_leaf:
            seed = module.tensor(numbers(*y.shape, salt=9), dtype=y.dtype)
            total = (y * seed).sum() if total is None else total + (y * seed).sum()
    if total is not None:
        total.backward()


@pytest.fixture(scope="session")
def inputs():
    """The families of inputs."""
    return SimpleNamespace(
        floats=FLOATS,
        integers=INTEGERS,
        booleans=BOOLEANS,
        vectors=VECTORS,
        matrices=MATRICES,
        positive=POSITIVE,
        pairs=PAIRS,
        special=[SPECIAL],
    )


@pytest.fixture(scope="session")
def walk(agree, inputs):
    """walk(functions, family): each function on ten or more inputs of the family."""

    def each(functions, family, **tolerance):
        chosen = [x for name in family.split() for x in getattr(inputs, name)]
        assert len(chosen) >= 10
        for f in functions if isinstance(functions, list) else [functions]:
            for x in chosen:
                agree(f, *(x if isinstance(x, tuple) else (x,)), **tolerance)

    return each
