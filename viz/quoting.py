"""The words of DOT, Graphviz's language: quoted strings, labels and lists of attributes."""

from __future__ import annotations

import re
from textwrap import wrap

LONGEST = 60  # characters of one line in a label


class Quoted(str):
    """Text that is a quoted string of DOT already."""


def quoted(text: str) -> Quoted:
    """A quoted string of DOT, letter by letter: no escape of Graphviz's, no HTML, no line break of the text's own."""
    text = "".join(c if c.isprintable() else "↵" if c == "\n" else "�" for c in text)
    return Quoted('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"')


def in_utf8(text: str) -> str:
    """The text as UTF-8 can hold it: half a surrogate pair, which is no character, becomes U+FFFD."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def label(*lines: str) -> Quoted:
    """Lines of text, one below the other, as the value of a label."""
    cut = (line if len(line) <= LONGEST else line[: LONGEST - 1] + "…" for line in lines)
    return Quoted('"' + "\\n".join(quoted(line.replace("&", "&amp;"))[1:-1] for line in cut) + '"')


def wrapped(*texts: str) -> list[str]:
    """The lines of a caption."""
    return [line for text in texts for line in wrap(text, LONGEST)]


def attributes(**values: object) -> str:
    """[name=value, ...] without what is None."""
    parts = []
    for name, value in values.items():
        if value is not None:
            text = f"{value:.4g}" if isinstance(value, float) else value
            parts.append(f"{name.rstrip('_')}={text if isinstance(text, Quoted) else quoted(str(text))}")
    return f" [{', '.join(parts)}]" if parts else ""
