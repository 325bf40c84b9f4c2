"""What was measured, as tables on the terminal."""

from __future__ import annotations

import sys
from typing import Any

from rich.console import Console
from rich.table import Table

console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
MIB = 2**20
BUSY = 0.3  # cores used by others from which on the clock says little
NAMES = {"ours": "ours", "ours, numba": "ours, numba", "torch": "PyTorch", "torch, kept": "PyTorch, memory kept",
         "products": "products alone"}  # fmt: skip
SPREAD = "min \\[quartiles] max"
FASTER = "time / ours: turn by neighbouring turn, median and quartiles; above 1, ours is faster."


def machine(facts: dict[str, Any], threads: int) -> None:
    memory = f", {facts['memory_gib']} GiB" if facts["memory_gib"] else ""
    console.print(f"{facts['cpu']}, {facts['cores']} cores{memory}, {facts['system']}")
    torch = facts["torch"] or "not installed"
    versions = f"Python {facts['python']}, NumPy {facts['numpy']} with {facts['blas']}, PyTorch {torch}"
    console.print(f"{versions}; threads for each: {threads}")
    if not facts["torch"]:
        console.print("PyTorch is not installed: ours is measured alone. To compare: pip install -e '.\\[oracle]'")
    console.print()


def table(title: str, caption: str, *columns: str) -> Table:
    console.print()
    made = Table(title=title, title_justify="left", title_style="bold", caption=caption, caption_justify="left")
    for column in columns:
        made.add_column(column, justify="left" if column in ("", columns[0]) else "right", no_wrap=True)
    return made


def ratio_columns(results: list[dict[str, Any]], key: str = "ratios") -> list[str]:
    """A heading for everybody's time over ours, with each of our kernels."""
    bases = list(results[0][key])
    return [f"time / {NAMES[base]}" + (f", {SPREAD}" if len(bases) == 1 else "") for base in bases]


def ratio_cells(result: dict[str, Any], name: str, key: str = "ratios") -> list[str]:
    """What stands under these headings for one competitor."""
    ratios = result[key]
    return [(_spread if len(ratios) == 1 else quartiles)(ratios[base].get(name)) for base in ratios]


def beside(title: str, caption: str, headings: list[str], keys: list[str], rows: list[dict[str, Any]]) -> None:
    """A line for each row: what stands under its `keys`, everybody's median time, and PyTorch's time over each of ours."""
    names, ratios = list(rows[0]["milliseconds"]), rows[0]["ratios"]
    bases = [base for base in ratios if "torch" in ratios[base]]
    made = table(title, caption, *headings, *(NAMES[name] for name in names), *(f"PyTorch / {base}" for base in bases))
    for r in rows:
        times = [number(r["milliseconds"][name]["median"]) for name in names]
        made.add_row(*(str(r[key]) for key in keys), *times, *(quartiles(r["ratios"][base]["torch"]) for base in bases))
    console.print(made)


def quartiles(s: dict[str, float] | None, digits: int = 2) -> str:
    """Median and quartiles."""
    if s is None:
        return ""
    median, lower, upper = (f"{s[name]:.{digits}f}" for name in ("median", "lower", "upper"))
    return f"[bold]{median}[/] \\[{lower} {upper}]"


def _spread(s: dict[str, float] | None, digits: int = 2) -> str:
    if s is None:
        return ""
    median, low, lower, upper, high = (f"{s[name]:.{digits}f}" for name in ("median", "min", "lower", "upper", "max"))
    return f"[bold]{median}[/], {low} \\[{lower} {upper}] {high}"


def number(x: float) -> str:
    """Three figures or so: 0.123, 1.23, 12.3, 1,234."""
    return f"{x:,.{0 if x >= 100 else 1 if x >= 10 else 2 if x >= 1 else 3}f}"


def notes(results: list[dict[str, Any]], name: str) -> str:
    """How to read the table, PyTorch's ratios by processor time, and how far to trust the clock."""
    notes = FASTER
    cpu = []
    for r in results:
        medians = [f"{ratios['torch']['median']:.2f}" for ratios in r["cpu_ratios"].values() if "torch" in ratios]
        if medians:
            cpu.append(f"{r[name]} {' and '.join(medians)}")
    if cpu:
        notes += f"\nPyTorch's by processor time of all threads: {'; '.join(cpu)}."
    return f"{notes}\n{others(results)}"


def others(results: list[dict[str, Any]]) -> str:
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
    threads = results[0]["threads"]
    title = f"training step: data, forward, backward, clip, AdamW; {threads} thread{'s' * (threads > 1)}"
    made = table(title, notes(results, "size"), "size", "", "ms", "tokens/s", "loss", *ratio_columns(results))
    for r in results:
        for name, ms in r["milliseconds"].items():
            head = r["size"] if name == next(iter(r["milliseconds"])) else ""
            rate = "" if name == "products" else f"{1000 * r['tokens_per_step'] / ms['median']:,.0f}"
            loss = f"{r['losses'][name]['last']:.5f}" if name in r["losses"] else ""
            made.add_row(head, NAMES[name], number(ms["median"]), rate, loss, *ratio_cells(r, name))
        made.add_section()
    console.print(made)
    for r in results:
        if "largest_loss_difference" in r:
            count, most = r["losses"]["torch"]["steps"], r["largest_loss_difference"]
            console.print(f"{r['size']}: the losses of the {count} steps differ by at most {most:.1e} of their value")


def ops(results: list[dict[str, Any]]) -> None:
    columns = ["op", "NumPy", "ours", f"ours - NumPy, {SPREAD}", "PyTorch", *ratio_columns(results, "cpu_ratios")]
    made = table("small ops on 4 × 4 float32, recorded on the tape, µs of processor time", others(results), *columns)
    for r in results:
        us = {name: number(spread["median"]) for name, spread in r["cpu_microseconds"].items()}
        added, ratios = _spread(r["cpu_microseconds_on_top_of_numpy"]), ratio_cells(r, "torch", "cpu_ratios")
        made.add_row(r["name"], us["numpy"], next(iter(us.values())), added, us.get("torch", ""), *ratios)
    console.print(made)


def generations(results: list[dict[str, Any]]) -> None:
    threads = results[0]["threads"]
    made = table(f"generation with a cache, one token at a time; {threads} thread{'s' * (threads > 1)}", notes(results, "name"),
                 "size", "", "choice", "ms/token", "tokens/s", *ratio_columns(results))  # fmt: skip
    for r in results:
        for name, ms in r["milliseconds_per_token"].items():
            first = name == next(iter(r["milliseconds_per_token"]))
            head, how = (r["size"], r["name"].partition(", ")[2]) if first else ("", "")
            rate = f"{1000 / ms['median']:,.0f}"
            made.add_row(head, NAMES[name], how, number(ms["median"]), rate, *ratio_cells(r, name))
        made.add_section()
    console.print(made)
    for r in results:
        if r.get("same_tokens") is False:
            console.print(f"{r['size']}: the most probable tokens are not the same in both", style="bold")


def memories(results: list[dict[str, Any]]) -> None:
    count = results[0]["steps"]
    caption = f"""process: the peak resident memory of a fresh process in its first {count} training steps.
added: that, less what it held before them with the model made and the framework in use once:
moments, gradients, activations, buffers. Above 1, ours is the smaller one.
No higher than PyTorch's: {_no_higher(results)}."""
    if not all(r["exact"] for r in results):
        caption += "\nThis system cannot forget an earlier peak: what the imports needed may hide a part."
    made = table("peak memory of a training step", caption, "size", "", "added MiB", "process MiB",
                 *[f"added / {NAMES[base]}" for base in results[0]["ratios"]])  # fmt: skip
    for r in results:
        for name, added in r["added"].items():
            head = r["size"] if name == next(iter(r["added"])) else ""
            cells = [quartiles(ratios.get(name)) for ratios in r["ratios"].values()]
            made.add_row(head, NAMES[name], f"{added['median'] / MIB:.1f}", f"{r['peak'][name]['median'] / MIB:.0f}", *cells)
        made.add_section()
    console.print(made)


def _no_higher(results: list[dict[str, Any]]) -> str:
    """At which sizes ours needs no more than PyTorch, as a list in words."""
    found = [f"{r['size']} {'reached' if ratios['torch']['median'] >= 1 else 'falls short'}" + (f" ({base})" if more else "")
             for r in results for more in [len(r["ratios"]) > 1] for base, ratios in r["ratios"].items()
             if "torch" in ratios]  # fmt: skip
    return ", ".join(found) or "not compared"


def profiles(results: list[dict[str, Any]]) -> None:
    """A table for each size."""
    for measured in results:
        _profile(measured)


def _profile(measured: dict[str, Any]) -> None:
    step, threads = measured["step"], measured["threads"]
    how = "one thread, processor time" if threads == 1 else f"{threads} threads"
    title = f"our training step, {measured['size']}: {step:.2f} ms, {how}"
    made = table(title, "", "op", "calls", "forward ms", "backward ms", "share")

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
    made = table("drawing a decoder with twelve blocks, ms", "", "part", *columns)
    parts = [r["milliseconds"] for r in results if "nodes" in r]
    for name in parts[0]:
        made.add_row(name, *(_spread(each[name]) for each in parts))
    console.print(made)
    for r in results:
        if "size" in r:
            console.print(f"training step, {r['size']}, in a program that has drawn, over one that has not: "
                          f"{_spread(next(iter(r['ratios'].values()))['drawing'])}")  # fmt: skip
