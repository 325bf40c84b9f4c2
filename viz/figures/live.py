"""A figure in a marimo notebook: marimo's own controls, and a widget that walks through a figure's steps.

    settings = controls(mixture)      # one cell shows them
    mixture(**settings.value)         # another draws the figure at each change
    walk(gradient_walk, **settings.value)     # a figure that has steps
"""

from __future__ import annotations

from typing import Any

from .figure import Control, Interactive, numbered, sheet


def controls(figure: Interactive) -> Any:
    """marimo's controls of a figure as one element, whose `.value` is the settings; its steps are left to `walk`."""
    import marimo as mo

    made = {control.name: _control(mo, control) for control in figure.controls if control.kind != "steps"}
    return mo.ui.batch(mo.hstack([f"{{{name}}}" for name in made], justify="start", gap=2, wrap=True), made)


def walk(figure: Interactive, **settings: Any) -> Any:
    """The figure's steps as an element with buttons, arrow keys and clicks; `.value["step"]` is where the reader stands."""
    import marimo as mo

    return mo.ui.anywidget(_widget(figure, settings))


def _control(mo: Any, control: Control) -> Any:
    if control.kind == "switch":
        return mo.ui.switch(value=control.value, label=control.label)
    if control.kind == "slider":
        return mo.ui.slider(steps=list(control.grid), value=control.value, label=control.label, show_value=True)
    return mo.ui.dropdown(options={str(value): value for value in control.grid}, value=str(control.value), label=control.label,
                          allow_select_none=False)  # fmt: skip


def _widget(figure: Interactive, settings: dict[str, Any]) -> Any:
    import anywidget
    import traitlets

    class Walk(anywidget.AnyWidget):
        _esm = sheet("walk.js") + (
            "\nexport default { render({ model, el }) { el.classList.add('tf-root'); "
            "walk(el, texts(model.get('frames'), model.get('pool')), model.get('step'), "
            "(i) => { model.set('step', i); model.save_changes(); }); } };\n"
        )
        _css = sheet("figure.css")
        pool = traitlets.List(traitlets.Unicode()).tag(sync=True)
        frames = traitlets.List(traitlets.List(traitlets.Int())).tag(sync=True)
        step = traitlets.Int(0).tag(sync=True)

    pool: dict[str, int] = {}
    frames = numbered(figure.frames(**settings), pool)
    return Walk(pool=list(pool), frames=frames)
