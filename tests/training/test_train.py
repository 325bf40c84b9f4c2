"""The training loop: what it promises about random numbers, resuming, accumulation, and the run folder."""

import errno
import json
import math
import os
import signal

import numpy as np
import pytest

from tinygrad_tf import checkpoint, report, train as training
from tinygrad_tf.data import load_corpus
from tinygrad_tf.models.decoder import Decoder, DecoderConfig
from tinygrad_tf.run import Run, load_model
from tinygrad_tf.runfolder import CHECKPOINT, METRICS, RunError, locked
from tinygrad_tf.settings import PRESETS, TrainConfig
from tinygrad_tf.train import add_gradients, evaluate, resume, train

QUIET = report.Progress


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
    for name in (CHECKPOINT, METRICS, "sample.txt", "config.json", "loss.svg"):
        assert (straight / name).read_bytes() == (stopped / name).read_bytes(), name


def test_CK_02_with_accumulation(tmp_path, small):
    straight, stopped = straight_and_stopped(tmp_path, small(grad_accum=2, n_kv_head=1, tied=False), [7])
    assert (straight / CHECKPOINT).read_bytes() == (stopped / CHECKPOINT).read_bytes()


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


def test_the_run_folder(tmp_path, small):
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
    run = train(small(steps=150, lr=1e-2, dropout=0.0, eval_every=0, sample_every=0, checkpoint_every=0), tmp_path / "run", QUIET())
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
    y[0, :6] = y[1, :5] = training.IGNORE if ignored == 11 else y[0, 0]
    y.reshape(-1)[:ignored] = training.IGNORE
    loss = add_gradients(model, x, y, 1)
    whole = gradients(model)
    model.zero_grad()
    assert add_gradients(model, x, y, parts) == pytest.approx(loss, rel=1e-12)
    for name, gradient in gradients(model).items():
        np.testing.assert_allclose(gradient, whole[name], rtol=1e-9, atol=1e-12, err_msg=name)
    assert loss == pytest.approx(model.loss(x, y).item(), rel=1e-12)


class Means:
    """A model whose loss is a number that its input holds."""

    def modules(self):
        return []

    def eval(self):
        pass

    def loss(self, x, y):
        from tinygrad_tf import Tensor

        return Tensor(np.float64(x.max()), requires_grad=True) * 1.0


def test_OP_07_means_count_by_their_tokens():
    batches = [(np.full((1, 10), 1.0), np.zeros((1, 10))), (np.full((1, 100), 2.0), np.zeros((1, 100)))]
    assert evaluate(Means(), batches) == pytest.approx(1.909091, abs=1e-6)
    x, y = np.ones((2, 100)), np.zeros((2, 100))
    x[1], y[0, 10:] = 2.0, training.IGNORE
    assert add_gradients(Means(), x, y, 2) == pytest.approx(1.909091, abs=1e-6)


def test_OP_07_a_run_with_accumulation_sees_the_same_batches(tmp_path, small):
    big = train(small(batch_size=8, dropout=0.0, eval_every=0), tmp_path / "big", QUIET())
    parts = train(small(batch_size=4, grad_accum=2, dropout=0.0, eval_every=0), tmp_path / "parts", QUIET())
    losses = [[line["loss"] for line in run.history[:10]] for run in (big, parts)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_OP_05_the_schedule_as_it_is_run(tmp_path, small):
    run = train(small(steps=4, warmup=2, lr=1e-2, min_lr=1e-3), tmp_path / "a", QUIET())
    assert [line["lr"] for line in run.history[:4]] == pytest.approx([5e-3, 1e-2, 5.5e-3, 1e-3])
    run = train(small(steps=3, warmup=3, lr=1e-2), tmp_path / "b", QUIET())
    assert [line["lr"] for line in run.history[:3]] == pytest.approx([1e-2 / 3, 2e-2 / 3, 1e-2])
    assert train(small(steps=1, warmup=0), tmp_path / "c", QUIET()).history[0]["lr"] >= 0


def test_LY_07_evaluation_has_no_dropout_and_gives_the_mode_back():
    model = Decoder(DecoderConfig(vocab_size=5, block_size=4, n_layer=1, n_head=1, n_embd=4, dropout=0.5), np.random.default_rng(0))
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
    monkeypatch.setattr(training, "add_gradients", lambda model, x, y, parts: real(model, x, y, parts) * (math.nan if calls.pop() else 1))
    calls = [True, *[False] * 6]
    with pytest.raises(RunError, match=r"the loss is nan .* at step 7; the last checkpoint in .* is whole"):
        train(small(), tmp_path / "run", QUIET())
    state = checkpoint.load(tmp_path / "run" / CHECKPOINT)[1]
    assert (state["step"], len(state["history"])) == (5, 5)


def test_a_learning_rate_that_explodes_ends_in_one_line_without_warnings(tmp_path, small, recwarn):
    with pytest.raises(RunError, match="a smaller --lr"):
        train(small(lr=1e30, warmup=0, clip=0.0, steps=40), tmp_path / "run", QUIET())
    assert not recwarn.list


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path, small, monkeypatch):
    real, writes = os.fsync, []

    def full(descriptor):
        writes.append(descriptor)
        if len(writes) > 9:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RunError, match=f"{tmp_path / 'run'}: No space left on device; the last checkpoint is whole"):
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
    with pytest.raises(RunError, match="No space left on device"):
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
    with pytest.raises(RunError, match="lr cannot change when a run is resumed; these can: steps, "):
        resume(tmp_path / "run", QUIET(), lr=1.0)
    with pytest.raises(RunError, match="has already done 10 steps; steps cannot be 9"):
        resume(tmp_path / "run", QUIET(), steps=9)
    run = resume(tmp_path / "run", QUIET(), steps=14, eval_every=2)
    assert [line["step"] for line in run.history] == [*range(1, 11), 10, *range(11, 15), 14]
    assert json.loads((tmp_path / "run" / "config.json").read_text())["steps"] == 14


def test_resuming_a_finished_run_makes_its_pictures_again(tmp_path, small):
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


def test_resume_from_another_folder(tmp_path, small, text, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        train(small(text=text.name), "run", StopAfter(2))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert resume("../run", QUIET()).step == 10


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
    assert not str(stopped.value)
    assert signal.getsignal(signal.SIGINT) is handler
    assert Run.load(tmp_path / "run" / CHECKPOINT).step == 5


def test_in_another_thread_ctrl_c_is_left_alone(tmp_path, small):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(train, small(), tmp_path / "run", QUIET()).result().step == 10


# ------------------------------------------------------------------------------------------------ checkpoints of runs


@pytest.fixture
def saved(tmp_path, small):
    train(small(steps=2), tmp_path / "run", QUIET())
    return tmp_path / "run" / CHECKPOINT


def test_WT_03_the_tied_matrix_is_saved_once_and_stays_tied(saved):
    arrays, _ = checkpoint.load(saved)
    assert "token_embedding.weight" in arrays
    assert "lm_head.weight" not in arrays
    model, _ = load_model(saved)
    assert model.lm_head.weight is model.token_embedding.weight
    assert np.array_equal(model.lm_head.weight.numpy() if not model.lm_head.weight.requires_grad
                          else model.lm_head.weight.array, arrays["token_embedding.weight"])


def rewritten(saved, change):
    arrays, state = checkpoint.load(saved)
    change(arrays, state)
    checkpoint.save(saved, arrays, state)


def test_WT_03_two_differing_matrices_for_a_tied_model(saved):
    def untie(arrays, state):
        arrays["lm_head.weight"] = arrays["token_embedding.weight"] + 1

    rewritten(saved, untie)
    with pytest.raises(checkpoint.CheckpointError, match=r"token_embedding\.weight and lm_head\.weight differ, here they are one tensor"):
        load_model(saved)
    rewritten(saved, lambda arrays, state: arrays.update({"lm_head.weight": arrays["token_embedding.weight"]}))
    load_model(saved)
    rewritten(saved, lambda arrays, state: arrays.pop("token_embedding.weight"))
    load_model(saved)  # either name will do


def test_everything_that_does_not_fit_is_named_before_anything_is_written(saved):
    arrays, _ = checkpoint.load(saved)
    model, _ = load_model(saved)
    before = {name: tensor.array.copy() for name, tensor in model.state_dict().items()}
    parameters = {name: array + 1 for name, array in arrays.items() if not name.startswith("optimizer.")}
    parameters["extra"] = parameters.pop("norm.weight")
    parameters["token_embedding.weight"] = parameters["token_embedding.weight"][:-1]
    with pytest.raises(checkpoint.CheckpointError) as caught:
        checkpoint.unpack_model(model, parameters)
    for word in ("norm.weight", "extra", "token_embedding.weight"):
        assert word in str(caught.value)
    assert all(np.array_equal(before[name], tensor.array) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize(("key", "value", "word"), [
    ("config", None, "configuration"),
    ("config", {"steps": 1}, "missing or unknown settings"),
    ("vocabulary", ["ab"], "vocabulary"),
    ("streams", {}, "init"),
    ("streams", dict.fromkeys(("init", "batches", "dropout", "evaluation", "sampling"), {"bit_generator": "PCG64"}), "state"),
    ("optimizer", {}, "optimizer"),
    ("optimizer", {"norm.weight": {"step": None}}, "optimizer"),
    ("optimizer", 3, "optimizer"),
    ("step", "2", "step"),
    ("history", [{"step": "<b>"}], "history"),
    ("history", 3, "int"),
    ("sample", None, "sample"),
])
def test_a_state_that_training_never_wrote(saved, key, value, word):
    rewritten(saved, lambda arrays, state: state.update({key: value}))
    with pytest.raises(checkpoint.CheckpointError, match=word) as caught:
        Run.load(saved)
    assert str(caught.value).startswith(str(saved))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("setting", [{"n_embd": 2**20}, {"n_layer": 10**9}, {"n_hidden": 10**12}, {"positions": "learned", "block_size": 10**12}])
def test_a_strangers_configuration_takes_no_memory(saved, setting):
    rewritten(saved, lambda arrays, state: state["config"].update(setting))
    with pytest.raises(checkpoint.CheckpointError, match="more than the .* numbers in the file"):
        Run.load(saved)


def test_moments_of_another_shape(saved):
    def turn(arrays, state):
        name = next(name for name in arrays if name.startswith("optimizer."))
        arrays[name] = arrays[name].reshape(-1, 1, 1)

    rewritten(saved, turn)
    with pytest.raises(checkpoint.CheckpointError, match="shape"):
        Run.load(saved)


# ------------------------------------------------------------------------------------------------ settings


def test_presets_are_named_and_nanogpts_is_to_the_letter():
    assert all(config.preset == name for name, config in PRESETS.items())
    c = PRESETS["nanogpt-char-cpu"]
    assert (c.n_layer, c.n_head, c.n_embd, c.block_size, c.batch_size, c.steps) == (4, 4, 128, 64, 12, 2000)
    assert (c.lr, c.min_lr, c.beta1, c.beta2, c.weight_decay, c.warmup, c.clip) == (1e-3, 1e-4, 0.9, 0.99, 0.1, 100, 1.0)
    assert (c.bias, c.ffn, c.positions, c.tied, c.dropout, c.norm) == (False, "gelu", "learned", True, 0.0, "layer")
    assert (c.qk_norm, c.zero_init, c.init_std, c.layer_scale, c.grad_accum) == (False, False, 0.02, None, 1)
    b = PRESETS["baby"]
    assert (b.n_layer, b.n_head, b.n_embd, b.block_size, b.batch_size, b.dropout) == (6, 6, 384, 256, 8, 0.2)


def test_nanogpts_start():
    """N(0, 0.02), residual projections smaller by sqrt(2 n_layer); decay on matrices only."""
    run = Run.new(PRESETS["nanogpt-char-cpu"], load_corpus().vocabulary, "")
    for name, p in run.model.named_parameters():
        std = 1.0 if p.ndim == 1 else 0.02 / math.sqrt(8) if name.endswith(("out_proj.weight", "down.weight")) else 0.02
        if p.ndim == 2:
            assert p.array.std() == pytest.approx(std, rel=0.05), name
        else:
            assert (p.array == 1).all(), name
    decays = {p.ndim: group["weight_decay"] for group in run.optimizer.param_groups for p in group["params"]}
    assert decays == {1: 0.0, 2: 0.1}


@pytest.mark.parametrize(("setting", "words"), [
    ({"n_embd": 10, "n_head": 3}, ("10", "3", "n_embd", "n_head")),
    ({"norm": "batch"}, ("norm", "layer or rms")),
    ({"steps": 0}, ("steps", "1")),
    ({"steps": 1.5}, ("steps", "whole number")),
    ({"steps": True}, ("steps", "whole number")),
    ({"bias": 1}, ("bias", "true or false")),
    ({"lr": math.nan}, ("lr", "nan")),
    ({"lr": "1"}, ("lr", "number")),
    ({"min_lr": 1.0}, ("min_lr", "lr")),
    ({"beta2": 1.0}, ("beta2",)),
    ({"dropout": 1.0}, ("dropout",)),
    ({"eval_overlap": 64, "block_size": 64}, ("eval_overlap", "block_size")),
    ({"n_kv_head": 3}, ("n_kv_head",)),
    ({"seed": -1}, ("seed",)),
    ({"text": None}, ("text",)),
])
def test_a_bad_setting_is_named(setting, words):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the words follow
        TrainConfig(**setting)
    for word in words:
        assert word in str(caught.value)


def test_a_configuration_survives_json():
    for config in PRESETS.values():
        assert TrainConfig.from_json(json.loads(json.dumps(config.to_json()))) == config
