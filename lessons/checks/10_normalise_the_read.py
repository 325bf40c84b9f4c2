"""What the answers to lesson 10 are tried on, and the mistakes that are known."""

import numpy as np

from lessons.exercise import Exercise, Wrong


def _mean(x):
    return x.mean(axis=-1, keepdims=True)


def _centre(x):
    return x - _mean(x)


def _over(x, squares, eps):
    """x over the root of the mean of the squares."""
    return x / np.sqrt(_mean(squares**2) + eps)


def _by_sample(x, gain, shift, eps):
    return gain * _centre(x) / np.sqrt(x.var(axis=-1, ddof=1, keepdims=True) + eps) + shift


def _outside(x, gain, shift, eps):
    return gain * _centre(x) / (x.std(axis=-1, keepdims=True) + eps) + shift


def _rows(rng):
    """Rows of several sizes, one of zeros, a square one among them; ε small and large."""
    return [(np.array([[3.0, 4.0]]), np.ones(2), 1e-6),
            (np.array([[2.0, 2.0], [0.0, 0.0]]), np.array([1.0, -2.0]), 1e-2),
            (rng.normal(size=(4, 6)) + 1, rng.normal(size=6), 1e-1),
            (rng.normal(size=(3, 3)), rng.normal(size=3), 1e-5)]  # fmt: skip


def _rows_with_shift(rng):
    return [(x, gain, rng.normal(size=len(gain)), eps) for x, gain, eps in _rows(rng)]


def _norm(x):
    return x / np.sqrt(_mean(x**2) + 1e-6)


def _double(x):
    return 2 * x


def _turn(x):
    return np.tanh(x[:, ::-1] - 0.5)


def _nothing(x):
    return 0 * x


EXERCISES = [
    Exercise(
        "rms_norm",
        cases=_rows,
        wrong=[
            Wrong("ε outside the root", lambda x, gain, eps: gain * x / (np.sqrt(_mean(x**2)) + eps),
                  "ε stands inside the root: √(mean of the squares + ε), not √(mean of the squares) + ε."),
            Wrong("mean subtracted", lambda x, gain, eps: gain * _over(_centre(x), _centre(x), eps),
                  "You subtract the mean. That is LayerNorm; RMSNorm leaves the mean where it is."),
            Wrong("standard deviation", lambda x, gain, eps: gain * _over(x, _centre(x), eps),
                  "You divide by the standard deviation, which measures from the mean. Square x itself."),
            Wrong("sum of squares", lambda x, gain, eps: gain * x / np.sqrt((x**2).sum(axis=-1, keepdims=True) + eps),
                  "You divide by the length of the row. Take the *mean* of the squares, or a wide row comes out smaller."),
            Wrong("over the positions", lambda x, gain, eps: gain * x / np.sqrt((x**2).mean(axis=0, keepdims=True) + eps),
                  "You normalise over the positions (axis 0), so that the last word changes the first row. Use axis=-1."),
            Wrong("one number for all", lambda x, gain, eps: gain * x / np.sqrt((x**2).mean() + eps),
                  "One size for the whole array: without axis=-1, the mean is taken over all rows together."),
            Wrong("no gain", lambda x, gain, eps: x / np.sqrt(_mean(x**2) + eps),
                  "The gain is missing: each coordinate is multiplied by its own learned number."),
            Wrong("no root", lambda x, gain, eps: gain * x / (_mean(x**2) + eps),
                  "The root is missing: the mean of the squares grows with the square of the size."),
            Wrong("no ε", lambda x, gain, eps: gain * x / np.sqrt(_mean(x**2)),
                  "ε is missing. A row of zeros is divided by 0 then: add ε to the mean of the squares."),
        ],
    ),
    Exercise(
        "layer_norm",
        cases=_rows_with_shift,
        wrong=[
            Wrong("n − 1", _by_sample,
                  "Your variance divides by d - 1. This is no estimate from a sample: divide by d."),
            Wrong("ε outside the root", _outside,
                  "ε stands inside the root: √(variance + ε), not standard deviation + ε."),
            Wrong("mean kept", lambda x, gain, shift, eps: gain * _over(x, _centre(x), eps) + shift,
                  "The mean is not taken out: divide x minus its mean, not x."),
            Wrong("RMSNorm", lambda x, gain, shift, eps: gain * _over(x, x, eps) + shift,
                  "That is RMSNorm with a shift. LayerNorm subtracts the mean first, and measures from it."),
            Wrong("over the positions", lambda x, gain, shift, eps: gain * (x - x.mean(0)) / np.sqrt(x.var(0) + eps) + shift,
                  "Mean and variance are taken over the positions (axis 0). Use axis=-1: each row on its own."),
            Wrong("gain on the shift", lambda x, gain, shift, eps: gain * (_over(_centre(x), _centre(x), eps) + shift),
                  "The shift is multiplied by the gain as well. First the gain, then add the shift."),
            Wrong("no root", lambda x, gain, shift, eps: gain * _centre(x) / (x.var(-1, keepdims=True) + eps) + shift,
                  "You divide by the variance. Its root, the standard deviation, is the size of the row."),
            Wrong("no shift", lambda x, gain, shift, eps: gain * _over(_centre(x), _centre(x), eps),
                  "The shift is missing: it is added at the very end."),
        ],
    ),
    Exercise(
        "pre_norm",
        cases=lambda rng: [(np.array([[3.0, 4.0]]), _double, _norm), (rng.normal(size=(4, 2)) * 5, _turn, _norm),
                           (rng.normal(size=(2, 3)), _nothing, _norm)],
        wrong=[
            Wrong("norm on the skip", lambda x, branch, norm: norm(x) + branch(norm(x)),
                  "The skip is normalised too: you overwrote x, or add to norm(x). Only what the branch reads is normalised."),
            Wrong("post-norm", lambda x, branch, norm: norm(x + branch(x)),
                  "That is post-norm, the order of 2017: the sum is normalised. In pre-norm the branch reads norm(x)."),
            Wrong("norm after the branch", lambda x, branch, norm: x + norm(branch(x)),
                  "You normalise what the branch writes. Normalise what it reads: branch(norm(x))."),
            Wrong("both", lambda x, branch, norm: norm(x + branch(norm(x))),
                  "One norm too many: the sum goes on as it is, of any size."),
            Wrong("no skip", lambda x, branch, norm: branch(norm(x)),
                  "The branch's update replaces the stream. Add it: x + …"),
            Wrong("no norm", lambda x, branch, norm: x + branch(x),
                  "The branch reads x as it is. Give it norm(x)."),
        ],
        properties=[("a branch of zeros leaves x as it is",
                     lambda result, x, branch, norm: branch is not _nothing or (result == x).all())],
    ),
]
