"""The command line, from outside: exit status, one line of error, Ctrl-C, closed pipes, narrow terminals."""

import dataclasses
import errno
import os
import pickle
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from safetensors.numpy import save_file

import tinygrad_tf
from tinygrad_tf import train
from tinygrad_tf.run import Run
from tinygrad_tf.runfolder import CHECKPOINT, METRICS
from tinygrad_tf.settings import PRESETS, TrainConfig

ROOT = Path(tinygrad_tf.__file__).parents[1]


@pytest.fixture
def trained(tmp_path, inside, options):
    done = inside("train", *options, "--run", "run")
    assert (done.returncode, done.stderr) == (0, "")
    return tmp_path / "run"


def assert_refused(done, *words):
    assert done.returncode == 2, done.stderr
    assert re.fullmatch(r"error: .+\n", done.stderr), done.stderr
    assert done.stdout == ""
    for word in words:
        assert str(word).lower() in done.stderr.lower()


def test_help_and_version(command):
    assert command("--version").stdout == f"tinygrad-tf {tinygrad_tf.__version__}\n"
    for arguments in ([], ["--help"], ["train", "--help"], ["sample", "--help"]):
        done = command(*arguments)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("Usage: tinygrad-tf")


def test_every_setting_is_an_option(inside):
    shown = " ".join(inside("train", "--help").stdout.split())
    for spec in dataclasses.fields(TrainConfig):
        flag = f"--{spec.name.replace('_', '-')} "
        assert flag in shown
        assert spec.metadata["help"] in shown


def test_help_loads_no_library_that_it_does_not_need(command):
    code = "import sys; from tinygrad_tf import cli; print(*sorted({n.split('.')[0] for n in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert not {"matplotlib", "safetensors"} & set(done.stdout.split())


@pytest.mark.parametrize(("arguments", "words"), [
    ("train --text none.txt", ["none.txt"]),
    ("train --text empty.txt", ["empty.txt"]),
    ("train --text binary.txt", ["binary.txt"]),
    ("train --text latin1.txt", ["latin1.txt", "UTF-8"]),
    ("train --text surrogate.txt", ["surrogate.txt"]),
    ("train --text short.txt", ["short.txt", "too short", "--block-size, 96"]),
    ("train --text ''", ["--text must be stories, tinyshakespeare or the path of a text file, not empty"]),
    ("train --n-embd 10 --n-head 3", ["--n-embd=10 does not divide into --n-head=3 heads"]),
    ("train --n-embd 9 --n-head 3", ["--n-embd=9 over --n-head=3"]),
    ("train --norm batch", ["--norm must be layer or rms"]),
    ("train --positions absolute", ["--positions must be learned or sinusoidal or sinusoidal_halves or rotary or t5 or alibi"]),
    ("train --attention linear", ["--positions='rotary' tells distances", "--attention='linear' has none", "learned"]),
    ("train --attention linear --positions t5", ["--positions='t5' tells distances", "--attention='linear' has none"]),
    ("train --attention linear --positions none --window 8", ["--window=8 has no place in --attention='linear'"]),
    ("train --window 0", ["--window must be at least 1, not 0"]),
    ("train --window 97", ["--window=97 has no effect", "all of the context, --block-size=96, without it; leave it out"]),
    ("train --window 96", ["--window=96 has no effect", "--block-size=96"]),
    ("train --preset laptop --block-size 32 --window 32", ["--window=32 has no effect", "--block-size=32"]),
    ("train --optimizer adamw --muon-lr 0.1", ["--muon-lr=0.1 has no effect with --optimizer=adamw: leave it out, or take "
                                               "--optimizer=muon"]),
    ("train --preset baby --muon-momentum 0.5", ["--muon-momentum=0.5 has no effect with --optimizer=adamw"]),
    ("train --positions learned --rope-base 5", ["--rope-base=5.0 has no effect with --positions=learned", "=rotary"]),
    ("sample none --top-p 2", ["top-p must be above 0, and at most 1, which keeps every token, not 2.0"]),
    ("sample none --top-p 0", ["top-p must be above 0", "not 0.0"]),
    ("sample none --top-k 0", ["top-k must be a whole number, at least 1, not 0"]),
    ("sample none --temperature inf", ["temperature must be 0 (greedy) or a positive number, not inf"]),
    ("train --positions sinusoidal --n-embd 9 --n-head 3", ["sinusoidal", "--n-embd=9"]),
    ("train --lr fast", ["--lr"]),
    ("train --lr inf", ["--lr must be a finite number and at least 0"]),
    ("train --steps 0", ["--steps must be at least 1, not 0"]),
    ("train --min-lr 1", ["--min-lr=1.0 is above --lr=0.01"]),
    ("train --run ''", ["--run", "a path cannot be empty"]),
    ("train --resume ''", ["--resume", "a path cannot be empty"]),
    ("train --preset huge", ["huge", "tiny, laptop, baby, nanogpt-char-cpu"]),
    ("train --zzz 3", ["--zzz", "; tinygrad-tf train --help says more"]),
    ("train --progress loud", ["loud"]),
    ("train --run full", ["full", "not empty"]),
    ("train --run short.txt", ["short.txt"]),
    ("train --run short.txt/run", ["short.txt"]),
    ("train --resume none", ["none"]),
    ("train --resume full", ["full", "no checkpoint"]),
    ("train --resume full --run other", ["--run", "--resume"]),
    ("sample none", ["none: no such run; name the folder of a run"]),
    ("sample ''", ["a path cannot be empty"]),
    ("sample", ["Missing argument 'run'; tinygrad-tf sample --help says more"]),
    ("sample empty.txt", ["empty.txt"]),
    ("sample pickle", ["pickle"]),
    ("sample foreign", ["foreign"]),
    ("write", ["write"]),
])  # fmt: skip
def test_bad_input_is_one_line_and_status_2(tmp_path, inside, arguments, words):
    (tmp_path / "empty.txt").touch()
    (tmp_path / "binary.txt").write_bytes(bytes(range(256)))
    (tmp_path / "latin1.txt").write_bytes("é".encode("latin1") * 1000)
    (tmp_path / "surrogate.txt").write_bytes(b"\xed\xa0\xbd" * 1000)
    (tmp_path / "short.txt").write_text("too short")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis").touch()
    (tmp_path / "pickle").write_bytes(pickle.dumps({"w": 1}))
    save_file({"w": np.zeros(2)}, tmp_path / "foreign")
    before = sorted(tmp_path.rglob("*"))
    done = inside(*shlex.split(arguments))
    assert_refused(done, *words)
    assert sorted(tmp_path.rglob("*")) == before


def test_what_a_finished_run_refuses(trained, inside, options):
    assert_refused(inside("train", *options, "--run", "run"), "already holds a run", "--resume run")
    assert_refused(inside("train", "--resume", "run", "--lr", 1), "lr")
    assert_refused(inside("sample", "run", "--temperature", -1), "temperature")
    assert_refused(inside("sample", "run", "--top-k", 0), "top-k")
    assert_refused(inside("sample", "run", "--top-p", "nan"), "top-p must be above 0, and at most 1", "not nan")
    greedy = inside("sample", "run", "--temperature", 0, "--top-k", 2, "--top-p", 1, "--tokens", 1)
    assert greedy.returncode == 0
    assert greedy.stderr == "--top-k and --top-p change nothing: --temperature 0 always takes the most probable character\n"
    assert_refused(inside("sample", "run", "--tokens", -1), "--tokens")
    content = (trained / CHECKPOINT).read_bytes()
    for damage in (b"", content[:-3], content[:100] + b"\xff" + content[101:], content[:-1] + bytes([content[-1] ^ 1])):
        (trained / CHECKPOINT).write_bytes(damage)
        next_step = "put back a copy of it, or train again in another folder"
        assert_refused(inside("sample", "run"), trained.name, CHECKPOINT, next_step)
        assert_refused(inside("train", "--resume", "run"), CHECKPOINT, next_step)


def test_a_run_at_its_end_says_so_and_how_it_goes_on(trained, inside):
    for more in ([], ["--steps", 10], ["--eval-every", 5]):
        done = inside("train", "--resume", "run", *more)
        assert (done.returncode, done.stderr) == (0, "")
        told = "all its steps (10) had been done; more go on with: tinygrad-tf train --resume run --steps 20"
        assert done.stdout.splitlines()[-1] == told
    assert inside("train", "--resume", "run", "--progress", "none").stdout == ""
    assert "had been done" not in inside("train", "--resume", "run", "--steps", 12).stdout


def test_TX_03_unknown_characters_of_a_prompt_are_listed(trained, inside):
    assert_refused(inside("sample", "run", "--prompt", "the zé"), '"z" (U+007A)', '"é" (U+00E9); leave them out\n')
    assert inside("sample", "run", "--tokens", 3).returncode == 0  # the default prompt always works


def test_sample(trained, inside):
    """The prompt goes on, exactly N characters, the same for the same seed, with the cache and without."""
    def sample(*arguments):
        done = inside("sample", "run", "--prompt", "the cat", "--tokens", 40, *arguments)
        assert done.returncode == 0
        assert done.stdout.startswith("the cat")
        assert len(done.stdout) == len("the cat") + 40 + 1
        return done

    first = sample("--stats")
    assert first.stdout == sample("--no-cache").stdout == sample("--seed", 0).stdout != sample("--seed", 1).stdout
    assert re.fullmatch(r"\d+ positions computed, \d+ of them again, \d+ read from the cache of [\d,]+ bytes\n", first.stderr)
    assert sample("--temperature", 0).stdout == sample("--temperature", 0, "--seed", 9).stdout == sample("--top-k", 1).stdout
    cut = first.stdout[20:23]
    stopped = inside("sample", "run", "--prompt", "the cat", "--tokens", 40, "--stop", cut, "--stop", "never").stdout
    assert stopped == "the cat" + first.stdout.removeprefix("the cat").split(cut)[0] + "\n"
    long = inside("sample", trained / CHECKPOINT, "--prompt", "the cat sat on the mat", "--tokens", 2)
    assert long.stdout.startswith("the cat sat on the mat")


def test_GN_01_the_default_start_lets_a_greedy_model_begin_a_paragraph(tmp_path, inside, options, text):
    """After newlines alone a model cannot tell how many there were, and writes one more for ever."""
    tales = ["the cat sat.", "our dog ran.", "her cow hid.", "an owl flew."]
    text.write_text("".join(f"{tale}\n\n" for tale in tales) * 20, encoding="utf-8", newline="")
    settings = ["--steps", 300, "--lr", 1e-2, "--dropout", 0, "--block-size", 16, "--eval-every", 0, "--sample-every", 0]
    assert inside("train", *options, *settings, "--sample-temperature", 0, "--run", "run").returncode == 0
    assert (tmp_path / "run" / "sample.txt").read_text().startswith(tuple(tale[:8] for tale in tales))
    done = inside("sample", "run", "--temperature", 0, "--tokens", 28)
    first, second, rest = done.stdout.split("\n\n")
    assert {first, second} <= set(tales)
    assert rest == "\n"


def test_EN_01_a_hundred_steps_into_a_file(tmp_path, command, options):
    with open(tmp_path / "log", "w") as log:
        done = command("train", *options, "--steps", 100, "--sample-every", 25, "--run", "run", stdout=log)
    assert done.returncode == 0
    content = (tmp_path / "log").read_text()
    assert "\r" not in content
    assert "\x1b" not in content
    assert len(content.splitlines()) <= 20
    assert "step 100/100" in content
    assert content.splitlines()[-1].endswith("tinygrad-tf sample run")


def test_progress_none_is_silent_and_the_variable_overrides(inside, options, monkeypatch):
    assert inside("train", *options, "--run", "a", "--progress", "none").stdout == ""
    monkeypatch.setenv("TINYGRAD_TF_PROGRESS", "none")
    assert inside("train", *options, "--run", "b").stdout == ""
    assert "step" in inside("train", *options, "--run", "c", "--progress", "plain").stdout


def test_EN_01_closed_pipe_of_train(tmp_path, command, inside, options):
    with command("train", *options, "--steps", 10_000, "--run", "run", start=True) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == ""
    done = Run.load(tmp_path / "run" / CHECKPOINT).step
    assert 0 < done < 10_000
    assert inside("train", "--resume", "run", "--steps", done).returncode == 0


def test_EN_01_closed_pipe_of_sample(trained, command):
    with command("sample", "run", "--tokens", 1_000_000, start=True) as process:
        process.stdout.read(10)
        process.stdout.close()
        assert process.wait(60) == 141
        assert process.stderr.read() == ""


def running(process, folder, lines):
    """Wait until the run has written so many metrics lines."""
    path = folder / METRICS
    while process.poll() is None:
        if path.exists() and path.read_bytes().count(b"\n") >= lines:
            return
    raise AssertionError(process.stderr.read())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_after_a_whole_step(tmp_path, command, inside, options, number):
    with command("train", *options, "--steps", 100_000, "--checkpoint-every", 0, "--run", "run", start=True) as process:
        running(process, tmp_path / "run", 20)
        process.send_signal(number)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    step = Run.load(tmp_path / "run" / CHECKPOINT).step
    assert step >= 20
    assert error == f"stopped after step {step}, which is saved; go on with: tinygrad-tf train --resume run\n"
    assert len((tmp_path / "run" / METRICS).read_text().splitlines()) == step
    assert inside("train", "--resume", "run", "--steps", step + 1).returncode == 0


def test_ctrl_c_many_times_harms_no_file(tmp_path, command, options):
    with command("train", *options, "--steps", 100_000, "--checkpoint-every", 1, "--run", "run", start=True) as process:
        running(process, tmp_path / "run", 20)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in error
    assert Run.load(tmp_path / "run" / CHECKPOINT).step >= 19
    assert not list((tmp_path / "run").glob("*.tmp"))


@pytest.mark.parametrize("step", [0, 1, 13])
def test_kill_9_and_resume_is_the_straight_run(tmp_path, command, inside, options, step):
    options = [*options, "--steps", 60, "--checkpoint-every", 1]
    with command("train", *options, "--run", "killed", start=True) as process:
        running(process, tmp_path / "killed", step)
        process.kill()
    assert inside("train", "--resume", "killed").returncode == 0
    assert inside("train", *options, "--run", "straight").returncode == 0
    for name in (CHECKPOINT, METRICS, "sample.txt"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes()


@pytest.mark.parametrize("library", ["numpy", "typer"])  # the first and the last
def test_ctrl_c_while_the_libraries_load_shows_no_traceback(tmp_path, command, library):
    """A stand-in for one of them presses it while it is imported."""
    (tmp_path / f"{library}.py").write_text("import signal, time\nsignal.raise_signal(signal.SIGINT)\ntime.sleep(60)\n")
    done = command("--version", env={"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])})
    assert done.returncode in (130, -signal.SIGINT)  # a shell says 130 for both
    assert (done.stdout, done.stderr) == ("", "")


def test_ctrl_c_before_the_command_has_begun(inside, monkeypatch):
    def interrupted(app):
        raise KeyboardInterrupt

    monkeypatch.setattr(typer.main, "get_command", interrupted)
    done = inside("--version")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_out_of_memory_names_what_to_lower(tmp_path, inside, options, monkeypatch):
    def full(*batch):
        raise MemoryError("Unable to allocate 9 GiB")

    monkeypatch.setattr(train, "add_gradients", full)
    words = ["out of memory (Unable to allocate 9 GiB)", "--batch-size", "--grad-accum", "--block-size", "--n-embd"]
    done = inside("train", *options, "--run", "run", "--progress", "none")
    assert_refused(done, *words)
    assert Run.load(tmp_path / "run" / CHECKPOINT).step == 0


def test_a_full_disk_names_the_file(inside, options, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert_refused(inside("train", *options, "--run", "run"), f"run/{CHECKPOINT}: No space left on device; make room there")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_the_output(trained, command, unbuffered):
    env = {"PYTHONUNBUFFERED": unbuffered}  # "": what could not be written is still there when Python ends
    with open("/dev/full", "w") as full:
        done = command("sample", "run", stdout=full, env=env)
        assert (done.returncode, done.stderr.split(";")[0]) == (2, "error: standard output: No space left on device")
        assert done.stderr.count("\n") == 1
        done = command("train", "--resume", "run", "--steps", 11, stdout=full, env=env)
        assert (done.returncode, done.stderr.split(";")[0]) == (2, "error: <stdout>: No space left on device")
        assert done.stderr.count("\n") == 1
        done = command("--help", stdout=full, env=env)
        assert (done.returncode, done.stderr.split(";")[0]) == (2, "error: standard output: No space left on device")


def test_two_runs_at_once_on_one_folder(tmp_path, command, inside, options):
    with command("train", *options, "--steps", 100_000, "--run", "run", start=True) as process:
        running(process, tmp_path / "run", 1)
        assert_refused(inside("train", "--resume", "run"), "run is in use by process", process.pid)
        assert inside("sample", "run", "--tokens", 5).returncode == 0  # reading is free
        process.kill()


def test_TX_07_emoji_on_an_ascii_terminal(tmp_path, command, options):
    (tmp_path / "emoji.txt").write_text("😀 👨‍👩‍👧 é\n" * 100, encoding="utf-8")
    done = command("train", *options, "--text", "emoji.txt", "--run", "räum lich", env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    done = command("sample", "räum lich", "--prompt", "😀", "--tokens", 5, env={"PYTHONIOENCODING": "ascii"})
    assert done.returncode == 0
    assert done.stdout.startswith("\\U0001f600")
    assert "'räum lich'" in command("train", "--resume", "räum lich").stdout


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.skipif(not shutil.which("bash"), reason="no shell to paste into")
def test_the_next_command_can_be_pasted_into_a_shell(tmp_path, command, options, encoding):
    name = "räum  lich/it's 1"
    env = {"PYTHONIOENCODING": encoding}
    shown = [command("train", *options, "--run", name, env=env).stdout.split("sample ")[-1],
             command("train", *options, "--run", name, env=env).stderr.split("--resume ")[-1].split(", or")[0]]
    for word in shown:
        done = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True)
        assert done.stdout.decode() == name


@pytest.mark.parametrize("columns", [30, 40, 59])
def test_help_fits_a_narrow_terminal(inside, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    for arguments in (["--help"], ["train", "--help"], ["sample", "--help"]):
        shown = inside(*arguments).stdout.splitlines()
        assert max(map(len, shown)) <= columns
    monkeypatch.setenv("COLUMNS", "40")
    assert re.search(r"  --warmup .*\n          Steps of linear warm-up.\n", inside("train", "--help").stdout)


@pytest.mark.parametrize("columns", [20, 40, 80])
def test_the_list_of_commands_has_whole_sentences(inside, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    words = inside("--help").stdout.split()
    for sentence in ("Train a character model.", "List the named models and their sizes, or take one apart."):
        assert sentence in " ".join(words)


def test_a_folder_that_is_gone_is_said(inside, monkeypatch):
    def gone():
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(os, "getcwd", gone)
    assert_refused(inside("train", "--text", "some.txt"), "the folder that this was started in is gone")


@pytest.mark.usefixtures("numba")
def test_numba_with_no_thread_is_no_reason_to_stop(trained, command):
    env = {"NUMBA_NUM_THREADS": "0", "TINYGRAD_TF_KERNELS": ""}
    done = command("sample", "run", "--prompt", "the cat", "--tokens", 5, env=env)
    assert done.returncode == 0
    assert done.stdout == command("sample", "run", "--prompt", "the cat", "--tokens", 5).stdout
    assert done.stderr.startswith("warning: numba cannot be used here (")
    assert "NUMBA_NUM_THREADS can be unset): ops go on in NumPy" in done.stderr
    assert done.stderr.count("\n") == 1
    done = command("sample", "run", env={**env, "TINYGRAD_TF_KERNELS": "numba"})
    assert_refused(done, "TINYGRAD_TF_KERNELS is numba, which cannot be used here", "NUMBA_NUM_THREADS can be unset")


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_takes_a_step(tmp_path, inside, text, preset):
    text.write_text(text.read_text() * 4)
    small = {"--steps": 1, "--batch-size": 1, "--n-layer": 1, "--n-embd": 48, "--eval-batches": 1, "--sample-tokens": 2}
    done = inside("train", "--preset", preset, "--text", text, *(part for pair in small.items() for part in pair))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "runs" / f"{preset}-1" / "sample.txt").exists()
