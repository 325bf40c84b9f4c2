"""The tokenizers of public checkpoints, by the package `tokenizers`."""

import json
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from tinygrad_tf.pretrained import PretrainedError, Tokenizer, load_tokenizer

NO_TOKENIZERS = "not read with a tokenizer (tokenizers is not installed: pip install -e '.[pretrained]')"
needed = pytest.mark.skipif(find_spec("tokenizers") is None, reason=NO_TOKENIZERS)
TEXT = "the cat sat on the mat; naïve cafés — 猫が座った 🐈‍⬛.\n"


@pytest.fixture
def folder(tmp_path):
    """A folder with a tokenizer in GPT-2's manner: pairs of bytes."""
    import tokenizers

    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet, special_tokens=["<|endoftext|>"],
                                             show_progress=False)  # fmt: skip
    inner.train_from_iterator(["the cat sat on the mat. " * 20], trainer)
    inner.enable_truncation(4)  # as some files have it
    inner.enable_padding(length=4)
    inner.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


@needed
def test_text_comes_back_and_nothing_is_cut(folder):
    tokenizer = load_tokenizer(folder)
    ids = tokenizer.encode(TEXT)
    assert ids.dtype == np.int64 and len("the cat") > len(tokenizer.encode("the cat")) and tokenizer.decode(ids) == TEXT
    assert len(tokenizer) > int(ids.max()) and tokenizer.decode([]) == "" and tokenizer.decode(ids[0]) == "the"
    again = Tokenizer.from_json(json.loads(json.dumps(tokenizer.to_json())))
    assert np.array_equal(again.encode(TEXT), ids)


@needed
@pytest.mark.parametrize("said, ends", [("", ()), ('{"eos_token_id": null}', ()), ('{"eos_token_id": 0}', (0,)),
                                        ('{"eos_token_id": [0, 7]}', (0, 7))])  # fmt: skip
def test_what_ends_a_text_is_in_the_configuration_beside_it(folder, said, ends):
    if said:
        (folder / "config.json").write_text(said)
    tokenizer = load_tokenizer(folder)
    assert tokenizer.ends == ends
    assert Tokenizer.from_json(json.loads(json.dumps(tokenizer.to_json()))).ends == ends
    older = {"tokenizer.json": tokenizer.to_json()["tokenizer.json"]}  # a checkpoint from before they were kept
    assert Tokenizer.from_json(older).ends == ()


@needed
@pytest.mark.parametrize("value", ["true", '"0"', "-1", "[0, 1.5]", "1e300", "{}"])
def test_an_end_that_is_no_id(folder, value):
    (folder / "config.json").write_text(f'{{"eos_token_id": {value}}}')
    with pytest.raises(PretrainedError, match=r"config.json: eos_token_id=.* is no id and no list of ids"):
        load_tokenizer(folder)


@needed
def test_a_stream_gives_whole_characters(folder):
    tokenizer = load_tokenizer(folder)
    ids = tokenizer.encode(TEXT)
    pieces = list(tokenizer.stream(iter(ids)))
    assert "".join(pieces) == TEXT and len(pieces) > 20 and not any("\ufffd" in piece for piece in pieces)
    assert "".join(tokenizer.stream(ids[30:], ids[:30])) == tokenizer.decode(ids)[len(tokenizer.decode(ids[:30])) :]
    cat = tokenizer.encode("🐈")
    assert "".join(tokenizer.stream(cat[:-1])) == "\ufffd"  # what never became whole is shown at the end


@needed
def test_half_a_character_is_no_text(folder):
    tokenizer = load_tokenizer(folder)
    for encode in (tokenizer.encode, lambda text: tokenizer.batch(["a", text], 9)):
        with pytest.raises(PretrainedError, match=r"lone surrogate U\+DC80 is no character"):
            encode("a\udc80")


@needed
@pytest.mark.parametrize("ids", [[[1]], [-1], [0.5]])
def test_what_is_no_row_of_ids(folder, ids):
    with pytest.raises(ValueError, match="one row of integers"):
        load_tokenizer(folder).decode(ids)


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sa", "##t", "##s", "The", "."]


@needed
def test_berts_list_of_words(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.encode("The cats, sat.", special=True).tolist() == [2, 5, 6, 9, 1, 7, 8, 11, 3]
    assert tokenizer.encode("the cats").tolist() == [5, 6, 9] and tokenizer.decode([2, 5, 6, 9, 3]) == "the cats"
    ids, mask = tokenizer.batch(["the cat sat.", "cat", "the the the the the"], 6)
    assert ids.tolist() == [[2, 5, 6, 7, 8, 3], [2, 6, 3, 0, 0, 0], [2, 5, 5, 5, 5, 3]]
    assert mask.tolist() == (np.arange(6) < [[6], [3], [6]]).tolist()
    assert len(tokenizer.encode("the " * 50)) == 50  # the next text is not cut
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert load_tokenizer(tmp_path).encode("The").tolist() == [10]
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": "no"}')
    with pytest.raises(PretrainedError, match=r'do_lower_case="no" is neither true nor false'):
        load_tokenizer(tmp_path)


@needed
@pytest.mark.parametrize("name,text,message", [
    ("tokenizer.json", "{}", "is none that the package tokenizers reads"),
    ("tokenizer.json", "{", "is not JSON"),
    ("tokenizer.json", '{"model": {"type": "BPE", "vocab": {"a": -1}, "merges": [3]}}', "is none that the package"),
    ("vocab.txt", "a\nb\n", "is no vocabulary of BERT: it has no .UNK., .CLS., .SEP."),
])  # fmt: skip
def test_files_that_are_no_tokenizer(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(PretrainedError, match=message) as told:
        load_tokenizer(tmp_path)
    assert "\n" not in str(told.value)


@needed
def test_a_tokenizer_that_fails_at_work(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    broken = json.loads(load_tokenizer(tmp_path).to_json()["tokenizer.json"])
    broken["model"]["unk_token"] = "[NONE]"
    (tmp_path / "tokenizer.json").write_text(json.dumps(broken))
    with pytest.raises(PretrainedError, match=r"cannot encode the text \(WordPiece error: Missing"):
        load_tokenizer(tmp_path).encode("unheard of")


def test_a_folder_without_one(tmp_path):
    with pytest.raises(PretrainedError, match=r"holds no tokenizer: neither tokenizer.json nor, for BERT, vocab.txt"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("name,text", [("tokenizer.json", "{}"), ("vocab.txt", "a")])
def test_without_the_package_the_message_says_how_to_get_it(tmp_path, monkeypatch, name, text):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    (tmp_path / name).write_text(text)
    with pytest.raises(PretrainedError, match=r"pip install tokenizers, or pip install -e '\.\[pretrained\]' in a clone$"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize("value", [{}, {"tokenizer.json": 3}, 5])
def test_a_checkpoint_with_a_strange_tokenizer(value):
    with pytest.raises(PretrainedError, match="damaged or foreign"):
        Tokenizer.from_json(value)
