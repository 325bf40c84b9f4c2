"""parallel.md and parallel.svg: the numbers of `parallel.py measure`, and what the model makes of them."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import Any

from .parallel import NETWORKS, RANKS, dividing, growing

SHOWN = (2, 8, 32, 128, 1024)
TEXT = """# What several processes are worth

Written by `python -m benchmarks.parallel` from the numbers in [parallel.json](parallel.json), which `python -m
benchmarks.parallel measure` measures anew (`pip install -e '.[mpi]'`).

## Two processes on one machine

{cpu}, {cores} cores, {date}. One process with two threads against two ranks with one thread each: the whole step of the
preset (data, forward, backward, all-reduce, clipping, optimizer), in alternating turns. The ratio is taken between
neighbouring turns: the median and the quartiles. Above 1, two ranks are faster. (On Linux `tinygrad-tf train` shares a batch of
`tiny` or `laptop` between two processes by itself, without MPI: `tinygrad_tf/helper.py`. Here one process has threads alone.)

| preset | one process, two threads | two ranks, one thread each | ratio | all-reduce alone |
| --- | --- | --- | --- | --- |
{compared}

**Overlap.** The all-reduce could begin while backward still computes. Matrix products and an all-reduce as large as the
gradient, on two ranks, one after the other and both at once (`Iallreduce`):

| preset | products alone | then the all-reduce | both at once | both at once, share of the time |
| --- | --- | --- | --- | --- |
{overlapped}

Within one machine the ranks move the bytes themselves, on the cores that compute. So there is one all-reduce after backward,
and no overlap. Between machines it could hide the shorter of the two; that is not measured, as there was one machine.

## 1 to 1,024 machines, by a model

Each rank is a machine like this one, with two threads. A step takes t0 + t1 b for b sequences, fitted to measured steps, and
C for the all-reduce: of these algorithms the fastest one, for N ranks, n bytes, a latency of α seconds, β seconds a byte on
the line and γ seconds to add a byte (R. Thakur, R. Rabenseifner and W. Gropp, *Optimization of Collective Communication
Operations in MPICH*, International Journal of High Performance Computing Applications 19(1), 2005).

| algorithm | seconds |
| --- | --- |
| binomial tree, there and back | 2 log₂N (α + nβ) + log₂N nγ |
| recursive doubling | log₂N (α + nβ + nγ) |
| ring | 2 (N − 1) α + (N − 1)/N n (2β + γ) |
| halving and doubling (Rabenseifner) | 2 log₂N α + (N − 1)/N n (2β + γ) |

Two more of a few bytes, for the loss and for Ctrl-C, add 2 log₂N α. Assumed, not measured: a switch that lets every machine
use the whole of its line, and {networks}. Measured here: γ = {gamma:.2f} ns a byte, and

| preset | gradient, n | sequences, B | t0 | t1 | a step of one |
| --- | --- | --- | --- | --- | --- |
{fits}

**The same batch divided**: how many times faster a step is. The model's share shrinks; the optimizer's and the all-reduce do
not.

| preset | network | N = 2 | N = 4 | N = 8 | fastest |
| --- | --- | --- | --- | --- | --- |
{divided}

**The same batch on every rank**: efficiency, which is the step of one over the step of N, while the whole batch grows as N.

| preset | network | {columns} | below one half |
| --- | --- |{rules} --- |
{grown}

![Efficiency against the number of machines, for three presets and three networks](parallel.svg)

## Where it stops paying

With many ranks a step sends 2n bytes and receives as many. That takes as long as the computing on a line of {need}: a slower
one wastes more than half of every machine, once there are
many. Dividing a batch ends at one sequence a rank, and pays less
and less before that, as t0 and the all-reduce remain. Beyond that more ranks mean a larger batch, and that stops helping
before the network does: past a size that depends on the task, twice the batch no longer halves the steps (S. McCandlish and
others, *An Empirical Model of Large-Batch Training*, 2018, arXiv:1812.06162).
"""


def page(numbers: dict[str, Any]) -> str:
    """The text of parallel.md."""
    gamma, fits = numbers["gamma"], numbers["fit"]
    pairs = [(f, name, line) for f in fits for name, line in NETWORKS.items()]
    text = TEXT.format(
        **{name: numbers["machine"][name] for name in ("cpu", "cores", "date")},
        compared="\n".join(map(_compared, numbers["compare"])),
        overlapped="\n".join(map(_overlapped, numbers["compare"])),
        networks=", ".join(f"on {name} α = {a * 1e6:.0f} µs and 1/β = {rate / 1e6:,.0f} MB/s"
                           for name, (a, rate) in NETWORKS.items()),
        gamma=gamma * 1e9,
        fits="\n".join(map(_fitted, fits)),
        divided="\n".join(_divided(f, name, line, gamma) for f, name, line in pairs),
        columns=" | ".join(f"N = {n:,}" for n in SHOWN),
        rules=" --- |" * len(SHOWN),
        grown="\n".join(_grown(f, name, line, gamma) for f, name, line in pairs),
        need=", ".join(f"{16e-9 * f['bytes'] / _alone(f):.1f} Gbit/s for `{f['size']}`" for f in fits),
    )  # fmt: skip
    parts = [part if part[0] in "|#!" else fill(part, 128, break_on_hyphens=False) for part in text.split("\n\n")]
    return "\n\n".join(parts) + "\n"


def _alone(f: dict[str, Any]) -> float:
    return f["t0"] + f["t1"] * f["batch"]


def _compared(row: dict[str, Any]) -> str:
    r, one, two = row["ratio"], row["one"]["median"], row["two"]["median"]
    return (f"| `{row['size']}` | {one:.1f} ms | {two:.1f} ms | {r['median']:.2f} [{r['lower']:.2f}, {r['upper']:.2f}] | "
            f"{row['reduction'][0] * 1e3:.1f} ms |")  # fmt: skip


def _overlapped(row: dict[str, Any]) -> str:
    _, alone, after, during = (1e3 * seconds for seconds in row["reduction"])
    return f"| `{row['size']}` | {alone:.1f} ms | {after:.1f} ms | {during:.1f} ms | {during / after:.2f} |"


def _fitted(f: dict[str, Any]) -> str:
    return (f"| `{f['size']}` | {f['bytes'] / 1e6:.1f} MB | {f['batch']} | {f['t0'] * 1e3:.1f} ms | {f['t1'] * 1e3:.2f} ms | "
            f"{_alone(f) * 1e3:.1f} ms |")  # fmt: skip


def _divided(f: dict[str, Any], name: str, line: tuple[float, float], gamma: float) -> str:
    speeds = {n: dividing(f, n, line, gamma) for n in RANKS if f["batch"] % n == 0}
    cells = " | ".join(f"{speeds[n]:.2f}" if n in speeds else "–" for n in (2, 4, 8))
    best = max(speeds, key=lambda n: speeds[n])
    return f"| `{f['size']}` | {name} | {cells} | {f'N = {best}' if best > 1 else 'one machine'} |"


def _grown(f: dict[str, Any], name: str, line: tuple[float, float], gamma: float) -> str:
    shares = {n: growing(f, n, line, gamma) for n in RANKS}
    half = next((f"from {n:,}" for n in RANKS if shares[n] < 0.5), "not up to 1,024")
    return f"| `{f['size']}` | {name} | " + " | ".join(f"{shares[n]:.0%}" for n in SHOWN) + f" | {half} |"


def draw(numbers: dict[str, Any], path: Path) -> None:
    """Write parallel.svg: the last table as curves."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({"svg.hashsalt": "tinygrad_tf", "font.size": 10, "svg.fonttype": "none"}):
        figure = Figure(figsize=(10, 3.4), layout="constrained")
        for axes, row in zip(figure.subplots(1, 3, sharey=True), numbers["fit"]):
            for (network, line), colour in zip(NETWORKS.items(), ("#d94801", "#6baed6", "#08519c")):
                shares = [growing(row, n, line, numbers["gamma"]) for n in RANKS]
                axes.plot(RANKS, shares, "o-", markersize=3, color=colour, label=network)
            axes.set(xlabel="machines", title=row["size"], ylim=(0, 1.03))
            axes.set_xscale("log", base=2)
            axes.set_xticks([1, 8, 64, 1024], ["1", "8", "64", "1,024"])
            axes.grid(alpha=0.25)
            axes.spines[["top", "right"]].set_visible(False)
        figure.axes[0].set_ylabel("efficiency, same batch on each")
        figure.axes[0].legend(frameon=False)
        figure.savefig(path, metadata={"Date": None})
