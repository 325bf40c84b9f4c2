"""What the answers to lesson 11 are tried on, and the mistakes that are known."""

import numpy as np

from lessons.exercise import Exercise, Wrong


def _waves(n, d, first=0, exponent=None, cosine_first=False, halves=False, degrees=False):
    """Sinusoidal positions, with one thing or another done differently."""
    pairs = np.arange(d // 2)
    angles = np.arange(first, first + n)[:, None] / 10000.0 ** (2 * pairs / d if exponent is None else exponent(pairs, d))
    angles = np.radians(angles) if degrees else angles
    waves = [np.cos(angles), np.sin(angles)] if cosine_first else [np.sin(angles), np.cos(angles)]
    return np.concatenate(waves, axis=-1) if halves else np.stack(waves, axis=-1).reshape(n, d)


def _all_sines(n, d):
    return np.sin(np.arange(n)[:, None] / 10000.0 ** (np.arange(d) / d))


def _tables(rng):
    table = rng.normal(size=(8, 3))
    return [(rng.normal(size=(4, 3)), table, 0), (rng.normal(size=(2, 3)), table, 3), (rng.normal(size=(1, 3)), table, 7),
            (rng.normal(size=(1, 3)), table, 8), (rng.normal(size=(3, 3)), table, 6)]  # fmt: skip


def _from_zero(tokens, table, start):
    if start + len(tokens) > len(table):
        raise IndexError
    return tokens + table[: len(tokens)]


def _one_late(tokens, table, start):
    return tokens + table[start + 1 + np.arange(len(tokens))]


def _clamped(tokens, table, start):
    return tokens + table[np.minimum(start + np.arange(len(tokens)), len(table) - 1)]


def _wrapped(tokens, table, start):
    return tokens + table[(start + np.arange(len(tokens))) % len(table)]


def _one_for_all(tokens, table, start):
    if start + len(tokens) > len(table):
        raise IndexError
    return tokens + table[start]


def _rows_alone(tokens, table, start):
    return table[start + np.arange(len(tokens))]


def _bias(heads, n, first=1, distance=abs, sign=-1.0, share=8.0):
    slopes = 2.0 ** (-share * np.arange(first, first + heads) / heads)
    return sign * slopes[:, None, None] * distance(np.subtract.outer(np.arange(n), np.arange(n)))


def _one_slope(heads, n):
    return np.repeat(_bias(heads, n)[:1], heads, axis=0)


def _turned(x, positions, base, first=0, sign=1, exponent=2, interleaved=False):
    width = x.shape[1]
    angles = sign * (positions[:, None] + first) * base ** (-exponent * np.arange(width // 2) / width)
    cos, sin = np.cos(angles), np.sin(angles)
    a, b = (x[:, 0::2], x[:, 1::2]) if interleaved else (x[:, : width // 2], x[:, width // 2 :])
    turned = [a * cos - b * sin, a * sin + b * cos]
    return np.stack(turned, -1).reshape(x.shape) if interleaved else np.concatenate(turned, axis=1)


def _order_in_place(x, positions, base):
    return _turned(x, np.arange(len(x)), base)


def _overwritten(x, positions, base):
    """The second half is computed from the first half as it has become."""
    half = x.shape[1] // 2
    angles = positions[:, None] * base ** (-2 * np.arange(half) / x.shape[1])
    a, b = x[:, :half], x[:, half:]
    a = a * np.cos(angles) - b * np.sin(angles)
    return np.concatenate([a, a * np.sin(angles) + b * np.cos(angles)], axis=1)


EXERCISES = [
    Exercise(
        "sinusoidal",
        cases=lambda rng: [(4, 4), (1, 2), (6, 8), (50, 6)],
        wrong=[
            Wrong("positions from 1", lambda n, d: _waves(n, d, first=1),
                  "Your first row is that of position 1. Positions begin at 0, whose row is 0, 1, 0, 1 …"),
            Wrong("cosine first", lambda n, d: _waves(n, d, cosine_first=True),
                  "Sine and cosine are swapped: each pair is the sine, then the cosine."),
            Wrong("all sines, then all cosines", lambda n, d: _waves(n, d, halves=True),
                  "All sines come first in yours, then all cosines (Whisper's layout). Here they alternate, pair by pair."),
            Wrong("i instead of 2i", lambda n, d: _waves(n, d, exponent=lambda i, d: i / d),
                  "The exponent is 2i/d for pair i; yours is i/d, so that the slowest pair is far too fast."),
            Wrong("over pairs − 1", lambda n, d: _waves(n, d, exponent=lambda i, d: i / max(d // 2 - 1, 1)),
                  "Your last pair has exactly the speed 1/10000: the exponents are divided by d/2 − 1. Divide 2i by d."),
            Wrong("sine alone", _all_sines,
                  "Every coordinate has a speed of its own in yours. Two neighbours share one: a sine and a cosine."),
            Wrong("degrees", lambda n, d: _waves(n, d, degrees=True),
                  "The angles are radians already: np.sin and np.cos take them as they are."),
        ],
    ),
    Exercise(
        "add_positions",
        cases=_tables,
        wrong=[
            Wrong("clamped", _clamped,
                  "Past the table yours takes the last row again. A position without a row is an error: raise IndexError."),
            Wrong("wrapped", _wrapped,
                  "Past the table yours begins again at row 0 (% or a negative index). Raise IndexError instead."),
            Wrong("start ignored", _from_zero,
                  "`start` is not used: the first token always gets row 0. With a cache, a text goes on where it stopped."),
            Wrong("one late", _one_late,
                  "One row too late: the first token stands at `start` itself, the last at start + T − 1."),
            Wrong("one row for all", _one_for_all,
                  "All tokens get the row of the first. Take the rows start, start + 1, …, one for each token."),
            Wrong("rows alone", _rows_alone,
                  "These are the rows of the positions. Add them to the tokens."),
        ],
    ),
    Exercise(
        "alibi",
        cases=lambda rng: [(4, 5), (1, 3), (2, 4), (8, 2)],
        wrong=[
            Wrong("heads from 0", lambda heads, n: _bias(heads, n, first=0),
                  "Your heads are counted from 0, so the first has the slope 1. Counted from 1, 2^(−8/heads) comes first."),
            Wrong("plus", lambda heads, n: _bias(heads, n, sign=1.0),
                  "The sign: what is far away is to count less, so the bias is below 0."),
            Wrong("signed distance", lambda heads, n: _bias(heads, n, distance=lambda gap: gap),
                  "A key that comes later has a negative gap in yours, and gains. The distance is its absolute value."),
            Wrong("squared distance", lambda heads, n: _bias(heads, n, distance=np.square),
                  "The distance is squared. ALiBi is linear: twice as far costs twice as much."),
            Wrong("one slope", _one_slope,
                  "All heads have the slope of the first. Each has its own, so that some look near and some far."),
            Wrong("slope 2^(−h / heads)", lambda heads, n: _bias(heads, n, share=1.0),
                  "The 8 is missing in the slope: 2^(−8h / heads)."),
        ],
        properties=[("a word is at no distance from itself: the diagonal is 0",
                     lambda result, heads, n: not np.einsum("hii->hi", result).any())],
    ),
    Exercise(
        "rotate",
        cases=lambda rng: [(np.array([[1.0, 0.0], [2.0, 1.0]]), np.array([3, 1]), 10000.0),
                           (rng.normal(size=(5, 8)), np.array([0, 1, 2, 7, 100]), 10000.0),
                           (rng.normal(size=(3, 4)), np.array([4, 0, 9]), 100.0)],
        wrong=[
            Wrong("interleaved", lambda x, positions, base: _turned(x, positions, base, interleaved=True),
                  "Your pairs are neighbours, the interleaved layout. Here pair i is x[:, i] and x[:, i + D/2]."),
            Wrong("the other way", lambda x, positions, base: _turned(x, positions, base, sign=-1),
                  "You turn the other way round: check the signs, (a cos − b sin, a sin + b cos)."),
            Wrong("positions from 1", lambda x, positions, base: _turned(x, positions, base, first=1),
                  "Every row is turned one position too far: position 0 is not turned at all."),
            Wrong("row number", _order_in_place,
                  "You take the number of the row for its position. Use `positions`: a cached text does not begin at 0."),
            Wrong("i instead of 2i", lambda x, positions, base: _turned(x, positions, base, exponent=1),
                  "The speed of pair i is base^(−2i/D); yours has i in place of 2i."),
            Wrong("overwritten half", _overwritten,
                  "The second half is computed from the first after it has been turned. Both need the old a and b."),
        ],
        properties=[("turning keeps the length of each row",
                     lambda result, x, *_: np.allclose(np.linalg.norm(result, axis=1), np.linalg.norm(x, axis=1)))],
    ),
]
