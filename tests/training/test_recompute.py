"""`--recompute` in a training run: the same run, bit for bit, with or without, from the start or from a checkpoint on."""

import json

import pytest

from tinygrad_tf import nn
from tinygrad_tf.run import Run
from tinygrad_tf.settings import TrainConfig
from tinygrad_tf.train import resume, train

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture
def config(text):
    return TrainConfig(text=str(text), block_size=16, n_layer=2, n_head=2, n_embd=16, steps=4, batch_size=4, dropout=0.1,
                       warmup=1, eval_every=2, eval_batches=1, sample_every=0, sample_tokens=5, checkpoint_every=2)  # fmt: skip


@pytest.fixture
def calls(monkeypatch):
    """How many blocks were called through nn.checkpoint."""
    real, seen = nn.checkpoint, []
    monkeypatch.setattr(nn, "checkpoint", lambda *args, **kwargs: (seen.append(args[0]), real(*args, **kwargs))[1])
    return seen


def losses(run):
    return [line.get("loss") for line in run.history], run.history[-1]["final_val_loss"], run.sample


def test_the_run_is_the_same_and_says_how_it_was_made(tmp_path, calls, config):
    plain = train(config, tmp_path / "plain")
    assert calls == []
    again = train(config.changed(recompute=True), tmp_path / "again")
    assert len(calls) == 4 * 2
    assert losses(again) == losses(plain)
    for (name, a), b in zip(plain.model.state_dict().items(), again.model.state_dict().values(), strict=True):
        assert a.array.tobytes() == b.array.tobytes(), name
    assert json.loads((tmp_path / "again" / "config.json").read_text())["recompute"] is True


def test_a_resumed_run_may_change_it(tmp_path, calls, config):
    whole = train(config.changed(steps=6), tmp_path / "whole")
    train(config.changed(steps=6, recompute=True), tmp_path / "parts")
    calls.clear()
    longer = resume(tmp_path / "parts", steps=8)
    assert len(calls) == 2 * 2
    assert longer.config.recompute
    calls.clear()
    resume(tmp_path / "whole", recompute=True, steps=8)
    assert len(calls) == 2 * 2
    assert losses(Run.load(tmp_path / "whole")) == losses(longer)
    calls.clear()
    resume(tmp_path / "whole", recompute=False, steps=9)
    assert calls == []
    assert whole.step == 6


def test_it_belongs_to_the_training_and_not_to_a_model_that_goes_on_learning(tmp_path, calls, config):
    train(config.changed(recompute=True), tmp_path / "first")
    calls.clear()
    run = train(config.changed(init_from=str(tmp_path / "first"), steps=2), tmp_path / "second")
    assert calls == []
    assert run.config.recompute is run.model.config.recompute is False
    run = train(config.changed(init_from=str(tmp_path / "second"), steps=2, recompute=True), tmp_path / "third")
    assert len(calls) == 2 * 2
    assert Run.load(tmp_path / "third").model.config.recompute


def test_a_run_from_before_there_was_the_setting_still_loads(config):
    old = config.to_json()
    del old["recompute"]
    assert TrainConfig.from_json(old) == config
