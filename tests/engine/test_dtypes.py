"""Which dtype comes out: PyTorch's rules among tensors; NumPy scalars and arrays never turn float32 into float64."""

import itertools
import warnings

import numpy as np
import pytest

import tinygrad_tf
from tinygrad_tf import Tensor, cat, full, ones, optim, tensor, where, zeros
from tinygrad_tf.models.decoder import Decoder, DecoderConfig

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]
OPS = {
    "+": lambda m, a, b: a + b,
    "*": lambda m, a, b: a * b,
    "/": lambda m, a, b: a / b,
    "maximum": lambda m, a, b: m.maximum(a, b),
    "where": lambda m, a, b: m.where(a > 0, a, b),
    "==": lambda m, a, b: a == b,
}
DIVISIBLE = {
    "-": lambda m, a, b: a - b,
    "**": lambda m, a, b: a**b,
    "//": lambda m, a, b: a // b,
    "%": lambda m, a, b: a % b,
}


def dtype_of(t):
    return str(t.dtype).removeprefix("torch.")


def make(m, dtype, ndim):
    return m.tensor([1, 1] if ndim else 1, dtype=getattr(m, dtype if dtype != "bool" or m.__name__ == "torch" else "bool_"))


@pytest.mark.parametrize("ranks", [(1, 1), (1, 0), (0, 1), (0, 0)], ids=str)
@pytest.mark.parametrize("name", [*OPS, *DIVISIBLE])
def test_DT_02_tensors_promote_as_in_torch(name, ranks, oracle):
    wrong = []
    for a, b in itertools.product(DTYPES, DTYPES):
        if name in DIVISIBLE and "bool" in (a, b):
            continue
        f = {**OPS, **DIVISIBLE}[name]
        mine, theirs = (dtype_of(f(m, make(m, a, ranks[0]), make(m, b, ranks[1]))) for m in (tinygrad_tf, oracle))
        if mine != theirs:
            wrong.append(f"{a} {name} {b}: {mine}, in torch {theirs}")
    assert wrong == []


@pytest.mark.parametrize("ndim", [0, 1])
@pytest.mark.parametrize("number", [True, 2, 2.5])
@pytest.mark.parametrize("name", [*OPS, *DIVISIBLE])
def test_DT_02_python_numbers_promote_as_in_torch(name, number, ndim, oracle):
    wrong = []
    for a in DTYPES:
        if (name in DIVISIBLE and (a == "bool" or number is True)) or name == "maximum":
            continue
        f = {**OPS, **DIVISIBLE}[name]
        for left in (False, True):
            if left and name == "where":
                continue
            mine, theirs = (
                dtype_of(f(m, number, make(m, a, ndim)) if left else f(m, make(m, a, ndim), number))
                for m in (tinygrad_tf, oracle)
            )
            if mine != theirs:
                wrong.append(f"{number if left else a} {name} {a if left else number}: {mine}, in torch {theirs}")
    assert wrong == []


@pytest.mark.parametrize("dtype", DTYPES)
def test_DT_02_functions_and_sums_of_each_dtype(dtype, oracle):
    functions = ["exp", "sqrt", "sin", "sum", "prod", "cumsum", "abs", "max", "argmax", "clone", "flip"]
    wrong = []
    for name in functions:
        if dtype == "bool" and name in ("abs", "argmax"):
            continue
        args = (0,) if name in ("cumsum", "flip") else ()
        mine, theirs = (dtype_of(getattr(make(m, dtype, 1), name)(*args)) for m in (tinygrad_tf, oracle))
        if mine != theirs:
            wrong.append(f"{name}: {mine}, in torch {theirs}")
    assert wrong == []


@pytest.mark.parametrize("dtype", DTYPES[1:])
@pytest.mark.parametrize("to", ["float", "double", "half", "long", "int", "bool"])
def test_conversions(dtype, to, oracle):
    mine, theirs = (getattr(make(m, dtype, 1), to)() for m in (tinygrad_tf, oracle))
    assert dtype_of(mine) == dtype_of(theirs)


def test_cat_promotes_as_in_torch(oracle):
    for a, b in itertools.product(DTYPES, DTYPES):
        mine, theirs = (dtype_of(m.cat([make(m, a, 1), make(m, b, 1)])) for m in (tinygrad_tf, oracle))
        assert mine == theirs, (a, b)


# the NumPy things that turn float32 arrays into float64 under NumPy 2
FOREIGN = {
    "np.sqrt(16)": np.sqrt(16),
    "np.float64(0.5)": np.float64(0.5),
    "0-d float64 array": np.array(0.5),
    "float64 array": np.array([0.5, 2.0]),
    "int64 array": np.array([1, 2]),
    "int64 scalar": np.int64(3),
    "bool array": np.array([True, False]),
    "0-d float64 tensor": Tensor(np.array(0.5)),
}
ARITHMETIC = {
    "+": lambda t, c: t + c,
    "r+": lambda t, c: c + t,
    "-": lambda t, c: t - c,
    "r-": lambda t, c: c - t,
    "*": lambda t, c: t * c,
    "r*": lambda t, c: c * t,
    "/": lambda t, c: t / (c + 1),
    "r/": lambda t, c: c / t,
    "**": lambda t, c: t**c,
    "r**": lambda t, c: (c + 1) ** t,
    "//": lambda t, c: t // (c + 1),
    "%": lambda t, c: t % (c + 1),
    "r%": lambda t, c: c % t,
    "maximum": lambda t, c: tinygrad_tf.maximum(t, c),
    "where": lambda t, c: where(np.array([True, False]), t, c),
    "masked_fill": lambda t, c: t.masked_fill(np.array([True, False]), c),
    "clamp": lambda t, c: t.clamp(max=c),
    "add_": lambda t, c: (t * 1).add_(c),
    "setitem": lambda t, c: _set(t * 1, c),
    "cat": lambda t, c: cat([t, t * c]),
}


def _set(t, c):
    t[:] = c
    return t


@pytest.mark.parametrize("constant", FOREIGN)
@pytest.mark.parametrize("op", ARITHMETIC)
def test_DT_02_float32_stays_float32(op, constant):
    t = ones(2, requires_grad=True)
    y = ARITHMETIC[op](t, FOREIGN[constant])
    assert y.dtype == np.float32
    if y.requires_grad:
        assert all(a.dtype != np.float64 for a in y.node.kept())
        y.sum().backward()
        assert t.grad.dtype == np.float32


def test_DT_02_a_float64_array_takes_the_dtype_of_the_tensor():
    for t in (ones(2), tensor([1, 2])):
        for f in (lambda t: t + np.ones(2), lambda t: np.ones(2) * t, lambda t: t * np.ones((2, 1)), lambda t: np.eye(2) @ t):
            assert f(t * 1).dtype == np.float32
    assert (zeros(2, dtype=np.float64) * np.ones(2)).dtype == np.float64


@pytest.mark.parametrize("dtype", DTYPES[:6])
@pytest.mark.parametrize("name", ["exp", "log1p", "sqrt", "sin", "tanh", "sigmoid"])
def test_functions_of_small_integers_have_the_digits_of_float32(name, dtype):
    x = make(tinygrad_tf, dtype, 1)
    if (name, dtype) == ("sigmoid", "bool"):
        return  # NumPy has no negative of a boolean
    np.testing.assert_allclose(getattr(x, name)().array, getattr(x.to(np.float64), name)().array, rtol=1e-6)
    np.testing.assert_allclose((x / 3 + x / (x * 7)).array, x.array / 3.0 + 1 / 7, rtol=1e-6)


def test_DT_02_float64_where_the_user_asked():
    for t in (
        tensor([1.0], dtype=np.float64),
        Tensor(np.ones(1)),
        tensor([1.0]).double(),
        tensor([1.0]).to(np.float64),
        zeros(1, dtype=np.float64),
    ):
        assert t.dtype == np.float64
        assert (t * 2 + np.float32(1)).exp().sum().dtype == np.float64
        assert (t + tensor([1.0])).dtype == np.float64
    assert tensor(0.1, dtype=np.float64).item() == 0.1
    assert tensor([0.1, 1 / 3], dtype=np.float64).tolist() == [0.1, 1 / 3]


def test_DT_02_python_data_is_float32_int64_and_bool():
    for data, dtype in [
        (1.5, np.float32),
        ([1, 2.5], np.float32),
        (3, np.int64),
        ([[True]], bool),
        ([], np.float32),
        (full((2,), 1.0), np.float32),
    ]:
        assert tensor(data).dtype == dtype
    for t, dtype in [
        (full((2,), 1), np.int64),
        (full((2,), True), bool),
        (full((2,), 0.5), np.float32),
        (where(tensor([True]), 1.0, 0.0), np.float32),
        (where(tensor([True]), 1, 0), np.int64),
        (tensor([1]) / 2, np.float32),
        (tensor([4]).sqrt(), np.float32),
    ]:
        assert t.dtype == dtype


def test_DT_02_after_a_training_step_everything_is_float32():
    rng = np.random.default_rng(0)
    model = Decoder(
        DecoderConfig(
            vocab_size=7, block_size=6, n_layer=1, n_head=2, n_embd=8, dropout=0.1, positions="rotary", norm="rms", ffn="swiglu"
        ),
        rng,
    )
    optimizer = optim.AdamW(model.parameters(), lr=np.float64(1e-3))
    for _ in range(2):
        ids = rng.integers(0, 7, (2, 7))
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.dtype == np.float32
    assert model(ids[:, 1:]).dtype == np.float32
    assert {p.dtype for p in model.parameters()} == {p.grad.dtype for p in model.parameters()} == {np.dtype(np.float32)}
    moments = [v for s in optimizer.state_dict()["state"].values() for k, v in s.items() if k != "step"]
    assert {m.dtype for m in moments} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    "value, dtype", [(70000, np.uint16), (65536, np.uint16), (40000, np.int16), (300, np.uint8), (-1, np.uint8)]
)
def test_DT_04_a_number_too_large_for_its_dtype_is_refused(value, dtype):
    with pytest.raises(OverflowError, match=f"{value} out of bounds for {np.dtype(dtype)}"):
        tensor([1, value], dtype=dtype)


def test_DT_04_sums_of_unsigned_integers_are_signed():
    lengths = Tensor(np.array([3, 5], dtype=np.uint32))
    assert (lengths.sum() - 9).item() == -1
    assert lengths.cumsum(0).dtype == lengths.prod().dtype == np.int64


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint32, np.int64, bool, np.float32])
def test_order_of_every_dtype(dtype):
    a = np.array([1, 0, 1, 0, 1]).astype(dtype)
    t = Tensor(a)
    assert t.min().item() == 0
    assert t.amin(0).item() == 0
    assert t.max().item() == 1
    assert t.argsort(descending=True).tolist() == [0, 2, 4, 1, 3]
    assert t.topk(2).values.tolist() == [1, 1]
    assert t.topk(2, largest=False).indices.tolist() == [1, 3]


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, bool, np.int64])
def test_sigmoid_of_integers_warns_of_nothing(dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        y = Tensor(np.array([0, 3, 100]).astype(dtype)).sigmoid()
    assert y.dtype == np.float32
    np.testing.assert_allclose(y.array, [0.5, 1 / (1 + np.exp(-1.0 if dtype is bool else -3.0)), y.array[2]], rtol=1e-6)


def test_what_is_no_number_is_refused():
    for data in ("text", ["a"], None, {"a": 1}, [1, "b"], np.array([1 + 2j]), np.array(["2020-01-01"], dtype="datetime64[D]")):
        with pytest.raises(TypeError, match="a tensor holds numbers"):
            tensor(data)
    with pytest.raises(TypeError, match="complex128"):
        tensor([1.0]) * np.array([1j])
    with pytest.raises(ValueError, match="inhomogeneous"):
        tensor([[1, 2], [3]])
