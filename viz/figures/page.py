"""A figure as one HTML file that opens from disk and asks for nothing: each state of its controls was computed by the engine.

A figure with a formula in place of a grid (`Interactive.page`) brings a script that computes it.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from pathlib import Path
from typing import Any

from .figure import Control, Interactive, numbered, sheet


def save(figure: Interactive, path: Any) -> None:
    """Write the page of a figure; a file that is there is replaced. ValueError for a name that does not end in .html."""
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"{path}: a figure is saved as .html; name the file {path.with_suffix('.html').name}")
    path.write_text(page(figure), encoding="utf-8")


def page(figure: Interactive) -> str:
    """The page as text."""
    free = figure.page is not None
    data = {"settings": {c.name: c.value for c in figure.controls}, "first": figure().html()} if free else states(figure)
    scripts = sheet(figure.page or "walk.js") + "\n" + sheet("free.js" if free else "page.js")
    script = '(() => {\n"use strict";\n' + scripts + "})();\n"
    parts = {
        "title": html.escape(figure.title),
        "hash": "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "style": sheet("figure.css"),
        "controls": "".join(_free(control) if free else _control(i, control) for i, control in enumerate(_moved(figure))),
        "first": figure().html(),
        "data": json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c"),
        "script": script,
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda m: parts[m[1]], sheet("page.html"))


def states(figure: Interactive) -> dict[str, Any]:
    """{"controls": …, "pool": the different lines, "states": for each setting, in the order of `grid`, its frames as lines}."""
    pool: dict[str, int] = {}
    states = [numbered(figure.frames(**settings), pool) for settings in figure.grid(steps=False)]
    controls = [
        {"count": len(control.grid), "at": control.grid.index(control.value), "words": [_word(value) for value in control.grid]}
        for control in _moved(figure)
    ]
    return {"controls": controls, "pool": list(pool), "states": states}


def _moved(figure: Interactive) -> list[Control]:
    return [control for control in figure.controls if control.kind != "steps"]


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)


def _control(i: int, control: Control) -> str:
    at, label = control.grid.index(control.value), html.escape(control.label)
    if control.kind == "switch":
        return f'<label><input type="checkbox" data-control="{i}"{" checked" * at}> {label}</label>'
    if control.kind == "slider":
        return (f'<label>{label} <input type="range" data-control="{i}" min="0" max="{len(control.grid) - 1}" value="{at}">'
                f"<output>{_word(control.value)}</output></label>")  # fmt: skip
    options = "".join(
        f'<option value="{n}"{" selected" * (n == at)}>{html.escape(_word(value))}</option>'
        for n, value in enumerate(control.grid)
    )
    return f'<label>{label} <select data-control="{i}">{options}</select></label>'


def _free(control: Control) -> str:
    """A slider over all whole numbers, and a field in which one is written."""
    ends = f'data-name="{control.name}" min="{control.grid[0]}" max="{control.grid[-1]}" value="{control.value}"'
    label = html.escape(control.label)
    return (f'<label>{label} <input type="range" {ends}>'
            f'<input type="number" {ends} aria-label="{label}, written as a number"></label>')  # fmt: skip
