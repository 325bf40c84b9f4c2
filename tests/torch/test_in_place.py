"""Changes in place, set by index and shared memory, through the door, against PyTorch."""

import numpy as np
import pytest

import tinygrad_tf.torch as ours

# y is a tensor of shape (..., 3, 4) in the middle of a graph, b one of shape (3, 4), mask and index to change it at
CHANGES = {
    "Tensor.masked_fill_": lambda m, y, b, mask, index: y.masked_fill_(mask, -2.0),
    "Tensor.copy_": lambda m, y, b, mask, index: y.copy_(b),
    "Tensor.fill_": lambda m, y, b, mask, index: y.fill_(0.5),
    "Tensor.zero_": lambda m, y, b, mask, index: y.zero_(),
    "Tensor.scatter_": lambda m, y, b, mask, index: y.scatter_(-1, index.expand(*y.shape[:-1], 1), 1.5),
    "Tensor.scatter_ src": lambda m, y, b, mask, index: y.scatter_(
        -1, index.expand(*y.shape[:-1], 1), b[:, :1].expand(*y.shape[:-1], 1)
    ),
    "Tensor.scatter_add_": lambda m, y, b, mask, index: y.scatter_add_(
        -1, index.expand(*y.shape[:-1], 1), b[:, :1].expand(*y.shape[:-1], 1)
    ),
    "Tensor.index_add_": lambda m, y, b, mask, index: y.index_add_(-2, m.tensor([0, 0, 2]), b.expand(y.shape)),
    "Tensor.index_add_ alpha": lambda m, y, b, mask, index: y.index_add_(-2, m.tensor([0, 0, 2]), b.expand(y.shape), alpha=-2),
    "Tensor.index_fill_": lambda m, y, b, mask, index: y.index_fill_(-1, m.tensor([0, 3]), 7.0),
    "Tensor.add_": lambda m, y, b, mask, index: y.add_(b).add_(1).add_(b, alpha=0.5),
    "Tensor.sub_": lambda m, y, b, mask, index: y.sub_(b).sub_(1),
    "Tensor.mul_": lambda m, y, b, mask, index: y.mul_(2).mul_(b.detach()),
    "Tensor.div_": lambda m, y, b, mask, index: y.div_(4).div_(b.detach() + 9),
    "Tensor.clamp_": lambda m, y, b, mask, index: y.clamp_(-0.5, 1.0),
    "Tensor.relu_": lambda m, y, b, mask, index: y.relu_(),
    "Tensor.exp_": lambda m, y, b, mask, index: y.exp_(),
    "Tensor.tanh_": lambda m, y, b, mask, index: y.tanh_(),
    "Tensor.sigmoid_": lambda m, y, b, mask, index: y.sigmoid_(),
    "Tensor.neg_": lambda m, y, b, mask, index: y.neg_(),
    "+= *= -= /=": lambda m, y, b, mask, index: changed(y, b),
    "op: t[...] = v": lambda m, y, b, mask, index: put(y, ..., b),
    "X[~mask] = number": lambda m, y, b, mask, index: put(y, ~mask.expand(y.shape), 2.5),
    "X[~mask] = tensor": lambda m, y, b, mask, index: put(y, ~mask, b[~mask]) if y.dim() == 2 else y,
    "t[:, 0::2] = v": lambda m, y, b, mask, index: put(y, (..., slice(0, None, 2)), b[:, 0::2]),
    "t[:, pad] = 0": lambda m, y, b, mask, index: put(y, (..., 1), 0),
    "t[..., i, j] =": lambda m, y, b, mask, index: put(y, (..., m.tensor([0, 1]), m.tensor([2, 3])), b[0, :2]),
    "t[[0, 2]] =": lambda m, y, b, mask, index: put(y, (..., [0, 2], slice(None)), b[:2]),
    "t[1:] = row": lambda m, y, b, mask, index: put(y, (..., slice(1, None), slice(None)), b[0]),
    "t[y < 0] = -inf": lambda m, y, b, mask, index: put(y, y < 0, -3.0),
}


def put(y, index, value):
    y[index] = value
    return y


def changed(y, b):
    y += b
    y *= 2
    y -= 1
    y /= 4
    return y


@pytest.mark.parametrize("name", CHANGES)
def test_in_place_with_gradients(agree, name):
    for i, shape in enumerate(
        [(3, 4), (1, 3, 4), (2, 3, 4), (2, 1, 3, 4), (0, 3, 4), (3, 3, 4), (4, 3, 4), (5, 3, 4), (6, 3, 4), (1, 1, 3, 4)]
    ):
        rng = np.random.default_rng(i)
        arrays = rng.standard_normal(shape), rng.standard_normal((3, 4)), rng.random((3, 4)) > 0.5, rng.integers(0, 4, (3, 1))

        def f(m, x, b, mask, index):
            y = x * 1.5
            out = CHANGES[name](m, y, b, mask, index)
            assert out is y
            return [y, x]

        agree(f, *arrays)


SHARED = {
    "p.data.add_": lambda m, p: p.data.add_(1),
    "p.data +=": lambda m, p: setattr(p, "data", p.data.__iadd__(2)),
    "augmented": lambda m, p: exec("p.data += -0.1 * p.detach()", {"p": p}),
    "p.data = new": lambda m, p: setattr(p, "data", p.data * 2),
    "data.normal_": lambda m, p: p.data.mul_(0).add_(3),
    "under no_grad": lambda m, p: under(m, lambda: p.sub_(p * 0.5)),
    "detach": lambda m, p: p.detach().fill_(4),
    "view": lambda m, p: p.detach().view(-1).add_(1),
    "transposed": lambda m, p: p.detach().transpose(0, -1).mul_(2),
    "row": lambda m, p: p.data[0].zero_(),
    "index": lambda m, p: p.data.__setitem__((..., slice(0, None, 2)), 9.0),
    "numpy": lambda m, p: np.copyto(p.detach().numpy(), 5.0),
}


def under(m, f):
    with m.no_grad():
        return f()


@pytest.mark.parametrize("name", SHARED)
def test_memory_that_is_shared(agree, name):
    for shape in [(2, 3), (1,), (3, 1), (4,), (2, 2, 2), (1, 5), (3, 3), (2, 4), (6,), (1, 1, 2)]:

        def f(m, shape):
            layer = m.nn.Module()
            layer.p = m.nn.Parameter(m.ones(shape) * m.arange(1.0, shape[-1] + 1))
            before = layer.state_dict()["p"]
            SHARED[name](m, layer.p)
            loss = (layer.p * layer.p).sum()
            loss.backward()
            return [layer.p.detach() + 0, layer.p.grad, before + 0 if name != "p.data = new" else 0]

        agree(f, shape)


def test_a_state_dict_shares_memory(agree):
    def f(m):
        layer = m.nn.Linear(2, 3)
        layer.state_dict()["weight"].copy_(m.ones(3, 2))
        layer.state_dict()["bias"].zero_()
        return layer(m.ones(1, 2)).detach()

    agree(f)


@pytest.mark.parametrize(
    "change",
    [
        lambda y: y.mul_(2),
        lambda y: y.add_(1),
        lambda y: y.zero_(),
        lambda y: y.__setitem__(0, 1.0),
        lambda y: y.masked_fill_(y > 1, 0),
        lambda y: y.exp_(),
        lambda y: y.copy_(y * 2),
        lambda y: y.fill_(1),
        lambda y: y.clamp_(0, 1),
        lambda y: y.index_fill_(0, y.long() * 0, 1),
    ],
)
def test_a_value_that_backward_needs_must_not_change(oracle, change):
    for module in (oracle, ours):
        x = module.tensor([1.0, 2.0], requires_grad=True)
        y = x * 3
        z = (y * y).sum()
        change(y)
        with pytest.raises(
            RuntimeError, match="modified by an inplace" if module is oracle else "changed in place afterwards, at"
        ):
            z.backward()
