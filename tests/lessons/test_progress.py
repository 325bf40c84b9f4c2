"""What has passed is kept, whatever becomes of the files; a damaged record costs the record and nothing else."""

import json
import os

import pytest

from lessons import progress, restore
from lessons.answers import functions
from tests.lessons.running import SAMPLE

LESSON = SAMPLE
ANSWER = "def slope(f, x, h):\n    return half(f(x + h) - f(x - h), h)\n"
FILE = (
    f"import math\nfrom fractions import Fraction as F\n\nTWO = 2\n\n\ndef half(d, h):\n    return d / (TWO * h)\n\n\n{ANSWER}"
)
UNREADABLE = ["", "{", "[]", "null", '{"version": 1}', '{"version": "1", "lessons": {}}', '{"version": 1, "lessons": []}', "\0"]


def write(text):
    progress.place().parent.mkdir(parents=True, exist_ok=True)
    progress.place().write_text(text, encoding="utf-8")


def test_nothing_is_known_at_first_and_nothing_is_written():
    assert progress.last() is None and progress.kept(LESSON) == {}
    assert not progress.place().exists()


def test_an_answer_and_the_lesson_opened_last_are_remembered():
    progress.opened(5)
    progress.record(LESSON, {"slope": ANSWER}, ["product_rule"], FILE)
    kept = progress.kept(LESSON)
    assert progress.last() == 5 and set(kept) == {"slope"}
    assert (kept["slope"].answer, kept["slope"].file, kept["slope"].passes, kept["slope"].current) == (ANSWER, FILE, True, True)


def test_a_failure_is_remembered_beside_the_answer_that_passed():
    progress.record(LESSON, {"slope": ANSWER}, [], FILE)
    progress.record(LESSON, {}, ["slope"], "other")
    kept = progress.kept(LESSON)["slope"]
    assert not kept.passes and kept.answer == ANSWER
    progress.record(LESSON, {"slope": ANSWER}, [], FILE)
    assert progress.kept(LESSON)["slope"].passes


def test_the_date_is_that_of_the_first_pass_of_this_answer():
    progress.record(LESSON, {"slope": ANSWER}, [], FILE)
    data = json.loads(progress.place().read_text())
    data["lessons"][LESSON.name]["slope"]["date"] = "2027-01-31"
    write(json.dumps(data))
    progress.record(LESSON, {"slope": ANSWER}, [], FILE)
    assert progress.kept(LESSON)["slope"].date == "2027-01-31"
    progress.record(LESSON, {"slope": ANSWER + "#"}, [], FILE)
    assert progress.kept(LESSON)["slope"].date != "2027-01-31"


def test_a_check_that_has_changed_is_noticed(monkeypatch):
    progress.record(LESSON, {"slope": ANSWER}, [], FILE)
    monkeypatch.setattr(progress, "fingerprint", lambda lesson: "another")
    assert not progress.kept(LESSON)["slope"].current


def test_what_another_version_wrote_is_kept():
    theirs = {
        "version": 7,
        "colour": "blue",
        "lessons": {"99_other": 3, LESSON.name: {"gone": {"x": 1}, "slope": {"stars": 5}}},
    }
    write(json.dumps(theirs))
    assert progress.kept(LESSON) == {}
    progress.record(LESSON, {"slope": ANSWER}, [], FILE)
    progress.opened(2)
    data = json.loads(progress.place().read_text())
    assert data["colour"] == "blue" and data["version"] == 7 and data["lessons"]["99_other"] == 3
    assert data["lessons"][LESSON.name]["gone"] == {"x": 1} and data["lessons"][LESSON.name]["slope"]["stars"] == 5


@pytest.mark.parametrize("text", UNREADABLE)
def test_a_damaged_file_is_told_and_set_aside(text, capsys):
    write(text)
    assert progress.kept(LESSON) == {} and "is damaged: set aside as lessons.json.damaged" in capsys.readouterr().err
    assert progress.place().with_name("lessons.json.damaged").read_text(encoding="utf-8") == text
    progress.opened(3)
    assert progress.last() == 3 and not capsys.readouterr().err


@pytest.mark.parametrize(
    "entry", [[], 3, {"slope": 3}, {"slope": {"date": 1, "answer": "x", "file": "y"}}, {"slope": {"date": "d"}}]
)
def test_an_entry_of_another_form_counts_as_not_passed(entry):
    write(json.dumps({"version": 1, "last": "five", "lessons": {LESSON.name: entry}}))
    assert progress.kept(LESSON) == {} and progress.last() is None
    progress.record(LESSON, {"slope": ANSWER}, ["product_rule"], FILE)
    assert set(progress.kept(LESSON)) == {"slope"}


def test_a_place_that_cannot_be_written_is_told_and_no_more(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TINYGRAD_TF_CACHE", str(tmp_path / "file" / "inside"))
    progress.opened(5)
    assert "your progress is not kept" in capsys.readouterr().err


def test_a_write_that_fails_leaves_the_old_file_and_no_other(monkeypatch, capsys):
    progress.opened(5)
    before = progress.place().read_bytes()

    def fail(*names):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    progress.opened(6)
    assert "No space left" in capsys.readouterr().err
    assert progress.place().read_bytes() == before and len(list(progress.place().parent.iterdir())) == 1


# ------------------------------------------------------------------------------------------------- putting back


def kept(answer=ANSWER, file=FILE):
    return {"slope": progress.Kept("2027-01-31", answer, file, True, True)}


def test_an_answer_goes_back_with_what_it_uses_and_nothing_else_changes():
    stub = LESSON.stub.read_text(encoding="utf-8") + "\nmine = 'stays'  # and this\n"
    text = restore.restored(stub, kept(), ["slope"])
    assert ANSWER in text and "def half" in text and "TWO = 2" in text and "import math" not in text and "Fraction" not in text
    names: dict = {}
    exec(text, names)
    assert names["slope"](lambda x: x * x, 3.0, 0.5) == 6.0 and names["mine"] == "stays"
    before, after = stub.split("def slope")[0], stub[stub.index("\n\n\ndef product_rule") :]
    assert text.startswith(before) and text.endswith(after)


def test_what_is_there_already_is_not_replaced():
    text = restore.restored("TWO = 4\n\n\ndef slope(f, x, h):\n    raise NotImplementedError('yours')\n", kept(), ["slope"])
    assert text.count("TWO =") == 1 and "TWO = 4" in text


@pytest.mark.parametrize("text", ["", "x = 1", "x = 1\n"])
def test_an_answer_whose_place_is_gone_is_added_at_the_end(text):
    names: dict = {}
    exec(restore.restored(text, kept(), ["slope"]), names)
    assert names["slope"](lambda x: x * x, 3.0, 0.5) == 6.0


def test_decorators_belong_to_a_function():
    file = f"import functools\n\n\n@functools.cache\n{ANSWER.replace('half(f(x + h) - f(x - h), h)', '1')}"
    answer = functions(file)["slope"]
    assert answer.startswith("@functools.cache\n")
    text = restore.restored("@staticmethod\ndef slope(f, x, h):\n    pass\n", kept(answer, file), ["slope"])
    assert text.count("@") == 1 and text.startswith("import functools\n")


def test_a_file_that_is_not_python_is_left_alone():
    with pytest.raises(ValueError, match="line 1"):
        restore.restored("def (:\n", kept(), ["slope"])
