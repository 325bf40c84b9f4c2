"""Exercises to lesson 14, Where the parameters live. Replace each `raise` by your own lines, save, and run

    tinygrad-tf check 14

Plain Python is enough. All results are whole numbers.
"""


def block_parameters(d, hidden):
    """The parameters of one block of GPT-2's kind: d wide, its feed-forward network `hidden` wide inside.

    Attention has matrices for queries, keys, values and the way back; the feed-forward network has two matrices; two
    LayerNorms. Every matrix has a bias, every norm a gain and a bias. Returns an int.
    """
    raise NotImplementedError("block_parameters: yours to write")


def model_parameters(layers, block, d, vocabulary, context, tied):
    """The parameters of a decoder: `layers` blocks of `block` parameters each, and what stands outside them.

    Outside: a row of d for each token and for each position, one LayerNorm with bias after the last block, and a head without
    bias. tied: the head is the token table. Returns an int.
    """
    raise NotImplementedError("model_parameters: yours to write")


def count(saved):
    """The numbers that a saved model holds: each array once, under however many names it stands.

    saved: a dict from names to NumPy arrays, as {"embedding": a, "head": a, "norm": b}. Equal is not the same: two arrays
    of zeros are two arrays. Returns an int.
    """
    raise NotImplementedError("count: yours to write")


def multiplications(n, d):
    """The multiplications of one block (d wide, 4 d inside) that reads n tokens, without a mask.

    Returns the pair (in matrices that hold parameters, between tokens). The second kind: the scores of every query with every
    key, all heads together d wide, and the weights times the values. Softmax and norms do not count.
    """
    raise NotImplementedError("multiplications: yours to write")
