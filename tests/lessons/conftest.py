"""No test of the lessons sees or writes the progress of whoever runs it; the script of a lesson is run once for all tests."""

import os

import pytest

from tests.lessons.running import STEPS, TRAINS, script


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    monkeypatch.setenv("TINYGRAD_TF_CACHE", str(tmp_path / "cache"))
    for name in ("TINYGRAD_TF_EXERCISES", "TINYGRAD_TF_LESSONS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def printed(tmp_path_factory):
    """printed(lesson) -> the lines of its script, from a file that all workers of xdist share."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    def lines(lesson):
        file = folder / f"{lesson.name}.txt"
        if not file.exists():
            unfinished = folder / f"{lesson.name}.{os.getpid()}"
            text = "\n".join(script(lesson, STEPS if lesson.number == TRAINS else None))
            unfinished.write_text(text, encoding="utf-8")
            unfinished.replace(file)
        return file.read_text(encoding="utf-8").splitlines()

    return lines
