"""What the answers to lesson 8 are tried on, and the mistakes that are known."""

import numpy as np

from lessons.exercise import Exercise, Wrong


def _split(x, heads):
    return x.reshape(len(x), heads, -1).transpose(1, 0, 2)


def _join(reads):
    return reads.transpose(1, 0, 2).reshape(reads.shape[1], -1)


def _softmax(scores, axis=-1):
    shares = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return shares / shares.sum(axis=axis, keepdims=True)


def _strided(x, heads):
    return np.stack([x[:, r::heads] for r in range(heads)])


def _strided_back(reads):
    return reads.transpose(1, 2, 0).reshape(reads.shape[1], -1)


def _attention(x, w_q, w_k, w_v, heads, *, width=None, split=_split, axis=-1):
    q, k, v = (split(x @ w, heads) for w in (w_q, w_k, w_v))
    return _softmax(q @ k.transpose(0, 2, 1) / np.sqrt(width or q.shape[-1]), axis) @ v


def _multi(x, w_q, w_k, w_v, w_o, heads):
    return _join(_attention(x, w_q, w_k, w_v, heads)) @ w_o


def _slices(x, w_q, w_k, w_v, w_o, heads):
    """Each head projects only its own slice of x, by its own square of the matrices."""
    size = x.shape[1] // heads
    reads = []
    for r in range(heads):
        own = slice(r * size, (r + 1) * size)
        reads.append(_attention(x[:, own], w_q[own, own], w_k[own, own], w_v[own, own], 1)[0])
    return np.concatenate(reads, axis=1) @ w_o


def _one_head(x, w_q, w_k, w_v, w_o, heads):
    return _multi(x, w_q, w_k, w_v, w_o, 1)


def _only_reshaped(x, heads):
    return x.reshape(heads, len(x), -1)


def _multi_reshaped(x, w_q, w_k, w_v, w_o, heads):
    return _attention(x, w_q, w_k, w_v, heads, split=_only_reshaped).reshape(x.shape) @ w_o


def _columns(reads, w_o, r):
    width = reads.shape[-1]
    return reads[r] @ w_o[:, r * width : (r + 1) * width]  # fits the read only where there is one head


def _columns_of_all(reads, w_o, r):
    width = reads.shape[-1]
    padded = np.zeros_like(w_o)
    padded[:, r * width : (r + 1) * width] = w_o[:, r * width : (r + 1) * width]
    return _join(reads) @ padded


def _next_band(reads, w_o, r):
    heads, _, width = reads.shape
    start = (r + 1) % heads * width
    return reads[r] @ w_o[start : start + width]


def _matrices(rng, d, length):
    return (rng.normal(size=(length, d)), *rng.normal(size=(4, d, d)) / np.sqrt(d))


EXERCISES = [
    Exercise(
        "split_heads",
        cases=lambda rng: [(np.arange(12.0).reshape(2, 6), 3), (rng.normal(size=(4, 8)), 2), (rng.normal(size=(3, 4)), 4),
                           (rng.normal(size=(5, 3)), 1)],
        wrong=[
            Wrong("only reshaped", _only_reshaped,
                  "The shape is right, the numbers are not: reshape alone cuts across positions. First (T, H, D), then "
                  "exchange the first two axes."),
            Wrong("not transposed", lambda x, heads: x.reshape(len(x), heads, -1),
                  "That is (T, H, D). Exchange the first two axes, so that each head has its own (T, D): .transpose(1, 0, 2)."),
            Wrong("every H-th", _strided,
                  "You give head r every H-th column. Its D numbers stand next to each other, from r * D on."),
            Wrong("H and D exchanged", lambda x, heads: x.reshape(len(x), -1, heads).transpose(1, 0, 2),
                  "You cut into D heads of width H. The second axis of the reshape counts the heads."),
            Wrong("all axes", lambda x, heads: x.reshape(len(x), heads, -1).transpose(1, 2, 0),
                  "Each of your heads is (D, T), turned on its side. Keep positions as rows: .transpose(1, 0, 2)."),
        ],
    ),
    Exercise(
        "join_heads",
        cases=lambda rng: [(np.arange(12.0).reshape(3, 2, 2),), (rng.normal(size=(2, 4, 3)),), (rng.normal(size=(1, 3, 5)),),
                           (rng.normal(size=(4, 1, 2)),)],
        wrong=[
            Wrong("only reshaped", lambda reads: reads.reshape(reads.shape[1], -1),
                  "The shape is right, the numbers are not: bring positions to the front first, .transpose(1, 0, 2), "
                  "then reshape."),
            Wrong("interleaved", _strided_back,
                  "The heads are mixed number by number. A row holds all of head 0's read, then all of head 1's."),
            Wrong("one below the other", lambda reads: np.concatenate(list(reads), axis=0),
                  "You put the heads one below the other. They belong side by side: axis=1, one row for each position."),
            Wrong("added up", lambda reads: reads.sum(axis=0),
                  "You add the reads. They are kept apart until W_O: side by side, (T, H * D)."),
            Wrong("mean", lambda reads: reads.mean(axis=0),
                  "You take the mean of the reads. They are kept apart until W_O: side by side, (T, H * D)."),
        ],
    ),
    Exercise(
        "multi_head",
        cases=lambda rng: [(*_matrices(rng, 4, 3), 2), (*_matrices(rng, 6, 5), 3), (*_matrices(rng, 4, 4), 4),
                           (*_matrices(rng, 3, 2), 1)],
        wrong=[
            Wrong("no W_O", lambda x, q, k, v, o, heads: _join(_attention(x, q, k, v, heads)),
                  "The last matrix is missing: the joined reads times w_o."),
            Wrong("W_O transposed", lambda x, q, k, v, o, heads: _multi(x, q, k, v, o.T, heads),
                  "Your w_o is transposed. Here matrices act on the right as they are: joined @ w_o. (Only nn.Linear "
                  "keeps them the other way.)"),
            Wrong("all transposed", lambda x, q, k, v, o, heads: _multi(x, q.T, k.T, v.T, o.T, heads),
                  "Your matrices are transposed. Here they act on the right as they are: x @ w. (Only nn.Linear keeps "
                  "them the other way.)"),
            Wrong("√d", lambda x, q, k, v, o, heads: _join(_attention(x, q, k, v, heads, width=x.shape[1])) @ o,
                  "You divide by √d, the width of the stream. A score is a sum over the D = d / heads numbers of one "
                  "head: divide by √D."),
            Wrong("no √D", lambda x, q, k, v, o, heads: _join(_attention(x, q, k, v, heads, width=1)) @ o,
                  "The scores lack the division by √D, D being the width of one head."),
            Wrong("one head", _one_head,
                  "One softmax serves all of it: that is one head of width d. Split queries, keys and values into heads "
                  "first."),
            Wrong("slices of x", _slices,
                  "Your heads see a slice of x each. A head sees the whole row: project first, x @ w_q, then split the "
                  "product."),
            Wrong("added to x", lambda x, q, k, v, o, heads: x + _multi(x, q, k, v, o, heads),
                  "That is the stream after the sum. Asked for is the update alone; whoever calls adds it."),
            Wrong("wrong axis", lambda x, q, k, v, o, heads: _join(_attention(x, q, k, v, heads, axis=-2)) @ o,
                  "Your softmax runs over the queries. For each query the weights over the keys add to 1: axis=-1."),
            Wrong("only reshaped", _multi_reshaped,
                  "Your heads are cut by reshape alone, across positions. (T, H, D) first, then exchange the first two "
                  "axes; and back."),
        ],
    ),
    Exercise(
        "share_of",
        cases=lambda rng: [(reads, w_o, r) for reads, w_o in [(rng.normal(size=(1, 2, 3)), rng.normal(size=(3, 5))),
                                                              (rng.normal(size=(2, 3, 2)), rng.normal(size=(4, 4))),
                                                              (rng.normal(size=(3, 2, 1)), rng.normal(size=(3, 3)))]
                           for r in range(len(reads))],
        wrong=[
            Wrong("columns of all", _columns_of_all,
                  "You keep some columns of W_O. A head may write every coordinate: take reads[r] times its rows, r * D "
                  "to (r + 1) * D."),
            Wrong("columns", _columns,
                  "You cut W_O by columns. Joined reads meet its rows: head r meets the rows from r * D to (r + 1) * D."),
            Wrong("every H-th row", lambda reads, w_o, r: reads[r] @ w_o[r :: len(reads)],
                  "You take every H-th row. Head r has the D rows from r * D on, next to each other."),
            Wrong("first band", lambda reads, w_o, r: reads[r] @ w_o[: reads.shape[-1]],
                  "Every head of yours writes through the first rows of W_O. Head r has its own, from r * D on."),
            Wrong("next band", _next_band,
                  "Off by one: heads count from 0, so head r begins at row r * D."),
            Wrong("everything", lambda reads, w_o, r: _join(reads) @ w_o,
                  "That is the update of all heads together. Only reads[r] and its rows of W_O belong to head r."),
            Wrong("a part each", lambda reads, w_o, r: _join(reads) @ w_o / len(reads),
                  "You divide the whole update by the number of heads. Heads do not write equal parts: use reads[r] and "
                  "its rows of W_O."),
        ],
        properties=[("it has a row for each position, as wide as the stream",
                     lambda share, reads, w_o, r: np.shape(share) == (reads.shape[1], w_o.shape[1]))],
    ),
]
