"""The exercises in the page of a lesson: what each asks, what is known of it, and what is wrong with the whole file, once."""

import re

import pytest

from lessons import answers, panel, progress
from tests.lessons.running import SAMPLE

SOLUTION = SAMPLE.solution.read_text(encoding="utf-8")


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """shown(text): the panel after a check of that text, as words."""
    monkeypatch.setenv(answers.VARIABLE, str(tmp_path))

    def words(text, checked=True):
        (tmp_path / SAMPLE.path.name).write_text(text, encoding="utf-8")
        return " ".join(re.sub(r"<[^>]+>", " ", panel.panel(SAMPLE, checked, "<b>BUTTON</b>")).split())

    return words


def test_the_heading_is_first_then_the_button_then_what_each_exercise_asks(shown):
    said = shown(SAMPLE.stub.read_text(encoding="utf-8"), checked=False)
    order = ["Exercises", "Your answers go into", "BUTTON", "slope : The slope of f at x, measured. ○ open", "product_rule :"]
    assert [said.index(each) for each in order] == sorted(said.index(each) for each in order)


def test_after_a_check_each_has_its_hint_and_what_is_not_written_is_open(shown):
    said = shown(SOLUTION.replace("g * b, g * a", "g * a, g * b"))
    assert "✓ passes" in said and "sends back to a and to b. ✗ The two are swapped." in said
    page = panel.panel(SAMPLE)
    assert page.count("<li class='passes'>") == 2
    assert "○ not written yet" in shown(SAMPLE.stub.read_text(encoding="utf-8")).split("product_rule")[1]
    assert set(progress.kept(SAMPLE)) == {"slope", "total_gradient"}


def test_what_is_wrong_with_the_file_is_said_once(shown):
    said = shown("def slope(:\n")
    assert said.count("the file itself: line 1") == 1 and said.count("✗ not checked") == 3


def test_while_a_check_runs_its_exercises_are_named():
    assert "Checking <code>slope</code>, <code>product_rule</code>" in panel.checking_now(SAMPLE)
