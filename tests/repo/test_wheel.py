"""A wheel that is built here works in an empty environment, used from another folder."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow  # fetches the build backend and the dependencies


def run(cwd, *words):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def files(room: str) -> set[str]:
    return {file.relative_to(ROOT).as_posix() for file in (ROOT / room).rglob("*.py")}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(folder, sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, ROOT)
    return next(folder.glob("*.whl"))


def test_it_holds_both_packages_and_nothing_else(wheel):
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    assert {name.split("/")[0] for name in names} == {"tinygrad_tf", "viz"}
    assert files("tinygrad_tf") | files("viz") <= set(names)


def test_it_trains_from_another_folder(wheel, tmp_path):
    run(tmp_path, sys.executable, "-m", "venv", "venv")
    scripts = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run(elsewhere, scripts / "python", "-m", "pip", "install", wheel)
    for package in ("tinygrad_tf", "viz"):
        place = run(elsewhere, scripts / "python", "-c", f"import {package}; print({package}.__file__)")
        assert Path(place).is_relative_to(tmp_path)
    run(elsewhere, scripts / "tinygrad-tf", "train", "--steps", "20")
    assert list(elsewhere.rglob("*.safetensors")), "no checkpoint in the folder that the run was started from"
