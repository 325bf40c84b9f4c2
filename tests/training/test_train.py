"""The training loop: what it promises about random numbers, resuming, accumulation, and the run folder."""

import errno
import io
import json
import math
import os
import signal
from dataclasses import asdict

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from tinygrad_tf import checkpoint, evaluation, helper, report, threads
from tinygrad_tf import train as training
from tinygrad_tf.data import IGNORE
from tinygrad_tf.evaluation import evaluate
from tinygrad_tf.generate import generate
from tinygrad_tf.gradients import add_gradients, shares
from tinygrad_tf.models.decoder import Decoder, DecoderConfig
from tinygrad_tf.run import Run, load_model
from tinygrad_tf.runfolder import CHECKPOINT, METRICS, RunError, locked
from tinygrad_tf.settings import TrainConfig
from tinygrad_tf.text import Vocabulary
from tinygrad_tf.train import resume, train

QUIET = report.Progress


@pytest.fixture(autouse=True)
def _few_pictures(request):
    if "pictures" not in request.fixturenames:
        request.getfixturevalue("no_pictures")


@pytest.fixture
def pictures():
    """For a test that looks at the curves."""


class StopAfter(report.Progress):
    """Presses Ctrl-C during a step."""

    def __init__(self, step):
        super().__init__()
        self.at = step

    def step(self, step, metrics):
        super().step(step, metrics)
        if step == self.at:
            signal.raise_signal(signal.SIGINT)


def straight_and_stopped(tmp_path, config, stops, **changes):
    """The folders of one run in one go and of the same run with stops."""
    train(config, tmp_path / "straight", QUIET())
    with pytest.raises(KeyboardInterrupt, match=f"stopped after step {stops[0]}"):
        train(config, tmp_path / "stopped", StopAfter(stops[0]))
    for stop in stops[1:]:
        with pytest.raises(KeyboardInterrupt, match=f"stopped after step {stop}"):
            resume(tmp_path / "stopped", StopAfter(stop))
    resume(tmp_path / "stopped", QUIET(), **changes)
    return tmp_path / "straight", tmp_path / "stopped"


@pytest.mark.parametrize("stops", [[1], [5], [6], [3, 4, 9], [10]])
def test_CK_02_stop_and_resume_is_the_straight_run_bit_for_bit(tmp_path, small, stops):
    """Parameters, moments, every random stream, metrics, sample: the checkpoints are the same bytes."""
    straight, stopped = straight_and_stopped(tmp_path, small(), stops)
    for name in (CHECKPOINT, METRICS, "sample.txt", "config.json"):
        assert (straight / name).read_bytes() == (stopped / name).read_bytes(), name


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_CK_02_with_accumulation_and_either_optimizer(tmp_path, small, optimizer):
    config = small(grad_accum=2, n_kv_head=1, tied=False, optimizer=optimizer)
    straight, stopped = straight_and_stopped(tmp_path, config, [7])
    assert (straight / CHECKPOINT).read_bytes() == (stopped / CHECKPOINT).read_bytes()


@pytest.mark.parametrize("who", ["threads", "processes"])
def test_CK_02_on_two_that_share_each_batch(tmp_path, small, monkeypatch, who):
    monkeypatch.setattr(threads, "SHARE", 1)
    monkeypatch.setattr(threads, "POSSIBLE", who == "processes" and helper.POSSIBLE)
    counts = []
    real = training.add_gradients
    monkeypatch.setattr(training, "add_gradients", lambda *batch: counts.append(shares(batch[0], 9)) or real(*batch))
    with threadpool_limits(2, user_api="blas"):
        straight, stopped = straight_and_stopped(tmp_path, small(dropout=0.2), [4])
    assert (straight / CHECKPOINT).read_bytes() == (stopped / CHECKPOINT).read_bytes()
    if set(counts) == {1}:
        pytest.skip("nothing here tells NumPy's products how many threads to use")
    assert set(counts) == {2}


def test_another_number_of_threads_is_told(tmp_path, small, monkeypatch):
    monkeypatch.setattr(training, "shares", lambda *given: 2)
    with pytest.raises(KeyboardInterrupt):
        train(small(), tmp_path / "run", StopAfter(3))
    told = "a batch had 2 parts before and has 1 now: sums differ in the last digits, and dropout falls elsewhere"
    for number, stop, lines in ((2, 5, []), (1, 7, [told]), (1, 9, [])):
        monkeypatch.setattr(training, "shares", lambda *given, number=number: number)
        display, said = StopAfter(stop), []
        display.say = said.append
        with pytest.raises(KeyboardInterrupt):
            resume(tmp_path / "run", display)
        assert [line for line in said if "parts" in line] == lines


SHAPES = {
    **{kind: {"positions": kind} for kind in ("learned", "sinusoidal", "sinusoidal_halves", "t5", "alibi", "none")},
    "rotary in a window": {"window": 3}, "t5 in a window": {"positions": "t5", "window": 2},
    "linear": {"attention": "linear", "positions": "learned"}, "linear, bare": {"attention": "linear", "positions": "none"},
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_CK_02_whatever_the_positions_and_the_attention(tmp_path, small, shape):
    """Trained, saved in the configuration, resumed, and sampled: it writes on from its cache as without one."""
    config = small(eval_every=0, **SHAPES[shape])
    straight, stopped = straight_and_stopped(tmp_path, config, [4])
    assert (straight / CHECKPOINT).read_bytes() == (stopped / CHECKPOINT).read_bytes()
    saved = json.loads((straight / "config.json").read_text())
    assert saved == config.to_json()
    assert SHAPES[shape].items() <= saved.items()
    model, vocabulary = load_model(straight)
    assert SHAPES[shape].items() <= asdict(model.config).items()
    start = vocabulary.encode("the cat")
    written = [list(generate(model, start, 12, temperature=0, cache=cache)) for cache in (True, False)]
    assert written[0] == written[1]


def test_muons_momentum_is_a_setting_and_a_resumed_run_keeps_it(tmp_path, small):
    config = small(optimizer="muon", muon_momentum=0.5)
    straight, stopped = straight_and_stopped(tmp_path, config, [4])
    assert (straight / CHECKPOINT).read_bytes() == (stopped / CHECKPOINT).read_bytes()
    assert [o.param_groups[0].get("momentum") for o in Run.load(stopped).optimizer.optimizers] == [0.5, None]


def test_muon_leaves_the_table_of_t5_alone(small):
    """It makes matrices that map vectors orthogonal; a table of numbers for scores is none."""
    run = Run.new(small(positions="t5", optimizer="muon"), Vocabulary("abc"), "")
    moved = {id(p) for group in run.optimizer.optimizers[0].param_groups for p in group["params"]}
    named = dict(run.model.named_parameters())
    assert id(named["blocks.0.attn.positions.weight"]) not in moved
    assert id(named["blocks.0.attn.q_proj.weight"]) in moved


def test_CK_02_a_crash_loses_only_the_steps_since_the_last_checkpoint(tmp_path, small):
    class Crash(report.Progress):
        def step(self, step, metrics):
            if step == 8:
                os.replace = None  # nothing more can be saved

    replace = os.replace
    try:
        with pytest.raises(TypeError):
            train(small(), tmp_path / "crashed", Crash())
    finally:
        os.replace = replace
    assert checkpoint.load(tmp_path / "crashed" / CHECKPOINT)[1]["step"] == 5
    assert len((tmp_path / "crashed" / METRICS).read_text().splitlines()) > 5
    resume(tmp_path / "crashed", QUIET())
    train(small(), tmp_path / "straight", QUIET())
    for name in (CHECKPOINT, METRICS):
        assert (tmp_path / "crashed" / name).read_bytes() == (tmp_path / "straight" / name).read_bytes(), name


def trained(config, folder):
    return {name: tensor.array.copy() for name, tensor in train(config, folder, QUIET()).model.state_dict().items()}


def test_CK_02_looking_changes_nothing(tmp_path, small):
    """Evaluations and samples, often or never, leave the parameters as they would be."""
    looks = [{"eval_every": 1, "sample_every": 1}, {"eval_every": 0, "sample_every": 0}, {"eval_every": 10, "eval_batches": 7}]
    first, *others = [trained(small(**look), tmp_path / str(i)) for i, look in enumerate(looks)]
    for other in others:
        assert all(np.array_equal(first[name], other[name]) for name in first)


def test_the_same_run_twice_gives_the_same_bytes_and_another_seed_does_not(tmp_path, small):
    files = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train(small(seed=seed), tmp_path / name, QUIET())
        files.append((tmp_path / name / CHECKPOINT).read_bytes())
    assert files[0] == files[1] != files[2]


def test_the_run_folder(tmp_path, small, pictures):
    run = train(small(), tmp_path / "run", QUIET())
    assert sorted(os.listdir(tmp_path / "run")) == [
        ".lock", "checkpoint.safetensors", "config.json", "loss.png", "loss.svg", "metrics.jsonl", "sample.txt"]
    assert TrainConfig.from_json(json.loads((tmp_path / "run" / "config.json").read_text())) == run.config == small()
    lines = [json.loads(line) for line in (tmp_path / "run" / METRICS).read_text().splitlines()]
    assert [line["step"] for line in lines] == [*range(1, 11), 10]
    assert [line["step"] for line in lines if "val_loss" in line] == [3, 6, 9]
    assert lines[-1].keys() == {"step", "final_val_loss"}
    assert lines[0].keys() == {"step", "loss", "lr", "grad_norm"}
    assert (tmp_path / "run" / "sample.txt").read_text(encoding="utf-8") == run.sample + "\n"


def test_every_number_stays_float32(tmp_path, small):
    run = train(small(), tmp_path / "run", QUIET())
    arrays, _ = checkpoint.load(tmp_path / "run" / CHECKPOINT)
    assert len(arrays) > 3 * 8
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.float32)}
    assert {p.dtype for p in run.model.parameters()} == {np.dtype(np.float32)}


def test_it_learns(tmp_path, small):
    config = small(steps=150, lr=1e-2, dropout=0.0, eval_every=0, sample_every=0, checkpoint_every=0)
    run = train(config, tmp_path / "run", QUIET())
    losses = [line["loss"] for line in run.history if "loss" in line]
    assert losses[0] == pytest.approx(math.log(len(run.vocabulary)), abs=0.1)
    assert run.history[-1]["final_val_loss"] < 1.2


# ------------------------------------------------------------------------------------------------ accumulation


def model_and_batch():
    model = Decoder(DecoderConfig(vocab_size=11, block_size=6, n_layer=1, n_head=2, n_embd=8), np.random.default_rng(0))
    ids = np.random.default_rng(1).integers(0, 11, (6, 7))
    for p in model.parameters():
        p.array = p.array.astype(np.float64)
    return model, ids[:, :-1], ids[:, 1:].copy()


def gradients(model):
    return {name: p.grad.numpy().copy() for name, p in model.named_parameters()}


@pytest.mark.parametrize("parts", [2, 3, 6])
@pytest.mark.parametrize("ignored", [0, 1, 11])
def test_OP_07_accumulation_is_the_gradient_of_the_big_batch(parts, ignored):
    """Also when slices differ in how many targets they keep."""
    model, x, y = model_and_batch()
    y[0, :6] = y[1, :5] = IGNORE if ignored == 11 else y[0, 0]
    y.reshape(-1)[:ignored] = IGNORE
    loss = add_gradients(model, x, y, 1)
    whole = gradients(model)
    model.zero_grad()
    assert add_gradients(model, x, y, parts) == pytest.approx(loss, rel=1e-12)
    for name, gradient in gradients(model).items():
        np.testing.assert_allclose(gradient, whole[name], rtol=1e-9, atol=1e-12, err_msg=name)
    assert loss == pytest.approx(model.loss(x, y).item(), rel=1e-12)


def test_OP_07_a_run_with_accumulation_sees_the_same_batches(tmp_path, small):
    big = train(small(batch_size=8, dropout=0.0, eval_every=0), tmp_path / "big", QUIET())
    parts = train(small(batch_size=4, grad_accum=2, dropout=0.0, eval_every=0), tmp_path / "parts", QUIET())
    losses = [[line["loss"] for line in run.history[:10]] for run in (big, parts)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_OP_05_the_schedule_as_it_is_run(tmp_path, small):
    run = train(small(steps=4, warmup=2, lr=1e-2, min_lr=1e-3), tmp_path / "a", QUIET())
    assert [line["lr"] for line in run.history[:4]] == pytest.approx([5e-3, 1e-2, 5.5e-3, 1e-3])
    run = train(small(steps=6, warmup=2, lr=1e-2, min_lr=2e-3, schedule="linear"), tmp_path / "d", QUIET())
    assert [line["lr"] for line in run.history[:6]] == pytest.approx([5e-3, 1e-2, 8e-3, 6e-3, 4e-3, 2e-3])
    run = train(small(steps=3, warmup=3, lr=1e-2), tmp_path / "b", QUIET())
    assert [line["lr"] for line in run.history[:3]] == pytest.approx([1e-2 / 3, 2e-2 / 3, 1e-2])
    assert train(small(steps=1, warmup=0), tmp_path / "c", QUIET()).history[0]["lr"] >= 0


def test_LY_07_evaluation_has_no_dropout_and_gives_the_mode_back():
    config = DecoderConfig(vocab_size=5, block_size=4, n_layer=1, n_head=1, n_embd=4, dropout=0.5)
    model = Decoder(config, np.random.default_rng(0))
    x = np.array([[1, 2, 3, 4]])
    y = np.array([[2, 3, 4, 0]])
    assert evaluate(model, [(x, y)]) == evaluate(model, [(x, y)]) == pytest.approx(model.eval().loss(x, y).item())
    model.train()
    with pytest.raises(IndexError):
        evaluate(model, [(x, y), (x + 4, y)])
    assert all(module.training for module in model.modules())


# ------------------------------------------------------------------------------------------------ what can go wrong


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_checkpoint(tmp_path, small, monkeypatch):
    real = training.add_gradients
    losses = [1.0] * 6 + [math.nan]
    monkeypatch.setattr(training, "add_gradients", lambda *batch: real(*batch) * losses.pop(0))
    with pytest.raises(RunError, match=r"the loss is nan .* at step 7; the last checkpoint in .* is whole"):
        train(small(), tmp_path / "run", QUIET())
    state = checkpoint.load(tmp_path / "run" / CHECKPOINT)[1]
    assert (state["step"], len(state["history"])) == (5, 5)


def test_a_learning_rate_that_explodes_ends_in_one_line_without_warnings(tmp_path, small, recwarn):
    for optimizer, named in (("adamw", "--lr"), ("muon", "--lr or --muon-lr")):
        with pytest.raises(RunError, match=f"a smaller {named} or a longer --warmup keeps"):
            train(small(optimizer=optimizer, lr=1e30, warmup=0, clip=0.0, steps=40), tmp_path / optimizer, QUIET())
    assert not recwarn.list


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path, small, monkeypatch):
    real, writes = os.fsync, []

    def full(descriptor):
        writes.append(descriptor)
        if len(writes) > 9:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=f"run/{CHECKPOINT}: No space left on device; the last checkpoint is whole"):
        train(small(checkpoint_every=1), tmp_path / "run", QUIET())
    monkeypatch.undo()
    done = Run.load(tmp_path / "run" / CHECKPOINT).step
    assert 0 < done < 10
    resume(tmp_path / "run", QUIET())
    train(small(checkpoint_every=1), tmp_path / "straight", QUIET())
    assert (tmp_path / "run" / CHECKPOINT).read_bytes() == (tmp_path / "straight" / CHECKPOINT).read_bytes()


def test_a_full_disk_while_a_line_is_written(tmp_path, small, monkeypatch):
    class Full:
        def write(self, text):
            raise OSError(errno.ENOSPC, "No space left on device")

        def __enter__(self):
            return self

        def __exit__(self, *error):
            self.write("")  # closing flushes

    monkeypatch.setattr(training, "open", lambda *args, **settings: Full(), raising=False)
    with pytest.raises(RunError, match=f"{METRICS}: No space left on device"):
        train(small(), tmp_path / "run", QUIET())
    assert Run.load(tmp_path / "run" / CHECKPOINT).step == 0


def test_two_runs_on_one_folder(tmp_path, small):
    (tmp_path / "run").mkdir()
    with locked(tmp_path / "run"), pytest.raises(RunError, match="in use by process"):
        train(small(), tmp_path / "run", QUIET())
    train(small(), tmp_path / "run", QUIET())
    with pytest.raises(RunError, match="already holds a run; continue it with --resume"):
        train(small(), tmp_path / "run", QUIET())
    with locked(tmp_path / "run"), pytest.raises(RunError, match="in use by process"):
        resume(tmp_path / "run", QUIET())


def test_a_faulty_configuration_leaves_no_folder(tmp_path, small):
    with pytest.raises(RunError, match="too short"):
        train(small(block_size=500), tmp_path / "run", QUIET())
    assert not (tmp_path / "run").exists()


def test_runs_without_a_name_are_counted(tmp_path, small, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        train(small(steps=1), None, QUIET())
    assert sorted(os.listdir("runs")) == ["tiny-1", "tiny-2"]


def test_resume_with_more_steps_and_what_cannot_change(tmp_path, small):
    train(small(), tmp_path / "run", QUIET())
    with pytest.raises(RunError, match="--lr cannot change when a run is resumed; these can: --text, --steps, "):
        resume(tmp_path / "run", QUIET(), lr=1.0)
    with pytest.raises(RunError, match="has already done 10 steps; --steps cannot be 9"):
        resume(tmp_path / "run", QUIET(), steps=9)
    run = resume(tmp_path / "run", QUIET(), steps=14, eval_every=2, lr=small().lr, seed=0)  # the last two are as they were
    assert [line["step"] for line in run.history] == [*range(1, 11), 10, *range(11, 15), 14]
    assert json.loads((tmp_path / "run" / "config.json").read_text())["steps"] == 14


def test_resuming_a_finished_run_makes_its_pictures_again(tmp_path, small, pictures):
    train(small(), tmp_path / "run", QUIET())
    before = {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    for name in ("loss.svg", "loss.png", "sample.txt", "config.json", "metrics.jsonl"):
        (tmp_path / "run" / name).unlink()
    resume(tmp_path / "run", QUIET())
    assert {path.name: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_resume_on_another_text_is_refused(tmp_path, small, text):
    with pytest.raises(KeyboardInterrupt):
        train(small(), tmp_path / "run", StopAfter(2))
    text.write_text(text.read_text().replace("cat", "rat"))
    with pytest.raises(RunError, match="is not the text that"):
        resume(tmp_path / "run", QUIET())


def test_resume_with_a_text_that_has_moved(tmp_path, small, text):
    straight = train(small(), tmp_path / "straight", QUIET())
    with pytest.raises(KeyboardInterrupt):
        train(small(), tmp_path / "run", StopAfter(2))
    with pytest.raises(KeyboardInterrupt):
        resume(tmp_path / "run", StopAfter(4), text=str(text))  # the same place
    moved = text.rename(tmp_path / "moved.txt")
    with pytest.raises(RunError, match=f"the text of .* is not at {text}; if it has moved, --text names its new place"):
        resume(tmp_path / "run", QUIET())
    other = tmp_path / "other.txt"
    other.write_text(moved.read_text() + "x")
    with pytest.raises(RunError, match=f"{other} is not the text that"):
        resume(tmp_path / "run", QUIET(), text=str(other))
    run = resume(tmp_path / "run", QUIET(), text=str(moved))
    assert (run.history, run.sample) == (straight.history, straight.sample)
    assert run.config == small(text=str(moved))
    resume(tmp_path / "run", QUIET())  # it knows the new place


@pytest.mark.parametrize(("written", "words"), [
    ({"lr": 5, "steps": 99}, "config.json has steps 99, not 10; lr 5, not 0.01: the checkpoint counts and overwrites it"),
    (3, "config.json has no settings that can be read: the checkpoint counts"),
    ({}, ""),
])
def test_resume_says_that_a_config_edited_by_hand_is_not_read(tmp_path, small, written, words):
    with pytest.raises(KeyboardInterrupt):
        train(small(), tmp_path / "run", StopAfter(2))
    path = tmp_path / "run" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **written} if type(written) is dict else written))
    stream = io.StringIO()
    run = resume(tmp_path / "run", report.Lines(stream))
    assert [line for line in stream.getvalue().splitlines() if "the checkpoint counts" in line and words in line] or not words
    assert ("the checkpoint counts" in stream.getvalue()) is bool(words)
    assert TrainConfig.from_json(json.loads(path.read_text())) == run.config == small()


def test_resume_from_another_folder(tmp_path, small, text, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        train(small(text=text.name), "run", StopAfter(2))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert resume("../run", QUIET()).step == 10


@pytest.fixture
def listening():
    """A program that is started in the background may have been told to ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listening")
def test_a_second_ctrl_c_leaves_at_once(tmp_path, small):
    class Twice(report.Progress):
        def step(self, step, metrics):
            if step == 7:
                signal.raise_signal(signal.SIGINT)
                signal.raise_signal(signal.SIGINT)
                raise AssertionError("still here")

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt) as stopped:
        train(small(), tmp_path / "run", Twice())
    run = tmp_path / "run"
    assert str(stopped.value) == f"interrupted; the last checkpoint in {run} is whole: go on with --resume {run}"
    assert signal.getsignal(signal.SIGINT) is handler
    assert Run.load(tmp_path / "run" / CHECKPOINT).step == 5


@pytest.mark.usefixtures("listening")
def test_ctrl_c_in_the_evaluation_at_the_end(tmp_path, small, monkeypatch):
    run, seen = tmp_path / "run", []

    def windows(*args):
        for batch in real(*args):
            seen.append(batch)
            if len(seen) == 2:
                signal.raise_signal(signal.SIGINT)
            yield batch

    real = evaluation.windows
    monkeypatch.setattr(evaluation, "windows", windows)
    with pytest.raises(KeyboardInterrupt) as stopped:
        train(small(), run, QUIET())
    assert str(stopped.value) == ("stopped in the evaluation after step 10, the last one, which is saved; the rest is done by: "
                                  f"tinygrad-tf train --resume {run}")  # fmt: skip
    assert len(seen) <= 2 + threads.count()
    assert Run.load(run / CHECKPOINT).step == 10
    monkeypatch.undo()
    resumed = resume(run, QUIET())
    straight = train(small(), tmp_path / "straight", QUIET())
    assert resumed.history == straight.history
    assert resumed.sample == straight.sample


@pytest.mark.parametrize(("settings", "words"), [
    ({"n_layer": 10**7}, "parameters, their gradients and moments would take .* a smaller --n-layer or --n-embd needs less"),
    ({"n_embd": 2**30, "n_head": 1}, "parameters, their gradients and moments would take"),
    ({"grad_accum": 10**10}, "tokens of a step and their targets would take .* --grad-accum or --block-size needs less"),
    ({"batch_size": 10**12}, "tokens of a step and their targets would take"),
])  # fmt: skip
def test_what_no_memory_can_hold_is_said_at_once(tmp_path, small, settings, words):
    with pytest.raises(RunError, match=words):
        train(small(**settings), tmp_path / "run", QUIET())
    assert not (tmp_path / "run").exists()


def test_in_another_thread_ctrl_c_is_left_alone(tmp_path, small):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(train, small(), tmp_path / "run", QUIET()).result().step == 10


def test_resume_takes_no_loose_checkpoint_file(tmp_path):
    """Resuming writes a run folder: a file that lies among somebody's others is refused, and they stay as they are."""
    (tmp_path / "old.safetensors").write_bytes(b"whatever")
    (tmp_path / "config.json").write_text("mine")
    with pytest.raises(RunError, match="is no run folder"):
        resume(tmp_path / "old.safetensors")
    assert (tmp_path / "config.json").read_text() == "mine"
