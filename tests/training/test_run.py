"""The checkpoint of a run: the tied matrix, what does not fit, what a stranger may have written."""

import numpy as np
import pytest

from tinygrad_tf import checkpoint, report
from tinygrad_tf.run import STREAMS, Run, load_model
from tinygrad_tf.runfolder import CHECKPOINT
from tinygrad_tf.train import train


@pytest.fixture
def saved(tmp_path, small, no_pictures):
    train(small(steps=2), tmp_path / "run", report.Progress())
    return tmp_path / "run" / CHECKPOINT


def test_WT_03_the_tied_matrix_is_saved_once_and_stays_tied(saved):
    arrays, _ = checkpoint.load(saved)
    assert "token_embedding.weight" in arrays
    assert "lm_head.weight" not in arrays
    model, _ = load_model(saved)
    assert model.lm_head.weight is model.token_embedding.weight
    assert np.array_equal(model.lm_head.weight.array, arrays["token_embedding.weight"])


def rewritten(saved, change):
    arrays, state = checkpoint.load(saved)
    change(arrays, state)
    checkpoint.save(saved, arrays, state)


def test_WT_03_two_differing_matrices_for_a_tied_model(saved):
    def untie(arrays, state):
        arrays["lm_head.weight"] = arrays["token_embedding.weight"] + 1

    rewritten(saved, untie)
    with pytest.raises(checkpoint.CheckpointError, match=r"token_embedding\.weight and lm_head\.weight differ"):
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
    ("config", {"stepz": 1}, "settings that this version does not know: stepz; a newer version of tinygrad-tf wrote it"),
    ("config", {"steps": 0}, "steps must be at least 1"),
    ("vocabulary", ["ab"], "vocabulary"),
    ("streams", {}, "init"),
    ("streams", {name: {"bit_generator": "PCG64"} for name in STREAMS}, "state"),
    ("optimizer", {}, "optimizer"),
    ("optimizer", {"norm.weight": {"step": None}}, "optimizer"),
    ("optimizer", 3, "optimizer"),
    ("step", "2", "step"),
    ("history", [{"step": "<b>"}], "history"),
    ("history", 3, "int"),
    ("sample", None, "sample"),
    ("start", 3, "start"),
    ("start", "\u2603", "not in the vocabulary"),
])
def test_a_state_that_training_never_wrote(saved, key, value, word):
    rewritten(saved, lambda arrays, state: state.update({key: value}))
    with pytest.raises(checkpoint.CheckpointError, match=word) as caught:
        Run.load(saved)
    assert str(caught.value).startswith(str(saved))
    assert "\n" not in str(caught.value)


def test_CK_03_a_checkpoint_from_before_a_setting_was_there(saved):
    def age(arrays, state):
        del state["config"]["clip"], state["config"]["qk_norm"], state["start"]

    rewritten(saved, age)
    run = Run.load(saved)
    assert (run.config.clip, run.config.qk_norm, run.start) == (1.0, True, "\n")


@pytest.mark.parametrize("setting", [
    {"n_embd": 2**20}, {"n_layer": 10**9}, {"n_hidden": 10**12}, {"positions": "learned", "block_size": 10**12},
])
def test_a_strangers_configuration_takes_no_memory(saved, setting):
    rewritten(saved, lambda arrays, state: state["config"].update(setting))
    with pytest.raises(checkpoint.CheckpointError, match=r"more than the .* numbers in the file"):
        Run.load(saved)


def test_moments_of_another_shape(saved):
    def turn(arrays, state):
        name = next(name for name in arrays if name.startswith("optimizer."))
        arrays[name] = arrays[name].reshape(-1, 1, 1)

    rewritten(saved, turn)
    with pytest.raises(checkpoint.CheckpointError, match="shape"):
        Run.load(saved)
