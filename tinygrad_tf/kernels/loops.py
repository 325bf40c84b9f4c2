"""What all kernels share: how they are compiled, and the functions of one number that they call.

A compiled kernel holds what it calls: after a change in this file, the folder __pycache__ beside it has to go.

Sums may be taken in another order and products contracted with them, which is what lets a loop go through eight or sixteen
numbers at once; NaN and infinity stay what they are. `nogil`: other threads of the program run meanwhile, ours too.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from ..special import DENSITY, MILLS, SCALE

FLAGS = {"reassoc", "contract", "nsz", "arcp", "afn"}
kernel = njit(cache=True, nogil=True, fastmath=FLAGS, error_model="numpy")
number = njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")  # in these the order matters

F = np.float32
ZERO, HALF, ONE = F(0), F(0.5), F(1)
LOWEST, HIGHEST = F(-87.336544), F(88.72283)  # e ** x is no float32 of full precision below, and none at all above
LOG2_E = F(1 / math.log(2))
LN2_HEAD = F(0.693359375)  # 9 digits of ln 2 in base 2: its products with whole numbers up to 128 are exact
LN2_TAIL = F(math.log(2) - 0.693359375)
C2, C3, C4, C5, C6, C7 = (F(1 / math.factorial(k)) for k in range(2, 8))


@number
def exp(x):
    """e ** x = 2 ** n e ** r with r = x - n ln 2 in [-0.35, 0.35]; Taylor's series of e ** r, whose rest is below 6e-9"""
    n = np.floor(x * LOG2_E + HALF)
    r = x - n * LN2_HEAD
    r = r - n * LN2_TAIL
    y = ((((((C7 * r + C6) * r + C5) * r + C4) * r + C3) * r + C2) * r * r + r) + ONE
    y = y * np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)
    if x < LOWEST:
        return ZERO
    if x > HIGHEST:
        return F(np.inf)
    return y


@number
def sigmoid(x):
    return ONE / (ONE + exp(-x))


@number
def inverse_root(x):
    """1 / sqrt(x), and 0 of infinity; under the flags of `kernel` that may be NaN"""
    return ONE / np.sqrt(x)


M0, M1, M2, M3, M4, M5 = (F(DENSITY * c) for c in MILLS)
STRETCH, TOP, FAR = F(1 / SCALE), F(DENSITY), F(1e4)


@number
def gaussian(x):
    """The share of a standard normal distribution below x, and its density at x: see `special.py`"""
    t = STRETCH * np.abs(x)
    t = FAR if t > FAR else t
    s = t / (ONE + t)
    e = exp(-HALF * x * x)
    tail = (((((M5 * s + M4) * s + M3) * s + M2) * s + M1) * s + M0) * e
    return tail if x < ZERO else ONE - tail, TOP * e


@number
def normal_below(x):
    return gaussian(x)[0]
