"""`tinygrad-tf lessons` and `tinygrad-tf check`."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from tinygrad_tf.cli import INTERRUPTED, path

In = Annotated[Path | None, typer.Option("--in", metavar="FOLDER", parser=path, show_default=False, help=(
    "Folder of your answers; exercises that it lacks are copied there. Without it $TINYGRAD_TF_EXERCISES, "
    "else lessons/exercises of the clone."))]  # fmt: skip
PAUSE = 0.3  # seconds between two looks at a file


def add(app: typer.Typer) -> None:
    """Add the two commands to `tinygrad-tf`."""
    app.command()(lessons)
    app.command()(check)


def lessons(
    number: Annotated[
        int | None, typer.Argument(help="A lesson to open; without it, the list of all.", show_default=False)
    ] = None,
    edit: Annotated[
        bool,
        typer.Option(
            "--edit",
            help=(
                "Open a copy of the lesson in marimo's editor, to change and run. The copy is kept in `notebooks`, in the "
                "folder of your answers, and is opened again the next time."
            ),
        ),
    ] = False,
    browser: Annotated[bool, typer.Option(help="Open a browser; the address is printed in any case.")] = True,
    port: Annotated[
        int | None, typer.Option(help="Port on 127.0.0.1 (default: 2725, or one that is free).", min=1, max=65535)
    ] = None,
    answers: In = None,
) -> None:
    """Open the lessons in the browser: read, move, check your answers. Ctrl-C ends it."""
    from . import answers as places
    from . import catalogue

    chosen = None if number is None else catalogue.lesson(number)
    if edit and chosen is None:
        raise ValueError("--edit opens one lesson: name it, as in tinygrad-tf lessons 5 --edit")
    if answers is not None:
        places.folder(answers)
    try:
        import marimo  # noqa: F401
    except ImportError:
        raise ValueError("the lessons need marimo: pip install -e '.[lessons]'") from None
    from . import serve

    try:
        if edit and chosen is not None:
            serve.edit(serve.copied(chosen, places.folder(answers)), port, browser)
        else:
            serve.serve(chosen, port, browser, answers)
    except KeyboardInterrupt:
        print("the lessons are closed", file=sys.stderr, flush=True)
        os._exit(INTERRUPTED)  # each open page has a thread, which may be in the middle of a training


def check(
    number: Annotated[int | None, typer.Argument(help="A lesson; without it, all of them.", show_default=False)] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Check again each time that a file is saved, until Ctrl-C.")] = False,
    restore: Annotated[
        bool,
        typer.Option("--restore", help=("First put answers that once passed back in place of exercises that are not written.")),
    ] = False,
    answers: In = None,
) -> None:
    """Check your answers to the exercises, with a hint for each that is wrong. Exit status 1 if one does not pass."""
    from . import answers as places
    from . import catalogue

    asked = [each for each in ([catalogue.lesson(number)] if number is not None else catalogue.lessons()) if each.exercises]
    place = places.folder(answers)
    made = not place.exists()
    files = {lesson: places.file(lesson, place) for lesson in asked}
    if made:
        _say(f"{_short(place)} was not there: made, and filled with the exercises\n")
    if restore:
        for lesson, file in files.items():
            _restore(lesson, file)
    passed = [_check(lesson, file) for lesson, file in files.items()]
    total, done = sum(len(lesson.exercises) for lesson in asked), sum(passed)
    if len(asked) > 1:
        _say(f"\n{done} of {total} exercises pass")
    if watch:
        _watch(files)
    if done < total:
        raise typer.Exit(1)


def _check(lesson: Any, file: Path) -> int:
    """Check one file, line by line; return how many exercises pass."""
    from . import checking, progress

    _say(f"{lesson.number} · {lesson.title}   {_short(file)}")
    kept, passed = progress.kept(lesson), 0
    broken: list[str] = []
    for result in checking.check(lesson, file):
        if result.file:  # said once for all that are left
            if not broken:
                _say(f"  ✗ {result.hint}")
            if result.printed:
                _say(f"      printed: {_below(result.printed)}")
            broken.append(result.name)
            continue
        passed += result.passed
        _say(
            f"  {'✓' if result.passed else '✗'} {result.name}"
            + (f": {result.hint}".replace("\n", "\n      ") if result.hint else "")
        )
        if result.printed:
            _say(f"      printed: {_below(result.printed)}")
        if not result.written and result.name in kept:
            _say(f"      {_still(lesson, file, result.name, kept[result.name])}")
    if broken:
        _say(f"      not checked: {', '.join(broken)}")
    return passed


def _below(printed: str) -> str:
    return printed.rstrip("\n").replace("\n", "\n      | ")


def _still(lesson: Any, file: Path, name: str, kept: Any) -> str:
    """What is to be said of an answer that passed and is no longer in the file."""
    from . import checking

    back = f"tinygrad-tf check {lesson.number} --restore puts it back"
    if not kept.current:  # judged anew: what it passed was another check
        found = {result.name: result for result in checking.judged(lesson, file, kept.file.encode("utf-8"))}
        if not found[name].passed:
            return f"the answer that passed on {kept.date} is kept, but the check has changed: {found[name].hint}\n      {back}"
    return f"your answer that passed on {kept.date} is kept: {back}"


def _restore(lesson: Any, file: Path) -> None:
    """Write the kept answers of exercises that are not written into the file."""
    from . import answers, checking, progress, restore

    kept = progress.kept(lesson)
    if not kept:
        return
    source = answers.source(file)
    results = checking.judged(lesson, file, source)
    names = [each.name for each in results if each.name in kept and not each.written]
    if names:
        text = restore.restored(source.decode("utf-8"), kept, names)
        progress.write_text(file, text)
        _say(f"{lesson.number} · {lesson.title}: put back {', '.join(names)}")


def _watch(files: dict[Any, Path]) -> None:
    """Check a file again whenever it is saved. Ends with Ctrl-C."""
    _say("\nwatching; save a file to check it again, Ctrl-C ends")
    seen = {lesson: _stamp(file) for lesson, file in files.items()}
    while True:
        time.sleep(PAUSE)
        for lesson, file in files.items():
            stamp = _stamp(file)
            if stamp != seen[lesson] and stamp is not None:  # an editor may take the file away for a moment
                seen[lesson] = stamp
                _say("")
                _check(lesson, file)


def _stamp(file: Path) -> tuple[int, int] | None:
    try:
        about = file.stat()
    except OSError:
        return None
    return about.st_mtime_ns, about.st_size


def _short(file: Path) -> str:
    """The path as it is shorter: from here, or whole."""
    try:
        return str(file.relative_to(Path.cwd()))
    except ValueError:
        return str(file)


def _say(text: str) -> None:
    from tinygrad_tf.report import printable

    print(printable(text, sys.stdout), flush=True)
