"""What tests/README.md promises, it promises by the name of a test; each of these is there."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS / "README.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", PAGE)


def functions(file):
    return {node.name for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("file,name", sorted(set(NAMED)))
def test_the_test_of_a_promise_is_there(file, name):
    assert name in functions(TESTS / file)


def test_every_promise_has_a_test():
    rows = PAGE.split("## What is promised")[1].split("\n## ")[0].split("| --- | --- |\n")[1].split("\n\n")[0].splitlines()
    assert len(rows) >= 15
    assert [row for row in rows if "::test_" not in row.split("|")[2]] == []


def test_every_file_that_the_page_names_is_there():
    for name in re.findall(r"`(test_\w+\.py)`", PAGE):
        assert (TESTS / "field" / name).is_file(), name
