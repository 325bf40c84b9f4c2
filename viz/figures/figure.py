"""What an interactive figure is: a pure function of a few settings that returns numbers, a drawing of them, and a sentence.

    @figure("F10", "Follow the mixture into an update", [Control("query", "Query", ("swapped", "as it is"), "swapped")])
    def mixture(query="swapped") -> Figure: ...

The same function serves a test (`mixture().data`), a lesson (marimo's controls call it again at each change) and a page on
disk (every setting of its controls is computed beforehand, by this very function).
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

Kind = Literal["choice", "slider", "switch", "steps"]


@dataclass(frozen=True)
class Control:
    """One setting that a reader moves.

    name: the function's keyword. label: what stands beside the control. grid: its possible values, in order; for a slider
    ascending numbers. value: the first one shown. kind: choice (a few words), slider, switch (False, True) or steps: positions
    0, 1, … that are walked through with buttons and arrow keys; a figure has at most one of these.
    """

    name: str
    label: str
    grid: tuple[Any, ...]
    value: Any
    kind: Kind = "choice"

    def __post_init__(self) -> None:
        if self.value not in self.grid:
            raise ValueError(f"control {self.name}: {self.value!r} is none of {', '.join(map(repr, self.grid))}")


def switch(name: str, label: str, value: bool = False) -> Control:
    """A control that is off or on."""
    return Control(name, label, (False, True), value, "switch")


def slider(name: str, label: str, grid: Any, value: Any) -> Control:
    """A control that slides over the ascending numbers of `grid`."""
    return Control(name, label, tuple(grid), value, "slider")


def steps(count: int, label: str = "Step", name: str = "step") -> Control:
    """The positions 0 … count − 1, walked through one by one."""
    return Control(name, label, tuple(range(count)), 0, "steps")


@dataclass(frozen=True)
class Figure:
    """One state of a figure.

    data: the numbers that are shown, by what they are: floats, strings, and lists and dicts of them. drawing: one `<svg>`, made
    by `paint.svg`. words: one to three sentences that say the same, read by a screen reader and shown below the drawing.
    """

    data: dict[str, Any]
    drawing: str
    words: str
    title: str = ""

    def _repr_html_(self) -> str:
        return f"<style>{sheet('figure.css')}</style>{self.html()}"

    def html(self) -> str:
        """The drawing and its sentence, without the style sheet."""
        return (f'<figure class="tf-figure" aria-label="{html.escape(self.title)}"><div class="tf-drawing">{self.drawing}</div>'
                f'<figcaption class="tf-words">{html.escape(self.words)}</figcaption></figure>')  # fmt: skip


@dataclass(frozen=True)
class Interactive:
    """A figure with its controls. Calling it gives one `Figure`; a setting that is not given is its control's value."""

    id: str
    title: str
    controls: tuple[Control, ...]
    function: Callable[..., Figure]
    page: str | None = None  # the script that redraws it in a saved page, in place of states computed beforehand

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self.function.__doc__

    def __call__(self, **settings: Any) -> Figure:
        """One state. TypeError for a setting that it does not have, ValueError for a value that is not in its grid."""
        known = {control.name: control for control in self.controls}
        for name, value in settings.items():
            if name not in known:
                raise TypeError(f"{self.name}: no setting {name!r}; it has {', '.join(known)}")
            if value not in known[name].grid:
                raise ValueError(f"{self.name}: {name}={value!r} is none of {_short(known[name].grid)}")
        made = self.function(**{control.name: control.value for control in self.controls} | settings)
        return Figure(made.data, made.drawing, made.words, made.title or self.title)

    @property
    def walked(self) -> Control | None:
        """The control whose positions are walked through; None where there is none."""
        return next((control for control in self.controls if control.kind == "steps"), None)

    def grid(self, *, steps: bool = True) -> Iterator[dict[str, Any]]:
        """Every combination of settings, the last control changing fastest; without `steps`, of the other controls alone."""
        moved = [control for control in self.controls if steps or control.kind != "steps"]
        for values in itertools.product(*(control.grid for control in moved)):
            yield dict(zip((control.name for control in moved), values))

    def frames(self, **settings: Any) -> list[Figure]:
        """The figure at each position of its steps; one figure where it has none.

        A figure that has fewer positions for these settings says so by `data["steps"]`.
        """
        if self.walked is None:
            return [self(**settings)]
        first = self(**settings, **{self.walked.name: 0})
        count = first.data.get("steps", len(self.walked.grid))
        return [first, *(self(**settings, **{self.walked.name: i}) for i in range(1, count))]

    def save(self, path: Any) -> None:
        """Write one HTML file that opens from disk, with every state in it."""
        from .page import save

        save(self, path)

    def _repr_html_(self) -> str:
        return self()._repr_html_()


FIGURES: dict[str, Interactive] = {}


def figure(
    id: str, title: str, controls: list[Control], page: str | None = None
) -> Callable[[Callable[..., Figure]], Interactive]:
    """Make a figure of the function below, and list it under `id`.

    page: where the grid is too large to be saved state by state, the name of a script beside this file whose
    `redraw(root, settings)` brings the drawing to any whole numbers between the ends of the sliders.
    """

    def decorate(function: Callable[..., Figure]) -> Interactive:
        made = Interactive(id, title, tuple(controls), function, page)
        if sum(control.kind == "steps" for control in controls) > 1:
            raise ValueError(f"figure {id}: more than one control of steps")
        FIGURES[id] = made
        return made

    return decorate


def numbered(frames: list[Figure], pool: dict[str, int]) -> list[list[int]]:
    """Each frame's HTML as the numbers of its lines in `pool`, which grows: neighbouring frames differ in few lines."""
    return [[pool.setdefault(line, len(pool)) for line in frame.html().split("\n")] for frame in frames]


def sheet(name: str) -> str:
    """A file that stands beside this one."""
    return (files(__package__) / name).read_text(encoding="utf-8")


def _short(grid: tuple[Any, ...]) -> str:
    return ", ".join(map(repr, grid)) if len(grid) <= 8 else f"{grid[0]!r}, {grid[1]!r}, …, {grid[-1]!r}"
