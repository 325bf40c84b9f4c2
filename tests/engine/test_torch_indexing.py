"""Every form of index, read and written, against PyTorch: value, shape and gradient."""

import contextlib

import numpy as np
import pytest

ROW = np.array([2, 0, 2])
GRID = np.array([[0, 1], [2, 2]])
MASK = np.array([[True, False, True, False], [False, False, True, True], [False, False, False, False]])

# m is the module, x a tensor (3, 4, 5)
READ = {
    "int": lambda m, x: [x[1], x[-1], x[1, 2], x[0, -1, 3], x[np.int64(2)], x[1][2][3]],
    "tensor as int": lambda m, x: [x[m.tensor(1)], x[m.tensor(0), m.tensor(2)], x[: m.tensor(2)], x[m.tensor(1) : m.tensor(3)]],
    "slice": lambda m, x: [x[:2], x[1:], x[:, -1:], x[..., 1:-1], x[2:2], x[0:9], x[:, :, 4:1]],
    "step": lambda m, x: [x[::2], x[:, 0::2], x[:, 1::2], x[..., ::3], x[0::5]],
    "none": lambda m, x: [x[None], x[:, None], x[..., None], x[None, ..., None], x[1, None, 2]],
    "ellipsis": lambda m, x: [x[...], x[..., 0], x[0, ...], x[1, ..., 2], x[..., 1, 2]],
    "list": lambda m, x: [x[[0, 2]], x[:, [-1], :], x[[1]], x[:, [0, 0, 3]], x[..., [1, 1]], x[[True, False, True]]],
    "index tensor": lambda m, x: [
        x[m.tensor(ROW)],
        x[m.tensor(ROW), :],
        x[:, m.tensor(ROW)],
        x[m.tensor(GRID)],
        x[..., m.tensor(GRID)],
    ],
    "index tensors": lambda m, x: [
        x[m.tensor(ROW), m.tensor(ROW)],
        x[m.tensor(ROW), :, m.tensor(ROW)],
        x[:, m.tensor(ROW), 1],
        x[..., m.tensor(ROW), m.tensor(ROW)],
        x[m.arange(3), m.tensor([3, 3, 0])],
        x[m.arange(3)[:, None], m.arange(2)],
    ],
    "empty index": lambda m, x: [x[m.tensor(np.zeros(0, dtype=np.int64))], x[:, m.tensor(np.zeros((2, 0), dtype=np.int64))]],
    "other int dtypes": lambda m, x: [x[m.tensor(ROW.astype(np.int32))], x[m.tensor(ROW).int()]],
    "mask": lambda m, x: [
        x[m.tensor(MASK)],
        x[m.tensor(MASK[:, 0])],
        x[:, m.tensor(MASK[0])],
        x[x > 0.3],
        x[~(x > 0)],
        x[m.tensor(MASK), 2:4],
    ],
    "mask of nothing": lambda m, x: x[x > 99],
    "mask and ints": lambda m, x: [x[m.tensor(MASK[:2, 0].repeat([2, 1])), 1], x[1, m.tensor(MASK[1])]],
    "twice": lambda m, x: x[1:][:, ::2][0, 1:],
    "sums to the same place": lambda m, x: x[m.tensor([1, 1, 1])] * m.tensor([1.0, 10.0, 100.0], dtype=x.dtype)[:, None, None],
}

# each changes y = x * 1 in place; v (4, 5) is a tensor with a gradient
WRITE = {
    "slice = number": lambda m, y, v: y.__setitem__((slice(None), 1), 7.0),
    "int = tensor": lambda m, y, v: y.__setitem__(0, v),
    "slice = tensor": lambda m, y, v: y.__setitem__(slice(1, 3), v),
    "step = tensor": lambda m, y, v: y.__setitem__((0, slice(0, None, 2)), v[:2]),
    "last axis step": lambda m, y, v: y.__setitem__((..., slice(0, None, 2)), v[:, :3]),
    "mask = number": lambda m, y, v: y.__setitem__(y > 0.5, float(-2)),
    "mask = -inf": lambda m, y, v: y.__setitem__(m.tensor(MASK), -1e9),
    "not mask = tensor": lambda m, y, v: y.__setitem__(~m.tensor(MASK), v[0]),
    "mask = as many values": lambda m, y, v: y.__setitem__(m.tensor(MASK), v),
    "index tensor": lambda m, y, v: y.__setitem__(m.tensor([2, 0]), v),
    "index tensors": lambda m, y, v: y.__setitem__((..., m.tensor([0, 3]), m.tensor([1, 1])), v[0, :2]),
    "list": lambda m, y, v: y.__setitem__((slice(None), [0, -1]), v[0]),
    "ellipsis": lambda m, y, v: y.__setitem__(..., v),
    "0-d tensor": lambda m, y, v: y.__setitem__((1, 2, 3), v[0, 0]),
    "none": lambda m, y, v: y.__setitem__((None, 0), v[:1]),
    "twice over": lambda m, y, v: [y.__setitem__(0, v), y.__setitem__((0, slice(1, 3)), v[0])],
    "nothing": lambda m, y, v: y.__setitem__(slice(3, 3), v),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", READ)
def test_read(name, dtype, same_as_torch, calculus):
    same_as_torch(READ[name], calculus.numbers(3, 4, 5).astype(dtype))


@pytest.mark.parametrize("with_gradient", [True, False], ids=["into an intermediate", "into a constant"])
@pytest.mark.parametrize("name", WRITE)
def test_write(name, with_gradient, same_as_torch, calculus):
    def change(m, x, v):
        y = x * 1 if with_gradient else m.zeros((3, 4, 5), dtype=x.dtype)
        WRITE[name](m, y, v)
        return [y, y * v]

    same_as_torch(change, calculus.numbers(3, 4, 5), calculus.numbers(4, 5, salt=1))


@pytest.mark.parametrize("with_gradient", [True, False], ids=["into an intermediate", "into a constant"])
@pytest.mark.parametrize("name", ["own part", "augmented"])
def test_write_of_what_was_read_through_a_view_is_right_or_refused(name, with_gradient, same_as_torch, calculus):
    """Policy: while gradients are recorded, a tensor that has views may be refused in place; the error says so."""

    def change(m, x, v):
        y = x * 1 if with_gradient else m.zeros((3, 4, 5), dtype=x.dtype)
        if name == "augmented":
            y[1] += v
        else:
            y[0] = y[1] * 2 + v
        return y * v

    arrays = calculus.numbers(3, 4, 5), calculus.numbers(4, 5, salt=1)
    with contextlib.suppress(RuntimeError):
        return same_as_torch(change, *arrays)
    with pytest.raises(RuntimeError, match=r"shares its memory with another \(a view\)"):
        same_as_torch(change, *arrays)


def test_negative_steps_which_torch_has_not(calculus):
    """IX-02: the gradient is the scatter into the very same index."""
    x = calculus.leaf(np.arange(12.0).reshape(3, 4))
    (x[::-1, 3:0:-2] * np.array([[1.0, 2], [3, 4], [5, 6]])).sum().backward()
    assert x.grad.tolist() == [[0, 6, 0, 5], [0, 4, 0, 3], [0, 2, 0, 1]]


def test_an_index_changed_afterwards_does_not_move_the_gradient(calculus):
    """The index belongs to the rule: changing the tensor that it came from is noticed, not silently followed."""
    from tinygrad_tf import tensor

    x, rows = calculus.leaf(np.zeros(3)), tensor([0, 0])
    y = x[rows]
    rows += 1
    with pytest.raises(RuntimeError, match="changed in place"):
        y.sum().backward()
