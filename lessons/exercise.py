"""What an exercise is, and how an answer is judged.

    Exercise("weights", cases=lambda rng: [(q, k), ...], wrong=[Wrong("no √d", impl, "divide by ..."), ...])

An answer is right when it gives what the reference gives on every case. When it does not, the hint is the first that fits of:
not written yet; the known mistake that gives the same outcomes; an exception and its line; a result of another form; a changed
argument; a property that does not hold; the first difference.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_tf import manual_seed

from .compare import difference, misfit, same, words

MISSING = "not written yet"
SLOW = "does every loop come to its end?"


@dataclass(frozen=True)
class Wrong:
    """A mistake that people make: its name, code that makes it, and what helps (one or two lines)."""

    name: str
    impl: Callable[..., Any]
    hint: str


@dataclass(frozen=True)
class Exercise:
    """One function for the reader to write.

    `cases(rng)` makes the argument tuples, anew at each call and the same for the same rng. `wrong` are the known mistakes,
    the first that fits is told. `properties` are pairs (what holds, test(result, *arguments)). `use(function, *arguments)`
    says how a function is put to use on a case, where that is more than calling it. Numbers are equal within `tolerance`,
    relative and absolute. The last `long` cases are tried only when the others are right; `slow` is the hint for an answer that
    does not come to its end in time.
    """

    name: str
    cases: Callable[[np.random.Generator], list[tuple]]
    wrong: Sequence[Wrong]
    properties: Sequence[tuple[str, Callable[..., Any]]] = ()
    tolerance: float = 1e-6
    use: Callable[..., Any] | None = None
    long: int = 0
    slow: str = SLOW


@dataclass(frozen=True)
class Verdict:
    """What became of an answer: passed, or one or two lines that help."""

    passed: bool
    hint: str = ""


@dataclass(frozen=True)
class Outcome:
    """What a function made of one case: its result or its exception, and the arguments as it left them."""

    result: Any
    error: BaseException | None
    arguments: tuple


def judge(exercise: Exercise, function: Callable[..., Any], reference: Callable[..., Any]) -> Verdict:
    """Compare an answer with the reference on every case."""
    try:
        verdict = _judge(exercise, function, reference, exercise.wrong, -exercise.long or None)
        return _judge(exercise, function, reference, (), None) if exercise.long and verdict.passed else verdict
    except RecursionError:
        return Verdict(False, "what yours returns, or leaves in its arguments, contains itself")


def _judge(exercise: Exercise, function: Callable[..., Any], reference: Callable[..., Any], known: Sequence[Wrong],
           end: int | None) -> Verdict:  # fmt: skip
    """The same on the cases before `end`, and with these known mistakes."""
    before = fresh(exercise)[:end]
    expected, mine = outcomes(exercise, reference, end), outcomes(exercise, function, end)
    if any(isinstance(outcome.error, NotImplementedError) for outcome in mine):
        said = next(str(outcome.error) for outcome in mine if isinstance(outcome.error, NotImplementedError))
        return Verdict(False, f"{MISSING} ({said})" if said else MISSING)

    def agree(a: Outcome, b: Outcome, arguments: bool) -> bool:
        if a.error is not None or b.error is not None:
            return type(a.error) is type(b.error)
        return same(a.result, b.result, exercise.tolerance) and (
            not arguments or same(a.arguments, b.arguments, exercise.tolerance))  # fmt: skip

    if all(agree(a, b, True) for a, b in zip(mine, expected)):
        return Verdict(True)
    for arguments in (True, False):  # a reader may also have changed an argument, which the known mistake does not
        for wrong in known:
            theirs = outcomes(exercise, wrong.impl, end)
            if all(outcome.error is not None for outcome in theirs):
                continue  # would claim every answer that fails in the same way
            if not arguments and all(agree(a, b, False) for a, b in zip(theirs, expected)):
                continue  # wrong only in what it does to its arguments
            if all(agree(a, b, arguments) for a, b in zip(mine, theirs)):
                return Verdict(False, wrong.hint)
    names = parameters(reference)
    told = [", ".join(words(value, name) for value, name in zip(case, names(len(case)))) for case in before]
    for given, got, want in zip(told, mine, expected):
        if got.error is not None and type(got.error) is not type(want.error):
            return Verdict(False, f"{raised(got.error, function)}, for {given}")
    none_is_an_answer = any(want.error is None and want.result is None for want in expected) and any(
        got.result is not None for got in mine)  # fmt: skip
    for case, given, got, want in zip(before, told, mine, expected):
        if want.error is None and got.result is None and want.result is not None and not none_is_an_answer:
            return Verdict(False, f"returns nothing, for {given}: is a `return` missing?")
        if want.error is not None and got.error is None:
            return Verdict(
                False, f"for {given}: {type(want.error).__name__} is to be raised, yours returns {words(got.result)}"
            )
        form = misfit(got.result, want.result) if got.error is None and want.error is None else ""
        if form:
            return Verdict(False, f"for {given}: {form}")
        if agree(got, want, False) and not agree(got, want, True):
            pairs = zip(names(len(case)), got.arguments, want.arguments)
            changed = [name for name, a, b in pairs if not same(a, b, exercise.tolerance)]
            return Verdict(False, f"right result, but the argument {changed[0]} is not left as it should be: work on a copy")
        for said, holds in exercise.properties:
            if got.error is None and not _holds(holds, got.result, case):
                return Verdict(False, f"not so in your result: {said}; for {given}")
        if not agree(got, want, False):
            return Verdict(False, f"for {given}: {difference(got.result, want.result, exercise.tolerance)}")
    raise AssertionError("an answer that differs from the reference differs somewhere")


def fresh(exercise: Exercise) -> list[tuple]:
    """The cases, made anew: nothing that an answer did to its arguments is left in them."""
    manual_seed(0)
    return copy.deepcopy(exercise.cases(np.random.default_rng([*exercise.name.encode()])))


def outcomes(exercise: Exercise, function: Callable[..., Any], end: int | None = None) -> list[Outcome]:
    """What the function makes of each case, or of those before `end`."""
    found = []
    for arguments in fresh(exercise)[:end]:
        result, error = None, None
        try:
            with np.errstate(all="ignore"):
                result = exercise.use(function, *arguments) if exercise.use else function(*arguments)
        except KeyboardInterrupt:
            raise
        except BaseException as raised:  # SystemExit as well: an answer may end the program
            error = raised
        found.append(Outcome(result, error, arguments))
    return found


def raised(error: BaseException, function: Callable[..., Any]) -> str:
    """The exception in words, with the line of the reader's file."""
    line = line_of(error, getattr(getattr(function, "__code__", None), "co_filename", ""))
    if isinstance(error, SystemExit):
        return f"{line}ends the program (sys.exit or SystemExit): return a value instead"
    return f"{line}{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def line_of(error: BaseException, filename: str) -> str:
    """'line 12 of file.py: ' where the innermost frame of that file stood, else ''."""
    trace, line = error.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == filename:
            line = f"line {trace.tb_lineno} of {Path(filename).name}: "
        trace = trace.tb_next
    return line


def parameters(function: Callable[..., Any]) -> Callable[[int], list[str]]:
    """names(n): the names of the first n arguments."""
    own = list(inspect.signature(function).parameters)
    return lambda n: [own[i] if i < len(own) else f"argument {i + 1}" for i in range(n)]


def _holds(test: Callable[..., Any], result: Any, arguments: tuple) -> bool:
    try:
        return bool(test(result, *arguments))
    except Exception:
        return False  # of a shape or a type that the property cannot be asked of
