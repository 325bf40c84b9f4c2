"""Serves the lessons to a browser on this machine, and to nobody else: 127.0.0.1, behind marimo's token, with no network.

Each lesson is a marimo app at `/N/` with its code shown; the index at `/` and the glossary at `/glossary` are pages of their
own. Everything marimo would ask the outside for is turned off before marimo is imported; its settings are ours and not those of
the reader's own notebooks.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import answers, catalogue, index, page
from .catalogue import Lesson
from .gate import Gate

HOST, PORT = "127.0.0.1", 2725
OFFLINE = {  # read by marimo when it is imported
    "MARIMO_SKIP_UPDATE_CHECK": "1",  # asks the package registry
    "MARIMO_RESTRICT_SHARING": "1",  # buttons that lead to services outside
}
CONFIG = '[display]\ntheme = "system"\n\n[runtime]\nauto_instantiate = true\n'
HEAD = Path(__file__).with_name("lesson.css")


def serve(first: Lesson | None, port: int | None = None, browser: bool = True, folder: Path | None = None) -> None:
    """Serve all lessons until Ctrl-C; open the browser at one of them, or at the index."""
    with settings(), listening(port) as listener:
        os.environ[page.SERVED] = "1"
        if folder is not None:
            os.environ[answers.VARIABLE] = str(folder.absolute())
        token = secrets.token_urlsafe(16)
        here = f"http://{HOST}:{listener.getsockname()[1]}"
        address = f"{here}/{f'{first.number}/' if first else ''}?access_token={token}"
        application = app(token, listener.getsockname()[1])
        print(f"The lessons are at {address}\nCtrl-C ends this.", flush=True)
        if browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

        import uvicorn

        uvicorn.Server(uvicorn.Config(application, log_level="error", timeout_graceful_shutdown=1, lifespan="off")).run(
            [listener]
        )


def app(token: str, port: int) -> Any:
    """The index and every lesson as one ASGI application."""
    import marimo
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import HTMLResponse
    from starlette.routing import Mount, Route

    def list_of_lessons(request: Request) -> HTMLResponse:
        return HTMLResponse(index.page(), headers={"Cache-Control": "no-store"})

    def glossary(request: Request) -> HTMLResponse:
        return HTMLResponse(index.glossary())

    style = f"<style>{HEAD.read_text(encoding='utf-8')}</style>"
    builder = marimo.create_asgi_app(quiet=True, include_code=True, token=token, html_head=style, show_tracebacks=True)
    for lesson in catalogue.lessons():
        builder = builder.with_app(path=f"/{lesson.number}", root=str(lesson.path))
    pages = [Route("/", list_of_lessons), Route("/glossary", glossary), Mount("/", builder.build())]
    return Gate(Starlette(routes=pages), token, port)


def copied(lesson: Lesson, folder: Path) -> Path:
    """The copy of a lesson that is edited, made if there is none."""
    path = folder / "notebooks" / lesson.path.name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(lesson.path, path)
    return path


def edit(notebook: Path, port: int | None = None, browser: bool = True) -> None:
    """Open marimo's editor on a notebook until Ctrl-C."""
    with settings() as folder, open(folder / "log", "w+", encoding="utf-8", errors="replace") as log:
        with listening(port) as listener:
            number = listener.getsockname()[1]  # marimo opens it again
        token = secrets.token_urlsafe(16)
        address = f"http://{HOST}:{number}/?access_token={token}"
        paths = os.pathsep.join(filter(None, [str(catalogue.FOLDER.parent), os.environ.get("PYTHONPATH")]))
        words = ["--host", HOST, "--port", str(number), "--token-password", token, "--headless", "--skip-update-check"]
        process = subprocess.Popen(
            [sys.executable, "-m", "marimo", "--quiet", "--yes", "edit", str(notebook), *words],
            env={**os.environ, "PYTHONPATH": paths, answers.VARIABLE: str(notebook.parent.parent)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is ours to hear
        )
        print(f"{notebook} is open at {address}\nCtrl-C ends this.", flush=True)
        try:
            if answering(number, process) and browser:
                webbrowser.open(address)
            if process.wait():
                log.seek(0)
                raise ValueError(f"marimo ended with status {process.returncode}: {log.read().strip()[-300:]}")
        finally:
            process.send_signal(signal.SIGINT if os.name == "posix" else signal.SIGTERM)
            process.wait()


def answering(port: int, process: subprocess.Popen) -> bool:
    """Wait until something answers on the port, or the process has ended."""
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex((HOST, port)) == 0:
                return True
        threading.Event().wait(0.1)
    return False


@contextmanager
def settings() -> Iterator[Path]:
    """The folder of marimo's settings, which are ours here; everything is off that would leave the machine."""
    with tempfile.TemporaryDirectory(prefix="lessons-", ignore_cleanup_errors=True) as folder:
        (Path(folder) / "marimo").mkdir()
        (Path(folder) / "marimo" / "marimo.toml").write_text(CONFIG, encoding="utf-8")
        os.environ.update(OFFLINE, XDG_CONFIG_HOME=folder, XDG_STATE_HOME=folder)
        yield Path(folder)


@contextmanager
def listening(port: int | None) -> Iterator[socket.socket]:
    """A socket that listens on the port; without one on the usual one, or on any when that is taken."""
    try:
        listener = _listener(PORT if port is None else port)
    except OSError as error:
        if port is not None:
            raise ValueError(f"--port {port} on {HOST}: {error.strerror}; take another, or leave it out") from None
        listener = _listener(0)
    with listener:
        yield listener


def _listener(port: int) -> socket.socket:
    """Raises OSError where another program listens; two that begin at once can both bind a port, and then one cannot listen."""
    listener = socket.socket()
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener
