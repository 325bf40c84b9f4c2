"""Reading text files by the documented rules, and the vocabulary."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_tf.text import TextError, UnknownCharacters, Vocabulary, read_text

ROOT = Path(__file__).parents[2]
FAMILY = "\N{MAN}\u200d\N{WOMAN}\u200d\N{GIRL}"
GRIN = "\N{GRINNING FACE}"


def written(folder, data):
    path = folder / "text.txt"
    path.write_bytes(data)
    return path


def refusal(path):
    with pytest.raises(TextError) as caught:
        read_text(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(repr(str(path))) or "no file" in message
    return message


# --------------------------------------------------------------------------------------------------- reading


def test_TX_05_line_ends_become_newlines_and_are_counted(tmp_path):
    read = read_text(written(tmp_path, b"a\r\nb\rc\n"))
    assert read.text == "a\nb\nc\n"
    assert (read.crlf, read.cr, read.bom) == (1, 1, False)
    assert Vocabulary(read.text).characters == "\nabc"
    assert read.changes() == "1 line ends CR LF read as \\n, 1 line ends CR read as \\n"


def test_a_byte_order_mark_is_dropped_once_and_only_at_the_start(tmp_path):
    read = read_text(written(tmp_path, b"\xef\xbb\xbfa\xef\xbb\xbfb"))
    assert read.text == "a\ufeffb"
    assert read.bom
    assert read.changes() == "byte-order mark removed"


def test_a_clean_text_is_read_as_it_is(tmp_path):
    text = f"e\u0301 \u00e9 {GRIN}{FAMILY}\t\u2028\x85\x0b\x0c\n"
    read = read_text(str(written(tmp_path, text.encode())))
    assert read == (text, False, 0, 0)
    assert read.changes() == ""


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_any_text_without_nul_is_read_back(tmp_path_factory, text):
    path = written(tmp_path_factory.getbasetemp(), text.encode())
    if text == "\ufeff":
        assert "empty" in refusal(path)
        return
    read = read_text(path)
    assert read.text == text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    assert read.crlf == text.count("\r\n")
    assert read.cr == read.text.count("\n") - text.count("\n")


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (b"", ["is empty"]),
        (b"\xef\xbb\xbf", ["is empty"]),
        (b"ab\0cd", ["binary", "byte 2 is NUL"]),
        (b"abc\xff", ["not UTF-8", "byte 3 is 0xFF", "save it as UTF-8"]),
        ("caf\u00e9 au lait".encode("latin-1"), ["not UTF-8", "byte 3 is 0xE9"]),
        ("abc\u20ac".encode()[:-1], ["not UTF-8", "byte 3 is 0xE2"]),
        (b"a\xc0\x80", ["not UTF-8", "byte 1 is 0xC0"]),
        ("abc".encode("utf-16"), ["UTF-16", "save it as UTF-8"]),
        (b"\xfe\xff\0a", ["UTF-16"]),
        (b"\x80\x04\x95.", ["not UTF-8", "byte 0 is 0x80"]),
    ],
)
def test_a_file_that_is_no_utf8_text_is_refused_with_place_and_advice(tmp_path, data, parts):
    message = refusal(written(tmp_path, data))
    for part in parts:
        assert part in message


@pytest.mark.parametrize("half", [0xD83D, 0xDC00, 0xD800, 0xDFFF])
def test_TX_07_a_lone_surrogate_in_a_file_is_refused(tmp_path, half):
    message = refusal(written(tmp_path, b"ab" + chr(half).encode("utf-8", "surrogatepass") + b"c"))
    assert f"lone surrogate U+{half:04X} at byte 2" in message


def test_a_missing_file_a_folder_a_device_and_an_impossible_path_are_refused(tmp_path):
    assert "there is no file" in refusal(tmp_path / "missing.txt")
    assert "is a folder" in refusal(tmp_path)
    assert "no regular file" in refusal(os.devnull)
    assert "cannot be read" in refusal("a\0b")
    assert "cannot be read" in refusal(written(tmp_path, b"x") / "below")


# ------------------------------------------------------------------------------------------------ vocabulary


def test_the_characters_are_sorted_and_distinct_and_their_places_are_the_ids():
    vocabulary = Vocabulary("hello world\n")
    assert vocabulary.characters == "\n dehlorw"
    assert len(vocabulary) == 9
    assert vocabulary.encode("hello").tolist() == [4, 3, 5, 5, 6]
    assert vocabulary.decode([4, 3, 5, 5, 6]) == "hello"
    assert "h" in vocabulary
    assert "x" not in vocabulary
    assert "he" not in vocabulary
    assert vocabulary == Vocabulary("world hello\n") != Vocabulary("world")


@given(st.text(min_size=1))
def test_TX_07_decode_undoes_encode_for_any_text(text):
    vocabulary = Vocabulary(text)
    ids = vocabulary.encode(text)
    assert ids.shape == (len(text),)
    assert vocabulary.decode(ids) == vocabulary.decode(ids.tolist()) == text
    assert Vocabulary.from_json(json.loads(json.dumps(vocabulary.to_json()))) == vocabulary


@given(st.text(min_size=1), st.text())
def test_encoding_another_text_keeps_what_is_known_or_names_all_that_is_not(text, other):
    vocabulary = Vocabulary(text)
    known = "".join(c for c in other if c in text)
    unknown = list(dict.fromkeys(c for c in other if c not in text))
    assert vocabulary.decode(vocabulary.encode(other, skip_unknown=True)) == known
    if unknown:
        with pytest.raises(UnknownCharacters) as caught:
            vocabulary.encode(other)
        assert list(caught.value.characters) == unknown
        for character in unknown[:12]:
            assert f"(U+{ord(character):04X})" in str(caught.value)
        assert len(str(caught.value).splitlines()) == 1
    else:
        assert vocabulary.decode(vocabulary.encode(other)) == other


@pytest.mark.parametrize(("text", "length"), [(GRIN, 1), (FAMILY, 5), ("e\u0301", 2), ("\u00e9", 1)])
def test_TX_07_a_character_is_a_code_point(text, length):
    vocabulary = Vocabulary(text + "x")
    assert len(vocabulary.encode(text)) == length
    assert vocabulary.decode(vocabulary.encode(text)) == text


def test_TX_07_printing_what_was_decoded_survives_an_ascii_terminal():
    code = (
        "import sys; from tinygrad_tf.report import printable; from tinygrad_tf.text import Vocabulary\n"
        f"text = {GRIN + FAMILY!a}; v = Vocabulary(text)\n"
        "print(printable(v.decode(v.encode(text)), sys.stdout))"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=True)
    expected = (GRIN + FAMILY).encode("ascii", "backslashreplace")
    assert done.stdout.strip() == expected


def test_TX_03_unknown_characters_are_named_with_their_code_points():
    with pytest.raises(UnknownCharacters, match="not in the vocabulary") as caught:
        Vocabulary("ab").encode("ad?d")
    assert '"d" (U+0064), "?" (U+003F)' in str(caught.value)
    assert caught.value.characters == "d?"
    assert isinstance(caught.value, ValueError)


def test_TX_03_skipping_leaves_unknown_characters_out_and_none_becomes_another():
    vocabulary = Vocabulary("ab")
    assert vocabulary.encode("ad?b", skip_unknown=True).tolist() == [0, 1]
    assert vocabulary.encode("zzz", skip_unknown=True).size == 0
    assert vocabulary.encode("").size == 0


def test_TX_03_the_default_start_is_always_in_the_vocabulary():
    for text, start in ("Helloworld!", "!"), ("a b\n", "\n"), ("zy", "y"):
        vocabulary = Vocabulary(text)
        assert vocabulary.default_start() == start


def test_a_message_about_many_unknown_characters_stays_short_and_on_one_line():
    with pytest.raises(UnknownCharacters, match="and 88 more") as caught:
        Vocabulary("a").encode("".join(map(chr, range(0x400, 0x464))))
    assert len(caught.value.characters) == 100
    with pytest.raises(UnknownCharacters) as caught:
        Vocabulary("a").encode("\n\x1b\udc80")
    assert r'"\n" (U+000A), "\x1b" (U+001B), "\udc80" (U+DC80)' in str(caught.value)


def characters(size):
    return "".join(map(chr, range(0x10000, 0x10000 + size)))


@pytest.mark.parametrize(
    ("size", "dtype"),
    [(1, np.uint8), (256, np.uint8), (257, np.uint16), (65_536, np.uint16), (65_537, np.uint32)],
)
def test_DT_04_ids_are_stored_in_the_smallest_type_that_holds_them_all(size, dtype):
    text = characters(size)
    vocabulary = Vocabulary(text)
    ids = vocabulary.encode(text)
    assert ids.dtype == vocabulary.dtype == dtype
    assert int(ids[-1]) == size - 1
    assert np.array_equal(ids, np.arange(size))
    assert vocabulary.decode(ids) == text


def test_DT_04_id_70000_comes_back_as_it_was():
    vocabulary = Vocabulary(characters(70_001))
    for i in 70_000, 65_536, 40_000:
        assert vocabulary.encode(chr(0x10000 + i)).tolist() == [i]
        assert vocabulary.decode([i]) == chr(0x10000 + i)


@pytest.mark.parametrize("bad", [3, -1, -3, 2**40])
def test_an_id_outside_the_vocabulary_is_named_with_its_place(bad):
    with pytest.raises(ValueError, match=rf"id {bad} at position 2 is outside the vocabulary of size 3"):
        Vocabulary("abc").decode(np.array([0, 1, bad]))


def test_decode_takes_one_id_or_a_row_of_integers_and_nothing_else():
    vocabulary = Vocabulary("abc")
    assert vocabulary.decode(2) == "c"
    assert vocabulary.decode(np.uint8(1)) == "b"
    assert vocabulary.decode([]) == ""
    for wrong in ([0.0, 1.0], [True, False], [[0, 1]], ["a"], [None]):
        with pytest.raises(TypeError, match="one row of integers"):
            vocabulary.decode(wrong)


def test_a_vocabulary_of_nothing_or_with_a_lone_surrogate_is_refused():
    with pytest.raises(TextError, match="at least one character"):
        Vocabulary("")
    with pytest.raises(TextError, match=r"U\+D83D"):
        Vocabulary("a\ud83d")


@pytest.mark.parametrize(
    "value",
    [
        None, {}, "abc", 3, ["ab"], [""], ["a", 1], ["a", ["b"]], ["b", "a"], ["a", "a"], [], ["\ud83d"],
        {"a": 0}, [None],
    ],
)
def test_a_damaged_saved_vocabulary_is_refused(value):
    with pytest.raises(TextError):
        Vocabulary.from_json(value)


class Canary:
    """Unpickling this would create a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_CK_04_a_pickle_in_place_of_a_vocabulary_or_a_text_runs_nothing(tmp_path):
    canary = tmp_path / "canary"
    payload = pickle.dumps(Canary(canary))
    with pytest.raises(TextError):
        Vocabulary.from_json(payload)
    with pytest.raises(TextError):
        Vocabulary.from_json([Canary(canary)])
    refusal(written(tmp_path, payload))
    assert not canary.exists()
