"""Exercises to lesson 17, Read the residual stream. Replace each `raise` by your own lines, save, and run

    tinygrad-tf check 17

NumPy is enough. `tinygrad-tf check 17 --watch` answers each time you save.
"""

import numpy as np


def updates(x, sublayers):
    """What was written to a pre-norm stream: [x, update 1, update 2, ...], whose sum is the final stream.

    x: array (T, d), the embedding. sublayers: a list of pairs (norm, branch) of functions from (T, d) to (T, d), applied in
    order: each branch reads the norm of the stream as it is by then, and what it returns is added. Returns a list of arrays
    (T, d).
    """
    raise NotImplementedError("updates: yours to write")


def head_update(joined, weight, head, n_head):
    """The part of an attention update that one head wrote; over all heads, these parts add up to joined @ weight.T.

    joined: array (T, n_head * E), the mixtures of the heads side by side. weight: array (d, n_head * E), the output projection,
    stored as PyTorch stores it. head: which one, from 0. Returns an array (T, d).
    """
    raise NotImplementedError("head_update: yours to write")


def attribution(parts, gain, u, eps):
    """What each part of the final stream adds to one token's logit, rms_norm(sum of the parts) * gain @ u, with the scale held.

    RMSNorm divides the stream by √(mean of its squares + eps). parts: array (n, d), one row for each update at one position.
    gain: array (d,). u: array (d,), the token's row of the last matrix. Returns an array (n,), which adds up to the logit.
    """
    raise NotImplementedError("attribution: yours to write")


def lens(stream, gain, matrix, eps):
    """The logit lens: the probabilities of the next token, if the stream ended here.

    stream: array (T, d), after some block. The model's last RMSNorm (gain (d,), eps) comes first, then its matrix (V, d), then
    softmax over the tokens. Returns an array (T, V) whose rows add to 1.
    """
    raise NotImplementedError("lens: yours to write")
