"""What a training run shows: a live bar on a terminal, plain lines elsewhere, and the loss curve at the end."""

import io
import logging
import os
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any, TextIO

from .checkpoint import write_atomically

MODES = ("auto", "bar", "plain", "none")
VARIABLE = "TINYGRAD_TF_PROGRESS"
WINDOW, LEAST = 30, 20  # speed and time left are taken from the last so many seconds, and from so many steps at least
BAR = 20  # characters
BLOCKS = "▁▂▃▄▅▆▇█"


def printable(text: str, stream: Any) -> str:
    """`text` as `stream` can take it: characters outside its encoding as escapes; on a terminal, control characters
    (a text may hold the codes that move the cursor) as U+FFFD."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    if stream is not None and stream.isatty():
        text = "".join(c if c.isprintable() or c in "\n\t " or ord(c) > 159 else "\ufffd" for c in text)
    return text.encode(encoding, "backslashreplace").decode(encoding)


def silence(stream: TextIO) -> None:
    """Send what is still buffered nowhere: the reader of this pipe is gone, and the flush at exit must not complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


class Progress:
    """Shows nothing (mode "none"), and keeps the time for its two children.

    `closed` becomes true when nobody reads the output any more. Times come from a clock that never jumps.
    """

    def __init__(self, stream: TextIO | None = None):
        self.stream = sys.stdout if stream is None else stream
        self.closed = False

    def start(self, step: int, total: int, tokens_per_step: int) -> None:
        """Training goes on from `step` finished steps to `total`."""
        self.total, self.tokens_per_step = total, tokens_per_step
        self.marks = deque([(perf_counter(), step)])  # when each of the last steps was done
        self.losses: list[float] = []
        self.val_loss: float | None = None

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        """One step is done; `metrics` is its line of the metrics file."""
        self.marks.append((perf_counter(), step))
        while len(self.marks) > LEAST and self.marks[1][0] < self.marks[-1][0] - WINDOW:
            self.marks.popleft()
        self.losses.append(metrics["loss"])
        self.val_loss = metrics.get("val_loss", self.val_loss)

    def say(self, text: str) -> None:
        """A line of its own."""

    def sample(self, step: int, text: str) -> None:
        """A text that the model wrote after `step` steps."""

    def stop(self) -> None:
        """Training has ended, for whatever reason. What is said after this stands below the rest."""

    def speed(self) -> tuple[float, float]:
        """(tokens per second, seconds left), as the last steps went, evaluations included."""
        (began, first), (now, step) = self.marks[0], self.marks[-1]
        seconds, done = max(now - began, 1e-9), step - first
        return done * self.tokens_per_step / seconds, seconds / done * (self.total - step)

    def facts(self) -> dict[str, str]:
        """What there is to say after the last step, in the order in which it is shown."""
        rate, left = self.speed()
        val = {} if self.val_loss is None else {"val": f"val {self.val_loss:.4f}"}
        return {"loss": f"loss {self.losses[-1]:.4f}", **val, "rate": f"{rate:,.0f} tokens/s", "left": f"{clock(left)} left"}


class Lines(Progress):
    """A plain line every tenth of the way, whatever the number of steps, and one at the last step."""

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        super().step(step, metrics)
        if step % -(-self.total // 10) == 0 or step == self.total:
            self.say(f"step {step:{len(str(self.total))}}/{self.total}  {'  '.join(self.facts().values())}")

    def say(self, text: str) -> None:
        if self.closed:
            return
        try:
            print(printable(text, self.stream), file=self.stream, flush=True)
        except BrokenPipeError:
            self.closed = True
            silence(self.stream)
        except OSError as error:
            error.filename = getattr(self.stream, "name", "the output")  # such as on a full disk
            raise

    def sample(self, step: int, text: str) -> None:
        self.say(f"sample after step {step}: {' '.join(text.split())}")


class Bar(Progress):
    """One live line at the foot of the terminal or notebook cell; everything else scrolls by above it."""

    interval = 0.2  # seconds between redraws

    def start(self, step: int, total: int, tokens_per_step: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn
        from rich.progress import Progress as Live

        super().start(step, total, tokens_per_step)
        self.console = Console(file=self.stream, highlight=False)
        self.bar = BarColumn(bar_width=BAR)
        self.live = Live(console=self.console, auto_refresh=False)
        self.task = self.live.add_task("", total=total, completed=step)
        self.live.columns = self.columns(step, {})
        self.live.start()
        self.drawn = 0.0

    def columns(self, step: int, facts: Mapping[str, str]) -> tuple:
        """As many columns as the terminal has room for; the step is always there."""
        from rich.progress import TextColumn

        shown = {"step": f"step {step}/{self.total}", "bar": " " * BAR, **facts}
        kept, room = {"step"}, self.console.width - len(shown["step"])
        for name in ("loss", "left", "val", "rate", "bar", "curve"):  # the most important first
            if shown.get(name):
                room -= 1 + len(shown[name])
                if room < 0:
                    break
                kept.add(name)
        return tuple(self.bar if name == "bar" else TextColumn(text, markup=False)
                     for name, text in shown.items() if name in kept)

    def step(self, step: int, metrics: Mapping[str, float]) -> None:
        super().step(step, metrics)
        if step == self.total or perf_counter() - self.drawn > self.interval:
            self.drawn = perf_counter()
            curve = printable(sparkline(self.losses), self.stream)
            self.live.columns = self.columns(step, {"curve": "" if "\\" in curve else curve, **self.facts()})
            self.live.update(self.task, completed=step, refresh=True)

    def say(self, text: str, in_one_piece: bool = True) -> None:
        from rich.text import Text

        self.console.print(Text(printable(text, self.stream)), soft_wrap=in_one_piece)  # there may be a command in it

    def sample(self, step: int, text: str) -> None:
        self.say(f"--- a sample after step {step}\n{text}\n---", in_one_piece=False)

    def stop(self) -> None:
        if self.live.live.is_started:
            self.live.stop()


def progress(mode: str | None = None, stream: TextIO | None = None) -> Progress:
    """The display for `mode`: auto, bar, plain or none; without one, the variable TINYGRAD_TF_PROGRESS, then auto.

    Auto is the bar on a terminal and in a notebook, plain lines elsewhere. Raises ValueError for another mode.
    """
    mode = mode or os.environ.get(VARIABLE) or "auto"
    if mode not in MODES:
        raise ValueError(f"progress must be one of {', '.join(MODES)}, not {mode!r}")
    stream = sys.stdout if stream is None else stream
    if mode == "auto":
        terminal = stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
        mode = "bar" if terminal or "ipykernel" in sys.modules else "plain"
    return {"bar": Bar, "plain": Lines, "none": Progress}[mode](stream)


def clock(seconds: float) -> str:
    """75 -> "1:15"; 3675 -> "1:01:15"."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def sparkline(values: Sequence[float], width: int = 12) -> str:
    """The whole curve in `width` characters at most."""
    n = min(width, len(values))
    shown = [sum(part) / len(part) for part in
             (values[i * len(values) // n:(i + 1) * len(values) // n] for i in range(n))]
    low, high = min(shown, default=0.0), max(shown, default=0.0)
    return "".join(BLOCKS[round((value - low) / ((high - low) or 1.0) * (len(BLOCKS) - 1))] for value in shown)


@contextmanager
def _no_remarks(logger: str) -> Iterator[None]:
    level = logging.getLogger(logger).level
    logging.getLogger(logger).setLevel(logging.ERROR)
    try:
        yield
    finally:
        logging.getLogger(logger).setLevel(level)


def _matplotlib() -> Any:
    """The library, also where MPLBACKEND names no way to show pictures, which would end its import: none is shown here."""
    if "matplotlib" not in sys.modules and (backend := os.environ.pop("MPLBACKEND", None)) is not None:
        try:
            import matplotlib

            with suppress(ValueError):
                matplotlib.rcParams["backend"] = backend  # as it does itself, for what else this process shows
        finally:
            os.environ["MPLBACKEND"] = backend
    return import_module("matplotlib")


def draw_curves(history: Sequence[Mapping[str, Any]], folder: Path, title: str, floor: float | None = None,
                unit: str = "character") -> None:
    """Write loss.svg and loss.png into `folder`: training and held-out loss against steps, and the floor where known.

    `history` is the content of metrics.jsonl. The same history gives the same bytes.
    """
    with _no_remarks("matplotlib"):  # such as that the home folder cannot be written
        matplotlib = _matplotlib()
        from matplotlib.figure import Figure

    train = [(line["step"], line["loss"]) for line in history if "loss" in line]
    held_out = [(line["step"], line["val_loss"]) for line in history if "val_loss" in line]
    final = [(line["step"], line["final_val_loss"]) for line in history if "final_val_loss" in line][-1:]
    with matplotlib.rc_context({"svg.hashsalt": "tinygrad_tf", "font.size": 11}):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.subplots()
        if train:
            axes.plot(*zip(*train), color="#6baed6", linewidth=0.8, label="training batch")
        if held_out:
            axes.plot(*zip(*held_out), color="#08519c", marker="o", markersize=4, label="a sample of held-out text")
        for step, loss in final:
            axes.plot(step, loss, color="#08519c", marker="*", markersize=13, linestyle="", clip_on=False,
                      label=f"all held-out text: {loss:.4f}")
        if floor is not None:
            axes.axhline(floor, color="#d94801", linestyle="--", label=f"entropy of the text: {floor:.4f}")
        axes.set(xlabel="step", ylabel=f"loss (nats per {unit})")
        axes.set_title(title, parse_math=False)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False)
        for kind, metadata in (("svg", {"Date": None}), ("png", {"Software": None})):
            image = io.BytesIO()
            figure.savefig(image, format=kind, dpi=150, metadata=metadata)
            write_atomically(folder / f"loss.{kind}", image.getvalue())
