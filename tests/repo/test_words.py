"""No file holds a path of one machine, the address of a package registry, or a mark of unfinished work."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = [".ci", "tinygrad_tf", "viz", "lessons", "tests", "benchmarks"]
SUFFIXES = {"", ".css", ".dot", ".html", ".js", ".json", ".md", ".py", ".svg", ".toml", ".txt"}
FILES = [
    path
    for folder in [ROOT.glob("*"), *((ROOT / name).rglob("*") for name in FOLDERS)]
    for path in folder
    if path.is_file() and path.suffix in SUFFIXES and "__pycache__" not in path.parts
]
# Each pattern is written so that it does not find itself.
FORBIDDEN = {
    "path of one machine": r"(?<![\w.~*>)}])/(?:work|root|home|Users|tmp|farm)(?:/|\b)",
    "address of a package registry": r"\b(?:pypi|pythonhosted|npmjs|debian)[.](?:org|com)\b",
    "mark of unfinished work": r"\b(?:TO[D]O|FIX[M]E|X[X]X)\b|NotImplementedError\(\)",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_holds_a(what):
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
        for path in FILES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(FORBIDDEN[what], line)
    ]
    assert not found, "\n".join([what, *found])


@pytest.mark.parametrize(
    "line", ["see /ho" + "me/ann/x", '"/tm' + 'p"', "https://py" + "pi.org/x", "# TO" + "DO: later"]
)
def test_the_patterns_find_what_they_are_for(line):
    assert any(re.search(pattern, line) for pattern in FORBIDDEN.values())
