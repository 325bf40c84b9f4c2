"""A wheel that is built here works in an empty environment, used from another folder."""

import configparser
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow  # fetches the build backend and the dependencies


def run(cwd, *words):
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "TINYGRAD_TF_DOT")}
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, encoding="utf-8", check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def files(room: str) -> set[str]:
    """What is needed to run: all but the pictures of the gallery, and the page that shows them."""
    written = {"__pycache__", "__marimo__"}  # by running what is there
    found = {file for file in (ROOT / room).rglob("*") if file.is_file() and not written & {*file.parts}}
    pictures = {file for file in found if file.parent.name == "gallery" and file.suffix in (".svg", ".html")}
    return {file.relative_to(ROOT).as_posix() for file in found - pictures} - {"viz/README.md"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    run(folder, sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, ROOT)
    return next(folder.glob("*.whl"))


def test_it_holds_the_three_packages_and_nothing_else(wheel):
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert {"viz/page/page.html", "viz/page/page.css", "viz/page/page.js"} <= names
    assert names == files("tinygrad_tf") | files("viz") | files("lessons")


def test_it_gives_the_command_and_what_adds_to_it(wheel):
    archive = zipfile.ZipFile(wheel)
    (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
    points = configparser.ConfigParser()
    points.read_string(archive.read(name).decode("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert dict(points["console_scripts"]) == project["scripts"]
    assert dict(points["tinygrad_tf.commands"]) == project["entry-points"]["tinygrad_tf.commands"]


def test_it_trains_and_draws_from_another_folder(wheel, tmp_path):
    run(tmp_path, sys.executable, "-m", "venv", "venv")
    scripts = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    run(elsewhere, scripts / "python", "-m", "pip", "install", wheel)
    for package in ("tinygrad_tf", "viz", "lessons"):
        place = run(elsewhere, scripts / "python", "-c", f"import {package}; print({package}.__file__)")
        assert Path(place).is_relative_to(tmp_path)
    run(elsewhere, scripts / "tinygrad-tf", "train", "--steps", "20")
    assert list(elsewhere.rglob("*.safetensors")), "no checkpoint in the folder that the run was started from"
    (solution, *_) = sorted((ROOT / "lessons" / "solutions").glob("[0-9]*.py"))
    (elsewhere / "mine").mkdir()
    (elsewhere / "mine" / solution.name).write_bytes(solution.read_bytes())
    assert "✗" not in run(elsewhere, scripts / "tinygrad-tf", "check", "1", "--in", "mine")
    assert "drawings can be made" in run(elsewhere, scripts / "tinygrad-tf", "doctor")
    for name in ("tiny.svg", "tiny.html"):
        run(elsewhere, scripts / "tinygrad-tf", "draw", "--preset", "tiny", "-o", name)
        assert "</svg>" in (elsewhere / name).read_text(encoding="utf-8")
