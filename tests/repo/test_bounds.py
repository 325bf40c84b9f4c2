"""What pyproject.toml promises about versions is what is tested."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = CONFIG["project"]
EXTRAS = PROJECT["optional-dependencies"]
REQUIREMENT = re.compile(r"(?P<name>[\w-]+)>=(?P<lowest>[\d.]+),<(?P<beyond>[\d.]+)")


@pytest.mark.parametrize("requirement", sum(EXTRAS.values(), PROJECT["dependencies"]))
def test_every_dependency_has_two_bounds(requirement):
    match = REQUIREMENT.fullmatch(requirement)
    assert match, f"{requirement}: write it as name>=LOWEST,<BEYOND"
    lowest, beyond = ([int(part) for part in match[key].split(".")] for key in ("lowest", "beyond"))
    assert lowest < beyond


def test_the_constraints_of_the_lowest_versions_are_the_lower_bounds():
    extras = ("test", "browser", "pretrained", "lessons", "mpi", "fast")
    tested = PROJECT["dependencies"] + [requirement for name in extras for requirement in EXTRAS[name]]
    bounds = [REQUIREMENT.fullmatch(r) for r in tested]
    lines = (ROOT / ".ci" / "lowest.txt").read_text().splitlines()
    assert [line for line in lines if line[0] != "#"] == [f"{b['name']}=={b['lowest']}" for b in bounds]


def test_every_tool_is_set_to_the_lowest_python():
    version = PROJECT["requires-python"].removeprefix(">=")
    assert CONFIG["tool"]["mypy"]["python_version"] == version
    assert CONFIG["tool"]["ruff"]["target-version"] == "py" + version.replace(".", "")


def test_ci_compares_with_the_lowest_pytorch():
    lowest = REQUIREMENT.fullmatch(EXTRAS["oracle"][0])["lowest"]
    assert f"torch=={lowest}.0" in (ROOT / ".ci" / "run").read_text()
