"""What the contest shows and writes: a table, a line for each step, the results, and every curve in one plot."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from tinygrad_tf.checkpoint import write_atomically

from .tables import BUSY, console

TARGETS: dict[float, float] = {60: 1.80, 180: 1.60, 300: 1.53}  # seconds: the loss that ours must reach on Tiny Shakespeare
COLORS = {"ours": "#d94801", "nanogpt": "#08519c", "modern": "#31a354"}
POINTS = 100  # of each curve in the plot: a batch's loss jumps too much to be drawn step by step


def begin(facts: dict[str, Any], threads: int, kernels: str, budgets: list[float], labels: list[str]) -> None:
    console.print(f"{facts['cpu']}, {facts['cores']} cores; Python {facts['python']}, NumPy {facts['numpy']}, PyTorch "
                  f"{facts['torch'] or 'not installed: ours alone'}; our kernels: {kernels}; threads for each: {threads}")
    long = ", ".join(f"{budget:g}" for budget in budgets)
    console.print(f"{long} seconds of training each for: {'; '.join(labels)}")


def say(result: dict[str, Any]) -> None:
    console.print(f"{result['seconds']:g} s  {result['label']}: {result['val_loss']:.4f} after {result['steps']:,} steps")


def verdict(result: dict[str, Any]) -> str:
    """Whether a result with a target reaches it."""
    if result["target"] is None:
        return ""
    reached = "reached" if result["val_loss"] <= result["target"] else "falls short"
    return f"≤ {result['target']:.2f}: {reached}"


def rate(result: dict[str, Any]) -> float:
    """Tokens a second of training."""
    return result["tokens"] / max(result["trained"], 1e-9)


def show(results: list[dict[str, Any]]) -> None:
    """One line for each training."""
    busy = [r["others"] for r in results if r["others"] is not None]
    caption = "Loss: nats per character over the whole held-out tenth, in windows of the context that do not overlap."
    if busy:
        caption += f"\nOther programs kept {max(busy):.1f} cores busy at most, on average over a training."
        if max(busy) > BUSY:
            caption += "\nSo busy a machine takes away time, and not the same from everybody: these numbers say little."
    made = Table(title="loss when the time is up", title_justify="left", title_style="bold", caption=caption,
                 caption_justify="left")  # fmt: skip
    for column in ("seconds", "", "loss", "steps", "tokens", "tokens/s", "target"):
        made.add_column(column, justify="left" if column in ("", "target") else "right", no_wrap=True)
    for i, r in enumerate(results):
        made.add_row(f"{r['seconds']:g}", r["label"], f"{r['val_loss']:.4f}", f"{r['steps']:,}", f"{r['tokens']:,}",
                     f"{rate(r):,.0f}", verdict(r),
                     end_section=i + 1 < len(results) and results[i + 1]["seconds"] != r["seconds"])  # fmt: skip
    console.print(made)


def write(folder: Path, facts: dict[str, Any], results: list[dict[str, Any]]) -> None:
    """contest.json, a file of lines for the last training, and contest.svg. The same results give the same bytes."""
    last = results[-1]
    lines = [{"step": i + 1, "seconds": seconds, "loss": loss} for i, (seconds, loss) in enumerate(last["curve"])]
    end = {"step": last["steps"], "seconds": last["trained"], "val_loss": last["val_loss"]}
    name = f"{last['contestant']}-{last['seconds']:g}.jsonl"
    write_atomically(folder / name, "".join(json.dumps(line) + "\n" for line in [*lines, end]))
    table = [{name: value for name, value in r.items() if name != "curve"} | {"tokens_per_second": rate(r)} for r in results]
    write_atomically(folder / "contest.json", json.dumps({"machine": facts, "results": table}, indent=1) + "\n")
    write_atomically(folder / "contest.svg", plot(results))


def plot(results: list[dict[str, Any]]) -> bytes:
    """An SVG: the loss of the batches against the seconds, a star for the held-out loss at the end, a bar for a target."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "tinygrad_tf", "font.size": 11}):
        figure = Figure(figsize=(8, 5), layout="constrained")
        axes = figure.subplots()
        named: set[str] = set()
        for r in results:
            color = COLORS[r["contestant"]]
            label = None if r["label"] in named else r["label"]
            named.add(r["label"])
            axes.plot(*smooth(r["curve"]), color=color, linewidth=1, alpha=0.7, label=label)
            axes.plot(r["trained"], r["val_loss"], color=color, marker="*", markersize=12, linestyle="", clip_on=False)
            peers = [other["val_loss"] for other in results if other["seconds"] == r["seconds"]]
            # the highest of a budget has its number above, the lowest below, what is between beside
            away = (-13, 7) if r["val_loss"] == max(peers) else (-13, -16) if r["val_loss"] == min(peers) else (9, -1)
            axes.annotate(f"{r['val_loss']:.3f}", (r["trained"], r["val_loss"]), away, textcoords="offset points",
                          color=color, fontsize=9)  # fmt: skip
            if r["target"] is not None:
                axes.plot(r["trained"], r["target"], color="black", marker="_", markersize=16, linestyle="")
        ends = [value for r in results for value in (r["val_loss"], *smooth(r["curve"])[1][-5:])]
        if np.isfinite(ends).all():
            axes.set_ylim(min(ends) - 0.1, max(3.0, *ends))
        axes.set(xlabel="seconds of training", ylabel="loss (nats per character)", xlim=(0, None))
        axes.set_title("lines: batches; stars: all held-out text; bars: targets")
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        image = io.BytesIO()
        figure.savefig(image, format="svg", metadata={"Date": None})
    return image.getvalue()


def smooth(curve: list[Any]) -> tuple[list[float], list[float]]:
    """Seconds and losses of a curve, each the mean over some neighbouring steps: POINTS of them, or all of a short curve."""
    parts = np.array_split(np.asarray(curve, float), min(POINTS, len(curve)))
    seconds, losses = np.array([part.mean(0) for part in parts]).T.tolist()
    return seconds, losses
