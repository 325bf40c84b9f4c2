"""The exercises of a lesson with what is known of each: a line of the index, and the panel below a lesson's last figure."""

from __future__ import annotations

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


def panel(lesson: Lesson, checked: bool = False) -> str:
    """HTML with one line for each exercise; with `checked`, the reader's file is checked first, for its hints and prints."""
    try:
        place = answers.folder()
        results = {result.name: result for result in checking.check(lesson, answers.file(lesson, place))} if checked else {}
        where = (
            f"Your answers go into <code>{escape(str(place / lesson.path.name))}</code>. After saving it, press the button, or"
        )
    except ValueError as error:
        results, where = {}, f"{escape(str(error))}. Then"
    kept, rows = progress.kept(lesson), []
    for name in lesson.exercises:
        kind, sign, said = state(kept.get(name))
        result = results.get(name)
        if result is not None and result.passed:
            kind, sign, said = "passes", "✓", "passes"
        elif result is not None and (result.written or kept.get(name) is None):
            kind, sign, said = "fails", "✗", result.hint
        printed = f"<pre>{escape(result.printed)}</pre>" if result is not None and result.printed else ""
        words = escape(said).replace("\n", "<br>")
        rows.append(
            f"<li class='{kind}'><span aria-hidden='true'>{sign}</span> <code>{escape(name)}</code>: {words}{printed}</li>"
        )
    return (f"<section class='lesson-exercises'><h3>Exercises</h3><p>{where} run "
            f"<code>tinygrad-tf check {lesson.number}</code>.</p><ul role='status'>{''.join(rows)}</ul></section>")  # fmt: skip
