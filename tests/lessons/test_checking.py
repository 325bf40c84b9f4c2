"""The reader's file may hang, flood, exit, crash and lie; each exercise still gets its verdict, and what happened is told."""

import sys
import textwrap

import pytest

from lessons import catalogue, checking, progress
from lessons.runner import PRINTED
from tests.lessons.running import SAMPLE

LESSON = SAMPLE
SOLUTION = LESSON.solution.read_text(encoding="utf-8")
NAMES = list(LESSON.exercises)


@pytest.fixture
def check(tmp_path):
    """check(replacement, ...): the results when those functions stand after the solution."""

    def run(*parts, limit=checking.LIMIT, whole=None):
        file = tmp_path / LESSON.path.name
        text = SOLUTION + "".join("\n\n" + textwrap.dedent(part) for part in parts) if whole is None else whole
        file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        results = {result.name: result for result in checking.check(LESSON, file, limit)}
        assert list(results) == sorted(NAMES, key=list(results).index) and set(results) == set(NAMES)
        return results

    return run


def only(results, name):
    """The result of one exercise; the others have passed."""
    assert [each.name for each in results.values() if not each.passed] == [name]
    return results[name]


def test_the_solution_passes_and_the_stub_is_not_written(check):
    assert all(result.passed and not result.hint for result in check().values())
    stub = check(whole=LESSON.stub.read_bytes())
    assert not any(result.passed or result.written for result in stub.values())


def test_a_known_mistake_gets_its_hint(check):
    result = only(check("def product_rule(a, b, g):\n    return g * a, g * b\n"), "product_rule")
    assert result.hint.startswith("The two are swapped.") and result.written


@pytest.mark.parametrize(
    "body,told",
    [
        ("while True: pass", "still running after 2 seconds"),
        ("import sys; sys.exit(0)", "ends the program"),
        ("raise SystemExit", "ends the program"),
        ("import os; os._exit(0)", "ends the whole process with status 0"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
        ("return product_rule(a, b, g)", "RecursionError"),
        ("return a / 0", f"line {len(SOLUTION.splitlines()) + 4} of {LESSON.path.name}: ZeroDivisionError"),
        ("raise KeyError('é')", "KeyError: 'é'"),
        ("raise BaseException('all')", "BaseException: all"),
        ("return '1', '2'", "5 expected at [0], yours gives '1'"),
        ("return object()", "return a pair: yours is <object object"),
        ("return g * b", "for a = 2, b = 5, g = 1: return a pair: yours is a single value"),
        ("pass", "returns nothing"),
        ("return [g * b, g * a, 0]", "return a pair: yours has 3 values"),
        ("return {'a': 1}", "return a pair: yours is {'a': 1}"),
        ("return True, False", "yours gives True or False"),
        ("return lambda: 1", "return a pair: yours is <lambda>"),
        ("return float('nan'), g * a", "yours gives nan"),
        ("def inner(): yield 1\n    return inner()", "return a pair: yours is <generator"),
    ],
)  # fmt: skip
def test_an_answer_that_does_something_else_is_told_and_the_others_are_judged(check, body, told):
    result = only(check(f"def product_rule(a, b, g):\n    {body}\n", limit=2.0), "product_rule")
    assert told in result.hint and result.hint.count("\n") <= 1 and len(result.hint) < 400


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="not limited in memory (only Linux says what is used)")
def test_an_answer_that_takes_all_memory_is_told(check):
    result = only(check("def product_rule(a, b, g):\n    return bytearray(2**36), 1\n"), "product_rule")
    assert "MemoryError" in result.hint


def test_a_mistake_that_always_fails_claims_no_other_failure(check):
    result = only(check("def product_rule(a, b, g):\n    return a.other\n"), "product_rule")
    assert "AttributeError" in result.hint and "Never said" not in result.hint


def test_a_property_that_does_not_hold_is_said(check):
    assert (
        "not so in your result: it is not negative"
        in only(check("def total_gradient(paths):\n    return -5.0\n"), "total_gradient").hint
    )


AT_ONCE = """
def gradients(graph, result):
    grad = dict.fromkeys(graph, 0.0)
    grad[result] = 1.0
    def visit(name):
        for source, slope in graph[name]:
            grad[source] += grad[name] * slope
            visit(source)
    visit(result)
    return grad
"""
EACH_PATH = """
def count_paths(graph, start, end):
    return int(start == end) + sum(count_paths(graph, start, source) for source, _ in graph[end])
"""


def test_a_wrong_answer_is_told_on_small_cases_and_a_right_one_that_is_too_slow_what_it_repeats(tmp_path):
    file = tmp_path / "answers.py"
    file.write_text(AT_ONCE + EACH_PATH, encoding="utf-8")
    results = {result.name: result.hint for result in checking.check(catalogue.lesson(3), file, 1.0)}
    assert results["gradients"].startswith("You go on as soon as a share arrives")
    assert "still running after 1 seconds" in results["count_paths"] and "again and again" in results["count_paths"]


def test_each_of_two_that_hang_has_its_verdict(check):
    hang = "def {}(*given):\n    while True: pass\n"
    results = check(hang.format(NAMES[0]), hang.format(NAMES[1]), limit=1.0)
    assert ["still running" in result.hint for result in results.values()] == [True, True, False]


def test_prints_are_kept_for_their_exercise_and_bounded(check):
    results = check("def slope(f, x, h):\n    print('here', x)\n    return (f(x + h) - f(x - h)) / (2 * h)\n",
                    "def product_rule(a, b, g):\n    while True: print('flood' * 1000)\n", limit=1.0)  # fmt: skip
    assert results["slope"].passed and results["slope"].printed.startswith("here 2.0\n")
    assert "still running" in results["product_rule"].hint
    assert len(results["product_rule"].printed) < PRINTED + 50 and results["product_rule"].printed.endswith(
        "(more is not shown)"
    )


def test_what_is_printed_before_an_end_is_kept(check):
    assert only(check("def slope(*given):\n    print('seen'); import os; os._exit(3)\n"), "slope").printed == "seen\n"


def test_printing_a_verdict_does_not_pass(check):
    lie = '{"verdict": "slope", "passed": true, "hint": ""}'
    code = f"""
        import os, sys
        def slope(f, x, h):
            print('{lie}')
            sys.__stdout__.write('{lie}\\n')
            sys.__stdout__.flush()
            os.write(1, b'{lie}\\n')
            os.write(2, b'{lie}\\n')
            return 0.0
    """
    result = only(check(code), "slope")
    assert not result.passed and lie in result.printed


@pytest.mark.parametrize(
    "whole,told",
    [
        ("def slope(:\n", "line 1 of 01_sample.py: SyntaxError"),
        ("x = 1\n  y = 2\n", "line 2 of 01_sample.py: IndentationError"),
        ("import nowhere_to_be_found\n", "line 1 of 01_sample.py: ModuleNotFoundError"),
        ("\n\nraise SystemExit(0)\n", "line 3 of 01_sample.py: ends the program"),
        ("import os\nos._exit(7)\n", "status 7"),
        ("while True: pass\n", "still running after 1 seconds"),
        (b"# \xff\n", "line 1 of 01_sample.py: not UTF-8"),
        (b"a = 1\nb = 2\n\nc = 'caf\xe9'\n", "line 4 of 01_sample.py: not UTF-8"),
        (b"# coding: nothing\n", "unknown encoding"),
        (b"\0\0", "null bytes"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_run_is_told_for_every_exercise(check, whole, told):
    for result in check(whole=whole, limit=1.0).values():
        assert not result.passed and result.file and result.hint.startswith("the file itself: "), result
        assert told in result.hint


@pytest.mark.parametrize("whole", ["", "slope = 3\n", "class slope: pass\n"])
def test_a_function_that_is_missing_is_told(check, whole):
    results = check(whole=whole)
    assert "no function" in results["product_rule"].hint and not results["product_rule"].written


def test_names_and_texts_beyond_ascii_are_fine(check):
    code = "def product_rule(a, b, größe):\n    print('∂y/∂a', '😀', '\\udcff')\n    return größe * b, größe * a  # ✓\n"
    results = check(code)
    assert results["product_rule"].passed and "∂y/∂a 😀" in results["product_rule"].printed


def test_an_argument_that_is_changed_is_told(check):
    code = """
        def total_gradient(paths):
            total = 0.0
            while paths:
                along = 1.0
                for local in paths.pop():
                    along *= local
                total += along
            return total
    """
    assert "the argument paths is not left as it should be" in only(check(code), "total_gradient").hint


def test_the_process_runs_in_the_folder_of_the_file_and_finds_what_lies_there_only_when_asked(check, tmp_path):
    (tmp_path / "random.py").write_text("raise RuntimeError('the wrong random')", encoding="utf-8")
    (tmp_path / "numpy.py").write_text("raise RuntimeError('the wrong numpy')", encoding="utf-8")
    assert all(result.passed for result in check("import os\nassert os.path.exists('random.py')\n").values())


def test_what_passed_is_kept_with_its_text(check):
    check("def product_rule(a, b, g):\n    return g * a, g * b\n")
    kept = progress.kept(LESSON)
    assert set(kept) == {"slope", "total_gradient"} and all(each.passes and each.current for each in kept.values())
    assert kept["slope"].answer in SOLUTION
    check("def slope(f, x, h):\n    return 0.0\n")
    kept = progress.kept(LESSON)
    assert not kept["slope"].passes and kept["slope"].answer in SOLUTION and kept["product_rule"].passes
    check(whole=LESSON.stub.read_bytes())  # nothing is written, so nothing is known to be wrong
    assert progress.kept(LESSON) == kept


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(ValueError, match="nothing.py: No such file"):
        list(checking.check(LESSON, tmp_path / "nothing.py"))


def test_a_file_of_the_clone_that_is_gone_is_told_with_the_way_to_get_it_back():
    with pytest.raises(ValueError, match=r"No such file or directory; git restore \S+99_gone.py brings it back"):
        list(checking.check(LESSON, catalogue.EXERCISES / "99_gone.py"))
