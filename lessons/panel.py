"""The exercises of a lesson with what is known of each: a line of the index, and the panel below a lesson's last figure."""

from __future__ import annotations

import re
from html import escape

from . import answers, checking, progress
from .catalogue import Lesson


def state(kept: progress.Kept | None) -> tuple[str, str, str]:
    """What is known of one exercise: its kind, a sign for it, and words."""
    if kept is None:
        return "open", "○", "open"
    if not kept.passes:
        return "fails", "✗", f"passed on {kept.date}, the last answer does not"
    if not kept.current:
        return "again", "↻", f"passed on {kept.date}; its check has changed since, check it again"
    return "passes", "✓", f"passed on {kept.date}"


def panel(lesson: Lesson, checked: bool = False, button: str = "") -> str:
    """HTML with what each exercise asks and what is known of it; with `checked`, the reader's file is checked first.

    button: HTML that stands under the heading.
    """
    try:
        place = answers.folder()
        results = {result.name: result for result in checking.check(lesson, answers.file(lesson, place))} if checked else {}
        where = (
            f"Your answers go into <code>{escape(str(place / lesson.path.name))}</code>. After saving it, press the button, or"
        )
    except ValueError as error:
        results, where = {}, f"{escape(str(error))}. Then"
    kept, asked, rows = progress.kept(lesson), lesson.asked, []
    broken = next((result for result in results.values() if result.file), None)
    for name in lesson.exercises:
        kind, sign, said = state(kept.get(name))
        result = results.get(name)
        if result is not None and result.passed:
            kind, sign, said = "passes", "✓", "passes"
        elif result is not None and result.file:
            kind, sign, said = "fails", "✗", "not checked"
        elif result is not None and result.written:
            kind, sign, said = "fails", "✗", result.hint
        elif result is not None and name not in kept:
            said = result.hint
        printed = f"<pre>{escape(result.printed)}</pre>" if result is not None and result.printed else ""
        words = escape(said).replace("\n", "<br>")
        rows.append(f"<li class='{kind}'><code>{escape(name)}</code>: {_code(asked.get(name, ''))}"
                    f"<div class='told'><span aria-hidden='true'>{sign}</span> {words}</div>{printed}</li>")  # fmt: skip
    whole = f"<p class='broken'>✗ {escape(broken.hint)}</p>" if broken is not None else ""
    return (f"<section class='lesson-exercises'><h3>Exercises</h3><p>{where} run "
            f"<code>tinygrad-tf check {lesson.number}</code>.</p>{button}<div role='status'>{whole}"
            f"<ul>{''.join(rows)}</ul></div></section>")  # fmt: skip


def checking_now(lesson: Lesson) -> str:
    """HTML that stands there while the answers are checked."""
    names = ", ".join(f"<code>{escape(name)}</code>" for name in lesson.exercises)
    return f"<section class='lesson-exercises'><h3>Exercises</h3><p role='status'>Checking {names} …</p></section>"


def _code(words: str) -> str:
    """Words of a docstring with what stands in backticks as code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(words))
