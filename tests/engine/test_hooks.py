"""Hooks on tensors and retain_grad, with PyTorch's order and accumulation."""

import numpy as np
import pytest

import tinygrad_tf
from tinygrad_tf import Tensor, grad, tensor


def pair():
    x = tensor([1.0, 2.0], requires_grad=True)
    return x, x * 3


@pytest.mark.parametrize("on", ["leaf", "intermediate"])
def test_a_hook_sees_the_complete_gradient_once(on):
    x, y = pair()
    seen = []
    (x if on == "leaf" else y).register_hook(lambda g: seen.append(g))
    (y * 2 + y * 5 + y).sum().backward()
    assert [g.tolist() for g in seen] == [[24, 24] if on == "leaf" else [8, 8]]
    assert isinstance(seen[0], Tensor)


@pytest.mark.parametrize("on", ["leaf", "intermediate"])
def test_what_a_hook_returns_replaces_the_gradient(on):
    x, y = pair()
    z = x if on == "leaf" else y
    z.register_hook(lambda g: g * 10)
    z.register_hook(lambda g: g + 1)
    z.register_hook(lambda g: None)
    y.sum().backward()
    assert x.grad.tolist() == ([31, 31] if on == "leaf" else [33, 33])
    assert x.grad.dtype == np.float32


@pytest.mark.parametrize("on", ["leaf", "intermediate"])
def test_each_hook_is_removed_by_its_own_remover(on):
    x, y = pair()
    z, seen = (x if on == "leaf" else y), []
    removers = [z.register_hook(lambda g, i=i: seen.append(i)) for i in range(3)]
    removers[0]()
    y.sum().backward(retain_graph=True)
    assert seen == [1, 2]
    removers[2]()
    removers[2]()  # once more does no harm
    y.sum().backward()
    assert seen == [1, 2, 1]


@pytest.mark.parametrize("on", ["leaf", "intermediate"])
def test_the_handle_is_pytorchs(on, oracle):
    for make in (tensor, oracle.tensor):
        x = make([1.0, 2.0], requires_grad=True)
        y, seen = x * 3, []
        handle = (x if on == "leaf" else y).register_hook(lambda g, seen=seen: seen.append(1))
        y.sum().backward(retain_graph=True)
        handle.remove()
        handle.remove()
        y.sum().backward()
        assert seen == [1]


def test_a_hook_that_removes_itself_does_not_skip_the_next():
    x, _ = pair()
    seen, removers = [], []
    removers.append(x.register_hook(lambda g: (seen.append("first"), removers[0]())[0]))
    x.register_hook(lambda g: seen.append("second"))
    for _ in range(2):
        (x * 2).sum().backward()
    assert seen == ["first", "second", "second"]


def test_a_hook_stays_removable_after_grad_has_watched_the_same_tensor():
    _, y = pair()
    seen = []
    remove = y.register_hook(lambda g: seen.append(1))
    grad(y.sum(), y, retain_graph=True)
    remove()
    y.sum().backward()
    assert seen == [1]


def test_a_hook_needs_a_gradient():
    with pytest.raises(RuntimeError, match="requires a gradient"):
        tensor(1.0).register_hook(print)


def test_hooks_under_create_graph_get_tensors_with_a_graph(oracle):
    results = []
    for m in (tinygrad_tf, oracle):
        x = m.tensor(2.0, dtype=m.float64, requires_grad=True)
        y = x * x
        y.register_hook(lambda g, x=x: g * x)
        (first,) = getattr(m, "autograd", m).grad(y * y, x, create_graph=True)
        (second,) = getattr(m, "autograd", m).grad(first, x)
        results.append((first.item(), second.item()))
    assert results[0] == results[1] == (64, 192)


def test_retain_grad_accumulates_and_takes_what_the_hooks_made_of_it(oracle):
    results = []
    for make in (tensor, oracle.tensor):
        x = make([1.0, 2.0], requires_grad=True)
        y = x * 3
        y.retain_grad()
        y.retain_grad()
        y.register_hook(lambda g: g * 10)
        z = (y * y).sum()
        z.backward(retain_graph=True)
        once = y.grad.tolist()
        z.backward()
        results.append((once, y.grad.tolist(), x.grad.tolist()))
    assert results[0] == results[1] == ([60, 120], [120, 240], [360, 720])


def test_retain_grad_gives_memory_of_its_own_and_does_nothing_to_a_leaf():
    x, y = pair()
    x.retain_grad()
    y.retain_grad()
    (y + 0).backward(tensor([1.0, 1.0]))
    y.grad.array[:] = 0
    assert x.grad.tolist() == [3, 3]
    assert y.grad.shape == y.shape


def test_retain_grad_does_not_keep_the_tensor():
    import weakref

    x, y = pair()
    y.retain_grad()
    ref, z = weakref.ref(y), (y * 2).sum()
    del y
    assert ref() is None
    z.backward()
    assert x.grad.tolist() == [6, 6]


def test_hooks_run_in_grad_too():
    _, y = pair()
    y.register_hook(lambda g: g * 7)
    (g,) = grad((y * 1).sum(), y)
    assert g.tolist() == [7, 7]
