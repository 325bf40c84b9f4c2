"""Several ranks, each in a process of its own under mpirun: the same numbers as one, and how a job ends.

A job runs `tests/training/job.py`, which is the command with a fault in one rank where a test asks for one.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import numpy as np
import pytest

from tinygrad_tf import Tensor, checkpoint, parallel, process, train
from tinygrad_tf.data import get_batch
from tinygrad_tf.parallel import ONE, One
from tinygrad_tf.report import Progress
from tinygrad_tf.run import Run
from tinygrad_tf.runfolder import CHECKPOINT, METRICS, RunError

ROOT = Path(__file__).parents[2]
BESIDE = Path(sys.executable).with_name("mpiexec")  # where the package mpich puts it
MPIEXEC = str(BESIDE) if BESIDE.exists() else which("mpiexec")
NOT_RUN = "not run on several ranks (needs mpi4py and mpiexec: pip install -e '.[mpi]')"
several = pytest.mark.skipif(MPIEXEC is None or find_spec("mpi4py") is None, reason=NOT_RUN)


@pytest.fixture
def job(tmp_path, options):
    """Run `tinygrad-tf train` with the small run's options on so many ranks."""

    def run(ranks, *arguments, fault="", start=False, new=True, env=None):
        line = [MPIEXEC, "-n", str(ranks), sys.executable, str(ROOT / "tests" / "training" / "job.py"), fault, "train",
                *(options if new else []), *map(str, arguments)]  # fmt: skip
        settings = {"cwd": tmp_path, "env": {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}, "text": True,
                    "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}  # fmt: skip
        return subprocess.Popen(line, **settings) if start else subprocess.run(line, check=False, timeout=120, **settings)

    return run


def assert_same_run(one, other, exact=("batches", "evaluation", "sampling", "dropout")):
    """Two checkpoints are the same up to rounding: every array, every number of every line, every random stream."""
    (arrays, state), (others, found) = (checkpoint.load(folder / CHECKPOINT) for folder in (one, other))
    assert arrays.keys() == others.keys()
    for name, array in arrays.items():
        np.testing.assert_allclose(others[name], array, rtol=1e-3, atol=2e-5, err_msg=name)
    for stream in exact:
        assert found["streams"][stream] == state["streams"][stream], stream
    lines, found_lines = state.pop("history"), found.pop("history")
    assert len(lines) == len(found_lines)
    for line, found_line in zip(lines, found_lines):
        assert found_line == pytest.approx(line, rel=1e-4)
    for name in set(state) - {"streams"}:
        assert found[name] == state[name], name


@several
@pytest.mark.parametrize(
    "ranks, changes",
    [(2, "--clip 0.1"), pytest.param(4, "--grad-accum 3 --optimizer adamw", marks=pytest.mark.slow)],
)
def test_ranks_together_are_one(tmp_path, job, inside, options, ranks, changes):
    """Loss, norm, parameters, moments, held-out loss, sample, streams; with clipping that matters, with accumulation."""
    changes = ["--dropout", "0", "--eval-batches", "5", *changes.split()]
    assert inside("train", *options, *changes, "--run", "one").returncode == 0
    done = job(ranks, *changes, "--run", "several", "--data-parallel")
    assert (done.returncode, done.stderr) == (0, "")
    assert_same_run(tmp_path / "one", tmp_path / "several")
    clipped = [json.loads(line)["grad_norm"] > 0.1 for line in (tmp_path / "one" / METRICS).read_text().splitlines()[:-1]]
    assert any(clipped)
    # each thing is said once, and the speed is that of all
    assert len(re.findall(r"^step  1/10 ", done.stdout, re.MULTILINE)) == 1
    assert done.stdout.count("sample after step 10") == 1
    assert f"\n{ranks} ranks, threads by OMP_NUM_THREADS\n" in done.stdout


class Interrupting(Progress):
    def step(self, step, metrics):
        super().step(step, metrics)
        if step == 2:
            signal.raise_signal(signal.SIGINT)


@several
def test_a_run_goes_on_with_any_number_of_ranks(tmp_path, job, inside, small):
    """One, two, four, one. Each is stopped by Ctrl-C in a single rank, in its second step."""
    train.train(small(dropout=0.0, steps=8), tmp_path / "one", Progress())
    with pytest.raises(KeyboardInterrupt, match="stopped after step 2"):
        train.train(small(dropout=0.0, steps=8), tmp_path / "begun", Interrupting())
    for ranks in (2, 4):
        done = job(ranks, "--resume", "begun", "--data-parallel", new=False, fault=f"interrupt {ranks - 1} 2")
        assert done.returncode == 130
        assert done.stderr == f"stopped after step {ranks + 2}, which is saved; go on with: tinygrad-tf train --resume begun\n"
    assert inside("train", "--resume", "begun").returncode == 0
    assert_same_run(tmp_path / "one", tmp_path / "begun")


@several
@pytest.mark.slow
def test_with_dropout_a_stopped_run_is_the_straight_one_bit_for_bit(tmp_path, job):
    """On the same number of ranks: every rank goes on in its own part of the stream."""
    assert job(2, "--run", "straight", "--data-parallel").returncode == 0
    assert job(2, "--run", "stopped", "--data-parallel", fault="interrupt 1 6").returncode == 130
    assert job(2, "--resume", "stopped", "--data-parallel", new=False).returncode == 0
    assert (tmp_path / "straight" / CHECKPOINT).read_bytes() == (tmp_path / "stopped" / CHECKPOINT).read_bytes()


@several
def test_a_killed_rank_ends_the_job_with_one_line_and_harms_no_file(tmp_path, job, inside):
    done = job(2, "--run", "run", "--data-parallel", "--checkpoint-every", "1", fault="kill 1 6")
    assert done.returncode not in (0, 2, 130)
    assert done.stderr == "error: a process was killed; the last checkpoint in run is whole: go on with --resume run\n"
    assert Run.load(tmp_path / "run").step >= 4
    assert inside("train", "--resume", "run").returncode == 0
    assert Run.load(tmp_path / "run").step == 10
    assert not list((tmp_path / "run").glob("*.tmp"))  # what the first rank was just writing


@several
@pytest.mark.parametrize("rank", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_an_error_of_one_rank_ends_all_with_one_line(tmp_path, job, rank):
    done = job(2, "--run", "run", "--data-parallel", fault=f"divide {rank} 3")
    assert done.returncode == 2
    assert re.fullmatch(rf"error: rank {rank}: ZeroDivisionError: division by zero \(job\.py:\d+\)\n", done.stderr)
    assert Run.load(tmp_path / "run").step == 0


@several
@pytest.mark.parametrize("arguments, words", [
    ("--data-parallel --batch-size 3", "--batch-size 3 does not divide among 2 ranks; 2 or 4 does"),
    ("--data-parallel --run text.txt/run", "text.txt/run: Not a directory; a part of that path is a file"),
    pytest.param("--data-parallel --text none.txt", "none.txt", marks=pytest.mark.slow),
    pytest.param("--data-parallel --stepz 3", "--stepz", marks=pytest.mark.slow),
    pytest.param("--data-parallel --lr 1e30 --clip 0", "keeps training finite", marks=pytest.mark.slow),
    pytest.param("", "2 processes were started, and each would train a run of its own; add", marks=pytest.mark.slow),
])  # fmt: skip
def test_bad_input_is_told_once(job, arguments, words):
    done = job(2, "--run", "run", *arguments.split())
    assert done.returncode == 2
    assert re.fullmatch(r"error: .+\n", done.stderr), done.stderr
    assert words in done.stderr


MPI_LACKS = rf"--data-parallel needs mpi4py and an MPI library: {re.escape(parallel.INSTALL)}"


@several
@pytest.mark.parametrize("fault, words", [
    ("missing 1 mpi4py.MPI", f"rank 1: {MPI_LACKS}"),
    ("missing 0,1 mpi4py.MPI", MPI_LACKS),
    ("missing 1 tinygrad_tf.report", r"rank 1: ModuleNotFoundError: .*report.* \(cli\.py:\d+\)"),
    pytest.param("missing 0 mpi4py.MPI", MPI_LACKS, marks=pytest.mark.slow),
    pytest.param("missing 0 tinygrad_tf.report", r"rank 0: ModuleNotFoundError: .*report.* \(cli\.py:\d+\)",
                 marks=pytest.mark.slow),
])  # fmt: skip
def test_an_import_that_fails_ends_all_with_one_line(job, fault, words):
    """Before the ranks have found each other as well, where those that can begin wait for those that cannot."""
    done = job(2, "--run", "run", "--data-parallel", fault=fault)
    assert re.fullmatch(rf"error: {words}\n", done.stderr), done.stderr
    assert done.returncode == 2


@several
@pytest.mark.parametrize("word, status", [("cuda", 2), (" NumPy ", 0)])
def test_other_commands_under_mpirun_run_once(word, status):
    line = [MPIEXEC, "-n", "2", sys.executable, "-m", "tinygrad_tf", "models", "gpt2"]
    env = {**os.environ, "TINYGRAD_TF_KERNELS": word}
    done = subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == status
    assert done.stderr == ("error: TINYGRAD_TF_KERNELS is 'cuda': it can be numpy or numba, or unset\n" if status else
                           "2 processes were started; the first one does this alone\n")  # fmt: skip
    assert done.stdout.count("124,439,808") == (0 if status else 1)


ALIKE = """
import numpy as np
from mpi4py import MPI
from tinygrad_tf.parallel import Ranks
ranks = Ranks(MPI)
array = np.full((2, 3), ranks.rank, np.float32)
ranks.align([array])
assert (array == 0).all()
assert ranks.collect([10 * i for i in ranks.deal(range(7))]) == [0, 10, 20, 30, 40, 50, 60]
assert [ranks.any(ranks.rank == 2), ranks.any(False)] == [True, False]
assert ranks.share(lambda: ranks.rank) == 0
print("fine")
"""


@several
def test_what_ranks_do_together():
    """Numbers that have come apart, as on machines that round differently, are those of the first one again."""
    line = [MPIEXEC, "-n", "3", sys.executable, "-c", ALIKE]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout.count("fine"), done.stderr, done.returncode) == (3, "", 0)


@several
def test_ctrl_c_ends_all_after_a_whole_step(tmp_path, job):
    """As a terminal does it: mpiexec gets the signal, and hands it to every rank."""
    with job(2, "--run", "run", "--data-parallel", "--steps", "100000", "--checkpoint-every", "0", start=True) as process:
        metrics = tmp_path / "run" / METRICS
        while process.poll() is None and not (metrics.exists() and metrics.read_text().count("\n") > 5):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    step = Run.load(tmp_path / "run").step
    assert step > 5
    assert f"stopped after step {step}, which is saved; go on with: tinygrad-tf train --resume run\n" in error
    assert error.count("stopped after") == 1
    assert len(metrics.read_text().splitlines()) == step


@several
@pytest.mark.slow
def test_a_finished_run_is_only_drawn_again(tmp_path, job, inside, options):
    assert inside("train", *options, "--run", "run", "--steps", "2").returncode == 0
    before = (tmp_path / "run" / CHECKPOINT).read_bytes()
    done = job(2, "--resume", "run", "--data-parallel", new=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "run" / CHECKPOINT).read_bytes() == before


@several
def test_data_parallel_without_mpirun_is_one_rank_and_says_so(command, options):
    done = command("train", *options, "--run", "run", "--data-parallel", "--steps", "1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "one rank: start several with mpirun -n 2 tinygrad-tf train --data-parallel\n" in done.stdout


@several
@pytest.mark.slow
def test_threads_of_all_ranks_are_no_more_than_cores(job):
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    unset = dict.fromkeys(parallel.VARIABLES, "")
    done = job(2, "--run", "run", "--data-parallel", "--steps", "1", env=unset)
    count = max(1, cores // 2)
    assert f"\n2 ranks, {count} thread{'s'[: count != 1]} each\n" in done.stdout


# ------------------------------------------------------------------------------------------- what one process can tell


@pytest.mark.parametrize("arguments", [["sample", "run", "--tokens", "3"], ["models"], ["train", "--help"], []])
def test_what_is_not_training_is_done_by_the_first_process_alone(inside, options, monkeypatch, arguments):
    assert inside("train", *options, "--run", "run", "--steps", "1").returncode == 0
    monkeypatch.setenv("PMI_SIZE", "4")
    monkeypatch.setenv("PMI_RANK", "0")
    done = inside(*arguments)
    assert (done.returncode, done.stderr) == (0, "4 processes were started; the first one does this alone\n")
    assert done.stdout
    monkeypatch.setenv("PMI_RANK", "3")
    done = inside(*arguments)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_run_that_has_begun_names_the_numbers_of_ranks_that_divide_its_batch(small, tmp_path):
    train.train(small(steps=1), tmp_path / "run", Progress())
    with pytest.raises(RunError, match="--batch-size 4 does not divide among 3 ranks; start 1, 2 or 4$"):
        train.resume(tmp_path / "run", Progress(), ranks_of(3)[0], steps=2)
    with pytest.raises(RunError, match="among 5 ranks; start 1, 2, 3, 4, 6 or 12$"):
        ranks_of(5)[0].check(12, begun=True)
    with pytest.raises(RunError, match="among 2 ranks; start 1$"):
        ranks_of(2)[0].check(1, begun=True)


@pytest.mark.parametrize("names", process.LAUNCHERS)
def test_several_processes_without_data_parallel_are_refused(inside, options, monkeypatch, tmp_path, names):
    """Told by the first one alone, before anything is written."""
    monkeypatch.setenv(names[1], "4")
    for rank in ("0", "3"):
        monkeypatch.setenv(names[0], rank)
        done = inside("train", *options, "--run", "run")
        assert done.returncode == 2
        assert done.stderr.startswith("error: 4 processes were started") if rank == "0" else done.stderr == ""
    assert not (tmp_path / "run").exists()


def test_one_process_of_a_launcher_is_one_process(inside, options, monkeypatch):
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setenv("PMI_SIZE", "1")
    assert inside("train", *options, "--run", "run", "--steps", "1").returncode == 0


def test_without_mpi4py_one_line_says_how_to_get_it(inside, options, monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    done = inside("train", *options, "--run", "run", "--data-parallel")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == ("error: --data-parallel needs mpi4py and an MPI library: pip install mpi4py mpich, "
                           "or pip install -e '.[mpi]' in a clone\n")


def ranks_of(size):
    found = []
    for rank in range(size):
        found.append(One())
        found[-1].rank, found[-1].size = rank, size
    return found


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_parts_of_a_batch_are_the_batch(size):
    ids = np.arange(1000)
    whole = get_batch(ids, 8, 12, np.random.default_rng(0))
    generators = [np.random.default_rng(0) for _ in range(size)]
    parts = [get_batch(ids, 8, 12, g, ranks.part(12)) for g, ranks in zip(generators, ranks_of(size))]
    for i in range(2):
        assert (np.concatenate([part[i] for part in parts]) == whole[i]).all()
    assert len({str(g.bit_generator.state) for g in generators}) == 1


@pytest.mark.parametrize("sequences, size, near", [(12, 5, "10 or 15"), (3, 4, "4"), (8, 3, "6 or 9")])
def test_an_uneven_batch_names_the_nearest_even_ones(sequences, size, near):
    with pytest.raises(RunError, match=f"--batch-size {sequences} does not divide among {size} ranks; {near} does"):
        ranks_of(size)[0].check(sequences)


def test_streams_of_ranks_are_apart_and_the_first_one_stays():
    draws = []
    for ranks in ranks_of(4):
        stream = np.random.default_rng(0)
        ranks.own_numbers(stream)
        draws.append(tuple(stream.integers(2**63, size=100)))
    assert draws[0] == tuple(np.random.default_rng(0).integers(2**63, size=100))
    assert len(set(sum(draws, ()))) == 400


def test_a_single_process_leaves_everything_as_it_is():
    p = Tensor([1.0, 2.0], requires_grad=True)
    p.square().sum().backward()
    grad = p.grad.array
    assert ONE.mean(0.5, [p]) == 0.5
    assert p.grad.array is grad
    assert (ONE.any(True), ONE.any(False), ONE.collect(ONE.deal([3, 4]))) == (True, False, [3, 4])
