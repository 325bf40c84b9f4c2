"""Every exercise of every lesson: the solution passes, the stub is told as such, each known mistake gets its own hint."""

import ast
from collections import Counter

import pytest

from lessons import catalogue
from lessons.exercise import MISSING, judge, outcomes
from tests.lessons.every import ALL

LESSONS = [lesson for lesson in ALL if lesson.checks.is_file()]
LOADED = {lesson.name: (catalogue.load(lesson.checks).EXERCISES, catalogue.load(lesson.solution)) for lesson in LESSONS}
PAIRS = [pytest.param(exercise, getattr(solutions, exercise.name, None), id=f"{name}-{exercise.name}")
         for name, (exercises, solutions) in LOADED.items() for exercise in exercises]  # fmt: skip
MISTAKES = [pytest.param(*pair.values, wrong, id=f"{pair.id}-{wrong.name}") for pair in PAIRS for wrong in pair.values[0].wrong]


def functions(path):
    """The public functions of a file, in order."""
    nodes = ast.parse(path.read_text(encoding="utf-8")).body
    return [node.name for node in nodes if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]


@pytest.mark.parametrize("lesson", ALL, ids=lambda lesson: lesson.name)
def test_a_lesson_has_two_to_four_exercises_under_the_same_names_everywhere(lesson):
    for path in (lesson.checks, lesson.stub, lesson.solution):
        assert path.is_file(), f"missing: {path.parent.name}/{path.name}"
    names = [exercise.name for exercise in LOADED[lesson.name][0]]
    assert 2 <= len(names) <= 4 and list(lesson.exercises) == names
    assert functions(lesson.stub) == names
    assert [name for name in functions(lesson.solution) if name in names] == names


@pytest.mark.parametrize("exercise,reference", PAIRS)
def test_the_solution_passes_and_has_every_property(exercise, reference):
    verdict = judge(exercise, reference, reference)
    assert verdict.passed, verdict.hint
    for outcome in outcomes(exercise, reference):
        if outcome.error is None:
            for said, holds in exercise.properties:
                assert holds(outcome.result, *outcome.arguments), said


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.name)
def test_the_stub_is_not_written_yet(lesson):
    stub = catalogue.load(lesson.stub)
    for exercise in LOADED[lesson.name][0]:
        verdict = judge(exercise, getattr(stub, exercise.name), getattr(LOADED[lesson.name][1], exercise.name))
        solved = f"{exercise.name} is written here: they are tested as they come, answers may lie elsewhere (--in)"
        assert not verdict.passed and verdict.hint.startswith(MISSING), solved
        assert getattr(stub, exercise.name).__doc__, "say what goes in and what comes out"


@pytest.mark.parametrize("exercise,reference", PAIRS)
def test_three_or_more_mistakes_are_known_each_with_its_own_hint(exercise, reference):
    assert len(exercise.wrong) >= 3
    for what in ("name", "hint"):
        said = Counter(getattr(wrong, what) for wrong in exercise.wrong)
        assert max(said.values()) == 1, f"twice: {said.most_common(1)}"
    for wrong in exercise.wrong:
        assert len(wrong.hint) <= 240 and wrong.hint.count("\n") <= 1, f"more than two lines: {wrong.hint}"


@pytest.mark.parametrize("exercise,reference,wrong", MISTAKES)
def test_each_mistake_is_rejected_with_its_own_hint(exercise, reference, wrong):
    verdict = judge(exercise, wrong.impl, reference)
    assert not verdict.passed, "the cases do not tell this mistake from the solution"
    assert verdict.hint == wrong.hint


@pytest.mark.parametrize("exercise,reference", PAIRS)
def test_the_cases_are_the_same_each_time(exercise, reference):
    assert judge(exercise, reference, reference) == judge(exercise, reference, reference)
    assert 2 <= len(outcomes(exercise, reference)) <= 100


@pytest.mark.parametrize("name,body,told", [
    ("weight_for", "return None if target > 1 else 0.25", "0.75 expected, yours gives None"),
    ("weight_for", "a = 0.5", "is a `return` missing?"),
    ("layers_until", "return 10 if factor > 0 else None", "yours gives None"),
])  # fmt: skip
def test_none_is_an_answer_where_the_reference_gives_it_but_not_in_every_case(name, body, told):
    exercise, reference = next(pair.values for pair in PAIRS if pair.values[0].name == name)
    scope = {}
    exec(f"def {name}({', '.join(reference.__code__.co_varnames[: reference.__code__.co_argcount])}):\n    {body}\n", scope)
    verdict = judge(exercise, scope[name], reference)
    assert not verdict.passed and told in verdict.hint


def test_a_branch_that_is_added_but_not_called_is_told_in_words():
    exercise, reference = next(pair.values for pair in PAIRS if pair.values[0].name == "write")
    for answer in (lambda x, branch: x + branch, lambda x, branch: branch + x):
        assert "TypeError: branch is a function and cannot be added" in judge(exercise, answer, reference).hint
