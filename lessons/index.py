"""The pages beside the lessons: all of them, with where the reader was and which exercises pass, and the glossary."""

from __future__ import annotations

from html import escape
from pathlib import Path

from . import catalogue, progress
from .catalogue import Lesson
from .panel import state


def page() -> str:
    """The page as HTML, with what is known now."""
    there, last = catalogue.lessons(), progress.last()
    kept = {lesson.name: progress.kept(lesson) for lesson in there}
    done = sum(_passes(kept[lesson.name].get(name)) for lesson in there for name in lesson.exercises)
    return "".join([
        _head("Lessons"),
        "<main><h1>Lessons</h1>",
        _way(there, last),
        f"<p class='count'>{done} of {sum(len(lesson.exercises) for lesson in there)} exercises pass. "
        "<code>tinygrad-tf check</code> checks them. Terms are in the <a href='/glossary'>glossary</a>.</p><ol>",
        *(_row(lesson, kept[lesson.name], lesson.number == last) for lesson in there),
        "</ol></main></html>",
    ])  # fmt: skip


def glossary() -> str:
    """The page of the terms: each with what it means and the lesson that uses it first."""
    titles = {lesson.number: lesson.title for lesson in catalogue.lessons()}
    rows = [f"<dt>{escape(each.term)}</dt><dd>{escape(each.meaning)} "
            f"<a href='/{each.lesson}/' title='{escape(titles.get(each.lesson, ''), quote=True)}'>lesson {each.lesson}</a></dd>"
            for each in catalogue.terms()]  # fmt: skip
    return (f"{_head('Glossary')}<main><h1>Glossary</h1><p><a href='/'>All lessons</a></p><dl>{''.join(rows)}</dl>"
            "</main></html>")  # fmt: skip


def _head(title: str) -> str:
    style = Path(__file__).with_name("index.css").read_text(encoding="utf-8")
    return ("<!DOCTYPE html><html lang='en'><meta charset='utf-8'>"
            "<meta name='viewport' content='width=device-width, initial-scale=1'>"
            f"<title>{title}</title><link rel='icon' href='data:,'><style>{style}</style>")  # fmt: skip


def _way(there: list[Lesson], last: int | None) -> str:
    """The first link: on from where the reader was, else the beginning."""
    lesson = next((each for each in there if each.number == last), None)
    if lesson is None:
        return f"<p class='on'><a href='/{there[0].number}/'>Begin with {_name(there[0])}</a></p>" if there else ""
    return f"<p class='on'><a href='/{lesson.number}/'>Go on with {_name(lesson)}</a></p>"


def _row(lesson: Lesson, kept: dict[str, progress.Kept], here: bool) -> str:
    states = []
    for name in lesson.exercises:
        kind, sign, said = map(escape, state(kept.get(name)))
        states.append(f"<li class='{kind}' title='{said}'><span aria-hidden='true'>{sign}</span> <code>{escape(name)}</code>"
                      f"<span class='said'>: {said}</span></li>")  # fmt: skip
    current, mark = (" aria-current=page", " <strong class='here'>you were here</strong>") if here else ("", "")
    return (f"<li value='{lesson.number}'{current}><a href='/{lesson.number}/'>{escape(lesson.title)}</a>{mark}"
            f"<p>{escape(lesson.question)}{_systems(lesson)}</p><ul>{''.join(states)}</ul></li>")  # fmt: skip


def _systems(lesson: Lesson) -> str:
    return f" <span class='systems'>{', '.join(lesson.systems)}</span>" if lesson.systems else ""


def _name(lesson: Lesson) -> str:
    return f"{lesson.number} · {escape(lesson.title)}"


def _passes(kept: progress.Kept | None) -> bool:
    return kept is not None and kept.passes and kept.current
