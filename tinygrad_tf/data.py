"""Corpora by name, their split into what is learned and what is held out, and batches of both.

A corpus is named "stories" (embedded, see `grammar.py`), "tinyshakespeare" (downloaded once), or by the path
of a UTF-8 text file. A file that is itself called "stories" is reached as "./stories".
"""

import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .grammar import STORIES
from .text import TextError, Vocabulary, read_text

STORY_CHARACTERS, STORY_SEED = 1_000_000, 0
START = 16  # characters
IGNORE = -100  # a target that no loss counts, as in PyTorch

SHAKESPEARE = "tinyshakespeare"
NAMED = ("stories", SHAKESPEARE)
SHAKESPEARE_URL = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
SHAKESPEARE_BYTES = 1_115_394
TIMEOUT = 30  # seconds without a byte


@dataclass(frozen=True)
class Corpus:
    """A text as ids: the first nine tenths to learn from, the last tenth held out. The vocabulary may be a Tokenizer."""

    name: str
    train: np.ndarray  # (n,) ids, in the vocabulary's type
    val: np.ndarray  # (m,) ids
    vocabulary: Any  # of the whole text, or that of the model that goes on learning
    floor: float | None = None  # nats per character that no model can beat on average, where known
    changes: str = ""  # what reading changed in the text, in words

    def start(self) -> str:
        """What a sample goes on from: the end of the first held-out paragraph (line, word), so that it begins a new one.

        A newline alone would not do: where attention finds nothing but newlines, it cannot tell how many there were.
        """
        text = self.vocabulary.decode(self.val)
        ends = (re.search(end, text) for end in (r"\S\n\n+", r"\S\n", r"\S\s", r"\S", r"\s"))
        end = next(found.end() for found in ends if found)
        return text[max(0, end - START) : end]


def load_corpus(spec: str = "stories", vocabulary: Any = None, *, url: str = SHAKESPEARE_URL) -> Corpus:
    """The corpus of that name or path, split 90/10 by position, in a vocabulary of its own if none is given.

    tinyshakespeare is fetched from `url`. A floor is in nats per character, so there is none in other units.

    Raises TextError, in one line with the next step, for a text that cannot be read, used or fetched.
    """
    if spec == "stories":
        return _split(spec, STORIES.text(STORY_CHARACTERS, STORY_SEED), STORIES.entropy_per_character(), "", vocabulary)
    if spec == SHAKESPEARE:
        read = read_text(_shakespeare(url))
    else:
        try:
            read = read_text(spec)
        except TextError as error:
            named = "" if os.path.exists(spec) else f"; corpora with a name are stories and {SHAKESPEARE}"
            raise TextError(f"{error}{named}") from None
    return _split(spec, read.text, None, read.changes(), vocabulary)


def _split(name: str, text: str, floor: float | None, changes: str, vocabulary: Any) -> Corpus:
    vocabulary = Vocabulary(text) if vocabulary is None else vocabulary
    floor = floor if vocabulary.unit == Vocabulary.unit else None
    ids = vocabulary.encode(text)
    learned = len(ids) * 9 // 10
    return Corpus(name, ids[:learned], ids[learned:], vocabulary, floor, changes)


# ---------------------------------------------------------------------------------------------------- batches


def get_batch(
    ids: np.ndarray, block_size: int, batch_size: int, generator: np.random.Generator, part: slice = slice(None)
) -> tuple[np.ndarray, np.ndarray]:
    """(x, y), both (batch_size, block_size) int64: random windows, and the same windows one character later.

    `part`: of the whole batch, all of which is drawn, only these rows.

    A window starts at any of 0 ... L - block_size - 1, each equally likely: all are of full length, and the
    last one's targets end with the text. Raises TextError if not even one fits.
    """
    _check(ids, block_size, block_size + 1)
    starts = generator.integers(0, len(ids) - block_size, size=batch_size)[part]
    return _gather(ids, starts, block_size)


def windows(
    ids: np.ndarray, block_size: int, batch_size: int, overlap: int = 0
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Batches (x, y), (up to batch_size, block_size) int64, that count each of a text's L - 1 targets once.

    This is the usual strided evaluation of a model with a fixed context. Windows follow each other at a
    distance of block_size - overlap. In all but the first, the first `overlap` targets were counted by the
    window before; they are -100 here, and their inputs only serve as context. So every counted target sees
    more than `overlap` characters, except in the first window. The last window may be shorter, and is then a
    batch of its own. The loss of the text is the sum over the counted targets, divided by L - 1.

    Raises TextError for fewer than 2 characters, ValueError for an overlap outside 0 ... block_size - 1.
    """
    _check(ids, block_size, 2)
    if not 0 <= overlap < block_size:
        raise ValueError(f"overlap is {overlap}; it must be from 0 to below block_size, {block_size}")
    return _windows(ids, block_size, batch_size, overlap)


def _windows(
    ids: np.ndarray, block_size: int, batch_size: int, overlap: int
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    stride, targets = block_size - overlap, len(ids) - 1
    full = max(0, (targets - block_size) // stride + 1)  # windows of full length
    last = full * stride
    starts = np.arange(0, last, stride)
    groups = [(starts[i : i + batch_size], block_size) for i in range(0, full, batch_size)]
    if last + (overlap if full else 0) < targets:
        groups.append((np.array([last]), targets - last))
    for starts, length in groups:
        x, y = _gather(ids, starts, length)
        y[starts > 0, :overlap] = IGNORE
        yield x, y


def _check(ids: np.ndarray, block_size: int, least: int) -> None:
    if block_size < 1:
        raise ValueError(f"block_size is {block_size}; it must be at least 1")
    if len(ids) < least:
        raise TextError(
            f"the text is too short: {len(ids)} characters, at least {least} are needed; take a longer text"
            + (f" or a block_size below {block_size}" if least > 2 else "")
        )


def _gather(ids: np.ndarray, starts: np.ndarray, length: int) -> tuple[np.ndarray, np.ndarray]:
    inside = starts[:, None] + np.arange(length)  # (B, T)
    x, y = ids.take(inside), ids.take(inside + 1)
    return x.astype(np.int64, copy=False), y.astype(np.int64, copy=False)


# -------------------------------------------------------------------------------------------- tinyshakespeare


def cache_folder() -> Path:
    """Where downloads are kept: $TINYGRAD_TF_CACHE, else tinygrad-tf in the user's cache folder."""
    own = os.environ.get("TINYGRAD_TF_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME", "")
    # The XDG rules: a relative path is to be ignored.
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "tinygrad-tf"


def _shakespeare(url: str) -> Path:
    """The path of the cached file, which is fetched first if it is missing or not what it should be."""
    path = cache_folder() / f"{SHAKESPEARE}.txt"
    try:
        cached = path.read_bytes() if path.exists() else b""
        if _is_shakespeare(cached):
            return path
        data = _fetch(url, path, "the copy kept in the cache is damaged, and " if cached else "")
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, data)
    except OSError as error:
        raise TextError(
            f"{str(path)!r} cannot be read or written ({error.strerror or error}): "
            "set TINYGRAD_TF_CACHE to a folder where you can"
        ) from None
    return path


def _is_shakespeare(data: bytes) -> bool:
    return hashlib.sha256(data).hexdigest() == SHAKESPEARE_SHA256


def _fetch(url: str, path: Path, before: str) -> bytes:
    """The bytes of tinyshakespeare, or TextError: nothing else is ever returned."""
    # Here and not above: these load the network stack, which only a first download needs.
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import urlopen

    instead = f"put the file at {str(path)!r} yourself, or take a text of your own: --text FILE"
    try:
        with urlopen(url, timeout=TIMEOUT) as response:
            data = response.read(SHAKESPEARE_BYTES + 1)  # one more than expected shows that it is too long
    except (OSError, HTTPException, ValueError) as error:  # an unreachable host, a broken answer, a bad URL
        if isinstance(error, HTTPError):
            error.close()  # it holds the connection
        reason = getattr(error, "reason", None) or error
        raise TextError(f"{before}{SHAKESPEARE} cannot be had from {url} ({reason}): {instead}") from None
    if len(data) < SHAKESPEARE_BYTES:
        what = f"it is cut off after {len(data):,} of {SHAKESPEARE_BYTES:,} bytes"
    elif len(data) > SHAKESPEARE_BYTES:
        what = f"it is longer than {SHAKESPEARE_BYTES:,} bytes"
    else:
        what = "its checksum differs"
    if not _is_shakespeare(data):
        raise TextError(f"{before}what {url} sent is not {SHAKESPEARE} ({what}): {instead}")
    return data


def _write(path: Path, data: bytes) -> None:
    """Beside the target, under a name of its own (two runs may fetch at once), and then renamed over it."""
    descriptor, beside = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
