"""Faults from outside: kill -9, full disks, folders that cannot be written, damage, two writers, clocks, closed pipes.

Whatever happens, a run goes on from its last checkpoint and ends in the same bytes as one that nothing happened to.
"""

import errno
import json
import os
import random
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tinygrad_tf import checkpoint, report
from tinygrad_tf import train as training
from tinygrad_tf.cli import run_command
from tinygrad_tf.runfolder import CHECKPOINT, LOCK, METRICS, SAMPLE
from tinygrad_tf.settings import TrainConfig

ROOT = Path(__file__).parents[2]
SMALL = {"n_layer": 1, "n_head": 2, "n_embd": 16, "block_size": 8, "batch_size": 4, "warmup": 2, "dropout": 0.2,
         "eval_every": 50, "eval_batches": 1, "sample_every": 0, "sample_tokens": 5, "checkpoint_every": 2}  # fmt: skip
WITHOUT_PICTURES = """
import sys
from tinygrad_tf import cli, train
train.draw_curves = lambda *args: None
sys.exit(cli.run_command(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("the cat sat on the mat; the dog sat on the cat.\n" * 20, encoding="utf-8", newline="")
    return path


@pytest.fixture(scope="module")
def straight(text, tmp_path_factory):
    """straight(steps) -> the folder of a run to which nothing happened, and half(steps) -> one that was left at its middle."""
    folders: dict = {}

    def train(steps, stop=None):
        if (steps, stop) not in folders:
            folders[steps, stop] = folder = tmp_path_factory.mktemp("runs") / "run"
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(training, "draw_curves", lambda *args: None)
                try:
                    training.train(config(text, steps), folder, LeftAfter(stop))
                except MemoryError:
                    assert checkpoint.load(folder / CHECKPOINT)[1]["step"] == stop - 1
        return folders[steps, stop]

    return train


class LeftAfter(report.Progress):
    def __init__(self, stop):
        super().__init__()
        self.last = stop

    def step(self, step, metrics):
        if step == self.last:
            raise MemoryError


def config(text, steps):
    return TrainConfig(text=str(text), steps=steps, **SMALL)


@pytest.fixture
def half(straight, tmp_path, monkeypatch):
    """A run of 16 steps whose last checkpoint is that of step 10, in this folder, under the name `run`; nothing is drawn."""
    shutil.copytree(straight(16, 11), tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(training, "draw_curves", lambda *args: None)
    return tmp_path / "run"


def assert_same(folder, other):
    for name in (CHECKPOINT, METRICS, SAMPLE):
        assert (folder / name).read_bytes() == (other / name).read_bytes(), name
    assert not list(folder.glob("*.tmp"))


def assert_one_line(status, stderr, *words):
    assert status == 2, stderr
    assert len(stderr.splitlines()) == 1 and stderr.startswith("error: "), stderr
    for word in words:
        assert word in stderr


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != LOCK}


def python(code, *arguments, **settings):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    line = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(line, env=env, capture_output=True, text=True, check=False, **settings)


# ------------------------------------------------------------------------------------------------ kill -9

# Each kill ends a process of its own, that goes on with the run: at a random time, or inside a write: with half of the bytes in
# the file, before or after they are flushed, before or after the file gets its name.
KILLED = r"""
import json, os, signal, sys, time
from pathlib import Path
import safetensors.numpy
from tinygrad_tf import checkpoint, report, train
from tinygrad_tf.runfolder import CHECKPOINT
from tinygrad_tf.settings import TrainConfig

folder, config, kills = Path(sys.argv[1]), TrainConfig(**json.loads(sys.argv[2])), json.loads(sys.argv[3])
train.draw_curves = lambda *args: None
left = 0

def moment(before=lambda: None):
    global left
    left -= 1
    if left == 0:
        before()
        os.kill(os.getpid(), signal.SIGKILL)

def around(call):
    def called(*args):
        moment()
        result = call(*args)
        moment()
        return result
    return called

class File:
    def __init__(self, file):
        self.file = file
    def __getattr__(self, name):
        return getattr(self.file, name)
    def __enter__(self):
        return self
    def __exit__(self, *error):
        self.file.close()
    def write(self, data):
        moment(lambda: (self.file.write(data[: len(data) // 2]), self.file.flush()))
        self.file.write(data)

os.fsync, os.replace = around(os.fsync), around(os.replace)
checkpoint.open = lambda *args: File(open(*args))
for seconds, moments in kills:
    child = os.fork()
    if child == 0:
        left = moments
        if (folder / CHECKPOINT).exists():
            train.resume(folder, report.Progress())
        else:
            train.train(config, folder, report.Progress())
        os._exit(0)
    if not moments:
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("count,steps", [(12, 120), pytest.param(100, 1500, marks=pytest.mark.slow)])
def test_killed_many_times_in_a_row_it_ends_as_if_nothing_had_happened(count, steps, text, straight, tmp_path, monkeypatch):
    draw = random.Random(count)
    kills = [(draw.uniform(0, 0.05), 0) if i % 2 else (0, draw.randint(1, 40)) for i in range(count)]
    settings = json.dumps(config(text, steps).to_json())
    done = python(KILLED, tmp_path / "run", settings, json.dumps(kills))
    assert done.stderr == ""
    assert done.stdout.split() == ["-9"] * count  # none came to the end of the run
    monkeypatch.setattr(training, "draw_curves", lambda *args: None)
    assert 0 < checkpoint.load(tmp_path / "run" / CHECKPOINT)[1]["step"] < steps
    training.resume(tmp_path / "run", report.Progress())
    assert_same(tmp_path / "run", straight(steps))


# ------------------------------------------------------------------------------------------------ disks and folders


def test_a_disk_that_is_full_at_any_call_loses_nothing(half, straight, monkeypatch, capsys):
    """Every write, flush and rename of the rest of a run fails once."""
    left = 0

    def counted(call):
        def called(*args):
            nonlocal left
            left -= 1
            if left == 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return call(*args)

        return called

    class File:
        def __init__(self, file):
            self.file = file

        def __getattr__(self, name):
            return getattr(self.file, name)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.file.close()

        def write(self, data):
            return counted(self.file.write)(data)

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    monkeypatch.setattr(checkpoint, "open", lambda *args: File(open(*args)), raising=False)  # noqa: SIM115
    failures = 0
    for number in range(1, 1000):
        shutil.rmtree("run")
        shutil.copytree(straight(16, 11), "run")
        left = number
        status = run_command(["train", "--resume", "run", "--progress", "none"])
        told = capsys.readouterr().err
        if left > 0:  # there was no such call
            break
        failures += 1
        assert_one_line(status, told, "No space left on device", "--resume run", "run/")
        assert not list(half.glob("*.tmp"))
        if number % 7 == 0:  # at any of the four calls of one file, and at many files
            assert run_command(["train", "--resume", "run", "--progress", "none"]) == 0
            assert_same(half, straight(16))
    assert status == 0
    assert failures > 30
    assert_same(half, straight(16))


LIMITED = r"""
import resource, sys
from tinygrad_tf import train
from tinygrad_tf.cli import run_command
train.draw_curves = lambda *args: None
for limit in map(int, sys.argv[1:]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    print(run_command(["train", "--resume", "run", "--progress", "none"]), flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no limits on files on this system")
def test_files_that_may_not_grow_lose_nothing(half, straight):
    """As a quota does it: the system itself cuts the write short."""
    before, size = (half / CHECKPOINT).read_bytes(), (half / CHECKPOINT).stat().st_size
    limits = [0, 1, 2000, size // 2, size - 1]
    done = python(LIMITED, *limits)
    assert done.stdout.split() == ["2"] * len(limits), done.stderr
    for line, name in zip(done.stderr.splitlines(), [LOCK, "config.json", *[CHECKPOINT] * 3], strict=True):
        assert line.startswith("error: run/" + name + ": File too large"), line
    assert (half / CHECKPOINT).read_bytes() == before
    assert not list(half.glob("*.tmp"))
    training.resume(half, report.Progress())
    assert_same(half, straight(16))


READ_ONLY = r"""
import os, sys
from tinygrad_tf.cli import run_command
import safetensors.numpy

here, calls = os.getcwd(), ("os.rename", "os.remove", "os.mkdir", "os.truncate")

def refuse(event, args):
    writes = event in calls or (event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR))
    if writes and isinstance(args[0], (str, bytes, os.PathLike)) and os.path.abspath(os.fsdecode(args[0])).startswith(here):
        raise PermissionError(13, os.strerror(13), os.fsdecode(args[0]))

sys.addaudithook(refuse)  # not by rights: root may write anywhere
for line in sys.argv[1:]:
    sys.stderr.write(f"{run_command(line.split())}\n")
"""


def test_a_folder_that_cannot_be_written_is_read_and_told(half):
    before = contents(half)
    done = python(READ_ONLY, "sample run --tokens 5", "train --resume run", "train --run other --steps 1", "train --steps 1")
    status, resumed, two, fresh, two_too, named, and_two = done.stderr.splitlines()
    assert (status, two, two_too, and_two) == ("0", "2", "2", "2")
    for line, name in ((resumed, f"run/{LOCK}"), (fresh, "other")):
        assert line.startswith(f"error: {name}: Permission denied"), line
    made = f"error: cannot make {os.path.abspath('runs/tiny-1')}, the folder of this run"
    assert named == f"{made}: Permission denied; --run names another"
    assert contents(half) == before
    assert os.listdir() == ["run"]


# ------------------------------------------------------------------------------------------------ damage


def test_a_damaged_checkpoint_is_one_line_and_nothing_is_lost(half, straight, capsys):
    whole, draw = (half / CHECKPOINT).read_bytes(), random.Random(0)
    damaged = [whole[: draw.randrange(len(whole))] for _ in range(8)]
    for _ in range(16):
        flipped = bytearray(whole)
        flipped[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        damaged.append(bytes(flipped))
    for content in damaged:
        (half / CHECKPOINT).write_bytes(content)
        before = contents(half)
        for command in (["sample", "run"], ["train", "--resume", "run"], ["train", "--init-from", "run", "--run", "new"]):
            assert_one_line(run_command(command), capsys.readouterr().err, CHECKPOINT, "put back a copy of it")
        assert contents(half) == before
        assert os.listdir() == ["run"]
    (half / CHECKPOINT).write_bytes(whole)  # the copy
    training.resume(half, report.Progress())
    assert_same(half, straight(16))


# ------------------------------------------------------------------------------------------------ writers, clocks, pipes


def test_of_several_that_start_in_one_folder_one_trains(text, straight, tmp_path):
    settings = [f"--{name.replace('_', '-')}={value}" for name, value in {**SMALL, "text": text, "steps": 120}.items()]
    line = [sys.executable, "-c", WITHOUT_PICTURES, "train", *settings, "--run", "run", "--progress", "none"]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    started = [subprocess.Popen(line, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    told = sorted((process.communicate(timeout=120)[1], process.returncode) for process in started)
    assert told[0] == ("", 0)
    for stderr, status in told[1:]:
        assert_one_line(status, stderr)
        assert "run is in use by process" in stderr or "run already holds a run" in stderr
    assert_same(tmp_path / "run", straight(120))


def test_a_clock_that_jumps_changes_nothing(half, straight, monkeypatch):
    """The clock of the day goes back by years while it trains; speeds and times left come from one that never jumps."""
    times = iter(range(10**9, 0, -(10**6)))
    monkeypatch.setattr(time, "time", lambda: float(next(times)))
    monkeypatch.setattr(time, "time_ns", lambda: next(times) * 10**9)
    os.utime(half / CHECKPOINT, (0, 0))
    with open("log", "w+", encoding="utf-8") as log:
        training.resume(half, report.Lines(log))
        log.seek(0)
        assert "-" not in "".join(line for line in log if line.startswith("step"))
    assert_same(half, straight(16))


@pytest.mark.skipif(shutil.which("head") is None, reason="no head on this system")
@pytest.mark.parametrize("command", ["sample run --tokens 100000", "models", "train --help", "train --resume run --steps 300"])
def test_piped_into_head_it_ends_without_a_word(command, half):
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    line = f"{shlex.quote(sys.executable)} -m tinygrad_tf {command} | head -n 1"
    done = subprocess.run(line, shell=True, env=env, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""
    checkpoint.load(half / CHECKPOINT)
