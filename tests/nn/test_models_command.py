"""`tinygrad-tf models`: the list, the ledger of one, what a field changes, and mistakes in one line."""

from dataclasses import replace

import pytest

from tinygrad_tf.cli import run_command
from tinygrad_tf.models.presets import MODELS
from tinygrad_tf.models_command import _facts, page, parsed


def lines(capsys, *arguments):
    assert run_command(["models", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def row(text, part):
    (line,) = [line for line in text if line.startswith(part + "  ")]
    return line.split("  ")


def test_S30_the_list_has_every_model_with_its_count(capsys):
    text = lines(capsys)
    assert text[0].split() == ["model", "arrangement", "parameters", "published", "where"]
    assert {line.split()[0] for line in text[2 : 2 + len(MODELS)]} == set(MODELS)
    gpt2 = next(line for line in text if line.startswith("gpt2 "))
    assert gpt2.split()[1:4] == ["decoder", "124,439,808", "124,439,808"]
    assert max(map(len, text)) <= 150


def test_S26_the_ledger_of_gpt2(capsys):
    text = lines(capsys, "gpt2")
    cells = [cell.strip() for cell in row(text, "feed-forward") if cell.strip()]
    assert cells == ["feed-forward", "8 d² + 5 d", "4,722,432", "12", "56,669,184", "45.5 %"]
    assert row(text, "in all")[-1].strip() == "124,439,808"
    whole = "\n".join(text)
    for said in ("V = 50,257 (vocabulary)", "d = 768", "blocks: 85,054,464", "12 N d² = 84,934,656", "497.8 MB in float32",
                 "75.5 MB in float32 for 1,024 tokens", "from n = 4,609 on"):  # fmt: skip
        assert said in whole, said


def test_S26_what_a_field_changes(capsys):
    text = lines(capsys, "gpt2", "--set", "n_layer=24")
    assert text[0] == "n_layer 12 -> 24: +85,054,464 parameters; +68.3 %"
    assert row(text, "attention")[-1].strip() == "+28,348,416"
    assert [cell.strip() for cell in row(text, "in all")[-3:]] == ["124,439,808", "209,494,272", "+85,054,464"]
    assert lines(capsys, "gpt2", "--set", "n_head=16")[0] == "n_head 12 -> 16: no parameters"
    both = lines(capsys, "gpt2", "--set", "ffn=swiglu", "--set", "n_hidden=2048")
    assert "8 d² + 5 d -> 3 d f + 2 f + d" in "\n".join(both)
    assert any(line.startswith("positions, rotary") for line in lines(capsys, "gpt2", "--set", "positions=rotary"))


def test_shared_heads_and_two_stacks(capsys):
    text = "\n".join(lines(capsys, "llama-3-8b"))
    assert "2 d² + 2 d k" in text
    assert "32 heads of width 128 share 8" in text
    text = "\n".join(lines(capsys, "whisper-tiny"))
    assert "decoder cross-attention" in text
    assert "37,184,640" in text


def test_what_is_kept_and_what_it_costs_in_a_window_and_with_linear_attention(capsys):
    text = "\n".join(lines(capsys, "mistral-7b"))
    assert "in float32 for 8,192 tokens, two windows, which is the most that is kept" in text
    assert "1,073,741,824 n between tokens, once the text is longer than the window" in text
    told = "\n".join(_facts(replace(MODELS["gpt2"].config, attention="linear")))
    assert "sums kept for a text, however long: 599,040 numbers, 2.4 MB in float32" in told  # 12 layers and heads, 64 x 65
    assert "1,179,648 n between tokens" in told
    assert lines(capsys, "gpt2", "--set", "attention=linear")[0] == "attention softmax -> linear: no parameters"
    assert run_command(["models", "gpt2", "--set", "attention=linear", "--set", "positions=alibi"]) == 2
    assert "attention='linear' has none" in capsys.readouterr().err


@pytest.mark.parametrize("arguments, said", [
    (["gpt3"], "no model is called 'gpt3'; did you mean gpt2 or "),
    (["gpt2", "--set", "n_layr=3"], "a model has no field 'n_layr'; did you mean n_layer"),
    (["gpt2", "--set", "n_layer"], "--set takes FIELD=VALUE"),
    (["gpt2", "--set", "n_layer=many"], "n_layer takes a whole number, not 'many'"),
    (["gpt2", "--set", "bias=perhaps"], "bias takes true or false, not 'perhaps'"),
    (["gpt2", "--set", "n_head=7"], "n_embd=768 does not divide into n_head=7 heads"),
    (["gpt2", "--set", "norm=batch"], "norm='batch' is none of layer, rms"),
    (["--set", "n_layer=3"], "--set changes a named model"),
])  # fmt: skip
def test_a_mistake_is_one_line_and_status_2(capsys, arguments, said):
    assert run_command(["models", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: " + said)
    assert err.count("\n") == 1


@pytest.mark.parametrize("setting, value", [
    ("n_layer=24", 24), ("vocab_size=50_304", 50304), ("n_kv_head=none", None), ("n_kv_head=2", 2), ("bias=true", True),
    ("bias=False", False), ("norm_bias=none", None), ("rope_base=5e5", 500000.0), ("layer_scale=none", None),
    ("positions=none", "none"), ("layer_scale=0.1", 0.1), ("encoder_positions=rotary", "rotary"),
])  # fmt: skip
def test_values_by_the_type_of_their_field(setting, value):
    field, found = parsed(setting)
    assert (field, found) == (setting.split("=")[0], value)
    assert type(found) is type(value)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_page(name):
    text = page(name)
    assert MODELS[name].source in text
    assert page(name, ["n_layer=1"]).splitlines()[0].startswith("n_layer ")
