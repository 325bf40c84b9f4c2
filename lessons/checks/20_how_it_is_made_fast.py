"""What the answers to lesson 20 are tried on, and the mistakes that are known."""

import numpy as np

from lessons.exercise import Exercise, Wrong


def _online(scores, values, block, *, subtract=True, sums=True, reads=True, turned=False, own=False, whole=False, once=False):
    """The running softmax with one of its lines wrong."""
    top, total, read = -np.inf, 0.0, np.zeros(values.shape[1])
    stop = len(scores) // block * block if whole else len(scores)
    for i in range(0, stop, block):
        part = scores[i : i + block]
        new = part.max() if own else max(top, part.max())
        new = new if subtract else 0.0
        new = top if once and i else new
        shrink = np.exp(new - top if turned and i else top - new) if subtract else 1.0
        shares = np.exp(part - new)
        total = total * (shrink if sums else 1.0) + shares.sum()
        read = read * (shrink if reads else 1.0) + shares @ values[i : i + block]
        top = new
    return read / total


def _softmax(scores):
    shares = np.exp(scores - scores.max())
    return shares / shares.sum()


def _mean_of_blocks(scores, values, block):
    return np.mean([_softmax(scores[i : i + block]) @ values[i : i + block] for i in range(0, len(scores), block)], axis=0)


def _last_block(scores, values, block):
    i = (len(scores) - 1) // block * block
    return _softmax(scores[i:]) @ values[i:]


def _undivided(scores, values, block):
    return np.exp(scores - scores.max()) @ values


def _pairs(q, k, v, below=None, divide=True, weights=lambda w: w):
    w = weights(q @ k.T)
    w = w if below is None else w * np.tri(len(q), len(k), below)
    with np.errstate(all="ignore"):
        return w @ v / (w.sum(axis=1, keepdims=True) if divide else 1)


def _future_below(q, k, v):
    """The sum below the line over the whole text, the read over the past."""
    return (np.tril(q @ k.T) @ v) / (q @ k.sum(axis=0))[:, None]


def _future_above(q, k, v):
    return (q @ (k.T @ v)) / np.einsum("td,td->t", q, np.cumsum(k, axis=0))[:, None]


def _from_behind(q, k, v):
    w = np.triu(q @ k.T)
    return w @ v / w.sum(axis=1, keepdims=True)


def _wrong_axis(q, k, v):
    states = np.cumsum(k[:, :, None] * v[:, None, :], axis=1)
    return np.einsum("td,tde->te", q, states) / np.einsum("td,td->t", q, np.cumsum(k, axis=0))[:, None]


def _features(rng, *shapes):
    return tuple(rng.uniform(0.1, 2, shape) for shape in shapes[:2]) + (rng.normal(size=shapes[2]),)


def _count(softmax, linear):
    return lambda t, d, kind: softmax(t, d) if kind == "softmax" else linear(t, d)


EXERCISES = [
    Exercise(
        "online_read",
        cases=lambda rng: [
            (np.sort(rng.normal(size=9)), rng.normal(size=(9, 2)), 4),
            (np.sort(rng.normal(size=6))[::-1].copy(), rng.normal(size=(6, 3)), 2),
            (np.array([0.0, 1.0, 3.0, -1.0, 2.0]), rng.normal(size=(5, 1)), 1),
            (rng.normal(size=4), rng.normal(size=(4, 2)), 8),
            (np.array([800.0, 801.0, 799.0]), rng.normal(size=(3, 2)), 4),
            (np.array([0.0, 1.0, 2.0, 900.0, 1800.0]), rng.normal(size=(5, 2)), 2),
            (np.array([0.0, -1.0, -2.0, -900.0, -1800.0]), rng.normal(size=(5, 2)), 2),
        ],
        wrong=[
            Wrong("no maximum", lambda s, v, b: _online(s, v, b, subtract=False),
                  "Right for small scores; exp() of a large one is infinite, and inf / inf is nan. Subtract the "
                  "largest score so far."),
            Wrong("nothing shrunk", lambda s, v, b: _online(s, v, b, sums=False, reads=False),
                  "When a larger score comes, what was summed so far has to shrink: times exp(old largest - new "
                  "largest), sum and read."),
            Wrong("sum not shrunk", lambda s, v, b: _online(s, v, b, sums=False),
                  "Your running sum is not rescaled: like the read it is multiplied by exp(old largest - new largest)."),
            Wrong("read not shrunk", lambda s, v, b: _online(s, v, b, reads=False),
                  "Your running read is not rescaled: like the sum it is multiplied by exp(old largest - new largest)."),
            Wrong("shrunk the wrong way", lambda s, v, b: _online(s, v, b, turned=True),
                  "You multiply by exp(new - old), which grows. The factor is exp(old largest - new largest), at most 1."),
            Wrong("first maximum kept", lambda s, v, b: _online(s, v, b, once=True),
                  "Your largest score is that of the first block. A later block may have a larger one, and then exp() "
                  "is infinite."),
            Wrong("largest of the block", lambda s, v, b: _online(s, v, b, own=True),
                  "You take the largest of each block. It is the largest so far: max(old, block's), or a factor may be "
                  "infinite."),
            Wrong("mean of blocks", _mean_of_blocks,
                  "You take each block's softmax and then the mean. The blocks do not weigh the same: divide once, at "
                  "the end."),
            Wrong("last block", _last_block,
                  "Only the last block is left. Add to what came before: total = total * shrink + ..., and the read likewise."),
            Wrong("last block lost", lambda s, v, b: _online(s, v, b, whole=True),
                  "The last block is lost where it is shorter: range(0, S, block), without cutting S."),
            Wrong("not divided", _undivided,
                  "The division by the sum is missing at the end."),
        ],
    ),
    Exercise(
        "linear_read",
        cases=lambda rng: [_features(rng, (t, d), (s, d), (s, e)) for t, s, d, e in ((4, 5, 3, 2), (3, 3, 2, 2), (2, 6, 4, 4))],
        wrong=[
            Wrong("not divided", lambda q, k, v: q @ (k.T @ v),
                  "The division is missing: the weights of a row have to add to 1. Divide row i by q_i · (sum of the keys)."),
            Wrong("by the number of keys", lambda q, k, v: q @ (k.T @ v) / len(k),
                  "You divide by the number of keys. The weights add up to q_i · (sum of the keys): divide by that."),
            Wrong("softmax", lambda q, k, v: _pairs(q, k, v, weights=np.exp),
                  "That is softmax attention. Here the weights are the products q_i · k_j themselves."),
            Wrong("one divisor", lambda q, k, v: q @ (k.T @ v) / (q @ k.sum(0)).sum(),
                  "You divide every row by the same number. Each query has its own: (q @ k.sum(axis=0))[:, None]."),
            Wrong("sum of the queries", lambda q, k, v: q @ (k.T @ v) / (q.sum(1, keepdims=True) * k.sum()),
                  "You multiply the sum of a query by the sum of all keys. It is their dot product: q @ k.sum(axis=0)."),
            Wrong("causal", lambda q, k, v: _pairs(q, k, v, 0),
                  "You leave out later keys. There is no mask here."),
            Wrong("values not mixed", lambda q, k, v: _pairs(q, k, v, divide=False, weights=lambda w: w / w.sum(0)),
                  "You divide over the queries: your columns add to 1. Each row has to, over the keys."),
        ],
        properties=[("each read lies between the smallest and the largest value", lambda r, q, k, v: (
            (r <= v.max(0) + 1e-9).all() and (r >= v.min(0) - 1e-9).all()))],
    ),
    Exercise(
        "causal_linear_read",
        cases=lambda rng: [_features(rng, (t, d), (t, d), (t, e)) for t, d, e in ((4, 3, 2), (5, 2, 2), (1, 3, 3), (3, 3, 1))],
        wrong=[
            Wrong("future included", lambda q, k, v: _pairs(q, k, v),
                  "Your sums are over the whole text: every position sees the future. Take prefix sums, np.cumsum over "
                  "the positions."),
            Wrong("future below the line", _future_below,
                  "The read is causal, the sum you divide by is not: it needs the prefix sum of the keys too."),
            Wrong("future above the line", _future_above,
                  "The sum you divide by is causal, the read is not: the (D, E) matrix needs to be a prefix sum too."),
            Wrong("itself left out", lambda q, k, v: _pairs(q, k, v, -1),
                  "Off by one: position i sees itself as well, so its own key and value come in before it is read."),
            Wrong("one too far", lambda q, k, v: _pairs(q, k, v, 1),
                  "Off by one: position i sees i + 1 already."),
            Wrong("from behind", _from_behind,
                  "Your sums run from the end: position i sees what comes after it, and not what came before."),
            Wrong("not divided", lambda q, k, v: _pairs(q, k, v, 0, divide=False),
                  "The division is missing: row i is divided by q_i · (sum of the keys 0 ... i)."),
            Wrong("over the width", _wrong_axis,
                  "Your prefix sum runs over the coordinates. It runs over the positions, axis=0."),
        ],
        properties=[("position 0 reads its own value and nothing else", lambda r, q, k, v: np.allclose(r[0], v[0]))],
    ),
    Exercise(
        "multiplications",
        cases=lambda rng: [(t, d, kind) for t, d in ((100, 8), (32, 32), (7, 3), (2048, 64)) for kind in ("softmax", "linear")],
        wrong=[
            Wrong("scores only", _count(lambda t, d: t * t * d, lambda t, d: t * d * d),
                  "That is the first of the two products. The second takes as many again."),
            Wrong("swapped", _count(lambda t, d: 2 * t * d * d, lambda t, d: 2 * t * t * d),
                  "The two are swapped: softmax makes a t × t matrix, linear attention a d × d one."),
            Wrong("size of the result", _count(lambda t, d: t * t + t * d, lambda t, d: d * d + t * d),
                  "You count the numbers that come out. Each of them takes as many multiplications as the axis summed "
                  "over is long."),
            Wrong("linear without t", _count(lambda t, d: 2 * t * t * d, lambda t, d: 2 * d * d),
                  "Linear attention still goes through all t positions, twice: k.T @ v is (d, t) @ (t, d)."),
            Wrong("no d in softmax", _count(lambda t, d: 2 * t * t, lambda t, d: 2 * t * d),
                  "A score is a dot product of d numbers: d multiplications for each pair."),
            Wrong("one t in softmax", _count(lambda t, d: 2 * t * d, lambda t, d: 2 * t * d * d),
                  "Softmax attention takes d multiplications for each pair of positions, and there are t² pairs."),
        ],
        properties=[("twice the length is four times the work for softmax, twice for linear", lambda n, t, d, kind: (
            n % (t * (t if kind == "softmax" else 1)) == 0))],
    ),
]
