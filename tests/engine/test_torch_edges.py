"""Where a formula that is right nearly everywhere is not: zeros, tiny and huge numbers, float16, no axes, several leaves."""

import math

import numpy as np
import pytest

import tinygrad_tf
from tinygrad_tf import nn, tensor

LIBRARIES = pytest.mark.parametrize("dtype", ["float32", "float64"])


def run(library, functional, f, numbers, dtype):
    """f(library, functional, x), its slope and its second derivative, as arrays."""
    x = library.tensor(numbers, dtype=getattr(library, dtype), requires_grad=True)
    y = f(library, functional, x)
    (g,) = library.autograd.grad(y.sum(), x, create_graph=True)
    h = library.autograd.grad(g.sum(), x)[0] if g.requires_grad else x.detach() * 0
    return [part.detach().numpy() for part in (y, g, h)]


def same(oracle, f, numbers, dtype, times=8, near=0.0):
    import tinygrad_tf.torch as ours

    eps = np.finfo(dtype).eps
    for got, want in zip(run(ours, ours.nn.functional, f, numbers, dtype),
                         run(oracle, oracle.nn.functional, f, numbers, dtype), strict=True):  # fmt: skip
        np.testing.assert_allclose(got, want, rtol=times * eps, atol=times * eps * near)


def grad_of(library):
    return library.grad if library is tinygrad_tf else library.autograd.grad


AT_ZERO = [-3.0, -1e-3, 0.0, -0.0, 1e-3, 3.0, 30.0, -30.0]


@LIBRARIES
@pytest.mark.parametrize("name", ["softplus", "logsigmoid", "binary_cross_entropy_with_logits"])
def test_the_second_derivative_at_zero(oracle, dtype, name):
    def f(m, functional, x):
        if name == "binary_cross_entropy_with_logits":
            target, weight = (m.tensor([v] * 8, dtype=x.dtype) for v in (0.25, 3.0))
            return functional.binary_cross_entropy_with_logits(x, target, pos_weight=weight, reduction="none")
        return getattr(functional, name)(x)

    same(oracle, f, AT_ZERO, dtype, 8, near=0.1)


@LIBRARIES
@pytest.mark.parametrize("p", [0.5, 1, 1.5, 2, 3, 4.5])
@pytest.mark.parametrize("numbers", [[0.0, 0.0], [0.0, 2.0, -3.0], [1.0, -2.0]], ids=str)
def test_norms_of_zeros_have_finite_slopes(oracle, dtype, p, numbers):
    got, want = ([part.detach().numpy() for part in (y, x.grad)] for y, x in
                 (measured(m, numbers, dtype, p) for m in (tinygrad_tf, oracle)))  # fmt: skip
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=8 * np.finfo(dtype).eps)


def measured(library, numbers, dtype, p):
    x = library.tensor(numbers, dtype=getattr(library, dtype), requires_grad=True)
    y = x.norm(p)
    y.backward()
    return y, x


@LIBRARIES
def test_remainders_are_exact(oracle, dtype):
    draw = np.random.default_rng(0)
    a, b = (np.concatenate([scale * draw.standard_normal(40) for scale in (1, 1e3, 1e7)]).astype(dtype) for _ in range(2))
    b = np.roll(b, 50)
    got, want = ([part.detach().numpy() for part in (x % y, *grad_of(library)((x % y).sum(), [x, y]))]
                 for library, x, y in ((m, *(leaf(m, n) for n in (a, b))) for m in (tinygrad_tf, oracle)))  # fmt: skip
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    assert (tensor([5.0, -5.0]) % 3).tolist() == [2.0, 1.0]
    with pytest.raises(ZeroDivisionError):
        tensor([1, 2]) % 0


def leaf(library, array):
    if library is tinygrad_tf:
        return tensor(array, dtype=array.dtype, requires_grad=True)
    return library.from_numpy(array).requires_grad_()


@LIBRARIES
@pytest.mark.parametrize("name", ["erf", "expm1"])
def test_digits_near_zero_and_far_away(oracle, dtype, name):
    numbers = [s * 10.0**e for e in (-30, -8, -4, -2, -1, 0) for s in (-1, 1)] + [0.0, 0.49999, 0.5, 0.50001, 5.0, 80.0]
    same(oracle, lambda m, functional, x: getattr(x, name)(), numbers, dtype, near=1e-28)


def test_erf_to_the_last_digits():
    x = np.concatenate([np.linspace(-7, 7, 2801), np.geomspace(1e-300, 0.6, 500)])
    wanted = np.array([math.erf(v) for v in x])
    np.testing.assert_allclose(tensor(x, dtype=np.float64).erf().array, wanted, rtol=4e-15)
    x = x[abs(x) > 1e-30].astype(np.float32)
    np.testing.assert_allclose(tensor(x).erf().array, [math.erf(v) for v in x], rtol=6e-8)


def test_logarithms_of_powers_are_whole_numbers():
    for dtype in (np.float32, np.float64):
        assert tensor([10.0**i for i in range(20)], dtype=dtype).log10().tolist() == list(range(20))
        assert tensor([2.0**i for i in range(60)], dtype=dtype).log2().tolist() == list(range(60))


def test_float16_is_rounded_once(oracle):
    """Sums, norms and softmax compute in float32, as PyTorch's do: none overflows whose result float16 can hold."""
    draw = np.random.default_rng(0).standard_normal((64, 96)).astype(np.float16)
    gain, big = draw[0], (draw * 150).astype(np.float16)
    cases = {
        "sum": (draw, lambda m, f, x: x.sum(0)),
        "mean of large numbers": (abs(big) + np.float16(1000), lambda m, f, x: x.mean()),
        "var": (big, lambda m, f, x: x.var(1)),
        "std": (big, lambda m, f, x: x.std(0)),
        "norm": (big, lambda m, f, x: x.norm(2, 1)),
        "cumsum": (draw, lambda m, f, x: x.cumsum(1)),
        "softmax": (draw, lambda m, f, x: f.softmax(x * 8, -1)),
        "log_softmax": (draw, lambda m, f, x: f.log_softmax(x, 0)),
        "layer_norm": (big, lambda m, f, x: f.layer_norm(x, (96,), m.tensor(gain, dtype=m.float16))),
        "gelu": (draw, lambda m, f, x: f.gelu(x)),
        "matmul": (draw, lambda m, f, x: x @ x.T),
        "add": (draw, lambda m, f, x: x + x * 0.1 + m.tensor(gain, dtype=m.float16)),
        "exp and log": (draw, lambda m, f, x: (x.exp() + 1).log()),
    }
    import tinygrad_tf.torch as ours

    for name, (numbers, f) in cases.items():
        parts = []
        for m in (ours, oracle):
            x = m.tensor(numbers, dtype=m.float16, requires_grad=True)
            y = f(m, m.nn.functional, x)
            y.backward(m.tensor(np.resize(draw, tuple(y.shape)), dtype=m.float16))
            assert y.dtype == x.grad.dtype == m.float16
            parts.append([part.detach().float().numpy() for part in (y, x.grad)])
        for mine, theirs in zip(*parts, strict=True):
            assert np.isfinite(mine).all(), name
            np.testing.assert_allclose(mine, theirs, rtol=4e-3, atol=1e-2 * abs(theirs).max(), err_msg=name)


def test_a_model_in_float16_keeps_its_dtype_and_learns():
    model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)).half()
    x = tensor(np.random.default_rng(0).standard_normal((5, 6)), dtype=np.float16)
    loss = nn.functional.cross_entropy(model(x), tensor([0, 1, 2, 0, 1]))
    loss.backward()
    assert loss.dtype == np.float16
    assert {p.grad.dtype for p in model.parameters()} == {np.dtype(np.float16)}


NO_AXES = ["sum", "mean", "amax", "amin", "var", "std", "norm", "all", "any"]


@pytest.mark.parametrize("dim", [(), []], ids=["()", "[]"])
@pytest.mark.parametrize("name", NO_AXES)
@pytest.mark.parametrize("keepdim", [False, True])
def test_a_reduction_along_no_axis_named(oracle, name, dim, keepdim):
    mine, theirs = (getattr(m.tensor([[1.0, 2.0], [3.0, 4.5]]), name)(dim=dim, keepdim=keepdim) for m in (tinygrad_tf, oracle))
    assert tuple(mine.shape) == tuple(theirs.shape)
    np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-6)


def test_grad_goes_through_the_hooks_of_a_leaf(oracle):
    for m in (tinygrad_tf, oracle):
        x = m.tensor([1.0, 2.0], requires_grad=True)
        x.register_hook(lambda g: g * 10)
        for create in (False, True):
            (g,) = grad_of(m)((x * x).sum(), x, create_graph=create)
            assert g.tolist() == [20.0, 40.0]
        first, second = grad_of(m)((x * 3).sum(), [x, x])
        assert first.tolist() == second.tolist() == [30.0, 30.0]
        assert x.grad is None


def test_backward_for_some_leaves_alone(oracle):
    for m in (tinygrad_tf, oracle):
        a, b = (m.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
        (a * b).sum().backward(inputs=[a])
        assert (a.grad.tolist(), b.grad) == ([1.0, 2.0], None)
        (a * b).sum().backward(inputs=a)
        assert a.grad.tolist() == [2.0, 4.0]
    c = tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="inputs are leaves"):
        (c * 2).sum().backward(inputs=[c * 2])
    with pytest.raises(RuntimeError, match="inputs are leaves"):
        (c * 2).sum().backward(inputs=[])


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_meet_in_the_dtype_of_an_op(oracle, name):
    for make in (lambda m: (m.tensor([0.1, 0.2]), m.tensor(0.1, dtype=m.float64)),
                 lambda m: (m.tensor([0.1, 0.2]), m.tensor([0.1, 0.2], dtype=m.float64)),
                 lambda m: (m.tensor([0.1]), 0.1),
                 lambda m: (m.tensor([1, 2]), 1.5),
                 lambda m: (m.tensor([True, False]), m.tensor([1, 1]))):  # fmt: skip
        mine, theirs = (getattr(a, name)(b).tolist() for a, b in map(make, (tinygrad_tf, oracle)))
        assert mine == theirs


def test_empty_parts_and_single_numbers(oracle):
    for m in (tinygrad_tf, oracle):
        nothing, rows = m.zeros(0), m.ones(2, 3)
        assert tuple(m.cat([nothing, rows, nothing], 1).shape) == (2, 3)
        assert tuple(m.cat([nothing, nothing]).shape) == (0,)
        assert tuple(m.cat([nothing, m.ones(2)]).shape) == (2,)
        for find in ("argmax", "argmin"):
            with pytest.raises(IndexError, match=find):
                getattr(nothing, find)()
            with pytest.raises(IndexError, match=find):
                getattr(m.zeros(0, 3), find)(0)
            assert tuple(getattr(m.zeros(0, 3), find)(1).shape) == (0,)
        values, places = m.tensor(3.0).sort()
        assert (tuple(values.shape), tuple(places.shape), places.item()) == ((), (), 0)
        assert tuple(m.tensor(3.0).argsort().shape) == ()
