"""Checks the reader's file in a process of its own: it may hang, crash, print and exit, and what happened is told.

The process reports as it goes (see `runner.py`). When it ends or is stopped in the middle of an exercise, that exercise has its
verdict, and the rest is checked by a new process.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from . import progress
from .answers import functions
from .answers import source as text_of
from .catalogue import FOLDER, Lesson
from .exercise import MISSING, SLOW
from .runner import ABSENT

LIMIT = 10.0  # seconds for each exercise
START = 60.0  # seconds until a new process is ready, on a machine that is busy


@dataclass(frozen=True)
class Result:
    """What became of one exercise, and what its code printed."""

    name: str
    passed: bool
    hint: str = ""
    printed: str = ""
    file: bool = False  # the hint is about the whole file, and the same for each of its exercises

    @property
    def written(self) -> bool:
        """Whether there is an answer: not the stub, and a function of that name."""
        return not self.hint.startswith((MISSING, ABSENT))


def check(lesson: Lesson, file: Path, limit: float = LIMIT) -> Iterator[Result]:
    """Judge every exercise of a lesson in the reader's file; each result as soon as it is known. The progress is kept.

    Raises ValueError if the file cannot be read.
    """
    source = text_of(file)
    passed, failed = {}, []
    texts = functions(source.decode("utf-8", "replace"))
    for result in judged(lesson, file, source, limit):
        if result.passed and result.name in texts:
            passed[result.name] = texts[result.name]
        elif result.written and not result.passed:
            failed.append(result.name)
        yield result
    progress.record(lesson, passed, failed, source.decode("utf-8", "replace"))


def judged(lesson: Lesson, file: Path, source: bytes, limit: float = LIMIT) -> Iterator[Result]:
    """The results alone; nothing is kept."""
    names = list(lesson.exercises)
    while names:
        process = _Process(lesson, file, source, names)
        try:
            for result in process.results(limit):
                names.remove(result.name)
                yield result
        finally:
            process.stop()


class _Process:
    """One run of `runner.py`, read event by event."""

    def __init__(self, lesson: Lesson, file: Path, source: bytes, names: list[str]):
        self.names, self.events = names, queue.SimpleQueue[dict | None]()
        path = os.pathsep.join(filter(None, [str(FOLDER.parent), os.environ.get("PYTHONPATH")]))
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1",
                       "OMP_NUM_THREADS": "1"}  # fmt: skip
        command = [sys.executable, "-P", "-m", "lessons.runner", *map(str, (file, lesson.checks, lesson.solution)), *names]
        self.process = subprocess.Popen(command, cwd=file.absolute().parent, env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
        with suppress(OSError):  # it may be gone already
            assert self.process.stdin is not None
            self.process.stdin.write(source)
            self.process.stdin.close()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                self.events.put(json.loads(line))
        self.events.put(None)

    def results(self, limit: float) -> Iterator[Result]:
        """Results until the process ends; if it ends in the middle of something, the last one says so."""
        running, printed, deadline, slow = None, "", time.monotonic() + START, SLOW
        while True:
            try:
                event = self.events.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                said = f"still running after {limit:g} seconds, and stopped: {slow}"
                yield from self._stopped(running, said if running is not None else "the check could not start", printed)
                return
            if event is None:
                self.process.wait()
                if running is not None:
                    yield from self._stopped(running, _ending(self.process.returncode), printed)
                elif self.names:
                    raise ValueError(f"the check of {self.names[0]} ended before it began (status {self.process.returncode})")
                return
            match event:
                case {"started": name, **more}:
                    slow = more.get("slow", slow)
                    running, printed, deadline = name, "" if running else printed, time.monotonic() + limit
                case {"printed": text}:
                    printed += text
                case {"broken": hint}:
                    yield from self._stopped("", hint, printed)
                    return
                case {"verdict": name, "passed": passed, "hint": hint}:
                    running = None
                    yield Result(name, passed, hint, printed)
                    printed = ""
                    if not self.names:  # the caller takes each name off
                        return
                    deadline = time.monotonic() + START

    def _stopped(self, running: str | None, hint: str, printed: str) -> list[Result]:
        """The verdict of the exercise that ran; of all of them when it was the file itself."""
        if running:
            return [Result(running, False, hint, printed)]
        return [
            Result(name, False, f"the file itself: {hint}", printed if i == 0 else "", True)
            for i, name in enumerate([*self.names])
        ]

    def stop(self) -> None:
        """End the process and what it has started."""
        with suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()
        self.process.wait()


def _ending(status: int) -> str:
    if status >= 0:
        return f"ends the whole process with status {status} (os._exit?): return a value instead"
    name = signal.Signals(-status).name if -status in list(signal.Signals) else f"signal {-status}"
    why = "out of memory, or killed from outside" if name == "SIGKILL" else "a crash below Python"
    return f"the process was ended by {name}: {why}"
