"""What was measured, as tables on the terminal."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.table import Table

console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
MIB = 2**20
BUSY = 0.3  # cores used by others from which on the clock says little
NAMES = {"ours": "ours", "torch": "PyTorch", "torch, kept": "PyTorch, freed memory kept", "products": "products alone"}
SPREAD = "min \\[quartiles] max"
RATIO = f"time / ours, {SPREAD}"
FASTER = "time / ours: turn by neighbouring turn, the median; above 1, ours is faster."


def machine(facts: dict[str, Any], threads: int) -> None:
    memory = f", {facts['memory_gib']} GiB" if facts["memory_gib"] else ""
    console.print(f"{facts['cpu']}, {facts['cores']} cores{memory}, {facts['system']}")
    torch = facts["torch"] or "not installed"
    versions = f"Python {facts['python']}, NumPy {facts['numpy']} with {facts['blas']}, PyTorch {torch}"
    console.print(f"{versions}; threads for each: {threads}")
    if not facts["torch"]:
        console.print("PyTorch is not installed: ours is measured alone. To compare: pip install -e '.\\[oracle]'")
    console.print()


def _table(title: str, caption: str, *columns: str) -> Table:
    made = Table(title=title, title_justify="left", title_style="bold", caption=caption, caption_justify="left")
    for column in columns:
        made.add_column(column, justify="left" if column in ("", columns[0]) else "right", no_wrap=True)
    return made


def _spread(s: dict[str, float] | None, digits: int = 2) -> str:
    if s is None:
        return ""
    median, low, lower, upper, high = (f"{s[name]:.{digits}f}" for name in ("median", "min", "lower", "upper", "max"))
    return f"[bold]{median}[/], {low} \\[{lower} {upper}] {high}"


def _number(x: float) -> str:
    """Three figures or so: 0.123, 1.23, 12.3, 1,234."""
    return f"{x:,.{0 if x >= 100 else 1 if x >= 10 else 2 if x >= 1 else 3}f}"


def _notes(results: list[dict[str, Any]], name: str) -> str:
    """How to read the table, PyTorch's ratios by processor time, and how far to trust the clock."""
    notes = FASTER
    cpu = [f"{r[name]} {r['cpu_ratios']['torch']['median']:.2f}" for r in results if "torch" in r["cpu_ratios"]]
    if cpu:
        notes += f"\nPyTorch's by processor time of all threads: {'; '.join(cpu)}."
    return f"{notes}\n{_others(results)}"


def _others(results: list[dict[str, Any]]) -> str:
    busy = [r["others"] for r in results if r["others"]]
    if not busy:
        return ""
    middle, most = max(b["median"] for b in busy), max(b["max"] for b in busy)
    notes = f"Other programs kept {middle:.1f} cores busy meanwhile (median), at most {most:.1f}."
    if middle > BUSY:
        notes += "\nSo busy a machine says little: with --threads 1 trust the processor time, with more threads nothing here."
    return notes


def steps(results: list[dict[str, Any]]) -> None:
    """One line for each competitor at each size."""
    made = _table("training step: data, forward, backward, clip, AdamW", _notes(results, "size"),
                  "size", "", "ms", "tokens/s", "loss", RATIO)  # fmt: skip
    for r in results:
        for name, ms in r["milliseconds"].items():
            head = r["size"] if name == "ours" else ""
            rate = "" if name == "products" else f"{1000 * r['tokens_per_step'] / ms['median']:,.0f}"
            loss = f"{r['losses'][name]['last']:.5f}" if name in r["losses"] else ""
            made.add_row(head, NAMES[name], _number(ms["median"]), rate, loss, _spread(r["ratios"].get(name)))
        made.add_section()
    console.print(made)
    for r in results:
        if "largest_loss_difference" in r:
            count, most = r["losses"]["ours"]["steps"], r["largest_loss_difference"]
            console.print(f"{r['size']}: the losses of the {count} steps differ by at most {most:.1e} of their value")


def ops(results: list[dict[str, Any]]) -> None:
    made = _table("small ops on 4 × 4 float32, recorded on the tape, µs of processor time", _others(results),
                  "op", "NumPy", "ours", f"ours - NumPy, {SPREAD}", "PyTorch", RATIO)  # fmt: skip
    for r in results:
        us = {name: _number(spread["median"]) for name, spread in r["cpu_microseconds"].items()}
        added, ratio = _spread(r["cpu_microseconds_on_top_of_numpy"]), _spread(r["cpu_ratios"].get("torch"))
        made.add_row(r["name"], us["numpy"], us["ours"], added, us.get("torch", ""), ratio)
    console.print(made)


def generations(results: list[dict[str, Any]]) -> None:
    made = _table("generation with a cache, one token at a time", _notes(results, "name"),
                  "size", "", "choice", "ms/token", "tokens/s", RATIO)  # fmt: skip
    for r in results:
        for name, ms in r["milliseconds_per_token"].items():
            head, how = (r["size"], r["name"].partition(", ")[2]) if name == "ours" else ("", "")
            rate = f"{1000 / ms['median']:,.0f}"
            made.add_row(head, NAMES[name], how, _number(ms["median"]), rate, _spread(r["ratios"].get(name)))
        made.add_section()
    console.print(made)
    for r in results:
        if r.get("same_tokens") is False:
            console.print(f"{r['size']}: the most probable tokens are not the same in both", style="bold")


def memories(results: list[dict[str, Any]]) -> None:
    count = results[0]["steps"]
    caption = f"""process: the peak resident memory of a fresh process in its first {count} training steps.
added: that, less what it held before them with the model made and the framework in use once: moments, gradients,
activations, buffers."""
    if not all(b["exact"] for r in results for b in r["bytes"].values()):
        caption += "\nThis system cannot forget an earlier peak: what the imports needed may hide a part."
    made = _table("peak memory of a training step", caption, "size", "", "added MiB", "process MiB", "PyTorch / ours, added")
    for r in results:
        added = {name: b["peak"] - b["before"] for name, b in r["bytes"].items()}
        ratio = f"[bold]{added['torch'] / added['ours']:.2f}[/]" if "torch" in added and added["ours"] > 0 else ""
        for name, b in r["bytes"].items():
            head, tail = (r["size"], ratio) if name == "ours" else ("", "")
            made.add_row(head, NAMES[name], f"{added[name] / MIB:.1f}", f"{b['peak'] / MIB:.0f}", tail)
        made.add_section()
    console.print(made)


def profiles(results: list[dict[str, Any]]) -> None:
    """A table for each size."""
    for measured in results:
        _profile(measured)


def _profile(measured: dict[str, Any]) -> None:
    step, threads = measured["step"], measured["threads"]
    how = "one thread, processor time" if threads == 1 else f"{threads} threads"
    title = f"our training step, {measured['size']}: {step:.2f} ms, {how}"
    made = _table(title, "", "op", "calls", "forward ms", "backward ms", "share")

    def row(name: str, calls: str, part: dict[str, float]) -> None:
        ms = [f"{part[way]:.3f}" if part[way] else "" for way in ("forward", "backward")]
        made.add_row(name, calls, *ms, f"{(part['forward'] + part['backward']) / step:.1%}")

    for op in measured["ops"]:
        row(op["name"], f"{op['calls']:g}", op)
    made.add_section()
    for name, part in measured["parts"].items():
        row(name, "", part)
    console.print(made)


def drawings(results: list[dict[str, Any]]) -> None:
    """The parts of a drawing, then the step beside it."""
    columns = [f"{r['nodes']:,} nodes" for r in results if "nodes" in r]
    made = _table("drawing a decoder with twelve blocks, ms", "", "part", *columns)
    parts = [r["milliseconds"] for r in results if "nodes" in r]
    for name in parts[0]:
        made.add_row(name, *(_spread(each[name]) for each in parts))
    console.print(made)
    for r in results:
        if "size" in r:
            console.print(f"training step, {r['size']}, in a program that has drawn, over one that has not: "
                          f"{_spread(r['ratios']['drawing'])}")  # fmt: skip
