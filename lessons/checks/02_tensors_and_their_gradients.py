"""What the answers to lesson 2 are tried on, and the mistakes that are known."""

import numpy as np

from lessons.exercise import Exercise, Wrong


def _products(rng):
    sizes = [(2, 3, 4), (3, 3, 3), (1, 5, 2)]
    return [(rng.normal(size=(n, k)), rng.normal(size=(k, m)), rng.normal(size=(n, m))) for n, k, m in sizes]


def _front_only(g, shape):
    return g.sum(axis=tuple(range(g.ndim - len(shape))))


def _mean_over_repeats(g, shape):
    lost = tuple(range(g.ndim - len(shape)))
    kept = tuple(i + len(lost) for i, n in enumerate(shape) if n == 1)
    return g.mean(axis=lost + kept).reshape(shape) if lost + kept else g


def _ones_only(g, shape):
    return g.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True)


def _squeezed(g, shape):
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    return g.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1))


def _first_of_the_repeats(g, shape):
    g = g[(0,) * (g.ndim - len(shape))]
    return g[tuple(slice(0, n) for n in shape)]


def _elementwise(f, x, h):
    return np.full(x.shape, (f(x + h) - f(x - h)) / (2 * h))


def _one_sided(f, x, h):
    grad = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        up = x.copy()
        up[place] += h
        grad[place] = (f(up) - f(x)) / h
    return grad


def _never_put_back(f, x, h):
    x, grad = x.copy(), np.zeros_like(x)
    for place in np.ndindex(x.shape):
        x[place] += h
        above = f(x)
        x[place] -= 2 * h
        grad[place] = (above - f(x)) / (2 * h)
    return grad


def _over_h(f, x, h):
    grad = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[place] += h
        down[place] -= h
        grad[place] = (f(up) - f(down)) / h
    return grad


def cubes(x):
    return float((x**3).sum())


def bent(x):
    return float(np.tanh(x).prod())


EXERCISES = [
    Exercise(
        "matmul_backward",
        cases=_products,
        wrong=[
            Wrong(
                "w not turned",
                lambda x, w, g: (g @ w, x.T @ g),
                "g @ w fits only where w is square, and is wrong even there: turn w round, g @ w.T has the shape of x.",
            ),
            Wrong(
                "x not turned",
                lambda x, w, g: (g @ w.T, x @ g),
                "x @ g fits only where x is square, and is wrong even there: x.T @ g has the shape of w.",
            ),
            Wrong(
                "neither turned",
                lambda x, w, g: (g @ w, x @ g),
                "Both matrices have to be turned round, or the shapes fit only by chance: g @ w.T for x, x.T @ g for w.",
            ),
            Wrong(
                "element by element",
                lambda x, w, g: (g * w, g * x),
                "* multiplies element by element, which is the rule of y = x * w. For y = x @ w it is @, with w.T and x.T.",
            ),
            Wrong(
                "result turned",
                lambda x, w, g: (g @ w.T, g.T @ x),
                "The gradient for w comes out turned round, (m, k): it is x.T @ g, in that order.",
            ),
            Wrong(
                "swapped",
                lambda x, w, g: (x.T @ g, g @ w.T),
                "The two are swapped: first the gradient for x, which has the shape of x, then the one for w.",
            ),
            Wrong(
                "as if g were 1",
                lambda x, w, g: (np.ones_like(g) @ w.T, x.T @ np.ones_like(g)),
                "You use 1 for g. What arrives is different for each element of y: put g into both products.",
            ),
        ],
    ),
    Exercise(
        "unbroadcast",
        cases=lambda rng: [
            (rng.normal(size=(4, 3)), (3,)),
            (rng.normal(size=(4, 3)), (4, 1)),
            (rng.normal(size=(4, 3)), (4, 3)),
            (rng.normal(size=(2, 4, 3)), (1, 3)),
            (rng.normal(size=(5, 3)), ()),
            (rng.normal(size=(2, 3, 4)), (3, 1)),
        ],
        wrong=[
            Wrong(
                "front axes only",
                _front_only,
                "Axes that were added in front are summed; those of length 1 that were stretched are not yet: sum them too.",
            ),
            Wrong(
                "axes of length 1 only",
                _ones_only,
                "Axes of length 1 are summed; those that the smaller shape does not have at all, in front, are not yet.",
            ),
            Wrong(
                "axes dropped", _squeezed, "A stretched axis stays in the shape, with length 1: sum over it with keepdims=True."
            ),
            Wrong("mean", _mean_over_repeats, "Each use adds its share: sum over the repeats, do not take the mean."),
            Wrong(
                "first only",
                _first_of_the_repeats,
                "You take the first of the repeats. All of them used the same element: sum them.",
            ),
            Wrong(
                "unchanged",
                lambda g, shape: g,
                "You return g as it came. Sum it over the axes along which the input was repeated.",
            ),
        ],
    ),
    Exercise(
        "mean_backward",
        cases=lambda rng: [(rng.normal(size=4), 1.0), (rng.normal(size=(2, 3)), -0.5), (rng.normal(size=(3, 1, 2)), 2.0)],
        wrong=[
            Wrong(
                "as for a sum",
                lambda x, g: np.full(x.shape, g),
                "That is the rule of a sum. In a mean each element counts for 1 / n only, n the number of elements.",
            ),
            Wrong(
                "rows only",
                lambda x, g: np.full(x.shape, g / len(x)),
                "You divide by the length of the first axis. The mean is over all elements: divide by x.size.",
            ),
            Wrong(
                "without g",
                lambda x, g: np.full(x.shape, 1 / x.size),
                "The local slope is right. Multiply it by g, which has arrived.",
            ),
            Wrong(
                "one number",
                lambda x, g: g / x.size,
                "One number came back: the gradient of x has the shape of x, with this number in every place.",
            ),
            Wrong(
                "times x",
                lambda x, g: g * x / x.size,
                "No x in it: when one element grows by h, the mean grows by h / n, whatever the element was.",
            ),
        ],
    ),
    Exercise(
        "measured_gradient",
        cases=lambda rng: [
            (cubes, rng.normal(size=3), 0.5),
            (bent, rng.normal(size=(2, 2)), 0.125),
            (cubes, rng.normal(size=(1, 4)), 0.25),
        ],
        wrong=[
            Wrong(
                "all at once",
                _elementwise,
                "You move all elements at once and so get the sum of their slopes. Move one at a time, in a copy of x.",
            ),
            Wrong(
                "one number",
                lambda f, x, h: (f(x + h) - f(x - h)) / (2 * h),
                "x + h moves all elements at once, and one number comes back. Move one element at a time, in a copy of x.",
            ),
            Wrong(
                "one side only",
                _one_sided,
                "You measure from x to x + h, on one side. Take f at x + h minus f at x - h, over 2h.",
            ),
            Wrong(
                "not put back",
                _never_put_back,
                "After its turn an element is not where it was: use a fresh copy of x for each.",
            ),
            Wrong("over h", _over_h, "Twice too large: from x - h to x + h it is 2h, not h."),
        ],
        tolerance=1e-8,
    ),
]
