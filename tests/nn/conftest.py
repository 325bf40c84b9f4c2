"""What the tests of layers share: random numbers, and how a layer is compared with its counterpart in PyTorch."""

import numpy as np
import pytest

from tinygrad_tf import Tensor

TOLERANCE = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}


def close(ours, theirs, what="", times=1):
    """Assert that two arrays agree to `times` 1e-10 (float64) or 1e-5 (float32) of the largest number in them."""
    ours, theirs = (np.asarray(getattr(x, "array", x)) for x in (ours, theirs.detach().numpy()))
    assert ours.shape == theirs.shape, f"{what}: shape {ours.shape}, in PyTorch {theirs.shape}"
    assert ours.dtype == theirs.dtype, f"{what}: dtype {ours.dtype}, in PyTorch {theirs.dtype}"
    scale = max(float(np.abs(theirs).max(initial=0)), 1e-2)  # some gradients are 0 but for rounding
    worst = float(np.abs(ours - theirs).max(initial=0)) / scale
    assert worst <= times * TOLERANCE.get(ours.dtype, 0), f"{what}: off by {worst:.2g} of the largest number, {scale:.2g}"


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


def parts(result):
    """A result and all its parts as one list of tensors, None left out."""
    if isinstance(result, (tuple, list)):
        return [part for item in result for part in parts(item)]
    return [] if result is None else [result]


def same(torch, ours, theirs, *arrays, times=1):
    """Assert that ours(*tensors) and theirs(*tensors) agree: values, shapes, dtypes, and the gradient of every float input.

    Arrays become tensors, those of a float dtype leaves that require a gradient; all else is passed as it is. Every output
    that has a gradient gets the same one from above.
    """
    is_array, is_float = ([isinstance(a, np.ndarray) and a.dtype.kind in kinds for a in arrays] for kinds in ("biuf", "f"))
    mine = [Tensor(a.copy(), requires_grad=g) if t else a for a, t, g in zip(arrays, is_array, is_float)]
    torchs = [torch.tensor(a, requires_grad=g) if t else a for a, t, g in zip(arrays, is_array, is_float)]
    outs, wanted = parts(ours(*mine)), parts(theirs(*torchs))
    assert len(outs) == len(wanted)
    generator, totals = np.random.default_rng(9), ([], [])
    for i, (y, t) in enumerate(zip(outs, wanted)):
        close(y, t, f"output {i}", times)
        assert y.requires_grad == t.requires_grad
        if t.requires_grad:
            above = generator.standard_normal(y.shape).astype(y.dtype)
            totals[0].append((y * Tensor(above)).sum())
            totals[1].append((t * torch.from_numpy(above)).sum())
    for total in totals:
        if total:
            sum(total[1:], total[0]).backward()
    for i, (x, t, g) in enumerate(zip(mine, torchs, is_float)):
        if g:
            assert (x.grad is None) == (t.grad is None), f"input {i}"
            if t.grad is not None:
                close(x.grad, t.grad, f"gradient of input {i}", times)


def same_layer(torch, module, torch_module, *arrays, call=None, times=1):
    """As `same`, for two modules: ours takes over PyTorch's state dict, then gradients of parameters and buffers agree too.

    call(module, *tensors): how a module is called, if not with the tensors alone.
    """
    kind = next(a.dtype for a in arrays if isinstance(a, np.ndarray) and a.dtype.kind == "f")
    module.to(kind)
    torch_module.to(getattr(torch, str(kind)))
    module.load_state_dict({name: value.numpy() for name, value in torch_module.state_dict().items()})
    assert list(module.state_dict()) == list(torch_module.state_dict())
    call = call or (lambda module, *tensors: module(*tensors))
    same(torch, lambda *x: call(module, *x), lambda *x: call(torch_module, *x), *arrays, times=times)
    own, theirs = dict(module.named_parameters()), dict(torch_module.named_parameters())
    for name, p in theirs.items():
        assert (own[name].grad is None) == (p.grad is None), name
        if p.grad is not None:
            close(own[name].grad, p.grad, f"gradient of {name}", times)
    for (name, b), (_, t) in zip(module.named_buffers(), torch_module.named_buffers()):
        close(b, t, f"buffer {name}", times)


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
    helpers.same, helpers.same_layer = same, same_layer
    return helpers
