"""Exercises to lesson 19, Real weights. Replace each `raise` by your own lines, save, and run

    tinygrad-tf check 19

NumPy, `json` and `struct` are enough. `tinygrad-tf check 19 --watch` answers each time you save.
"""

import json
import struct

import numpy as np


def shapes(data):
    """The shape of every array in a safetensors file.

    data: bytes. The first eight are a whole number without sign, least byte first: how long the table is that follows, as
    JSON. It has for each name a dict with "dtype", "shape" and "data_offsets", and maybe an entry "__metadata__" that is no
    array. Returns a dict name -> shape.
    """
    raise NotImplementedError("shapes: yours to write")


def entry(data, name):
    """One array of such a file, by its name.

    Its "data_offsets" are [start, stop), counted in bytes from the end of the table; its "dtype" is F32, four bytes a number,
    least byte first, row by row. Returns a float32 array of its shape.
    """
    raise NotImplementedError("entry: yours to write")


def queries_keys_values(x, weight, bias):
    """What GPT-2's c_attn makes: queries, keys and values, which stand side by side in one matrix in this order.

    x: array (T, d). weight: array (d, 3 d), stored as (in, out). bias: array (3 d,). Returns three arrays (T, d).
    """
    raise NotImplementedError("queries_keys_values: yours to write")


def sentence_vectors(hidden, mask):
    """One vector of length 1 for each text: the direction of the mean over its tokens.

    hidden: array (B, T, d), the encoder's vectors. mask: array (B, T), True where a token stands and False for padding; every
    text has a token. Returns an array (B, d).
    """
    raise NotImplementedError("sentence_vectors: yours to write")
