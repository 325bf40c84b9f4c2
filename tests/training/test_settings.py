"""Settings: presets, bad values, JSON."""

import json
import math

import pytest

from tinygrad_tf.data import load_corpus
from tinygrad_tf.run import Run
from tinygrad_tf.settings import PRESETS, SettingError, TrainConfig


def test_presets_are_named_and_nanogpts_is_to_the_letter():
    assert all(config.preset == name for name, config in PRESETS.items())
    c = PRESETS["nanogpt-char-cpu"]
    assert (c.n_layer, c.n_head, c.n_embd, c.block_size, c.batch_size, c.steps) == (4, 4, 128, 64, 12, 2000)
    assert (c.lr, c.min_lr, c.beta1, c.beta2, c.weight_decay, c.warmup, c.clip) == (1e-3, 1e-4, 0.9, 0.99, 0.1, 100, 1.0)
    assert (c.bias, c.ffn, c.positions, c.tied, c.dropout, c.norm) == (False, "gelu", "learned", True, 0.0, "layer")
    assert (c.qk_norm, c.zero_init, c.init_std, c.layer_scale, c.grad_accum) == (False, False, 0.02, None, 1)
    assert (c.optimizer, c.context_only) == ("adamw", 32)
    assert PRESETS["laptop"].context_only == 0
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
    ({"steps": 0}, ("steps must be at least 1, not 0",)),
    ({"lr": -1.5}, ("lr must be a finite number and at least 0",)),
    ({"text": ""}, ("text", "not empty")),
    ({"steps": 1.5}, ("steps", "whole number")),
    ({"steps": True}, ("steps", "whole number")),
    ({"bias": 1}, ("bias", "true or false")),
    ({"lr": math.nan}, ("lr", "nan")),
    ({"lr": "1"}, ("lr", "number")),
    ({"min_lr": 1.0}, ("min_lr", "lr")),
    ({"beta2": 1.0}, ("beta2",)),
    ({"muon_momentum": 1.0}, ("muon_momentum must be below 1",)),
    ({"muon_momentum": -0.1}, ("muon_momentum", "at least 0")),
    ({"schedule": "steps"}, ("schedule", "cosine or linear")),
    ({"dropout": 1.0}, ("dropout",)),
    ({"eval_overlap": 1.0}, ("eval_overlap", "below 1")),
    ({"n_kv_head": 3}, ("n_kv_head",)),
    ({"seed": -1}, ("seed",)),
    ({"text": None}, ("text",)),
])
def test_a_bad_setting_is_named(setting, words):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the words follow
        TrainConfig(**setting)
    for word in words:
        assert word in str(caught.value)


def test_evaluation_windows_of_any_length():
    assert [TrainConfig(block_size=size).context_only for size in (1, 2, 8, 96)] == [0, 1, 5, 64]
    assert TrainConfig(eval_overlap=0.999, block_size=8).context_only == 7


def test_a_configuration_survives_json():
    for config in PRESETS.values():
        assert TrainConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_CK_03_settings_of_an_older_and_of_a_newer_version():
    old = TrainConfig(lr=0.5, clip=2.0).to_json()
    for name in ("clip", "attention", "window", "muon_momentum", "schedule"):
        del old[name]
    assert TrainConfig.from_json(old) == TrainConfig(lr=0.5)
    with pytest.raises(ValueError, match="does not know: depth, width; a newer version of tinygrad-tf wrote it"):
        TrainConfig.from_json({**old, "width": 3, "depth": 2})


def test_on_the_command_line_a_setting_is_an_option():
    with pytest.raises(SettingError) as caught:
        TrainConfig(n_embd=10, n_head=3)
    assert str(caught.value) == "n_embd=10 does not divide into n_head=3 heads"
    assert caught.value.in_options() == "--n-embd=10 does not divide into --n-head=3 heads"
