"""Every lesson in Chromium, served as a reader gets it: nothing asked outside, no error, every cell ran, the numbers right."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from importlib.util import find_spec

import pytest

from lessons import catalogue, progress
from tests.lessons.every import ALL
from tests.lessons.running import ROOT, SAMPLE, environment

pytestmark = pytest.mark.skipif(
    find_spec("marimo") is None, reason="lessons not opened in a browser (needs marimo: pip install -e '.[browser,lessons]')"
)
PROGRAM = """
import sys
from lessons.commands import add
from tinygrad_tf import cli
add(cli.app)
cli._add_plugins = lambda arguments: None
cli.main()
"""
WAIT = 180_000  # milliseconds until the last cell of a lesson has run, on a machine that is busy
# The page is done when its last cell, the way to the other lessons, is there and nothing runs any more.
DONE = """() => document.querySelector('a[href="../"]') && document.querySelector('.lesson-numbers') &&
          !document.querySelector('[data-status="running"], [data-status="queued"], .running, .queued')"""


@contextmanager
def command(folder, *words):
    """The address that `tinygrad-tf lessons ...` prints; at the end, what Ctrl-C does."""
    settings = {**environment(), "TINYGRAD_TF_CACHE": str(folder / "cache"), "HOME": str(folder)}
    words = ["lessons", *words, "--no-browser", "--in", str(folder / "mine")]
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, *words], cwd=ROOT, env=settings, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, encoding="utf-8")  # fmt: skip
    try:
        address = re.search(r"http://127\.0\.0\.1:\d+/\?access_token=[\w-]+", process.stdout.readline())[0]
        assert process.stdout.readline().startswith("Ctrl-C ends")
        yield address
        os.kill(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=20)
        assert (process.returncode, said) == (130, "the lessons are closed\n")
    finally:
        process.kill()


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """(the printed address, the folder of the answers) of the served lessons."""
    folder = tmp_path_factory.mktemp("served")
    with command(folder) as address:
        yield address, folder


@pytest.fixture
def opened(chromium, served):
    """opened(path) -> the page of the served lessons; at the end: nothing asked of another machine, no error on the console."""
    contexts, wrong = [], []

    def open_page(path="", address=served[0], **settings):
        context = chromium.new_context(viewport=settings.pop("viewport", {"width": 1280, "height": 900}), **settings)
        contexts.append(context)
        here = address.split("?")[0]
        context.on("request", lambda request: outside(request.url, here))
        context.on("response", lambda answer: answer.status >= 400 and wrong.append(f"{answer.status} {answer.url}"))
        page = context.new_page()
        page.set_default_timeout(WAIT)
        page.on("websocket", lambda socket: outside(socket.url.replace("ws:", "http:", 1), here))
        page.on("console", lambda message: message.type == "error" and wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.goto(address.replace("/?", f"/{path}?"))
        return page

    def outside(url, here):
        if not url.startswith((here, "data:", "blob:")):
            wrong.append(f"asked for {url}")

    yield open_page
    for context in contexts:
        context.close()
    assert not wrong, "\n".join(wrong)


def whole(page):
    """Wait until every cell has run, and return the numbers of the table at the end."""
    page.wait_for_function(DONE)
    page.wait_for_timeout(500)
    assert page.locator(".marimo-error, [data-testid='error-output']").count() == 0
    rows = page.locator(".lesson-numbers tr").all()
    return [f"{row.locator('th').inner_text()}: {row.locator('td').inner_text()}" for row in rows]


@pytest.mark.parametrize("lesson", ALL, ids=lambda lesson: lesson.name)
def test_a_lesson_shows_what_its_script_prints_on_a_desk_and_on_a_phone_by_day_and_night(opened, lesson, printed, tmp_path):
    """The lesson that trains does so when its button is pressed, and shows the other numbers."""
    numbers, page = [" ".join(line.split()) for line in printed(lesson)], None
    for width, scheme in ((1280, "light"), (375, "dark")):
        if page is None:
            page = opened(f"{lesson.number}/", viewport={"width": width, "height": 900}, color_scheme=scheme)
        else:
            page.emulate_media(color_scheme=scheme)
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function("document.body.classList.contains('dark')")
        shown = [" ".join(line.split()) for line in whole(page)]
        assert shown == numbers[-len(shown) :]
        assert page.title() == f"{lesson.number} · {lesson.title}"
        assert page.evaluate("document.querySelector('#App').scrollWidth") <= width + 16  # a scroll bar
        assert page.evaluate("document.body.classList.contains('dark')") == (scheme == "dark")
        assert page.locator(".cm-editor:visible").count() > 0 and page.locator(".cm.opacity-20:visible").count() == 0
        assert page.locator(".lesson-exercises li").count() == len(lesson.exercises)
        height = page.evaluate("document.querySelector('#App').scrollHeight")
        page.set_viewport_size({"width": width, "height": height})
        page.screenshot(path=tmp_path / f"{lesson.name}-{width}-{scheme}.png")


@pytest.mark.parametrize("width,scheme", [(1280, "light"), (375, "dark")])
def test_the_index_lists_every_lesson(opened, width, scheme):
    page = opened(viewport={"width": width, "height": 900}, color_scheme=scheme)
    assert "access_token" not in page.url
    assert page.locator("ol > li > a").all_inner_texts() == [lesson.title for lesson in catalogue.lessons()]
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_check_in_the_page_is_seen_in_the_index_which_knows_where_the_reader_was(opened, served, monkeypatch):
    monkeypatch.setenv("TINYGRAD_TF_CACHE", str(served[1] / "cache"))
    lesson = catalogue.lessons()[0]
    (served[1] / "mine").mkdir(exist_ok=True)
    (served[1] / "mine" / lesson.path.name).write_bytes(lesson.solution.read_bytes())
    page = opened(f"{lesson.number}/")
    whole(page)
    from playwright.sync_api import TimeoutError

    last = page.locator(".lesson-exercises li.passes").nth(len(lesson.exercises) - 1)
    for patience in (45_000, 90_000):  # on a busy machine an exercise may be stopped for want of time
        page.get_by_role("button", name="Check my answers").click()
        with suppress(TimeoutError):
            last.wait_for(timeout=patience)
            break
    assert last.is_visible(), page.locator(".lesson-exercises").inner_text()
    assert progress.last() == lesson.number and set(progress.kept(lesson)) == set(lesson.exercises)
    page.get_by_role("link", name="All lessons").click()
    page.locator(".on", has_text=f"Go on with {lesson.number} · {lesson.title}").wait_for()
    assert page.locator(f"li[value='{lesson.number}'] li.passes").count() == len(lesson.exercises)


def test_without_the_token_nothing_is_shown(chromium, served):
    context = chromium.new_context()
    page = context.new_page()
    for path in ("", "1/", "1/api/status", "1/assets/"):
        answer = page.goto(served[0].split("?")[0] + path)
        assert answer.status == 403 and SAMPLE.title not in page.content()
    context.close()


def test_the_editor_opens_a_copy_and_runs_it(opened, tmp_path):
    lesson = catalogue.lessons()[0]
    with command(tmp_path, str(lesson.number), "--edit") as address:
        copy = tmp_path / "mine" / "notebooks" / lesson.path.name
        assert copy.read_bytes() == lesson.path.read_bytes()
        server = re.search(r":(\d+)/", address)[1]
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", int(server))) == 0:
                    break
            time.sleep(0.1)
        page = opened(address=address)
        page.locator(".lesson-numbers").wait_for()
        assert page.locator(".marimo-error").count() == 0
        page.context.close()


def test_a_figure_is_walked_and_its_slider_moved_and_shows_what_the_engine_gives(opened):
    """F4 in lesson 7, F1 in lesson 6."""
    from viz.figures import gradient_walk, replace_or_add

    page = opened("7/")
    whole(page)
    figure = page.locator(".tf-root", has=page.get_by_label(gradient_walk.title))
    frames = gradient_walk.frames()
    assert figure.locator(".tf-words").inner_text() == frames[0].words
    figure.get_by_role("button", name="Next (right arrow)").click()
    assert figure.locator(".tf-words").inner_text() == frames[1].words
    page.keyboard.press("End")
    assert figure.locator(".tf-words").inner_text() == frames[-1].words

    page = opened("6/")
    whole(page)
    words = page.get_by_label(replace_or_add.title).locator(".tf-words")
    assert words.inner_text() == replace_or_add().words
    control = replace_or_add.controls[0]
    before = control.grid[control.grid.index(control.value) - 1]
    page.get_by_role("slider").first.press("ArrowLeft")
    expected = replace_or_add(**{control.name: before}).words
    page.get_by_text(expected).wait_for()
