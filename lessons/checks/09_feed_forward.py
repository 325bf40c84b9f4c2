"""What the answers to lesson 9 are tried on, and the mistakes that are known."""

import math

import numpy as np

from lessons.exercise import Exercise, Wrong


def _relu(z):
    return np.maximum(z, 0)


def _silu(z):
    return z / (1 + np.exp(-z))


def _pairs(rng):
    return [(np.array([[0.75, 1.75]]),), (np.array([[1.75, 0.75], [2.0, 2.0], [-1.0, 3.0]]),), (rng.normal(size=(6, 2)),)]


def _networks(rng):
    small = (np.array([[1.0, -1.0]]), np.array([[1.0, 0, 1, -1], [0, 1, 1, 1]]), np.array([0, 0, 0, 0.5]),
             np.array([[1.0, 0], [0, 1], [0.5, 0.5], [-1, 1]]), np.array([0.25, -0.5]))  # fmt: skip
    square = tuple(rng.normal(size=shape) for shape in ((4, 3), (3, 3), (3,), (3, 3), (3,)))
    return [small, square, tuple(rng.normal(size=shape) for shape in ((5, 4), (4, 8), (8,), (8, 4), (4,)))]


def _gates(rng):
    return [tuple(rng.normal(size=shape) for shape in ((4, 3), (3, 3), (3, 3), (3, 3))),
            tuple(rng.normal(size=shape) for shape in ((5, 2), (2, 6), (2, 6), (6, 2)))]  # fmt: skip


def _to_p(x, excess):
    return x + excess[:, None] * np.array([1.0, 0.0])


EXERCISES = [
    Exercise(
        "add_excess",
        cases=_pairs,
        wrong=[
            Wrong("no ReLU", lambda x: _to_p(x, x[:, 1] - x[:, 0]),
                  "Where q is below p, yours takes something away. An excess below 0 counts as 0: np.maximum(excess, 0)."),
            Wrong("p − q", lambda x: _to_p(x, _relu(x[:, 0] - x[:, 1])),
                  "Your excess is p - q. The task is about q being the larger one: q - p."),
            Wrong("written to q", lambda x: x + _relu(x[:, 1] - x[:, 0])[:, None] * np.array([0.0, 1.0]),
                  "The excess is added to q, the second number. It belongs to p, the first."),
            Wrong("the update alone", lambda x: _relu(x[:, 1] - x[:, 0])[:, None] * np.array([1.0, 0.0]),
                  "That is the update. Add it to x: the stream keeps what it had."),
            Wrong("maximum of both", lambda x: x + _relu(x[:, 1:] - x[:, :1]),
                  "The excess is added to both numbers. q stays as it is."),
        ],
        properties=[("q stays as it is", lambda result, x: np.allclose(result[:, 1], x[:, 1]))],
    ),
    Exercise(
        "feed_forward",
        cases=_networks,
        wrong=[
            Wrong("no activation", lambda x, w1, b1, w2, b2: (x @ w1 + b1) @ w2 + b2,
                  "Nothing stands between your two maps, so they are one matrix. Put np.maximum(…, 0) after the first."),
            Wrong("ReLU after the second map", lambda x, w1, b1, w2, b2: _relu((x @ w1 + b1) @ w2 + b2),
                  "Your ReLU stands after the second map, where it forbids negative updates. It belongs between the two."),
            Wrong("ReLU twice", lambda x, w1, b1, w2, b2: _relu(_relu(x @ w1 + b1) @ w2 + b2),
                  "One ReLU too many: the update itself may be negative. Only the hidden sums are cut at 0."),
            Wrong("ReLU before the bias", lambda x, w1, b1, w2, b2: (_relu(x @ w1) + b1) @ w2 + b2,
                  "b1 comes before the ReLU: it moves the point at which a unit begins to fire."),
            Wrong("b1 missing", lambda x, w1, b1, w2, b2: _relu(x @ w1) @ w2 + b2,
                  "b1 is missing: each hidden sum is x @ w1 + b1."),
            Wrong("b2 missing", lambda x, w1, b1, w2, b2: _relu(x @ w1 + b1) @ w2,
                  "b2 is missing: it is added after the second map."),
            Wrong("transposed weights", lambda x, w1, b1, w2, b2: _relu(x @ w1.T + b1) @ w2.T + b2,
                  "Your weights are transposed. Here they act as they are: x @ w1. (It is nn.Linear that stores (out, in).)"),
            Wrong("with the skip", lambda x, w1, b1, w2, b2: x + _relu(x @ w1 + b1) @ w2 + b2,
                  "You have added x already. The network returns its update alone; the block adds it."),
        ],
    ),
    Exercise(
        "gelu",
        cases=lambda rng: [(0.0,), (1.0,), (-1.0,), (2.0,), (-6.0,), (float(rng.normal()),)],
        wrong=[
            Wrong("SiLU", lambda z: z / (1 + math.exp(-z)),
                  "That is SiLU: its switch is the sigmoid. GELU's is the normal distribution, by math.erf."),
            Wrong("sigmoid shortcut", lambda z: z / (1 + math.exp(-1.702 * z)),
                  "The sigmoid of 1.702 z comes near, and no nearer than two digits. Use math.erf."),
            Wrong("tanh form", lambda z: 0.5 * z * (1 + math.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))),
                  "That is the tanh form of GPT-2, right to three digits. The exact one uses math.erf(z / √2)."),
            Wrong("erf of z", lambda z: z * 0.5 * (1 + math.erf(z)),
                  "erf wants z / √2: without it, the normal number would have the variance ½."),
            Wrong("without z", lambda z: 0.5 * (1 + math.erf(z / math.sqrt(2))),
                  "That is the switch alone, between 0 and 1. GELU is z times it."),
            Wrong("without the half", lambda z: z * (1 + math.erf(z / math.sqrt(2))),
                  "Twice too large: 1 + erf runs from 0 to 2, a probability from 0 to 1."),
            Wrong("ReLU", lambda z: max(z, 0.0),
                  "That is ReLU. GELU lets a little of the negative numbers through, and not quite all of the positive ones."),
        ],
    ),
    Exercise(
        "swiglu",
        cases=_gates,
        wrong=[
            Wrong("activation on up", lambda x, gate, up, down: ((x @ gate) * _silu(x @ up)) @ down,
                  "SiLU stands on the wrong side: the gate goes through it, and what `up` reads is taken as it is."),
            Wrong("both activated", lambda x, gate, up, down: (_silu(x @ gate) * _silu(x @ up)) @ down,
                  "Both sides go through SiLU. Only the gate does."),
            Wrong("sigmoid gate", lambda x, gate, up, down: ((x @ up) / (1 + np.exp(-(x @ gate)))) @ down,
                  "Your gate is a sigmoid (that network is called GLU). SiLU is z times the sigmoid of z."),
            Wrong("no activation", lambda x, gate, up, down: ((x @ gate) * (x @ up)) @ down,
                  "The gate is multiplied in without its activation. Take SiLU of x @ gate first."),
            Wrong("added", lambda x, gate, up, down: (_silu(x @ gate) + x @ up) @ down,
                  "Gate and candidates are multiplied, number by number; yours adds them."),
            Wrong("after narrowing", lambda x, gate, up, down: _silu(x @ gate @ down) * (x @ up @ down),
                  "The gate works on the wide middle. Multiply first, then narrow the product once."),
            Wrong("transposed", lambda x, gate, up, down: (_silu(x @ gate.T) * (x @ up.T)) @ down.T,
                  "Your weights are transposed. Here they act on the right as they are: x @ gate, x @ up, … @ down."),
        ],
    ),
]
