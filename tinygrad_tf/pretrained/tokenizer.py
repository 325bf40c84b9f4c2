"""The tokenizer that comes with a public checkpoint, by the package `tokenizers`, with the methods of a `Vocabulary`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from .configs import CONFIG, END
from .weightfiles import PretrainedError, read_json

FILE, WORDS, SETTINGS = "tokenizer.json", "vocab.txt", "tokenizer_config.json"
HALF = "\ufffd"  # what a character decodes to of which some bytes are still to come
CONTEXT = 8  # tokens that are decoded together with a new one, for the space between them


class Tokenizer:
    """Pieces of words, each with an id. `unit` is what a loss is counted by, `ends` are the ids after which a text is over."""

    unit = "token"

    def __init__(self, inner: Any, ends: Sequence[int] = ()):
        self.inner, self.ends = inner, tuple(ends)
        inner.no_truncation()  # a file may say both; here the caller decides
        inner.no_padding()

    def __len__(self) -> int:
        return self.inner.get_vocab_size()

    def __repr__(self) -> str:
        return f"Tokenizer of {len(self):,} entries"

    def encode(self, text: str, special: bool = False) -> np.ndarray:
        """The ids (T,) of a text. special: with what the model's texts stand between, as [CLS] and [SEP], or <s>."""
        with _in_words([text]):
            return np.array(self.inner.encode(text, add_special_tokens=special).ids, np.int64)

    def decode(self, ids: Any) -> str:
        """The text of ids (T,), or of a single one; special tokens are left out."""
        array = np.atleast_1d(np.asarray(ids))
        if array.size and (array.dtype.kind not in "iu" or array.ndim != 1 or int(array.min()) < 0):
            raise ValueError(f"ids must be one row of integers from 0 up, not {array.dtype} of shape {array.shape}")
        return self.inner.decode(array.tolist())

    def stream(self, ids: Iterable[int], before: Sequence[int] | np.ndarray = ()) -> Iterator[str]:
        """The text of ids as they come, after the ids `before`; a character comes when all of its bytes are there."""
        held = [int(i) for i in before][-CONTEXT:]
        done = self.decode(held)
        for i in ids:
            held.append(int(i))
            text = self.decode(held)
            if not text.endswith(HALF):
                yield text[len(done) :]
                held = held[-CONTEXT:]
                done = self.decode(held)
        rest = self.decode(held)[len(done) :]
        if rest:
            yield rest

    def batch(self, texts: Sequence[str], longest: int) -> tuple[np.ndarray, np.ndarray]:
        """ids (B, T) and mask (B, T), true where a token stands: texts with their special tokens, cut at `longest`."""
        self.inner.enable_truncation(longest)
        try:
            with _in_words(texts):
                rows = [row.ids for row in self.inner.encode_batch(list(texts))]
        finally:
            self.inner.no_truncation()
        mask = np.arange(max(map(len, rows), default=0)) < np.array([len(row) for row in rows])[:, None]
        ids = np.zeros(mask.shape, np.int64)
        ids[mask] = [i for row in rows for i in row]
        return ids, mask

    def default_start(self) -> str:
        """Something to begin a text with."""
        return "\n" if len(self.encode("\n")) else "a"

    def to_json(self) -> dict[str, Any]:
        """The whole tokenizer, for a JSON file."""
        return {FILE: self.inner.to_str(), "ends": list(self.ends)}

    @classmethod
    def from_json(cls, value: Any) -> Tokenizer:
        """What `to_json` gave."""
        if not isinstance(value, dict) or not isinstance(value.get(FILE), str):
            raise PretrainedError("the tokenizer is no text of a tokenizer.json: the file is damaged or foreign")
        return cls(_parsed(value[FILE], "the tokenizer"), _ids(value.get("ends"), "the tokenizer: ends"))


@contextmanager
def _in_words(texts: Sequence[str]) -> Iterator[None]:
    """What cannot be encoded, as one line: half characters, which not every version of the package refuses, and the rest."""
    half = next((c for text in texts for c in text if "\ud800" <= c <= "\udfff"), None)
    if half is not None:
        raise PretrainedError(f"lone surrogate U+{ord(half):04X} is no character: cut it out of the text")
    try:
        yield
    except Exception as error:  # it raises no type of its own
        raise PretrainedError(f"this tokenizer cannot encode the text ({' '.join(str(error).split())})") from None


def load_tokenizer(folder: str | Path) -> Tokenizer:
    """The tokenizer in a folder: its tokenizer.json, or, for BERT, its vocab.txt. Needs the package `tokenizers`.

    What ends a text is the eos_token_id of the config.json beside it, if there is one: an id or several.
    """
    folder = Path(folder)
    if (folder / FILE).is_file():
        read_json(folder / FILE)
        config = folder / CONFIG
        ends = _ids(read_json(config).get(END), f"{config}: {END}") if config.is_file() else ()
        return Tokenizer(_parsed((folder / FILE).read_text(encoding="utf-8"), str(folder / FILE)), ends)
    if (folder / WORDS).is_file():
        return Tokenizer(_word_pieces(folder))
    if not folder.is_dir():
        what = "is a file: name the folder that it is in" if folder.exists() else "is no folder here"
        raise PretrainedError(f"{folder} {what}")
    raise PretrainedError(f"{folder} holds no tokenizer: neither {FILE} nor, for BERT, {WORDS}; it comes with the weights")


def _ids(value: Any, what: str) -> tuple[int, ...]:
    """None, an id or a list of ids, from a JSON file."""
    ids = [] if value is None else value if isinstance(value, list) else [value]
    if not all(type(i) is int and 0 <= i < 2**63 for i in ids):
        raise PretrainedError(f"{what}={value!r} is no id and no list of ids")
    return tuple(ids)


def _package() -> Any:
    try:
        return import_module("tokenizers")  # by name: an extra, which the rest of the package must not need
    except ImportError:
        raise PretrainedError("a tokenizer needs the package tokenizers: pip install tokenizers, "
                              "or pip install -e '.[pretrained]' in a clone") from None


def _parsed(text: str, where: str) -> Any:
    package = _package()
    try:
        return package.Tokenizer.from_str(text)
    except Exception as error:  # the package raises no type of its own
        raise PretrainedError(f"{where} is none that the package tokenizers reads ({' '.join(str(error).split())})") from None


def _word_pieces(folder: Path) -> Any:
    """BERT's tokenizer from the list of its pieces, one a line; the line's number is the id."""
    package = _package()
    file = folder / WORDS
    try:
        pieces = file.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        raise PretrainedError(f"{file} is not UTF-8; fetch it again") from None
    ids = {piece.rstrip("\r"): i for i, piece in enumerate(pieces) if piece.rstrip("\r")}
    lacking = [piece for piece in ("[UNK]", "[CLS]", "[SEP]") if piece not in ids]
    if lacking:
        raise PretrainedError(f"{file} is no vocabulary of BERT: it has no {', '.join(lacking)}")
    lower = (read_json(folder / SETTINGS) if (folder / SETTINGS).exists() else {}).get("do_lower_case", True)
    if type(lower) is not bool:
        raise PretrainedError(f"{folder / SETTINGS}: do_lower_case={json.dumps(lower)} is neither true nor false")
    inner = package.Tokenizer(package.models.WordPiece(ids, unk_token="[UNK]"))
    inner.normalizer = package.normalizers.BertNormalizer(lowercase=lower)
    inner.pre_tokenizer = package.pre_tokenizers.BertPreTokenizer()
    inner.decoder = package.decoders.WordPiece()
    special = [(piece, ids[piece]) for piece in ("[CLS]", "[SEP]")]
    inner.post_processor = package.processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", special)
    inner.add_special_tokens([p for p in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]") if p in ids])
    return inner
