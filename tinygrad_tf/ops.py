"""The table of derivatives: every primitive, its value and its rule.

Each rule is written with NumPy functions, so it runs on arrays in backward and on tensors when backward is itself recorded.
Rules treat the incoming gradient `g` as read-only. Sums over broadcast axes are the engine's work, not the rule's.

At a kink: relu and abs give 0 at 0 (and at -0); clamp passes the gradient at both edges; maximum and minimum split it evenly
on a tie, and so do amax and amin among all elements that tie.
"""

from __future__ import annotations

import math

import numpy as np

from .engine import Traced, added, op, plain, recast
from .errors import called, whole

# ------------------------------------------------------------------------------------------------ arithmetic


@op
def add(a, b):
    """(...), (...) -> (...)   y = a + b"""
    return a + b, (lambda g: g, lambda g: g)


@op
def sub(a, b):
    """(...), (...) -> (...)   y = a - b"""
    return a - b, (lambda g: g, lambda g: -g)


@op
def mul(a, b):
    """(...), (...) -> (...)   y = a * b"""
    return a * b, (lambda g: g * b, lambda g: g * a)


@op
def div(a, b):
    """(...), (...) -> (...)   y = a / b"""
    return a / b, (lambda g: g / b, lambda g: -(g / b) * (a / b))


@op
def remainder(a, b):
    """(...), (...) -> (...)   y = a - b * floor(a / b), which has the sign of b; exact, where that formula is not"""
    times = np.floor_divide(plain(a), plain(b))
    return np.remainder(a, b), (lambda g: g, lambda g: -g * times)


@op
def neg(x):
    """(...) -> (...)   y = -x"""
    return -x, (lambda g: -g,)


@op
def pow(a, b):
    """(...), (...) -> (...)   y = a ** b; where b = 0 the slope in a is 0, where a = 0 the slope in b is 0"""
    y = a**b
    if isinstance(b, (int, float)):
        return y, (lambda g: g * (b * a ** (b - 1)) if b != 0 else g * 0, lambda g: g * y * np.log(np.where(a == 0, 1, a)))
    below = np.where(b == 0, 1, b - 1)
    return y, (lambda g: g * np.where(b == 0, 0, b * a**below), lambda g: g * y * np.log(np.where(a == 0, 1, a)))


@op
def residual(x, branch):
    """(...), (...) -> (...)   y = x + branch; an addition whose node remembers that its first operand is the skip"""
    return x + branch, (lambda g: g, lambda g: g)


@op
def dropout(x, *, keep):
    """(...) -> (...)   y = x * keep; keep is 0 for what is dropped and 1 / (1 - p) for what stays"""
    return x * keep, (lambda g: g * keep,)


# ------------------------------------------------------------------------------------------------ functions of one number


@op
def exp(x):
    """(...) -> (...)   y = e ** x"""
    y = np.exp(x)
    return y, (lambda g: g * y,)


@op
def expm1(x):
    """(...) -> (...)   y = e ** x - 1, exact for a small x"""
    return np.expm1(x), (lambda g: g * np.exp(x),)


@op
def log(x):
    """(...) -> (...)   y = ln x"""
    return np.log(x), (lambda g: g / x,)


@op
def log2(x):
    """(...) -> (...)   y = ln x / ln 2"""
    return np.log2(x), (lambda g: g / (x * math.log(2)),)


@op
def log10(x):
    """(...) -> (...)   y = ln x / ln 10"""
    y = np.log10(plain(x).astype(np.float64))  # NumPy's of float32 makes 2.0000002 of 100
    return y, (lambda g: g / (x * math.log(10)),)


@op
def log1p(x):
    """(...) -> (...)   y = ln (1 + x), exact for a small x"""
    return np.log1p(x), (lambda g: g / (1 + x),)


@op
def sqrt(x):
    """(...) -> (...)   y = x ** 0.5"""
    y = np.sqrt(x)
    return y, (lambda g: g / (2 * y),)


@op
def sin(x):
    """(...) -> (...)   y = sin x"""
    return np.sin(x), (lambda g: g * np.cos(x),)


@op
def cos(x):
    """(...) -> (...)   y = cos x"""
    return np.cos(x), (lambda g: -g * np.sin(x),)


@op
def tanh(x):
    """(...) -> (...)   y = tanh x"""
    y = np.tanh(x)
    return y, (lambda g: g * (1 - y * y),)


@op
def sigmoid(x):
    """(...) -> (...)   y = 1 / (1 + e ** -x), written so that nothing overflows and a y near 0 keeps its digits"""
    if x.dtype.kind in "bu":
        x = x.astype(np.float32)  # neither bytes nor booleans have negatives
    y = np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x)))
    return y, (lambda g: g * (y * (1 - y)),)


@op
def logsigmoid(x):
    """(...) -> (...)   y = ln sigmoid(x), written so that nothing overflows"""
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))), (lambda g: g * sigmoid(-x),)


@op
def abs(x):
    """(...) -> (...)   y = |x|"""
    return np.abs(x), (lambda g: g * np.sign(x),)


@op
def relu(x):
    """(...) -> (...)   y = max(x, 0)"""
    y = np.maximum(x, 0)
    return y, (lambda g: g * (y > 0),)


@op
def clamp(x, *, min=None, max=None):
    """(...) -> (...)   y = x, but at least min and at most max; None is no limit"""
    y = np.clip(x, min, max)
    inside = x == y
    return y, (lambda g: g * inside,)


@op
def cast(x, *, dtype):
    """(...) -> (...)   the same numbers in another dtype, OverflowError if an integer dtype cannot hold one"""
    before = x.dtype
    return recast(x, dtype), (lambda g: g.astype(before),)


# ------------------------------------------------------------------------------------------------ choices


@op
def maximum(a, b):
    """(...), (...) -> (...)   the larger"""
    return np.maximum(a, b), (lambda g: np.where(a == b, g / 2, g * (a > b)), lambda g: np.where(a == b, g / 2, g * (b > a)))


@op
def minimum(a, b):
    """(...), (...) -> (...)   the smaller"""
    return np.minimum(a, b), (lambda g: np.where(a == b, g / 2, g * (a < b)), lambda g: np.where(a == b, g / 2, g * (b < a)))


@op
def where(a, b, *, condition):
    """(...), (...) -> (...)   a where the condition holds, else b"""
    return np.where(condition, a, b), (lambda g: np.where(condition, g, 0), lambda g: np.where(condition, 0, g))


# ------------------------------------------------------------------------------------------------ sums over axes


def axes(dim, ndim: int) -> tuple[int, ...]:
    """The axes that `dim` names (None: all), as numbers from 0."""
    if dim is None:
        return tuple(range(ndim))
    dims = (dim,) if isinstance(dim, (int, np.integer)) or not np.iterable(dim) else tuple(dim)
    found = tuple([place(d, ndim) for d in dims])
    if len(set(found)) < len(found):
        raise ValueError(f"{called()}dim {dims} names an axis twice")
    return found if ndim else ()


def place(dim, ndim: int) -> int:
    """The number from 0 of the axis that the number `dim` names. A 0-d tensor takes 0 and -1, as if it had one axis."""
    count = ndim or 1
    if type(dim) is not int:
        dim = whole("dim", dim)
    if not -count <= dim < count:
        raise IndexError(f"{called()}dim {dim} is out of range for a tensor with {ndim} axes, {-count} to {count - 1}")
    return dim % count


def axis(dim, ndim: int) -> int:
    """The one axis that `dim` names, as a number from 0."""
    found = axes(dim, ndim)
    if len(found) != 1:
        raise ValueError(f"{called()}dim={dim} must name one axis of a tensor with {ndim} axes")
    return found[0]


def spread(g, shape, along, keepdim):
    """Bring a reduced array back to `shape`: put back the axes that were reduced, and repeat along them."""
    if not keepdim:
        g = np.reshape(g, tuple(1 if i in along else n for i, n in enumerate(shape)))
    return np.broadcast_to(g, shape)


@op
def sum(x, *, dim=None, keepdim=False):
    """(...) -> (... less dim)   y = sum of x along dim"""
    along, shape = axes(dim, x.ndim), x.shape
    return added(x, along, keepdim), (lambda g: spread(g, shape, along, keepdim),)


@op
def amax(x, *, dim=None, keepdim=False):
    """(...) -> (... less dim)   y = the largest along dim"""
    along = axes(dim, x.ndim)
    y = np.max(x, axis=along, keepdims=keepdim)

    def rule(g):
        tie = plain(x) == plain(spread(y, x.shape, along, keepdim))
        return spread(g, x.shape, along, keepdim) * (tie / np.sum(tie, axis=along, keepdims=True))

    return y, (rule,)


@op
def logsumexp(x, *, dim, keepdim=False):
    """(...) -> (... less dim)   y = ln sum e ** x along dim, the largest x taken out first so that nothing overflows"""
    along = axes(dim, x.ndim)
    top = np.max(plain(x), axis=along, keepdims=True) if all(x.shape[i] for i in along) else 0
    top = np.where(np.isfinite(top), top, 0)
    e = np.exp(x - top)
    total = np.sum(e, axis=along, keepdims=True)
    with np.errstate(divide="ignore"):  # ln 0 = -inf: of no numbers at all, or of -inf alone
        y = np.log(total) + top
    out = y if keepdim else np.reshape(y, tuple(n for i, n in enumerate(x.shape) if i not in along))
    return out, (lambda g: spread(g, x.shape, along, keepdim) * (e / total),)  # not e ** (x - y): y has lost digits


@op
def cumsum(x, *, dim):
    """(...) -> (...)   y_i = x_0 + ... + x_i along dim"""
    along = axis(dim, x.ndim)
    return running(x, along), (lambda g: np.flip(running(np.flip(g, along), along), along),)


def running(x, along):
    """np.cumsum; float32 in float64, since the sum so far is rounded with every number"""
    if isinstance(x, np.ndarray) and x.dtype == np.float32:
        return np.cumsum(x, axis=along, dtype=np.float64).astype(np.float32)
    return np.cumsum(x, axis=along)


@op
def prod(x, *, dim, keepdim=False):
    """(...) -> (... less dim)   y = product along dim; the slope in each factor is the product of the others"""
    along = axis(dim, x.ndim)
    factors = np.moveaxis(x, along, -1)
    one = np.ones_like(factors[..., :1])
    before = np.cumprod(np.concatenate([one, factors], -1), -1)[..., : x.shape[along]]
    after = np.cumprod(np.concatenate([one, factors[..., ::-1]], -1), -1)[..., : x.shape[along]][..., ::-1]
    others = np.moveaxis(before * after, -1, along)  # no division: a factor may be zero
    return np.prod(x, axis=along, keepdims=keepdim), (lambda g: spread(g, x.shape, (along,), keepdim) * others,)


@prod.reference
def _(x, *, dim, keepdim=False):
    along = axis(dim, x.ndim)
    part = [getitem(x, index=(slice(None),) * along + (slice(i, i + 1),)) for i in range(x.shape[along])]
    y = part[0] if part else add(sum(x, dim=along, keepdim=True), 1)  # no factor at all: 1
    for factor in part[1:]:
        y = mul(y, factor)
    return y if keepdim else reshape(y, shape=x.shape[:along] + x.shape[along + 1 :])


# ------------------------------------------------------------------------------------------------ products of matrices


@op(alike=True)
def matmul(a, b):
    """(..., M, K), (..., K, N) -> (..., M, N)   y = a @ b; a vector counts as one row on the left, one column on the right"""
    y = np.matmul(dense(a), dense(b))
    a_axes, b_axes = a.ndim, b.ndim
    rows = a if a_axes > 1 else np.expand_dims(a, 0)
    columns = b if b_axes > 1 else np.expand_dims(b, 1)

    def full(g):
        g = g if a_axes > 1 else np.expand_dims(g, -1 if b_axes == 1 else -2)
        return dense(g if b_axes > 1 else np.expand_dims(g, -1))

    def by_a(g):  # g @ b^T
        y = np.matmul(full(g), np.swapaxes(columns, -1, -2))
        return y if a_axes > 1 else _first(y, -2)

    def by_b(g):  # a^T @ g
        if b_axes == 2 and a_axes > 2:  # one product in place of a batch of them that would be added up
            return np.matmul(np.swapaxes(_flat(rows), 0, 1), _flat(full(g)))
        y = np.matmul(np.swapaxes(rows, -1, -2), full(g))
        return y if b_axes > 1 else _first(y, -1)

    return y, (by_a, by_b)


def dense(x):
    """A copy of an array that repeats one value along a matrix axis: the matrix product is slow on those."""
    return np.ascontiguousarray(x) if isinstance(x, np.ndarray) and 0 in x.strides[-2:] and x.ndim > 1 else x


def _flat(x):
    return np.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))


def _first(x, axis):
    """The only entry along an axis of size 1, without that axis."""
    return np.reshape(x, x.shape[:axis] + (x.shape[axis + 1 :] if axis != -1 else ()))


# ------------------------------------------------------------------------------------------------ shapes and places


@op(view=True)
def reshape(x, *, shape):
    """(...) -> shape   the same numbers in the same order"""
    before = x.shape
    return x.reshape(shape), (lambda g: g.reshape(before),)


@op(view=True)
def permute(x, *, dims):
    """(...) -> (... in the order dims)   y's axis i is x's axis dims[i]"""
    dims = [d % x.ndim for d in dims]
    back = sorted(range(len(dims)), key=dims.__getitem__)
    return np.transpose(x, dims), (lambda g: np.transpose(g, back),)


@op(view=True)
def expand(x, *, shape):
    """(...) -> shape   repeated along new axes and axes of size 1, without copying; the engine sums the repeats back"""
    y = np.broadcast_to(x, shape)
    if y.size == x.size and x.flags.writeable:
        y.flags.writeable = True  # nothing is repeated: each number has its own place
    return y, (lambda g: g,)


@op(view=True)
def getitem(x, *, index):
    """(...) -> x[index]   any NumPy index"""
    shape = x.shape
    y = getitem(x, index=index) if isinstance(x, Traced) else x[index]  # a tensor's brackets mean what PyTorch means
    if isinstance(y, np.generic):  # a 0-d view in place of a copied number
        y = x[(*index, ...) if isinstance(index, tuple) else (index, ...)]
    return y, (lambda g: unindex(g, index=index, shape=shape),)


@op(view=True)
def diagonal(x, *, offset=0, dim1=0, dim2=1):
    """(..., M, ..., N, ...) -> (..., n)   where the place along dim2 is the place along dim1 plus offset"""
    shape, where = x.shape, (offset, place(dim1, x.ndim), place(dim2, x.ndim))
    y = np.diagonal(x, *where)
    if isinstance(y, np.ndarray):
        y.flags.writeable = x.flags.writeable  # NumPy's is for reading only

    def rule(g):
        places = np.diagonal(np.arange(math.prod(shape)).reshape(shape), *where)
        return np.reshape(unindex(g, index=places, shape=(math.prod(shape),)), shape)

    return y, (rule,)


@op
def clone(x):
    """(...) -> (...)   a copy"""
    return np.array(plain(x), order="C"), (lambda g: g,)


@op
def unindex(g, *, index, shape):
    """x[index] -> shape   zeros, with g added at index: the transpose of getitem"""
    parts = index if isinstance(index, tuple) else (index,)
    y = np.zeros(shape, dtype=g.dtype)
    if any(isinstance(p, (list, np.ndarray)) and np.asarray(p).dtype != bool for p in parts):
        np.add.at(y, index, plain(g))  # an index may name a place twice
    else:
        y[index] = plain(g)
    return y, (lambda d: getitem(d, index=index),)


@op
def put(x, value, *, index):
    """(...), x[index] -> (...)   a copy of x with value at index, which must not name a place twice"""
    y = np.array(plain(x))
    shape = store(y, index, plain(value))
    return y, (lambda g: put(g, 0, index=index), lambda g: np.reshape(getitem(g, index=index), shape))


def store(y, index, value):
    """y[index] = value; the shape of y[index], with a 1 in front for every further axis of value, which must be of size 1."""
    place = y[index]
    if isinstance(place, np.generic):  # a number; with an ellipsis NumPy's errors speak of shapes
        index = (*index, ...) if isinstance(index, tuple) else (index, ...)
    front = (1,) * (value.ndim - place.ndim)
    y[index] = recast(value.reshape(value.shape[len(front) :]) if value.shape[: len(front)] == front else value, y.dtype)
    return front + place.shape


@op
def cat(*parts, dim=0):
    """(..., n1, ...), (..., n2, ...), ... -> (..., n1 + n2 + ..., ...)   joined along dim"""
    along = axis(dim, parts[0].ndim)
    y = np.concatenate([plain(part) for part in parts], along)
    ends = np.cumsum([part.shape[along] for part in parts]).tolist()
    slices = [(slice(None),) * along + (slice(end - p.shape[along], end),) for end, p in zip(ends, parts, strict=True)]
    return y, tuple((lambda g, place=place: getitem(g, index=place)) for place in slices)


# NumPy's own functions, called on a tensor, run these. A rule written for arrays then works on tensors too.
UFUNCS = {
    np.add: add, np.subtract: sub, np.multiply: mul, np.divide: div, np.negative: neg, np.power: pow, np.exp: exp, np.log: log,
    np.log1p: log1p, np.expm1: expm1, np.log2: log2, np.log10: log10, np.sqrt: sqrt, np.sin: sin, np.cos: cos, np.tanh: tanh,
    np.absolute: abs, np.maximum: maximum, np.minimum: minimum, np.matmul: matmul,
}  # fmt: skip
FUNCTIONS: dict = {
    np.sum: lambda x, axis=None, keepdims=False: sum(x, dim=axis, keepdim=keepdims),
    np.max: lambda x, axis=None, keepdims=False: amax(x, dim=axis, keepdim=keepdims),
    np.cumsum: lambda x, axis: cumsum(x, dim=axis),
    np.reshape: lambda x, shape: reshape(x, shape=shape),
    np.transpose: lambda x, axes: permute(x, dims=axes),
    np.swapaxes: lambda x, a, b: permute(x, dims=_swapped(x.ndim, a, b)),
    np.expand_dims: lambda x, axis: reshape(x, shape=_with_axis(x.shape, axis)),
    np.broadcast_to: lambda x, shape: expand(x, shape=shape),
    np.diagonal: lambda x, offset, dim1, dim2: diagonal(x, offset=offset, dim1=dim1, dim2=dim2),
    np.flip: lambda x, axis: getitem(x, index=(slice(None),) * (axis % x.ndim) + (slice(None, None, -1),)),
    np.where: lambda condition, a, b: where(a, b, condition=plain(condition)),
    np.clip: lambda x, low, high: clamp(x, min=low, max=high),
}


def _swapped(ndim, a, b):
    dims = list(range(ndim))
    dims[a], dims[b] = dims[b], dims[a]
    return tuple(dims)


def _with_axis(shape, axis):
    axis = axis % (len(shape) + 1)
    return (*shape[:axis], 1, *shape[axis:])
