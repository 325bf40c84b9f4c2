"""What the tests of the engine share: numbers, finite differences, and a comparison with PyTorch."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from tinygrad_tf import Tensor, tensor


def numbers(*shape, low=-1.5, high=1.5, salt=0):
    """Float64 numbers between low and high, the same for the same shape and salt; no two are equal."""
    size = math.prod(shape)
    even = np.linspace(low, high, size) if size > 1 else np.full(size, 0.3 * low + 0.7 * high)
    return np.random.default_rng([salt, *shape]).permutation(even + 0.0137 * (salt + 1)).reshape(shape)


def slopes(f, *arrays, step=1e-5):
    """The gradient of the number f(*arrays) in each array, by central differences of fourth order, in float64."""
    arrays = [np.array(a, dtype=np.float64) for a in arrays]
    found = []
    for i, a in enumerate(arrays):
        g = np.zeros_like(a)
        for place in np.ndindex(a.shape):
            here, values = a[place], []
            for offset in (-2, -1, 1, 2):
                a[place] = here + offset * step
                values.append(float(f(*arrays[:i], a, *arrays[i + 1 :])))
            a[place] = here
            g[place] = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)
        found.append(g)
    return found


def leaf(array, dtype=np.float64):
    return tensor(array, dtype=dtype, requires_grad=True)


def flat(result):
    """A result and all its parts as one list of tensors."""
    return [part for item in result for part in flat(item)] if isinstance(result, (tuple, list)) else [result]


@pytest.fixture(scope="session")
def calculus():
    """`numbers`, `slopes`, `leaf`: this folder is no package that a test could import from."""
    return SimpleNamespace(numbers=numbers, slopes=slopes, leaf=leaf)


@pytest.fixture(scope="session")
def same_as_torch(oracle):
    """same(f, *arrays): f(module, *tensors) gives the same values, shapes, dtypes and gradients here and in PyTorch.

    Float arrays are leaves that require a gradient; every output that has a gradient gets the same one from above.
    """
    import tinygrad_tf

    def same(f, *arrays, rtol=None, atol=None):
        floats = [isinstance(a, np.ndarray) and a.dtype.kind == "f" for a in arrays]
        is_array = [isinstance(a, np.ndarray) for a in arrays]
        ours = [tensor(a, requires_grad=g) if t else a for a, g, t in zip(arrays, floats, is_array)]
        theirs = [oracle.tensor(a, requires_grad=g) if t else a for a, g, t in zip(arrays, floats, is_array)]
        mine, torchs = flat(f(tinygrad_tf, *ours)), flat(f(oracle, *theirs))
        assert len(mine) == len(torchs)
        tight = all(x.dtype in (np.float64, bool, np.int64, np.int32) for x in [*mine, *ours] if isinstance(x, Tensor))
        rtol, atol = rtol or (1e-10 if tight else 2e-5), atol or (1e-12 if tight else 1e-6)
        ours_total, theirs_total = [], []
        for y, t in zip(mine, torchs):
            assert isinstance(y, Tensor)
            assert y.shape == tuple(t.shape)
            assert str(y.dtype) == str(t.dtype).removeprefix("torch.")
            np.testing.assert_allclose(y.array, t.detach().numpy(), rtol=rtol, atol=atol)
            assert y.requires_grad == t.requires_grad
            if t.requires_grad:
                seed = numbers(*y.shape, salt=9).astype(y.dtype)
                ours_total.append((y * seed).sum())
                theirs_total.append((t * oracle.from_numpy(seed)).sum())
        if ours_total:
            sum(ours_total[1:], ours_total[0]).backward()
            sum(theirs_total[1:], theirs_total[0]).backward()
        for x, t, g in zip(ours, theirs, floats):
            if g:
                assert (x.grad is None) == (t.grad is None)
            if g and t.grad is not None:
                assert x.grad.dtype == x.dtype
                assert x.grad.shape == x.shape
                np.testing.assert_allclose(x.grad.array, t.grad.numpy(), rtol=rtol, atol=atol)

    return same
