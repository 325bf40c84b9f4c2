"""What the notebooks share: the numbers at the end, the exercises with their state, the way to the other lessons.

again = check_button()          # one cell, shown
exercises(5, again)             # the next: the panel; a click checks the reader's file
show(numbers)                   # the last: lines in a script, a table in the notebook
links(5)                        # previous, index, next
"""

from __future__ import annotations

import os
from html import escape
from typing import Any

import numpy as np

from tinygrad_tf import Tensor

from . import catalogue, progress

SERVED = "TINYGRAD_TF_LESSONS"  # set where `tinygrad-tf lessons` serves the notebook: the folder of the reader's answers


def text(value: Any) -> str:
    """A value as the numbers of a lesson are written: six digits, arrays without their type."""
    if isinstance(value, Tensor):
        value = value.array
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, (np.ndarray, list, tuple)):
        return "[" + ", ".join(text(item) for item in value) + "]"
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.6g}"
    if isinstance(value, (int, np.integer)):
        return f"{int(value):,}"
    return str(value)


def show(numbers: dict[str, Any]) -> Any:
    """The numbers of a lesson: printed, one a line, by a script; a table in the notebook."""
    import marimo as mo

    if not mo.running_in_notebook():
        for name, value in numbers.items():
            print(f"{name}: {text(value)}")
        return None
    rows = [f"<tr><th scope='row'>{escape(name)}</th><td>{escape(text(value))}</td></tr>" for name, value in numbers.items()]
    return mo.Html(f"<table class='lesson-numbers'><caption>The numbers of this lesson</caption>{''.join(rows)}</table>")


def check_button() -> Any:
    """A button that `exercises` answers to."""
    import marimo as mo

    return mo.ui.run_button(label="Check my answers")


def exercises(number: int, button: Any = None) -> Any:
    """The exercises of a lesson with what is known of each; after a click on the button, the reader's file is checked."""
    import marimo as mo

    from . import panel

    if not mo.running_in_notebook():
        return None
    return mo.Html(panel.panel(catalogue.lesson(number), checked=bool(button is not None and button.value)))


def links(number: int) -> Any:
    """Previous lesson, index, next lesson; nothing in a script. Where lessons are served, the reader is now at this one."""
    import marimo as mo

    if not mo.running_in_notebook():
        return None
    there = {each.number: each for each in catalogue.lessons()}
    before, after = there.get(number - 1), there.get(number + 1)
    if SERVED not in os.environ:  # opened by marimo itself, where these addresses lead nowhere
        return mo.md(f"Next: `tinygrad-tf lessons {after.number}`" if after else "")
    progress.opened(number)
    said = [f"[← {before.number} · {before.title}](../{before.number}/)"] if before else []
    said += ["[All lessons](../)"]
    said += [f"[{after.number} · {after.title} →](../{after.number}/)"] if after else []
    return mo.md(" &emsp; ".join(said))
