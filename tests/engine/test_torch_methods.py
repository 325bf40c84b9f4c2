"""Each method of Tensor against PyTorch: value, shape, dtype and gradient. One lambda serves both: the names are the same."""

import numpy as np
import pytest

from tinygrad_tf import Tensor

F32, F64 = np.float32, np.float64
COND = np.array([[True, False, True], [False, True, True]])
INDEX = np.array([[2, 0, 1, 1], [0, 0, 2, 1]])  # along an axis of 3

# shapes that suit the function -> the functions (m is the module, x and y are tensors)
UNARY = {
    "exp": lambda m, x: x.exp(),
    "neg": lambda m, x: -x,
    "sin": lambda m, x: x.sin(),
    "cos": lambda m, x: x.cos(),
    "tanh": lambda m, x: x.tanh(),
    "sigmoid": lambda m, x: x.sigmoid(),
    "relu": lambda m, x: x.relu(),
    "abs": lambda m, x: x.abs(),
    "abs builtin": lambda m, x: abs(x),
    "square": lambda m, x: x.square(),
    "square by **": lambda m, x: x**2,
    "cube": lambda m, x: x.pow(3),
    "pow 0": lambda m, x: x**0,
    "pow 1.0": lambda m, x: x**1.0,
    "2 ** x": lambda m, x: 2**x,
    "2.5 ** x": lambda m, x: 2.5**x,
    "clamp": lambda m, x: x.clamp(-0.5, 0.5),
    "clamp min": lambda m, x: x.clamp(min=0.1),
    "clamp max": lambda m, x: x.clamp(max=0.1),
    "clip": lambda m, x: x.clip(-0.2, 0.7),
    "1 - x": lambda m, x: 1 - x,
    "x - 2.5": lambda m, x: x - 2.5,
    "3 * x": lambda m, x: 3 * x,
    "x / 4": lambda m, x: x / 4,
    "x % 0.4": lambda m, x: x % 0.4,
    "clone": lambda m, x: x.clone(),
    "contiguous": lambda m, x: x.contiguous(),
    "float": lambda m, x: x.float(),
    "double": lambda m, x: x.double(),
    "half": lambda m, x: x.half(),
    "to": lambda m, x: x.to(m.float64),
    "type_as": lambda m, x: x.type_as(m.zeros(1)),
    "long": lambda m, x: x.long(),
    "int": lambda m, x: x.int(),
    "bool": lambda m, x: x.bool(),
    "detach": lambda m, x: x.detach(),
    "sum": lambda m, x: x.sum(),
    "mean": lambda m, x: x.mean(),
    "max": lambda m, x: x.max(),
    "min": lambda m, x: x.min(),
    "amax": lambda m, x: x.amax(),
    "amin": lambda m, x: x.amin(),
    "prod": lambda m, x: x.prod(),
    "norm": lambda m, x: x.norm(),
    "argmax": lambda m, x: x.argmax(),
    "argmin": lambda m, x: x.argmin(),
    "isnan": lambda m, x: x.isnan(),
    "isinf": lambda m, x: x.isinf(),
    "isfinite": lambda m, x: x.isfinite(),
    "flatten": lambda m, x: x.flatten(),
    "reshape -1": lambda m, x: x.reshape(-1),
    "view -1": lambda m, x: x.view(-1),
    "unsqueeze 0": lambda m, x: x.unsqueeze(0),
    "unsqueeze -1": lambda m, x: x.unsqueeze(-1),
    "squeeze": lambda m, x: x.squeeze(),
    "expand": lambda m, x: x.expand(2, *x.shape),
    "expand -1": lambda m, x: x.expand(4, *[-1] * x.ndim),
    "expand_as": lambda m, x: x.expand_as(m.zeros((2, *x.shape))),
    "repeat": lambda m, x: x.repeat(2, *[3] * x.ndim),
    "repeat_interleave": lambda m, x: x.repeat_interleave(2),
    "roll": lambda m, x: x.roll(1),
    "masked_fill": lambda m, x: x.masked_fill(x > 0, -7.5),
    "masked_select": lambda m, x: x.masked_select(x > 0),
    "zeros_like": lambda m, x: m.zeros_like(x),
    "ones_like": lambda m, x: m.ones_like(x),
    "full_like": lambda m, x: m.full_like(x, 2.5),
    "compare": lambda m, x: [x > 0, x >= 0.5, x < 0, x <= 0.5, x == 0, x != 0],
    "logic": lambda m, x: [(x > 0) & (x < 1), (x > 0) | (x < -1), (x > 0) ^ (x < 1), ~(x > 0)],
    "where": lambda m, x: m.where(x > 0, x, 2 * x),
    "where number": lambda m, x: m.where(x > 0, x, 0.0),
    "where method": lambda m, x: x.where(x > 0, m.zeros_like(x)),
    "all any": lambda m, x: [(x > -9).all(), (x > 9).any()],
    "element_size": lambda m, x: m.tensor([x.element_size(), x.numel(), x.dim(), x.ndim]),
    "fill": lambda m, x: (x * 1).fill_(3.0),
    "zero": lambda m, x: (x * 1).zero_(),
}
POSITIVE = {
    "log": lambda m, x: x.log(),
    "sqrt": lambda m, x: x.sqrt(),
    "rsqrt": lambda m, x: x.rsqrt(),
    "reciprocal": lambda m, x: x.reciprocal(),
    "1 / x": lambda m, x: 1 / x,
    "pow 0.5": lambda m, x: x**0.5,
    "pow -1.5": lambda m, x: x.pow(-1.5),
    "x ** x": lambda m, x: x**x,
}
VECTOR = {  # at least one axis
    **{
        f"{name} {dim} {keep}": (lambda m, x, name=name, dim=dim, keep=keep: getattr(x, name)(dim=dim, keepdim=keep))
        for name in ("sum", "mean", "amax", "amin", "logsumexp")
        for dim in (0, -1, (0, -1))
        for keep in (False, True)
    },
    **{
        f"{name} {dim} {keep}": (lambda m, x, name=name, dim=dim, keep=keep: getattr(x, name)(dim, keepdim=keep))
        for name in ("max", "min", "argmax", "argmin", "prod")
        for dim in (0, -1)
        for keep in (False, True)
    },
    **{
        f"{name} {dim}": (lambda m, x, name=name, dim=dim: getattr(x, name)(dim))
        for name in ("softmax", "log_softmax", "cumsum")
        for dim in (0, -1)
    },
    "argsort": lambda m, x: [x.argsort(), x.argsort(0), x.argsort(-1, descending=True), x.argsort(stable=True)],
    "sort": lambda m, x: [*x.sort(), *x.sort(0, descending=True)],
    "topk": lambda m, x: [*x.topk(1), *x.topk(2, dim=-1), *x.topk(2, dim=-1, largest=False)],
    "all any dim": lambda m, x: [
        (x > 0).all(-1),
        (x > 0).any(0),
        (x > 0).any(-1, keepdim=True),
        (x > 0).all(dim=0, keepdim=True),
    ],
    "flip": lambda m, x: [x.flip(0), x.flip(-1), x.flip([0]), x.flip((-1,))],
    "roll dim": lambda m, x: [x.roll(1, 0), x.roll(-2, -1), x.roll(5, 0)],
    "split": lambda m, x: [x.split(2, -1), x.split([1, x.shape[-1] - 1], dim=-1), x.split(1)],
    "chunk": lambda m, x: [x.chunk(2, -1), x.chunk(5, dim=-1), x.chunk(1)],
    "unbind": lambda m, x: [x.unbind(), x.unbind(-1)],
    "iterate": lambda m, x: list(x),
    "narrow": lambda m, x: [x.narrow(-1, 1, 1), x.narrow(0, -2, 2), x.narrow(dim=0, start=0, length=0)],
    "select": lambda m, x: [x.select(0, -1), x.select(-1, 1)],
    "index_select": lambda m, x: x.index_select(-1, m.tensor([1, 1, 0])),
    "take": lambda m, x: [x.take(m.tensor([[0, 1], [1, -1]])), x.take(m.tensor(1))],
    "repeat_interleave": lambda m, x: [x.repeat_interleave(2, 0), x.repeat_interleave(3, dim=-1)],
    "cat": lambda m, x: [m.cat([x, x * 2]), m.cat((x, x, x), dim=-1)],
    "stack": lambda m, x: [m.stack([x, x * 2]), m.stack((x, x), dim=-1), m.stack([x, x], 1)],
    "unsqueeze": lambda m, x: [x.unsqueeze(1), x.unsqueeze(-2), x.unsqueeze(dim=-1)],
    "transpose": lambda m, x: [x.transpose(0, -1), x.transpose(-1, 0), x.transpose(0, 0)],
    "permute": lambda m, x: [
        x.permute(*range(x.ndim)[::-1]),
        x.permute(tuple(range(x.ndim))),
        x.permute(-1, *range(x.ndim - 1)),
    ],
    "mean of parts": lambda m, x: x.mean(0) + x.mean(dim=0, keepdim=True),
    "nonzero": lambda m, x: [(x > 0).nonzero(), *(x > 0).nonzero(as_tuple=True)],
    "gather first": lambda m, x: x.gather(-1, x.argsort(-1)),
    "sum int": lambda m, x: [
        (x > 0).sum(-1),
        (x > 0).sum(),
        (x * 9).long().sum(0),
        (x * 9).int().cumsum(-1),
        (x > 0).cumsum(0),
    ],
}
SPREAD = {
    f"{name} {dim} {kw}": (lambda m, x, name=name, dim=dim, kw=kw: getattr(x, name)(dim, **kw))
    for name in ("var", "std")
    for dim in (0, -1, (0, -1))
    for kw in ({}, {"keepdim": True}, {"unbiased": False}, {"correction": 0})
    if not (isinstance(dim, tuple) and "unbiased" in kw)
} | {"var all": lambda m, x: [x.var(), x.std(), x.var(unbiased=False), x.var(-1, False), x.var(-1, unbiased=True)]}
MATRIX = {  # (2, 3, 4)
    "reshape": lambda m, x: [x.reshape(6, 4), x.reshape((4, -1)), x.reshape(2, 1, 12), x.view(-1, 4), x.view(2, -1)],
    "reshape of transposed": lambda m, x: x.transpose(0, 2).reshape(-1, 3),
    "view_as": lambda m, x: x.view_as(m.zeros(4, 6)),
    "flatten part": lambda m, x: [x.flatten(1), x.flatten(0, 1), x.flatten(-2, -1), x.flatten(start_dim=1, end_dim=1)],
    "permute": lambda m, x: [x.permute(2, 0, 1), x.permute((1, 2, 0)), x.permute(-1, 0, -2)],
    "T of matrix": lambda m, x: [x[0].T, x[0].t(), x.mT, x[0, 0].t(), x.swapaxes(0, 1)],
    "squeeze": lambda m, x: [
        x[:1].squeeze(0),
        x[:1].squeeze(1),
        x[:, :1, :1].squeeze(),
        x[:, :1, :1].squeeze((1, -1)),
        x[:, :1].squeeze(-2),
    ],
    "sum of axes": lambda m, x: [x.sum((0, 2)), x.sum([1]), x.sum((-1, 0), keepdim=True), x.mean((0, 1)), x.amax((1, 2))],
    "flip axes": lambda m, x: [x.flip(0, 2), x.flip((1, 2)), x.flip([-1, 0])],
    "roll axes": lambda m, x: [x.roll((1, -1), (0, 2)), x.roll(shifts=2, dims=1)],
    "tril triu": lambda m, x: [
        x.tril(),
        x.triu(),
        x.tril(1),
        x.triu(1),
        x.tril(diagonal=-1),
        x.triu(diagonal=-2),
        x[0].tril(9),
        x[0].triu(-9),
    ],
    "triangles of bool": lambda m, x: [(x > 0).tril(), (x > 0).triu(1), (9 * x).long().tril()],
    "gather": lambda m, x: [
        x[..., 0].gather(1, m.tensor(INDEX)),
        x.gather(2, m.tensor(INDEX[:, :3, None])),
        x.gather(-2, m.tensor(INDEX[:1, :2, None])),
    ],
    "scatter": lambda m, x: [
        m.zeros(2, 3, dtype=x.dtype).scatter(1, m.tensor(INDEX[:, :3] * 0 + [2, 0, 1]), x[..., 1]),
        x.scatter(1, m.tensor([[[1]], [[0]]]), x[:, :1, :1] * 2),
        x.scatter(2, m.tensor([[[3]]]), 5.0),
    ],
    "scatter_add": lambda m, x: m.zeros(2, 3, dtype=x.dtype).scatter_add(1, m.tensor(INDEX), x[:, 0]),
    "index_add": lambda m, x: [x.index_add(1, m.tensor([0, 0]), x[:, 1:]), x.index_add(-1, m.tensor([2]), x[..., :1])],
    "repeat": lambda m, x: [x.repeat(1, 2, 1), x.repeat((2, 1, 1, 3)), x.repeat(2, 0, 1)],
    "expand": lambda m, x: [x[:, :1].expand(2, 5, 4), x[:, :, :1].expand(-1, -1, 6), x[:1].expand(3, 2, 3, 4)],
    "unbind": lambda m, x: x.unbind(dim=1),
    "split last": lambda m, x: x.split(3, dim=2),
    "chunk": lambda m, x: [x.chunk(3, dim=-1), x.chunk(2, dim=1)],
    "stack 4": lambda m, x: m.stack([x, x.exp()], dim=3),
    "cat parts": lambda m, x: m.cat([x[:, :1], x, x[:, :0]], dim=1),
    "masked_fill": lambda m, x: [
        x[..., 0].masked_fill(m.tensor(COND), float("-inf")).exp(),
        x[..., 0].masked_fill(m.tensor(COND[0]), 2),
    ],
    "masked_fill of ints": lambda m, x: [
        (9 * x[..., 0]).long().masked_fill(m.tensor(COND), 3),
        (x[..., 0] > 0).masked_fill(m.tensor(COND), True),
    ],
    "outer": lambda m, x: m.outer(x[0, 0], x[1, :, 0]),
    "norm of softmax": lambda m, x: [x.softmax(1), x.softmax(dim=-2), x.log_softmax(0), x.softmax(-1, dtype=m.float64)],
    "residual chain": lambda m, x: (x + (x * 2).relu()).softmax(-1).log().mean(),
    "max pair": lambda m, x: [x.max(x.flip(0)), x.min(x.flip(-1)), x.maximum(x * 2), m.minimum(x, x.flip(1))],
    "int arithmetic": lambda m, x: [
        (9 * x).long() / 2,
        (9 * x).long() // 2,
        (9 * x).long() % 4,
        (9 * x).int() * 2,
        -(9 * x).long(),
        (x > 0) * 2,
        (9 * x).long().abs(),
        (9 * x).long() ** 2,
        (9 * x).long().clamp(-3, 3),
        (x > 0) + 1.5,
    ],
    "int functions": lambda m, x: [
        f((5 * x).long()) for f in (m.Tensor.exp, m.Tensor.sin, m.Tensor.tanh, m.Tensor.sigmoid, m.Tensor.relu)
    ],
    "int extremes": lambda m, x: [*(9 * x).long().max(-1), (9 * x).int().amin(1), (9 * x).long().min(), (9 * x).long().prod(0)],
}
PAIR = {
    "+": lambda m, x, y: x + y,
    "-": lambda m, x, y: x - y,
    "*": lambda m, x, y: x * y,
    "/": lambda m, x, y: x / y,
    "**": lambda m, x, y: x**y,
    "add": lambda m, x, y: [x.add(y), x.sub(y), x.mul(y), x.div(y), x.pow(y)],
    "maximum": lambda m, x, y: [m.maximum(x, y), x.maximum(y), m.minimum(x, y), x.minimum(y), x.max(y)],
    "where": lambda m, x, y: m.where((x > y), x, y),
    "compare": lambda m, x, y: [x > y, x >= y, x < y, x <= y, x == y, x != y, x.eq(y), x.ne(y), x.lt(y), x.ge(y)],
    "clamp to tensor": lambda m, x, y: [x.clamp(min=y), x.clamp(max=y), x.clamp(y, y + 1)],
    "// and %": lambda m, x, y: [x.detach() // y.detach(), x.detach() % y.detach()],
}
MATMUL = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (4, 3, 2)),
    ((4, 5, 2, 3), (3,)),
    ((3,), (4, 5, 3, 2)),
    ((4, 5, 2, 3), (3, 2)),
    ((1, 1), (1, 1)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 3)),
    ((4, 2, 0), (0, 3)),
    ((0, 2, 3), (3, 2)),
    ((0,), (0,)),
    ((4, 1, 3), (1, 3, 2)),
]

SHAPES = [(2, 3), (), (1,), (3, 1, 2), (0, 2)]
NO_EMPTY = {"max", "min", "amax", "amin", "argmax", "argmin"}
TABLE = (
    [(n, f, (s,), {}) for n, f in UNARY.items() for s in SHAPES if not (n in NO_EMPTY and 0 in s)]
    + [(n, f, (s,), {"low": 0.2, "high": 3.0}) for n, f in POSITIVE.items() for s in SHAPES]
    + [(n, f, (s,), {}) for n, f in VECTOR.items() for s in [(2, 3), (3, 2, 2), (4,)] if not (len(s) == 1 and "(0, -1)" in n)]
    + [(n, f, (s,), {}) for n, f in SPREAD.items() for s in [(3, 4), (2, 2, 3)]]
    + [(n, f, ((2, 3, 4),), {}) for n, f in MATRIX.items()]
    + [
        (n, f, s, {"low": 0.2, "high": 2.0})
        for n, f in PAIR.items()
        for s in [
            ((2, 3), (2, 3)),
            ((2, 3), (3,)),
            ((2, 1), (1, 3)),
            ((), (2,)),
            ((3,), ()),
            ((), ()),
            ((1, 1), (2,)),
            ((0, 2), (2,)),
        ]
    ]
    + [
        (f"matmul {form}", f, s, {})
        for form, f in {"@": lambda m, x, y: x @ y, "matmul": lambda m, x, y: m.matmul(x, y)}.items()
        for s in MATMUL
    ]
)


@pytest.mark.parametrize("dtype", [F32, F64], ids=["float32", "float64"])
@pytest.mark.parametrize(
    "function, shapes, interval", [t[1:] for t in TABLE], ids=[f"{t[0]}-{t[2]}".replace(" ", "_") for t in TABLE]
)
@pytest.mark.filterwarnings("ignore:The use of `x.T`")
def test_same_as_torch(function, shapes, interval, dtype, same_as_torch, calculus):
    same_as_torch(function, *(calculus.numbers(*s, salt=i, **interval).astype(dtype) for i, s in enumerate(shapes)))


@pytest.mark.parametrize(
    "name", ["max", "min", "amax", "amin", "prod", "std", "var", "norm", "logsumexp", "maximum", "abs", "relu", "clamp", "sort"]
)
def test_same_as_torch_at_ties_zeros_and_kinks(name, same_as_torch):
    x = np.array([[2.0, 2.0, 2.0], [0.0, -0.0, 0.0], [1.0, 0.0, 1.0]])
    functions = {
        "max": lambda m, x: [x.max(), x.max(1).values],
        "min": lambda m, x: [x.min(), x.min(0).values],
        "amax": lambda m, x: [x.amax(1), x.amax(0)],
        "amin": lambda m, x: [x.amin(1), x.amin((0, 1))],
        "prod": lambda m, x: [x.prod(1), x.prod(0), x.prod()],
        "std": lambda m, x: x.std(1),
        "var": lambda m, x: x.var(1),
        "norm": lambda m, x: [x.norm(), x[1].norm()],
        "logsumexp": lambda m, x: x.logsumexp(1),
        "maximum": lambda m, x: [m.maximum(x, x.flip(1)), m.minimum(x, x.flip(0)), m.maximum(x, m.zeros_like(x))],
        "abs": lambda m, x: x.abs(),
        "relu": lambda m, x: x.relu(),
        "clamp": lambda m, x: [x.clamp(0, 2), x.clamp(min=0), x.clamp(max=m.ones_like(x))],
        "sort": lambda m, x: x.sort(stable=True).values if m.__name__ == "torch" else x.sort().values,
    }
    same_as_torch(functions[name], x)


def test_0d_tensors_along_their_only_dim_are_as_in_torch(same_as_torch):
    same_as_torch(
        lambda m, x: [
            x.sum(0),
            x.sum(-1),
            x.mean(0),
            x.cumsum(0),
            x.prod(0),
            x.softmax(0),
            x.log_softmax(-1),
            x.logsumexp(0),
            *x.max(0),
            x.amax(0),
            x.argmax(0),
            x.transpose(0, -1),
            x.squeeze(0),
            x.flatten(),
        ],
        np.array(1.5),
    )


SCOPE = """
sum mean max min var std argmax argmin prod cumsum logsumexp exp log sqrt rsqrt sin cos tanh sigmoid relu abs pow clamp
where maximum minimum reshape view transpose permute squeeze unsqueeze expand flatten split chunk unbind repeat
repeat_interleave flip roll tril triu gather scatter take index_select detach retain_grad register_hook requires_grad_
backward item numpy tolist size numel dim float long double int bool to type cpu masked_fill masked_fill_ copy_ fill_
zero_ scatter_ index_add_ normal_ uniform_ nonzero unique any all topk sort is_contiguous contiguous clone type_as
softmax log_softmax
"""


@pytest.mark.parametrize("name", SCOPE.split())
def test_every_method_in_the_scope_exists(name):
    assert callable(getattr(Tensor, name))
