"""Every lesson runs, prints its numbers, those of the systems page among them, and gives the same when its cells run twice.

What the page says is typed in numbers/NN.py: EXPECTED = {"S7 weight for 3/2": (0.75, tolerance)}, with the page's digits.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from lessons import catalogue
from lessons.page import text
from tests.lessons.every import ALL
from tests.lessons.running import STEPS, TRAINS, script, twice
from tinygrad_tf import Tensor, manual_seed
from tinygrad_tf.settings import PRESETS

MISSING = "lessons not run (marimo is not installed: pip install -e '.[lessons]')"
EXPECTED = {path.stem: path for path in sorted((Path(__file__).parent / "numbers").glob("*.py"))}


def expected(lesson):
    return catalogue.load(EXPECTED[f"{lesson.number:02}"]).EXPECTED


def differences(numbers, wanted):
    """What the page says otherwise than the lesson, in words."""
    for name, (value, tolerance) in wanted.items():
        if name not in numbers:
            yield f"{name}: not among the numbers"
            continue
        given = numbers[name].array if isinstance(numbers[name], Tensor) else numbers[name]
        if isinstance(value, (str, bool)):
            if type(value)(given) != value:
                yield f"{name}: {given!r}, and not {value!r}"
        elif np.shape(given) != np.shape(value):
            yield f"{name}: shape {np.shape(given)}, and not {np.shape(value)}"
        elif not np.allclose(given, value, rtol=0, atol=tolerance * (1 + 1e-9)):
            yield f"{name}: {given}, and not {value} within {tolerance}"


@pytest.mark.skipif(find_spec("marimo") is None, reason=MISSING)
@pytest.mark.parametrize("lesson", ALL, ids=lambda lesson: lesson.name)
def test_it_prints_the_numbers_of_the_page_and_the_same_when_cells_run_twice(lesson, printed, monkeypatch):
    lines = printed(lesson)
    if lesson.number == TRAINS:  # its numbers after all steps: below
        monkeypatch.setitem(PRESETS, "tiny", PRESETS["tiny"].changed(steps=STEPS))
    manual_seed(12345)  # cells that draw without a seed of their own show themselves
    np.random.seed(12345)  # noqa: NPY002
    numbers = twice(lesson)
    assert lines[-len(numbers) :] == [f"{name}: {text(value)}" for name, value in numbers.items()]
    if f"{lesson.number:02}" in EXPECTED and lesson.number != TRAINS:
        assert not list(differences(numbers, expected(lesson)))
    for system in lesson.systems:
        assert any(name.split(" ")[0] == system for name in numbers), f"no number of {system}"


@pytest.mark.slow
@pytest.mark.skipif(find_spec("marimo") is None, reason=MISSING)
def test_the_lesson_that_trains_prints_the_numbers_of_the_page_after_a_minute():
    (lesson,) = [lesson for lesson in ALL if lesson.number == TRAINS]
    words = {name: value for name, _, value in (line.rpartition(": ") for line in script(lesson))}
    numbers = {name: words[name] == "yes" if words[name] in ("yes", "no") else float(words[name]) for name in expected(lesson)}
    assert not list(differences(numbers, expected(lesson)))


@pytest.mark.parametrize("lesson", ALL, ids=lambda lesson: lesson.name)
def test_what_the_page_says_of_its_systems_is_typed_in(lesson):
    if lesson.systems:
        assert {name.split(" ")[0] for name in expected(lesson)} <= set(lesson.systems)


@pytest.mark.parametrize(
    "numbers,what",
    [
        ({}, "not among"),
        ({"S1 a": 0.2}, "not 0.25"),
        ({"S1 a": [0.25]}, "shape"),
    ],
)
def test_a_number_that_differs_is_told(numbers, what):
    (told,) = differences(numbers, {"S1 a": (0.25, 5e-4)})
    assert what in told
    assert not list(differences({"S1 a": Tensor(0.2504)}, {"S1 a": (0.25, 5e-4)}))
    assert list(differences({"S1 b": True}, {"S1 b": (False, 0)}))
