"""Indices, gather, scatter and diagonals through the door, against PyTorch: values, gradients, memory, and where it raises."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

# ------------------------------------------------------------------------------------------------ x[index], read and written
# An index is drawn as plain data, since a tensor belongs to one of the two libraries: ("tensor", array) stands for one.


def made(m, part):
    return m.tensor(part[1]) if isinstance(part, tuple) and part[:1] == ("tensor",) else part


def index_of(m, parts):
    parts = tuple(made(m, part) for part in parts)
    return parts[0] if len(parts) == 1 else parts


@st.composite
def parts_for(draw, shape):
    """An index for this shape: numbers, slices, lists, tensors, masks, None and ..., and now and then one that does not fit."""
    parts, axis, dots, wild = [], 0, False, False
    kinds = ["number", "slice", "list", "tensor", "0-d", "mask", "masks", "None", "True", "...", "int32", "numpy", "tuple",
             "end"]  # fmt: skip
    common = draw(st.sampled_from([(), (1,), (2,), (3,), (2, 1), (1, 3), (0,)]))
    while axis < len(shape):
        n = shape[axis]
        kind = draw(st.sampled_from(kinds))
        wide = 0 not in shape and draw(st.integers(0, 19)) == 0
        wild = wild or wide
        place = st.integers(-n - wide, n - 1 + wide) if n or wide else st.nothing()
        places = st.lists(place, min_size=int(np.prod(common)), max_size=int(np.prod(common)))
        if kind == "end":
            break
        if kind in ("number", "0-d", "list", "tensor", "int32", "numpy", "tuple") and (not n and not wide):
            kind = "slice"
        if kind == "None":
            parts.append(None)
        elif kind == "True" and draw(st.integers(0, 3)) == 0:
            parts.append(draw(st.sampled_from([True, ("tensor", np.array(True))])))
        elif kind == "..." and not dots:
            skipped = draw(st.integers(0, len(shape) - axis))
            if axis + skipped < len(shape):
                continue  # the axes that are left over must be indexed from the end: done by the pairs below
            parts.append(...)
            dots, axis = True, axis + skipped
        elif kind == "number":
            parts.append(draw(place))
            axis += 1
        elif kind == "numpy":
            parts.append(np.int64(draw(place)))
            axis += 1
        elif kind == "0-d":
            parts.append(("tensor", np.array(draw(place))))
            axis += 1
        elif kind in ("list", "tuple") and common:
            flat = np.array(draw(places), np.int64).reshape(common)
            parts.append(flat.tolist() if kind == "list" else tuple(flat.tolist()))
            axis += 1
        elif kind in ("tensor", "int32") and common:
            dtype = np.int32 if kind == "int32" else np.int64
            parts.append(("tensor", np.array(draw(places), dtype).reshape(common)))
            axis += 1
        elif kind in ("mask", "masks"):
            size = min(2 if kind == "masks" else 1, len(shape) - axis)
            true = draw(st.lists(st.booleans(), min_size=int(np.prod(shape[axis : axis + size])),
                                 max_size=int(np.prod(shape[axis : axis + size]))))  # fmt: skip
            mask = np.array(true, bool).reshape(shape[axis : axis + size])
            parts.append(mask.tolist() if size == 1 and n and draw(st.booleans()) else ("tensor", mask))
            axis += size
        else:
            bounds = st.none() | st.integers(-n - 2, n + 2)
            parts.append(slice(draw(bounds), draw(bounds), draw(st.sampled_from([None, 1, 2, 3]))))
            axis += 1
    if draw(st.booleans()) and not dots:
        parts.append(...)
    if len(parts) == 1 and isinstance(parts[0], (list, tuple)) and parts[0][:1] != ("tensor",):
        parts.append(...)  # a list alone has a test of its own
    if wild:  # where nothing is left PyTorch does not look whether the places exist: no empty slice, no mask
        parts = [slice(None) if isinstance(part, slice) else part for part in parts]
        assume(not any(np.asarray(part[-1] if isinstance(part, tuple) else part).dtype == bool for part in parts))
    return parts or [...]


SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple) | st.sampled_from([(0, 3), (2, 0, 3), (5,)])
CASES = SHAPES.flatmap(lambda shape: st.tuples(st.just(shape), parts_for(shape)))


def numbers(shape, salt=0):
    return np.asarray(np.random.default_rng(salt).permutation(np.arange(float(np.prod(shape)))).reshape(shape) / 4 + salt)


@given(CASES)
def test_read(agree, case):
    shape, parts = case
    agree(lambda m, x: [x[index_of(m, parts)], (x * 2)[index_of(m, parts)] * x.sum()], numbers(shape))


@given(CASES, st.data())
def test_write(agree, oracle, case, data):
    """Into the middle of a graph, and into memory: a number, one value for all places, or one for each if none comes twice."""
    shape, parts = case
    try:
        places = np.arange(np.prod(shape)).reshape(shape)
        places = oracle.tensor(places)[index_of(oracle, parts)].numpy()
    except IndexError:
        places = None
    each = places is not None and len(np.unique(places)) == places.size and data.draw(st.booleans())
    value = numbers(places.shape, 1) if each else numbers((), 1) if data.draw(st.booleans()) else 7.5

    def put(m, y, value):
        y[index_of(m, parts)] = value
        return y

    agree(lambda m, x, v: [put(m, x * 1, v) * x, x], numbers(shape), value)
    agree(lambda m, x, v: put(m, x.detach().clone(), v if isinstance(v, float) else v.detach()), numbers(shape), value)


@given(CASES)
def test_what_shares_memory(agree, case):
    """A change of what was read is a change of what it was read from, for the indices where it is one in PyTorch."""
    shape, parts = case

    def f(m, x):
        x = x.detach().clone()
        x[index_of(m, parts)].add_(100)
        return x

    agree(f, numbers(shape))


T = ("tensor", np.array([1, 0]))
ORDER = {
    "x[0, :, [1, 0]]": (0, slice(None), [1, 0]),
    "x[:, 0, :, [1, 0]]": (slice(None), 0, slice(None), [1, 0]),
    "x[[0, 1], :, 0]": ([0, 1], slice(None), 0),
    "x[:, [0, 1], :, 0]": (slice(None), [0, 1], slice(None), 0),
    "x[0, :, :, T]": (0, slice(None), slice(None), T),
    "x[0, None, T]": (0, None, T),
    "x[:, T, None, 1]": (slice(None), T, None, 1),
    "x[0, ..., T]": (0, ..., T),
    "x[T(0), :, T]": (("tensor", np.array(0)), slice(None), T),
    "x[np.int64(0), :, T]": (np.int64(0), slice(None), T),
    "x[0, :, T, 0]": (0, slice(None), T, 0),
    "x[0, :, mask]": (0, slice(None), ("tensor", np.array([True, False, True, True]))),
    "x[0, mask]": (0, ("tensor", np.eye(3, 4) > 0)),
    "x[0, :, True]": (0, slice(None), True),
    "x[T, 0, :, T]": (T, 0, slice(None), T),
    "x[:, T, 0, T]": (slice(None), T, 0, T),
    "x[1, :, T, 0:1]": (1, slice(None), T, slice(0, 1)),
    "x[0, :, -1, T]": (0, slice(None), -1, T),
}


@pytest.mark.parametrize("name", ORDER)
def test_integers_choose_before_arrays(agree, name):
    x = numbers((2, 3, 4, 5))

    def write(m, x, v):
        y = x * 1
        y[index_of(m, ORDER[name])] = v * y[index_of(m, ORDER[name])]
        return y

    agree(lambda m, x: x[index_of(m, ORDER[name])], x)
    agree(write, x, numbers((), 1))
    agree(lambda m, x, v: write(m, x.detach(), v.detach()), x, numbers((), 1))


def test_a_view_in_the_middle_of_a_graph_is_written_in_that_order_too(agree):
    def f(m, x, v):
        y = x * 2
        z = y.transpose(0, 1)
        z[1, :, [3, 0]] = v
        return [y, z]

    agree(f, numbers((2, 3, 4, 5)), numbers((2, 2, 5), 1))


LISTS = {
    "[[0, 1], [1, 0]]": lambda m: [[0, 1], [1, 0]],
    "[[0, 1], [1]]": lambda m: [[0, 1], [1]],
    "[0, [1]]": lambda m: [0, [1]],
    "[[]]": lambda m: [[]],
    "[tensor(0), tensor(1)]": lambda m: [m.tensor(0), m.tensor(1)],
    "[tensor, 1]": lambda m: [m.tensor([0, 1]), 1],
    "[arrays]": lambda m: [np.array([0, 1]), np.array([2, 0])],
    "[slice, 0]": lambda m: [slice(0, 1), 0],
    "[None, 0]": lambda m: [None, 0],
    "[..., 0]": lambda m: [..., 0],
    "[masks]": lambda m: [[True, False], [True, False, True]],
    "[masks that do not fit]": lambda m: [[True, False, True], [False, False, True]],
    "40 lists": lambda m: [[1]] * 40,
    "booleans": lambda m: [True, False],
    "boolean and number": lambda m: [True, 0],
    "empty": lambda m: [],
    "NumPy's integers": lambda m: [np.int64(1), np.int64(0)],
    "a range": lambda m: range(2),
    "tensors in a list in a tuple": lambda m: (slice(None), [m.tensor(2), m.tensor(0)]),
    "empty in a tuple": lambda m: (slice(None), []),
    "lists in a list in a tuple": lambda m: ([[0, 1], [1, 0]],),
    "tuple in a tuple": lambda m: (slice(None), (0, 2)),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists(agree, name):
    agree(lambda m, x: x[LISTS[name](m)], numbers((2, 3, 4)))


BYTES = {
    "tensor": lambda m: m.tensor([1, 0], dtype=m.uint8),
    "numbers above 1": lambda m: m.tensor([7, 0], dtype=m.uint8),
    "matrix": lambda m: m.tensor([[1, 0, 1], [0, 0, 1]], dtype=m.uint8),
    "too long": lambda m: m.tensor([1, 0, 1], dtype=m.uint8),
    "array": lambda m: np.array([0, 1], np.uint8),
    "0-d": lambda m: m.tensor(1, dtype=m.uint8),
    "0-d zero": lambda m: m.tensor(0, dtype=m.uint8),
    "in a tuple": lambda m: (slice(None), m.tensor([1, 0, 1], dtype=m.uint8)),
    "beside a number": lambda m: (0, m.tensor([1, 0, 1], dtype=m.uint8)),
    "NumPy's number": lambda m: np.uint8(1),
}


@pytest.mark.parametrize("name", BYTES)
def test_bytes_are_a_mask(agree, name):
    def write(m, x):
        y = x * 1
        y[BYTES[name](m)] = y[BYTES[name](m)] * 2  # of a number PyTorch says that it wants booleans there
        return y

    agree(lambda m, x: x[BYTES[name](m)], numbers((2, 3, 4)))
    agree(write, numbers((2, 3, 4)))


REFUSED = [1.0, np.float64(1), "a", {0: 1}, slice(0, 1.5), (0, 0, 0, 0), 2, -3, [2], ([0, 1], [0, 1, 2]), slice(None, None, 0)]


@pytest.mark.parametrize("index", REFUSED, ids=str)
def test_what_is_no_index_there_is_none_here(agree, index):
    agree(lambda m, x: x[index], numbers((2, 3, 4)))
    agree(lambda m, x: (x * 1).__setitem__(index, 1.0), numbers((2, 3, 4)))
    agree(lambda m, x: x.detach().__setitem__(index, 1.0), numbers((2, 3, 4)))


@pytest.mark.parametrize(
    "index", [0, slice(None), [0], ("tensor", np.array(0)), (), None, ..., True, ("tensor", np.array(False))], ids=str
)
def test_an_index_of_a_0d_tensor(agree, index):
    agree(lambda m, x: x[made(m, index)], numbers(()))


# ------------------------------------------------------------------------------------------------ gather, scatter and their kin


@st.composite
def gathers(draw):
    """(shape, dim, index, shape of a source): mostly ones that fit."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple) | st.just(()))
    dim = draw(st.integers(-max(len(shape), 1), max(len(shape), 1) - 1))
    along, wrong = dim % max(len(shape), 1), draw(st.integers(0, 9)) == 0
    sizes = [draw(st.integers(0, 5 if i == along else n)) for i, n in enumerate(shape or (1,))]
    if wrong:
        sizes = draw(st.lists(st.integers(0, 5), min_size=0, max_size=3))
    if not shape and draw(st.booleans()):
        sizes = []
    n = (shape or (1,))[along]
    off = draw(st.integers(0, 9)) == 0
    count = int(np.prod(sizes))
    ids = draw(st.lists(st.integers(-off, n - 1 + off), min_size=count, max_size=count))
    index = np.array(ids, draw(st.sampled_from([np.int64, np.int64, np.int32]))).reshape(sizes)
    source = tuple(n + draw(st.integers(0, 1)) - wrong * draw(st.integers(0, 1)) for n in sizes)
    return shape, dim, index, tuple(max(n, 0) for n in source)


def once(index, dim):
    """Whether no place is named twice."""
    index = np.sort(np.atleast_1d(index), dim)
    return not (np.diff(index, axis=dim) == 0).any()


@given(gathers())
def test_gather(agree, case):
    shape, dim, index, _ = case
    agree(lambda m, x: [x.gather(dim, m.tensor(index)), m.gather(x, dim=dim, index=m.tensor(index))], numbers(shape))


@given(gathers())
def test_scatter(agree, case):
    shape, dim, index, source = case
    arrays = numbers(shape), numbers(source, 1)

    def part(v):
        return v if source == index.shape else v.detach()  # of a source larger than the index PyTorch has no gradient

    agree(lambda m, x, v: x.scatter_add(dim, m.tensor(index), part(v)), *arrays)
    agree(lambda m, x, v: (x * 1).scatter_add_(dim, m.tensor(index), part(v)), *arrays)
    agree(lambda m, x: x.scatter(dim, m.tensor(index), 2.5), arrays[0])
    agree(lambda m, x: (x * 1).scatter_(dim, m.tensor(index), value=-1), arrays[0])
    try:
        single = once(index, dim)
    except IndexError:
        single = True
    if single:
        agree(lambda m, x, v: x.scatter(dim, m.tensor(index), part(v)), *arrays)
        agree(lambda m, x, v: (x * 1).scatter_(dim, index=m.tensor(index), src=part(v)), *arrays)


@st.composite
def vectors(draw):
    """(shape, dim, index of one axis or none, shape of a source): mostly ones that fit."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple) | st.just(()))
    dim = draw(st.integers(-max(len(shape), 1), max(len(shape), 1) - 1))
    n = (shape or (1,))[dim]
    off = draw(st.integers(0, 9)) == 0
    ids = np.array(draw(st.lists(st.integers(-off, n - 1 + off), max_size=4)), np.int64)
    if draw(st.integers(0, 4)) == 0 and ids.size:
        ids = ids[0] if draw(st.booleans()) else ids[None]
    source = list(shape)
    if source:
        source[dim] = ids.size
    if draw(st.integers(0, 9)) == 0 and source:
        source[draw(st.integers(0, len(source) - 1))] += 1
    return shape, dim, ids, tuple(source)


@given(vectors(), st.sampled_from([1, 2, -0.5]))
def test_index_select_add_and_fill(agree, case, alpha):
    shape, dim, ids, source = case
    arrays = numbers(shape), numbers(source, 1)
    agree(lambda m, x: [x.index_select(dim, m.tensor(ids)), m.index_select(x, dim, m.tensor(ids).int())], arrays[0])
    if shape or ids.size == 1:  # of a 0-d tensor PyTorch drops or repeats what is not one number
        agree(lambda m, x, v: x.index_add(dim, m.tensor(ids), v, alpha=alpha), *arrays)
        agree(lambda m, x, v: (x * 1).index_add_(dim, m.tensor(ids), v, alpha=alpha), *arrays)
    if ids.size == 1 and ids.min() >= 0:  # for others PyTorch's gradient may fail
        agree(lambda m, x, v: (x * 1).index_fill_(dim, m.tensor(ids), v), arrays[0], numbers((), 1))
    agree(lambda m, x: x.index_fill(dim, m.tensor(ids), 2.5), arrays[0])
    agree(lambda m, x: x.index_fill(dim, m.tensor(ids - 1), 2), arrays[0])


@given(st.lists(st.integers(1, 3), max_size=3), st.data())
def test_take(agree, shape, data):
    size = int(np.prod(shape))
    wide = data.draw(st.integers(0, 5)) == 0
    ids = np.array(data.draw(st.lists(st.integers(-size - wide, size - 1 + wide), max_size=4)), np.int64)
    ids = ids if data.draw(st.booleans()) or not ids.size else ids[0] if data.draw(st.booleans()) else ids[:, None]
    agree(lambda m, x: [x.take(m.tensor(ids)), m.take(x, m.tensor(ids))], numbers(shape))


FITTING = st.sampled_from([(2, 3), (3,), (), (2, 1), (1, 3), (4, 1, 3)])


@given(FITTING, FITTING, st.data())
def test_masked_select(agree, shape, of_mask, data):
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=int(np.prod(of_mask)), max_size=int(np.prod(of_mask)))), bool)
    agree(lambda m, x: m.masked_select(x, m.tensor(mask.reshape(of_mask))), numbers(shape))


def ids(m, x, *values, dtype=None):
    return m.tensor(np.array(values).reshape((-1,) + (1,) * (x.dim() - 1)), dtype=dtype or m.long)


NO_PLACE = {
    "gather": lambda m, x, i: x.gather(0, ids(m, x, i)),
    "scatter": lambda m, x, i: x.scatter(0, ids(m, x, i), 1.0),
    "scatter src": lambda m, x, i: x.scatter(0, ids(m, x, i), x * 2),
    "scatter_": lambda m, x, i: (x * 1).scatter_(0, ids(m, x, i), 1.0),
    "scatter_add": lambda m, x, i: x.scatter_add(0, ids(m, x, i), x * 2),
    "scatter_add_": lambda m, x, i: (x * 1).scatter_add_(0, ids(m, x, i), x * 2),
    "index_select": lambda m, x, i: x.index_select(0, m.tensor([i])),
    "index_add": lambda m, x, i: x.index_add(0, m.tensor([i]), x[:1]),
    "index_add_": lambda m, x, i: (x * 1).index_add_(0, m.tensor([i]), x[:1]),
    "index_fill": lambda m, x, i: x.index_fill(0, m.tensor([i]), 1.0),
    "take": lambda m, x, i: x.take(m.tensor([i])),
    "embedding": lambda m, x, i: m.nn.functional.embedding(m.tensor([i]), x.reshape(2, -1)),
    "nn.Embedding": lambda m, x, i: m.nn.Embedding(2, 3)(m.tensor([0, i])).shape,
    "one_hot": lambda m, x, i: m.nn.functional.one_hot(m.tensor([i]), 2),
    "cross_entropy": lambda m, x, i: m.nn.functional.cross_entropy(m.ones(1, 2), m.tensor([i])),
    "x[i]": lambda m, x, i: x[i],
    "x[[i]]": lambda m, x, i: x[[i]],
    "x[tensor]": lambda m, x, i: x[m.tensor([i])],
    "select": lambda m, x, i: x.select(0, i),
}


@pytest.mark.parametrize("i", [-1, -2, -3, 2, 99, -99])
@pytest.mark.parametrize("name", NO_PLACE)
def test_a_place_that_does_not_exist(agree, name, i):
    """Negative ones count from the end where they do in PyTorch, and only there."""
    for shape in [(2,), (2, 3), (2, 1, 2)]:
        agree(lambda m, x: NO_PLACE[name](m, x, i), numbers(shape))


WRONG = {
    "bytes as places": lambda m, x: x.gather(0, ids(m, x, 1, dtype=m.uint8)),
    "booleans as places": lambda m, x: x.gather(0, ids(m, x, 1, dtype=m.bool)),
    "fractions as places": lambda m, x: x.index_select(0, m.tensor([1.0])),
    "short integers": lambda m, x: x.scatter(0, ids(m, x, 1, dtype=m.int16), 1.0),
    "a mask for index_add": lambda m, x: x.index_add(0, m.tensor([True, False]), x),
    "a mask for index_fill": lambda m, x: x.index_fill(0, m.tensor([True, False]), 0),
    "another dtype, scatter": lambda m, x: x.scatter(0, ids(m, x, 1), x.float()),
    "another dtype, scatter_add": lambda m, x: x.scatter_add(0, ids(m, x, 1), x.long()),
    "another dtype, index_add": lambda m, x: x.index_add(0, m.tensor([1]), x[:1].float()),
    "a number, scatter_add": lambda m, x: x.scatter_add(0, ids(m, x, 1), 1.0),
    "a number, index_add": lambda m, x: x.index_add(0, m.tensor([1]), 1.0),
    "nothing, scatter": lambda m, x: x.scatter(0, ids(m, x, 1)),
    "several values, index_fill": lambda m, x: x.index_fill(0, m.tensor([1]), m.tensor([1.0, 2.0])),
    "a source that is repeated, index_add": lambda m, x: x.index_add(0, m.tensor([0, 1]), x[:1]),
    "masked_select by integers": lambda m, x: x.masked_select(x.long()),
    "masked_select by bytes": lambda m, x: x.masked_select((x > 1).to(m.uint8)),
    "a diagonal of one axis": lambda m, x: x.diagonal(0, 0, 0),
    "a diagonal of no axis": lambda m, x: x.diagonal(0, 0, 3),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(agree, name):
    for shape in [(2,), (2, 3), (2, 1, 2)]:
        agree(lambda m, x: WRONG[name](m, x), numbers(shape))


def test_a_number_takes_the_dtype_of_the_tensor(agree):
    for x in (np.arange(4), np.arange(4, dtype=np.int32), np.arange(4.0), np.array([True, False, True, False])):
        for v in (1.5, 2, True):
            agree(lambda m, x, v: [x.scatter(0, m.tensor([1]), v), x.index_fill(0, m.tensor([1]), v)], x, v)
    agree(lambda m, x, v: [x.index_fill(0, m.tensor([1]), v), x.scatter(0, m.tensor([1]), value=v)], np.arange(4), np.array(2))


# ------------------------------------------------------------------------------------------------ diagonals

DIAGONALS = [
    {},
    {"offset": 1},
    {"offset": -1},
    {"offset": 9},
    {"dim1": 1, "dim2": 0},
    {"dim1": -2, "dim2": -1},
    {"offset": -2, "dim1": -1, "dim2": 0},
]


@pytest.mark.parametrize("how", DIAGONALS, ids=str)
def test_a_diagonal_is_a_view(agree, how):
    def written(m, x):
        y = x * 1
        d = y.diagonal(**how)
        d.mul_(3.0)
        d += 1
        return [y, d]

    def memory(m, x):
        y = x.detach().clone()
        y.diagonal(**how).fill_(-1)
        m.diagonal(y.transpose(0, -1), **how)[..., :1] = 5
        return y

    for shape in [(2, 3), (3, 3), (4, 1), (1, 1), (0, 2), (2, 3, 4), (3, 2, 2, 3), (5, 2), (2, 2, 2), (3, 4)]:
        x = numbers(shape)
        agree(lambda m, x: [x.diagonal(**how), m.diagonal(x, **how), x.transpose(0, -1).diagonal(**how)], x)
        agree(written, x)
        agree(memory, x)


def test_a_diagonal_of_too_few_axes(agree):
    for shape in [(), (3,)]:
        agree(lambda m, x: x.diagonal(), numbers(shape))
