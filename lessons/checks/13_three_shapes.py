"""What the answers to lesson 13 are tried on, and the mistakes that are known."""

import math

import numpy as np

from lessons.exercise import Exercise, Wrong


def _decoder_or_all(shape, queries, keys):
    return np.tri(queries, keys, dtype=bool) if shape == "decoder" else np.ones((queries, keys), bool)


def _table(inside):
    """may_look with another table for the decoder."""
    return lambda shape, queries, keys: inside(queries, keys) if shape == "decoder" else np.ones((queries, keys), bool)


def _cross(asks="x", answers="memory", values="memory", axis=-1, scaled=True):
    """Cross-attention with one thing turned round."""

    def attend(x, memory, w_q, w_k, w_v):
        given = {"x": x, "memory": memory}
        q, k, v = given[asks] @ w_q, given[answers] @ w_k, given[values] @ w_v
        scores = q @ k.T / (math.sqrt(q.shape[-1]) if scaled else 1)
        e = np.exp(scores - scores.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True) @ v

    return attend


def _texts(rng):
    """Two texts of different lengths, twice of the same, and matrices."""
    for t, s, d in ((3, 5, 4), (4, 4, 2), (1, 6, 3), (2, 1, 2)):
        yield (*rng.normal(size=(1, t, d)), *rng.normal(size=(1, s, d)), *rng.normal(size=(3, d, 3)))


def _centred(x):
    """A norm without gains: mean 0, deviation 1."""
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def _bent(x):
    return np.tanh(x) + 0.5 * x**2


def _nothing(x):
    return np.zeros_like(x)


EXERCISES = [
    Exercise(
        "may_look",
        cases=lambda rng: [("encoder", 3, 3), ("decoder", 4, 4), ("cross", 2, 5), ("decoder", 1, 1), ("encoder", 1, 4)],
        wrong=[
            Wrong("the future", _table(lambda q, k: np.triu(np.ones((q, k), bool))),
                  "Your decoder sees what comes later. Row i is the query: it may look at the columns up to i."),
            Wrong("not itself", _table(lambda q, k: np.tri(q, k, -1, dtype=bool)),
                  "The diagonal is false: a position may look at itself as well, and the first one sees nothing else."),
            Wrong("one too far", _table(lambda q, k: np.tri(q, k, 1, dtype=bool)),
                  "Your decoder sees one position ahead, which is just the token that it has to predict."),
            Wrong("causal everywhere", lambda shape, q, k: np.tri(q, k, dtype=bool),
                  "Only the decoder is causal. An encoder, and cross-attention, see everything."),
            Wrong("no mask", lambda shape, q, k: np.ones((q, k), bool),
                  "Your decoder sees the future: row i has to be false beyond column i."),
            Wrong("turned round", lambda shape, q, k: _decoder_or_all(shape, q, k).T,
                  "Rows and columns are exchanged: queries are rows, keys are columns."),
            Wrong("numbers", lambda shape, q, k: np.tri(q, k) if shape == "decoder" else np.ones((q, k)),
                  "These are numbers, 1 and 0. A mask is boolean: give dtype=bool."),
            Wrong("hidden", lambda shape, q, k: ~np.tri(q, k, dtype=bool) if shape == "decoder" else np.zeros((q, k), bool),
                  "True stands for may look here, and you mark what is hidden: turn it round."),
        ],
    ),
    Exercise(
        "cross_attention",
        cases=lambda rng: list(_texts(rng)),
        wrong=[
            Wrong("self-attention", _cross(answers="x", values="x"),
                  "x looks at itself: keys and values have to come from memory."),
            Wrong("the other way", _cross(asks="memory", answers="x", values="x"),
                  "The roles are exchanged: x asks, so queries come from x, and keys and values from memory."),
            Wrong("no division by √D", _cross(scaled=False),
                  "Divide the scores by the square root of D, the width of the queries."),
            Wrong("softmax over the queries", _cross(axis=0),
                  "Your softmax runs down the columns. Each query shares out one whole among the keys: axis=-1."),
        ],
        properties=[("a read for each row of x", lambda result, x, memory, *w: len(result) == len(x))],
    ),
    Exercise(
        "sublayer",
        cases=lambda rng: [(rng.normal(size=(2, 4)), branch, _centred, order) for branch in (_bent, _nothing)
                           for order in ("pre", "post")],
        wrong=[
            Wrong("norm on the skip", lambda x, f, n, order: n(x) + f(n(x)) if order == "pre" else n(x + f(x)),
                  "Your pre-norm adds to the normed x. The stream itself goes past the norm: x + branch(norm(x))."),
            Wrong("norm of the update", lambda x, f, n, order: x + f(n(x)) if order == "pre" else x + n(f(x)),
                  "Post-norm takes the norm of the whole sum, not of the branch's output."),
            Wrong("exchanged", lambda x, f, n, order: n(x + f(x)) if order == "pre" else x + f(n(x)),
                  "The two are exchanged: pre-norm stands before the branch, post-norm after the sum."),
            Wrong("always pre", lambda x, f, n, order: x + f(n(x)),
                  "Pre-norm is right. For \"post\" the norm comes last, on the sum: norm(x + branch(x))."),
            Wrong("always post", lambda x, f, n, order: n(x + f(x)),
                  "Post-norm is right. For \"pre\" the norm stands inside the branch: x + branch(norm(x))."),
            Wrong("replaced", lambda x, f, n, order: f(n(x)) if order == "pre" else n(f(x)),
                  "The branch replaces x here: add x, or an empty branch gives nothing."),
        ],
    ),
]  # fmt: skip
