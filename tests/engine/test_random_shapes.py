"""Shapes and indices that hypothesis thinks of, 0-d, empty and size-1 axes among them.

NumPy for the values, finite differences for the gradients.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinygrad_tf import cat, stack, tensor
from tinygrad_tf.engine import registry, unbroadcast

SHAPES = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
FULL = hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=3)


def check(calculus, ours, numpys, *arrays):
    """ours(*tensors) and numpys(*arrays) agree, and the gradient of ours is the slope of numpys."""
    leaves = [calculus.leaf(a) for a in arrays]
    y, wanted = ours(*leaves), np.asarray(numpys(*arrays))
    assert y.shape == wanted.shape
    assert y.dtype == np.float64
    np.testing.assert_allclose(y.array, wanted, rtol=1e-13, atol=1e-14)
    seed = calculus.numbers(*wanted.shape, salt=3)
    y.backward(seed)
    for x, g in zip(leaves, calculus.slopes(lambda *a: (np.asarray(numpys(*a)) * seed).sum(), *arrays)):
        assert x.grad.shape == x.shape
        np.testing.assert_allclose(x.grad.array, g, rtol=1e-7, atol=1e-8)


@given(
    hnp.mutually_broadcastable_shapes(num_shapes=2, min_dims=0, max_dims=3, min_side=0, max_side=3),
    st.sampled_from(["add", "sub", "mul", "div", "maximum"]),
)
def test_arithmetic_broadcasts(calculus, shapes, name):
    numpys = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum}[name]
    check(
        calculus,
        registry[name],
        numpys,
        *(calculus.numbers(*s, low=0.4, high=2.0, salt=i) for i, s in enumerate(shapes.input_shapes)),
    )


@given(hnp.mutually_broadcastable_shapes(signature="(m,k),(k,n)->(m,n)", max_dims=2, min_side=0, max_side=3))
def test_matmul_broadcasts(calculus, shapes):
    check(calculus, registry["matmul"], np.matmul, *(calculus.numbers(*s, salt=i) for i, s in enumerate(shapes.input_shapes)))


@given(hnp.mutually_broadcastable_shapes(num_shapes=1, base_shape=(2, 1, 3), min_dims=0, max_dims=3, min_side=1, max_side=3))
def test_unbroadcast_undoes_broadcasting(calculus, shapes):
    (shape,) = shapes.input_shapes
    x = calculus.numbers(*shape)
    g = calculus.numbers(*shapes.result_shape, salt=1)
    (slope,) = calculus.slopes(lambda x: (np.broadcast_to(x, g.shape) * g).sum(), x)
    np.testing.assert_allclose(unbroadcast(g, shape), slope, atol=1e-9)


@given(SHAPES, st.data())
def test_sums_over_any_axes(calculus, shape, data):
    dim = data.draw(hnp.valid_tuple_axes(len(shape)) if shape else st.just(()))
    keep = data.draw(st.booleans())
    wanted = lambda x: x.sum(axis=dim or None, keepdims=keep)
    check(calculus, lambda x: x.sum(dim, keepdim=keep), wanted, calculus.numbers(*shape))


@given(FULL, st.sampled_from(["mean", "amax", "amin", "var"]), st.data())
def test_other_reductions(calculus, shape, name, data):
    dim = data.draw(st.none() | (hnp.valid_tuple_axes(len(shape), min_size=1) if shape else st.none()))
    keep = data.draw(st.booleans())
    numpys = {"mean": np.mean, "amax": np.max, "amin": np.min, "var": np.var}[name]
    extra = {"correction": 0} if name == "var" else {}
    check(
        calculus,
        lambda x: getattr(x, name)(dim, keepdim=keep, **extra),
        lambda x: numpys(x, axis=dim, keepdims=keep),
        calculus.numbers(*shape),
    )


@given(SHAPES.filter(len), st.sampled_from(["cumsum", "prod"]), st.data())
def test_along_one_axis(calculus, shape, name, data):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    check(calculus, lambda x: getattr(x, name)(dim), lambda x: getattr(np, name)(x, axis=dim), calculus.numbers(*shape))


@given(SHAPES, st.data())
def test_reshape_and_permute(calculus, shape, data):
    order = data.draw(st.permutations(range(len(shape))))
    negative = [d - len(shape) if data.draw(st.booleans()) else d for d in order]
    check(calculus, lambda x: x.permute(*negative), lambda x: x.transpose(order), calculus.numbers(*shape))
    split = data.draw(st.permutations([*shape, 1]))
    check(
        calculus,
        lambda x: x.permute(negative).reshape(split),
        lambda x: x.transpose(order).reshape(split),
        calculus.numbers(*shape),
    )


@given(SHAPES.filter(len), st.data())
def test_getitem_and_setitem_with_basic_indices(calculus, shape, data):
    index = data.draw(hnp.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))
    check(calculus, lambda x: x[index], lambda x: x[index], calculus.numbers(*shape))
    check_put(calculus, shape, index)


@given(FULL.filter(len), st.data())
def test_getitem_with_index_arrays_that_name_places_twice(calculus, shape, data):
    index = data.draw(
        hnp.integer_array_indices(shape, result_shape=hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=4))
    )
    check(calculus, lambda x: x[index], lambda x: x[index], calculus.numbers(*shape))


@given(SHAPES.filter(len), st.data())
def test_getitem_and_setitem_with_masks(calculus, shape, data):
    mask = data.draw(hnp.arrays(bool, shape[: data.draw(st.integers(1, len(shape)))]))
    check(calculus, lambda x: x[tensor(mask)], lambda x: x[mask], calculus.numbers(*shape))
    check_put(calculus, shape, mask)


def check_put(calculus, shape, index):
    """y[index] = value on an intermediate, the value as large as the place or broadcast to it."""
    place = np.zeros(shape)[index]

    def ours(x, value):
        y = x * 2
        y[index] = value
        return y

    def numpys(x, value):
        y = x * 2
        y[index] = value
        return y

    check(calculus, ours, numpys, calculus.numbers(*shape), calculus.numbers(*np.shape(place), salt=1))
    check(calculus, ours, numpys, calculus.numbers(*shape), calculus.numbers(salt=1))


@given(SHAPES.filter(len), st.integers(1, 3), st.data())
def test_cat_and_stack(calculus, shape, parts, data):
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=parts, max_size=parts))
    shapes = [shape[: dim % len(shape)] + (n,) + shape[dim % len(shape) + 1 :] for n in sizes]
    arrays = [calculus.numbers(*s, salt=i) for i, s in enumerate(shapes)]
    check(calculus, lambda *x: cat(x, dim), lambda *x: np.concatenate(x, dim), *arrays)
    arrays = [calculus.numbers(*shape, salt=i) for i in range(parts)]
    check(calculus, lambda *x: stack(x, dim), lambda *x: np.stack(x, dim), *arrays)


@given(FULL.filter(len), st.sampled_from(["softmax", "log_softmax"]), st.data())
def test_SM_08_softmax_along_any_dim_counted_from_either_end(calculus, shape, name, data):
    dim = data.draw(st.integers(0, len(shape) - 1))
    results = []
    for d in (dim, dim - len(shape)):
        x = calculus.leaf(calculus.numbers(*shape))
        y = getattr(x, name)(d)
        y.backward(calculus.numbers(*shape, salt=1))
        results.append((y.array, x.grad.array))
    assert all(np.array_equal(a, b) for a, b in zip(*results))


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2, -3])
def test_SM_08_the_gradient_of_a_plain_sum_of_softmax_is_zero(dim, calculus):
    x = calculus.leaf(calculus.numbers(2, 2, 4))
    x.softmax(dim).sum().backward()
    assert np.abs(x.grad.array).max() < 1e-15
