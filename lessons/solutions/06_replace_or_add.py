"""Solutions to the exercises of lesson 6."""

import numpy as np


def write(x, branch):
    return x + branch(x)


def needed_update(x, wanted):
    return wanted - x


def pre_norm_block(x, attn, ffn, attn_norm, ffn_norm):
    x = x + attn(attn_norm(x))
    return x + ffn(ffn_norm(x))


def leaves_alone(block, x):
    return bool(np.array_equal(block(x), x))
