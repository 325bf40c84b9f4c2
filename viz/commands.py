"""The commands `tinygrad-tf draw` and `tinygrad-tf doctor`. What takes time to import waits until one of them runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer


def add(app: typer.Typer) -> None:
    """Give the command `tinygrad-tf` the two commands of this package."""
    app.command()(draw)
    app.command()(doctor)


def draw(
    what: Annotated[str, typer.Argument(
        help="A run (runs/tiny-1), a saved graph (graph.json), or, in a Python file of yours, a tensor or a function without "
             "arguments (net.py:loss; the file is run).", show_default=False)] = "",
    preset: Annotated[str, typer.Option(help="Draw this preset's model, untrained, instead.", show_default=False)] = "",
    prompt: Annotated[str, typer.Option(help="Text that a run's model reads (default: a little held-out text).")] = "",
    output: Annotated[str | None, typer.Option(
        "--output", "-o", help="File to write, by its ending .svg .html .png .pdf .dot .json; replaced if it is there "
                               "(default: named after the model, and never replaced).", show_default=False)] = None,
    view: Annotated[str, typer.Option(help="ops, modules, blocks or scalars.")] = "ops",
    depth: Annotated[int | None, typer.Option(help="Modules deeper than this are boxes.", min=0)] = None,
    collapse: Annotated[list[str] | None, typer.Option(help="Modules to draw as boxes: 'blocks.*.attn'; repeatable.")] = None,
    fold: Annotated[str, typer.Option(help="Equal blocks as one box: auto, off, or from how many on.")] = "auto",
    fused: Annotated[bool, typer.Option("--fused/--opened", help="Fused ops whole, or the small ops they stand for.")] = True,
    values: Annotated[str, typer.Option(help="none, stats, preview or full.")] = "none",
    grads: Annotated[str, typer.Option(help="auto, none, labels, or edges: the backward view.")] = "auto",
    skips: Annotated[bool, typer.Option("--skips/--no-skips", help="Mark the skip paths.")] = True,
    shapes: Annotated[bool, typer.Option("--shapes/--no-shapes", help="Write the shapes.")] = True,
    params: Annotated[bool, typer.Option("--params/--no-params", help="Draw the parameters.")] = True,
    direction: Annotated[str | None, typer.Option(help="down, up, right or left.", show_default=False)] = None,
    theme: Annotated[str, typer.Option(help="light, dark or print.")] = "light",
    legend: Annotated[bool, typer.Option("--legend/--no-legend", help="Explain the signs that occur.")] = True,
    title: Annotated[str, typer.Option(help="Caption (default: what is drawn).", show_default=False)] = "",
    desc: Annotated[str, typer.Option(help="What a screen reader says (default: what there is).", show_default=False)] = "",
    max_nodes: Annotated[int, typer.Option(help="More nodes than this are folded, then collapsed.", min=1)] = 2000,
) -> None:
    """Draw a model, its skip paths as the thickest lines.

    A function of yours that fails is drawn up to the op that failed; the exit status is 1 then.
    """
    from . import subject
    from .draw import draw as drawn
    from .layout import EngineError, EngineTimeout

    if bool(what) == bool(preset):
        raise ValueError(f"name one thing to draw: {subject.EXAMPLES}")
    if preset and prompt:
        raise ValueError("--prompt goes with a run; a preset's model has learned no characters yet")
    if output is not None:
        _check_suffix(output)
    backward = grads in ("labels", "edges")
    found = subject.preset(preset, backward) if preset else subject.find(what, prompt, backward)
    path = Path(output or f"{found.name}.svg")
    if not output and path.exists():
        raise ValueError(f"{path} is already there; name the file with -o, which replaces it, as in -o {path}")
    if output and what and path.exists() and path.resolve() == Path(what).resolve():
        raise ValueError(f"{path} is what is to be drawn; write the drawing to another file")
    try:
        made = drawn(
            found.what, inputs=found.inputs, names=found.names, view=view, depth=depth, collapse=tuple(collapse or ()),
            fold=int(fold) if fold.isdecimal() else fold, fused=fused, values=values, grads=grads, skips=skips, shapes=shapes,
            params=params, direction=direction, theme=theme, legend=legend, title=title or found.title, desc=desc,
            max_nodes=max_nodes)  # fmt: skip
        if not found.own_lines:
            made.full, made.graph = subject.without_lines(made.full), subject.without_lines(made.graph)
        made.save(path)
    except EngineTimeout as error:
        raise ValueError(f"{error.stopped}: draw less (--view modules, --collapse 'blocks.*' or a smaller --max-nodes), "
                         "or take -o NAME.dot, which needs no layout") from None
    except (RuntimeError, TypeError) as error:
        if not found.own_lines and not isinstance(error, EngineError):
            raise  # not the reader's mistake
        raise ValueError(str(error)) from None
    if found.warning:
        _say(found.warning, sys.stderr)
    nodes, count = len(made.graph.nodes), made.graph.skip_count
    _say(f"{found.title or what}: {nodes:,} node{'s' * (nodes != 1)}, {count:,} skip{'s' * (count != 1)}, in {path}")
    if found.warning:
        raise typer.Exit(1)


def doctor() -> None:
    """Say what is installed and whether it can draw. Exit status 1 if it cannot, or if ops cannot run."""
    from .doctor import report

    lines, healthy = report()
    for line in lines:
        _say(line)
    if not healthy:
        raise typer.Exit(1)


def _check_suffix(output: str) -> None:
    from .draw import SUFFIXES

    if Path(output).suffix.lower() not in SUFFIXES:
        raise ValueError(f"--output {output}: a drawing is saved as {' '.join(SUFFIXES)}; choose one of these endings")
    if not Path(output).parent.is_dir():
        raise ValueError(f"--output {output}: there is no folder {Path(output).parent}; make it first")


def _say(text: str, stream: Any = None) -> None:
    from tinygrad_tf.report import printable

    stream = sys.stdout if stream is None else stream
    print(printable(text, stream), file=stream)
