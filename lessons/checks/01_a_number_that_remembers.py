"""What the answers to lesson 1 are tried on, and the mistakes that are known."""

import math

from lessons.exercise import Exercise, Wrong


def cube(x):
    return x**3


def _total_of_sums(paths):
    return math.prod(sum(path) for path in paths)


EXERCISES = [
    Exercise(
        "slope",
        cases=lambda rng: [(cube, 2.0, 0.5), (math.exp, -1.0, 0.25), (math.sin, float(rng.normal()), 0.125)],
        wrong=[
            Wrong(
                "one side only",
                lambda f, x, h: (f(x + h) - f(x)) / h,
                "You measure from x to x + h, the slope on one side. Start at x - h: the step is then 2h long.",
            ),
            Wrong("over h", lambda f, x, h: (f(x + h) - f(x - h)) / h, "Twice too large: from x - h to x + h it is 2h, not h."),
            Wrong(
                "one side over two",
                lambda f, x, h: (f(x + h) - f(x)) / (2 * h),
                "From x to x + h the step is h long, and you divide by 2h. Start at x - h: f(x + h) - f(x - h), over 2h.",
            ),
            Wrong(
                "half without brackets",
                lambda f, x, h: (f(x + h) - f(x - h)) / 2 * h,
                "`/ 2 * h` divides by 2 and then multiplies by h. Put brackets around 2 * h.",
            ),
            Wrong(
                "sign",
                lambda f, x, h: (f(x - h) - f(x + h)) / (2 * h),
                "The sign is turned round: what comes later minus what came before, f(x + h) - f(x - h).",
            ),
        ],
    ),
    Exercise(
        "product_rule",
        cases=lambda rng: [(2.0, 5.0, 1.0), (-3.0, 0.5, 2.0), (0.0, 4.0, -1.0), tuple(map(float, rng.normal(size=3)))],
        wrong=[
            Wrong(
                "swapped",
                lambda a, b, g: (g * a, g * b),
                "The two are swapped: when a moves a little, y moves by b times as much, so a receives g * b.",
            ),
            Wrong(
                "without g",
                lambda a, b, g: (b, a),
                "These are the local slopes. Multiply each by g, the gradient that arrives from above.",
            ),
            Wrong(
                "g added",
                lambda a, b, g: (g + b, g + a),
                "Slopes along a path multiply: g times the local slope, not g plus it.",
            ),
        ],
    ),
    Exercise(
        "quotient_rule",
        cases=lambda rng: [
            (6.0, 2.0, 1.0),
            (-3.0, 0.5, 2.0),
            (0.0, 4.0, -1.0),
            (float(rng.normal()), float(rng.uniform(1, 3)), 1.5),
        ],
        wrong=[
            Wrong(
                "sign",
                lambda a, b, g: (g / b, g * a / b**2),
                "The sign of b's share: a larger divisor makes the result smaller, so b gets a minus.",
            ),
            Wrong(
                "twice for squared",
                lambda a, b, g: (g / b, -g * a / (b * 2)),
                "b * 2 is twice b; its square is b ** 2, as in the slope of 1 / b, which is -1 / b ** 2.",
            ),
            Wrong(
                "no square",
                lambda a, b, g: (g / b, -g * a / b),
                "b's share has b twice below the line: the slope of 1 / b is -1 / b**2.",
            ),
            Wrong(
                "as for a product",
                lambda a, b, g: (g * b, g * a),
                "That is the rule of a product. Here a is divided by b: when a moves by 1, y moves by 1 / b.",
            ),
            Wrong(
                "swapped",
                lambda a, b, g: (-g * a / b**2, g / b),
                "The two are swapped: first the gradient for a, then the one for b.",
            ),
            Wrong(
                "without g",
                lambda a, b, g: (1 / b, -a / b**2),
                "These are the local slopes. Multiply each by g, the gradient that arrives from above.",
            ),
        ],
    ),
    Exercise(
        "total_gradient",
        cases=lambda rng: [([[2.0, 3.0], [5.0]],), ([[1.0]],), ([[], [4.0, -1.0, 0.5]],), (rng.normal(size=(3, 4)).tolist(),)],
        wrong=[
            Wrong(
                "begun with 0",
                lambda paths: 0.0,
                "Always 0: the product along a path begins with 1, not with 0. The sum over the paths begins with 0.",
            ),
            Wrong(
                "empty path left out",
                lambda paths: math.fsum(math.prod(path) for path in paths if path),
                "An empty path counts too: it is the input itself, which moves as fast as itself. It adds 1.",
            ),
            Wrong(
                "last path",
                lambda paths: math.prod(paths[-1]),
                "Only the last path is left: each path has to be added to what came before, += and not =.",
            ),
            Wrong(
                "product of all",
                lambda paths: math.prod(math.prod(path) for path in paths),
                "You multiply the paths with each other. Along a path slopes multiply; the paths themselves add.",
            ),
            Wrong(
                "sums along",
                lambda paths: float(sum(sum(path) for path in paths)),
                "You add the slopes along a path. A change passes through one after the other, so they multiply.",
            ),
            Wrong("sums multiplied", _total_of_sums, "The wrong way round: multiply along each path, then add the paths."),
        ],
        properties=[("it is a number", lambda result, paths: isinstance(result, (int, float)))],
    ),
]
