"""Folders with weights: what is mapped, what is refused, and how it is said. Nothing here needs PyTorch."""

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_tf import nn, optim
from tinygrad_tf.models import Decoder, TransformerConfig, build
from tinygrad_tf.models.presets import MODELS, reduced
from tinygrad_tf.pretrained import PretrainedError, export, load_pretrained
from tinygrad_tf.pretrained.configs import differences, read_config
from tinygrad_tf.pretrained.weightfiles import Weights, read_header

IDS = np.array([[3, 1, 4, 1, 5, 9, 2, 6]])
LAYOUT_OF = {"gpt2": "gpt2", "bert-base": "bert", "llama-2-7b": "llama", "llama-3-8b": "llama", "llama-3.2-1b": "llama",
             "mistral-7b": "llama"}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """A small GPT-2 in a folder."""
    model = Decoder(reduced(MODELS["gpt2"].config, init_std=0.3), np.random.default_rng(0))
    export(model, tmp_path / "gpt2", "gpt2")
    return tmp_path / "gpt2"


def tensors_of(folder):
    from safetensors.numpy import load_file

    return load_file(folder / "model.safetensors")


def rewrite(folder, tensors=None, **changes):
    """Write the folder again with other arrays, or other values in its config.json (None: without that field)."""
    from safetensors.numpy import save_file

    if tensors is not None:
        save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, folder / "model.safetensors")
    config = {**json.loads((folder / "config.json").read_text()), **changes}
    (folder / "config.json").write_text(json.dumps({name: value for name, value in config.items() if value is not None}))


# ------------------------------------------------------------------------------------------------ there and back


@pytest.mark.parametrize("name", LAYOUT_OF)
def test_a_model_goes_out_and_comes_back(tmp_path, name):
    config = reduced(MODELS[name].config, init_std=0.3)
    model = build(config, np.random.default_rng(0)).eval()
    export(model, tmp_path / "out", LAYOUT_OF[name])
    back = load_pretrained(tmp_path / "out")
    assert not differences(config, back.config) and not back.training
    own = dict(model.named_parameters())
    assert {n for n, _ in back.named_parameters()} == set(own)
    for n, p in back.named_parameters():
        assert np.array_equal(p.array, own[n].array), n


PUBLIC = {
    "gpt2": {"model_type": "gpt2", "activation_function": "gelu_new", "attn_pdrop": 0.1, "embd_pdrop": 0.1, "n_ctx": 1024,
             "layer_norm_epsilon": 1e-05, "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1,
             "vocab_size": 50257},
    "bert-base": {"model_type": "bert", "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768,
                  "layer_norm_eps": 1e-12, "intermediate_size": 3072, "max_position_embeddings": 512, "num_attention_heads": 12,
                  "num_hidden_layers": 12, "pad_token_id": 0, "position_embedding_type": "absolute",
                  "type_vocab_size": 2, "vocab_size": 30522},
    "llama-3.2-1b": {"model_type": "llama", "attention_bias": False, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048,
                     "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": False, "num_attention_heads": 32,
                     "num_hidden_layers": 16, "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
                     "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                                      "original_max_position_embeddings": 8192, "rope_type": "llama3"},
                     "rope_theta": 500000.0, "tie_word_embeddings": True, "vocab_size": 128256},
    "mistral-7b": {"model_type": "mistral", "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
                   "max_position_embeddings": 32768, "num_attention_heads": 32, "num_hidden_layers": 32,
                   "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "sliding_window": 4096,
                   "tie_word_embeddings": False, "vocab_size": 32000},
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_config_is_the_preset_of_that_name(tmp_path, name):
    (tmp_path / "config.json").write_text(json.dumps(PUBLIC[name]))
    assert differences(read_config(tmp_path)[1], MODELS[name].config) == []


# ------------------------------------------------------------------------------------------------ memory


def test_parameters_are_the_mapped_file_until_somebody_writes(folder):
    before = (folder / "model.safetensors").read_bytes()
    model, other = load_pretrained(folder), load_pretrained(folder)
    assert all(not p.array.flags.owndata for p in model.parameters())
    attn = model.blocks[0].attn
    assert attn.q_proj.weight.array.strides == attn.k_proj.weight.array.strides == (4, 3 * 4 * 32)  # one matrix of the file
    nn.init.zeros_(model.token_embedding.weight)
    assert not model.token_embedding.weight.array.any() and other.token_embedding.weight.array.any()
    assert (folder / "model.safetensors").read_bytes() == before


def test_a_model_for_a_file_draws_no_numbers():
    generator, again = np.random.default_rng(0), np.random.default_rng(0)
    with nn.init.skipped():
        model = Decoder(reduced(MODELS["gpt2"].config), generator)
    assert generator.bit_generator.state == again.bit_generator.state
    nn.init.normal_(model.token_embedding.weight, generator=generator)
    assert generator.bit_generator.state != again.bit_generator.state


def test_a_loaded_model_trains_and_the_file_stays(folder):
    before = (folder / "model.safetensors").read_bytes()
    model = load_pretrained(folder, dropout=0.1).train()
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    assert all(p.array.flags.c_contiguous for p in model.parameters())  # they have moved
    losses = []
    for _ in range(15):
        loss = model.loss(IDS[:, :-1], IDS[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    assert (folder / "model.safetensors").read_bytes() == before


def test_a_model_in_use_survives_a_new_file_under_the_same_name(folder):
    from tinygrad_tf.checkpoint import write_atomically

    model = load_pretrained(folder)
    before = model(IDS).detach().numpy().copy()
    write_atomically(folder / "model.safetensors", b"something else")
    assert np.array_equal(model(IDS).detach().numpy(), before)


def test_numbers_that_start_anywhere_are_read(tmp_path):
    """Writers put every entry on a boundary of its numbers; the format does not ask for it."""
    numbers = np.arange(5, dtype="<f4")
    header = {"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]},
              "b": {"dtype": "F32", "shape": [5], "data_offsets": [1, 21]},
              "c": {"dtype": "F32", "shape": [0, 3], "data_offsets": [21, 21]}}  # fmt: skip
    put(tmp_path, header, b"\0" + numbers.tobytes())
    read = Weights(tmp_path).read("b")
    assert np.array_equal(read, numbers) and read.flags.aligned and read.dtype == np.float32
    assert Weights(tmp_path).read("c").shape == (0, 3)


@pytest.mark.parametrize("kind,bits", [("BF16", "<u2"), ("F16", "<u2")])
def test_every_half_number_is_widened_exactly(tmp_path, kind, bits):
    every = np.arange(1 << 16, dtype=bits)
    put(tmp_path, {"x": {"dtype": kind, "shape": [1 << 16], "data_offsets": [0, 1 << 17]}}, every.tobytes())
    read = Weights(tmp_path).read("x")
    if kind == "F16":
        wanted = every.view(np.float16).astype(np.float32)
    else:
        sign, exponent, rest = every >> 15, (every >> 7) & 255, every & 127
        with np.errstate(all="ignore"):
            wanted = np.where(exponent == 0, rest * 2.0**-133, (128.0 + rest) * 2.0 ** (exponent - 134.0)) * (1 - 2.0 * sign)
            wanted = np.where(exponent == 255, np.where(rest == 0, np.where(sign, -np.inf, np.inf), np.nan), wanted)
    assert read.dtype == np.float32 and np.array_equal(read, wanted.astype(np.float32), equal_nan=True)


# ------------------------------------------------------------------------------------------------ what does not fit


def test_all_that_does_not_fit_is_said_at_once_and_nothing_is_set(folder):
    tensors = tensors_of(folder)
    del tensors["transformer.ln_f.bias"], tensors["transformer.h.1.mlp.c_fc.weight"]
    tensors["transformer.wpe.weight"] = tensors["transformer.wpe.weight"][:-1]
    tensors["transformer.h.0.ln_1.weight"] = np.arange(32)
    tensors["transformer.h.2.ln_1.weight"] = np.ones(32, np.float32)
    tensors["adapter"] = np.ones(3, np.float32)
    rewrite(folder, tensors)
    with pytest.raises(PretrainedError) as told:
        load_pretrained(folder)
    for part in ("missing ln_f.bias", "missing h.1.mlp.c_fc.weight",
                 "wpe.weight has shape (15, 32), by config.json it is (16, 32)",
                 "h.0.ln_1.weight holds I64, which is none of F32, F16, BF16", "unexpected transformer.h.2.ln_1.weight",
                 "unexpected adapter"):  # fmt: skip
        assert part in str(told.value)
    assert "\n" not in str(told.value)


def test_a_head_that_is_not_the_tied_matrix(folder):
    tensors = tensors_of(folder)
    rewrite(folder, {**tensors, "lm_head.weight": tensors["transformer.wte.weight"]})
    load_pretrained(folder)
    rewrite(folder, {**tensors, "lm_head.weight": tensors["transformer.wte.weight"] + 1})
    with pytest.raises(PretrainedError, match="lm_head.weight and wte.weight differ, by config.json they are one matrix"):
        load_pretrained(folder)
    rewrite(folder, tie_word_embeddings=False)
    assert not load_pretrained(folder).config.tied
    rewrite(folder, tensors)
    with pytest.raises(PretrainedError, match="missing lm_head.weight"):
        load_pretrained(folder)


def test_one_entry_under_two_names(folder):
    tensors = tensors_of(folder)
    rewrite(folder, {**tensors, "wte.weight": tensors["transformer.wte.weight"]})
    with pytest.raises(PretrainedError, match="two entries for one thing"):
        load_pretrained(folder)


@pytest.mark.parametrize("changes,message", [
    ({"model_type": "mamba"}, "model_type='mamba' is no architecture that is known here; gpt2, bert, llama, mistral are"),
    ({"model_type": ["gpt2"]}, r"model_type=\['gpt2'\] is no architecture"),
    ({"model_type": None}, "names no model_type, as every public checkpoint does"),
    ({"n_layer": 0}, "n_layer=0 is not a whole number, at least 1"),
    ({"n_layer": "2"}, "n_layer='2' is not a whole number"),
    ({"n_layer": True}, "n_layer=True is not a whole number"),
    ({"n_embd": None}, "n_embd=None is not a whole number"),
    ({"n_head": 5}, "n_embd=32 does not divide into n_head=5 heads"),
    ({"n_layer": 10**9}, "describes a model of .* numbers, the files beside it hold"),
    ({"vocab_size": 10**12}, "describes a model of .* numbers, the files beside it hold"),
    ({"activation_function": "tanh"}, "activation_function='tanh' is not supported here; gelu_new,"),
    ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx=True is not supported here; False is"),
    ({"layer_norm_epsilon": "small"}, "layer_norm_epsilon='small' is not a number"),
    ({"layer_norm_epsilon": float("nan")}, "norm_eps=nan"),
    ({"tie_word_embeddings": 1}, "tie_word_embeddings=1 is neither true nor false"),
])  # fmt: skip
def test_settings_that_cannot_be(folder, changes, message):
    rewrite(folder, **changes)
    with pytest.raises(PretrainedError, match=message) as told:
        load_pretrained(folder)
    assert str(folder / "config.json") in str(told.value)


@pytest.mark.parametrize("changes,message", [
    ({"rope_scaling": {"type": "yarn", "factor": 2.0}}, "type='yarn' is not supported here; default, linear, llama3 are"),
    ({"rope_scaling": {"type": "linear"}}, "factor=None is not a number"),
    ({"rope_scaling": {"type": "linear", "factor": -1}}, "rope_factor=-1.0 is not a positive number"),
    ({"rope_scaling": {"rope_type": "llama3", "factor": 2.0, "low_freq_factor": 2.0, "original_max_position_embeddings": 8}},
     "low_freq_factor=2.0 is not supported here; 1.0 is"),
    ({"rope_scaling": "linear"}, "rope_scaling='linear' is not an object"),
    ({"attention_bias": True}, "attention_bias=True and mlp_bias differ"),
    ({"head_dim": 16}, "head_dim=16 is not supported here; 8 is"),
    ({"hidden_act": "relu"}, "hidden_act='relu' is not supported"),
])  # fmt: skip
def test_settings_of_llama_that_cannot_be(tmp_path, public, changes, message):
    (tmp_path / "config.json").write_text(json.dumps({**public.llama, **changes}))
    with pytest.raises(PretrainedError, match=message):
        read_config(tmp_path)


def test_what_a_layout_cannot_say_is_not_exported(tmp_path):
    model = Decoder(TransformerConfig(20, 8, 1, 2, n_embd=8, norm="rms", ffn="swiglu", positions="rotary", qk_norm=True))
    with pytest.raises(PretrainedError, match="layout llama has no place for qk_norm=True"):
        export(model, tmp_path / "out", "llama")
    with pytest.raises(PretrainedError, match="no layout is called 't5'; gpt2, bert, llama are known"):
        export(model, tmp_path / "out", "t5")
    encoder = build(reduced(MODELS["bert-base"].config, tied=False))
    with pytest.raises(PretrainedError, match="layout bert has no place for lm_head.weight"):
        export(encoder, tmp_path / "out", "bert")
    assert not (tmp_path / "out").exists()


def test_export_overwrites_nothing(folder):
    with pytest.raises(PretrainedError, match="already holds a checkpoint"):
        export(load_pretrained(folder), folder, "gpt2")


# ------------------------------------------------------------------------------------------------ folders from strangers


def put(folder, header, data=b"", length=None):
    """A file with this header and these bytes."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)


F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize("header,data,length,message", [
    (b"", b"", None, "header is not JSON"),
    (b"{}", b"", 1 << 60, "a header of .* bytes in a file of 10"),
    (b"[1]", b"", None, "no object of entries"),
    (b"[" * 100_000, b"", None, "header is not JSON"),
    (b'{"x": {}, "x": {}}', b"", None, "a name stands twice"),
    ({"x": 3}, b"", None, "x does not say its dtype, shape and data_offsets"),
    ({"x": {**F32, "data_offsets": [0, 8, 9]}}, b"", None, "x does not say"),
    ({"x": F32}, b"1234567", None, "x lies at 0 to 8 of 7 bytes; the file is cut short"),
    ({"x": {**F32, "data_offsets": [-8, 0]}}, b"12345678", None, "x lies at -8"),
    ({"x": {**F32, "data_offsets": [8, 0]}}, b"12345678", None, "x lies at 8 to 0"),
    ({"x": {**F32, "shape": [-1, -2]}}, b"12345678", None, "x lies at"),
    ({"x": {**F32, "shape": [2.0]}}, b"12345678", None, "x lies at"),
    ({"x": {**F32, "shape": [1 << 62, 1 << 62]}}, b"12345678", None, "x has 8 bytes, which F32 of shape .* does not fill"),
    ({"x": F32, "y": {**F32, "data_offsets": [4, 12]}}, b"123456789012", None, "y overlaps the entry before it"),
])  # fmt: skip
def test_files_that_lie_about_their_size(tmp_path, header, data, length, message):
    put(tmp_path, header, data, length)
    with pytest.raises(PretrainedError, match=message) as told:
        read_header(tmp_path / "model.safetensors")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("cut", [0, 3, 8, 40, -1])
def test_a_file_cut_short(folder, cut):
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:cut])
    with pytest.raises(PretrainedError, match="fetch it again"):
        load_pretrained(folder)


@given(st.data())
def test_damage_is_told_in_one_line_wherever_it_is(tmp_path_factory, data):
    """Bytes of the header changed, put in or cut out: the file loads, or PretrainedError says in one line what is wrong."""
    folder = tmp_path_factory.mktemp("damage")
    put(folder, {"x": F32, "y": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [8, 16]}}, bytes(range(16)))
    whole = bytearray((folder / "model.safetensors").read_bytes())
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    (folder / "model.safetensors").write_bytes(whole)
    try:
        weights = Weights(folder)
        for name, entry in weights.entries.items():
            assert entry.kind not in ("F32", "F16", "BF16") or weights.read(name).shape == entry.shape
        told = str(folder)
    except PretrainedError as error:
        told = str(error)
    assert "\n" not in told and str(folder) in told


@pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/x.safetensors", "a/b.safetensors", "..\\x.safetensors",
                                  "C:x.safetensors", "pytorch_model.bin", "", ".", ".."])  # fmt: skip
def test_an_index_names_only_files_beside_it(folder, name):
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"wte.weight": name}}))
    with pytest.raises(PretrainedError, match="not the name of a safetensors file beside it; nothing else is read"):
        load_pretrained(folder)


@pytest.mark.parametrize("index,message", [
    ({"weight_map": {"x": "model-2.safetensors"}}, "names model-2.safetensors, which is not in the folder"),
    ({"weight_map": {"x": "model.safetensors"}}, "not in the files that it names: x"),
    ({"weight_map": ["x"]}, "weight_map is not an object"),
    ({}, "weight_map is not an object"),
    ([], "holds list, not an object"),
    ("{", "is not JSON"),
])  # fmt: skip
def test_an_index_that_does_not_do(folder, index, message):
    text = index if isinstance(index, str) else json.dumps(index)
    (folder / "model.safetensors.index.json").write_text(text)
    with pytest.raises(PretrainedError, match=message):
        load_pretrained(folder)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "model.pth", "consolidated.ckpt"])
def test_pickles_are_never_opened(folder, name):
    (folder / "model.safetensors").rename(folder / name)
    for place in (folder, folder / name):
        with pytest.raises(PretrainedError, match=f"{name} holds pickled weights, which can run any program.*save_file"):
            load_pretrained(place)


def test_folders_without_what_is_needed(tmp_path, folder):
    with pytest.raises(PretrainedError, match="there is no such folder; name the folder that holds config.json"):
        load_pretrained(tmp_path / "nowhere")
    with pytest.raises(PretrainedError, match="is a file; name the folder"):
        load_pretrained(folder / "config.json")
    (folder / "other.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
    load_pretrained(folder)  # model.safetensors is the one that counts
    (folder / "model.safetensors").rename(folder / "third.safetensors")
    with pytest.raises(PretrainedError, match="holds 2 safetensors files, and no model.safetensors or"):
        load_pretrained(folder)
    (folder / "other.safetensors").unlink()
    load_pretrained(folder)
    (folder / "config.json").unlink()
    with pytest.raises(PretrainedError, match=r"holds no config.json"):
        load_pretrained(folder)
    (folder / "third.safetensors").unlink()
    with pytest.raises(PretrainedError, match="holds no weights"):
        load_pretrained(folder)
