"""The other process of a check: runs the reader's file, judges it, and reports each event as one line of JSON.

    python -m lessons.runner FILE CHECKS SOLUTION EXERCISE...    the text of FILE on standard input

The reports go to what was standard output when the process began; what the reader's code prints is caught before it gets there.
Events: {"loaded": true}, {"started": name, "slow": hint}, {"printed": text}, {"verdict": name, "passed": ..., "hint": ...},
{"broken": hint}.
"""

from __future__ import annotations

import io
import json
import os
import sys
import tokenize
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

PRINTED = 1000  # characters of output that are kept, for the file and for each exercise
ABSENT = "no function"
MEMORY = 2 * 2**30  # bytes that an answer may take, where the system lets that be limited


class Reports:
    """Writes the events where the parent reads them."""

    def __init__(self) -> None:
        self.file = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
        nowhere = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(nowhere, number)

    def __call__(self, **event: Any) -> None:
        self.file.write(json.dumps(event) + "\n")
        self.file.flush()


class Printed(io.TextIOBase):
    """Standard output and error of the reader's code: reported as far as there is room."""

    def __init__(self, report: Reports):
        self.report, self.left = report, PRINTED

    def write(self, text: str) -> int:
        kept = str(text)[: max(0, self.left)]
        self.left -= len(text)
        if kept:
            self.report(printed=kept + (" … (more is not shown)" if self.left < 0 else ""))
        return len(text)

    def writable(self) -> bool:
        return True


def main() -> None:
    path, checks, solution, *names = sys.argv[1:]
    source = sys.stdin.buffer.read()
    report = Reports()

    from . import catalogue
    from .exercise import judge, line_of

    exercises = {each.name: each for each in catalogue.load(Path(checks)).EXERCISES}
    solutions = catalogue.load(Path(solution))
    _limit_memory()
    sys.argv = [path]
    sys.stdout = sys.stderr = printed = Printed(report)
    module = ModuleType("answers")
    module.__file__ = path
    sys.modules["answers"] = module
    report(started="")
    try:
        text = _decoded(source)
        exec(compile(text, path, "exec"), module.__dict__)
    except SyntaxError as error:
        line = f"line {error.lineno} of {Path(path).name}: " if error.lineno else ""
        report(broken=f"{line}{type(error).__name__}: {error.msg}")
        return
    except _NotText as error:
        report(broken=f"line {error.args[0]} of {Path(path).name}: not UTF-8: save the file with the encoding UTF-8")
        return
    except SystemExit as error:
        report(broken=f"{line_of(error, path)}ends the program (sys.exit or SystemExit) before anything could be checked")
        return
    except BaseException as error:
        report(broken=f"{line_of(error, path)}{type(error).__name__}: {' '.join(str(error).split())[:200]}")
        return
    report(loaded=True)
    for each in names:
        printed.left = PRINTED
        report(started=each, slow=exercises[each].slow)
        answer = module.__dict__.get(each)
        if not callable(answer):
            report(verdict=each, passed=False, hint=f"{ABSENT} of this name in the file: `def {each}(...)` is to be there")
            continue
        verdict = judge(exercises[each], answer, getattr(solutions, each))
        report(verdict=each, passed=verdict.passed, hint=verdict.hint)


class _NotText(Exception):
    """Bytes that the encoding of a Python file does not have, with the number of their line."""


def _decoded(source: bytes) -> str:
    try:
        return source.decode(tokenize.detect_encoding(io.BytesIO(source).readline)[0])
    except (UnicodeDecodeError, SyntaxError):
        try:
            source.decode("utf-8")
        except UnicodeDecodeError as error:
            raise _NotText(1 + source[: error.start].count(b"\n")) from None
        raise


def _limit_memory() -> None:
    """Let an answer that asks for too much get a MemoryError. Only where /proc says what is used already."""
    with suppress(ImportError, OSError, ValueError):
        import resource

        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


if __name__ == "__main__":
    main()
    os._exit(0)  # whatever threads and exit handlers the reader's code has left
