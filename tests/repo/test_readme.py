"""Every command that a README shows is one that exists, with options that exist; every link leads to a file."""

import copy
import re
import shlex
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())
READMES = [ROOT / "README.md", *ROOT.glob("*/README.md")]
CI = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(readme: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(readme.read_text(encoding="utf-8")) if kind == language]


def commands(readme: Path, language: str) -> list[list[str]]:
    """The commands of all blocks in a language, as lists of words."""
    text = "\n".join(blocks(readme, language)).replace("\\\n", " ")
    if language == "bat":  # read as its twin for the other systems
        text = text.replace("py -m venv", "python3 -m venv").replace(".venv\\Scripts\\", "")
        text = text.replace("python -m pip", "pip")
    return [words for part in re.split(r"\n|&&", text) if (words := shlex.split(part, comments=True))]


def command_line():
    """`tinygrad-tf` with the commands that `viz` and `lessons` add, whether or not the project is installed."""
    from typer.main import get_command

    import lessons.commands
    import viz.commands
    from tinygrad_tf.cli import app

    whole = copy.copy(app)
    whole.registered_commands = list(app.registered_commands)
    viz.commands.add(whole)
    lessons.commands.add(whole)
    return get_command(whole)


def check(words: list[str]) -> None:
    match words:
        case ["python3", "-m", "venv", ".venv"] | [".", ".venv/bin/activate"]:
            pass
        case ["tinygrad-tf", name, *rest]:
            from tinygrad_tf.settings import PRESETS

            options = command_line().commands[name].make_context(name, list(rest)).params
            if name == "train":
                settings = {key: options[key] for key in vars(PRESETS["tiny"]) if options[key] is not None}
                PRESETS[settings.get("preset", "tiny")].changed(**settings)
        case ["mpirun", "-n", ranks, *rest]:
            assert int(ranks) > 1
            assert "--data-parallel" in rest
            check(rest)
        case ["pip", "install", "-e", target]:
            extras = re.fullmatch(r"\.(?:\[([\w,]+)\])?", target)[1]
            assert set(extras.split(",") if extras else ()) <= set(CONFIG["project"]["optional-dependencies"])
        case ["pip", "install", requirement]:
            assert f"pip install {requirement}" in CI
        case ["sudo", "apt-get", "install", *packages]:
            for package in packages:
                assert re.search(rf"\bgot [\w ]*\b{package}\b", CI), f".ci/run does not install {package}"
        case ["python", "-m", "pytest", *rest]:
            marks = {line.split(":")[0] for line in CONFIG["tool"]["pytest"]["ini_options"]["markers"]} | {"and", "or", "not"}
            for word in rest:
                assert word.startswith("-") or word.isdigit() or marks.issuperset(word.split()) or (ROOT / word).exists(), word
        case ["python", "-m", module, *_]:
            place = ROOT / module.replace(".", "/")
            assert (place / "__main__.py").is_file() or place.with_suffix(".py").is_file(), module
        case ["python" | "bash", file, *_]:
            assert (ROOT / file).is_file(), file
        case _:
            pytest.fail("this test knows no such command: " + shlex.join(words))


@pytest.mark.parametrize("readme", READMES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_command_exists(readme):
    for words in commands(readme, "sh") + commands(readme, "bat"):
        check(words)


def test_the_quick_start_is_two_commands_that_ci_can_find():
    """`.ci/run` runs these two lines as they stand."""
    start = "python3 -m venv .venv && . .venv/bin/activate && pip install -e "
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line.startswith("python3 -m venv .venv && ")] == [
        start + ". && tinygrad-tf train",
        start + "'.[test]' && python -m pytest",
    ]


def test_the_windows_form_does_the_same():
    start = commands(ROOT / "README.md", "sh")[:8]
    assert commands(ROOT / "README.md", "bat") == [words for words in start if words[0] != "."]


@pytest.mark.parametrize("readme", READMES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_python_examples_run(readme, tmp_path, monkeypatch):
    """In the order of the page, each with the names of those before it; what they write stays out of the repository."""
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "readme"}
    for text in blocks(readme, "python"):
        exec(compile(text, str(readme), "exec"), names)


@pytest.mark.parametrize("readme", READMES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_and_picture_is_there(readme):
    text = BLOCK.sub("", readme.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if not re.match(r"[a-z]+:|#", target):
            assert (readme.parent / target.partition("#")[0]).exists(), target
