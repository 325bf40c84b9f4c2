"""The list of lessons: what is read from their files, what README.md and the glossary say of them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lessons import __main__ as command
from lessons import catalogue
from tests.lessons.every import ALL

ROOT = Path(__file__).parents[2]


def test_the_numbers_are_one_to_twenty_without_a_gap():
    assert [lesson.number for lesson in ALL] == list(range(1, 21))


def test_every_system_is_covered_by_a_lesson():
    covered = {system for lesson in ALL for system in lesson.systems}
    systems = [f"S{number}" for number in range(1, 37)]
    assert covered == set(systems), f"by no lesson: {[s for s in systems if s not in covered]}"


@pytest.mark.parametrize("lesson", ALL, ids=lambda lesson: lesson.name)
def test_the_file_is_named_after_its_title_and_asks_one_question(lesson):
    words = re.sub(r"[^\w ]", "", lesson.title.lower().replace("’s", "s").replace("-", " ")).split()
    assert "_".join(words).startswith(lesson.name[3:])
    assert lesson.question.endswith("?") and len(lesson.question) <= 200


@pytest.mark.parametrize("lesson", ALL, ids=lambda lesson: lesson.name)
def test_what_each_exercise_asks_is_read_from_its_docstring(lesson):
    assert list(lesson.asked) == list(lesson.exercises)
    for asked in lesson.asked.values():
        assert 10 < len(asked) <= 160 and asked.endswith(".")


def test_the_readme_shows_the_table():
    text = command.README.read_text(encoding="utf-8")
    assert command.renewed(text) == text, "python -m lessons writes it anew"


def test_the_table_is_written_and_checked_by_a_command(tmp_path, monkeypatch, capsys):
    path = tmp_path / "README.md"
    path.write_text(f"before\n\n{command.START}old{command.END}\nafter\n", encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["lessons", "--check"])
    assert command.main(path) == 1 and "python -m lessons" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["lessons"])
    assert command.main(path) == 0 and command.main(path) == 0
    text = path.read_text(encoding="utf-8")
    assert (
        text.startswith("before\n")
        and text.endswith("\nafter\n")
        and f"[1 · {ALL[0].title}]({ALL[0].path.name})" in text
    )


def test_terms_of_the_glossary_are_in_order_and_in_bold_where_it_says():
    rows = [(each.term, each.meaning, each.lesson) for each in catalogue.terms()]
    terms = [term for term, _, _ in rows]
    assert catalogue.GLOSSARY.read_text(encoding="utf-8").count("\n| ") == len(rows) + 2
    assert rows and terms == sorted(terms, key=str.lower) and len(terms) == len(set(terms))
    texts = {lesson.number: lesson.path.read_text(encoding="utf-8").lower() for lesson in ALL}
    absent = [f"{term}: not in bold in lesson {number}" for term, _, number in rows
              if not re.search(rf"\*\*[^*]*{re.escape(term.lower())}[^*]*\*\*", texts.get(int(number), ""))]  # fmt: skip
    assert not absent, "\n".join(absent)


@pytest.mark.parametrize("text", ["", '"""Title"""', '"""Title\n\nQuestion?"""', '"""Title\n\nQuestion?\n\nNothing."""'])
def test_a_docstring_of_another_form_is_told(tmp_path, text):
    (tmp_path / "21_x.py").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match="21_x.py: the docstring"):
        catalogue.read(tmp_path / "21_x.py")


def test_numbers_are_said_as_spans():
    assert catalogue.spans([]) == "none" and catalogue.spans([4]) == "4"
    assert catalogue.spans([1, 2, 3, 5, 7, 8]) == "1 to 3, 5 and 7 to 8"


def test_the_list_needs_neither_marimo_nor_a_lesson_to_run():
    code = "import sys; sys.modules['marimo'] = None; from lessons import catalogue; print(len(catalogue.lessons()))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (str(len(ALL)), "")
