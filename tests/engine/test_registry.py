"""Every op of `engine.registry`, from one table of examples.

Value against its composed twin, gradient against finite differences, second derivatives against finite differences of the
first, float32 stays float32. An op without an example fails the first test.
"""

from itertools import permutations

import numpy as np
import pytest

from tinygrad_tf import composed, grad, tensor
from tinygrad_tf.engine import registry

from_rng = np.random.default_rng(0)
IDS = np.array([[0, 2, 2], [1, 0, 2]])
ANGLES = from_rng.uniform(-3, 3, (3, 2))
MASK = np.array(
    [[True, False, True, True], [False, False, False, False], [True, True, True, False]]
)  # a row with nowhere to look
PAIRS = [
    [(2, 3), (2, 3)],
    [(2, 3), (3,)],
    [(2, 1), (1, 3)],
    [(), (2,)],
    [(2, 2), ()],
    [(), ()],
    [(1, 1), (1,)],
    [(0, 3), (3,)],
    [(0,), ()],
]
ONE = [[(2, 3)], [()], [(1,)], [(0, 2)]]
POSITIVE = {"low": 0.3, "high": 2.5}


def cases(shapes, settings=({},), **interval):
    return [(s, dict(chosen), interval) for s in shapes for chosen in settings]


def reductions(**extra):
    return [
        case
        for shape, dims in {(2, 3, 2): [1, -1, 0], (3,): [0], (2, 1): [1], (1, 1): [0]}.items()
        for case in cases([[shape]], [{"dim": d, "keepdim": k, **extra} for d in dims for k in (False, True)])
    ]


ALL_AXES = cases([[(2, 3)], [()], [(1,)]], [{"dim": None}, {"dim": None, "keepdim": True}]) + cases(
    [[(2, 3, 2)]], [{"dim": (0, -1)}, {"dim": (2, 0), "keepdim": True}]
)
ROWS = [[(2, 4)], [(3,)], [(2, 1, 3)], [(0, 3)]]
ALONG = cases([[(2, 3, 2)], [(3, 1)]], [{"dim": 1}, {"dim": -1}, {"dim": 0}]) + cases([[(4,)], [(1,)]], [{"dim": 0}])
QKV = [
    [(1, 2, 3, 4), (1, 2, 4, 4), (1, 2, 4, 3)],
    [(2, 4, 3, 2), (2, 2, 4, 2), (2, 2, 4, 2)],
    [(2, 3, 2, 2), (2, 1, 3, 2), (2, 1, 3, 2)],
    [(1, 1, 1, 1)] * 3,
]


class Program(tuple):
    """Its representation is part of a test's name, which must be the same in every process."""

    def __repr__(self):
        return "-".join(op.name for op, *_ in self)


PROGRAM = Program(
    [
        (registry["mul"], (0, 1), {}, {}, (0,)),
        (registry["rms_norm"], (3, 1), {"eps": 0.1}, {}, (1,)),
        (registry["residual"], (4, 3), {}, {}, (4, 3)),
        (registry["linear"], (5, 2), {}, {}, (5, 2)),
        (registry["mul"], (6, 6), {}, {}, (6,)),
    ]
)
READING = Program(
    [
        (registry["embedding"], (0,), {}, {"ids": (0, (2, 3))}, (0,)),
        (registry["mul"], (1, 1), {}, {}, (1,)),
        (registry["reshape"], (2,), {"shape": (6, 4)}, {}, (2,)),
        (registry["cross_entropy"], (3,), {"reduction": "none"}, {"target": (1, (6,))}, (3,)),
    ]
)
GIVEN = (np.array([[0, 1, 1], [2, 0, 1]]), np.array([[3, 0, 1], [2, 2, -100]]))

EXAMPLES = {
    **{name: cases(PAIRS) for name in ("add", "sub", "mul", "residual", "maximum", "minimum")},
    "swiglu": cases([pair for pair in PAIRS if pair[0] == pair[1]]),
    "dropout": cases([[(2, 3)], [()], [(0, 3)]], [{"keep": 2.0}, {"keep": 0.0}])
    + cases([[(2, 3)]], [{"keep": np.eye(2, 3) * 4}]),
    "div": cases(PAIRS, **POSITIVE),
    "pow": cases(PAIRS, **POSITIVE),
    "remainder": cases(PAIRS, **POSITIVE) + cases([[(2, 3), (2, 3)]]),
    **{
        name: cases(ONE)
        for name in (
            "neg",
            "exp",
            "sin",
            "cos",
            "tanh",
            "sigmoid",
            "abs",
            "relu",
            "clone",
            "gelu",
            "gelu_tanh",
            "silu",
            "normal_below",
            "erf",
            "expm1",
            "logsigmoid",
        )
    },
    **{name: cases(ONE, **POSITIVE) for name in ("log", "log1p", "log2", "log10", "sqrt")},
    "clamp": cases(ONE, [{"min": -0.5, "max": 0.6}, {"min": 0.1}, {"max": 0.2}]),
    "cast": cases(ONE, [{"dtype": np.dtype(np.float64)}]),
    "where": cases(
        [[(2, 3), (2, 3)], [(3,), ()], [(), (2, 1)]], [{"condition": np.array([[True, False, True], [False, True, True]])}]
    )
    + cases([[(), ()]], [{"condition": np.array(True)}, {"condition": np.array([False, True])}]),
    "sum": ALL_AXES + reductions() + cases([[(0, 2)]], [{"dim": 0}, {"dim": 1}, {"dim": None}]),
    "amax": ALL_AXES + reductions(),
    "logsumexp": ALL_AXES + reductions(),
    "cumsum": ALONG + cases([[(0, 2)]], [{"dim": 0}, {"dim": 1}]),
    "prod": reductions() + cases([[(0, 2)], [(2, 0)]], [{"dim": 1}]),
    "matmul": cases(
        [
            [(2, 3), (3, 4)],
            [(3,), (3,)],
            [(2, 3), (3,)],
            [(3,), (3, 2)],
            [(2, 2, 3), (3, 2)],
            [(2, 3), (2, 3, 1)],
            [(2, 1, 2, 3), (3, 3, 2)],
            [(1, 2, 2), (3, 2, 2)],
            [(2, 2, 3), (3,)],
            [(3,), (2, 3, 2)],
            [(1, 1), (1, 1)],
            [(0, 3), (3, 2)],
            [(2, 0), (0, 2)],
            [(2, 3, 0), (0, 2)],
            [(2, 0, 3), (3, 2)],
        ]
    ),
    "reshape": cases([[(2, 3)]], [{"shape": (3, 2)}, {"shape": (-1,)}, {"shape": (1, 6, 1)}])
    + cases([[()]], [{"shape": (1, 1)}])
    + cases([[(0, 2)]], [{"shape": (2, 0)}]),
    "permute": cases([[(2, 3, 2)]], [{"dims": (2, 0, 1)}, {"dims": (-1, 0, 1)}]) + cases([[()]], [{"dims": ()}]),
    "expand": cases([[(2, 1)], [(1,)], [()]], [{"shape": (2, 3)}]) + cases([[(1,)]], [{"shape": (0,)}]),
    "getitem": cases(
        [[(3, 4)]],
        [
            {"index": i}
            for i in (
                1,
                (slice(None), -1),
                (slice(None, None, -2), slice(1, 3)),
                (..., None, 0),
                np.array([2, 0, 2]),
                (np.array([[0, 1], [1, 1]]), 2),
                (slice(None), np.array([3, 3])),
                MASK,
                (np.array([0, 2]), np.array([1, 1])),
                np.array([], dtype=np.int64),
                slice(3, 3),
                (2, 3),
                (np.array([True, False, True]), slice(0, 2)),
            )
        ],
    )
    + cases([[()]], [{"index": ()}, {"index": None}]),
    "diagonal": cases([[(3, 4)]], [{"offset": k} for k in (0, 1, -2, 9)])
    + cases([[(2, 3, 2)]], [{"dim1": -1, "dim2": 0}, {"offset": 1, "dim1": 1, "dim2": 2}])
    + cases([[(0, 2)]]),
    "unindex": cases([[(3,)]], [{"index": np.array([1, 1, 0]), "shape": (2,)}, {"index": (0, slice(1, None)), "shape": (2, 4)}])
    + cases([[()]], [{"index": 1, "shape": (3,)}]),
    "put": cases([[(3, 4), (4,)]], [{"index": 1}, {"index": np.array([2, 0])}])
    + cases([[(3, 4), ()]], [{"index": MASK}, {"index": ...}])
    + cases([[(3, 4), (3, 2)]], [{"index": (slice(None), slice(None, None, 2))}])
    + cases([[(2,), ()]], [{"index": 0}]),
    "cat": cases([[(2, 3), (2, 1)], [(2, 3)], [(2, 2), (2, 0), (2, 3)]], [{"dim": 1}, {"dim": -1}])
    + cases([[(1, 2), (2, 2)]], [{"dim": 0}]),
    "linear": cases(
        [
            [(2, 3), (4, 3)],
            [(2, 3), (4, 3), (4,)],
            [(2, 1, 3), (2, 3), (2,)],
            [(3,), (2, 3), (2,)],
            [(1, 1), (1, 1)],
            [(0, 3), (2, 3), (2,)],
            [(2, 0), (2, 0), (2,)],
        ]
    ),
    "embedding": cases([[(3, 2)], [(600, 1)]], [{"ids": IDS}, {"ids": np.array(1)}, {"ids": np.zeros((0, 2), dtype=np.int64)}]),
    "softmax": ALONG + cases([[(0, 3)], [(3, 0)]], [{"dim": 1}]),
    "log_softmax": ALONG + cases([[(0, 3)]], [{"dim": 1}]),
    "cross_entropy": cases(
        [[(4, 3)]],
        [
            {"target": np.array([2, 0, -100, 1]), "reduction": r, "label_smoothing": s}
            for r in ("mean", "sum", "none")
            for s in (0.0, 0.2)
        ],
    )
    + cases([[(2, 3)]], [{"target": np.array([-1, -1]), "ignore_index": -1}])
    + cases([[(1, 1)]], [{"target": np.array([0])}]),
    "layer_norm": cases(
        [[*s, *affine] for s in ROWS[:2] for d in [s[0][-1]] for affine in ([], [(d,)], [(d,), (d,)])],
        [{"eps": 1e-5}, {"eps": 0.1}],
    )
    + cases([[(2, 1, 3)], [(0, 3), (3,)], [(2, 1), (1,)]]),
    "rms_norm": cases([[*s, *gain] for s in ROWS for d in [s[0][-1]] for gain in ([], [(d,)])], [{}, {"eps": 0.1}]),
    "rotary": cases(
        [[(2, 3, 4)], [(1, 2, 3, 4)], [(0, 3, 4)]],
        [{"cos": np.cos(ANGLES), "sin": np.sin(ANGLES), "interleaved": i} for i in (False, True)],
    ),
    "lstm": cases(
        [[(3, 2, 8), (8, 2), (2, 2), (2, 2)], [(1, 1, 4), (4, 1), (1, 1), (1, 1)], [(2, 0, 4), (4, 1), (0, 1), (0, 1)]]
    ),
    "replay": cases([[(2, 3, 4), (4,), (5, 4)], [(1, 4), (4,), (1, 4)], [(0, 4), (4,), (2, 4)]], [{"program": PROGRAM}])
    + cases([[(3, 4)]], [{"program": READING, "given": GIVEN}]),
    "split_heads": cases([[(2, 3, 4)], [(1, 1, 2)], [(0, 3, 4)]], [{"heads": 2}, {"heads": 1}]),
    "join_heads": cases([[(2, 2, 3, 4)], [(1, 1, 1, 2)], [(0, 2, 3, 4)]]),
    "attention": cases(
        QKV, [{}, {"causal": 0}, {"causal": 1, "block": 2}, {"block": 1}, {"scale": 0.3}, {"causal": -2, "block": 2}]
    )
    + cases(QKV, [{"since": 0}, {"since": -1, "causal": 1, "block": 2}, {"since": 2, "block": 1}])
    + cases(QKV, [{"dropout": 0.4, "seed": 3}, {"dropout": 0.4, "seed": 3, "causal": 1, "since": -1, "block": 2}])
    + cases(QKV[:1], [{"added": MASK * 0.5}, {"added": MASK * 0.5, "mask": MASK, "causal": 1, "since": 0, "block": 2}])
    + cases(QKV[:1], [{"mask": MASK}, {"mask": MASK, "causal": 1, "block": 2}, {"mask": MASK[None, None], "block": 1}])
    + cases(
        [[*QKV[0], (3, 4)], [*QKV[1], (4, 3, 4)], [*QKV[1], (2, 1, 1, 4)], [*QKV[1], (3, 1)]],
        [{}, {"block": 2}, {"causal": 0, "block": 2}],
    ),
}
TABLE = [(name, *case) for name, listed in EXAMPLES.items() for case in listed]


def names(values):
    name, shapes, settings, _ = values
    shown = ",".join(f"{k}={'array' if isinstance(v, np.ndarray) else v}" for k, v in settings.items())
    return f"{name}-{'x'.join(map(str, shapes))}-{shown}".replace(" ", "")


every_example = pytest.mark.parametrize("name, shapes, settings, interval", TABLE, ids=map(names, TABLE))


@pytest.fixture
def example(name, shapes, settings, interval, calculus):
    """The op, its inputs as arrays, and a gradient for its output."""
    arrays = [calculus.numbers(*shape, salt=i, **interval) for i, shape in enumerate(shapes)]
    op = registry[name]
    return op, arrays, calculus.numbers(*np.shape(op.raw(*arrays, **settings)[0]), salt=7)


def test_every_op_has_an_example_and_every_example_an_op():
    assert sorted(registry) == sorted(EXAMPLES)


def test_every_op_begins_with_its_shape_line():
    assert [name for name, op in registry.items() if "->" not in (op.__doc__ or "").splitlines()[0]] == []


@every_example
def test_value_is_that_of_the_twin(example, settings, calculus):
    op, arrays, seed = example
    y = op(*map(calculus.leaf, arrays), **settings)
    assert y.shape == seed.shape
    assert np.array_equal(y.array, op.raw(*arrays, **settings)[0])
    if op.twin is not None:
        with composed():
            small = op(*map(calculus.leaf, arrays), **settings)
        assert small.node is None or small.node.op is not op
        np.testing.assert_allclose(y.array, small.array, rtol=1e-12, atol=1e-13)


@every_example
def test_gradient_is_that_of_finite_differences_and_of_the_twin(example, settings, calculus):
    op, arrays, seed = example
    wanted = calculus.slopes(lambda *a: (op.raw(*a, **settings)[0] * seed).sum(), *arrays)
    for fused in (True, False) if op.twin is not None else (True,):
        leaves = [calculus.leaf(a) for a in arrays]
        if fused:
            op(*leaves, **settings).backward(seed)
        else:
            with composed():
                y = op(*leaves, **settings)
            if not y.requires_grad:  # nothing of the inputs is in the output
                continue
            y.backward(seed)
        for x, g in zip(leaves, wanted):
            got = np.zeros(x.shape) if x.grad is None else x.grad.array
            np.testing.assert_allclose(got, g, rtol=1e-7, atol=1e-8)


@every_example
def test_second_derivatives_are_the_slopes_of_the_first(example, settings, calculus):
    op, arrays, seed = example
    weights = [calculus.numbers(*a.shape, salt=20 + i) for i, a in enumerate(arrays)]

    def first(seed, *arrays):
        """The number sum(gradient * weights), from a plain backward."""
        leaves = [calculus.leaf(a) for a in arrays]
        op(*leaves, **settings).backward(seed)
        return sum((x.grad.array * w).sum() for x, w in zip(leaves, weights))

    leaves, above = [calculus.leaf(a) for a in arrays], calculus.leaf(seed)
    gradients = grad(op(*leaves, **settings), leaves, above, create_graph=True)
    total = sum(((g * w).sum() for g, w in zip(gradients, weights)), tensor(0.0, dtype=np.float64))
    assert abs(total.item() - first(seed, *arrays)) < 1e-10
    wanted = calculus.slopes(first, seed, *arrays)
    second = grad(total, [above, *leaves], allow_unused=True) if total.requires_grad else [None] * len(wanted)
    for g, w in zip(second, wanted):
        np.testing.assert_allclose(np.zeros(w.shape) if g is None else g.array, w, rtol=1e-6, atol=1e-7)


@every_example
def test_float32_stays_float32(name, example, settings, calculus):
    op, arrays, seed = example
    if name == "cast":
        settings = {"dtype": np.dtype(np.float32)}
    leaves = [calculus.leaf(a, np.float32) for a in arrays]
    single = {
        k: v.astype(np.float32) if getattr(v, "dtype", None) == np.float64 and k != "dtype" else v for k, v in settings.items()
    }
    y = op(*leaves, **single)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y.array, op.raw(*arrays, **settings)[0], rtol=1e-5, atol=2e-6)
    assert not any(kept.dtype == np.float64 for kept in y.node.kept())
    y.backward(seed.astype(np.float32))
    for x in leaves:
        assert x.grad.dtype == np.float32
        assert x.grad.shape == x.shape
        assert x.grad.array.flags.writeable


@every_example
def test_inputs_seed_and_value_are_left_as_they_were(example, settings, calculus):
    """IP-05: rules treat what they are given as read-only, and so does the op its inputs."""
    op, arrays, seed = example
    leaves = [calculus.leaf(a) for a in arrays]
    frozen = np.array(seed)
    for array in [frozen, *(x.array for x in leaves)]:
        array.flags.writeable = False
    y = op(*leaves, **settings)
    before = y.array.copy()
    y.backward(frozen)
    assert np.array_equal(y.array, before)
    assert not any(np.shares_memory(x.grad.array, other) for x in leaves for other in (frozen, y.array))


def laid_out(array):
    """The same numbers in memory in every other order of the axes, backwards, and with gaps."""
    for order in list(permutations(range(array.ndim)))[1:]:
        back = np.argsort(order)
        yield np.ascontiguousarray(array.transpose(order)).transpose(back)
    if array.ndim:
        yield np.ascontiguousarray(array[..., ::-1])[..., ::-1]
        yield np.repeat(array, 2, axis=-1)[..., ::2]


@every_example
def test_the_order_of_the_numbers_in_memory_changes_nothing(example, settings, calculus):
    op, arrays, seed = example

    def both(seed, arrays):
        leaves = [calculus.leaf(0.0) for _ in arrays]
        for x, array in zip(leaves, arrays):
            x.array = array
        y = op(*leaves, **settings)
        y.backward(seed)
        return [y.array, *(np.zeros(x.shape) if x.grad is None else x.grad.array for x in leaves)]

    wanted = both(seed, arrays)
    every = [seed, *arrays]
    ways = [list(laid_out(array)) for array in every]
    alone = [[*every[:i], other, *every[i + 1 :]] for i, way in enumerate(ways) for other in way]
    longest = max(map(len, ways))
    together = [[way[n] if n < len(way) else a for way, a in zip(ways, every)] for n in range(longest)]
    for first, *others in alone + together:
        for got, want in zip(both(first, others), wanted):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)
