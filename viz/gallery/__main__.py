"""Make the gallery: `python -m viz.gallery`. With `--check`, write nothing and say which files would differ."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from viz.layout import EngineNotFound

FOLDER = Path(__file__).parent


def made() -> Iterator[tuple[str, str]]:
    """(file name, text) of every picture."""
    spec = importlib.util.spec_from_file_location("figures", FOLDER / "figures.py")
    assert spec is not None and spec.loader is not None
    figures = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(figures)
    for figure in figures.FIGURES:
        drawing = figure()
        yield f"{figure.__name__}.svg", drawing.svg(prefix=figure.__name__)
        yield f"{figure.__name__}.html", drawing.html()


def gallery(
    check: Annotated[bool, typer.Option("--check", help="Write nothing; exit with 1 if a file would change.")] = False,
) -> None:
    """Draw every figure of the gallery, as SVG and as a page, into viz/gallery/."""
    pictures = dict(made())
    there = {path.name: path for path in FOLDER.iterdir() if path.suffix in (".svg", ".html")}
    stale = [name for name, text in pictures.items() if name not in there or there[name].read_text(encoding="utf-8") != text]
    left = sorted(set(there) - set(pictures))
    if check:
        for name in stale:
            print(f"{name} differs from what is drawn now: run python -m viz.gallery")
        for name in left:
            print(f"{name} is drawn by no figure: remove it")
        raise SystemExit(1 if stale or left else 0)
    for name in stale:
        (FOLDER / name).write_text(pictures[name], encoding="utf-8", newline="\n")
    for name in left:
        there[name].unlink()
    print(f"{len(pictures)} files, {len(stale)} changed, {len(left)} removed")


if __name__ == "__main__":
    try:
        typer.run(gallery)
    except EngineNotFound as error:
        print(error, file=sys.stderr)
        sys.exit(2)
