"""F8: a whole pre-norm block on three words: every number of its seven steps, and the arithmetic behind each (S24)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tinygrad_tf import Tensor, nn

from .figure import Figure, figure, steps, switch
from .paint import WIDTH, arrow, circle, line, number, rect, svg, text, vector

NAMES = ("the", "cat", "sat")
TOKENS = np.array([[1.0, 0], [0, 1], [1, 1]])
PLACES = np.array([[0.0, 0], [0.5, 0], [0, 0.5]])
W1 = np.array([[1.0, -1, 0, 1], [0, 1, -1, 1]])
W2 = np.array([[0.5, 0], [0, 0.5], [-0.5, 0], [0, -0.5]])

Cell = tuple[str, int, int]  # the array, its row, its column


@dataclass(frozen=True)
class Place:
    """Where an array stands in the drawing: its name, what stands above it, its left and top."""

    name: str
    label: str
    left: float
    top: float


TALL, RAIL, FIRST = 25, 12, 54
WIDE, WIDER = 46, 54  # of one number, and of one that may have a minus sign
PLACED = (  # in the order in which they are computed
    Place("token", "token", FIRST, 146), Place("place", "position", 164, 146), Place("x", "x = token + position", 282, 146),
    Place("rms x", "rms", FIRST, 266), Place("a", "a = x / rms", 118, 266),
    Place("scores", "scores a·a / √2", FIRST, 386), Place("weights", "weights", 202, 386), Place("read", "read", 362, 386),
    Place("h", "h = x + read", FIRST, 506), Place("rms h", "rms", 172, 506), Place("b", "b = h / rms", 236, 506),
    Place("sums", "sums b W1", FIRST, 626), Place("active", "ReLU of the sums", 274, 626),
    Place("ffn", "update", FIRST, 746), Place("y", "y = h + update", 192, 746),
)  # fmt: skip
STEPS = ((146, "1  embedding plus position"), (266, "2  norm"), (386, "3  attention"), (506, "4  first sum, and  5  norm"),
         (626, "6  feed-forward: widen, activate …"), (746, "… narrow, and  7  second sum"))  # fmt: skip
GIVEN = ("token", "place")
COLUMNS = {"token": 2, "place": 2, "x": 2, "rms x": 1, "a": 2, "scores": 3, "weights": 3, "read": 2,
           "h": 2, "rms h": 1, "b": 2, "sums": 4, "active": 4, "ffn": 2, "y": 2}  # fmt: skip
CELLS: tuple[Cell, ...] = tuple(
    (place.name, r, c) for place in PLACED if place.name not in GIVEN for r in range(3) for c in range(COLUMNS[place.name])
)


@figure("F8", "A whole block, three words, every number", [
    switch("masked", "Causal mask"),
    steps(len(CELLS) + 1, "Number"),
])  # fmt: skip
def block_by_hand(masked: bool = False, step: int = 0) -> Figure:
    """“the cat sat” through a block of width 2: one head, identity projections, RMSNorm without gain and ε, four ReLU units.

    masked: each word reads itself and what stands before it, or all three; in the data, a score that is masked is None.
    step: 0 is the overview; from 1 on one number each, in the order in which they are computed: `CELLS`.
    """
    arrays = computed(masked)
    plain = lambda value: None if math.isinf(value) else float(value)
    data: dict = {name: [[plain(v) for v in row] for row in values] for name, values in arrays.items()}
    if step == 0:
        words = (
            f"“the” comes in as {vector(arrays['x'][0], 1)}, is {vector(arrays['h'][0], 3)} after attention and "
            f"{vector(arrays['y'][0], 3)} after the feed-forward network. Click a number, or walk with the arrow keys: "
            f"its arithmetic is shown."
        )
        said = ["Click a number to see how it was computed,", "or walk through all of them with the arrow keys."]
        return Figure(data, _drawing(arrays, None, (), said), words)
    cell = CELLS[step - 1]
    said, sources = arithmetic(arrays, cell, masked)
    data |= {"cell": list(cell), "value": plain(arrays[cell[0]][cell[1:]]), "sources": [list(s) for s in sources], "said": said}
    return Figure(data, _drawing(arrays, cell, sources, said), ". ".join(said) + ".")


def computed(masked: bool) -> dict[str, np.ndarray]:
    """Every array of the block, by name, from one run of the engine's `nn.Block`."""
    attn, ffn = nn.MultiHeadAttention(2, 1, bias=False).double(), nn.FeedForward(2, 4, "relu", bias=False).double()
    for projection in (attn.q_proj, attn.k_proj, attn.v_proj, attn.out_proj):
        projection.weight.data = np.eye(2)
    ffn.up.weight.data, ffn.down.weight.data = W1.T.copy(), W2.T.copy()
    norm = lambda: nn.RMSNorm(2, eps=0.0, elementwise_affine=False)
    block = nn.Block(nn.pre_norm(norm, attn=attn), nn.pre_norm(norm, ffn=ffn))
    seen: dict[str, np.ndarray] = {}
    parts = dict(block.named_modules())
    for name, path in {"a": "attn_norm", "read": "attn", "b": "ffn_norm", "sums": "ffn.up", "ffn": "ffn"}.items():
        parts[path].register_forward_hook(lambda m, args, out, name=name: seen.__setitem__(name, out.array[0]))
    parts["ffn_norm"].register_forward_pre_hook(lambda m, args: seen.__setitem__("h", args[0].array[0]))
    ffn.down.register_forward_pre_hook(lambda m, args: seen.__setitem__("active", args[0].array[0]))
    x = Tensor(TOKENS) + Tensor(PLACES)
    y = block(x.unsqueeze(0), causal=masked).array[0]
    read = Tensor(seen["a"])
    scores = read @ read.T / math.sqrt(2)
    if masked:
        scores = scores.masked_fill(~np.tri(3, dtype=bool), -math.inf)
    rms = lambda stream: stream.square().mean(-1, keepdim=True).sqrt().array
    found = {"token": TOKENS, "place": PLACES, "x": x.array, "rms x": rms(x), "scores": scores.array,
             "weights": scores.softmax(-1).array, "rms h": rms(Tensor(seen["h"])), "y": y, **seen}  # fmt: skip
    return {name: found[name] for name in COLUMNS}


def arithmetic(arrays: dict[str, np.ndarray], cell: Cell, masked: bool) -> tuple[list[str], tuple[Cell, ...]]:
    """How a number comes about, in two or three lines, and the numbers it is computed from."""
    name, r, c = cell
    word, which = NAMES[r], ("first", "second", "third", "fourth")[c]
    sources: tuple[Cell, ...]
    n = lambda source: _shown(arrays[source[0]][source[1:]])
    value = n(cell)
    row = lambda array, columns=2: tuple((array, r, i) for i in range(columns))
    if name in ("x", "h", "y"):
        summed = {"x": ("token", "place"), "h": ("x", "read"), "y": ("h", "ffn")}[name]
        sources = tuple((array, r, c) for array in summed)
        what = {"x": "token + position", "h": "x + read", "y": "h + update"}[name]
        return [f"{name} of “{word}”, {which} number: {what}", f"{n(sources[0])} + {_signed(n(sources[1]))} = {value}"], sources
    if name.startswith("rms"):
        sources = row(name[-1])
        squares = " + ".join(f"{_signed(n(s))}²" for s in sources)
        return [f"root mean square of “{word}”", f"√(({squares}) / 2) = {value}"], sources
    if name in ("a", "b"):
        stream = "x" if name == "a" else "h"
        sources = ((stream, r, c), (f"rms {stream}", r, 0))
        divided = f"{n(sources[0])} / {n(sources[1])} = {value}"
        return [f"{name} of “{word}”, {which} number: {stream} / rms", divided], sources
    if name == "scores":
        hidden = masked and c > r
        sources = tuple(dict.fromkeys((*row("a"), *(("a", c, i) for i in range(2)))))
        title = f"score of “{word}” for “{NAMES[c]}”: query · key / √2"
        if hidden:
            return [title, f"“{NAMES[c]}” comes later than “{word}”: masked, −∞"], ()
        products = " + ".join(f"{_signed(n(('a', r, i)))} × {_signed(n(('a', c, i)))}" for i in range(2))
        return [title, f"({products}) / 1.414 = {value}"], sources
    if name == "weights":
        sources = tuple(("scores", r, i) for i in range(3))
        exps = np.exp(arrays["scores"][r])
        each, total = [number(e, 3) for e in exps], number(exps.sum(), 3)
        title = f"weight of “{word}” on “{NAMES[c]}”: softmax of its scores"
        return [
            title,
            f"exp({n(sources[c])}) = {each[c]}, of {' + '.join(each)} = {total}",
            f"{each[c]} / {total} = {value}",
        ], sources
    if name == "read":
        sources = tuple(s for i in range(3) for s in (("weights", r, i), ("a", i, c)))
        products = " + ".join(f"{n(('weights', r, i))} × {_signed(n(('a', i, c)))}" for i in range(3))
        return [f"what “{word}” reads, {which} number: weights · values", products, f"= {value}"], sources
    if name == "sums":
        sources = row("b")
        products = " + ".join(f"{_signed(n(s))} × {_signed(number(W1[i, c], 0))}" for i, s in enumerate(sources))
        return [f"hidden unit {c + 1} of “{word}”: b · column {c + 1} of W1", f"{products} = {value}"], sources
    if name == "active":
        above = arrays["sums"][r, c] > 0
        outcome = f"max(0, {n(('sums', r, c))}) = {value}: it {'fires' if above else 'is off'}"
        return [f"hidden unit {c + 1} of “{word}” after ReLU", outcome], (("sums", r, c),)
    sources = row("active", 4)
    used = [i for i in range(4) if W2[i, c]]
    products = " + ".join(f"{n(('active', r, i))} × {_signed(number(W2[i, c], 1))}" for i in used)
    said = [f"update of “{word}”, {which}: units · column {c + 1} of W2", f"{products} = {value}"]
    return said, tuple(sources[i] for i in used)


def _shown(value: float, digits: int = 3) -> str:
    return "−∞" if math.isinf(value) else number(value, digits)


def _signed(shown: str) -> str:
    return f"({shown})" if shown.startswith("−") else shown


def _drawing(arrays: dict[str, np.ndarray], cell: Cell | None, sources: tuple[Cell, ...], said: list[str]) -> str:
    marks = [rect(2, 2, WIDTH - 4, 92, "panel")]
    marks += [text(12, 28 + 26 * i, sentence, bold=i == 0 and cell is not None, size=14)
              for i, sentence in enumerate(said)]  # fmt: skip
    done = len(CELLS) if cell is None else CELLS.index(cell)
    marks += _stream()
    for below, words in STEPS:
        marks.append(text(FIRST - 26, below - 26, words, "soft", size=15, bold=True))
    for height in sorted({place.top for place in PLACED}):
        marks += [text(FIRST - 6, height + 17 + TALL * r, name, anchor="end") for r, name in enumerate(NAMES)]
    for place in PLACED:
        marks.append(text(place.left, place.top - 6, place.label, "soft", size=14))
        for r in range(3):
            for c in range(COLUMNS[place.name]):
                here = (place.name, r, c)
                at = None if place.name in GIVEN else CELLS.index(here) + 1
                fill = "warm" if here == cell else "cool" if here in sources else "panel"
                ink = "ink" if at is None or at - 1 <= done else "soft"
                shown = _shown(arrays[place.name][r, c], 1 if at is None else 3)
                wide = WIDER if place.name in ("sums", "ffn", "y") else WIDE
                left, top = place.left + wide * c, place.top + TALL * r
                box = rect(left, top, wide - 1, TALL - 1, fill, radius=3, step=at)
                bold = here == cell
                marks.append(box + text(left + wide / 2, top + 17, shown, ink, anchor="middle", size=14, bold=bold, step=at))
    return svg(WIDTH, 828, marks)


def _stream() -> list[str]:
    """The stream at the left: from x past norm and attention to the first sum, and on to the second."""
    marks = [line([(RAIL, 152), (RAIL, 520)], "stream", width=5), line([(RAIL, 520), (RAIL, 760)], "stream", width=5),
             arrow([(RAIL, 770), (RAIL, 824)], "stream", width=5), circle(RAIL, 152, 5, "stream")]  # fmt: skip
    for y in (532, 772):
        marks += [circle(RAIL, y, 10, "sum"), text(RAIL, y + 5, "+", "stream", anchor="middle", size=16, bold=True)]
    return marks
