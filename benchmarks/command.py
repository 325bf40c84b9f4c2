"""How the commands of this folder end: a mistake is one line on stderr and status 2, never a traceback."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from time import monotonic
from typing import Any

import typer

from tinygrad_tf.text import TextError

from .processes import WorkerError
from .results import UnreadableResults

SILENCE = 5  # seconds after which a measurement that is done is told
PARTS = ("name", "size", "pass", "series", "value", "length", "fused", "threads")  # what tells results apart


def run(app: typer.Typer, name: str, arguments: list[str]) -> int:
    """Run one command line; its exit status: 2 for bad input, 1 where a measurement fails, 130 after Ctrl-C."""
    UsageError: Any = typer.BadParameter.__base__  # of typer's own parser, or of click's, by typer's version
    status = 2
    try:
        with typer.main.get_command(app).make_context(name, arguments) as context:
            context.command.invoke(context)
        return 0
    except typer.Exit as done:
        return done.exit_code
    except KeyboardInterrupt:
        message, status = "interrupted", 130
    except UsageError as error:
        message = error.format_message().replace("Value error, ", "")  # a word of the library that checks the values
    except (UnreadableResults, TextError) as error:
        message = str(error)
    except OSError as error:
        message = f"{error.filename}: {error.strerror or error}"
    except WorkerError as error:
        message, status = str(error), 1
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    return status


def told(what: str, results: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The results, each as soon as it is measured. On stderr: what is being measured, and how far it has come."""
    print(f"{what}: being measured, the table comes at the end", file=sys.stderr)
    begun = said = monotonic()
    for number, result in enumerate(results, 1):
        now = monotonic()
        if now - said >= SILENCE:
            said = now
            parts = [f"{part} {result[part]}" for part in PARTS if isinstance(result.get(part), (str, int))]
            which = ", ".join(parts).removeprefix("name ")
            print(f"{what}: {number} in {now - begun:.0f} s{', the last: ' * bool(which)}{which}", file=sys.stderr)
        yield result
