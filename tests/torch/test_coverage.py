"""The page of what is covered is true: every name is there, and every name has a comparison with PyTorch."""

import ast
import re
from pathlib import Path

import pytest

from tinygrad_tf.torch import coverage

HERE = Path(__file__).parent
SURFACE = coverage.surface()


def test_the_page_is_what_is_written_today():
    assert (coverage.FOLDER / "COVERAGE.md").read_text(encoding="utf-8") == coverage.page(), (
        "run python -m tinygrad_tf.torch.coverage"
    )


@pytest.mark.parametrize("tier", coverage.TIERS)
def test_every_name_is_there(tier):
    missing = []
    for t, name, _ in SURFACE:
        try:
            coverage.found(name) if t == tier else None
        except AttributeError:
            missing.append(name)
    assert not missing


def test_differences_are_about_names_of_the_page():
    assert set(coverage.DIFFERENCES) - {name for _, name, _ in SURFACE} - {"torch.compile", "torch.manual_seed"} == set()


def test_every_name_is_compared():
    """As a key of a table, or a word of a docstring, in the tests of this folder and of nn."""
    words = set()
    for file in [*HERE.glob("test_*.py"), *(HERE.parent / "nn").glob("test_torch_*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                words |= {node.value, *re.split(r"[\s,]+", node.value)}
    assert [name for _, name, _ in SURFACE if name not in words] == []


def test_every_keyword_seen_is_used_in_a_comparison():
    files = [*HERE.glob("test_*.py"), *(HERE.parent / "nn").glob("test_torch_*.py")]
    text = "\n".join(file.read_text(encoding="utf-8") for file in files)
    unused = [
        f"{name} {keyword}"
        for _, name, seen in SURFACE
        for keyword in seen
        if keyword != "**" and not re.search(rf"{re.escape(name.split('.')[-1])}\([\s\S]{{0,250}}?\b{keyword}\s*=", text)
    ]
    assert unused == []
