"""Fixtures for every test, and the account of what a run could not test."""

import os

# Before NumPy is loaded: two workers with one thread each beat one another less than two with two.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import re
import shutil
from collections import Counter
from importlib.util import find_spec
from itertools import zip_longest
from pathlib import Path

import pytest
from hypothesis import settings

from tinygrad_tf import manual_seed

NO_TORCH = "not compared with PyTorch (torch is not installed: pip install -e '.[oracle]')"
NO_BROWSER = "pages not opened in a browser (needs a Chromium on the PATH and: pip install -e '.[browser]')"
NO_NUMBA = "not compared with compiled kernels (numba is not installed: pip install -e '.[fast]')"
NO_DATA = "not trained on real text (set TINYGRAD_TF_TEST_DATA to a folder holding tinyshakespeare/input.txt)"

LEFT_OUT = pytest.StashKey[Counter]()  # how many tests of each file were left out for want of PyTorch

settings.register_profile("ci", deadline=None, derandomize=True, max_examples=40)
settings.register_profile("nightly", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_addoption(parser):
    """Here and not in tests/viz: pytest 8 reads the options of a folder's conftest only when that folder is named."""
    parser.addoption("--golden", action="store_true", help="write the golden files of tests/viz anew")


@pytest.fixture(autouse=True)
def seed():
    """The same random numbers for a test alone and in company."""
    manual_seed(0)


@pytest.fixture(scope="session")
def oracle():
    """The `torch` module, computing on one thread."""
    if find_spec("torch") is None:
        pytest.skip(NO_TORCH)
    import torch

    torch.set_num_threads(1)
    return torch


CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)


@pytest.fixture(scope="session")
def chromium():
    """A headless Chromium, driven by Playwright."""
    if CHROMIUM is None or find_spec("playwright") is None:
        pytest.skip(NO_BROWSER)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(chromium, tmp_path):
    """open(text of a page) -> the page; at the end, no request but for the file and no message of the console."""
    contexts, heard, asked = [], [], []

    def open_page(text: str, **settings):
        path = tmp_path / f"page{len(contexts)}.html"
        path.write_text(text, encoding="utf-8")
        context = chromium.new_context(viewport=settings.pop("viewport", {"width": 1280, "height": 800}), **settings)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert heard == []
    assert [url for url in asked if not re.match(r"file:.*/page\d\.html$|about:srcdoc$", url)] == []


@pytest.fixture(scope="session")
def numba():
    """There are kernels to compare with."""
    if find_spec("numba") is None:
        pytest.skip(NO_NUMBA)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder with `tinyshakespeare/input.txt`."""
    folder = Path(os.environ.get("TINYGRAD_TF_TEST_DATA", "")).absolute()
    if not (folder / "tinyshakespeare" / "input.txt").is_file():
        pytest.skip(NO_DATA)
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config, items):
    for item in items:  # before -m chooses
        if "oracle" in getattr(item, "fixturenames", ()):
            item.add_marker("oracle")
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
    yield
    if find_spec("torch") is None:
        leave_out_comparisons(config, items)
    longest_first(items)


def leave_out_comparisons(config, items):
    """Without PyTorch: thousands of tests, which take long to skip one by one. They are counted for the end of the run."""
    compared = [item for item in items if item.get_closest_marker("oracle")]
    if len(compared) < len(items):  # where nothing else was asked for, each is skipped
        items[:] = [item for item in items if not item.get_closest_marker("oracle")]
        config.hook.pytest_deselected(items=compared)
        counts = Counter(item.nodeid.split("::")[0] for item in compared)
        config.stash[LEFT_OUT] = counts
        if hasattr(config, "workeroutput"):
            config.workeroutput["left out"] = dict(counts)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """All workers of xdist collect the same tests."""
    if "left out" in getattr(node, "workeroutput", {}):
        node.config.stash[LEFT_OUT] = Counter(node.workeroutput["left out"])


def longest_first(items):
    """Those marked slow(minutes=N) begin first, with another test between two of them: what a worker of xdist has taken waits
    for that worker."""
    minutes = {item: mark.kwargs["minutes"] for item in items if (mark := item.get_closest_marker("slow")) and mark.kwargs}
    rest = [item for item in items if item not in minutes]
    pairs = zip_longest(sorted(minutes, key=minutes.get, reverse=True), rest[: len(minutes)])
    items[:] = [item for pair in pairs for item in pair if item is not None] + rest[len(minutes) :]


def pytest_runtest_setup(item):
    if item.get_closest_marker("oracle") and find_spec("torch") is None:
        pytest.skip(NO_TORCH)


def pytest_terminal_summary(terminalreporter, config):
    """Say at the end of every run what was not tested, why, and in which files."""
    files: dict[str, Counter] = {}
    if counts := config.stash.get(LEFT_OUT, None):
        files[NO_TORCH] = counts.copy()
    for report in terminalreporter.stats.get("skipped", ()):
        reason = str(report.longrepr[2]).removeprefix("Skipped: ")
        files.setdefault(reason, Counter())[report.nodeid.split("::")[0]] += 1
    if files:
        terminalreporter.section("not tested in this run")
    for reason, counts in sorted(files.items()):
        what, _, why = reason.partition(" (")
        total = counts.total()
        terminalreporter.line(f"{what}: {total} test{'s'[:total != 1]}" + (f" ({why}" if why else ""))
        for file, count in sorted(counts.items()):
            terminalreporter.line(f"    {count:5d}  {file}")
