"""What the answers to lesson 18 are tried on, and the mistakes that are known."""

import numpy as np

from lessons.exercise import Exercise, Wrong


def _relu(z):
    return np.maximum(z, 0)


def _stack(layer):
    """A forward pass in which `layer` says what follows from the input x0, the stream x, a matrix and the scale."""

    def forward(x, weights, scale):
        x0 = x
        for w in weights:
            x = layer(x0, x, w, scale)
        return x

    return forward


def _scaled_once(x, weights, scale):
    last = _stack(lambda x0, x, w, s: x + _relu(x @ w))(x, weights, scale)
    return x + scale * (last - x)


def _back(x, weights, scale, g, *, direct=1.0, turn=lambda w: w.T, mask=lambda z: z > 0, order=-1, factor=None,
          inputs_fixed=False):  # fmt: skip
    inputs = []
    for w in weights:
        inputs.append(x)
        x = x + scale * _relu(x @ w)
    factor = scale if factor is None else factor
    for given, w in list(zip(inputs, weights))[::order]:
        given = inputs[0] if inputs_fixed else given
        g = direct * g + (factor * g * mask(given @ w)) @ turn(w)
    return g


def _back_added_once(x, weights, scale, g):
    return g + _back(x, weights, scale, g, direct=0.0)


def _cases(rng):
    return [
        (rng.normal(size=3), list(rng.normal(size=(2, 3, 3))), 1.0),
        (rng.normal(size=4), list(rng.normal(size=(5, 4, 4))), 0.5),
        (rng.normal(size=2), list(rng.normal(size=(3, 2, 2))), 0.01),
        (np.array([1.0, -2.0, 0.5]), [np.eye(3)] * 3, 2.0),
        (np.array([1.0, 0.0, -1.0]), [np.eye(3)] * 2, 1.0),  # a read of exactly 0
    ]


def _use_deepen(function, weights, n, x, scale):
    """How many layers there are, what the stack gives, and whether the list given is as it was."""
    before = len(weights)
    deeper = function(weights, n)
    return {
        "layers": len(deeper),
        "layers of the list that was given": len(weights) - before,
        "output": _stack(lambda x0, x, w, s: x + s * _relu(x @ w))(x, deeper, scale),
    }


def _in_place(weights, n):
    weights += [np.zeros_like(weights[0])] * n
    return weights


EXERCISES = [
    Exercise(
        "forward",
        cases=_cases,
        wrong=[
            Wrong("replaced", _stack(lambda x0, x, w, s: s * _relu(x @ w)),
                  "Each layer of yours replaces x. It is to be added: x + scale * relu(x @ w)."),
            Wrong("without ReLU", _stack(lambda x0, x, w, s: x + s * (x @ w)),
                  "The ReLU is missing: without it all layers together are one matrix."),
            Wrong("ReLU on the sum", _stack(lambda x0, x, w, s: _relu(x + s * (x @ w))),
                  "Your ReLU takes the sum, and the path of x goes through it. It belongs into the branch: x + scale * "
                  "relu(x @ w)."),
            Wrong("scale on everything", _stack(lambda x0, x, w, s: s * (x + _relu(x @ w))),
                  "You scale the skip as well. Only the update is multiplied: x + scale * update."),
            Wrong("scale forgotten", _stack(lambda x0, x, w, s: x + _relu(x @ w)),
                  "The scale is missing: each update is multiplied by it."),
            Wrong("scaled at the end", _scaled_once,
                  "You scale the sum of all updates once. Each layer scales its own, so that the next one reads the "
                  "scaled stream."),
            Wrong("always the first input", _stack(lambda x0, x, w, s: x + s * _relu(x0 @ w)),
                  "Every layer of yours reads the first input. Each reads the stream as the layer before left it."),
            Wrong("input added", _stack(lambda x0, x, w, s: x0 + s * _relu(x @ w)),
                  "You add the first input each time. The skip of a layer is what went into that layer."),
            Wrong("transposed", _stack(lambda x0, x, w, s: x + s * _relu(w @ x)), "Your map is transposed: here it is x @ w."),
        ],
    ),
    Exercise(
        "backward",
        cases=lambda rng: [(*case, rng.normal(size=len(case[0]))) for case in _cases(rng)],
        wrong=[
            Wrong("no direct path", lambda x, w, s, g: _back(x, w, s, g, direct=0.0),
                  "The direct path is missing: what arrives at a layer's sum goes to its input unchanged, and what the "
                  "branch sends is added."),
            Wrong("branch forgotten", lambda x, w, s, g: g + 0.0,
                  "That is the direct path alone. What the branch sends back is added at each layer."),
            Wrong("added once", _back_added_once,
                  "You add g once at the end. It is added at every layer: the paths that use some branches and skip "
                  "others count too."),
            Wrong("no mask", lambda x, w, s, g: _back(x, w, s, g, mask=lambda z: 1.0),
                  "The slope of ReLU is missing: a unit whose input was 0 or less sends nothing back."),
            Wrong("not transposed", lambda x, w, s, g: _back(x, w, s, g, turn=lambda w: w),
                  "Backward, a linear map x @ w acts as its transpose: g @ w.T."),
            Wrong("first layer first", lambda x, w, s, g: _back(x, w, s, g, order=1),
                  "You walk from the first layer to the last. The gradient arrives at the end: the last layer comes first."),
            Wrong("scale forgotten", lambda x, w, s, g: _back(x, w, s, g, factor=1.0),
                  "The scale is missing: what goes into the branch is scale times g."),
            Wrong("scale on the skip", lambda x, w, s, g: _back(x, w, s, g, direct=s),
                  "You scale the direct path too. Forward it was not scaled, so backward it is not."),
            Wrong("always the first input", lambda x, w, s, g: _back(x, w, s, g, inputs_fixed=True),
                  "Your masks all come from x. Each layer's mask comes from its own input: keep the inputs on the way "
                  "forward."),
        ],
    ),
    Exercise(
        "deepen",
        cases=lambda rng: [
            (list(rng.normal(size=(2, 3, 3))), 4, rng.normal(size=3), 0.5),
            (list(rng.normal(size=(1, 4, 4))), 1, rng.normal(size=4), 1.0),
            (list(rng.normal(size=(3, 2, 2))), 0, rng.normal(size=2), 0.1),
        ],
        use=_use_deepen,
        wrong=[
            Wrong("identity", lambda weights, n: [*weights, *[np.eye(len(weights[0]))] * n],
                  "The identity does nothing in a plain layer. Here the layer's output is added to x: to do nothing it "
                  "has to give zero."),
            Wrong("ones", lambda weights, n: [*weights, *[np.ones_like(weights[0])] * n],
                  "A matrix of ones adds up all coordinates. What gives zero for every x?"),
            Wrong("copies", lambda weights, n: [*weights, *[weights[-1]] * n],
                  "Copies of the last layer write its update again. To do nothing a layer has to give zero."),
            Wrong("one too many", lambda weights, n: [*weights, *[np.zeros_like(weights[0])] * (n + 1)],
                  "Right weights, one layer too many."),
            Wrong("n in all", lambda weights, n: [*weights, *[np.zeros_like(weights[0])] * (n - len(weights))],
                  "n is how many layers are new, not how many there are in the end."),
            Wrong("list changed", _in_place,
                  "Right, but you have lengthened the list that was given. Make a new one: [*weights, ...]."),
        ],
    ),
]
