"""What the answers to lesson 16 are tried on, and the mistakes that are known."""

import math

import numpy as np

from lessons.exercise import Exercise, Wrong


def _softmax(z):
    e = np.exp(z - z.max())
    return e / e.sum()


def _at(change):
    """with_temperature where the softmax is of change(logits, temperature); greedy at 0."""
    return lambda z, t: np.eye(len(z))[np.argmax(z)] if t == 0 else _softmax(change(z, t))


def _after_softmax(z, t):
    return np.eye(len(z))[np.argmax(z)] if t == 0 else _softmax(z) / t


def _last(z, t):
    return np.eye(len(z))[len(z) - 1 - np.argmax(z[::-1])] if t == 0 else _softmax(z / t)


def _naive(z, t):
    if t == 0:
        return np.eye(len(z))[np.argmax(z)]
    e = np.exp(z / t)
    return e / e.sum()


def _top(p, mass, more=0, divide=True, shift=1e-9):
    """top_p with `more` words than the list has."""
    order = np.argsort(-p)
    length = int((np.cumsum(p[order]) - p[order] < mass - shift).sum())
    kept = np.zeros_like(p)
    chosen = order[: max(1, length + more)]
    kept[chosen] = p[chosen]
    return kept / kept.sum() if divide else kept


def _in_order(p, mass):
    kept = np.sort(p)[::-1].copy()
    kept[np.cumsum(kept) - kept >= mass - 1e-9] = 0
    return kept / kept.sum()


def _unsorted(p, mass):
    kept = np.where(np.cumsum(p) - p < mass - 1e-9, p, 0)
    return kept / kept.sum()


def _least(p, mass):
    kept = np.where(p >= mass, p, 0) if (p >= mass).any() else np.where(p == p.max(), p, 0)
    return kept / kept.sum()


def _step(asks="new", itself=True, scaled=True, put="end", keeps=True, mixes="values"):
    """cached_step with one thing turned round."""

    def step(x, keys, values, w_q, w_k, w_v):
        new_key, new_value = x @ w_k, x @ w_v
        pair = lambda kept, new: np.vstack([kept, new]) if put == "end" else np.vstack([new, kept])
        all_keys, all_values = pair(keys, new_key), pair(values, new_value)
        seen, mixed = (all_keys, all_values) if itself or not len(keys) else (keys, values)
        q = x @ w_q if asks == "new" else new_key
        scores = seen @ q / (math.sqrt(seen.shape[-1]) if scaled else 1)
        read = _softmax(scores) @ (mixed if mixes == "values" else seen)
        return (read, all_keys, all_values) if keeps else (read, keys, values)

    return step


def _tokens(rng):
    for t, d, width in ((4, 3, 4), (1, 4, 2), (0, 2, 3), (6, 3, 3)):
        yield (rng.normal(size=d), rng.normal(size=(t, width)), rng.normal(size=(t, width)), *rng.normal(size=(3, d, width)))


EXERCISES = [
    Exercise(
        "with_temperature",
        cases=lambda rng: [(rng.normal(size=5), t) for t in (1.0, 0.5, 2.0, 0)] + [(np.array([900.0, 899.0, -900.0]), 0.5),
                                                                                (np.array([1.0, 3.0, 3.0]), 0)],
        wrong=[
            Wrong("multiplied", _at(lambda z, t: z * t),
                  "Divide the logits by the temperature. Multiplied, a low temperature makes everything more equal."),
            Wrong("after the softmax", _after_softmax,
                  "Divide the logits, before the softmax. Probabilities over T no longer sum to 1."),
            Wrong("after the softmax, made whole", _at(lambda z, t: z),
                  "The temperature has no effect: divided after the softmax, it goes out again when the sum is made 1."),
            Wrong("squared", _at(lambda z, t: z / t**2),
                  "The logits are divided by T twice."),
            Wrong("the last of equals", _last,
                  "At temperature 0 the first of equal logits wins: np.argmax."),
            Wrong("equals share", lambda z, t: (z == z.max()) / (z == z.max()).sum() if t == 0 else _softmax(z / t),
                  "At temperature 0 one word has everything, the first of equal ones: np.argmax."),
            Wrong("zero divided by", lambda z, t: _softmax(z / t) if t else np.full(len(z), np.nan),
                  "At temperature 0 you divide by 0. It stands for greedy: all for the largest logit."),
            Wrong("overflow", _naive,
                  "np.exp of a large logit is infinite. Subtract the largest one first: softmax does not change."),
        ],
        properties=[("the probabilities sum to 1", lambda result, *given: np.isclose(np.sum(result), 1))],
    ),
    Exercise(
        "top_p",
        cases=lambda rng: [(np.array([0.1, 0.5, 0.25, 0.15]), mass) for mass in (0.6, 0.75, 0.4, 1.0, 0.9)]
        + [(rng.dirichlet(np.ones(8)), 0.7), (np.array([0.9, 0.06, 0.04]), 0.5)],
        wrong=[
            Wrong("one too few", lambda p, mass: _top(p, mass, -1),
                  "The word that takes the sum past the mark belongs to the list; you leave it out."),
            Wrong("one too many", lambda p, mass: _top(p, mass, 1),
                  "One too many: stop as soon as the sum reaches the mark."),
            Wrong("more than the mass", lambda p, mass: _top(p, mass, shift=-1e-9),
                  "When the sum is just the mark, it has reached it: no further word."),
            Wrong("sum below 1", lambda p, mass: _top(p, mass, divide=False),
                  "What is left has to sum to 1 again: divide by its sum."),
            Wrong("in order of probability", _in_order,
                  "The words have changed places. Put each probability back where it stood."),
            Wrong("not sorted", _unsorted,
                  "You add in the order of the vocabulary. The most probable come first: np.argsort(-p)."),
            Wrong("a threshold", _least,
                  "mass is no smallest probability: it is what the words of the list have together."),
        ],
        properties=[("the probabilities sum to 1", lambda result, *given: np.isclose(np.sum(result), 1))],
    ),
    Exercise(
        "cached_step",
        cases=lambda rng: list(_tokens(rng)),
        wrong=[
            Wrong("does not see itself", _step(itself=False),
                  "The token does not see itself: append its key and value first, then read."),
            Wrong("appended in front", _step(put="front"),
                  "The new row stands in front. It comes last: row t of the cache is token t."),
            Wrong("not kept", _step(keeps=False),
                  "The read is right, but the cache comes back as it was: return keys and values with the new row."),
            Wrong("no division by √D", _step(scaled=False),
                  "Divide the scores by the square root of D, the width of a key."),
            Wrong("the key asks", _step(asks="key"),
                  "The scores need a query, x @ w_q; you compare the new key with the others."),
            Wrong("keys mixed", _step(mixes="keys"),
                  "The weights mix the values, not the keys."),
        ],
    ),
    Exercise(
        "cache_bytes",
        cases=lambda rng: [(12, 12, 64, 1024, 4), (32, 8, 128, 100, 2), (1, 1, 1, 1, 1), (3, 4, 8, 32, 4)],
        wrong=[
            Wrong("keys alone", lambda n, h, d, t, s: n * h * d * t * s,
                  "Half of it: keys and values are kept."),
            Wrong("queries too", lambda n, h, d, t, s: 3 * n * h * d * t * s,
                  "Queries are not kept: each is used once, at its own step."),
            Wrong("t squared", lambda n, h, d, t, s: 2 * n * h * d * t * t * s,
                  "The cache grows in line with the text: a row for each token. The t × t weights are not kept."),
            Wrong("one layer", lambda n, h, d, t, s: 2 * h * d * t * s,
                  "Each layer keeps keys and values of its own."),
            Wrong("numbers", lambda n, h, d, t, s: 2 * n * h * d * t,
                  "These are numbers, not bytes: multiply by the size of one."),
            Wrong("one head", lambda n, h, d, t, s: 2 * n * d * t * s,
                  "Each head of keys has rows of its own."),
        ],
    ),
]  # fmt: skip
