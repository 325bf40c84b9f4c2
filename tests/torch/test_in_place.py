"""Changes in place, set by index and shared memory, through the door, against PyTorch."""

import operator

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
    "Tensor.floor_": lambda m, y, b, mask, index: y.floor_(),
    "Tensor.ceil_": lambda m, y, b, mask, index: y.add_(b).ceil_(),
    "Tensor.round_": lambda m, y, b, mask, index: y.round_(decimals=1),
    "Tensor.trunc_": lambda m, y, b, mask, index: y.trunc_().add_(b),
    "Tensor.sign_": lambda m, y, b, mask, index: y.sign_(),
    "Tensor.erf_": lambda m, y, b, mask, index: y.erf_(),
    "Tensor.expm1_": lambda m, y, b, mask, index: y.expm1_(),
    "Tensor.tan_": lambda m, y, b, mask, index: y.clamp_(-1, 1).tan_(),
    "Tensor.log2_": lambda m, y, b, mask, index: y.square_().add_(1).log2_(),
    "Tensor.log10_": lambda m, y, b, mask, index: y.square_().add_(1).log10_(),
    "Tensor.cumsum_": lambda m, y, b, mask, index: y.cumsum_(-1).cumsum_(dim=0),
    "Tensor.cumprod_": lambda m, y, b, mask, index: y.cumprod_(-1),
    "Tensor.remainder_": lambda m, y, b, mask, index: y.remainder_(0.7),
    "Tensor.addmm_": lambda m, y, b, mask, index: y.addmm_(b, b.T @ b, beta=0.5, alpha=2) if y.dim() == 2 else y,
    "Tensor.baddbmm_": lambda m, y, b, mask, index: (
        y.baddbmm_(y.detach() * 2, (b.T @ b).expand(len(y), 4, 4)) if y.dim() == 3 else y
    ),
    "Tensor.sub_ alpha": lambda m, y, b, mask, index: y.sub_(b, alpha=0.5).subtract_(1),
    "Tensor.div_ rounding_mode": lambda m, y, b, mask, index: y.div_(0.3, rounding_mode="trunc"),
    "Tensor.multiply_": lambda m, y, b, mask, index: y.multiply_(2).divide_(3).negative_().true_divide_(b.detach() + 9),
    "Tensor.unsqueeze_": lambda m, y, b, mask, index: y.unsqueeze_(1).mul_(2),
    "Tensor.squeeze_": lambda m, y, b, mask, index: y.squeeze_().add_(b).unsqueeze_(0).squeeze_(0).mul_(2),
    "Tensor.transpose_": lambda m, y, b, mask, index: y.transpose_(-1, -2).mul_(b.T).swapaxes_(0, 1),
    "Tensor.t_": lambda m, y, b, mask, index: y.t_().add_(b.T) if y.dim() == 2 else y,
    "a row of t_": lambda m, y, b, mask, index: (y.t_(), y[0].mul_(3), y)[-1] if y.dim() == 2 else y,
    "a row unsqueeze_": lambda m, y, b, mask, index: (y.mul_(2), y[..., 1, :].unsqueeze_(-1).mul_(3), y)[-1],
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


def test_detach_in_place(agree):
    """By Tensor.detach_ a state that is carried on is cut off from what came before."""

    def f(m, x):
        state, total = m.zeros_like(x), 0
        for _ in range(3):
            state.detach_()
            state = (state + x).tanh()
            total = total + state.sum()
        return [total, state, x.detach_().requires_grad]

    for shape in [(3,), (2, 3), (1, 1), (0,), (4, 1)]:
        agree(f, np.random.default_rng(0).standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize("name", ["floor_", "cumsum_", "unsqueeze_", "t_"])
def test_a_leaf_that_wants_a_gradient_stays_as_it_is(name):
    x = ours.ones(2, 3, requires_grad=True)
    change = lambda: getattr(x, name)(*[0] * (name in ("cumsum_", "unsqueeze_")))
    with pytest.raises(RuntimeError, match="a leaf that requires a gradient cannot be changed in place"):
        change()
    assert x.shape == (2, 3)
    with ours.no_grad():
        change()
    assert x.requires_grad
    assert x.is_leaf
    (x * x).sum().backward()
    assert x.grad.shape == x.shape


def test_what_is_inside_the_graph_keeps_its_shape_outside_it():
    y = ours.ones(2, requires_grad=True) * 2
    with ours.no_grad(), pytest.raises(RuntimeError, match="unsqueeze_ outside the graph .*: detach.. first"):
        y.unsqueeze_(0)


def test_detach_in_place_keeps_watch_over_its_memory():
    x = ours.ones(2, requires_grad=True)
    h = x * 2
    z = (h * h).sum()
    h.detach_().add_(1)
    with pytest.raises(RuntimeError, match="changed in place afterwards"):
        z.backward()


def test_operators_that_assign_keep_the_memory(oracle):
    for m in (ours, oracle):
        mask = m.zeros(2, 2, dtype=m.bool)
        for row in mask:
            row |= m.tensor([True, False])
        assert mask.tolist() == [[True, False], [True, False]]
        a, b, c = m.tensor([5, 7]), m.tensor([6, 3]), m.tensor([5.0, 7.0])
        others = [a, b, c]
        a //= 2
        b &= 2
        b ^= 1
        c %= 4
        assert [x.tolist() for x in others] == [[2, 3], [3, 3], [1.0, 3.0]]
        assert all(x is y for x, y in zip(others, (a, b, c)))


INSIDE = {
    "*=": lambda q, w: operator.imul(q, w), "mul_": lambda q, w: q.mul_(w), "/=": lambda q, w: operator.itruediv(q, w),
    "square_": lambda q, w: q.square_(), "abs_": lambda q, w: q.abs_(), "sin_": lambda q, w: q.sin_(),
    "exp_": lambda q, w: q.exp_(), "relu_": lambda q, w: q.relu_(), "a view": lambda q, w: q[1:].mul_(w[:1]),
    "add_ and pow_": lambda q, w: q.add_(w).pow_(2), "reciprocal_": lambda q, w: q.reciprocal_(),
}  # fmt: skip


@pytest.mark.parametrize("name", INSIDE)
def test_inside_a_checkpoint_too(oracle, name):
    start, found = np.random.default_rng(0).uniform(0.3, 1.0, (4, 3)).astype(np.float32), []
    for m, settings in ((ours, {}), (oracle, {"use_reentrant": False})):
        x, w = m.tensor(start, requires_grad=True), m.tensor([0.5, 1.5, -2.0], requires_grad=True)

        def f(z, w=w):
            q = z * 2
            INSIDE[name](q, w)
            return q * q

        m.utils.checkpoint.checkpoint(f, x, **settings).sum().backward()
        found.append([x.grad.numpy(), *([] if w.grad is None else [w.grad.numpy()])])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
