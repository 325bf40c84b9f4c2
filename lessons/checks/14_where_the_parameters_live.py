"""What the answers to lesson 14 are tried on, and the mistakes that are known."""

import numpy as np

from lessons.exercise import Exercise, Wrong


def _saved(rng):
    """A dict with one array under two names and two others that are equal."""
    table, zeros = rng.normal(size=(7, 3)), np.zeros(4)
    yield {"embedding": table, "head": table, "norm.weight": np.ones(3), "norm.bias": np.zeros(3)}
    yield {"a.bias": zeros, "b.bias": np.zeros(4), "matrix": rng.normal(size=(2, 5))}
    yield {"a": table, "b": rng.normal(size=(7, 3)), "c": table}
    yield {}


EXERCISES = [
    Exercise(
        "block_parameters",
        cases=lambda rng: [(768, 3072), (4, 16), (1, 4), (6, 10)],
        wrong=[
            Wrong("no biases", lambda d, h: 4 * d * d + 2 * d * h + 4 * d,
                  "The biases of the matrices are missing: one number for each output of each matrix."),
            Wrong("no W_O", lambda d, h: 3 * (d * d + d) + 2 * d * h + h + d + 4 * d,
                  "Attention has four matrices. After queries, keys and values comes the way back into the stream."),
            Wrong("no norms", lambda d, h: 4 * (d * d + d) + 2 * d * h + h + d,
                  "The two norms are missing: a gain and a bias for each coordinate, so 2 d each."),
            Wrong("gains alone", lambda d, h: 4 * (d * d + d) + 2 * d * h + h + d + 2 * d,
                  "2 d too few: a LayerNorm has a bias beside its gain."),
            Wrong("one norm", lambda d, h: 4 * (d * d + d) + 2 * d * h + h + d + 3 * d,
                  "d too few. Two norms with a gain and a bias each make 4 d."),
            Wrong("bias of the wrong width", lambda d, h: 4 * (d * d + d) + 2 * d * h + 2 * d + 4 * d,
                  "A bias is as wide as what the matrix gives: the first of the feed-forward network gives `hidden` numbers."),
            Wrong("always 4 d", lambda d, h: 12 * d * d + 13 * d,
                  "Right where hidden is 4 d. Take the width that is given: those matrices have d · hidden numbers."),
            Wrong("rule of thumb", lambda d, h: 12 * d * d,
                  "12 d² is the rule of thumb. The exact count has biases, norms, and the hidden width that is given."),
        ],
    ),
    Exercise(
        "model_parameters",
        cases=lambda rng: [*((12, 7_087_872, 768, 50257, 1024, tied) for tied in (True, False)), (1, 10, 2, 5, 3, True),
                           (3, 100, 4, 11, 7, False)],
        wrong=[
            Wrong("head counted twice", lambda n, b, d, v, t, tied: n * b + (2 * v + t) * d + 2 * d,
                  "A tied head is the token table itself: it has no numbers of its own."),
            Wrong("head never counted", lambda n, b, d, v, t, tied: n * b + (v + t) * d + 2 * d,
                  "Where the head is not tied it is one more matrix, vocabulary · d."),
            Wrong("tied turned round", lambda n, b, d, v, t, tied: n * b + (v + t) * d + 2 * d + (v * d if tied else 0),
                  "The other way round: tied means that nothing is added for the head."),
            Wrong("no last norm", lambda n, b, d, v, t, tied: n * b + (v + t) * d + (0 if tied else v * d),
                  "2 d too few: one more LayerNorm stands after the last block."),
            Wrong("no positions", lambda n, b, d, v, t, tied: n * b + v * d + 2 * d + (0 if tied else v * d),
                  "The positions are learned here: a row of d for each place of the context."),
            Wrong("one block", lambda n, b, d, v, t, tied: b + (v + t) * d + 2 * d + (0 if tied else v * d),
                  "Each of the layers has a block of its own: multiply by their number."),
            Wrong("head with bias", lambda n, b, d, v, t, tied: n * b + (v + t) * d + 2 * d + (0 if tied else v * d + v),
                  "The head has no bias here: vocabulary · d and no more."),
        ],
    ),
    Exercise(
        "count",
        cases=lambda rng: [(saved,) for saved in _saved(rng)],
        wrong=[
            Wrong("every name", lambda saved: sum(array.size for array in saved.values()),
                  "One array stands under two names, and you count it under both. `a is b` or id(a) tells that they are one."),
            Wrong("rows", lambda saved: sum(len(array) for array in {id(a): a for a in saved.values()}.values()),
                  "len is the number of rows. All elements are `array.size`."),
            Wrong("by shape", lambda saved: sum(int(np.prod(shape)) for shape in {a.shape for a in saved.values()}),
                  "Arrays of one shape are not one array. Ask whether it is the same object, not whether it looks alike."),
            Wrong("by value", lambda saved: sum(a.size for a in {a.tobytes(): a for a in saved.values()}.values()),
                  "Two biases that are both zero are still two biases. Compare with `is`, not by value."),
            Wrong("names", lambda saved: len({id(a) for a in saved.values()}),
                  "This is the number of arrays. Add up how many numbers each holds."),
        ],
    ),
    Exercise(
        "multiplications",
        cases=lambda rng: [(1, 4), (10, 4), (1024, 768), (3, 1)],
        wrong=[
            Wrong("scores alone", lambda n, d: (n * 12 * d * d, n * n * d),
                  "Half of it: after the scores, the weights are multiplied with the values, n · n · d once more."),
            Wrong("without n", lambda n, d: (12 * d * d, 2 * n * n * d),
                  "That is for one token. Every token goes through the matrices: n times as much."),
            Wrong("attention's matrices alone", lambda n, d: (n * 4 * d * d, 2 * n * n * d),
                  "The feed-forward network is missing: two matrices of 4 d², 8 d² in all."),
            Wrong("n squared everywhere", lambda n, d: (n * n * 12 * d * d, 2 * n * n * d),
                  "Each token meets each matrix once, not each token: the first kind grows in line with n."),
            Wrong("d squared between tokens", lambda n, d: (n * 12 * d * d, 2 * n * d * d),
                  "Between tokens it is the other way round: n · n pairs, each of them a product d long."),
            Wrong("weights without width", lambda n, d: (n * 12 * d * d, 2 * n * n),
                  "Each score is a product of two vectors, d long over all heads: multiply by d."),
            Wrong("exchanged", lambda n, d: (2 * n * n * d, n * 12 * d * d),
                  "The pair is exchanged: first the matrices with parameters, then what happens between tokens."),
        ],
    ),
]  # fmt: skip
