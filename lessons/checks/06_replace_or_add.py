"""What the answers to lesson 6 are tried on, and the mistakes that are known."""

import numpy as np

from lessons.exercise import Exercise, Wrong


def mean_of_rows(x):
    return np.full_like(x, 1.0) * x.mean(axis=0)


def halved_tanh(x):
    return np.tanh(0.5 * x)


def silent(x):
    return np.zeros_like(x)


def cancelling(x):
    return -x


def rms(x):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)


def doubled_rms(x):
    return 2.0 * rms(x)


def same(x):
    return x


def copied(x):
    return x.copy()


def nearly(x):
    return x * (1 + 1e-9)


def turned(x):
    return x[::-1]


def one_more(x):
    return np.concatenate([x, x[:1]])


class _Function:
    """A branch that says so when it is added instead of called."""

    __array_ufunc__ = None  # an array leaves `x + branch` to the method below

    def __init__(self, function):
        self.function = function

    def __call__(self, x):
        return self.function(x)

    def __radd__(self, x):
        raise TypeError("branch is a function and cannot be added. What it makes of x is: branch(x)")

    __add__ = __radd__


def _norm_after(x, attn, ffn, attn_norm, ffn_norm):
    x = x + attn_norm(attn(x))
    return x + ffn_norm(ffn(x))


def _added_in_place(x, branch):
    x += branch(x)
    return x


def _post(x, attn, ffn, attn_norm, ffn_norm):
    x = attn_norm(x + attn(x))
    return ffn_norm(x + ffn(x))


def _norm_on_skip(x, attn, ffn, attn_norm, ffn_norm):
    x = attn_norm(x)
    x = x + attn(x)
    x = ffn_norm(x)
    return x + ffn(x)


def _first_plus_missing(x, attn, ffn, attn_norm, ffn_norm):
    x = attn(attn_norm(x))
    return x + ffn(ffn_norm(x))


def _second_plus_missing(x, attn, ffn, attn_norm, ffn_norm):
    x = x + attn(attn_norm(x))
    return ffn(ffn_norm(x))


def _second_adds_to_the_input(x, attn, ffn, attn_norm, ffn_norm):
    u = x + attn(attn_norm(x))
    return x + ffn(ffn_norm(u))


def _parallel(x, attn, ffn, attn_norm, ffn_norm):
    return x + attn(attn_norm(x)) + ffn(ffn_norm(x))


def _no_norms(x, attn, ffn, attn_norm, ffn_norm):
    x = x + attn(x)
    return x + ffn(x)


def _one_norm(x, attn, ffn, attn_norm, ffn_norm):
    x = x + attn(attn_norm(x))
    return x + ffn(attn_norm(x))


EXERCISES = [
    Exercise(
        "write",
        cases=lambda rng: [
            (np.array([[2.0, 0.0], [0.0, 1.0]]), mean_of_rows),
            (rng.normal(size=(3, 4)), halved_tanh),
            (rng.normal(size=(2, 3)), silent),
            (rng.normal(size=(2, 3)), cancelling),
        ],
        use=lambda write, x, branch: write(x, _Function(branch)),
        wrong=[
            Wrong("replaced", lambda x, branch: branch(x),
                  "Replaced: your result is what the branch returns. With a silent branch nothing is left. x has to be added."),
            Wrong("ignored", lambda x, branch: x,
                  "You return x alone: what the branch makes of it, branch(x), is to be added."),
            Wrong("sign", lambda x, branch: x - branch(x), "The sign is turned round: the update is added, x + branch(x)."),
            Wrong("the other sign", lambda x, branch: branch(x) - x,
                  "You take x away from its own update: it is x + branch(x)."),
            Wrong("mean", lambda x, branch: (x + branch(x)) / 2,
                  "You take the mean of both. It is the sum: with a silent branch the result has to be x, not half of it."),
            Wrong("twice", lambda x, branch: x + (x + branch(x)),
                  "x comes in twice. One skip path is enough: x + branch(x)."),
            Wrong("in place", _added_in_place,
                  "Right result, but `x += …` writes into the array that the caller still holds. `x + branch(x)` makes "
                  "a new one."),
        ],
        properties=[("with a silent branch the result is x", lambda y, x, f: f is not silent or np.array_equal(y, x))],
    ),
    Exercise(
        "needed_update",
        cases=lambda rng: [
            (np.array([0.0, 1.0]), np.array([1.0, 1.5])),
            (np.array([0.0, 1.0]), np.array([0.0, 1.0])),
            tuple(rng.normal(size=(2, 3, 4))),
        ],
        wrong=[
            Wrong("sign", lambda x, wanted: x - wanted, "The sign is turned round: what is missing is wanted - x."),
            Wrong("all of it", lambda x, wanted: wanted,
                  "That is what a branch has to return that replaces x. One that adds supplies only the difference."),
            Wrong("sum", lambda x, wanted: x + wanted,
                  "Solve x + update = wanted for the update: x goes to the other side with a minus."),
            Wrong("factor", lambda x, wanted: wanted / x,
                  "You divide: that is what x would be multiplied by. An update is added: take the difference."),
        ],
        properties=[("x plus your update is what was wanted", lambda u, x, wanted: np.allclose(x + u, wanted))],
    ),
    Exercise(
        "pre_norm_block",
        cases=lambda rng: [
            (3 * rng.normal(size=(4, 6)), mean_of_rows, halved_tanh, rms, doubled_rms),
            (rng.normal(size=(2, 3)), halved_tanh, mean_of_rows, doubled_rms, rms),
            (rng.normal(size=(3, 4)), silent, silent, rms, rms),
        ],
        wrong=[
            Wrong("post-norm", _post,
                  "That is post-norm: your norms stand on the stream, after the sums. Here a branch reads a normed "
                  "copy, attn(attn_norm(x))."),
            Wrong("norm on the skip", _norm_on_skip,
                  "Your x becomes its normed copy and goes on as that: a norm on the skip path. Norm only what the "
                  "branch reads."),
            Wrong("first x +", _first_plus_missing,
                  "The first `x +` is missing: with silent branches yours returns zeros, and it has to return x."),
            Wrong("second x +", _second_plus_missing,
                  "The second `x +` is missing: the update of attention and the input are lost at the feed-forward network."),
            Wrong("adds to the input", _second_adds_to_the_input,
                  "Your second sum adds to the block's input. It has to add to the stream that already holds the update "
                  "of attention."),
            Wrong("side by side", _parallel,
                  "Both branches read the block's input, side by side. Here the second reads the stream after the first "
                  "update."),
            Wrong("norm of the update", _norm_after,
                  "Your norms stand behind the branches, attn_norm(attn(x)). Here they stand before: a branch reads a normed "
                  "copy, and what it returns is added as it is."),
            Wrong("no norms", _no_norms,
                  "The sums are right; the branches read x itself. Each reads a normed copy: attn(attn_norm(x))."),
            Wrong("one norm twice", _one_norm,
                  "Both branches read through attn_norm. The second has a norm of its own, ffn_norm."),
        ],
        properties=[("with silent branches the result is x",
                     lambda y, x, attn, ffn, *norms: attn is not silent or np.array_equal(y, x))],
    ),
    Exercise(
        "leaves_alone",
        cases=lambda rng: [(silent, np.zeros((2, 2)))]
        + [(f, rng.normal(size=(3, 4))) for f in (same, copied, silent, nearly, turned, rms, cancelling, one_more)],
        wrong=[
            Wrong("same shapes", lambda block, x: bool((block(x) == x).all()),
                  "Right where the shapes agree. A block can also return another shape, and then == has nothing to compare: "
                  "np.array_equal says False."),
            Wrong("each by itself", lambda block, x: block(x) == x,
                  "== compares element by element and gives as many answers. One is asked for: np.array_equal(block(x), x), "
                  "which also says False where the shapes differ."),
            Wrong("close, shapes alike", lambda block, x: bool(np.allclose(block(x), x)),
                  "np.allclose forgives small differences, and fails where the block returns another shape. Compare exactly: "
                  "np.array_equal answers both."),
            Wrong("close", lambda block, x: block(x).shape == x.shape and bool(np.allclose(block(x), x)),
                  "np.allclose forgives small differences. A skip path without anything on it changes no bit: compare "
                  "exactly."),
            Wrong("shape", lambda block, x: block(x).shape == x.shape,
                  "You compare shapes. A block that has lost its `x +` has the right shape too: compare the numbers."),
            Wrong("the sum", lambda block, x: bool(np.isclose(block(x).sum(), x.sum())),
                  "You compare one number made of all of them: rows that are only exchanged pass. Compare every element."),
            Wrong("the same array", lambda block, x: block(x) is x,
                  "`is` asks whether it is the same object. A copy with equal elements leaves x alone as well."),
            Wrong("somewhere", lambda block, x: block(x).shape == x.shape and bool((block(x) == x).any()),
                  "any() is True as soon as one element is equal. Every one has to be: all()."),
            Wrong("turned round", lambda block, x: not np.array_equal(block(x), x),
                  "Turned round: True means that nothing was changed."),
        ],
    ),
]
