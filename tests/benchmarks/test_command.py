"""`python -m benchmarks` from end to end, at the smallest size; no time is asserted."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks import command as command_line
from benchmarks import drawing, tables
from benchmarks.__main__ import USES
from benchmarks.processes import Worker, WorkerError

ROOT = Path(__file__).parents[2]
FEWER_POINTS = """
import sys
from functools import partial
from benchmarks import __main__ as command, growth, lengths
series = {name: (field, values[:3]) for name, (field, values) in growth.SERIES.items()}
growth.measurements = partial(growth.measurements, series=series)
lengths.measurements = partial(lengths.measurements, lengths=lengths.LENGTHS[:3])
sys.exit(command.run(command.app, "benchmarks", sys.argv[1:]))
"""


def run(*arguments, cwd=ROOT, program=("-m", "benchmarks")):
    command = [sys.executable, *program, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, check=False, text=True, encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("what", ["steps", "ops", "generation", "attention", "imports", "memory", "growth", "profile"])
def test_every_measurement_runs_and_is_written_down(what, tmp_path):
    options = {"size": "tiny", "pairs": 2, "threads": 1, "kernels": "numpy"}
    used = [word for name, value in options.items() if name in USES[what].split() for word in (f"--{name}", value)]
    program = ("-c", FEWER_POINTS) if what in ("attention", "growth") else ("-m", "benchmarks")  # the largest take a minute
    done = run(what, *used, "--json", "results.json", cwd=tmp_path, program=program)
    assert done.returncode == 0, done.stderr
    (file,) = tmp_path.iterdir()  # nothing else is written
    assert file.name == "results.json"
    written = json.loads(file.read_text(encoding="utf-8"))
    assert {"cpu", "numpy", "torch", "date"} <= set(written["machine"])
    assert {result["what"] for result in written["results"]} == {{"steps": "step", "ops": "op"}.get(what, what)}
    with_torch = find_spec("torch") is not None
    assert ("PyTorch is not installed" in done.stdout) == (not with_torch)
    for result in written["results"]:
        if "ratios" in result:
            assert ("torch" in result["ratios"]["ours"]) == with_torch
            assert all(0 < r["min"] <= r["median"] <= r["max"] for r in result["ratios"]["ours"].values())
        if "largest_loss_difference" in result:
            assert result["largest_loss_difference"] < 1e-4
        assert result.get("same_tokens", True)


def test_all_is_everything_but_what_is_asked_for(monkeypatch):
    from benchmarks import __main__ as command

    shown = []
    stubs = {name: ([{"what": name}], shown.extend) for name in map(str, command.What) if name not in ("all", "report")}
    monkeypatch.setattr(command, "_measurements", lambda *_: stubs)
    command.main()
    assert {"profile", "crossover", "tricks"} == stubs.keys() - {result["what"] for result in shown}


def test_every_measurement_has_its_name_and_every_option_its_line():
    """The words of the command, those of its page, and what `_measurements` offers are the same."""
    from typer.main import get_command

    from benchmarks import __main__ as command
    from benchmarks.measure import Plan

    offered = command._measurements(["tiny"], Plan(), False, [Plan()])
    assert {*offered, "all", "report"} == set(map(str, command.What))
    page = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")
    options = {name for option in get_command(command.app).params for name in option.opts if name.startswith("--")} - {"--help"}
    assert {line.split("`")[1] for line in page.splitlines() if line.startswith("| `--")} == options
    commands = {line.split()[3] for line in page.splitlines() if line.startswith("python -m benchmarks ")}
    assert commands >= {*offered, "report"}


def test_a_long_measurement_says_how_far_it_has_come(monkeypatch, capsys):
    """On stderr: at its start, and of each result that comes after a silence."""
    clock = iter([0, 1, 8, 9, 17])
    monkeypatch.setattr(command_line, "monotonic", lambda: next(clock))
    found = [{"size": "tiny"}, {"size": "tiny", "name": "tiny, greedy", "threads": 2}, {}, {"series": "width", "value": 64}]
    assert list(command_line.told("growth", found)) == found
    assert capsys.readouterr() == ("", "growth: being measured, the table comes at the end\n"
                                       "growth: 2 in 8 s, the last: tiny, greedy, size tiny, threads 2\n"
                                       "growth: 4 in 17 s, the last: series width, value 64\n")  # fmt: skip


def test_every_measurement_says_that_it_has_begun(monkeypatch, capsys):
    from benchmarks import __main__ as command

    monkeypatch.setattr(command, "_measurements", lambda *_: {"steps": ([], print), "ops": ([], print), "tricks": ([], print)})
    command.main()
    assert re.findall("^(.+): being measured", capsys.readouterr().err, re.M) == ["steps", "ops"]


def test_what_is_measured_again_takes_the_place_of_the_old(monkeypatch, tmp_path):
    from benchmarks import __main__ as command
    from benchmarks import results

    def measured(*names):
        found = [{"what": "step", "size": name, "threads": 1, "n": len(names)} for name in names]
        monkeypatch.setattr(command, "_measurements", lambda *_: {"steps": (found, print)})
        command.main(to=tmp_path / "results.json", add=True)
        return [(r["size"], r["n"]) for r in results.read(tmp_path / "results.json").results]

    assert measured("tiny", "laptop") == [("tiny", 2), ("laptop", 2)]
    assert measured("laptop") == [("tiny", 2), ("laptop", 1)]


def test_an_interrupted_run_leaves_what_it_has(monkeypatch, tmp_path):
    from benchmarks import __main__ as command

    def measured():
        yield {"what": "first"}
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "_measurements", lambda *_: {"steps": (measured(), print)})
    with pytest.raises(KeyboardInterrupt):
        command.main(to=tmp_path / "results.json")
    assert json.loads((tmp_path / "results.json").read_text())["results"] == [{"what": "first"}]


def test_the_table_of_what_is_used_names_everything():
    from benchmarks import __main__ as command

    assert set(USES) == set(map(str, command.What))


BAD = ["nothing", "steps --size huge", "steps --threads 0", "steps --pairs 0", "steps --patience -1", "steps --json .",
       "steps --json no/such/x.json", "steps --kernels cuda", "steps --add", "steps --figures no/such/folder",
       "steps results.json", "report no/such/file.json", "report README.md", "recomputation --size tiny", "growth --size baby",
       "crossover --threads 1", "steps --shapes", "steps --check", "report --json x.json", "report --add",
       "tricks --kernels numpy", "imports --threads 1", "profile --pairs 3",
       "steps --bogus", "steps --pairs x", "steps --threads"]  # fmt: skip


@pytest.mark.parametrize("bad", BAD)
def test_bad_input_is_one_line_and_status_2(bad, monkeypatch, capsys):
    from benchmarks import __main__ as command

    monkeypatch.chdir(ROOT)
    assert command.run(command.app, "benchmarks", bad.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"error: .+\n", err), err


@pytest.mark.parametrize("bad", [BAD[0], "steps --kernels cuda", BAD[-1]])
def test_bad_input_ends_a_process_with_status_2_and_no_traceback(bad):
    done = run(*bad.split())
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"error: .+\n", done.stderr), done.stderr


OTHERS = ["parallel worker", "parallel nothing", "parallel worker huge 3 0", "parallel worker tiny x 0", "worker", "worker a b",
          "worker benchmarks.ours.Training x", "contest --bogus", "contest extra", "contest --seed -1"]  # fmt: skip


@pytest.mark.parametrize("bad", OTHERS)
def test_so_do_the_other_commands_of_the_folder(bad):
    module, *arguments = bad.split()
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False, text=True, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"error: .+\n", done.stderr), done.stderr


def test_a_wrong_word_in_the_environment_is_one_line_for_every_command():
    commands = ["benchmarks report --check", "benchmarks.contest --help", "viz.gallery --check", "tinygrad_tf"]
    for words in commands:
        done = subprocess.run([sys.executable, "-m", *words.split()], cwd=ROOT, capture_output=True, check=False, text=True,
                              env={**os.environ, "TINYGRAD_TF_KERNELS": "cuda"})  # fmt: skip
        assert (done.returncode, done.stdout) == (2, ""), words
        assert done.stderr == "error: TINYGRAD_TF_KERNELS is 'cuda': it can be numpy or numba, or unset\n"


def test_the_readme_says_what_the_drawing_benchmark_draws():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"{drawing.Parts().once()['nodes']} nodes" in readme
    assert f"{drawing.Parts(fused=False).once()['nodes']} nodes" in readme


def test_without_pytorch_ours_is_measured_alone(monkeypatch, capsys):
    from benchmarks import measure

    monkeypatch.setattr(measure, "installed", lambda package: None)
    result = measure.step("tiny", measure.Plan(threads=1, pairs=1))
    assert set(result["milliseconds"]) == {"ours", "products"}
    assert set(result["ratios"]["ours"]) == {"products"}
    tables.steps([result])
    shown = capsys.readouterr().out
    assert "products alone" in shown
    assert "PyTorch" not in shown


def test_a_worker_that_dies_is_an_error_with_its_name():
    with Worker("floor.Products", 1, size="tiny") as worker:
        assert set(worker.call("run", count=2)) == {"wall", "cpu", "results"}
        worker.process.kill()
        worker.process.wait()  # so that the request meets a closed pipe
        with pytest.raises(WorkerError, match=r"floor\.Products ended"):
            worker.call("run", count=1)


def test_a_worker_has_the_threads_that_it_was_given():
    with Worker("floor.Products", 1, size="tiny") as worker:
        environment = Path(f"/proc/{worker.process.pid}/environ")
        if environment.exists():
            assert b"OPENBLAS_NUM_THREADS=1" in environment.read_bytes()
    assert worker.process.returncode == 0


def test_what_a_library_prints_does_not_stand_among_the_answers(tmp_path):
    (tmp_path / "noisy.py").write_text("class Task:\n    def once(self):\n        print('hello')\n        return 1\n")
    command = [sys.executable, "-m", "benchmarks.worker", "noisy.Task", "{}"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    request = '{"call": "run", "with": {"count": 1}}\n'
    done = subprocess.run(command, env=environment, input=request, capture_output=True, check=True, text=True)
    assert [json.loads(line) for line in done.stdout.splitlines()][1]["results"] == [1]
    assert done.stderr == "hello\n"


def test_a_worker_has_the_kernels_that_it_was_given(monkeypatch):
    monkeypatch.setenv("TINYGRAD_TF_KERNELS", "fortran")
    with Worker("floor.Products", 1, kernels="numpy", size="tiny") as worker:
        environment = Path(f"/proc/{worker.process.pid}/environ")
        if environment.exists():
            assert b"TINYGRAD_TF_KERNELS=numpy" in environment.read_bytes()


def test_a_worker_that_does_not_start_says_so_and_leaves_nothing_open(capfd):
    with pytest.raises(WorkerError, match=r"floor\.Products ended with status 2"):
        Worker("floor.Products", 1, kernels="fortran", size="tiny")
    assert "it can be numpy or numba" in capfd.readouterr().err
