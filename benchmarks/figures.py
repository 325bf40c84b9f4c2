"""The measurements as pictures, one SVG each. The same results give the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import growth, lengths, recomputation, targets
from .tables import MIB, NAMES

COLOURS = {"ours": "#0072B2", "ours, numba": "#009E73", "torch": "#D55E00", "torch, kept": "#E69F00", "products": "#777777"}
MARKS = {"ours": "o", "ours, numba": "s", "torch": "^", "torch, kept": "v", "products": ""}
STYLE = {"svg.hashsalt": "tinygrad_tf", "font.size": 11, "axes.grid": True, "grid.alpha": 0.25, "axes.spines.top": False,
         "axes.spines.right": False, "legend.frameon": False, "axes.titlesize": 11, "savefig.facecolor": "white"}  # fmt: skip


def write(results: list[dict[str, Any]], folder: Path) -> list[Path]:
    """An SVG for each kind of measurement that is among the results; the paths."""
    import matplotlib

    written = []
    with matplotlib.rc_context(STYLE):
        for name, figure in _figures(results):
            path = folder / f"{name}.svg"
            figure.savefig(path, metadata={"Date": None})
            written.append(path)
    return written


def _figures(results: list[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    known: dict[str, tuple[str, Callable[[list[dict[str, Any]]], Any]]] = {
        "attention": ("attention", of_attention), "growth": ("growth", of_growth), "memory": ("memory", of_memory),
        "recomputation": ("recomputation", recomputation.figure),
    }  # fmt: skip
    if any(targets.judged(results)):
        yield "targets", of_targets(results)
    for what, (name, draw) in known.items():
        rows = [r for r in results if r["what"] == what]
        if what == "memory":
            rows = [r for r in rows if max(added["median"] for added in r["added"].values()) >= MIB]  # tiny adds nothing to see
        if rows:
            yield name, draw(rows)


def _blank(width: float, height: float, rows: int = 1, columns: int = 1, **options: Any) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    made = Figure(figsize=(width, height), layout="constrained")
    return made, made.subplots(rows, columns, squeeze=False, **options).ravel()


def _curve(axes: Any, name: str, x: list[float], spreads: list[dict[str, float]]) -> None:
    """Medians as a line, quartiles as a band."""
    colour, dashed = COLOURS[name], "--" if name == "products" else "-"
    axes.fill_between(x, [s["lower"] for s in spreads], [s["upper"] for s in spreads], color=colour, alpha=0.2, linewidth=0)
    axes.plot(x, [s["median"] for s in spreads], dashed, color=colour, marker=MARKS[name], markersize=5, label=NAMES[name])


def _logarithmic(axes: Any, x: list[int]) -> None:
    """Both axes; the measured points are the ticks below, whole numbers stand at the side."""
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator, StrMethodFormatter

    axes.set(xscale="log", yscale="log")
    axes.set_xticks(x, [f"{value:,}" for value in x])
    axes.xaxis.set_minor_locator(NullLocator())
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 300 else (1,)))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def of_attention(rows: list[dict[str, Any]]) -> Any:
    passes = [name for name in lengths.PASSES if any(r["pass"] == name for r in rows)]
    figure, panels = _blank(5 * len(passes), 4.2, 1, len(passes), sharey=True)
    for axes, name in zip(panels, passes):
        of_pass = [r for r in rows if r["pass"] == name]
        x = [r["length"] for r in of_pass]
        for who in of_pass[0]["milliseconds"]:
            _curve(axes, who, x, [r["milliseconds"][who] for r in of_pass])
        _logarithmic(axes, x)
        axes.set(title=name, xlabel="T, tokens in a text")
    panels[0].set_ylabel("ms")
    panels[0].legend()
    heads = f"{lengths.HEADS} heads of {lengths.HEAD_DIM}, {lengths.TOKENS:,} tokens in all"
    figure.suptitle(f"Causal attention alone: {heads}, {_threads(rows)}; medians and quartiles", fontsize=12)
    return figure


def of_growth(rows: list[dict[str, Any]]) -> Any:
    series = [name for name in growth.SERIES if any(r["series"] == name for r in rows)]
    columns = min(2, len(series))
    figure, panels = _blank(5 * columns, 3.6 * -(-len(series) // columns) + 0.4, -(-len(series) // columns), columns)
    for axes in panels[len(series) :]:
        axes.set_visible(False)
    for axes, name in zip(panels, series):
        of_series = [r for r in rows if r["series"] == name]
        x = [r["value"] for r in of_series]
        for who in of_series[0]["milliseconds"]:
            _curve(axes, who, x, [r["milliseconds"][who] for r in of_series])
            if p := growth.exponent(of_series, who):
                axes.lines[-1].set_label(f"{NAMES[who]}: {name}$^{{{p:.2f}}}$")
        _logarithmic(axes, x)
        axes.set(xlabel=name, ylabel="ms")
        axes.legend()
    figure.suptitle(f"A training step of the size laptop, one number of it changed; {_threads(rows)}; medians and quartiles,\n"
                    f"powers of the last {growth.FITTED} points", fontsize=12)  # fmt: skip
    return figure


def of_memory(rows: list[dict[str, Any]]) -> Any:
    figure, panels = _blank(3 + 2.6 * len(rows), 3.6, 1, len(rows))
    for axes, r in zip(panels, rows):
        for i, (who, added) in enumerate(r["added"].items()):
            mib = added["median"] / MIB
            axes.bar(i, mib, 0.7, color=COLOURS[who])
            axes.annotate(f"{mib:,.{0 if mib >= 100 else 1}f}", (i, mib), ha="center", va="bottom")
        axes.set_xticks(range(len(r["added"])), [NAMES[who].replace(", ", ",\n") for who in r["added"]])
        axes.set(title=r["size"], ylim=(0, 1.12 * max(added["median"] for added in r["added"].values()) / MIB))
        axes.grid(axis="x", visible=False)
    panels[0].set_ylabel("MiB")
    figure.suptitle("Peak memory of a training step,\nless what was held before it", fontsize=12)
    return figure


def of_targets(results: list[dict[str, Any]]) -> Any:
    rows = list(targets.judged(results))
    figure, (axes,) = _blank(9, 1.3 + 0.38 * len(rows))
    for y, row in enumerate(rows):
        ratio, colour = row["ratio"], COLOURS[row["target"].base]
        error = np.array([[ratio["median"] - ratio["lower"]], [ratio["upper"] - ratio["median"]]])
        axes.errorbar(ratio["median"], y, xerr=error, fmt="o" if row["reached"] else "x", color=colour, capsize=3, markersize=7)
        axes.plot([row["target"].least] * 2, [y - 0.35, y + 0.35], color="#000000", linewidth=2, zorder=3)
    axes.axvline(1, color="#999999", linewidth=1, zorder=1)
    axes.set(yticks=range(len(rows)), yticklabels=[row["target"].label for row in rows], ylim=(len(rows) - 0.5, -0.5),
             xscale="log", xlabel="PyTorch eager over ours: above 1, ours is faster or needs less memory")  # fmt: skip
    ticks = [0.5, 0.7, 1, 1.5, 2, 3, 4, 5, 7, 10, 15, 20]
    low, high = axes.get_xlim()
    shown = [tick for tick in ticks if low <= tick <= high]
    axes.set_xticks(shown, [f"{tick:g}" for tick in shown])
    axes.set_xticks([], minor=True)
    axes.set_xlim(low, high)
    figure.suptitle("Target: the black mark. Measured: ● reached, × falls short; the line spans the quartiles", fontsize=12)
    return figure


def _threads(rows: list[dict[str, Any]]) -> str:
    count = rows[0]["threads"]
    return "one thread" if count == 1 else f"{count} threads"
