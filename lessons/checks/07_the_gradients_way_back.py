"""What the answers to lesson 7 are tried on, and the mistakes that are known."""

import itertools
import math
import operator

import numpy as np

from lessons.exercise import Exercise, Wrong


def _factors(slopes, add):
    return [1 + s if add else s for s in slopes]


def _back(factors):
    return list(itertools.accumulate(reversed(factors), operator.mul, initial=1.0))[::-1]


def _forward(slopes, add):
    return list(itertools.accumulate(_factors(slopes, add), operator.mul, initial=1.0))


def _count(factor, limit, *, below=operator.lt, start=0):
    if abs(factor) >= 1:
        return None
    layers, size = start, 1.0
    while not below(size, limit) and layers < 10_000:
        size *= abs(factor)
        layers += 1
    return layers


def _stepwise(slopes, add, residual):
    gradients = [1.0]
    for s in reversed(slopes):
        gradients.append(residual(gradients[-1], s) if add else gradients[-1] * s)
    return gradients[::-1]


def _by_logarithm(factor, limit, size=float, exact=True):
    if size(factor) >= 1:
        return None
    layers = math.log(limit) / math.log(size(factor))
    return math.floor(layers) + 1 if exact else math.ceil(layers)


def _with_sign(factor, limit):
    if factor >= 1:
        return None
    layers, size = 0, 1.0
    while size >= limit and layers < 10_000:
        size *= factor
        layers += 1
    return layers


EXERCISES = [
    Exercise(
        "slope",
        cases=lambda rng: [(0.0,), (1.0,), (-3.0,), (rng.normal(size=(2, 3)),)],
        wrong=[
            Wrong("numbers alone", lambda x: 0.5 * (1 - math.tanh(x / 2) ** 2),
                  "Right for one number. math.tanh takes no array; np.tanh takes both."),
            Wrong("inner slope", lambda x: 1 - np.tanh(x / 2) ** 2,
                  "Twice too large: x / 2 inside changes half as fast as x, so the chain rule brings a factor of ½."),
            Wrong("tanh of x", lambda x: 0.5 * (1 - np.tanh(x) ** 2),
                  "Your tanh is taken at x. Its slope is needed where F takes it, at x / 2."),
            Wrong("no square", lambda x: 0.5 * (1 - np.tanh(x / 2)),
                  "The slope of tanh is 1 minus its square: tanh(x / 2) ** 2."),
            Wrong("square of all", lambda x: 0.5 * (1 - np.tanh(x / 2)) ** 2,
                  "The square belongs to the tanh alone: 1 - tanh(x / 2) ** 2, not (1 - tanh(x / 2)) ** 2."),
            Wrong("plain tanh", lambda x: 1 - np.tanh(x) ** 2,
                  "That is the slope of tanh(x). F is tanh(x / 2): take it at x / 2, and times ½ for the inner slope."),
            Wrong("the function", lambda x: np.tanh(x / 2), "That is F itself; asked for is how fast it changes."),
            Wrong("the factor", lambda x: 1 + 0.5 * (1 - np.tanh(x / 2) ** 2),
                  "That is the factor of a whole residual layer, with the 1 of the skip path. Asked for is F′ alone."),
        ],
        properties=[("it is positive: tanh(x / 2) only rises", lambda s, x: (np.asarray(s) > 0).all())],
    ),
    Exercise(
        "arrived",
        cases=lambda rng: [
            ([0.4, 0.5, 0.25], False),
            ([0.4, 0.5, 0.25], True),
            ([], True),
            ([-0.5, 2.0], True),
            (rng.uniform(-1, 1, size=6).tolist(), False),
            (rng.uniform(-1, 1, size=6).tolist(), True),
        ],
        wrong=[
            Wrong("the 1 forgotten", lambda slopes, add: _back(slopes),
                  "Your layers that add are treated like those that replace: with the skip path the factor is 1 + F′."),
            Wrong("always 1 +", lambda slopes, add: _back(_factors(slopes, True)),
                  "You add 1 in the plain stack too. Without a skip path the factor is F′ alone."),
            Wrong("from the input", _forward,
                  "You multiply from the input on: your first number is 1. The gradient starts as 1 at the output, the "
                  "last number."),
            Wrong("turned round", lambda slopes, add: _back(_factors(slopes, add))[::-1],
                  "Right numbers, turned round: the gradient at the stack's input comes first, the 1 at its output last."),
            Wrong("one short", lambda slopes, add: _back(_factors(slopes, add))[:-1],
                  "The 1 at the output is missing: n layers have n + 1 numbers between and around them."),
            Wrong("only the factors", lambda slopes, add: [*_factors(slopes, add), 1.0],
                  "These are the factors of each layer. What arrives has been multiplied by all the layers behind it."),
            Wrong("one along the skip", lambda slopes, add: _stepwise(slopes, add, lambda g, s: g * s + 1),
                  "Along the skip path comes what arrived, g, not 1: a layer that adds hands on g * s + g."),
            Wrong("slope alone", lambda slopes, add: _stepwise(slopes, add, lambda g, s: g + s),
                  "The branch hands on its slope times what arrived: g + g * s, not g + s."),
            Wrong("sum", lambda slopes, add: list(itertools.accumulate(reversed(_factors(slopes, add)), initial=1.0))[::-1],
                  "You add the factors. One layer after the other multiplies the gradient."),
        ],
        properties=[("the gradient at the output is 1", lambda r, slopes, add: r[-1] == 1)],
    ),
    Exercise(
        "residual_backward",
        cases=lambda rng: [
            (np.array([1.0, 0.0]), np.array([[0.0, 1.0], [0.0, 0.0]])),
            (rng.normal(size=4), rng.normal(size=(4, 4))),
            (rng.normal(size=3), np.zeros((3, 3))),
        ],
        wrong=[
            Wrong("not transposed", lambda g, J: (g, J @ g),
                  "J @ g pushes a change of the input forward. A gradient goes back through the transposed: J.T @ g."),
            Wrong("element by element", lambda g, J: (g, np.diag(J) * g),
                  "You take only the diagonal. Every output depends on every input: J.T @ g."),
            Wrong("the sum alone", lambda g, J: g + J.T @ g,
                  "That is the whole gradient. Asked for are its two parts, as a pair: return g, jacobian.T @ g."),
            Wrong("the sum as well", lambda g, J: (g, g + J.T @ g),
                  "Your second part is the whole gradient. It has to be the branch's share alone, J.T @ g."),
            Wrong("turned round", lambda g, J: (J.T @ g, g),
                  "The two are exchanged: first what came along the skip path, then what came through the branch."),
            Wrong("ones", lambda g, J: (np.ones_like(g), J.T @ g),
                  "Along the skip path the slope is 1, so what arrives there is 1 times g: g itself."),
            Wrong("no skip", lambda g, J: (np.zeros_like(g), J.T @ g),
                  "Nothing comes along your skip path. A sum hands g, whole, to both of its terms."),
        ],
        properties=[("a silent branch passes the gradient on as it is",
                     lambda parts, g, J: bool(J.any()) or np.allclose(parts[0] + parts[1], g))],
    ),
    Exercise(
        "layers_until",
        cases=lambda rng: [(0.5, 0.001), (-0.5, 0.001), (0.5, 0.25), (0.9, 0.5), (1.5, 0.1), (-1.0, 0.5), (1.0, 1.0),
                           (0.25, 1.0), (0.0, 0.5)],
        wrong=[
            Wrong("at the limit", lambda f, limit: _count(f, limit, below=operator.le),
                  "Off by one where the limit is met exactly: below it means <, not <=."),
            Wrong("one too many", lambda f, limit: _count(f, limit, start=1),
                  "One too many: before the first layer the gradient is 1, after 0 layers."),
            Wrong("one too few", lambda f, limit: None if (n := _count(f, limit)) is None else n - 1,
                  "One too few: you count the layers while it is not yet below. The one that takes it below counts too."),
            Wrong("the sign", _with_sign,
                  "A negative gradient is not a small one: -0.5 has the size 0.5. Compare abs()."),
            Wrong("logarithm of a negative", _by_logarithm,
                  "A negative factor has no logarithm, and 0 has none. The size counts: take abs(factor); with a factor of 0 "
                  "one layer is enough."),
            Wrong("logarithm of a negative, ceil", lambda f, limit: _by_logarithm(f, limit, exact=False),
                  "A negative factor has no logarithm: take abs(factor), and treat 0 by itself. Where the limit is met "
                  "exactly, ceil is one short: below means <."),
            Wrong("logarithm of 0", lambda f, limit: _by_logarithm(f, limit, size=abs),
                  "Right but for a factor of 0, which has no logarithm: there one layer is enough."),
            Wrong("logarithm, ceil", lambda f, limit: _by_logarithm(f, limit, size=abs, exact=False),
                  "ceil is one short where the limit is met exactly: below means <. And 0 has no logarithm: treat it by "
                  "itself."),
            Wrong("with the skip", lambda f, limit: _count(1 + f, limit),
                  "You add 1 for a skip path; `factor` is all that a layer multiplies by."),
        ],
    ),
]
