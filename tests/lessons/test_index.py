"""The page with all lessons: where the reader was, and what is known of each exercise."""

import re

import pytest

from lessons import catalogue, index, progress
from tests.lessons.running import SAMPLE

ENTRY = {"date": "2027-01-31", "answer": "a", "file": "f"}


@pytest.fixture(autouse=True)
def sample(monkeypatch):
    monkeypatch.setattr(catalogue, "FOLDER", SAMPLE.path.parent)


def state(page, name):
    return re.search(rf"<li class='(\w+)'[^>]*>[^/]*</span> <code>{name}</code><span class='said'>: ([^<]*)", page).groups()


def test_a_new_reader_begins_at_the_first():
    page = index.page()
    assert "<a href='/1/'>Begin with 1 · Sample</a>" in page and "0 of 3 exercises pass" in page
    assert state(page, "slope") == ("open", "open") and "aria-current" not in page


def test_one_who_was_here_goes_on_and_sees_what_passes():
    progress.opened(1)
    progress.record(SAMPLE, {"slope": "a", "product_rule": "b"}, [], "f")
    progress.record(SAMPLE, {}, ["product_rule"], "g")
    page = index.page()
    assert (
        "<a href='/1/'>Go on with 1 · Sample</a>" in page
        and "1 of 3 exercises pass" in page
        and page.count("aria-current=page") == 1
    )
    assert (
        state(page, "slope")[0] == "passes"
        and state(page, "product_rule")[0] == "fails"
        and state(page, "total_gradient")[0] == "open"
    )


def test_a_check_that_has_changed_asks_for_another(monkeypatch):
    progress.record(SAMPLE, {"slope": "a"}, [], "f")
    monkeypatch.setattr(progress, "fingerprint", lambda lesson: "another")
    assert state(index.page(), "slope")[0] == "again" and "0 of 3 exercises pass" in index.page()


def test_a_lesson_that_is_gone_is_no_place_to_go_on():
    progress.opened(99)
    assert "Begin with 1" in index.page()


def test_the_page_asks_for_nothing_else():
    for page in (index.page(), index.glossary()):
        assert not re.search(r"(?:src|href)=['\"](?!/'|/glossary|/\d+/|data:,)|url\(|@import|<script", page)


def test_the_glossary_has_every_term_with_its_lesson():
    page = index.glossary()
    assert page.count("<dt>") == len(catalogue.terms()) > 90
    assert "<dt>leaf</dt><dd>" in page and re.search(r"<dt>leaf</dt><dd>[^<]+ <a href='/1/' title='Sample'>lesson 1</a>", page)
    assert "href='/glossary'" in index.page()


def test_the_systems_of_a_lesson_stand_with_it(monkeypatch):
    monkeypatch.setattr(catalogue, "FOLDER", catalogue.EXERCISES.parent)
    assert "<span class='systems'>S7, S11, S12</span>" in index.page()
