"""Every figure of the lessons: each state computed and drawn, and its page in a real Chromium."""

import functools
import json
import re
import xml.etree.ElementTree as ElementTree

import pytest

import viz.figures.page
from viz.figures import FIGURES, Control, Figure, figure
from viz.figures.paint import WIDTH

page = functools.cache(viz.figures.page.page)  # a large grid takes seconds, and is the same for every width and colour
ALL = pytest.mark.parametrize("shown", FIGURES.values(), ids=lambda shown: shown.name)
SAVED_BY_STATE = pytest.mark.parametrize(
    "shown", [shown for shown in FIGURES.values() if shown.page is None], ids=lambda shown: shown.name
)


def settings(shown, most=60):
    """Settings spread over the grid, the first and the last among them."""
    grid = list(shown.grid(steps=False))
    return [grid[round(i * (len(grid) - 1) / max(1, most - 1))] for i in range(min(most, len(grid)))]


def text_of(drawing: str) -> str:
    return " ".join("".join(mark.itertext()) for mark in ElementTree.fromstring(drawing).iter() if mark.tag.endswith("}text"))


@ALL
def test_each_state_has_plain_data_a_drawing_and_words(shown):
    for chosen in settings(shown):
        for frame in shown.frames(**chosen):
            json.dumps(frame.data, allow_nan=False)
            drawing = ElementTree.fromstring(frame.drawing)
            assert float(drawing.get("viewBox").split()[2]) <= WIDTH
            assert 'id="' not in frame.drawing  # ids are global in a page
            sizes = [float(mark.get("font-size")) for mark in drawing.iter() if mark.tag.endswith("}text")]
            assert min(sizes) >= 14
            assert re.search(r"[.?!:]$", frame.words)
            assert "nan" not in f"{text_of(frame.drawing)} {frame.words}".lower().split()


@ALL
def test_a_state_is_the_same_when_it_is_computed_again(shown):
    assert shown() == shown()


@SAVED_BY_STATE
def test_a_saved_page_holds_what_the_engine_gives_at_every_point_of_the_grid(shown):
    saved = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page(shown), re.S)[1])
    assert len(saved["states"]) == len(list(shown.grid(steps=False)))
    for chosen, frames in zip(shown.grid(steps=False), saved["states"]):
        again = [frame.html() for frame in shown.frames(**chosen)]
        assert again == ["\n".join(saved["pool"][line] for line in lines) for lines in frames]


@ALL
def test_wrong_settings_are_named(shown):
    with pytest.raises(TypeError, match=f"{shown.name}: no setting 'colour'; it has"):
        shown(colour="red")
    for control in shown.controls:
        with pytest.raises(ValueError, match=re.escape(f"{shown.name}: {control.name}='?' is none of")):
            shown(**{control.name: "?"})


def test_a_figure_is_saved_as_html_alone(tmp_path):
    shown = FIGURES["F10"]
    with pytest.raises(ValueError, match=r"a figure is saved as \.html; name the file mixture\.html"):
        shown.save(tmp_path / "mixture.svg")
    shown.save(tmp_path / "mixture.html")
    assert (tmp_path / "mixture.html").stat().st_size > 10_000


def test_what_a_figure_may_not_be():
    with pytest.raises(ValueError, match="control depth: 3 is none of 1, 2"):
        Control("depth", "Depth", (1, 2), 3)
    two = [Control(name, name, (0, 1), 0, "steps") for name in "ab"]
    with pytest.raises(ValueError, match="figure F0: more than one control of steps"):
        figure("F0", "two walks", two)(lambda a, b: Figure({}, "", ""))
    assert "F0" not in FIGURES


def test_words_of_the_reader_are_text():
    evil = Figure({}, "<svg/>", "<b>&", title='"><script>')
    assert "<b>" not in evil.html()
    assert "<script>" not in evil.html()


def test_all_are_listed():
    assert sorted(FIGURES, key=lambda id: int(id[1:])) == [f"F{i}" for i in range(1, 13)]


# ------------------------------------------------------------------------------------------------ in a browser


@ALL
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 375])
def test_the_page_fits_and_is_walked_by_keys(shown, width, scheme, opened):
    tab = opened(page(shown), viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    colours = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.querySelector('svg text')).fill]"
    paper, ink = tab.evaluate(colours)
    bright = [sum(map(int, re.findall(r"\d+", colour)[:3])) / 3 for colour in (paper, ink)]
    assert (bright[0] > bright[1]) == (scheme == "light")
    frames = shown.frames()
    said = tab.locator(".tf-words")
    assert said.inner_text() == frames[0].words
    tab.locator("#walk").focus()
    for frame in frames[1:4]:
        tab.keyboard.press("ArrowRight")
        assert said.inner_text() == frame.words
    if len(frames) > 1:
        tab.keyboard.press("End")
        assert said.inner_text() == frames[-1].words
        tab.keyboard.press("Home")
        assert said.inner_text() == frames[0].words


def test_the_keyboard_stays_with_a_button_that_has_no_step_left(opened):
    shown = FIGURES["F4"]
    frames, tab = shown.frames(), opened(page(shown))
    said = tab.locator(".tf-words")
    following, back = (tab.locator(f"button[aria-label^='{name}']") for name in ("Next", "Back"))
    assert (following.get_attribute("aria-disabled"), back.get_attribute("aria-disabled")) == ("false", "true")
    following.focus()
    pressed = [("End", -1), ("ArrowRight", -1), ("ArrowLeft", -2), ("ArrowRight", -1), ("Enter", -1), ("Home", 0), ("Enter", 1)]
    for key, at in pressed:
        tab.keyboard.press(key)
        assert said.inner_text() == frames[at].words, key
        assert tab.evaluate("document.activeElement.getAttribute('aria-label')").startswith("Next")
        assert following.get_attribute("aria-disabled") == str(at == -1).lower()


@SAVED_BY_STATE
def test_each_control_of_the_page_changes_what_is_shown_as_the_engine_does(shown, opened):
    tab = opened(page(shown))
    moved = [control for control in shown.controls if control.kind != "steps"]
    chosen = {control.name: control.value for control in moved}
    for i, control in enumerate(moved):
        other = (control.grid.index(control.value) + 1) % len(control.grid)
        box = tab.locator(f"[data-control='{i}']")
        if control.kind == "switch":
            box.click()
        elif control.kind == "slider":
            box.fill(str(other))
        else:
            box.select_option(str(other))
        chosen[control.name] = control.grid[other]
        assert tab.locator(".tf-words").inner_text() == shown.frames(**chosen)[0].words
        drawn = tab.evaluate("[...document.querySelectorAll('svg text')].map((mark) => mark.textContent).join(' ')")
        assert drawn == text_of(shown.frames(**chosen)[0].drawing)


def test_a_click_on_a_mark_goes_to_its_step(opened):
    for shown in FIGURES.values():
        if shown.page is None and 'data-step="1"' in shown.frames()[0].drawing:
            tab = opened(page(shown))
            tab.locator('[data-step="1"]').last.click()  # drawn last, on top
            assert tab.locator(".tf-words").inner_text() == shown.frames()[1].words
