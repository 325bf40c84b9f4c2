"""What holds modules holds nothing else, and is sliced and changed as a list is; a parameter is not lost in silence."""

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn, optim
from tinygrad_tf.nn import functional as F


def net():
    return nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 2))


X = Tensor(np.array([[1.0, -2.0], [0.5, 3.0]], np.float32))


@pytest.mark.parametrize("make", [
    lambda: nn.Sequential(nn.Linear(2, 2), F.relu), lambda: nn.Sequential(nn.Linear(2, 2), 3), lambda: nn.ModuleList([F.relu]),
    lambda: nn.Sequential({"a": F.relu}), lambda: nn.ModuleDict({"a": 3}), lambda: nn.Module().add_module("a", 3),
    lambda: net().append(F.relu), lambda: net().__setitem__(0, F.relu),
])  # fmt: skip
def test_what_is_no_module_is_refused(make):
    with pytest.raises(TypeError, match=r"holds modules, not .*a class of your own can call a function in its forward"):
        make()


def test_a_class_in_place_of_a_module():
    with pytest.raises(TypeError, match=r"the class ReLU: ReLU\(\) makes one"):
        nn.Sequential(nn.Linear(2, 2), nn.ReLU)


def test_a_place_may_be_empty():
    module = nn.Module()
    module.add_module("later", None)
    assert module.later is None and list(module.children()) == []


def test_a_slice_is_a_container_of_the_same_modules():
    whole = net()
    first = whole[:2]
    assert type(first) is nn.Sequential and list(first) == list(whole)[:2]
    np.testing.assert_array_equal(first(X).array, whole[1](whole[0](X)).array)
    assert [name for name, _ in whole[1:].named_children()] == ["1", "2"]  # as in PyTorch, names stay
    blocks = nn.ModuleList(net())
    assert type(blocks[1:]) is nn.ModuleList and [name for name, _ in blocks[1:].named_children()] == ["0", "1"]
    assert [name for name, _ in whole.named_parameters()] == ["0.weight", "0.bias", "2.weight", "2.bias"]


def test_a_list_of_modules_changes_as_a_list_does():
    whole, new = net(), nn.Linear(2, 3)
    whole[0] = new
    assert whole[0] is new and len(whole) == 3
    del whole[1]
    assert [name for name, _ in whole.named_children()] == ["0", "1"] and whole[0] is new
    whole.insert(1, nn.Tanh())
    assert [type(module) for module in whole] == [nn.Linear, nn.Tanh, nn.Linear]
    assert whole(X).shape == (2, 2)
    both = nn.ModuleList([nn.Tanh()]) + nn.ModuleList([new])
    assert type(both) is nn.ModuleList and both[1] is new
    named = nn.ModuleDict({"a": nn.Tanh(), "b": new})
    del named["a"]
    assert list(named) == ["b"]
    with pytest.raises(IndexError):
        whole[3] = new
    with pytest.raises(KeyError, match="training"):
        del named["training"]


def test_what_is_refused_changes_nothing():
    whole, module = net(), nn.Module()
    before = list(whole)
    with pytest.raises(TypeError, match="holds modules"):
        whole.insert(1, F.relu)
    assert list(whole) == before
    with pytest.raises(TypeError, match="the buffer 'a'"):
        module.register_buffer("a", 3)
    module.a = Tensor(np.ones(2, np.float32))
    assert list(module.state_dict()) == []


@pytest.mark.parametrize("value", [Tensor(np.ones((2, 2), np.float32)), np.ones((2, 2)), 3.0, [1.0]])
def test_a_parameter_is_not_replaced_by_what_is_not_trained(value):
    layer = nn.Linear(2, 2)
    with pytest.raises(TypeError, match=r"Linear.weight is a parameter, and a \w+ in its place would not be trained"):
        layer.weight = value
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    layer.bias = None
    layer.weight = nn.Parameter(np.ones((2, 2), np.float32))
    assert [name for name, _ in layer.named_parameters()] == ["weight"]


def test_what_is_registered_is_what_it_says():
    with pytest.raises(TypeError, match="the parameter 'a' is an nn.Parameter or None, not a Tensor"):
        nn.Module().register_parameter("a", Tensor(np.ones(2, np.float32)))
    with pytest.raises(TypeError, match="the buffer 'a' is a tensor or None, not a int"):
        nn.Module().register_buffer("a", 3)


def test_a_gradient_that_is_no_tensor():
    leaf = Tensor(np.ones((2, 2), np.float32), requires_grad=True)  # no parameter, which would refuse it at once
    leaf.grad = np.ones((2, 2), np.float32)
    with pytest.raises(TypeError, match=r"gradient of a parameter of shape \(2, 2\) is a ndarray"):
        optim.SGD([leaf], lr=0.1).step()


@pytest.mark.parametrize("call", [
    lambda x: F.max_pool2d(x, 0), lambda x: F.max_pool2d(x, 2, stride=0), lambda x: F.max_pool2d(x, 2, padding=-1),
    lambda x: F.max_pool2d(x, 2, dilation=0), lambda x: F.avg_pool2d(x, -2), lambda x: F.max_pool2d(x, 2.5),
    lambda x: F.max_pool2d(x, "a"),
    lambda x: nn.Conv1d(1, 1, -1), lambda x: F.adaptive_avg_pool2d(x, 0), lambda x: F.adaptive_avg_pool2d(x, (2, -1)),
    lambda x: F.conv2d(x, nn.Conv2d(1, 1, 2).weight, stride=0), lambda x: nn.Conv2d(1, 1, 0), lambda x: nn.Conv2d(1, 1, 2.5),
])  # fmt: skip
def test_sizes_of_windows_are_whole_numbers(call):
    with pytest.raises(ValueError, match=r"(stride|padding|dilation|kernel_size|output_size) is whole numbers from [01]"):
        call(Tensor(np.ones((1, 1, 6, 6), np.float32)))


@pytest.mark.parametrize("call", [lambda x: F.adaptive_avg_pool2d(x, (2,)), lambda x: nn.Conv2d(1, 1, (2,))])
def test_one_number_or_one_for_each_axis(call):
    with pytest.raises(ValueError, match=r"one number, or one for each of 2 axes"):
        call(Tensor(np.ones((1, 1, 6, 6), np.float32)))


@pytest.mark.parametrize("call, words", [
    (lambda x: x.exponential_(-1), "lambd is above 0"), (lambda x: x.bernoulli_(2), "from 0 to 1"),
    (lambda x: F.cross_entropy(x, Tensor(np.array([1]))), r"one row of logits, \(3,\)"),
])  # fmt: skip
def test_what_no_distribution_is(call, words):
    with pytest.raises(ValueError, match=words):
        call(Tensor(np.ones(3, np.float32)))
