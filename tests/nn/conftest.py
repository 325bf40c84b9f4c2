"""What the tests of layers share: random numbers, and how a layer is compared with its counterpart in PyTorch."""

import numpy as np
import pytest

TOLERANCE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}


def close(ours, theirs, what="", times=1):
    """Assert that two arrays agree to `times` 1e-10 (float64) or 1e-5 (float32) of the largest number in them."""
    ours, theirs = (np.asarray(getattr(x, "array", x)) for x in (ours, theirs.detach().numpy()))
    assert ours.shape == theirs.shape, f"{what}: shape {ours.shape}, in PyTorch {theirs.shape}"
    assert ours.dtype == theirs.dtype, f"{what}: dtype {ours.dtype}, in PyTorch {theirs.dtype}"
    scale = max(float(np.abs(theirs).max(initial=0)), 1e-2)  # some gradients are 0 but for rounding
    worst = float(np.abs(ours - theirs).max(initial=0)) / scale
    assert worst <= times * TOLERANCE[ours.dtype], f"{what}: off by {worst:.2g} of the largest number, {scale:.2g}"


def copy_weights(torch, module, torch_module, names):
    """Give a PyTorch module the values of ours. `names`: its parameter -> the names of ours in it, one below the other."""
    own = dict(module.named_parameters())
    theirs = dict(torch_module.named_parameters())
    assert set(names) == set(theirs), set(names) ^ set(theirs)
    taken = [name for group in names.values() for name in group.split()]
    assert sorted(taken) == sorted(own), set(taken) ^ set(own)
    with torch.no_grad():
        for name, group in names.items():
            theirs[name].copy_(torch.from_numpy(np.concatenate([own[n].array for n in group.split()])))


def same_gradients(module, torch_module, names):
    """Assert that every parameter has the gradient of its counterpart, gradients of exactly 0 included."""
    own, theirs = dict(module.named_parameters()), dict(torch_module.named_parameters())
    for name, group in names.items():
        ours = np.concatenate([own[n].grad.array for n in group.split()])
        close(ours, theirs[name].grad, f"gradient of {name}")


@pytest.fixture(params=["float64", "float32"])
def dtype(request):
    return np.dtype(request.param)


@pytest.fixture
def randn():
    """randn(2, 3, dtype): standard normal numbers, the same in each test."""
    generator = np.random.default_rng(5)
    return lambda *shape: generator.standard_normal(shape[:-1]).astype(shape[-1])


@pytest.fixture
def against():
    """The helpers above, as one object: this folder is no package that a test could import from."""

    class Against:
        pass

    helpers = Against()
    helpers.close, helpers.copy_weights, helpers.same_gradients = close, copy_weights, same_gradients
    return helpers
