"""The folder of one training run: who may write into it, and what lies where.

    checkpoint.safetensors   the run at its last saved step; everything else can be made again from it
    config.json              every setting, for people
    metrics.jsonl            one line per step
    loss.svg, loss.png       the curves
    sample.txt               the last sample
"""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from subprocess import list2cmdline
from typing import IO

from .errors import OneLine

CHECKPOINT, CONFIG, METRICS, SAMPLE, LOCK = (
    "checkpoint.safetensors", "config.json", "metrics.jsonl", "sample.txt", ".lock")


class RunError(OneLine):
    """A run that cannot start or go on. The message is one line that names the next step."""


def typed(path: str | Path) -> str:
    """A path as it is typed into a command line, whatever is in it and whatever standard output can show."""
    if sys.platform == "win32":
        return list2cmdline([str(path)])
    word = quote(str(path))
    try:
        word.encode(getattr(sys.stdout, "encoding", None) or "utf-8")
        shown = word.isprintable()
    except UnicodeEncodeError:
        shown = False
    octal = re.sub(rb"[^\w/.-]", lambda byte: b"\\%03o" % byte[0][0], os.fsencode(path)).decode("ascii")
    return word if shown else f"$'{octal}'"


def next_folder(name: str, parent: Path = Path("runs")) -> Path:
    """Create and return the first free one of `runs/<name>-1`, `runs/<name>-2`, ... Raises RunError where none can be made."""
    number = 1
    while True:
        folder = parent / f"{name}-{number}"
        try:
            folder.mkdir(parents=True)
            return folder
        except FileExistsError:
            number += 1
        except OSError as error:
            reason = error.strerror or error
            raise RunError(f"cannot make {folder.absolute()}, the folder of this run: {reason}; --run names another") from None


def refuse_if_taken(folder: Path) -> None:
    """Raises RunError unless a new run may start in `folder`: it does not exist yet, or holds nothing to keep."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise RunError(f"{folder} is a file; name a folder for the run")
    if (folder / CHECKPOINT).exists():
        raise RunError(f"{folder} already holds a run; continue it with --resume {typed(folder)}, or name another folder")
    # A run that died before its first checkpoint leaves its lock and perhaps an unfinished file.
    if any(entry.name != LOCK and entry.suffix != ".tmp" for entry in folder.iterdir()):
        raise RunError(f"{folder} is not empty and holds no run; name a new or an empty folder")


def checkpoint_in(run: Path) -> Path:
    """The checkpoint of a run, given its folder or the file itself. Raises RunError if there is none."""
    path = run / CHECKPOINT if run.is_dir() else run
    if not path.exists():
        what = f"{run} holds no checkpoint" if run.exists() else f"{run}: no such run"
        raise RunError(f"{what}; name the folder of a run, such as runs/tiny-1")
    return path


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time writes into `folder`. Raises RunError, naming the process, if another one does.

    The operating system holds the lock, and drops it when the process ends, however it ends.
    """
    with open(folder / LOCK, "a+", encoding="ascii", opener=_open_no_link) as file:
        try:
            _lock(file)
        except OSError:
            file.seek(0)
            owner = file.read(20).strip() or "unknown"
            raise RunError(f"{folder} is in use by process {owner}; wait for it, or name another folder") from None
        try:
            file.truncate(0)
            os.write(file.fileno(), str(os.getpid()).encode())  # at once: what waits in a buffer fails a second time
        except OSError as error:
            error.filename = file.name
            raise
        yield


def _open_no_link(path: str, flags: int) -> int:
    """A folder that came from elsewhere may hold a link out of it, and what is opened here is emptied."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


if sys.platform != "win32":
    import fcntl

    def _lock(file: IO) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

else:
    import msvcrt

    def _lock(file: IO) -> None:
        file.seek(1 << 30)  # far behind the text: Windows forbids others to read a locked place
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        file.seek(0)
