"""`python -m benchmarks.contest`: who has learned most when the time is up, on Tiny Shakespeare, on this machine."""

from __future__ import annotations

import hashlib
import math
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from tinygrad_tf.data import SHAKESPEARE, SHAKESPEARE_SHA256, Corpus, load_corpus
from tinygrad_tf.kernels import IN_USE
from tinygrad_tf.settings import PRESETS

from . import command, contest_report, machine
from .processes import Worker

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
DATA = "TINYGRAD_TF_TEST_DATA"


@dataclass(frozen=True)
class Entry:
    """Who takes part: the class of its worker, the preset with its recipe, its name in tables."""

    task: str
    preset: str
    label: str


ENTRIES = {
    "ours": Entry("contestants.Ours", "laptop", "ours"),
    "nanogpt": Entry("contestants_torch.NanoGPT", "nanogpt-char-cpu", "nanoGPT's recipe, PyTorch"),
    "modern": Entry("contestants_torch.OurRecipe", "laptop", "our recipe, PyTorch"),
}


@app.command()
def main(
    seconds: Annotated[str, typer.Option(help="Budgets, each a training of its own.")] = "60,180,300",
    only: Annotated[str, typer.Option(help="Who takes part: ours, nanogpt, and modern, which is our recipe in PyTorch.")
                    ] = "ours,nanogpt",
    seed: Annotated[int, typer.Option(help="Seed of the starting weights and of the batches.", min=0)] = 0,
    threads: Annotated[int, typer.Option(help="Threads that each framework may use.", min=1)] = 2,
    text: Annotated[str | None, typer.Option(help="A text file in place of Tiny Shakespeare.", show_default=False)] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the curves, the results and a plot; without it nothing is "
                                                  "written.", show_default=False)] = None,
) -> None:
    """Train ours and nanoGPT's recipe for the same seconds, one after the other, and compare the loss on held-out text."""
    budgets, entries = _budgets(seconds), _entries(only, asked="modern" in only or "ours" not in only)
    source = _shakespeare() if text is None else str(Path(text).absolute())  # the workers run in another folder
    corpus = _corpus(source, entries)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    facts = machine.describe()
    targets: dict[float, float] = contest_report.TARGETS if _is_shakespeare(corpus) else {}
    results: list[dict[str, Any]] = []
    contest_report.begin(facts, threads, IN_USE, budgets, [entry.label for entry in entries.values()])
    for budget in budgets:
        for name, entry in entries.items():
            result = _run(entry, budget, threads, source, seed)
            target = targets.get(budget) if name == "ours" else None
            kernels = IN_USE if name == "ours" else None
            results.append({"contestant": name, "label": entry.label, "seconds": budget, "seed": seed, "threads": threads,
                            "kernels": kernels, "target": target, **result})  # fmt: skip
            contest_report.say(results[-1])
            if out is not None:  # after each one, so that an interrupted contest leaves what it has
                contest_report.write(out, facts, results)
    contest_report.show(results)


def _run(entry: Entry, budget: float, threads: int, text: str, seed: int) -> dict[str, Any]:
    """One training in a process of its own, and how many cores other programs used meanwhile."""
    with Worker(entry.task, threads, kernels=IN_USE, preset=entry.preset, text=text, seed=seed) as worker:
        others = machine.Others([worker.process.pid])
        result = worker.call("race", seconds=budget)
        return {**result, "others": others.cores()}


def _budgets(written: str) -> list[float]:
    try:
        budgets = [float(part) for part in written.split(",")]
    except ValueError:
        budgets = []
    if not budgets or not all(0 < budget < math.inf for budget in budgets):
        raise typer.BadParameter(f"--seconds must be numbers above 0 with commas between them, as 60,180,300, not {written!r}")
    return [int(budget) if budget == int(budget) else budget for budget in dict.fromkeys(budgets)]


def _entries(written: str, asked: bool) -> dict[str, Entry]:
    """By their names. Without PyTorch only ours, unless others were asked for."""
    names = list(dict.fromkeys(part.strip() for part in written.split(",")))
    unknown = [name for name in names if name not in ENTRIES]
    if unknown:
        raise typer.BadParameter(f"--only must be of {', '.join(ENTRIES)} with commas between them, not {', '.join(unknown)!r}")
    if machine.installed("torch") is None:
        if asked:
            raise typer.BadParameter("PyTorch is not installed: --only ours, or pip install -e '.[oracle]'")
        names = ["ours"]
    return {name: ENTRIES[name] for name in names}


def _shakespeare() -> str:
    """Tiny Shakespeare where it is already; else its name, under which it is fetched once and kept."""
    path = Path(os.environ.get(DATA, "")) / SHAKESPEARE / "input.txt"
    return str(path.absolute()) if os.environ.get(DATA) and path.is_file() else SHAKESPEARE


def _corpus(source: str, entries: dict[str, Entry]) -> Corpus:
    corpus = load_corpus(source)
    longest = max(PRESETS[entry.preset].block_size for entry in entries.values())
    if min(len(corpus.train), len(corpus.val)) <= longest:
        raise typer.BadParameter(f"{source} is too short: {len(corpus.val)} characters are held out, and a context has "
                                 f"{longest}; take a text of {10 * longest + 20:,} characters or more")  # fmt: skip
    return corpus


def _is_shakespeare(corpus: Corpus) -> bool:
    whole = corpus.vocabulary.decode(corpus.train) + corpus.vocabulary.decode(corpus.val)
    return hashlib.sha256(whole.encode()).hexdigest() == SHAKESPEARE_SHA256


def run(arguments: list[str]) -> int:
    """Run one command line; its exit status. A mistake is one line on stderr and status 2."""
    return command.run(app, "benchmarks.contest", arguments)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
