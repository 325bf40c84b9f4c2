"""An LSTM over a whole sequence as one op, with its derivation and its composed twin."""

from __future__ import annotations

import numpy as np

from . import ops
from .engine import op


@op(alike=True)
def lstm(read, w, h, c):
    """(T, B, 4H), (4H, H), (B, H), (B, H) -> (T, B, 2H)   y_t = h_t beside c_t (Hochreiter and Schmidhuber 1997)

    z_t = read_t + h_{t-1} w^T in four parts: i, f, o = sigmoid and n = tanh of theirs, in the order i, f, n, o;
    c_t = f c_{t-1} + i n;  h_t = o tanh(c_t).
    Back, from the last position to the first, with what each position hands to the one before it:
    dh += dh_{t+1};  dc += dc_{t+1} + dh o (1 - tanh(c)^2);
    dz = (dc n i (1 - i), dc c_{t-1} f (1 - f), dc i (1 - n^2), dh tanh(c) o (1 - o));  dh_{t-1} = dz w;  dc_{t-1} = dc f;
    dread = dz;  dw = sum_t dz_t^T h_{t-1}, which is one product at the end.
    """
    width = h.shape[1]
    gates, y, bent = np.empty_like(read, order="C"), np.empty((*read.shape[:2], 2 * width), read.dtype), []
    half = np.full(4 * width, 0.5, read.dtype)
    half[2 * width : 3 * width] = 1  # sigmoid(z) = (1 + tanh(z / 2)) / 2: one tanh for all four
    across, states = w.T.copy(), [(h, c)]
    for t in range(len(read)):
        z = np.matmul(states[-1][0], across, out=gates[t])
        z += read[t]
        z *= half
        np.tanh(z, out=z)
        for part in (z[:, : 2 * width], z[:, 3 * width :]):
            part *= 0.5
            part += 0.5
        i, f, n, o = _parts(z)
        states.append((y[t, :, :width], y[t, :, width:]))
        np.multiply(f, states[-2][1], out=states[-1][1])
        states[-1][1][...] += i * n
        bent.append(np.tanh(states[-1][1]))
        np.multiply(o, bent[-1], out=states[-1][0])

    def rule(g):
        dread, dh, dc = np.empty_like(gates), 0, 0
        for t in reversed(range(len(gates))):
            (i, f, n, o), (di, df, dn, do) = _parts(gates[t]), _parts(dread[t])
            before, tanh = states[t][1], bent[t]
            dh = g[t, :, :width] + dh
            dc = g[t, :, width:] + dc + dh * o * (1 - tanh * tanh)
            np.multiply(dc * n, i * (1 - i), out=di)
            np.multiply(dc * before, f * (1 - f), out=df)
            np.multiply(dc * i, 1 - n * n, out=dn)
            np.multiply(dh * tanh, o * (1 - o), out=do)
            dh, dc = dread[t] @ w, dc * f
        before = np.stack([h for h, _ in states[:-1]])
        return dread, dread.reshape(-1, 4 * width).T @ before.reshape(-1, width), dh, dc

    return y, rule


def _parts(z):
    width = z.shape[1] // 4
    return [z[:, k * width : (k + 1) * width] for k in range(4)]


@lstm.reference
def _(read, w, h, c):
    out = []
    for t in range(len(read)):
        i, f, n, o = (read[t] + h @ w.T).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * n.tanh()
        h = o.sigmoid() * c.tanh()
        out.append(ops.cat(h, c, dim=-1).unsqueeze(0))
    return ops.cat(*out, dim=0)
