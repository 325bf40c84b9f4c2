"""What the notebooks share: the numbers at the end, the exercises with their state, the way to the other lessons.

pictures(plot, plot)            # plots of viz.reading, side by side
again = check_button()          # one cell
exercises(5, again)             # the next: the panel with the button; a click checks the reader's file
show(numbers)                   # the last: lines in a script, a table in the notebook
links(5)                        # previous, index, next
"""

from __future__ import annotations

import os
import re
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
    systems = next((name.split()[0] for name in numbers if re.match(r"S\d+ ", name)), None)
    said = (f"<p>{systems} and the like are names of systems, S1 to S36, that the lessons build between them; the list of all "
            "lessons shows which are built where.</p>") if systems else ""  # fmt: skip
    return mo.Html(f"<table class='lesson-numbers'><caption>The numbers of this lesson{said}</caption>"
                   f"{''.join(rows)}</table>")  # fmt: skip


def pictures(*plots: Any) -> Any:
    """Plots of viz.reading on white paper, side by side where there is room; nothing in a script.

    On a phone each is shrunk by a fifth at most, so that its words can be read; what is still too wide is dragged sideways.
    """
    import marimo as mo

    if not mo.running_in_notebook():
        return None
    shown = []
    for plot in plots:
        svg = plot.render().decode()
        style = f"display:block;max-width:100%;min-width:{0.8 * 72 * plot.size[0]:.0f}pt;height:auto"
        svg = svg[svg.index("<svg") :].replace("<svg", f"<svg style='{style}'", 1)
        shown.append(f"<div style='max-width:100%;overflow-x:auto;background:white;border-radius:6px'>{svg}</div>")
    return mo.Html(f"<div style='display:flex;flex-wrap:wrap;gap:1rem'>{''.join(shown)}</div>")


def check_button() -> Any:
    """A button that `exercises` shows and answers to."""
    import marimo as mo

    return mo.ui.run_button(label="Check my answers")


def exercises(number: int, button: Any = None) -> Any:
    """The exercises of a lesson with what is known of each; after a click on the button, the reader's file is checked."""
    import marimo as mo

    from . import panel

    if not mo.running_in_notebook():
        return None
    lesson, clicked = catalogue.lesson(number), bool(button is not None and button.value)
    if clicked:
        mo.output.replace(mo.Html(panel.checking_now(lesson)))
    return mo.Html(panel.panel(lesson, clicked, "" if button is None else f"<p>{button}</p>"))


def links(number: int) -> Any:
    """Previous lesson, index, glossary, next lesson; nothing in a script. Served, it notes that the reader is at this one."""
    import marimo as mo

    if not mo.running_in_notebook():
        return None
    there = {each.number: each for each in catalogue.lessons()}
    before, after = there.get(number - 1), there.get(number + 1)
    if SERVED not in os.environ:  # opened by marimo itself, where these addresses lead nowhere
        return mo.md(f"Next: `tinygrad-tf lessons {after.number}`" if after else "")
    progress.opened(number)
    said = [f"[← {before.number} · {before.title}](../{before.number}/)"] if before else []
    said += ["[All lessons](../)", "[Glossary](../glossary)"]
    said += [f"[{after.number} · {after.title} →](../{after.number}/)"] if after else []
    return mo.md(" &emsp; ".join(said))
