"""What the reader has done, in one JSON file of the project's cache folder: it outlives every upgrade of the lessons.

    {"version": 1, "last": 5,
     "lessons": {"05_one_head_reads": {"weights": {"date": "2027-03-01", "passes": true,
                                                   "answer": ..., "file": ..., "check": ...}}}}

`answer` is the function that passed, `file` the whole file that it stood in, `check` the print of the check it passed,
`passes` whether the last answer that was checked passes. What another version wrote beside these is kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from tinygrad_tf.data import cache_folder

from .catalogue import Lesson

VERSION = 1


@dataclass(frozen=True)
class Kept:
    """An answer that passed: when, its text, its file, and whether by the check as it is now."""

    date: str
    answer: str
    file: str
    passes: bool  # whether the last answer that was checked passes
    current: bool  # whether the check is still the one it passed


def place() -> Path:
    """The file of the reader's progress."""
    return cache_folder() / "lessons.json"


def fingerprint(lesson: Lesson) -> str:
    """Changes when what the lesson's exercises ask for changes."""
    texts = [path.read_bytes().replace(b"\r\n", b"\n") for path in (lesson.checks, lesson.solution)
             if path.is_file()]  # fmt: skip
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


def read() -> dict[str, Any]:
    """All that is known. A file that is not what it should be is set aside, and that is told on stderr."""
    path = place()
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return _empty()
    except OSError as error:
        print(f"{path} cannot be read ({error.strerror or error}): going on without your progress", file=sys.stderr)
        return _empty()
    except (ValueError, RecursionError):
        data = None
    if isinstance(data, dict) and isinstance(data.get("lessons"), dict) and isinstance(data.get("version"), int):
        return data
    aside = path.with_name(path.name + ".damaged")
    with suppress(OSError):
        os.replace(path, aside)
        print(f"{path} is damaged: set aside as {aside.name}; your progress begins anew", file=sys.stderr)
    return _empty()


def _empty() -> dict[str, Any]:
    return {"version": VERSION, "lessons": {}}


def _write(data: dict[str, Any]) -> None:
    path = place()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, json.dumps(data, indent=1) + "\n")
    except OSError as error:
        print(f"{path} cannot be written ({error.strerror or error}): your progress is not kept; "
              "set TINYGRAD_TF_CACHE to a folder where it can be", file=sys.stderr)  # fmt: skip


def write_text(path: Path, text: str) -> None:
    """Replace a file by this text, whole or not at all."""
    descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        if path.exists():
            shutil.copymode(path, beside)
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise


def last() -> int | None:
    """The number of the lesson that was opened last."""
    number = read().get("last")
    return number if isinstance(number, int) else None


def opened(number: int) -> None:
    """Remember that this lesson is where the reader is."""
    data = read()
    if data.get("last") != number:
        data["last"] = number
        _write(data)


def kept(lesson: Lesson) -> dict[str, Kept]:
    """The answers of a lesson that once passed, by name."""
    found, now = {}, fingerprint(lesson)
    entries = read()["lessons"].get(lesson.name)
    for name in lesson.exercises:
        entry = entries.get(name) if isinstance(entries, dict) else None
        if isinstance(entry, dict) and all(isinstance(entry.get(key), str) for key in ("date", "answer", "file")):
            found[name] = Kept(entry["date"], entry["answer"], entry["file"], entry.get("passes") is not False,
                               entry.get("check") == now)  # fmt: skip
    return found


def record(lesson: Lesson, passed: dict[str, str], failed: list[str], file: str) -> None:
    """Keep what a check found: the text of each answer that passed, with the file it stood in, and the names that failed.

    An exercise that is not written, or was not asked for, stays as it is.
    """
    data = read()
    entries = data["lessons"].get(lesson.name)
    entries = data["lessons"][lesson.name] = entries if isinstance(entries, dict) else {}
    before = json.dumps(entries)
    for name, answer in passed.items():
        old = entries[name] if isinstance(entries.get(name), dict) else {}
        day = old.get("date") if old.get("answer") == answer else None
        entries[name] = {**old, "date": day or date.today().isoformat(), "passes": True, "answer": answer, "file": file,
                         "check": fingerprint(lesson)}  # fmt: skip
    for name in failed:
        if isinstance(entries.get(name), dict):
            entries[name]["passes"] = False
    if json.dumps(entries) != before:
        _write(data)
