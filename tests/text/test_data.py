"""Corpora by name, their split, batches, evaluation windows; the download, from a server on this machine."""

import hashlib
import os
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinygrad_tf import data, grammar
from tinygrad_tf.data import IGNORE, cache_folder, get_batch, load_corpus, windows
from tinygrad_tf.text import TextError

PLAY = b"First Citizen:\nBefore we proceed any further, hear me speak.\n\n" * 40


def generator(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


# --------------------------------------------------------------------------------------------------- corpora


def test_the_embedded_corpus_is_the_default_and_knows_its_floor():
    corpus = load_corpus()
    text = corpus.vocabulary.decode(np.concatenate([corpus.train, corpus.val]))
    assert corpus.name == "stories"
    assert text == grammar.text(1_000_000, seed=0)
    assert corpus.floor == grammar.entropy_per_character()
    assert corpus.train.dtype == corpus.val.dtype == np.uint8


@pytest.mark.parametrize("length", [1, 2, 9, 10, 11, 1000, 1009])
def test_the_first_nine_tenths_are_learned_and_the_rest_is_held_out(tmp_path, length):
    text = "".join(chr(ord("a") + i % 23) for i in range(length))
    path = tmp_path / "own.txt"
    path.write_bytes(text.encode())
    corpus = load_corpus(str(path))
    assert corpus.vocabulary.decode(corpus.train) == text[: length * 9 // 10]
    assert corpus.vocabulary.decode(corpus.val) == text[length * 9 // 10 :]
    assert corpus.floor is None
    assert corpus.name == str(path)


@pytest.mark.parametrize(("held_out", "start"), [
    ("a first line\nof the end.\n\nA new one\n\n", "\nof the end.\n\n".rjust(16)[-16:]),
    ("\n\n\nab\n\n\nc", "\n\n\nab\n\n\n"),
    ("one line\nanother", "one line\n"),
    ("two words", "two "),
    ("word", "w"),
    ("\n\n\n", "\n"),
])
def test_GN_01_a_sample_goes_on_from_the_end_of_a_held_out_paragraph(held_out, start):
    vocabulary = data.Vocabulary(held_out)
    ids = vocabulary.encode(held_out)
    found = data.Corpus("own", ids, ids, vocabulary).start()
    assert found == start if len(start) < 16 else found.endswith("of the end.\n\n")
    assert len(found) <= 16


def test_TX_05_a_corpus_says_what_reading_changed(tmp_path):
    path = tmp_path / "own.txt"
    path.write_bytes(b"\xef\xbb\xbfa\r\nb\rc\n")
    corpus = load_corpus(str(path))
    assert corpus.vocabulary.characters == "\nabc"
    assert "byte-order mark removed" in corpus.changes
    assert "1 line ends CR LF" in corpus.changes


def test_an_unknown_name_is_answered_with_the_names_there_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(TextError, match=r"no file 'shakespeare'.*stories and tinyshakespeare"):
        load_corpus("shakespeare")
    Path("stories").write_text("abc")
    assert len(load_corpus("./stories").vocabulary) == 3
    Path("empty").touch()
    with pytest.raises(TextError, match=r"'empty' is empty: give a file with text in it$"):
        load_corpus("empty")


# --------------------------------------------------------------------------------------------------- batches


def test_TX_01_the_last_window_is_drawn_and_every_start_occurs():
    ids = np.arange(8, dtype=np.uint8)
    x, y = get_batch(ids, 4, 1000, generator())
    assert x.shape == y.shape == (1000, 4)
    assert x.dtype == y.dtype == np.int64
    assert set(x[:, 0].tolist()) == {0, 1, 2, 3}
    assert np.array_equal(y, x + 1)
    assert [3, 4, 5, 6] in x.tolist()
    assert [4, 5, 6, 7] in y.tolist()


def test_TX_01_a_text_one_longer_than_the_window_has_exactly_one_window():
    x, y = get_batch(np.arange(5, dtype=np.uint8), 4, 50, generator())
    assert (x == [0, 1, 2, 3]).all()
    assert (y == [1, 2, 3, 4]).all()


@given(st.integers(1, 12), st.integers(1, 30), st.integers(1, 5), st.integers(0, 3))
def test_TX_01_windows_are_of_full_length_and_targets_come_one_later(block_size, extra, batch_size, seed):
    ids = np.arange(block_size + extra, dtype=np.uint16)
    x, y = get_batch(ids, block_size, batch_size, generator(seed))
    assert x.shape == y.shape == (batch_size, block_size)
    assert np.array_equal(x, x[:, :1] + np.arange(block_size))
    assert np.array_equal(y, x + 1)


def test_batches_follow_from_the_generator_alone():
    ids = np.arange(100, dtype=np.uint8)
    first, again = generator(3), generator(3)
    for _ in range(3):
        assert np.array_equal(get_batch(ids, 8, 4, first), get_batch(ids, 8, 4, again))
    assert not np.array_equal(get_batch(ids, 8, 4, first), get_batch(ids, 8, 4, generator(3)))


@pytest.mark.parametrize("length", [0, 1, 3, 4])
def test_DT_04_a_text_too_short_for_one_window_says_how_long_it_must_be(length):
    ids = np.arange(length, dtype=np.uint32)
    with pytest.raises(TextError, match=rf"too short: {length} characters, at least 5 are needed"):
        get_batch(ids, 4, 1, generator())


def test_a_batch_is_not_a_view_of_the_text():
    ids = np.zeros(10, np.int64)
    x, y = get_batch(ids, 4, 2, generator())
    x[:], y[:] = 1, 1
    assert not ids.any()


# --------------------------------------------------------------------------------------------------- windows


@given(st.data())
def test_windows_count_every_target_exactly_once_with_enough_context(draw):
    length = draw.draw(st.integers(2, 120))
    block_size = draw.draw(st.integers(1, 40))
    overlap = draw.draw(st.integers(0, block_size - 1))
    batch_size = draw.draw(st.integers(1, 5))
    counted, order = np.zeros(length, int), []
    for x, y in windows(np.arange(length, dtype=np.uint8), block_size, batch_size, overlap):
        assert x.shape == y.shape
        assert x.dtype == y.dtype == np.int64
        assert 1 <= len(x) <= batch_size
        assert 1 <= x.shape[1] <= block_size
        assert x.shape[1] == block_size or len(x) == 1
        for row, targets in zip(x, y):
            assert np.array_equal(row, row[0] + np.arange(len(row)))
            kept = targets != IGNORE
            assert np.array_equal(targets[kept], row[kept] + 1)
            assert kept.any()
            counted[targets[kept]] += 1
            order += targets[kept].tolist()
            seen = 1 + np.flatnonzero(kept)
            assert row[0] == 0 or seen.min() > overlap
    assert counted[0] == 0
    assert (counted[1:] == 1).all()
    assert order == sorted(order)


def test_windows_without_and_with_overlap_written_out():
    def plain(batches):
        return [(x.tolist(), y.tolist()) for x, y in batches]

    ids, no = np.arange(7, dtype=np.uint8), IGNORE
    assert plain(windows(ids, 4, 8)) == [([[0, 1, 2, 3]], [[1, 2, 3, 4]]), ([[4, 5]], [[5, 6]])]
    assert plain(windows(ids, 4, 8, 2)) == [([[0, 1, 2, 3], [2, 3, 4, 5]], [[1, 2, 3, 4], [no, no, 5, 6]])]
    assert plain(windows(ids, 3, 2)) == [([[0, 1, 2], [3, 4, 5]], [[1, 2, 3], [4, 5, 6]])]
    assert plain(windows(ids, 9, 2, 5)) == [([[0, 1, 2, 3, 4, 5]], [[1, 2, 3, 4, 5, 6]])]
    assert plain(windows(np.arange(6), 4, 8, 2)) == [
        ([[0, 1, 2, 3]], [[1, 2, 3, 4]]),
        ([[2, 3, 4]], [[no, no, 5]]),
    ]


def test_windows_leave_the_text_alone_and_refuse_at_once_what_cannot_be():
    ids = np.arange(20)
    for _, y in windows(ids, 4, 2, 3):
        y[:] = 0
    assert np.array_equal(ids, np.arange(20))
    with pytest.raises(TextError, match=r"1 characters, at least 2 are needed; take a longer text$"):
        windows(ids[:1], 4, 1)
    for overlap in -1, 4:
        with pytest.raises(ValueError, match=f"overlap is {overlap}"):
            windows(ids, 4, 1, overlap)
    with pytest.raises(ValueError, match="block_size is 0"):
        windows(ids, 0, 1)


# --------------------------------------------------------------------------------------------------- download


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        server.asked += 1
        status, promised, body = server.answer
        if status == "silence":
            server.released.wait(20)
            return
        self.send_response(status)
        self.send_header("Content-Length", str(promised))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch, tmp_path):
    """A server on this machine that sends PLAY, taking it for tinyshakespeare; an empty cache folder."""
    monkeypatch.setattr(data, "SHAKESPEARE_SHA256", hashlib.sha256(PLAY).hexdigest())
    monkeypatch.setattr(data, "SHAKESPEARE_BYTES", len(PLAY))
    monkeypatch.setenv("TINYGRAD_TF_CACHE", str(tmp_path / "cache" / "deep"))
    for name in "no_proxy", "NO_PROXY":
        monkeypatch.setenv(name, "*")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.asked, server.answer, server.released = 0, (200, len(PLAY), PLAY), threading.Event()
        server.daemon_threads = False  # so that leaving the block waits for every answer
        server.url = f"http://127.0.0.1:{server.server_port}/input.txt"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


def kept():
    """The files in the cache folder: a failed download leaves none, not even a temporary one."""
    return sorted(path.name for path in cache_folder().rglob("*"))


def failure(url):
    with pytest.raises(TextError) as caught:
        load_corpus("tinyshakespeare", url=url)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_tinyshakespeare_is_fetched_once_and_then_read_from_the_cache(server):
    for _ in range(2):
        corpus = load_corpus("tinyshakespeare", url=server.url)
        text = corpus.vocabulary.decode(np.concatenate([corpus.train, corpus.val]))
        assert text.encode() == PLAY
    assert server.asked == 1
    assert kept() == ["tinyshakespeare.txt"]
    assert (cache_folder() / "tinyshakespeare.txt").read_bytes() == PLAY
    assert (corpus.name, corpus.floor) == ("tinyshakespeare", None)


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        ((200, len(PLAY), PLAY[:-1] + b"X"), "its checksum differs"),
        ((200, len(PLAY) + 5, PLAY + b"more\n"), "it is longer than"),
        ((200, 10, PLAY[:10]), "cut off after 10 of"),
        ((200, 0, b""), "cut off after 0 of"),
        ((200, len(PLAY), PLAY[:100]), "127.0.0.1"),  # the line breaks: read as short, or an error of its own
        ((404, 0, b""), "Not Found"),
    ],
)
def test_a_wrong_or_broken_answer_is_refused_and_not_kept(server, answer, part):
    server.answer = answer
    message = failure(server.url)
    assert part in message
    assert server.url in message
    assert "--text FILE" in message
    assert str(cache_folder() / "tinyshakespeare.txt") in message
    assert kept() == []
    server.answer = (200, len(PLAY), PLAY)
    assert len(load_corpus("tinyshakespeare", url=server.url).train)


def test_without_a_network_the_error_says_where_to_put_the_file_and_putting_it_there_works(server):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/input.txt"
    message = failure(url)
    path = cache_folder() / "tinyshakespeare.txt"
    assert str(path) in message
    assert "--text FILE" in message
    path.parent.mkdir(parents=True)
    path.write_bytes(PLAY)
    assert len(load_corpus("tinyshakespeare", url=url).train)


def test_a_server_that_says_nothing_is_given_up(server, monkeypatch):
    monkeypatch.setattr(data, "TIMEOUT", 0.1)
    server.answer = ("silence", 0, b"")
    assert "timed out" in failure(server.url)


@pytest.mark.parametrize("url", ["nonsense", "http://[", "gopher://x/y"])
def test_an_address_that_is_none_is_one_line_too(server, url):
    assert url in failure(url)


@pytest.mark.parametrize("damage", [PLAY[:-7], PLAY + b"x", PLAY.replace(b"s", b"z", 1), b"", b"\0"])
def test_a_damaged_copy_in_the_cache_is_fetched_again(server, damage):
    path = cache_folder() / "tinyshakespeare.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(damage)
    load_corpus("tinyshakespeare", url=server.url)
    assert path.read_bytes() == PLAY
    assert server.asked == 1


def test_a_damaged_copy_that_cannot_be_replaced_is_reported_and_left(server):
    path = cache_folder() / "tinyshakespeare.txt"
    path.parent.mkdir(parents=True)
    path.write_bytes(PLAY[:-7])
    server.answer = (404, 0, b"")
    assert failure(server.url).startswith("the copy kept in the cache is damaged, and ")
    assert path.read_bytes() == PLAY[:-7]


def test_a_cache_folder_that_cannot_be_made_is_one_line(server, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TINYGRAD_TF_CACHE", str(tmp_path / "file" / "cache"))
    message = failure(server.url)
    assert str(tmp_path / "file") in message
    assert "TINYGRAD_TF_CACHE" in message


def test_a_full_disk_leaves_no_part_of_the_file(server, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left on device" in failure(server.url)
    assert kept() == []


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"TINYGRAD_TF_CACHE": "own", "XDG_CACHE_HOME": "{root}/xdg"}, "own"),
        ("linux", {"XDG_CACHE_HOME": "{root}/xdg"}, "{root}/xdg/tinygrad-tf"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "{home}/.cache/tinygrad-tf"),
        ("darwin", {}, "{home}/.cache/tinygrad-tf"),
        ("win32", {"LOCALAPPDATA": "{root}/app", "XDG_CACHE_HOME": "{root}/xdg"}, "{root}/app/tinygrad-tf"),
    ],
)
def test_where_the_cache_folder_is(tmp_path, monkeypatch, platform, variables, expected):
    for name in "TINYGRAD_TF_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA":
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(root=tmp_path))
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_folder() == Path(expected.format(root=tmp_path, home=Path.home()))


def test_the_published_tinyshakespeare_is_the_one_expected(data_folder):
    content = (data_folder / "tinyshakespeare" / "input.txt").read_bytes()
    assert hashlib.sha256(content).hexdigest() == data.SHAKESPEARE_SHA256
    assert len(content) == data.SHAKESPEARE_BYTES
    corpus = load_corpus(str(data_folder / "tinyshakespeare" / "input.txt"))
    assert (len(corpus.train), len(corpus.val), len(corpus.vocabulary)) == (1_003_854, 111_540, 65)
