"""What the answers to lesson 17 are tried on, and the mistakes that are known."""

import numpy as np

from lessons.exercise import Exercise, Wrong


def _norm(x):
    return x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + 1e-6)


def _branch(w):
    return lambda x: np.tanh(x @ w)


def _stack(rng, t, d, n):
    return 3 * rng.normal(size=(t, d)), [(_norm, _branch(rng.normal(size=(d, d)))) for _ in range(n)]


def _walk(x, sublayers, *, read=lambda norm, x: norm(x), add=lambda x, read, update: x + update,
          keep=lambda x, read, update: update):  # fmt: skip
    written = [x]
    for norm, branch in sublayers:
        given = read(norm, x)
        update = branch(given)
        written.append(keep(x, given, update))
        x = add(x, given, update)
    return written


def _norm_written(x, sublayers):
    written = [x]
    for norm, branch in sublayers:
        written += [norm(x), branch(norm(x))]
        x = x + written[-1]
    return written


def _columns(joined, weight, columns):
    return joined[:, columns] @ weight[:, columns].T


def _head(joined, weight, head, n_head):
    width = joined.shape[1] // n_head
    return _columns(joined, weight, slice(head * width, (head + 1) * width))


def _zeroed_rest(joined, weight, head, n_head):
    return joined @ weight.T - _head(joined, weight, head, n_head)


def _scale(x, eps):
    return np.sqrt(np.square(x).mean(axis=-1, keepdims=True) + eps)


def _softmax(logits, axis=-1):
    shares = np.exp(logits - logits.max(axis=axis, keepdims=True))
    return shares / shares.sum(axis=axis, keepdims=True)


def _normed(stream, gain, eps):
    return stream / _scale(stream, eps) * gain


def _centred(x):
    return x - x.mean(axis=-1, keepdims=True)


EXERCISES = [
    Exercise(
        "updates",
        cases=lambda rng: [_stack(rng, 3, 4, 2), _stack(rng, 1, 5, 3), _stack(rng, 2, 2, 1), (rng.normal(size=(2, 3)), [])],
        wrong=[
            Wrong("states", lambda x, s: _walk(x, s, keep=lambda x, read, update: x + update),
                  "These are the states of the stream. An update is what was added: keep what the branch returned."),
            Wrong("norm counted", _norm_written,
                  "The norm is no update: it makes what the branch reads, and writes nothing. One entry for each sublayer."),
            Wrong("norm's output kept", lambda x, s: _walk(x, s, keep=lambda x, read, update: read),
                  "You keep what the branch reads, norm(x). What it returns is the update."),
            Wrong("without the norm", lambda x, s: _walk(x, s, read=lambda norm, x: x),
                  "Your branches read the stream itself. In a pre-norm model they read norm(stream)."),
            Wrong("norm on the skip", lambda x, s: _walk(x, s, add=lambda x, read, update: read + update),
                  "You add the update to norm(x). The norm is for the branch alone: the stream goes on as x + update."),
            Wrong("replaced", lambda x, s: _walk(x, s, add=lambda x, read, update: update),
                  "Your stream is replaced by each update. It is added: x = x + update."),
            Wrong("all read the embedding", lambda x, s: _walk(x, s, add=lambda x, read, update: x),
                  "Every branch of yours reads the embedding. After each update the stream is x + update, and the next "
                  "one reads that."),
            Wrong("embedding left out", lambda x, s: _walk(x, s)[1:],
                  "The embedding is a summand too, the first: begin the list with x."),
        ],
        properties=[("the list begins with x", lambda result, x, s: np.allclose(result[0], x))],
    ),
    Exercise(
        "head_update",
        cases=lambda rng: [
            (rng.normal(size=(3, 6)), rng.normal(size=(4, 6)), 1, 3),
            (rng.normal(size=(2, 6)), rng.normal(size=(6, 6)), 0, 2),
            (rng.normal(size=(2, 6)), rng.normal(size=(6, 6)), 2, 3),
            (rng.normal(size=(1, 4)), rng.normal(size=(4, 4)), 3, 4),
        ],
        wrong=[
            Wrong("counted from 1", lambda j, w, head, n: _head(j, w, head - 1, n),
                  "Off by one: that is the head before. Heads count from 0, and head r has the columns r * E to (r + 1) * E."),
            Wrong("one further", lambda j, w, head, n: _head(j, w, head + 1, n),
                  "Off by one: that is the next head. Head r has the columns r * E to (r + 1) * E."),
            Wrong("every n-th", lambda j, w, head, n: _columns(j, w, slice(head, None, n)),
                  "You take every n_head-th column. A head's E columns stand side by side: head * E to (head + 1) * E."),
            Wrong("whole", lambda j, w, head, n: j @ w.T,
                  "That is the update of all heads together: take this head's columns of joined, and the same of weight."),
            Wrong("all others", _zeroed_rest,
                  "That is what the other heads wrote, the update without this one."),
            Wrong("rows of weight", lambda j, w, head, n: (
                j[:, head * (e := j.shape[1] // n) : (head + 1) * e] @ w[head * e : (head + 1) * e]),
                  "You take rows of weight. It is stored (d, n_head * E): what multiplies a head are its columns, "
                  "weight[:, ...].T."),
            Wrong("no transpose", lambda j, w, head, n: np.where(np.arange(j.shape[1]) // (j.shape[1] // n) == head, j, 0) @ w,
                  "weight is stored as (out, in), so it acts as weight.T."),
        ],
    ),
    Exercise(
        "attribution",
        cases=lambda rng: [
            (rng.normal(size=(4, 5)), rng.uniform(0.5, 2, 5), rng.normal(size=5), 1e-6),
            (3 * rng.normal(size=(3, 3)), rng.uniform(0.5, 2, 3), rng.normal(size=3), 1e-2),
            (np.array([[1.0, 0.0], [0.0, 2.0]]), np.ones(2), np.array([1.0, 1.0]), 0.5),
        ],
        wrong=[
            Wrong("norm forgotten", lambda p, gain, u, eps: p @ u,
                  "The last norm is missing: between the stream and the logits everything is divided by its scale and "
                  "multiplied by the gain."),
            Wrong("gain forgotten", lambda p, gain, u, eps: p / _scale(p.sum(0), eps) @ u,
                  "The gain of the norm is missing: after the division each coordinate is multiplied by its gain."),
            Wrong("scale forgotten", lambda p, gain, u, eps: (p * gain) @ u,
                  "The gain is there, the division is not: divide by √(mean square of the whole stream + eps)."),
            Wrong("each by its own", lambda p, gain, u, eps: (p / _scale(p, eps) * gain) @ u,
                  "You divide each part by its own size. The norm divides all by one: that of their sum, the stream."),
            Wrong("no root", lambda p, gain, u, eps: (p / _scale(p.sum(0), eps) ** 2 * gain) @ u,
                  "You divide by the mean square: the root of it is missing."),
            Wrong("mean of the parts", lambda p, gain, u, eps: (p / _scale(p.mean(0), eps) * gain) @ u,
                  "The stream is the sum of its parts, not their mean: the scale comes from parts.sum(axis=0)."),
            Wrong("sum over the wrong axis", lambda p, gain, u, eps: (p / _scale(p.sum(0), eps) * gain * u).sum(axis=0),
                  "You add over the parts and keep the coordinates. One number for each part: sum over axis=1."),
            Wrong("eps outside", lambda p, gain, u, eps: (p / (np.sqrt(np.square(p.sum(0)).mean()) + eps) * gain) @ u,
                  "eps belongs under the root: √(mean square + eps)."),
            Wrong("mean subtracted", lambda p, gain, u, eps: (_centred(p) / _scale(_centred(p.sum(0)), eps) * gain) @ u,
                  "That is LayerNorm: RMSNorm does not subtract the mean."),
        ],
        properties=[("the contributions add up to the logit", lambda result, p, gain, u, eps: np.allclose(
            np.sum(result), _normed(p.sum(0), gain, eps) @ u))],
    ),
    Exercise(
        "lens",
        cases=lambda rng: [
            (rng.normal(size=(3, 4)), rng.uniform(0.5, 2, 4), rng.normal(size=(5, 4)), 1e-6),
            (5 * rng.normal(size=(4, 3)), rng.uniform(0.5, 2, 3), rng.normal(size=(4, 3)), 1e-2),
            (rng.normal(size=(3, 3)), rng.uniform(0.5, 2, 3), rng.normal(size=(3, 3)), 1e-6),
            (rng.normal(size=(2, 4)), np.full(4, 900.0), rng.normal(size=(3, 4)), 1e-6),  # logits of a thousand
        ],
        wrong=[
            Wrong("norm forgotten", lambda x, gain, m, eps: _softmax(x @ m.T),
                  "You forgot the final norm. It belongs to the lens: the matrix has only ever met normed vectors."),
            Wrong("gain forgotten", lambda x, gain, m, eps: _softmax(x / _scale(x, eps) @ m.T),
                  "The norm's gain is missing: multiply each coordinate by it before the matrix."),
            Wrong("softmax over positions", lambda x, gain, m, eps: _softmax(_normed(x, gain, eps) @ m.T, axis=0),
                  "Your columns add to 1. Each position is a distribution over the tokens: softmax over the last axis."),
            Wrong("logits", lambda x, gain, m, eps: _normed(x, gain, eps) @ m.T,
                  "These are the logits. The softmax that makes probabilities of them is missing."),
            Wrong("norm over positions", lambda x, gain, m, eps: _softmax(
                x / np.sqrt(np.square(x).mean(axis=0, keepdims=True) + eps) * gain @ m.T),
                  "Your norm takes its mean over the positions. Each row is normed by itself: mean over the last axis."),
            Wrong("one scale for all", lambda x, gain, m, eps: _softmax(x / np.sqrt(np.square(x).mean() + eps) * gain @ m.T),
                  "Your norm has one scale for the whole text. Each row has its own: mean(axis=-1, keepdims=True)."),
            Wrong("mean subtracted", lambda x, gain, m, eps: _softmax(_normed(_centred(x), gain, eps) @ m.T),
                  "That is LayerNorm: RMSNorm does not subtract the mean."),
            Wrong("transposed", lambda x, gain, m, eps: _softmax(_normed(x, gain, eps) @ m),
                  "matrix is (V, d), a row for each token: it acts as matrix.T."),
            Wrong("infinite", lambda x, gain, m, eps: (y := np.exp(_normed(x, gain, eps) @ m.T)) / y.sum(-1, keepdims=True),
                  "Right for small logits, but exp() of a large one is infinite, and inf / inf is nan. Subtract the "
                  "row's maximum first."),
        ],
        properties=[("each row adds to 1", lambda result, x, gain, m, eps: np.allclose(np.sum(result, axis=-1), 1))],
    ),
]
