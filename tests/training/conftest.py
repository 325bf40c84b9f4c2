"""A run that takes a second: a small decoder on a small text."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tinygrad_tf import train
from tinygrad_tf.cli import run_command
from tinygrad_tf.settings import TrainConfig

ROOT = Path(__file__).parents[2]
SMALL = {
    "n_layer": 1, "n_head": 2, "n_embd": 16, "block_size": 8, "batch_size": 4, "steps": 10, "warmup": 2, "dropout": 0.2,
    "eval_every": 3, "eval_batches": 2, "sample_every": 4, "sample_tokens": 12, "checkpoint_every": 5,
}  # fmt: skip


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cat sat on the mat; the dog sat on the cat.\n" * 20, encoding="utf-8", newline="")
    return path


@pytest.fixture
def small(text):
    """Make a configuration of that size."""
    return lambda **changes: TrainConfig(**{"text": str(text), **SMALL, **changes})


@pytest.fixture
def options(text):
    """The same as options of `tinygrad-tf train`."""
    return ["--text", str(text), *(str(part) for name, value in SMALL.items()
                                   for part in (f"--{name.replace('_', '-')}", value))]


@pytest.fixture
def no_pictures(monkeypatch):
    """Matplotlib takes longer than all else in a small run."""
    monkeypatch.setattr(train, "draw_curves", lambda *args: None)


@pytest.fixture
def inside(tmp_path, monkeypatch, capsys, no_pictures):
    """Run `tinygrad-tf` in this process, in an empty folder, without pictures."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        capsys.readouterr()
        status = run_command([str(argument) for argument in arguments])
        shown = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, status, shown.out, shown.err)

    return run


@pytest.fixture
def command(tmp_path):
    """Run `tinygrad-tf` in a process of its own, in an empty folder."""

    def run(*arguments, start=False, env=None, **settings):
        line = [sys.executable, "-m", "tinygrad_tf", *map(str, arguments)]
        env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "", **(env or {})}
        settings = {"cwd": tmp_path, "env": env, "text": True, "encoding": "utf-8", "stdout": subprocess.PIPE,
                    "stderr": subprocess.PIPE, **settings}
        return subprocess.Popen(line, **settings) if start else subprocess.run(line, check=False, **settings)

    return run
