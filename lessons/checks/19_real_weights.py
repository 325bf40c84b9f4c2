"""What the answers to lesson 19 are tried on, and the mistakes that are known."""

import json
import struct

import numpy as np

from lessons.exercise import Exercise, Wrong


def _file(arrays, metadata=None, pad=0):
    """Arrays as the bytes of a safetensors file; pad: blanks at the end of the table, as writers put there."""
    table, at = ({"__metadata__": metadata} if metadata else {}), 0
    for name, array in arrays.items():
        table[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    words = json.dumps(table).encode() + b" " * pad
    return struct.pack("<Q", len(words)) + words + b"".join(array.astype("<f4").tobytes() for array in arrays.values())


def _arrays(rng):
    return {"wte.weight": rng.normal(size=(3, 4)).astype("f4"), "ln_f.bias": rng.normal(size=4).astype("f4"),
            "h.0.attn.c_attn.weight": rng.normal(size=(2, 6)).astype("f4")}  # fmt: skip


def _files(rng):
    small = {"a": rng.normal(size=(1, 2, 2)).astype("f4")}
    return [_file(_arrays(rng)), _file(_arrays(rng), {"format": "pt"}, pad=5), _file(small, pad=3)]


def _table(data, *, order="<Q", size=8, start=8, less=0):
    (length,) = struct.unpack(order, data[:size])
    return json.loads(data[start : start + length - less]), start + length


def _shapes(table, keep=("__metadata__",), what=lambda entry: entry["shape"]):
    return {name: what(entry) for name, entry in table.items() if name not in keep}


def _entry(data, name, *, begin=None, dtype="<f4", order="C", flat=False, first=True):
    table, rest = _table(data)
    begin = rest if begin is None else begin
    start, stop = table[name]["data_offsets"]
    start = start if first else 0
    numbers = np.frombuffer(data[begin + start : begin + stop], dtype)
    return numbers if flat else numbers.reshape(table[name]["shape"], order=order)


def _whole_of_rest(data, name):
    """Takes as many numbers as the shape says, from the beginning of the data."""
    table, rest = _table(data)
    shape = table[name]["shape"]
    return np.frombuffer(data, "<f4", int(np.prod(shape)), rest).reshape(shape)


def _split(x, weight, bias, how):
    return how(x @ weight + bias)


def _by_thirds(y):
    return y[:, ::3], y[:, 1::3], y[:, 2::3]


def _pooled(total):
    return total / np.linalg.norm(total, axis=-1, keepdims=True)


def _mean(hidden, mask):
    return (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)


EXERCISES = [
    Exercise(
        "shapes",
        cases=lambda rng: [(data,) for data in _files(rng)],
        wrong=[
            Wrong("metadata counted", lambda data: _shapes(_table(data)[0], keep=(), what=lambda e: e.get("shape")),
                  "“__metadata__” is in your result. It is no array: leave it out."),
            Wrong("offsets", lambda data: _shapes(_table(data)[0], what=lambda e: e["data_offsets"]),
                  "These are the data_offsets, where the bytes lie. The sizes are under “shape”."),
            Wrong("numbers counted", lambda data: _shapes(_table(data)[0], what=lambda e: int(np.prod(e["shape"]))),
                  "That is how many numbers there are. The shape itself is asked for."),
            Wrong("turned", lambda data: _shapes(_table(data)[0], what=lambda e: e["shape"][::-1]),
                  "Your shapes are turned round. As the table has them they are right: rows first."),
            Wrong("whole entries", lambda data: _shapes(_table(data)[0], what=lambda e: e),
                  "These are the whole entries; of each only its “shape” is asked for."),
        ],
    ),
    Exercise(
        "entry",
        cases=lambda rng: [(data, name) for data in _files(rng)[:2] for name in _arrays(rng)],
        wrong=[
            Wrong("from the start of the file", lambda data, name: _entry(data, name, begin=0),
                  "Your offsets count from the start of the file. They count from the end of the table: 8 + its length "
                  "further on."),
            Wrong("eight forgotten", lambda data, name: _entry(data, name, begin=_table(data)[1] - 8),
                  "Eight bytes too early: the numbers begin after the table, and the table after the first eight bytes."),
            Wrong("first array", _whole_of_rest,
                  "You always begin with the first number of the file. Each array has its own start in data_offsets."),
            Wrong("most significant first", lambda data, name: _entry(data, name, dtype=">f4"),
                  "You read the bytes of a number in the wrong order: least byte first is “<f4”."),
            Wrong("whole numbers", lambda data, name: _entry(data, name, dtype="<i4"),
                  "You read whole numbers. F32 is a float of four bytes: “<f4”."),
            Wrong("flat", lambda data, name: _entry(data, name, flat=True) if data else None,
                  "Right numbers, one long row: give them their shape with reshape."),
            Wrong("columns first", lambda data, name: _entry(data, name, order="F"),
                  "Right numbers in the wrong places: they stand row by row, as reshape takes them without an order."),
        ],
    ),
    Exercise(
        "queries_keys_values",
        cases=lambda rng: [(rng.normal(size=(t, d)), rng.normal(size=(d, 3 * d)), rng.normal(size=3 * d))
                           for t, d in ((4, 3), (2, 6), (9, 1), (3, 3))],
        wrong=[
            Wrong("every third", lambda x, w, b: _split(x, w, b, _by_thirds),
                  "You take every third column. The three stand side by side: the first d columns are the queries."),
            Wrong("keys first", lambda x, w, b: _split(x, w, b, lambda y: [np.split(y, 3, -1)[i] for i in (1, 0, 2)]),
                  "Queries and keys are swapped: the order is queries, keys, values."),
            Wrong("values first", lambda x, w, b: _split(x, w, b, lambda y: np.split(y, 3, -1)[::-1]),
                  "The order is turned round: queries, keys, values."),
            Wrong("bias forgotten", lambda x, w, b: _split(x, w, 0, lambda y: np.split(y, 3, -1)),
                  "The bias is missing: x @ weight + bias, and then the split."),
            Wrong("read as (out, in)", lambda x, w, b: _split(x, w.reshape(w.shape[::-1]).T, b, lambda y: np.split(y, 3, -1)),
                  "You read the numbers as (3 d, d). The file has (in, out), so x @ weight is all, without a transpose "
                  "or reshape."),
            Wrong("split by rows", lambda x, w, b: _split(x, w, b, lambda y: y.reshape(3, len(x), -1)),
                  "reshape(3, T, d) cuts the rows. What stands side by side is the last axis: np.split(y, 3, axis=-1)."),
            Wrong("one array", lambda x, w, b: x @ w + b, "Right, and not yet split: three arrays of width d are asked for."),
        ],
    ),
    Exercise(
        "sentence_vectors",
        cases=lambda rng: [
            (rng.normal(size=(3, 4, 5)), np.arange(4) < np.array([[4], [2], [1]])),
            (rng.normal(size=(2, 2, 3)) + 2, np.arange(2) < np.array([[1], [2]])),
            (rng.normal(size=(3, 3, 3)), np.arange(3) < np.array([[3], [1], [2]])),
        ],
        wrong=[
            Wrong("padding counted", lambda h, m: _pooled(h.mean(1)),
                  "The padding is in your mean: multiply by the mask first, so that only real tokens count."),
            Wrong("not of length 1", _mean,
                  "Right direction, but not of length 1: divide each vector by its norm."),
            Wrong("sum", lambda h, m: (h * m[..., None]).sum(1),
                  "That is the sum over the tokens. Divide each vector by its norm, so that its length is 1."),
            Wrong("first token", lambda h, m: _pooled(h[:, 0]),
                  "That is the first token's vector. Here the mean over all tokens of the text is asked for."),
            Wrong("each token normed", lambda h, m: _mean(_pooled(h), m),
                  "You bring each token to length 1 and then take the mean. First the mean, then the length."),
            Wrong("largest", lambda h, m: _pooled(np.where(m[..., None], h, -np.inf).max(1)),
                  "You take the largest number of each coordinate; the mean is asked for."),
            Wrong("mask turned round", lambda h, m: _pooled((h * ~m[..., None]).sum(1)),
                  "Turned round: True in the mask means that a token stands there."),
            Wrong("one norm for all", lambda h, m: _mean(h, m) / np.linalg.norm(_mean(h, m)),
                  "You divide by the norm of the whole array. Each text has its own: np.linalg.norm(..., axis=-1, "
                  "keepdims=True)."),
            Wrong("over the width", lambda h, m: _pooled((h * m[..., None]).sum(2)),
                  "You add over the coordinates. The mean goes over the tokens, axis=1."),
        ],
        properties=[("each vector has length 1", lambda r, h, m: np.allclose(np.linalg.norm(r, axis=-1), 1))],
    ),
]
