"""A few mistakes are known."""

import math

from lessons.exercise import Exercise, Wrong

EXERCISES = [
    Exercise(
        "slope",
        cases=lambda rng: [(math.exp, 2.0, 0.5), (math.sin, float(rng.normal()), 0.125)],
        wrong=[Wrong("one side", lambda f, x, h: (f(x + h) - f(x)) / h, "One side only.")],
    ),
    Exercise(
        "product_rule",
        cases=lambda rng: [(2.0, 5.0, 1.0), (-3.0, 0.5, 2.0)],
        wrong=[
            Wrong("swapped", lambda a, b, g: (g * a, g * b), "The two are swapped."),
            Wrong("always fails", lambda a, b, g: a.nothing, "Never said: it would claim every AttributeError."),
        ],
    ),
    Exercise(
        "total_gradient",
        cases=lambda rng: [([[2.0, 3.0], [5.0]],), ([[], [4.0, -1.0]],)],
        wrong=[Wrong("last", lambda paths: math.prod(paths[-1]), "Only the last path.")],
        properties=[("it is not negative for these", lambda result, paths: result >= -4)],
    ),
]
