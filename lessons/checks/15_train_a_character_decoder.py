"""What the answers to lesson 15 are tried on, and the mistakes that are known."""

import math

import numpy as np

from lessons.exercise import Exercise, Wrong


def _windows(shift_x, shift_y):
    """batch with other shifts."""

    def made(ids, starts, length):
        inside = np.asarray(starts)[:, None] + np.arange(length)
        return ids[inside + shift_x], ids[inside + shift_y]

    return made


def _log_p(logits, axis=-1):
    shifted = logits - logits.max(axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=axis, keepdims=True))


def _picked(log_p, targets):
    return np.take_along_axis(log_p, targets[..., None], axis=-1)[..., 0]


def _naive(logits, targets):
    e = np.exp(logits)
    return -np.log(_picked(e / e.sum(axis=-1, keepdims=True), targets)).mean()


def _losses(rng):
    for b, t, v in ((2, 3, 4), (1, 5, 3), (3, 3, 3), (2, 1, 6)):
        yield 3 * rng.normal(size=(b, t, v)), rng.integers(0, v, (b, t))
    yield np.array([[[2000.0, 0.0, -2000.0], [0.0, 0.0, 0.0]]]), np.array([[0, 2]])


def _rate(fall, first=1):
    """learning_rate with another fall, a function of (step, warmup, total), or another first step."""
    return lambda step, peak, w, n: peak * (step + first) / w if step < w else peak * fall(step, w, n)


def _cosine(done):
    return (1 + math.cos(math.pi * done)) / 2


def _done(step, warmup, total):
    return (step - warmup + 1) / (total - warmup)


def _rolled(ids, starts, length):
    x = ids[np.asarray(starts)[:, None] + np.arange(length)]
    return x, np.roll(x, -1, axis=1)


def _short(ids, starts, length):
    x = ids[np.asarray(starts)[:, None] + np.arange(length)]
    return x[:, :-1], x[:, 1:]


def _one_apart(result, ids, starts, length):
    x, y = map(np.asarray, result)
    return np.array_equal(x[:, 1:], y[:, :-1])


EXERCISES = [
    Exercise(
        "batch",
        cases=lambda rng: [(rng.integers(0, 50, 40), rng.integers(1, 30, 3), 8), (np.arange(10, 30), np.array([1, 4]), 5),
                           (np.array([7, 8, 9, 6, 5]), np.array([2, 1]), 1)],
        wrong=[
            Wrong("not shifted", _windows(0, 0),
                  "y is the same as x: the model would be asked for what it has just been given. y is one character later."),
            Wrong("shifted back", _windows(0, -1),
                  "y is the character before. What has to be predicted comes after: ids[start + 1 : ...]."),
            Wrong("x shifted too", _windows(1, 2),
                  "Both are shifted: x begins at start, y one later."),
            Wrong("exchanged", _windows(1, 0),
                  "x and y are exchanged: x is read, y is what comes next."),
            Wrong("within the window", _rolled,
                  "The last target of each window is its first character again. Take it from the text, one place beyond."),
            Wrong("one short", _short,
                  "One character short: x and y have `length` columns each, so length + 1 characters of the text take part."),
        ],
        properties=[("y without its last column is x without its first", _one_apart)],
    ),
    Exercise(
        "cross_entropy",
        cases=lambda rng: list(_losses(rng)),
        wrong=[
            Wrong("sum", lambda z, y: -_picked(_log_p(z), y).sum(),
                  "That is the sum. The mean over all B · T places does not depend on how long the text is."),
            Wrong("mean over the texts alone", lambda z, y: -_picked(_log_p(z), y).sum(axis=1).mean(),
                  "You add along the text and take the mean over the texts only. Divide by B · T."),
            Wrong("one a text", lambda z, y: -_picked(_log_p(z), y).mean(axis=-1),
                  "One number for each text: take the mean over both axes."),
            Wrong("bits", lambda z, y: -_picked(_log_p(z), y).mean() / math.log(2),
                  "These are bits: np.log2 in place of np.log. Nats use the natural logarithm."),
            Wrong("base 10", lambda z, y: -_picked(_log_p(z), y).mean() / math.log(10),
                  "np.log10 in place of np.log: nats use the natural logarithm."),
            Wrong("sign", lambda z, y: _picked(_log_p(z), y).mean(),
                  "The sign is missing: a log-probability is negative, and a loss is minus that."),
            Wrong("softmax along the text", lambda z, y: -_picked(_log_p(z, axis=1), y).mean(),
                  "Your softmax runs along the text. It is over the vocabulary, the last axis."),
            Wrong("no softmax", lambda z, y: -_picked(z, y).mean(),
                  "The logits are no log-probabilities yet: subtract the logarithm of the sum of their exponentials."),
            Wrong("probability", lambda z, y: -_picked(np.exp(_log_p(z)), y).mean(),
                  "You take the mean probability of the right answer, without the logarithm."),
            Wrong("all classes", lambda z, y: -_log_p(z).mean(),
                  "That is the mean over all characters. Only the probability of the target counts, at each place."),
            Wrong("overflow", _naive,
                  "np.exp(2000) is infinite. Subtract the largest logit of each place first: softmax does not change."),
        ],
        properties=[("one number", lambda result, logits, targets: np.ndim(result) == 0)],
    ),
    Exercise(
        "learning_rate",
        cases=lambda rng: [(step, 0.01, 4, 20) for step in (0, 1, 3, 4, 5, 12, 18, 19)] + [(0, 1.0, 1, 3), (2, 1.0, 1, 3)],
        wrong=[
            Wrong("begins at 0", _rate(lambda *at: _cosine(_done(*at)), first=0),
                  "Step 0 has a learning rate of 0 here, so it moves nothing: (step + 1) / warmup."),
            Wrong("cosine over all steps", _rate(lambda step, w, n: _cosine((step + 1) / n)),
                  "The cosine has to begin after the warm-up: count from there, over total - warmup steps."),
            Wrong("one step late", _rate(lambda step, w, n: _cosine((step - w) / (n - w))),
                  "One step late: the first step after the warm-up is below the peak already, and the last one is 0."),
            Wrong("a line", _rate(lambda *at: 1 - _done(*at)),
                  "That falls in a straight line. Half a cosine: (1 + cos(π · done)) / 2."),
            Wrong("not halved", _rate(lambda *at: 2 * _cosine(_done(*at))),
                  "1 + cos goes from 2 to 0: halve it."),
            Wrong("no π", _rate(lambda *at: (1 + math.cos(_done(*at))) / 2),
                  "Half a turn is π: cos(π · done). Without it the rate does not come down to 0."),
            Wrong("no warm-up", lambda step, peak, w, n: peak * _cosine((step + 1) / n),
                  "The rise is missing: for the first `warmup` steps the rate goes up in a line."),
        ],
    ),
]  # fmt: skip
