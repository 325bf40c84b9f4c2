"""Text in, text out: reading a file by fixed rules, and a vocabulary of characters.

A character is a code point. A combining mark counts by itself, an emoji family counts as its five code
points, and nothing is normalised: what is read is what is learned and written again.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .errors import OneLine

SHOWN = 12  # how many unknown characters a message lists


class TextError(OneLine):
    """A text that cannot be used. The message is one line: what, where, and what to do."""


class TextFile(NamedTuple):
    """What `read_text` read, and what it changed."""

    text: str
    bom: bool  # a byte-order mark was removed
    crlf: int  # CR LF pairs that became \n
    cr: int  # single CRs that became \n

    def changes(self) -> str:
        """In words, for a log; "" if nothing was changed."""
        parts = ["byte-order mark removed"] if self.bom else []
        for count, what in (self.crlf, "CR LF"), (self.cr, "CR"):
            if count:
                parts.append(f"{count:,} line ends {what} read as \\n")
        return ", ".join(parts)


def read_text(path: str | Path) -> TextFile:
    """The text of a UTF-8 file. A leading byte-order mark is dropped; CR LF and CR become \\n.

    Raises TextError, naming the file, for one that is missing, no regular file, unreadable, empty, binary (it
    holds a NUL byte), or not UTF-8. An encoded lone surrogate (half of a character) is not UTF-8 either.
    """
    path, name = Path(path), str(path)
    try:
        if path.exists() and not path.is_file():  # a device may have no end, a pipe may never begin
            what = "a folder" if path.is_dir() else "no regular file"
            raise TextError(f"{name!r} is {what}: give the path of one text file")
        data = path.read_bytes()
    except FileNotFoundError:
        raise TextError(f"there is no file {name!r}: check the path") from None
    except TextError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        reason = getattr(error, "strerror", None) or error
        raise TextError(f"{name!r} cannot be read ({reason}): check the path and your rights to it") from None

    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise TextError(f"{name!r} is UTF-16 by its first two bytes, not UTF-8: save it as UTF-8")
    if b"\0" in data:
        raise TextError(f"{name!r} is binary, not text: byte {data.index(0)} is NUL; give a UTF-8 text file")
    bom = data.startswith(b"\xef\xbb\xbf")
    try:
        text = data.decode("utf-8")[bom:]
    except UnicodeDecodeError as error:
        raise TextError(f"{name!r} is not UTF-8: {_fault(data, error)}; save it as UTF-8") from None
    if not text:
        raise TextError(f"{name!r} is empty: give a file with text in it")
    crlf = text.count("\r\n")
    cr = text.count("\r") - crlf
    return TextFile(text.replace("\r\n", "\n").replace("\r", "\n"), bom, crlf, cr)


def _fault(data: bytes, error: UnicodeDecodeError) -> str:
    at = error.start
    try:
        half = data[at : at + 3].decode("utf-8", "surrogatepass")
        return f"lone surrogate U+{ord(half):04X} at byte {at}"
    except (UnicodeDecodeError, TypeError):
        return f"byte {at} is 0x{data[at]:02X} ({error.reason})"


class UnknownCharacters(TextError):
    """Characters outside the vocabulary; `characters` holds each once, in the order they appear."""

    def __init__(self, characters: str):
        self.characters = characters
        listed = ", ".join(f"{_shown(c)} (U+{ord(c):04X})" for c in characters[:SHOWN])
        more = f" and {len(characters) - SHOWN} more" if len(characters) > SHOWN else ""
        super().__init__(f"not in the vocabulary: {listed}{more}; leave them out")


def _shown(character: str) -> str:
    return f'"{character}"' if character.isprintable() else ascii(character).replace("'", '"')


class Vocabulary:
    """The distinct characters of a text, sorted by code point; a character's id is its place.

    Raises TextError for a text that is empty or holds a lone surrogate, which no file could ever hold.
    """

    unit = "character"  # what a loss is counted by
    ends: tuple[int, ...] = ()  # ids that end a text: no character does

    def __init__(self, text: Iterable[str]):
        self.characters = "".join(sorted(set(text)))
        if not self.characters:
            raise TextError("a vocabulary needs at least one character: the text is empty")
        surrogates = [c for c in self.characters if "\ud800" <= c <= "\udfff"]
        if surrogates:
            raise TextError(f"lone surrogate U+{ord(surrogates[0]):04X} is no character: cut it out")
        self._codes = _code_points(self.characters)
        self.dtype = np.min_scalar_type(len(self) - 1)

    def __len__(self) -> int:
        return len(self.characters)

    def __contains__(self, character: object) -> bool:
        return isinstance(character, str) and len(character) == 1 and character in self.characters

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.characters == other.characters

    def __hash__(self) -> int:
        return hash(self.characters)

    def __repr__(self) -> str:
        return f"Vocabulary({self.characters!r})"

    def encode(self, text: str, skip_unknown: bool = False) -> np.ndarray:
        """The ids of a text: (len(text),), in the smallest unsigned type that holds every id.

        Raises UnknownCharacters for characters outside the vocabulary; with `skip_unknown` they are left out.
        """
        codes = _code_points(text)
        ids = np.minimum(np.searchsorted(self._codes, codes), len(self) - 1)
        known = self._codes[ids] == codes
        if not known.all():
            if not skip_unknown:
                raise UnknownCharacters("".join(dict.fromkeys(map(chr, codes[~known].tolist()))))
            ids = ids[known]
        assert np.iinfo(self.dtype).max >= len(self) - 1
        return ids.astype(self.dtype)

    def decode(self, ids: Any) -> str:
        """The text of ids: a list or array (T,) of integers, or a single one.

        Raises TypeError for ids that are no integers, ValueError for one outside 0 ... size - 1.
        """
        array = np.atleast_1d(np.asarray(ids))
        if array.size == 0:
            return ""
        if array.dtype.kind not in "iu" or array.ndim != 1:
            raise TypeError(f"ids must be one row of integers, not {array.dtype} of shape {array.shape}")
        bad = np.flatnonzero((array < 0) | (array >= len(self)))
        if bad.size:
            at = bad[0]
            raise ValueError(f"id {array[at]} at position {at} is outside the vocabulary of size {len(self)}")
        return self._codes[array].tobytes().decode("utf-32-le")

    def stream(self, ids: Iterable[int], before: Any = ()) -> Iterator[str]:
        """The text of ids as they come. What stood before changes nothing: a character is a character."""
        return (self.decode([i]) for i in ids)

    def default_start(self) -> str:
        """A character to begin a text with that the vocabulary is sure to hold: a newline if it can be."""
        return "\n" if "\n" in self else self.characters[0]

    def to_json(self) -> list[str]:
        """The characters in order, for a JSON file."""
        return list(self.characters)

    @classmethod
    def from_json(cls, value: Any) -> "Vocabulary":
        """What `to_json` gave. Raises TextError unless it is a sorted list of distinct single characters."""
        if not isinstance(value, list) or not all(isinstance(c, str) and len(c) == 1 for c in value):
            raise TextError("the vocabulary is no list of single characters: the file is damaged or foreign")
        vocabulary = cls(value)
        if vocabulary.to_json() != value:
            raise TextError("the vocabulary is not sorted or repeats itself: the file is damaged or foreign")
        return vocabulary


def _code_points(text: str) -> np.ndarray:
    """(len(text),) uint32. Lone surrogates pass: no vocabulary holds one, so they come out as unknown."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
