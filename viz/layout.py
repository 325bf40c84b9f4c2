"""Finds and runs the program that lays a graph out: `graphviz-pure` from PyPI, or the `dot` of an installed Graphviz.

The package `graphviz` could run it too, but without a time limit, and it chooses the program by a variable that all its users
share.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "TINYGRAD_TF_DOT"
PURE, SYSTEM = "graphviz-pure", "dot"
NEEDS_SYSTEM = ("pdf", "ps", "ps2", "eps")  # what graphviz-pure does not make
# Graphviz loses its way with a curve in some drawings: a little more room helps, and straight lines always do.
ROUTES: tuple[list[str], ...] = ([], ["-Gnodesep=0.27"], ["-Gnodesep=0.31"], ["-Gsplines=line"])
INSTALL_PURE = "pip install graphviz-pure"
INSTALL_SYSTEM = "apt install graphviz, brew install graphviz or winget install graphviz"


class EngineError(RuntimeError):
    """The layout engine failed. The message is one line that ends with the next step."""


class EngineNotFound(EngineError):
    """There is no program that could lay the graph out."""


class EngineTimeout(EngineError):
    """The layout took too long and was stopped; `stopped` says so without the next step."""

    def __init__(self, stopped: str, remedy: str):
        super().__init__(f"{stopped}: {remedy}")
        self.stopped = stopped


@dataclass(frozen=True)
class Engine:
    """A program that lays graphs out."""

    path: str

    @property
    def kind(self) -> str:
        """"graphviz-pure" or "dot", by its file name."""
        return PURE if Path(self.path).name.lower().startswith(PURE) else SYSTEM

    @property
    def version(self) -> str:
        """What the program itself says, such as "0.2.2"; "unknown" if it says nothing. Runs it."""
        try:
            _, out, err = _call([self.path, "-V"], b"", 10)
        except EngineError:
            return "unknown"
        found = re.search(rb"version (\d[\w.]*)", err + out)
        return found[1].decode("ascii") if found else "unknown"


@dataclass(frozen=True)
class Place:
    """A place where an engine is looked for, and what it gave."""

    where: str  # in words
    path: str = ""  # of the program that is there
    lack: str = ""  # why there is none
    asked: bool = False  # the user named it: then nothing else will do


def places(preference: str = "") -> Iterator[Place]:
    """Every place where an engine is looked for, the first choice first."""
    wish = os.environ.get(VARIABLE, "")
    yield Place(f"{VARIABLE}={wish}", *_program(wish), asked=True) if wish else Place(VARIABLE, lack="not set")
    if preference:
        beside = next((path for _, path in _beside(preference) if _usable(path)), "")
        yield Place(f"the engine asked for, {preference}", *((beside, "") if beside else _program(preference)), asked=True)
    for folder, path in _beside(PURE):  # also when the virtual environment is not activated
        lack = "" if _usable(path) else "not executable" if os.path.exists(path) else "not there"
        yield Place(f"{PURE} in {folder}", "" if lack else path, lack)
    for name in (PURE, SYSTEM):
        yield Place(f"{name} on PATH", *_program(name))


def _beside(name: str) -> list[tuple[str, str]]:
    """(folder, path) of the program in the folders where pip puts the programs of this Python."""
    file = name + (sysconfig.get_config_var("EXE") or "")
    schemes = (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))
    folders = dict.fromkeys(sysconfig.get_path("scripts", scheme) for scheme in schemes)
    return [(folder, os.path.join(folder, file)) for folder in folders] if file == os.path.basename(file) else []


def _usable(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _program(name: str) -> tuple[str, str]:
    """(path, "") of a program given by its name or path, or ("", why not)."""
    name = os.path.expanduser(name)
    found = shutil.which(name)
    if found:
        return os.path.abspath(found), ""
    if os.path.basename(name) == name and not os.path.exists(name):
        return "", "not found"
    return "", "is a folder" if os.path.isdir(name) else "not executable" if os.path.exists(name) else "no such file"


def engine(preference: str = "", format: str = "svg") -> Engine:
    """The engine that makes drawings of this format; `preference` is a program's name or path.

    The environment variable TINYGRAD_TF_DOT comes before everything. PDF and PostScript need an installed Graphviz, whatever
    else is preferred. Raises EngineNotFound.
    """
    for place in places(preference):
        if place.asked and not place.path:
            remedy = f"unset {VARIABLE}" if place.where.startswith(VARIABLE) else "leave the choice out"
            raise EngineNotFound(f"{place.where}: {place.lack}; name a program or its path, such as dot, or {remedy}")
        if place.path and not (format in NEEDS_SYSTEM and Engine(place.path).kind == PURE):
            return Engine(place.path)
    if format in NEEDS_SYSTEM:
        raise EngineNotFound(f"{format.upper()} needs an installed Graphviz, and no dot was found: {INSTALL_SYSTEM}; "
                             "or save the drawing as .svg")
    raise EngineNotFound(f"no program was found that lays graphs out: {INSTALL_PURE} (.dot and .json can be saved without one)")


def run(dot: str, format: str, timeout: float = 60, preference: str = "") -> bytes:
    """The graph in DOT as a drawing: the bytes of an SVG, PNG, PDF, or whatever else Graphviz calls `format`.

    Raises EngineNotFound; EngineTimeout after `timeout` seconds, with the program stopped; EngineError with the first thing
    that the program said. Nothing is left behind: no file, no process, no changed setting.
    """
    program = engine(preference, format)
    words, data = [program.path, "-Kdot", f"-T{format}"], dot.encode("utf-8", "replace")
    for otherwise in ROUTES:
        status, out, err = _call([*words, *otherwise], data, timeout)
        if status <= 0 or b"routesplines" not in err:
            break
    if status == 0 and out:
        return out
    said = _first_line(err) or ("it made nothing" if status == 0 else "it said nothing")
    how = "" if status == 0 else f" ({_signal(-status)})" if status < 0 else f" (exit status {status})"
    raise EngineError(f"{program.kind} failed{how}: {said}; save the drawing as .dot to see what it was given, "
                      f"or try another engine with {VARIABLE}")


def _call(words: list[str], data: bytes, timeout: float) -> tuple[int, bytes, bytes]:
    """(exit status, output, messages) of a program. It gets a group of its own, so that whatever it starts ends with it."""
    pipe, no_window = subprocess.PIPE, getattr(subprocess, "CREATE_NO_WINDOW", 0)  # Windows would open one
    try:
        process = subprocess.Popen(
            words, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, creationflags=no_window)  # fmt: skip
    except OSError as error:
        raise EngineError(f"{words[0]} cannot be run ({error.strerror}); choose another engine with {VARIABLE}") from None
    with process:
        try:
            out, err = process.communicate(data, timeout)
        except subprocess.TimeoutExpired:
            _kill(process)
            remedy = ('draw less (view="modules", collapse=("blocks.*",) or a smaller max_nodes), '
                      "or save the drawing as .dot, which needs no layout")  # fmt: skip
            raise EngineTimeout(f"{os.path.basename(words[0])} was stopped after {timeout:g} s", remedy) from None
        except BaseException:  # Ctrl-C does not reach another group
            _kill(process)
            raise
    return process.returncode, out, err


def _kill(process: subprocess.Popen) -> None:
    if sys.platform != "win32":
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


def _first_line(message: bytes) -> str:
    """The first line that says something and is no warning, fit for a terminal."""
    lines = ["".join(c for c in line if c.isprintable()).strip() for line in message.decode("utf-8", "replace").splitlines()]
    said = [line for line in lines if line and not line.startswith("Warning")] or [line for line in lines if line]
    return said[0].removeprefix("Error: ")[:300] if said else ""


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
