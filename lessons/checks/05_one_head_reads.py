"""What the answers to lesson 5 are tried on, and the mistakes that are known."""

import numpy as np

from lessons.exercise import Exercise, Wrong


def _softmax(scores, axis=-1):
    shares = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return shares / shares.sum(axis=axis, keepdims=True)


def _scores(q, k, over=np.sqrt):
    return q @ k.T / over(q.shape[-1])


def _bare(scores):
    return np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)


def _transposed(q, k):
    return _softmax(k @ q.T / np.sqrt(q.shape[-1]))


OVER = [  # what the scores are divided by, and what to say of it
    ("no √D", lambda q, k: 1.0,
     "Your scores are √D times too large: divide q @ k.T by the square root of the width of a query."),
    ("over D", lambda q, k: q.shape[-1],
     "You divide by D. It is the square root: a sum of D terms of size 1 has the size √D."),
    ("√T", lambda q, k: np.sqrt(len(q)),
     "You divide by √T, the number of queries (len(q)). The width of a query is q.shape[-1]."),
    ("√S", lambda q, k: np.sqrt(len(k)),
     "You divide by √S, the number of keys (len(k)). The width of a query is q.shape[-1]."),
]  # fmt: skip


def _divided(over, softmax):
    return lambda q, k: softmax(q @ k.T / over(q, k))


def _q_and_k(rng):
    return [
        (np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([[2.0, 0.0], [0.0, 1.0]])),
        tuple(rng.normal(size=(2, 3, 4))),
        (rng.normal(size=(1, 8)), rng.normal(size=(5, 8))),
        (100 * rng.normal(size=(2, 4)), 100 * rng.normal(size=(3, 4))),  # scores in the thousands
    ]


def _causal(q, k, v, *, below=0, fill=-np.inf, after=False, upper=False, over=np.sqrt):
    scores = _scores(q, k, over)
    may = np.tri(*scores.shape, below, dtype=bool)
    may = may.T if upper else may
    return (_softmax(scores) * may if after else _softmax(np.where(may, scores, fill))) @ v


def _no_mask(q, k, v):
    return _softmax(_scores(q, k)) @ v


def _zeros_instead(scores, allowed, v, fill=0.0):
    return _softmax(np.where(allowed, scores, fill)) @ v


def _more_than_the_sum(scores, allowed, v):
    shares = np.exp(np.where(allowed, scores, -np.inf))
    return shares / (shares.sum(axis=-1, keepdims=True) + 1e-9) @ v


def _only_rows(scores, allowed, v):
    weights = _softmax(scores) * allowed
    weights[~allowed.any(axis=-1)] = 0
    return weights @ v


def _first_is_its_own(reads, q, k, v):
    return np.allclose(np.asarray(reads)[0], v[0])


def _nowhere_is_zero(reads, scores, allowed, v):
    return not np.asarray(reads)[~allowed.any(axis=-1)].any()


def _turned_round(scores, allowed, v):
    allowed = ~allowed
    reads = np.zeros((len(scores), v.shape[-1]))
    some = allowed.any(axis=-1)
    reads[some] = _softmax(np.where(allowed, scores, -np.inf)[some]) @ v
    return reads


EXERCISES = [
    Exercise(
        "weights",
        cases=_q_and_k,
        wrong=[
            *(Wrong(name, _divided(over, _softmax), hint) for name, over, hint in OVER),
            *(Wrong(f"{name}, infinite", _divided(over, _bare),
                    f"{hint}\nThen: exp() of a large score is infinite. Take the largest score of a row from the row first.")
              for name, over, hint in OVER),
            Wrong("wrong axis", lambda q, k: _softmax(_scores(q, k), axis=0),
                  "Your columns add to 1. Each row is one query, and its shares add to 1: sum over axis=-1."),
            Wrong("the whole", lambda q, k: _softmax(_scores(q, k).reshape(1, -1)).reshape(len(q), len(k)),
                  "All your weights together add to 1. Every row by itself has to: sum with axis=-1, keepdims=True."),
            Wrong("k asks", _transposed,
                  "Your rows belong to the keys, k @ q.T. A row belongs to a query: q @ k.T, of shape (T, S)."),
            Wrong("shares not divided", lambda q, k: np.exp(_scores(q, k)),
                  "These are the exponentials; divided by the sum of their row they become weights."),
            Wrong("infinite", lambda q, k: _bare(_scores(q, k)),
                  "Right for small scores, but exp() of a large one is infinite, and inf / inf is nan. Take the row's "
                  "maximum from its scores first."),
        ],
        properties=[("no weight is negative", lambda w, q, k: (np.asarray(w) >= 0).all()),
                    ("each row adds to 1", lambda w, q, k: np.allclose(np.sum(w, axis=-1), 1))],
    ),
    Exercise(
        "weight_for",
        cases=lambda rng: [(1.5, 2.0, 0.0), (0.75, 0.0, 1.0), (3.0, 2.0, 0.0), (-0.5, 2.0, 0.0), (1.0, 1.0, -4.0),
                           (2.0, 5.0, 2.0), (float(rng.uniform(-1, 1)), -1.0, 1.0), (7.0, -2.0, 3.0)],
        wrong=[
            Wrong("any weight", lambda t, one, two: (t - two) / (one - two),
                  "Right where a weight exists. But a weight is a share: from 0 to 1. If yours is outside, answer None."),
            Wrong("ends left out", lambda t, one, two: a if 0 < (a := (t - two) / (one - two)) < 1 else None,
                  "The ends belong to it: a weight of 0 or of 1 is one too. Compare with <=."),
            Wrong("the other's", lambda t, one, two: a if 0 <= (a := (t - one) / (two - one)) <= 1 else None,
                  "This is the weight on `two`. The one on `one` is 1 minus that."),
            Wrong("without two", lambda t, one, two: a if 0 <= (a := t / one if one else np.inf) <= 1 else None,
                  "You leave out what `two` brings: it has the weight 1 - a. Solve one * a + two * (1 - a) = target for a."),
            Wrong("cut off", lambda t, one, two: min(1.0, max(0.0, (t - two) / (one - two))),
                  "You cut the weight off at 0 and 1: with it the read is not the target. If no weight does it, answer None."),
        ],
    ),
    Exercise(
        "causal_read",
        cases=lambda rng: [tuple(rng.normal(size=(3, 4, 2))), tuple(rng.normal(size=(3, 5, 3))),
                           (*rng.normal(size=(2, 3, 4)), rng.normal(size=(3, 1))), tuple(rng.normal(size=(3, 1, 2)))],
        wrong=[
            Wrong("no mask", _no_mask,
                  "Every position still sees all of them: put -inf where the column is later than the row."),
            Wrong("after softmax", lambda q, k, v: _causal(q, k, v, after=True),
                  "The mask comes after your softmax: the rows no longer add to 1, and the future is in their sums. Put "
                  "-inf into the scores."),
            Wrong("times zero", lambda q, k, v: _causal(q, k, v, fill=0.0),
                  "A score of 0 is not nothing: exp(0) is 1. What may not be read needs the score -inf."),
            Wrong("itself left out", lambda q, k, v: _causal(q, k, v, below=-1),
                  "Off by one: position i may read itself as well, and position 0 has nobody else. np.tri(T) keeps the "
                  "diagonal."),
            Wrong("one too far", lambda q, k, v: _causal(q, k, v, below=1),
                  "Off by one: position i already sees i + 1. The diagonal is the last that is allowed."),
            Wrong("the future alone", lambda q, k, v: _causal(q, k, v, upper=True),
                  "Turned round: your position i sees what comes after it. Rows ask, columns are read: allowed is "
                  "column <= row."),
            Wrong("no √D", lambda q, k, v: _causal(q, k, v, over=lambda d: 1.0),
                  "The mask is right; the scores lack the division by √D."),
        ],
        properties=[("position 0 reads its own value and nothing else", _first_is_its_own)],
    ),
    Exercise(
        "masked_read",
        cases=lambda rng: [
            (rng.normal(size=(3, 4)), np.array([[True, False, True, True], [False] * 4, [True] * 4]), rng.normal(size=(4, 2))),
            (rng.normal(size=(2, 2)), np.array([[False, True], [True, False]]), rng.normal(size=(2, 3))),
            (rng.normal(size=(3, 3)), np.tri(3, dtype=bool), rng.normal(size=(3, 3))),
            (rng.normal(size=(2, 3)) - 40, np.array([[True, True, False], [True, True, True]]), rng.normal(size=(3, 2))),
        ],
        wrong=[
            Wrong("nan", lambda s, allowed, v: _softmax(np.where(allowed, s, -np.inf)) @ v,
                  "A row that may look nowhere is nan in yours: -inf minus -inf, or 0/0. Give such a row zeros."),
            Wrong("a large negative number", lambda s, allowed, v: _softmax(np.where(allowed, s, -1e9)) @ v,
                  "Where every score is -1e9, all are equal: your row that may look nowhere reads the mean of "
                  "everything. It has to read zeros."),
            Wrong("after softmax", _only_rows,
                  "Your mask comes after the softmax: what is left of a row adds to less than 1. Put -inf into the scores."),
            Wrong("score 0", _zeros_instead,
                  "A score of 0 is not nothing: exp(0) is 1. What may not be read needs the score -inf."),
            Wrong("a little more than the sum", _more_than_the_sum,
                  "Right while the sum is large. Where all scores are near -40 the number that you add to it is the larger "
                  "one, and nearly nothing is read. Treat the row that may look nowhere by itself."),
            Wrong("turned round", _turned_round,
                  "Turned round: True means that a key may be read. np.where(allowed, scores, -np.inf)."),
        ],
        properties=[("nothing is nan", lambda r, s, allowed, v: np.isfinite(r).all()),
                    ("a row that may look nowhere is zeros", _nowhere_is_zero)],
    ),
]
