"""Checkpoints in the public layouts, written from twins in plain PyTorch: loaded here they compute the same; and back."""

import json

import numpy as np
import pytest

from tinygrad_tf.generate import generate
from tinygrad_tf.models import TransformerConfig, build
from tinygrad_tf.pretrained import PretrainedError, export, load_pretrained

IDS = np.random.default_rng(1).integers(0, 61, (2, 12))
SCALED = {
    "none": {},
    "tied": {"tie_word_embeddings": True},
    "linear": {"rope_scaling": {"type": "linear", "rope_type": "linear", "factor": 4.0}},
    "llama3": {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                "original_max_position_embeddings": 16}},
}  # fmt: skip


def worst(ours, theirs):
    """The largest difference, as a share of the largest number."""
    return float(np.abs(ours.detach().numpy() - theirs.numpy()).max() / theirs.abs().max())


def greedy(torch, twin, ids, n):
    ids = torch.tensor(ids)[None]
    for _ in range(n):
        ids = torch.cat([ids, twin(ids)[:, -1:].argmax(-1)], 1)
    return ids[0, -n:].tolist()


@pytest.fixture
def same(oracle):
    """Assert that a loaded decoder gives the twin's logits to 1e-5 of the largest, and its greedy text, cache or not."""

    def check(model, twin):
        assert worst(model(IDS), twin(oracle.from_numpy(IDS))) < 1e-5
        told = greedy(oracle, twin, IDS[0, :5], 15)
        assert len(set(told)) > 1
        for cache in (True, False):
            assert list(generate(model, IDS[0, :5], 15, temperature=0, cache=cache)) == told

    return check


@pytest.mark.parametrize("form", ["as it is", "no prefix", "masks and head written", "shards", "untied"])
def test_gpt2(tmp_path, oracle, public, twin, arrays, same, form):
    config = {**public.gpt2, **({"tie_word_embeddings": False} if form == "untied" else {})}
    theirs = twin(config)
    tensors = arrays(theirs, tied=form == "masks and head written")
    if form == "masks and head written":  # as the files of 2019 have them
        mask = np.tril(np.ones((1, 1, 24, 24), np.uint8))
        tensors |= {f"transformer.h.{n}.attn.{name}": mask for n in range(2) for name in ("bias", "masked_bias")}
    if form == "no prefix":
        tensors = {name.removeprefix("transformer."): array for name, array in tensors.items()}
    folder = public.write(tmp_path / "gpt2", tensors, config)
    if form == "shards":
        (folder / "model.safetensors").unlink()
        placed = {name: f"model-0000{i % 3 + 1}-of-00003.safetensors" for i, name in enumerate(tensors)}
        for file in set(placed.values()):
            public.write(folder, {name: tensors[name] for name in tensors if placed[name] == file}, config, file)
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": placed}))
    same(load_pretrained(folder), theirs)


@pytest.mark.parametrize("form", SCALED)
def test_llama(tmp_path, public, twin, arrays, same, form):
    config = {**public.llama, **SCALED[form]}
    theirs = twin(config)
    same(load_pretrained(public.write(tmp_path / "llama", arrays(theirs), config)), theirs)


def test_newer_files_say_base_and_scaling_in_one_object(tmp_path, public, twin, arrays, same):
    theirs = twin({**public.llama, **SCALED["llama3"]})
    config = {name: value for name, value in public.llama.items() if name != "rope_theta"}
    config["rope_parameters"] = {**SCALED["llama3"]["rope_scaling"], "rope_theta": 500.0}
    same(load_pretrained(public.write(tmp_path / "llama", arrays(theirs), config)), theirs)


@pytest.mark.parametrize("form", ["as it is", "prefix and heads", "first names", "no pooler"])
def test_bert(tmp_path, oracle, public, twin, arrays, form):
    theirs = twin(public.bert)
    tensors = {**arrays(theirs), "embeddings.position_ids": np.arange(24)[None]}
    if form == "prefix and heads":
        tensors = {f"bert.{name}": array for name, array in tensors.items()}
        tensors |= {"cls.predictions.bias": np.zeros(61, np.float32), "cls.seq_relationship.bias": np.zeros(2, np.float32)}
    if form == "first names":
        names = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
        for new, old in names.items():
            tensors = {name.replace(new, old): array for name, array in tensors.items()}
    if form == "no pooler":
        tensors = {name: array for name, array in tensors.items() if "pooler" not in name}
    model = load_pretrained(public.write(tmp_path / "bert", tensors, public.bert))

    mask, segments = np.ones(IDS.shape, bool), (np.arange(12) > 6) * np.ones((2, 1), int)
    mask[1, 8:] = False
    hidden, pooled = theirs(*map(oracle.from_numpy, (IDS, mask, segments)))
    ours = model.hidden(IDS, mask, segments)
    assert worst(ours[0], hidden[0]) < 1e-5 and worst(ours[1, :8], hidden[1, :8]) < 1e-5
    if form == "no pooler":
        with pytest.raises(ValueError, match="no pooler"):
            model.pooled(IDS)
    else:
        assert worst(model.pooled(IDS, mask, segments), pooled) < 1e-5


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_half_precision_is_widened_exactly(tmp_path, oracle, public, twin, half):
    from safetensors.torch import save_file

    theirs = twin(public.llama).to(getattr(oracle, half))
    folder = public.write(tmp_path / "llama", {}, public.llama)
    save_file(theirs.state_dict(), folder / "model.safetensors")
    model = load_pretrained(folder)
    assert {p.dtype for p in model.parameters()} == {np.dtype(np.float32)}
    assert worst(model(IDS), theirs.float()(oracle.from_numpy(IDS))) < 1e-5


OF_OURS = {
    "gpt2": {"norm": "layer", "ffn": "gelu_tanh", "positions": "learned", "bias": True},
    "bert": {"arrangement": "encoder", "norm": "layer", "ffn": "gelu", "positions": "learned", "bias": True,
             "norm_order": "post", "norm_eps": 1e-12, "embedding_norm": True, "n_segment": 2, "pooler": True, "n_hidden": 48},
    "llama": {"norm": "rms", "ffn": "swiglu", "positions": "rotary", "n_kv_head": 2, "tied": False, "n_hidden": 48,
              "norm_eps": 1e-5, "rope_base": 500.0, "rope_scaling": "llama3", "rope_factor": 8.0, "rope_original": 16},
}  # fmt: skip


@pytest.mark.parametrize("layout", OF_OURS)
def test_what_is_exported_loads_in_the_twin(tmp_path, oracle, public, twin, layout):
    from safetensors.torch import load_file

    config = TransformerConfig(61, 24, 2, 4, n_embd=32, init_std=0.3, **OF_OURS[layout])
    model = build(config, np.random.default_rng(0)).eval()
    export(model, tmp_path / "out", layout)
    said = json.loads((tmp_path / "out" / "config.json").read_text())
    assert {**said, **getattr(public, layout), "rope_scaling": said.get("rope_scaling")} == {"rope_scaling": None, **said}
    theirs = twin(said)
    tensors = load_file(tmp_path / "out" / "model.safetensors")
    if layout == "bert":
        tensors = {name.removeprefix("bert."): tensor for name, tensor in tensors.items()}
    elif said["tie_word_embeddings"]:
        tensors["lm_head.weight"] = tensors["transformer.wte.weight"]
    theirs.load_state_dict(tensors)  # strict: every name, and no other
    out = theirs(oracle.from_numpy(IDS))
    if layout == "bert":
        assert worst(model.hidden(IDS), out[0]) < 1e-5 and worst(model.pooled(IDS), out[1]) < 1e-5
    else:
        assert worst(model(IDS), out) < 1e-5


@pytest.mark.parametrize("name", ["h.0.attn.c_proj.weight", "h.1.mlp.c_fc.weight"])
def test_a_matrix_the_wrong_way_round_is_noticed(tmp_path, oracle, public, twin, arrays, name):
    """The square one cannot be by its shape: that it is turned is in the list of names, and this test sees that it counts."""
    theirs = twin(public.gpt2)
    tensors = arrays(theirs)
    tensors[f"transformer.{name}"] = tensors[f"transformer.{name}"].T
    folder = public.write(tmp_path / "gpt2", tensors, public.gpt2)
    if "c_fc" in name:
        with pytest.raises(PretrainedError, match=r"c_fc.weight has shape \(128, 32\), by config.json it is \(32, 128\)"):
            load_pretrained(folder)
    else:
        assert worst(load_pretrained(folder)(IDS), theirs(oracle.from_numpy(IDS))) > 1e-2
