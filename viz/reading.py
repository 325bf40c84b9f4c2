"""Pictures of a model that was read: where its heads look, what it would say after each block, what speaks for a token.

    reading = read(model, ids)                             tinygrad_tf.reading
    maps(reading, "blocks.0.attn", labels).save("maps.svg")
    lens(reading, labels, vocabulary).save("lens.png")
    contributions(reading.attribution(token), position=-1).save("logit.svg")

labels: what stands at each position, for the axes. vocabulary: id -> the words for it: a Vocabulary, a list or a function.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_tf.edits import HeadEffects
from tinygrad_tf.reading import Reading

from .style import BLUE, GREY, ORANGE

ENDINGS: dict[str, dict] = {".svg": {"Date": None}, ".png": {"Software": None}, ".pdf": {"CreationDate": None}}


@dataclass(frozen=True)
class Plot:
    """A picture that is drawn when it is saved. The same numbers give the same bytes."""

    size: tuple[float, float]  # inches
    draw: Callable[[Any], None]  # on a matplotlib Figure

    def save(self, path: str | Path) -> Path:
        """Write .svg, .png or .pdf. ValueError for another ending."""
        path = Path(path)
        if path.suffix.lower() not in ENDINGS:
            raise ValueError(f"a plot is written as .svg, .png or .pdf, not as {path.suffix or 'a file without an ending'}")
        path.write_bytes(self.render(path.suffix.lower()))
        return path

    def render(self, ending: str = ".svg") -> bytes:
        """The content of such a file."""
        import matplotlib
        from matplotlib.figure import Figure

        with matplotlib.rc_context({"svg.hashsalt": "tinygrad_tf", "svg.fonttype": "none", "font.size": 10}):
            figure = Figure(figsize=self.size, layout="constrained")
            self.draw(figure)
            image = io.BytesIO()
            figure.savefig(image, format=ending[1:], dpi=150, metadata=ENDINGS[ending])
        return image.getvalue()

    def _repr_svg_(self) -> str:
        return self.render().decode()


def maps(reading: Reading | Mapping[str, np.ndarray], name: str, labels: Sequence[Any] | None = None, text: int = 0,
         effects: HeadEffects | None = None) -> Plot:
    """The attention maps of one layer, a square a head: row i shows where position i looks, darker for more weight.

    reading: a Reading, or the maps that `attention_maps` gives. effects: `head_effects` of the same model; each map then says
    what the loss does without that head. text: which of the batch.
    """
    if not isinstance(reading, Reading) and name not in reading:
        raise ValueError(f"{name!r} is no attention layer here; there are: {', '.join(reading)}")
    weights = (reading.maps(name) if isinstance(reading, Reading) else reading[name])[text]  # (H, T, S)
    heads, t, s = weights.shape
    if labels is not None:
        _check_labels(labels, max(t, s))
    change = {head.path: head.change for head in effects.heads} if effects is not None else {}
    side = max(1.9, 0.16 * max(t, s)) if labels is not None else 1.9
    columns = min(heads, 4 if side < 3 else 2)
    rows = -(-heads // columns)

    def draw(figure: Any) -> None:
        from matplotlib.colors import PowerNorm

        norm = PowerNorm(0.5, 0, 1)  # small weights can be told apart
        grid = figure.subplots(rows, columns, squeeze=False)
        image = None
        for r, axes in enumerate(grid.flat):
            if r >= heads:
                axes.set_axis_off()
                continue
            image = axes.imshow(weights[r], cmap="Blues", norm=norm, interpolation="nearest")
            path = f"{name}.heads.{r}"
            axes.set_title(f"head {r}" + (f"\nloss {_signed(change[path])} without it" if path in change else ""), fontsize=9)
            _ticks(axes, labels, t, s, first=r % columns == 0, last=r + columns >= heads)
        figure.colorbar(image, ax=grid, label="weight", shrink=0.7)
        figure.suptitle(name, fontsize=11)

    room = _height(labels or (), 0.16)  # of words that stand below, and lie to the left
    size = (0.9 + room + columns * (side + 0.25), 0.4 + room + rows * (side + (0.6 if change else 0.45)))
    return Plot(size, draw)


def lens(reading: Reading, labels: Sequence[Any], vocabulary: Callable[[int], Any] | Sequence[Any], text: int = 0) -> Plot:
    """A table: for each position a column, for each block a row, in the cell the likeliest next token and its probability.

    The stream flows upwards: the embedding is the lowest row, what the model itself says the highest.
    """
    said = {name: p[text] for name, p in reading.lens().items()}  # (T, V) each
    words = next(each for each in (getattr(vocabulary, "decode", None), vocabulary if callable(vocabulary) else None,
                                   getattr(vocabulary, "__getitem__", None)) if each is not None)  # fmt: skip
    names, t = list(said), next(iter(said.values())).shape[0]
    _check_labels(labels, t)
    cells = [[shown(words(int(token))) for token in p.argmax(-1)] for p in said.values()]
    wide = max(0.5, 0.11 * max(len(cell) for row in cells for cell in row))  # inches a column

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        best = np.stack([p.max(-1) for p in said.values()])
        image = axes.imshow(best, cmap="Blues", vmin=0, vmax=1, aspect="auto", origin="lower")
        for i, row in enumerate(cells):
            for j, cell in enumerate(row):
                ink = "white" if best[i, j] > 0.55 else "black"
                axes.text(j, i + 0.14, cell, ha="center", va="center", color=ink, parse_math=False)
                axes.text(j, i - 0.28, f"{best[i, j]:.2f}", ha="center", va="center", color=ink, fontsize=7)
        axes.set_yticks(range(len(names)), ["embedding", *(f"after {name}" for name in names[1:])])
        _across(axes, [shown(label) for label in labels], wide)
        axes.set_xlabel("what the model has read up to here")
        axes.set_title("the likeliest next token, if the stream ended here", fontsize=11)
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        figure.colorbar(image, ax=axes, label="its probability")

    return Plot((2.6 + wide * t, 1.5 + 0.48 * len(names) + _height(labels, wide)), draw)


def contributions(parts: Mapping[str, np.ndarray], text: int = 0, position: int = -1, title: str = "") -> Plot:
    """What each part adds to one logit, as bars in the order of writing, the first at the top; at the end the sum, the logit.

    parts: what `Reading.attribution` gives.
    """
    values = {name: float(part[text, position]) for name, part in parts.items()}
    rows = [*values.items(), ("sum: the logit", sum(values.values()))]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        numbers = [value for _, value in rows]
        colours = [BLUE if value >= 0 else ORANGE for value in numbers[:-1]] + [GREY]
        bars = axes.barh(range(len(rows)), numbers, color=colours, height=0.7)
        axes.bar_label(bars, [_signed(value) for value in numbers], padding=3, fontsize=8)
        axes.set_yticks(range(len(rows)), [name for name, _ in rows], parse_math=False)
        axes.invert_yaxis()
        axes.axvline(0, color="black", linewidth=0.8)
        axes.axhline(len(rows) - 1.5, color=GREY, linewidth=0.8)
        axes.margins(x=0.18)
        axes.set_xlabel("added to the logit")
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        if title:
            axes.set_title(title, fontsize=11, parse_math=False)

    return Plot((7.0, 1.1 + 0.25 * len(rows)), draw)


def shown(token: Any) -> str:
    """A token as it can be printed in a cell: blanks and line ends by signs."""
    words = str(token).replace(" ", "␣").replace("\n", "↵").replace("\t", "⇥")
    return "".join(c if c.isprintable() else "�" for c in words)


def _ticks(axes: Any, labels: Sequence[Any] | None, t: int, s: int, first: bool, last: bool) -> None:
    axes.tick_params(length=0, labelsize=7)
    if labels is None:
        axes.set_xticks([0, s - 1])
        axes.set_yticks([0, t - 1])
        return
    names = [shown(label) for label in labels]
    _across(axes, names[:s] if last else [""] * s, 0.16)
    axes.set_yticks(range(t), names[-t:] if first else [""] * t, parse_math=False)


def _across(axes: Any, words: list[str], wide: float) -> None:
    """Words under columns of that many inches, upright where they are too long to lie."""
    axes.set_xticks(range(len(words)), words, rotation=90 if _height(words, wide) else 0, parse_math=False)


def _height(words: Sequence[Any], wide: float) -> float:
    """Inches that the longest of these words takes when it stands; 0 if they lie."""
    longest = max((len(shown(word)) for word in words), default=0)
    return 0.09 * longest if 0.09 * longest > wide else 0.0


def _check_labels(labels: Sequence[Any], count: int) -> None:
    if len(labels) != count:
        raise ValueError(f"{len(labels)} labels for {count} positions: each has one")


def _signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")
