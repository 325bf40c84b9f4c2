"""TX: text and batches."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tinygrad_tf.data import get_batch, load_corpus
from tinygrad_tf.text import TextError, UnknownCharacters, Vocabulary, read_text

ROOT = Path(__file__).parents[2]
GRIN, FAMILY = "😀", "👨\u200d👩\u200d👧"


def test_TX_01_windows_start_at_0_to_l_minus_b_minus_1():
    x, y = get_batch(np.arange(8, dtype=np.uint8), 4, 1000, np.random.default_rng(0))
    assert x.shape == y.shape == (1000, 4)
    assert set(x[:, 0].tolist()) == {0, 1, 2, 3}
    assert np.array_equal(y, x + 1)
    last = x[:, 0] == 3
    assert (x[last] == [3, 4, 5, 6]).all()
    assert (y[last] == [4, 5, 6, 7]).all()
    x, y = get_batch(np.arange(5, dtype=np.uint8), 4, 50, np.random.default_rng(0))
    assert (x == [0, 1, 2, 3]).all()
    assert (y == [1, 2, 3, 4]).all()
    with pytest.raises(TextError, match="too short: 4 characters, at least 5"):
        get_batch(np.arange(4, dtype=np.uint8), 4, 1, np.random.default_rng(0))


def test_TX_03_unknown_characters_are_listed_and_none_becomes_another():
    vocabulary = Vocabulary("ab")
    with pytest.raises(UnknownCharacters) as caught:
        vocabulary.encode("ad?")
    assert '"d" (U+0064), "?" (U+003F)' in str(caught.value)
    assert vocabulary.encode("ad?b", skip_unknown=True).tolist() == [0, 1]
    own = Vocabulary("Helloworld!")
    assert own.default_start() in own


def test_TX_05_line_ends_are_read_as_newlines_and_counted(tmp_path):
    (tmp_path / "own.txt").write_bytes(b"a\r\nb\rc\n")
    read = read_text(tmp_path / "own.txt")
    assert Vocabulary(read.text).characters == "\nabc"
    assert (read.crlf, read.cr) == (1, 1)
    assert "1 line ends CR LF" in load_corpus(str(tmp_path / "own.txt")).changes
    assert "CR LF and CR become \\n" in read_text.__doc__


def test_TX_07_a_character_is_a_code_point_and_half_of_one_is_refused(tmp_path):
    for text, length in ((GRIN, 1), (FAMILY, 5)):
        vocabulary = Vocabulary(text)
        assert len(vocabulary.encode(text)) == length
        assert vocabulary.decode(vocabulary.encode(text)) == text
    with pytest.raises(TextError, match=r"lone surrogate U\+D83D"):
        Vocabulary("a\ud83d")
    (tmp_path / "half").write_bytes(b"ab" + "\ud83d".encode("utf-8", "surrogatepass"))
    with pytest.raises(TextError, match=r"lone surrogate U\+D83D at byte 2"):
        read_text(tmp_path / "half")


def test_TX_07_printing_survives_an_ascii_terminal():
    code = (
        "import sys; from tinygrad_tf.report import printable; from tinygrad_tf.text import Vocabulary\n"
        f"text = {GRIN + FAMILY!a}; v = Vocabulary(text)\n"
        "print(printable(v.decode(v.encode(text)), sys.stdout))"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=True)
    assert done.stdout.strip() == (GRIN + FAMILY).encode("ascii", "backslashreplace")
