"""What the answers to lesson 4 are tried on, and the mistakes that are known."""

import numpy as np

from lessons.exercise import Exercise, Wrong


def _layers(rng):
    shapes = [((4, 3), (3, 3)), ((2, 3), (5, 3)), ((2, 4, 2), (2, 2)), ((3,), (5, 3))]
    return [(rng.normal(size=x), rng.normal(size=w), rng.normal(size=w[0])) for x, w in shapes]


def _parameters(rng):
    return [
        ([rng.normal(size=(2, 3)), rng.normal(size=2)], [rng.normal(size=(2, 3)), rng.normal(size=2)], 0.5),
        ([rng.normal(size=4)], [rng.normal(size=4)], 0.01),
    ]


def _in_place(parameters, gradients, rate):
    for parameter, gradient in zip(parameters, gradients):
        parameter -= rate * gradient
    return parameters


def _points(rng):
    x = rng.normal(size=7)
    return [(x, 2 * x - 1, 0.1, 1), (x, 2 * x - 1, 0.1, 5), (rng.normal(size=4), rng.normal(size=4), 0.25, 3)]


def _descent(
    x, y, rate, steps, factor=2.0, one_after_the_other=False, sign=-1.0, total=False, swapped=False, bias=True, more=0
):
    w = b = 0.0
    n = len(x) if total else 1
    for _ in range(steps + more):
        error = w * x + b - y
        to_w, to_b = factor * n * (error * x).mean(), factor * n * error.mean()
        if swapped:
            to_w, to_b = to_b, to_w
        w += sign * rate * to_w
        if one_after_the_other:
            to_b = factor * n * (w * x + b - y).mean()
        if bias:
            b += sign * rate * to_b
    return w, b


EXERCISES = [
    Exercise(
        "linear",
        cases=_layers,
        wrong=[
            Wrong(
                "not turned",
                lambda x, weight, bias: x @ weight + bias,
                "weight has one row for each output, (out, in): turn it round, x @ weight.T.",
            ),
            Wrong(
                "weight first",
                lambda x, weight, bias: weight @ x + bias,
                "weight @ x fits a single vector only. The rows of x are many: x @ weight.T gives one row of outputs for each.",
            ),
            Wrong("no bias", lambda x, weight, bias: x @ weight.T, "The bias is missing: add it to each row, + bias."),
            Wrong("bias subtracted", lambda x, weight, bias: x @ weight.T - bias, "The bias is added, not subtracted."),
            Wrong(
                "relu in it",
                lambda x, weight, bias: np.maximum(x @ weight.T + bias, 0),
                "A Linear layer does not bend: leave the ReLU to the layer after it.",
            ),
        ],
    ),
    Exercise(
        "relu_backward",
        cases=lambda rng: [
            (np.array([-2.0, 0.0, 3.0]), np.array([10.0, 10.0, 10.0])),
            (rng.normal(size=(3, 4)), rng.normal(size=(3, 4))),
            (np.array([0.5, -0.5]), np.array([-1.0, -2.0])),
        ],
        wrong=[
            Wrong(
                "relu of g",
                lambda x, g: np.maximum(g, 0),
                "You cut off negative gradients. What decides is x: g goes through, of either sign, where x is positive.",
            ),
            Wrong(
                "zero passes",
                lambda x, g: np.where(x >= 0, g, 0.0),
                "Where x is exactly 0, nothing is passed on: x > 0, not x >= 0.",
            ),
            Wrong(
                "value passes",
                lambda x, g: g * np.maximum(x, 0),
                "The slope of ReLU is 1 where x is positive, whatever x is: g itself goes through, not g times x.",
            ),
            Wrong(
                "other side",
                lambda x, g: np.where(x < 0, g, 0.0),
                "The other side: g goes through where x is positive, and 0 arrives elsewhere.",
            ),
            Wrong(
                "without g", lambda x, g: (x > 0).astype(float), "That is the local slope. Multiply it by g, which has arrived."
            ),
            Wrong(
                "everything passes",
                lambda x, g: g * 1.0,
                "g goes through everywhere in your answer. Where x is not positive ReLU is flat: 0.",
            ),
        ],
    ),
    Exercise(
        "descend",
        cases=_parameters,
        wrong=[
            Wrong(
                "uphill",
                lambda parameters, gradients, rate: [p + rate * g for p, g in zip(parameters, gradients)],
                "You climb: the gradient says which way the loss grows. Subtract.",
            ),
            Wrong(
                "no rate",
                lambda parameters, gradients, rate: [p - g for p, g in zip(parameters, gradients)],
                "The learning rate is missing: the step is rate times the gradient.",
            ),
            Wrong(
                "the gradient is the parameter",
                lambda parameters, gradients, rate: [-rate * g for g in gradients],
                "You return the step alone. The new parameter is the old one minus rate times the gradient.",
            ),
            Wrong(
                "divided",
                lambda parameters, gradients, rate: [p - g / rate for p, g in zip(parameters, gradients)],
                "Multiply the gradient by the rate: a smaller rate is a smaller step.",
            ),
            Wrong(
                "in place",
                _in_place,
                "The step is right, but it changes the arrays that were given. Return new ones: parameter - rate * gradient.",
            ),
        ],
    ),
    Exercise(
        "fit_line",
        cases=_points,
        wrong=[
            Wrong(
                "the best line at once",
                lambda x, y, rate, steps: tuple(np.polyfit(x, y, 1)),
                "That is the best line, all at once. Asked is where gradient descent has come after `steps` steps from 0.",
            ),
            Wrong(
                "no 2",
                lambda x, y, rate, steps: _descent(x, y, rate, steps, factor=1.0),
                "Each step is half as long as it should be: the slope of e ** 2 is 2 * e.",
            ),
            Wrong(
                "one after the other",
                lambda x, y, rate, steps: _descent(x, y, rate, steps, one_after_the_other=True),
                "You compute b's gradient with the new w. Both belong to the same place: compute both, then change both.",
            ),
            Wrong(
                "uphill",
                lambda x, y, rate, steps: _descent(x, y, rate, steps, sign=1.0),
                "The loss grows in your answer: subtract rate times the gradient (or is your error y minus output?).",
            ),
            Wrong(
                "sum",
                lambda x, y, rate, steps: _descent(x, y, rate, steps, total=True),
                "Your gradients are n times too large: the loss is the mean of the squared errors, so take means.",
            ),
            Wrong(
                "x forgotten",
                lambda x, y, rate, steps: _descent(x, y, rate, steps, swapped=True),
                "The two gradients are swapped: w moves the output x times as much, so its gradient has the x in it.",
            ),
            Wrong(
                "b never moves",
                lambda x, y, rate, steps: _descent(x, y, rate, steps, bias=False),
                "b stays where it began. It has a gradient too, the mean of 2 * error.",
            ),
            Wrong(
                "one step too many",
                lambda x, y, rate, steps: _descent(x, y, rate, steps, more=1),
                "One step too many: range(steps) takes exactly that many.",
            ),
            Wrong(
                "one step too few",
                lambda x, y, rate, steps: _descent(x, y, rate, steps, more=-1),
                "One step too few: range(steps) takes exactly that many.",
            ),
        ],
    ),
]
