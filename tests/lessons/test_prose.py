"""The words of the lessons: no filler, no computed number that was typed, the code of prose cells hidden."""

import ast
import re

import pytest

from tests.lessons.every import ALL

FILLER = (r"in this lesson|we will see|we'll see|as we saw|let's|let us |obviously|of course|it is easy to|simply|"
          r"dive|delve|journey|magic|intuitively speaking|powerful|unlock|crucial|in conclusion|as you know")  # fmt: skip
WIDTH = 60  # characters of a line of prose
COMPUTED = r"(?<![\w.])\d*\.\d{3,}|\d{1,3}(?:,\d{3}){2,}"  # three digits after the point, or millions


def prose(lesson):
    """(line, text) of everything that mo.md(...) is given, without what an f-string computes."""
    for node in ast.walk(ast.parse(lesson.path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "md" and node.args:
            for part in ast.walk(node.args[0]):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield node.lineno, part.value


def cells(lesson):
    return [node for node in ast.parse(lesson.path.read_text(encoding="utf-8")).body
            if isinstance(node, ast.FunctionDef) and node.decorator_list]  # fmt: skip


def hidden(cell):
    return any(
        isinstance(each, ast.Call) and any(word.arg == "hide_code" for word in each.keywords) for each in cell.decorator_list
    )


@pytest.mark.parametrize("lesson", ALL, ids=lambda lesson: lesson.name)
def test_the_prose_has_no_filler_and_no_typed_result(lesson):
    pattern = re.compile(rf"\b(?:{FILLER})\b|{COMPUTED}", re.IGNORECASE)
    found = [f"{lesson.path.name}:{line}: {match[0]!r}" for line, text in prose(lesson) for match in pattern.finditer(text)]
    assert not found, "\n".join(found)


def shown_lines(lesson):
    """The lines of code that a reader sees, without empty ones and the last line of each cell."""
    text = lesson.path.read_text(encoding="utf-8").splitlines()
    lines = [
        line.strip() for cell in cells(lesson) if not hidden(cell) for line in text[cell.body[0].lineno - 1 : cell.end_lineno]
    ]
    return [line for line in lines if line and not line.startswith(("return", "#"))]


@pytest.mark.parametrize("lesson", ALL, ids=lambda lesson: lesson.name)
def test_prose_hides_its_code_and_there_is_more_prose_than_code(lesson):
    for cell in cells(lesson):
        if re.search(r"\bmo\.md\(", ast.unparse(cell)):
            assert hidden(cell), f"{lesson.path.name}:{cell.lineno}: a cell of prose shows its code: @app.cell(hide_code=True)"
    prose_lines = sum(len(" ".join(text.split())) for _, text in prose(lesson)) / WIDTH
    code_lines = len(shown_lines(lesson))
    assert prose_lines >= code_lines, f"{prose_lines:.0f} lines of prose beside {code_lines} of code"


@pytest.mark.parametrize("lesson", ALL, ids=lambda lesson: lesson.name)
def test_every_lesson_has_its_parts(lesson):
    text = lesson.path.read_text(encoding="utf-8")
    for what, pattern in {
        "the question first, as a heading": rf"^    # {re.escape(lesson.title)}$",
        "an assert that both ways agree": r"^\s+assert ",
        "something to move": r"mo\.ui\.|controls\(|walk\(",
        "a claim broken on purpose": r"[Bb]roken on purpose",
        "the exercises": rf"exercises\({lesson.number}, ",
        "what to carry on": r"\*\*To carry on with:\*\*",
        "the numbers": r"show\(numbers\)",
        "the way on": rf"links\({lesson.number}\)",
    }.items():
        assert re.search(pattern, text, re.MULTILINE), f"{lesson.path.name} lacks {what}"
    assert f'app_title="{lesson.number} · {lesson.title}"' in text
