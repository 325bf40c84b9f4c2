"""Progress lines, the bar, and the curves."""

import io
import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tinygrad_tf import report
from tinygrad_tf.report import Bar, Lines, clock, draw_curves, printable, progress, sparkline


def run(display, steps, first=0):
    display.start(first, steps, 100)
    for step in range(first + 1, steps + 1):
        display.step(step, {"step": step, "loss": 4 / step, **({"val_loss": 3.5} if step == 2 else {})})
    display.stop()


def lines(steps, first=0):
    stream = io.StringIO()
    run(Lines(stream), steps, first)
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("steps", [1, 2, 9, 10, 11, 19, 100, 101, 12345])
def test_EN_01_plain_lines_are_few_and_the_last_step_is_there(steps):
    shown = lines(steps)
    assert 1 <= len(shown) <= 11
    assert f"{steps}/{steps}" in shown[-1]
    assert "0:00 left" in shown[-1]
    assert not set("\r\x1b") & set("".join(shown))


def test_EN_01_a_resumed_run_goes_on_in_the_same_places():
    assert [line.split("/")[0] for line in lines(100, 55)] == [line.split("/")[0] for line in lines(100)][5:]


def test_a_line_has_loss_held_out_loss_and_speed():
    assert lines(20)[0].startswith("step  2/20  loss 2.0000  val 3.5000  ")
    assert " tokens/s " in lines(20)[0]


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def test_EN_01_the_kind_of_output_decides_and_flag_and_variable_override(monkeypatch):
    monkeypatch.delenv(report.VARIABLE, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert type(progress(stream=io.StringIO())) is Lines
    assert type(progress(stream=Terminal())) is Bar
    assert type(progress("plain", Terminal())) is Lines
    monkeypatch.setenv(report.VARIABLE, "none")
    assert type(progress(stream=Terminal())) is report.Progress
    assert type(progress("bar", io.StringIO())) is Bar
    monkeypatch.setenv(report.VARIABLE, "loud")
    with pytest.raises(ValueError, match="auto, bar, plain, none, not 'loud'"):
        progress()
    monkeypatch.setenv(report.VARIABLE, "auto")
    monkeypatch.setenv("TERM", "dumb")
    assert type(progress(stream=Terminal())) is Lines
    monkeypatch.setitem(sys.modules, "ipykernel", sys)
    assert type(progress(stream=io.StringIO())) is Bar


def test_the_bar_on_a_real_terminal(monkeypatch):
    """It redraws, shows the last step, lets lines scroll by above it, and gives the cursor back."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    master, slave = pty.openpty()
    with open(slave, "w", encoding="utf-8") as stream:
        display = Bar(stream)
        display.start(0, 30, 100)
        display.step(1, {"loss": 4.0})
        display.say("[bold]not markup[/bold] \x1b[2J")
        display.step(30, {"loss": 2.5})
        display.stop()
    shown = ""
    with suppress(OSError):  # that is how the end of a terminal is read
        while True:
            shown += os.read(master, 100_000).decode(errors="replace")
    os.close(master)
    assert "step 30/30" in shown
    assert "loss 2.5000" in shown
    assert "[bold]not markup[/bold] \ufffd[2J" in shown
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")


@pytest.mark.parametrize(("columns", "shown"), [
    (30, "step 30/30 loss 2.5000"),
    (40, "step 30/30 loss 2.5000 0:00 left"),
    (60, "step 30/30 loss 2.5000 val 3.5000 1,000 tokens/s 0:00 left"),
    (80, "step 30/30 BAR loss 2.5000 val 3.5000 1,000 tokens/s 0:00 left"),
    (100, "step 30/30 BAR █▁ loss 2.5000 val 3.5000 1,000 tokens/s 0:00 left"),
])
def test_a_narrow_bar_leaves_out_what_matters_least(monkeypatch, columns, shown):
    clock = [0.0]
    monkeypatch.setattr(report, "perf_counter", lambda: clock[0])
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = Terminal()
    display = Bar(stream)
    display.start(0, 30, 100)
    display.step(1, {"loss": 4.0, "val_loss": 3.5})
    clock[0] = 3.0
    display.step(30, {"loss": 2.5})
    display.say("a command " * 20)
    display.stop()
    plain = re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", stream.getvalue())
    assert ("a command " * 20).rstrip() in plain, "a line that is said stays in one piece"
    line = [part.rstrip() for part in re.split(r"[\r\n]+", plain) if "30/30" in part][-1]
    assert re.sub("[━╸╺]+", "BAR", line) == shown


def test_speed_and_time_left_are_those_of_the_last_steps(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(report, "perf_counter", lambda: clock[0])
    display = report.Progress()
    display.start(0, 200, 100)
    for step in range(1, 151):
        clock[0] += 5.0 if step <= 50 else 1.0  # the machine was busy at first
        display.step(step, {"loss": 1.0})
        if step == 50:
            assert display.speed() == pytest.approx((20, 750))
    assert display.speed() == pytest.approx((100, 50))
    assert len(display.marks) < 40


def test_EN_01_closed_pipe():
    reader, writer = os.pipe()
    os.close(reader)
    with open(writer, "w") as stream:
        display = Lines(stream)
        run(display, 5)
        assert display.closed


@pytest.mark.parametrize("text", ["😀", "👨‍👩‍👧", "é\ud83d"])
def test_TX_07_a_narrow_encoding_never_stops_the_output(text):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    Lines(stream).say(text)
    assert raw.getvalue().decode("ascii").startswith(text.encode("ascii", "backslashreplace").decode())


def test_terminals_get_no_control_characters_and_files_get_all():
    assert printable("a\x1b[2Jb\r\n\té\u009bc", Terminal()) == "a\ufffd[2Jb\ufffd\n\té\ufffdc"
    assert printable("a\x1b\n", io.StringIO()) == "a\x1b\n"


def test_clock_and_sparkline():
    assert [clock(s) for s in (0, 59.6, 75, 3675)] == ["0:00", "1:00", "1:15", "1:01:15"]
    assert sparkline([]) == ""
    assert sparkline([2.0, 2.0]) == "▁▁"
    assert sparkline(range(8)) == report.BLOCKS
    assert len(sparkline(range(1000))) == 12


def test_curves(tmp_path):
    history = [{"step": 0, "val_loss": 4.0}] + [{"step": s, "loss": 4 / s} for s in range(1, 30)]
    draw_curves(history, tmp_path, "a $title", floor=0.5)
    svg = (tmp_path / "loss.svg").read_bytes()
    assert svg.startswith(b"<?xml")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    draw_curves(history, tmp_path, "a $title", floor=0.5)
    assert (tmp_path / "loss.svg").read_bytes() == svg
    draw_curves([], tmp_path, "nothing yet")
    assert sorted(os.listdir(tmp_path)) == ["loss.png", "loss.svg"]


@pytest.mark.parametrize("backend", ["nonsense", "pdf"])
def test_curves_need_no_way_to_show_pictures(tmp_path, backend):
    """A wrong MPLBACKEND does not spoil the end of a training; a right one is still that of what follows."""
    code = ("import os, pathlib; from tinygrad_tf.report import draw_curves; draw_curves([], pathlib.Path(), 'x'); "
            "import matplotlib; print(os.environ['MPLBACKEND'], matplotlib.get_backend())")
    env = {**os.environ, "PYTHONPATH": str(Path(report.__file__).parents[1]), "MPLBACKEND": backend}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("nonsense " if backend == "nonsense" else "pdf pdf")
    assert (tmp_path / "loss.svg").exists()
