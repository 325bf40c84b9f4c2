"""`python -m benchmarks report FILE...`: the tables of README.md and of notes.md, from files that `--json` has written.

Each file is a run. Without a file, those in benchmarks/results: then the tables are what the repository says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import results, targets, tricks
from .processes import ROOT
from .results import Run
from .tables import MIB, number

README = ROOT / "README.md"
NOTES = Path(__file__).parent / "notes.md"
START, END = "<!-- measured: python -m benchmarks report -->\n", "<!-- end of what is measured -->"
NOTHING = "Nothing is measured yet"
IN_TABLES = {"step", "generation", "memory", "imports"}
SIZES = {"tiny": "2 layers, width 32, 8 × 16 tokens", "laptop": "4 layers, width 128, 12 × 64 tokens",
         "baby": "6 layers, width 384, 8 × 256 tokens"}  # fmt: skip


def main(files: list[Path], check: bool = False, figures: Path | None = None) -> int:
    """Write both pages anew, or with `check` say whether that would change them (then status 1); draw if there is a folder.

    A page for which these files hold nothing stays as it is.
    """
    runs = [results.read(path) for path in files or results.kept()]
    pages = {README: readme(runs), NOTES: notes(runs)}
    status = 0
    for page, table in pages.items():
        text = page.read_text(encoding="utf-8")
        new = text if files and table.startswith(NOTHING) else renewed(text, table)
        if new != text and check:
            print(f"{page.name} does not show these results: python -m benchmarks report writes its tables anew")
            status = 1
        elif new != text:
            page.write_text(new, encoding="utf-8", newline="\n")
            print(f"{page.name} is written anew")
        else:
            print(f"{page.name} shows these results")
    if figures is not None:
        from .figures import write

        for path in dict.fromkeys(path for run in runs for path in write(run.results, figures)):  # a later run draws over
            print(path)
    return status


def renewed(text: str, table: str) -> str:
    """A page with another table between the marks. Raises UnreadableResults where there are none."""
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        raise results.UnreadableResults(f"a page has no place for the table: {START.strip()} and {END}")
    return f"{before}{START}\n{table}\n\n{END}{after}"


def readme(runs: list[Run]) -> str:
    """Targets and what was measured, run by run; times and memory; the machine. Runs of other things alone are left out."""
    runs = [run for run in runs if any(r["what"] in IN_TABLES for r in run.results)]
    if not runs:
        return f"{NOTHING}: `python -m benchmarks --json benchmarks/results/NAME.json`."
    return "\n\n".join(filter(None, [_targets(runs), _times(runs), _one_thread(runs), machines(runs)]))


def notes(runs: list[Run]) -> str:
    """The tricks of the last run that has some."""
    for run in reversed(runs):
        if found := run.of("trick"):
            return f"{tricks.markdown(found)}\n\n{machines([run])}"
    return f"{NOTHING}: `python -m benchmarks tricks --json benchmarks/results/NAME.json`."


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _spread(s: dict[str, float] | None) -> str:
    return f"{s['median']:.2f} [{s['lower']:.2f}, {s['upper']:.2f}]" if s else "–"


def _targets(runs: list[Run]) -> str:
    found = [{row["target"]: row for row in targets.judged(run.results)} for run in runs]
    rows = []
    for target in targets.TARGETS:
        measured = [row[target] for row in found if target in row]
        if measured:
            count = sum(row["reached"] for row in measured)
            verdict = "reached" if count == len(measured) else "falls short" if not count else f"in {count} of {len(measured)}"
            cells = [_spread(row[target]["ratio"]) if target in row else "–" for row in found]
            kept = [f"{row[target]['kept']['median']:.2f}" if row.get(target) and row[target]["kept"] else "–" for row in found]
            rows.append([target.label, f"{target.least:g}", *cells, verdict, ", ".join(kept)])
    if not rows:
        return ""
    head = ["PyTorch over ours", "target", *(run.machine["date"][:16] for run in runs), "", "freed memory kept"]
    return _table(head, rows)


def _times(runs: list[Run]) -> str:
    """Medians, as ours, numba, PyTorch, products alone."""
    rows = []
    for size, words in SIZES.items():
        cells = [_medians(_only(run, "step", size=size, threads=2), "milliseconds", 1, " ms") for run in runs]
        rows.append([f"step, `{size}`: {words}", *cells])
        if size != "tiny":  # which adds nothing to be seen
            for key, what in (("added", "peak memory of a step"), ("peak", "the same with all that was held before it")):
                cells = [_medians(_only(run, "memory", size=size), key, 1 / MIB, " MiB") for run in runs]
                rows.append([f"{what}, `{size}`", *cells])
    cells = [_medians(_only(run, "generation", name="laptop, most probable", threads=2), "milliseconds_per_token", 1, " ms")
             for run in runs]  # fmt: skip
    rows.append(["a token, `laptop`", *cells])
    rows.append(["import", *[_medians(_only(run, "imports"), "milliseconds", 1, " ms") for run in runs]])
    rows = [row for row in rows if any(cell != "–" for cell in row[1:])]
    return _table(["medians", *(run.machine["date"][:16] for run in runs)], rows) if rows else ""


def _one_thread(runs: list[Run]) -> str:
    """The ratios of training steps on one thread."""
    rows = []
    for size in SIZES:
        found = [_only(run, "step", size=size, threads=1) for run in runs]
        for base in dict.fromkeys(base for r in found if r for base in r["ratios"]):
            cells = [_spread(r["ratios"].get(base, {}).get("torch")) if r else "–" for r in found]
            rows.append([f"step, `{size}`, {'numba' if base.endswith('numba') else 'NumPy'}", *cells])
    return _table(["PyTorch over ours, one thread", *(run.machine["date"][:16] for run in runs)], rows) if rows else ""


def _only(run: Run, what: str, **wanted: Any) -> dict[str, Any] | None:
    return next((r for r in run.of(what) if all(r.get(name) == value for name, value in wanted.items())), None)


SHORT = {"ours": "ours", "ours, numba": "numba", "torch": "PyTorch", "products": "products alone", "numpy": "NumPy alone"}


def _medians(result: dict[str, Any] | None, key: str, scale: float, unit: str) -> str:
    if result is None:
        return "–"
    parts = [f"{SHORT[name]} {number(s['median'] * scale)}" for name, s in result[key].items() if name in SHORT]
    return ", ".join(parts) + unit


def machines(runs: list[Run]) -> str:
    """Where and with what; once if it is the same for all."""
    said = [f"{m['cpu']}, {m['cores']} cores, {m['system'].split()[0]}; Python {m['python']}, "
            f"NumPy {m['numpy']} with {m['blas']}"
            + (f", PyTorch {m['torch']}" if m["torch"] else "") + (f", numba {m['numba']}" if m.get("numba") else "")
            for m in (run.machine for run in runs)]  # fmt: skip
    return "; ".join(dict.fromkeys(said)) + "."


