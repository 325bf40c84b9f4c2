"""Odd starts: warnings as errors, no asserts, a C locale, folders with any name, a home that cannot be written."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
USE = r"""
import sys, numpy as np, viz
from tinygrad_tf import manual_seed, optim
from tinygrad_tf.generate import generate
from tinygrad_tf.models import Decoder, DecoderConfig
model = Decoder(DecoderConfig(7, 4, 1, 2, n_embd=8, dropout=0.1), np.random.default_rng(0))
optimizer = optim.AdamW(model.parameters())
manual_seed(0)
for step in range(2):
    optimizer.zero_grad()
    loss = model.loss(np.array([[1, 2, 3]]), np.array([[2, 3, 4]]))
    loss.backward()
    optimizer.step()
ids = list(generate(model, np.array([1]), 5, temperature=0))
sys.stdout.buffer.write(f"{len(ids)} {loss.item():.6f} \xe9\u6f22 {len(viz.trace(loss).nodes)}".encode())
"""


def run(tmp_path, *options, env=None, root=ROOT, code=USE):
    settings = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1", **(env or {})}
    done = subprocess.run([sys.executable, *options, "-c", code], cwd=tmp_path, env=settings, capture_output=True, check=False)
    assert done.stderr.decode() == ""
    assert done.returncode == 0
    return done.stdout.decode()


@pytest.fixture(scope="module")
def ordinary(tmp_path_factory):
    return run(tmp_path_factory.mktemp("plain"))


C_LOCALE = {"LC_ALL": "C", "LANG": "", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
STARTS = {
    "warnings are errors": (["-W", "error"], {}),
    "without asserts": (["-O"], {}),
    "without docstrings": (["-OO"], {}),
    "isolated from the user's packages": (["-s"], {}),
    "a C locale": ([], C_LOCALE),
    "another hash seed": ([], {"PYTHONHASHSEED": "7"}),
    "no bytecode": (["-B", "-X", "dev"], {}),
}


@pytest.mark.parametrize("start", STARTS)
def test_it_computes_the_same(start, tmp_path, ordinary):
    options, env = STARTS[start]
    assert run(tmp_path, *options, env=env) == ordinary


def test_from_a_folder_with_spaces_and_signs(tmp_path, ordinary):
    root = tmp_path / "mes modèles 漢"
    for package in ("tinygrad_tf", "viz"):
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__", "gallery"))
    assert run(tmp_path, root=root) == ordinary
    assert run(root, root=root, env=C_LOCALE) == ordinary


def test_with_a_home_that_cannot_be_written(tmp_path, ordinary):
    """Nothing is written on import or use; where Matplotlib looks for its folder is not our business before it is used."""
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "work").mkdir()
    home.chmod(0o555)
    names = {name: str(home) for name in ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "LOCALAPPDATA")}
    assert run(tmp_path / "work", env=names) == ordinary
    for name in names:
        names[name] = "/nonexistent/home"  # not even there
    assert run(tmp_path / "work", env=names) == ordinary
    assert list(home.iterdir()) == list((tmp_path / "work").iterdir()) == []


# The lowest typer and matplotlib use names that click and pyparsing have given up since; nothing else may warn.
OTHERS = ["ignore:'click.utils.:DeprecationWarning", "ignore::DeprecationWarning:matplotlib._fontconfig_pattern",
          "ignore::DeprecationWarning:matplotlib._mathtext"]  # fmt: skip
STRICT = [word for rule in ("error", *OTHERS) for word in ("-W", rule)]


@pytest.mark.parametrize("options", [[], STRICT, ["-O"]], ids=["plain", "-W error", "-O"])
def test_the_commands_start_anywhere(tmp_path, options):
    folder = tmp_path / "mes modèles 漢"
    folder.mkdir()
    (folder / "a text.txt").write_text("the cat sat on the mat; " * 20, encoding="utf-8")
    settings = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": "/nonexistent", "MPLCONFIGDIR": str(tmp_path), **C_LOCALE}
    small = {"n-layer": 1, "n-head": 1, "n-embd": 4, "block-size": 4, "batch-size": 2, "steps": 2, "eval-every": 0}
    given = [f"--{name}={value}" for name, value in {**small, "sample-every": 0, "text": "a text.txt", "run": "rün"}.items()]
    command = [sys.executable, *options, "-m", "tinygrad_tf", "train", *given]
    done = subprocess.run(command, cwd=folder, env=settings, capture_output=True, check=False)
    assert done.stderr.decode(errors="replace") == ""
    assert done.returncode == 0
    assert [path.name for path in folder.iterdir() if path.is_dir()] == ["rün"]
