"""The step of Adam in one pass: see `adam` in `tinygrad_tf/optim.py`."""

from __future__ import annotations

import numpy as np

from .loops import F, kernel


@kernel
def adam(shrink, decay, beta1, beta2, eps, rate, g, m, v, p):
    keep1, keep2, new1, new2 = F(beta1), F(beta2), F(1 - beta1), F(1 - beta2)
    shrink, decay, eps, rate = F(shrink), F(decay), F(eps), F(rate)
    for i in range(p.size):
        w = p[i] * shrink
        s = g[i] + decay * w
        m[i] = keep1 * m[i] + new1 * s
        v[i] = keep2 * v[i] + new2 * (s * s)
        p[i] = w - rate * m[i] / (np.sqrt(v[i]) + eps)
