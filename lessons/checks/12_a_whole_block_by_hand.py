"""What the answers to lesson 12 are tried on, and the mistakes that are known."""

import numpy as np

from lessons.exercise import Exercise, Wrong

CAT = np.array([[1.0, 0.0], [0.5, 1.0], [1.0, 1.5]])  # the cat sat, with its positions
W1 = np.array([[1.0, -1, 0, 1], [0, 1, -1, 1]])
W2 = np.array([[0.5, 0], [0, 0.5], [-0.5, 0], [0, -0.5]])


def _norm(x):
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True))


def _soft(scores, axis=-1):
    exps = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return exps / exps.sum(axis=axis, keepdims=True)


def _attend(a, causal, scale=None, axis=-1, diagonal=0, fill=-np.inf, after=False):
    """The reference, with one thing or another done differently."""
    scores = a @ a.T / (np.sqrt(a.shape[1]) if scale is None else scale)
    allowed = np.tri(*scores.shape, diagonal, dtype=bool)
    if causal and not after:
        scores = np.where(allowed, scores, fill)
    weights = _soft(scores, axis)
    return (np.where(allowed, weights, 0) if causal and after else weights) @ a


def _past_alone(a, causal):
    """Row i reads what stands before it and not itself; the first row has nothing to read."""
    if not causal:
        return _attend(a, causal)
    reads = [_soft(a[i] @ a[:i].T / np.sqrt(a.shape[1])) @ a[:i] for i in range(1, len(a))]
    return np.stack([np.zeros_like(a[0]), *reads])


def _future(a, causal):
    return _attend(a[::-1], causal)[::-1]


def _feed(b, w1, w2):
    return np.maximum(b @ w1, 0) @ w2


def _first(x, causal):
    return x + _attend(_norm(x), causal)


def _norm_on_skip(x, w1, w2, causal):
    h = _norm(x) + _attend(_norm(x), causal)
    return _norm(h) + _feed(_norm(h), w1, w2)


def _post(x, w1, w2, causal):
    h = _norm(x + _attend(x, causal))
    return _norm(h + _feed(h, w1, w2))


def _from_x(x, w1, w2, causal):
    return x + _feed(_norm(_first(x, causal)), w1, w2)


def _side_by_side(x, w1, w2, causal):
    return _first(x, causal) + _feed(_norm(x), w1, w2)


def _one_norm(x, w1, w2, causal):
    h = _first(x, causal)
    return h + _feed(h, w1, w2)


def _no_skips(x, w1, w2, causal):
    return _feed(_norm(_attend(_norm(x), causal)), w1, w2)


def _no_relu(x, w1, w2, causal):
    h = _first(x, causal)
    return h + _norm(h) @ w1 @ w2


def _relu_last(x, w1, w2, causal):
    h = _first(x, causal)
    return h + np.maximum(_norm(h) @ w1 @ w2, 0)


def _never_masked(x, w1, w2, causal):
    h = _first(x, False)
    return h + _feed(_norm(h), w1, w2)


def _sizes(n, d, heads, hidden, **other):
    return {"queries": (heads, n, d // heads), "scores": (heads, n, n), "attention": (n, d), "widened": (n, hidden),
            "feed-forward": (n, d)} | other  # fmt: skip


def _texts(rng):
    return [(_norm(CAT), False), (_norm(CAT), True), (rng.normal(size=(5, 4)), True), (rng.normal(size=(4, 3)) * 3, False),
            (rng.normal(size=(1, 2)), True)]  # fmt: skip


def _blocks(rng):
    wide = rng.normal(size=(6, 4)) * 2, rng.normal(size=(4, 8)), rng.normal(size=(8, 4))
    return [(CAT.copy(), W1, W2, False), (CAT.copy(), W1, W2, True), (*wide, True), (*wide, False)]


EXERCISES = [
    Exercise(
        "normalise",
        cases=lambda rng: [(CAT.copy(),), (np.array([[3.0, 4.0]]),), (rng.normal(size=(4, 6)) + 1,)],
        wrong=[
            Wrong("length", lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True),
                  "You divide by the length, the root of the *sum* of squares. Take the root of their mean."),
            Wrong("over the words", lambda x: x / np.sqrt((x**2).mean(axis=0, keepdims=True)),
                  "You normalise over the words (axis 0). Each row is a word of its own: axis=-1."),
            Wrong("mean subtracted", lambda x: (x - x.mean(axis=-1, keepdims=True)) / x.std(axis=-1, keepdims=True),
                  "You subtract the mean, as LayerNorm does. RMSNorm divides, and that is all."),
            Wrong("no root", lambda x: x / (x**2).mean(axis=-1, keepdims=True),
                  "The root is missing: the mean of the squares is the square of the size."),
        ],
    ),
    Exercise(
        "attention",
        cases=_texts,
        wrong=[
            Wrong("mask after the softmax", lambda a, causal: _attend(a, causal, after=True),
                  "You mask after the softmax, so the weights of a row no longer add to 1. Put −inf into the scores."),
            Wrong("zero as the mask", lambda a, causal: _attend(a, causal, fill=0.0),
                  "A score of 0 is no mask: e^0 is 1, and the word is read. Use −np.inf."),
            Wrong("itself hidden", _past_alone,
                  "Off by one: a row may read itself as well. np.tri(T) is true on the diagonal, and so is what is allowed."),
            Wrong("one too many", lambda a, causal: _attend(a, causal, diagonal=1),
                  "Off by one: row i sees row i + 1 in yours. Allowed are 0 … i."),
            Wrong("future in place of past", _future,
                  "The mask is turned round: each row reads itself and what comes *later*. Keep the lower triangle."),
            Wrong("never masked", lambda a, causal: _attend(a, False),
                  "`causal` makes no difference in yours: with causal=True, the scores of later rows are −inf."),
            Wrong("always masked", lambda a, causal: _attend(a, True),
                  "Yours masks in any case: with causal=False, every row reads all."),
            Wrong("no √d", lambda a, causal: _attend(a, causal, scale=1.0),
                  "Your scores are √d times too large: divide a @ a.T by the root of the width."),
            Wrong("√2 in any case", lambda a, causal: _attend(a, causal, scale=np.sqrt(2)),
                  "√2 is right for width 2 alone: divide by the root of a.shape[1]."),
            Wrong("divided by d", lambda a, causal: _attend(a, causal, scale=a.shape[1]),
                  "You divide by the width. It is the *root* of the width."),
            Wrong("softmax down the columns", lambda a, causal: _attend(a, causal, axis=0),
                  "Your softmax runs down the columns: it is each *row* of weights that adds to 1, axis=-1."),
            Wrong("added", lambda a, causal: a + _attend(a, causal),
                  "You have added a already. Return the read alone; the block adds it, and to the stream."),
        ],
    ),
    Exercise(
        "block",
        cases=_blocks,
        wrong=[
            Wrong("norm on the skip", _norm_on_skip,
                  "The stream is normalised in yours. Only what a branch *reads* is: h = x + attention(normalise(x), …)."),
            Wrong("post-norm", _post,
                  "That is post-norm, the order of 2017. Here the norm stands in the branch: x + F(normalise(x))."),
            Wrong("second sum from x", _from_x,
                  "The second update is added to x in yours, and what attention brought is lost. Add it to h."),
            Wrong("side by side", _side_by_side,
                  "Your feed-forward network reads x. It reads the stream after the first sum: normalise(h)."),
            Wrong("one norm", _one_norm,
                  "The feed-forward network reads h as it is. It has a norm of its own in front of it."),
            Wrong("no skips", _no_skips,
                  "Each update replaces the stream. Add: h = x + …, and then h + …"),
            Wrong("no ReLU", _no_relu,
                  "Nothing stands between w1 and w2, so together they are one matrix: np.maximum(…, 0)."),
            Wrong("ReLU after w2", _relu_last,
                  "ReLU stands behind w2 in yours, and no update can be negative. It belongs between w1 and w2."),
            Wrong("mask forgotten", _never_masked,
                  "`causal` does not reach your attention: hand it on."),
        ],
    ),
    Exercise(
        "shapes",
        cases=lambda rng: [(5, 768, 12, 3072), (3, 2, 1, 4), (7, 12, 4, 24)],
        wrong=[
            Wrong("heads last", lambda n, d, heads, hidden: _sizes(n, d, heads, hidden, queries=(n, heads, d // heads)),
                  "Queries by head: the head comes first, (heads, n, d / heads), so that each head has a matrix of its own."),
            Wrong("full width in each head", lambda n, d, heads, hidden: _sizes(n, d, heads, hidden, queries=(heads, n, d)),
                  "Each head gets a share of the width: d / heads numbers, not d."),
            Wrong("scores by width", lambda n, d, heads, hidden: _sizes(n, d, heads, hidden, scores=(heads, n, d // heads)),
                  "A score belongs to a pair of tokens: n by n for each head."),
            Wrong("scores without heads", lambda n, d, heads, hidden: _sizes(n, d, heads, hidden, scores=(n, n)),
                  "Every head has scores of its own: n by n, as often as there are heads."),
            Wrong("update as wide as the middle",
                  lambda n, d, heads, hidden: _sizes(n, d, heads, hidden, **{"feed-forward": (n, hidden)}),
                  "The feed-forward network narrows again: what it adds to the stream is as wide as the stream."),
            Wrong("attention as wide as one head",
                  lambda n, d, heads, hidden: _sizes(n, d, heads, hidden, attention=(n, d // heads)),
                  "The heads are put side by side and projected: attention returns the stream's width."),
        ],
    ),
]
