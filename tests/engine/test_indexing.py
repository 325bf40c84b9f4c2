"""What an index means: the rules of `indexing`, each in an example that can be read without PyTorch."""

import numpy as np
import pytest

from tinygrad_tf import arange, grad, ops, tensor, zeros


def numbers():
    return tensor(np.arange(120.0).reshape(2, 3, 4, 5), requires_grad=True)


def test_integers_choose_first_then_arrays_index_what_is_left():
    x = numbers()
    assert x[0, :, [3, 1]].shape == (3, 2, 5)
    assert np.array_equal(x[0, :, [3, 1]].array, x.array[0][:, [3, 1]])
    assert x[1, :, :, [4, 0]].shape == (3, 4, 2)
    assert x[:, 1, :, tensor([4, 0])].shape == (2, 4, 2)
    assert x[0, None, [2, 1]].shape == (1, 2, 4, 5)
    assert x[tensor(0), ..., [0, 0, 1]].shape == (3, 4, 3)
    assert x[[0, 1], :, [1, 0]].shape == (2, 3, 5)  # two arrays apart: their axis comes first, in PyTorch and in NumPy
    assert x[0, [1, 0], :, [2, 2]].shape == (2, 4)


def test_numpys_order_is_that_of_the_op():
    """`ops.getitem` and `ops.put` take an index in NumPy's meaning, on tensors too, where backward is recorded."""
    index = (0, slice(None), np.array([3, 1]))
    x = numbers()
    assert ops.getitem(x, index=index).shape == x.array[index].shape == (2, 3, 5)
    (g,) = grad((ops.getitem(x, index=index) ** 3).sum(), x, create_graph=True)
    (second,) = grad(g.sum(), x)
    wanted = np.zeros(x.shape)
    wanted[index] = 6 * x.array[index]
    assert np.array_equal(second.array, wanted)


@pytest.mark.parametrize("recorded", [True, False])
def test_a_write_names_the_same_places_as_a_read(recorded):
    x = numbers() * 1 if recorded else numbers().detach()
    value = tensor(np.arange(30.0).reshape(3, 2, 5) - 100)
    before = x.array.copy()
    x[0, :, [3, 1]] = value
    assert np.array_equal(x[0, :, [3, 1]].array, value.array)
    assert (x.array != before).sum() == value.numel()


def test_the_gradient_of_such_a_write():
    x, v = numbers(), tensor(np.ones((3, 1, 5)), requires_grad=True)
    y = x * 2
    y[1, :, [0, 2]] = v  # each number of v in two places
    (y * arange(120.0).reshape(2, 3, 4, 5)).sum().backward()
    places = np.arange(120.0).reshape(2, 3, 4, 5)
    assert np.array_equal(v.grad.array, places[1][:, [0, 2]].sum(1, keepdims=True))
    places[1][:, [0, 2]] = 0
    assert np.array_equal(x.grad.array, 2 * places)


@pytest.mark.parametrize("index", [tensor([1, 0], dtype=np.uint8), np.array([200, 0], np.uint8)], ids=["tensor", "array"])
def test_bytes_are_a_mask_and_never_places_in_silence(index):
    x = tensor([[1.0, 2.0], [3.0, 4.0]])
    with pytest.warns(UserWarning, match=r"an index of bytes \(uint8\) is a mask, .*\.long\(\)") as heard:
        assert x[index].tolist() == [[1, 2]]
    assert heard[0].filename == __file__
    with pytest.warns(UserWarning, match="is a mask"):
        x[index] = 0.0
    assert x.tolist() == [[0, 0], [3, 4]]


def test_a_list_with_lists_in_it_is_a_tuple_and_says_so():
    x = tensor(np.arange(6).reshape(2, 3))
    with pytest.warns(UserWarning, match=r"x\[\[a, b\]\] .* is read as x\[a, b\]") as heard:
        assert x[[[0, 1], [2, 0]]].tolist() == [2, 3]
    assert heard[0].filename == __file__
    assert x[[0, 1], [2, 0]].tolist() == [2, 3]
    assert x[tensor([[0, 1], [1, 0]])].shape == x[np.array([[0, 1], [1, 0]])].shape == x[[[0, 1], [1, 0]],].shape == (2, 2, 3)


PLACES = {
    "gather": lambda x, i: x.gather(0, tensor([[i]])),
    "scatter": lambda x, i: x.scatter(0, tensor([[i]]), 1.0),
    "scatter_add": lambda x, i: x.scatter_add(0, tensor([[i]]), x),
    "index_select": lambda x, i: x.index_select(0, tensor([i])),
    "index_add": lambda x, i: x.index_add(0, tensor([i]), x[:1]),
}


@pytest.mark.parametrize("i", [-1, 2])
@pytest.mark.parametrize("name", PLACES)
def test_a_negative_place_is_never_counted_from_the_end_by_these(name, i):
    for f in (PLACES[name], lambda x, i: PLACES[name](x.int(), i) if name != "index_add" else PLACES[name](x, i)):
        with pytest.raises(IndexError, match=rf"^{name}: index {i} is out of range for the 2 places along dim 0$"):
            f(zeros(2, 3), i)


def test_and_these_count_it_from_the_end():
    x = tensor([1.0, 2.0, 3.0])
    assert x.take(tensor([-1, 0])).tolist() == [3, 1]
    assert x.index_fill(0, tensor([-3]), 0).tolist() == [0, 2, 3]
    for f in (lambda: x.take(tensor([-4])), lambda: x.index_fill(0, tensor([3]), 0)):
        with pytest.raises(IndexError, match="out of bounds"):
            f()


def test_shapes_of_an_index_and_a_source():
    x = zeros(2, 3)
    for f, words in [
        (lambda: x.gather(0, tensor([[0] * 4])), r"an index of shape \(1, 4\) is larger than the tensor, \(2, 3\), off dim 0"),
        (lambda: x.scatter_add(1, tensor([[0, 1]]), zeros(1, 1)), r"needs a source as large or larger, not \(1, 1\)"),
        (lambda: x.index_add(0, tensor([0, 1]), zeros(1, 3)), r"a source of shape \(1, 3\) for places of shape \(2, 3\)"),
        (lambda: x.index_select(0, tensor([[0]])), r"an index has one axis, not the shape \(1, 1\)"),
        (lambda: x.scatter(0, tensor([[0]]), x.double()), "a source of float64 for a tensor of float32"),
        (lambda: x.gather(0, tensor([[True]])), r"int64 or int32, not bool: \.long\(\) makes one"),
        (lambda: x.scatter(0, tensor([[0]])), "scatter takes one number as value"),
    ]:
        with pytest.raises((ValueError, IndexError, TypeError), match=words):
            f()
    assert x.gather(0, tensor([[1], [0], [1], [1]])).shape == (4, 1)  # along dim it may be larger


def test_an_error_that_shows_an_index_stays_one_line():
    with pytest.raises(IndexError) as caught:
        zeros(2, 3)[0, np.full((40, 3), 7)]
    assert str(caught.value) == "getitem: (2, 3) with index=(0, int64[40, 3]): index 7 is out of bounds for axis 1 with size 3"


def test_a_diagonal_is_a_view_whose_changes_belong_to_the_whole():
    x = tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    x.diagonal(1).fill_(0)
    assert x.tolist() == [[1, 0, 3], [4, 5, 0]]
    w = tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = w * 3
    y.diagonal().mul_(10)
    (y * y).sum().backward()
    assert w.grad.tolist() == [[2 * 900 * 1, 2 * 9 * 2], [2 * 9 * 3, 2 * 900 * 4]]
    d = y.diagonal()
    assert (d.base is y, d.tolist()) == (True, [30, 120])
    assert zeros(4, 2, 3).diagonal().shape == (3, 2)  # of the first two axes unless others are named, and at the end
    with pytest.raises(ValueError, match="read-only"):
        zeros(1, 2).expand(2, 2).diagonal().fill_(1)
