"""`tinygrad-tf check` and `tinygrad-tf lessons`: what they say, refuse, write and return."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from lessons import answers, catalogue, commands, progress
from tests.lessons.every import ALL
from tests.lessons.running import ROOT, SAMPLE, environment
from tinygrad_tf.cli import app, run_command

SOLUTION = SAMPLE.solution.read_text(encoding="utf-8")
PROGRAM = """
import sys
from lessons.commands import add
from tests.lessons.running import only_sample
from tinygrad_tf import cli
only_sample()
add(cli.app)
cli._add_plugins = lambda arguments: None
cli.main()
"""


@pytest.fixture(autouse=True)
def sample(tmp_path, monkeypatch):
    """The two commands in this process, an empty folder, and one lesson that never changes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(app, "registered_commands", list(app.registered_commands))
    monkeypatch.setattr(catalogue, "FOLDER", SAMPLE.path.parent)
    commands.add(app)


@pytest.fixture
def run(capsys):
    def command(*arguments):
        capsys.readouterr()
        status = run_command([str(argument) for argument in arguments])
        return subprocess.CompletedProcess(arguments, status, *capsys.readouterr())

    return command


def write(text, folder="mine"):
    Path(folder).mkdir(exist_ok=True)
    (Path(folder) / SAMPLE.path.name).write_text(text, encoding="utf-8")


def test_a_folder_is_filled_with_what_it_lacks_and_its_stubs_are_not_written(run):
    done = run("check", "--in", "mine")
    assert done.returncode == 1 and done.stdout.count("✗") == 3 and done.stdout.count("not written yet") == 3
    assert (Path("mine") / SAMPLE.path.name).read_bytes() == SAMPLE.stub.read_bytes()
    write("# mine\n")
    run("check", "--in", "mine")
    assert (Path("mine") / SAMPLE.path.name).read_text() == "# mine\n"


def test_a_folder_that_is_made_is_told(run):
    assert run("check", "--in", "mistyped").stdout.startswith("mistyped was not there: made, and filled with the exercises\n")
    assert "was not there" not in run("check", "--in", "mistyped").stdout


def test_another_folder_gets_the_exercises_blank_though_answers_stand_in_the_clone(run, tmp_path, monkeypatch):
    """The stub of a clone is where its reader writes."""
    (tmp_path / "exercises").mkdir()
    stub, written = SAMPLE.stub.read_text(encoding="utf-8"), tmp_path / "exercises" / SAMPLE.path.name
    written.write_text(stub.replace('raise NotImplementedError("slope: yours to write")', "if f:\n        return 1.0"))
    lesson = replace(SAMPLE, path=tmp_path / SAMPLE.path.name)
    assert answers.file(lesson, tmp_path / "new").read_text(encoding="utf-8") == stub
    written.write_text("def slope(:\n", encoding="utf-8")
    with pytest.raises(ValueError, match="is not Python and cannot be copied; git restore"):
        answers.file(lesson, tmp_path / "newer")


@pytest.mark.parametrize("lesson", ALL, ids=lambda lesson: lesson.name)
def test_the_exercises_as_they_come_are_blank(lesson):
    text = lesson.stub.read_bytes()
    assert answers.blanked(text, lesson) == text


def test_what_is_wrong_with_the_whole_file_is_said_once(run):
    write("print('seen')\ndef slope(:\n")
    assert run("check", 1, "--in", "mine").stdout.splitlines()[1:] == [
        "  ✗ the file itself: line 2 of 01_sample.py: SyntaxError: invalid syntax",
        "      not checked: slope, product_rule, total_gradient",
    ]


@pytest.mark.parametrize("words", [["check", "1"], ["check", "1", "--restore"]])
def test_a_file_of_the_clone_that_was_deleted_is_told_with_the_way_to_get_it_back(run, tmp_path, monkeypatch, words):
    progress.record(SAMPLE, {"slope": "a"}, [], "f")
    monkeypatch.setattr(answers, "EXERCISES", tmp_path)
    monkeypatch.setattr(catalogue, "lesson", lambda number: replace(SAMPLE, path=tmp_path / "none" / SAMPLE.path.name))
    done = run(*words)
    assert done.returncode == 2 and f"git restore {tmp_path / SAMPLE.path.name} brings it back" in done.stderr


def test_one_line_for_each_exercise_and_one_more_that_helps(run):
    write(SOLUTION.replace("g * b, g * a", "g * a, g * b"))
    done = run("check", 1, "--in", "mine")
    assert done.returncode == 1 and done.stderr == ""
    assert done.stdout.splitlines() == [
        f"1 · Sample   {Path('mine') / SAMPLE.path.name}",
        "  ✓ slope",
        "  ✗ product_rule: The two are swapped.",
        "  ✓ total_gradient",
    ]


def test_all_that_pass_end_with_status_0_and_what_they_print_stands_below(run):
    write(SOLUTION.replace("    total = 0.0\n", "    print('one')\n    print('two')\n    total = 0.0\n"))
    done = run("check", 1, "--in", "mine")
    assert done.returncode == 0 and done.stdout.splitlines()[3:6] == ["  ✓ total_gradient", "      printed: one", "      | two"]


def test_the_folder_may_be_named_by_the_environment(run, monkeypatch):
    monkeypatch.setenv("TINYGRAD_TF_EXERCISES", "theirs")
    write(SOLUTION, "theirs")
    assert run("check", 1).returncode == 0 and not Path("mine").exists()
    assert run("check", 1, "--in", "mine").returncode == 1


def test_a_clone_has_a_folder_of_its_own_and_a_wheel_has_none(tmp_path, monkeypatch, run):
    assert answers.folder() == answers.EXERCISES == ROOT / "lessons" / "exercises"
    monkeypatch.setattr(answers, "FOLDER", tmp_path / "site-packages" / "lessons")
    done = run("check", 1)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "--in FOLDER" in done.stderr


@pytest.mark.parametrize(
    "words,told",
    [
        (["check", "9"], "there is no lesson 9; the lessons are 1"),
        (["lessons", "9"], "there is no lesson 9; the lessons are 1"),
        (["check", "--in", ""], "empty"),
        (["check", "--in", "file"], "is not a folder"),
        (["check", "--nothing"], "No such option"),
        (["lessons", "--edit"], "--edit opens one lesson"),
        (["lessons", "1", "--port", "0"], "'--port'"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(run, words, told):
    Path("file").write_text("", encoding="utf-8")
    done = run(*words)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1 and told in done.stderr


def test_a_number_that_is_none(run):
    done = run("check", "one")
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1
    assert re.search(r"for '\[?number\]?': .*valid integer", done.stderr, re.IGNORECASE)  # typer's words, old and new


def test_without_marimo_the_lessons_say_what_they_need_and_the_check_needs_nothing(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "marimo", None)
    done = run("lessons", 1)
    assert done.returncode == 2 and done.stderr == "error: the lessons need marimo: pip install -e '.[lessons]'\n"
    write(SOLUTION)
    assert run("check", 1, "--in", "mine").returncode == 0


def test_an_answer_that_passed_is_kept_told_and_put_back(run):
    mine = "import math\n" + SOLUTION.replace("along = 1.0", "along = math.cos(0.0)")
    write(mine)
    assert run("check", 1, "--in", "mine").returncode == 0
    write(SAMPLE.stub.read_text(encoding="utf-8") + "\nOWN = 'stays'\n")
    done = run("check", 1, "--in", "mine")
    assert done.returncode == 1
    assert (
        len(
            re.findall(
                r"your answer that passed on \d{4}-\d\d-\d\d is kept: tinygrad-tf check 1 --restore puts it back", done.stdout
            )
        )
        == 3
    )
    done = run("check", 1, "--restore", "--in", "mine")
    assert done.returncode == 0 and "put back slope, product_rule, total_gradient" in done.stdout
    text = (Path("mine") / SAMPLE.path.name).read_text(encoding="utf-8")
    assert "math.cos(0.0)" in text and "OWN = 'stays'" in text
    assert run("check", 1, "--restore", "--in", "mine").stdout.count("put back") == 0


def test_an_answer_that_is_written_is_never_replaced_by_one_that_is_kept(run):
    write(SOLUTION)
    run("check", 1, "--in", "mine")
    write(SOLUTION.replace("(2 * h)", "h"))
    done = run("check", 1, "--restore", "--in", "mine")
    assert done.returncode == 1 and "✗ slope" in done.stdout
    assert (Path("mine") / SAMPLE.path.name).read_text(encoding="utf-8") == SOLUTION.replace("(2 * h)", "h")


@pytest.mark.parametrize(
    "still,told", [(True, "is kept: tinygrad-tf"), (False, "is kept, but the check has changed: for f = exp")]
)
def test_a_kept_answer_is_judged_anew_when_its_check_has_changed(run, monkeypatch, still, told):
    write(SOLUTION)
    run("check", 1, "--in", "mine")
    if not still:
        data = progress.read()
        entry = data["lessons"][SAMPLE.name]["slope"]
        entry["file"] = entry["answer"] = "def slope(f, x, h):\n    return 0.0\n"
        progress._write(data)
    monkeypatch.setattr(progress, "fingerprint", lambda lesson: "another")
    write(SAMPLE.stub.read_text(encoding="utf-8"))
    assert told in run("check", 1, "--in", "mine").stdout


def test_watching_checks_again_at_each_save_and_ends_cleanly(tmp_path):
    write(SAMPLE.stub.read_text(encoding="utf-8"))
    words = ["check", "1", "--watch", "--in", "mine"]
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, *words], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, encoding="utf-8")  # fmt: skip
    try:
        for line in process.stdout:
            if line.startswith("watching"):
                break
        time.sleep(0.1)
        write(SOLUTION)
        assert "✗" not in "".join(next(process.stdout) for _ in range(5))
        os.kill(process.pid, signal.SIGINT)
        rest, said = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130 and "Traceback" not in rest + said and said == "interrupted\n"
