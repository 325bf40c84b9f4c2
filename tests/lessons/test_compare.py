"""How two results are compared, how a difference is said, and what an exercise does with a function that needs a use."""

import numpy as np
import pytest

from lessons.compare import difference, misfit, same, words
from lessons.exercise import Exercise, Wrong, judge
from tinygrad_tf import Tensor, nn, optim


@pytest.mark.parametrize(
    "a,b",
    [
        (1, 1.0),
        (np.float32(0.1), 0.1),
        (np.array(2.0), 2),
        ([1.0, 2.0], np.array([1, 2])),
        ((1, 2), [1, 2]),
        ([], ()),
        (Tensor([1.0, 2.0]), np.array([1.0, 2.0], np.float32)),
        ([Tensor([1.0]), 2.0], [np.array([1.0]), 2]),
        (float("nan"), np.nan),
        (float("inf"), np.inf),
        (None, None),
        ("a", "a"),
        ({"a": [1, None]}, {"a": (1.0, None)}),
        (np.True_, True),
        (nn.Linear(2, 2, bias=False).to(np.float64), None),
        (np.random.default_rng(1), np.random.default_rng(1)),
        (lambda: 1, lambda: 2),  # a function that is passed in is made anew for every run
        (2**80, 2**80),
    ],
)
def test_what_is_the_same(a, b):
    b = a if b is None else b
    assert same(a, b, 1e-6) and same(b, a, 1e-6) and difference(a, b, 1e-6) == ""


@pytest.mark.parametrize(
    "mine,expected,said",
    [
        (1.0, 2.0, "2 expected, yours gives 1"),
        (np.zeros((3, 2)), np.zeros((2, 3)), "shape (2, 3) expected, yours is shape (3, 2)"),
        (np.zeros((1, 3)), np.zeros(3), "shape (3,) expected, yours is shape (1, 3)"),
        (1.0, [1.0, 2.0], "shape (2,) expected, yours is a single value"),
        ([[0, 1], [2, 3]], [[0, 1], [2, 4]], "4 expected at [1][1], yours gives 3"),
        (1, True, "True or False expected, yours gives numbers"),
        (True, 1, "numbers expected, yours gives True or False"),
        (None, 1.0, "1 expected, yours gives None"),
        ("a", "b", "'b' expected, yours gives 'a'"),
        ([1.0, None], [1.0, 2.0, None], "3 values expected, yours gives 2"),
        ({"a": 1}, {"b": 1}, "'b' is missing"),
        ({"a": 1, "b": 1}, {"b": 1}, "'a' is too much"),
        ({"a": {"x": [1, 2]}}, {"a": {"x": [1, 3]}}, "3 expected at ['a']['x'][1], yours gives 2"),
        (float("nan"), 1.0, "1 expected, yours gives nan"),
    ],
)
def test_a_difference_is_said(mine, expected, said):
    assert difference(mine, expected, 1e-6) == said and not same(mine, expected, 1e-6)


@pytest.mark.parametrize(
    "mine,expected,said",
    [
        (1.0, (1.0, 2.0), "return a pair: yours is a single value"),
        (np.zeros(3), (1.0, 2.0), "return a pair: yours is one array of shape (3,)"),
        (np.zeros(3), (np.zeros(3), np.zeros((3, 2))), "return a pair: yours is one array of shape (3,)"),
        ([1.0], (1.0, 2.0), "return a pair: yours has 1 value"),
        ((1.0, 2.0), (1.0, 2.0, 3.0), "return a tuple of 3: yours has 2 values"),
        ("a", (1.0, 2.0), "return a pair: yours is 'a'"),
        ((np.zeros(3), np.zeros(3)), (np.zeros(3), np.zeros((3, 2))), "shape (3, 2) expected at [1], yours is shape (3,)"),
        (np.zeros((2, 3)), (np.ones(3), np.ones(3)), ""),
        ([5.0, 6.0], (1.0, 2.0), ""),
        (np.zeros((1, 3)), np.ones(3), "shape (3,) expected, yours is shape (1, 3)"),
        (False, True, ""),
    ],
)
def test_another_form_is_said(mine, expected, said):
    assert misfit(mine, expected) == said


def test_objects_differ_where_their_attributes_do():
    one, two = nn.Linear(2, 2), nn.Linear(2, 2)
    two.load_state_dict(one.state_dict())
    assert same(one, two, 1e-6)
    assert same(optim.SGD(one.parameters(), lr=0.1), optim.SGD(two.parameters(), lr=0.1), 1e-6)
    two.weight.array[0, 0] += 1
    assert not same(one, two, 1e-6)
    assert not same(np.random.default_rng(1), np.random.default_rng(2), 1e-6)


def test_the_tolerance_is_relative_and_absolute():
    assert same(1000.0, 1000.5, 1e-3) and not same(1.0, 1.01, 1e-3) and same(0.0, 5e-4, 1e-3)


@pytest.mark.parametrize(
    "value,said",
    [
        (np.zeros((3, 5)), "of shape (3, 5)"),
        (np.array([1.5, 2.0]), "[1.5, 2]"),
        (1 / 3, "0.333333"),
        (None, "None"),
        (len, "len"),
        ({"a": [1, "b"]}, "{'a': [1, 'b']}"),
        ((1.0, 2.5), "(1, 2.5)"),
        ((3,), "(3,)"),
        ((np.zeros((3, 5)), [1, 2]), "(of shape (3, 5), [1, 2])"),
        ({"c": [("b", 1.0), ("b", 1.0)]}, "{'c': [('b', 1), ('b', 1)]}"),
        ("x" * 500, "'" + "x" * 118 + "…"),
    ],
)
def test_a_value_in_a_few_words(value, said):
    assert words(value) == said
    assert words(value, "q").startswith("q ") and len(words(value, "q")) < 130


GRADIENT = Exercise(
    "square",
    cases=lambda rng: [(rng.normal(size=3),), (np.zeros(2),)],
    use=lambda f, x: [(y := f(t := Tensor(x, requires_grad=True))).sum().backward(), y, t.grad][1:],
    wrong=[Wrong("no tape", lambda x: Tensor(x.array**2, requires_grad=True), "no gradient reaches x")],
)


def test_a_function_is_put_to_the_use_that_the_exercise_says():
    assert judge(GRADIENT, lambda x: x * x, lambda x: x**2).passed
    assert judge(GRADIENT, lambda x: x + x, lambda x: x**2).hint.startswith("for x = [")
    assert "for x = [" in judge(GRADIENT, lambda x: x.nothing, lambda x: x**2).hint


GRAPH = {"a": [1, 2], "b": [3]}


def test_cases_are_made_anew_even_where_they_share_what_is_in_them():
    exercise = Exercise("total", cases=lambda rng: [(dict(GRAPH),), (dict(GRAPH),)], wrong=[])

    def emptying(graph):
        return sum(graph[name].pop() for name in graph for _ in list(graph[name]))

    right = lambda graph: sum(map(sum, graph.values()))
    assert judge(exercise, emptying, right).hint.startswith("right result, but the argument graph is not left as it should be")
    assert GRAPH == {"a": [1, 2], "b": [3]}
    assert not judge(exercise, lambda graph: 0, right).passed


def test_objects_and_what_contains_itself_are_told():
    exercise = Exercise("two", cases=lambda rng: [(1.0,)], wrong=[])
    endless = []
    endless.append(endless)
    right = lambda x: np.array([x, x])
    assert "numbers expected, yours gives an array of objects" in judge(exercise, lambda x: np.array([x, None]), right).hint
    assert "contains itself" in judge(exercise, lambda x: endless, right).hint
