"""Hooks on modules: they see, they replace, they go."""

import pytest

from tinygrad_tf import Tensor, nn


def test_hooks_see_and_replace():
    layer, x = nn.Linear(2, 2), Tensor([[1.0, 2.0]])
    plain = layer(x)
    seen = []
    removers = [
        layer.register_forward_pre_hook(lambda module, args: seen.append(("before", module, args))),
        layer.register_forward_hook(lambda module, args, output: seen.append(("after", module, args, output))),
    ]
    assert layer(x).equal(plain)
    assert [s[0] for s in seen] == ["before", "after"]
    assert seen[0][1] is layer
    assert seen[0][2][0] is x
    removers += [
        layer.register_forward_pre_hook(lambda module, args: args[0] * 2),
        layer.register_forward_hook(lambda module, args, output: output + 1),
        layer.register_forward_hook(lambda module, args, output: output * 10),
    ]
    assert layer(x).allclose((layer.forward(x * 2) + 1) * 10)
    for remove in removers:
        remove()
    assert layer(x).equal(plain)
    assert len(seen) == 4


def test_the_handle_is_pytorchs():
    layer, seen = nn.Identity(), []
    handles = [layer.register_forward_pre_hook(lambda module, args: seen.append("before")),
               layer.register_forward_hook(lambda module, args, output: seen.append("after"))]
    layer(1)
    for handle in handles:
        handle.remove()
        handle.remove()
    layer(1)
    assert seen == ["before", "after"]


def test_a_hook_may_remove_itself():
    layer, x, seen = nn.Identity(), Tensor([1.0]), []

    def once(module, args, output):
        seen.append("once")
        remove()

    remove = layer.register_forward_hook(once)
    layer.register_forward_hook(lambda module, args, output: seen.append("always"))
    layer(x)
    layer(x)
    assert seen == ["once", "always", "always"]


def test_gradients_pass_through_a_replaced_output():
    layer = nn.Linear(1, 1, bias=False)
    layer.register_forward_hook(lambda module, args, output: output * 3)
    layer(Tensor([[2.0]])).sum().backward()
    assert layer.weight.grad.item() == 6.0


def test_a_module_without_forward_says_so():
    class Empty(nn.Module):
        pass

    with pytest.raises(NotImplementedError, match="Empty defines no forward"):
        Empty()(1)


def test_the_scope_is_left_after_an_error():
    from tinygrad_tf.engine import state

    with pytest.raises(ValueError, match="linear"):
        nn.Linear(2, 2)(Tensor([[1.0, 2.0, 3.0]]))
    assert state.scope is None
