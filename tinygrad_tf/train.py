"""Training, from a text to a run folder. The loop itself is `_steps`; the rest is what it uses and what surrounds it."""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from .checkpoint import write_atomically
from .data import NAMED, Corpus, get_batch, load_corpus
from .evaluation import estimate, evaluate_all, write_sample
from .gradients import add_gradients, helped, shares
from .helper import Lost
from .memory import installed, keep_freed_memory
from .models.ledger import count
from .nn.utils import clip_grad_norm_
from .optim import warmup_cosine, warmup_linear
from .parallel import ONE, One
from .replay import replaying
from .report import Progress, draw_curves, progress
from .run import Run
from .runfolder import CHECKPOINT, CONFIG, METRICS, SAMPLE, RunError, checkpoint_in, locked, next_folder, refuse_if_taken, typed
from .settings import TrainConfig, option
from .starting import learned
from .text import UnknownCharacters
from .threads import threads_for

CHANGEABLE = ("text", "steps", "recompute", "eval_every", "eval_batches", "eval_overlap", "sample_every", "sample_tokens",
              "sample_temperature", "checkpoint_every")

LONGEST_CONFIG = 100_000  # characters
OBJECTS = 1 << 14  # bytes of the Python objects of a block, at least
SCHEDULES = {"cosine": warmup_cosine, "linear": warmup_linear}


def _steps(run: Run, corpus: Corpus, folder: Path, display: Progress, log: TextIO, asked: threading.Event, ranks: One) -> bool:
    """The training loop: from the steps that are done to `config.steps`, or until it is to stop. Returns whether it was."""
    c, model, optimizer = run.config, run.model, run.optimizer
    parameters, own = list(model.parameters()), ranks.part(c.batch_size * c.grad_accum)
    fall, stop = SCHEDULES[c.schedule], False
    while run.step < c.steps and not stop:
        share = fall(run.step, lr=1.0, min_lr=c.min_lr / c.lr if c.lr else 1.0, warmup=c.warmup, total=c.steps)
        for group in optimizer.param_groups:
            group["lr"] = share * group["peak"]

        x, y = get_batch(corpus.train, c.block_size, c.batch_size * c.grad_accum, run.streams["batches"], own)  # (B, T) both
        loss = ranks.mean(add_gradients(model, x, y, c.grad_accum), parameters)
        norm = clip_grad_norm_(optimizer.rows(), c.clip or math.inf)
        if not math.isfinite(loss + norm):
            raise ranks.end(RunError(
                f"the loss is {loss} and its gradient {norm} long at step {run.step + 1}; the last checkpoint "
                f"in {folder} is whole; a smaller --lr{' or --muon-lr' * (c.optimizer == 'muon')} or a longer --warmup keeps "
                "training finite"))
        optimizer.step()
        optimizer.zero_grad()
        run.step += 1

        line = {"step": run.step, "loss": loss, "lr": share * c.lr, "grad_norm": norm}
        if _due(run.step, c.eval_every):
            line["val_loss"] = estimate(run, corpus, ranks)
        run.history.append(line)
        print(json.dumps(line), file=log, flush=True)
        display.step(run.step, line)
        if _due(run.step, c.sample_every) and run.step < c.steps:
            run.sample = write_sample(run)
            display.sample(run.step, run.sample)

        stop = ranks.any(asked.is_set() or display.closed)
        if stop or _due(run.step, c.checkpoint_every):
            ranks.align(run.pack()[0].values())  # machines that round differently go on from what the checkpoint holds
            if ranks.first:
                run.save(folder)
    return stop


def _due(step: int, every: int) -> bool:
    return every > 0 and step % every == 0


# ------------------------------------------------------------------------------------------------ what the loop uses


@contextmanager
def interruptible() -> Iterator[threading.Event]:
    """Inside, the first Ctrl-C or SIGTERM only sets the event; the second does what the first would have done outside."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked  # signals are the main thread's business
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            if signal.getsignal(number) is ask:
                signal.signal(number, handler)

    def ask(signum: int, frame: Any) -> None:
        restore()  # first: a second signal may come while the event is being set
        asked.set()

    for number in before:
        signal.signal(number, ask)
    try:
        yield asked
    finally:
        restore()


# ------------------------------------------------------------------------------------------------ what surrounds it


def train(config: TrainConfig | None = None, folder: str | Path | None = None, display: Progress | None = None,
          ranks: One = ONE) -> Run:
    """Start a new run and train it to its end. `folder` defaults to runs/<preset>-<number>.

    With several `ranks` (`parallel.joined`) this is called on the first one, and `follow` on the others.

    Raises RunError if the folder is taken or in use, the text too short, the disk full, or the loss no longer finite;
    KeyboardInterrupt after a Ctrl-C, once the step is whole and saved; BrokenPipeError likewise when nobody reads the
    output any more.
    """
    config = config or TrainConfig()
    config = config.changed(text=_found(config.text))
    ranks.check(config.batch_size)
    model, vocabulary = None, None
    if config.init_from:
        config, model, vocabulary = learned(config)
    corpus = _corpus(config, vocabulary)
    _refuse_too_large(config, len(corpus.vocabulary))
    run = Run.new(config, corpus.vocabulary, _sha256(corpus), corpus.start(), model)
    folder = Path(next_folder(config.preset) if folder is None else folder)
    refuse_if_taken(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        refuse_if_taken(folder)  # again, now that nobody else can start one here
        run.save(folder)  # first of all: from here on the run can be resumed, whatever happens
        return _go_on(run, corpus, folder, display or progress(), ranks)


def resume(folder: str | Path, display: Progress | None = None, ranks: One = ONE, **changes: Any) -> Run:
    """Go on with the run in `folder`, bit for bit as if it had never stopped. Raises what `train` raises.

    Of the settings only those in CHANGEABLE may change; more `steps` stretch the schedule of the learning rate. `text` names
    a new place of the same text. The number of ranks may be another one.
    """
    path = checkpoint_in(Path(folder))
    if path.name != CHECKPOINT:  # resuming writes a whole run folder, and this one may be somebody's
        raise RunError(f"{path} is no run folder; put it alone into a folder as {CHECKPOINT} and resume that")
    with locked(path.parent):
        run = Run.load(path)
        remark = _edited(path.parent / CONFIG, run.config)
        if changes.get("text"):
            changes["text"] = _found(changes["text"])
        for name, value in changes.items():
            if name not in CHANGEABLE and value not in (None, getattr(run.config, name, None)):
                raise RunError(f"{option(name)} cannot change when a run is resumed; these can: "
                               f"{', '.join(map(option, CHANGEABLE))}")
        run.config = run.config.changed(**changes)
        c = run.config
        run.model.config = replace(run.model.config, recompute=c.recompute)  # the same gradients either way
        ranks.check(c.batch_size, begun=True)
        if c.steps < run.step:
            raise RunError(f"{folder} has already done {run.step} steps; --steps cannot be {c.steps}")
        if c.text not in NAMED and not Path(c.text).exists():
            raise RunError(f"the text of {folder} is not at {c.text}; if it has moved, --text names its new place")
        corpus = _corpus(c, run.vocabulary if c.init_from else None)
        if _sha256(corpus) != run.text_sha256:
            raise RunError(f"{c.text} is not the text that {folder} was trained on; start a new run for a new text")
        return _go_on(run, corpus, path.parent, display or progress(), ranks, remark)


def follow(ranks: One) -> None:
    """What every rank but the first does: the same steps, from the state and the text that the first one has, and no files."""
    packed, corpus = ranks.share()
    run = Run.unpack(*packed)
    ranks.own_numbers(run.streams["dropout"])
    display = Progress()
    display.start(run.step, run.config.steps, 0)
    with _at_work(run, ranks) as asked, open(os.devnull, "w", encoding="utf-8") as log:
        if not _steps(run, corpus, Path(), display, log, asked, ranks) and not _judged(run):
            evaluate_all(run, corpus, ranks)


def _found(text: str) -> str:
    """The name of a corpus, or the whole path of a file: a resume may come from another folder."""
    return text if text in NAMED else str(Path(text).absolute())


def _edited(path: Path, config: TrainConfig) -> str:
    """What a run's config.json says otherwise than its checkpoint, in words; "" if nothing."""
    try:
        with open(path, encoding="utf-8") as file:
            found, own = json.loads(file.read(LONGEST_CONFIG)), config.to_json()
        other = [f"{name} {found[name]!r}, not {own[name]!r}" for name in own if found.get(name, own[name]) != own[name]]
    except OSError:
        return ""  # it is written again
    except (ValueError, AttributeError, RecursionError):
        other = ["no settings that can be read"]
    has = "; ".join(other)
    return f"{path} has {has}: the checkpoint counts and overwrites it; options such as --steps change a run" if has else ""


def _corpus(c: TrainConfig, vocabulary: Any) -> Corpus:
    try:
        corpus = load_corpus(c.text, vocabulary)
    except UnknownCharacters as error:
        listed = str(error).partition(": ")[2]
        raise RunError(f"{c.text} has characters that {c.init_from} does not know: {listed}, go on from a model with a "
                       "tokenizer, such as gpt2, or train a new model, without --init-from") from None
    if min(len(corpus.train), len(corpus.val)) <= c.block_size:
        raise RunError(f"{c.text} is too short: {len(corpus.train)} {corpus.vocabulary.unit}s to learn from and "
                       f"{len(corpus.val)} held out, each must be more than --block-size, {c.block_size}; take a longer text "
                       "or a smaller --block-size")
    return corpus


def _refuse_too_large(c: TrainConfig, words: int) -> None:
    """What no memory of this machine can hold is said at once; it would take minutes to find out."""
    numbers, tokens = count(c.decoder(words)), c.batch_size * c.grad_accum * (c.block_size + 1)
    model = 16 * numbers + OBJECTS * c.n_layer, f"a model of {numbers:,} parameters, their gradients and moments"
    batch = 16 * tokens, f"the {tokens:,} tokens of a step and their targets"
    for (needed, what), way in ((model, "--n-layer or --n-embd"), (batch, "--batch-size, --grad-accum or --block-size")):
        if needed > installed():
            raise RunError(f"{what} would take {needed / 1e9:,.1f} GB, more than this machine's memory, "
                           f"{installed() / 1e9:,.1f} GB; a smaller {way} needs less")


def _sha256(corpus: Corpus) -> str:
    total = hashlib.sha256(json.dumps(corpus.vocabulary.to_json()).encode())
    total.update(np.concatenate([corpus.train, corpus.val]).astype("<i8").tobytes())
    return total.hexdigest()


@contextmanager
def _at_work(run: Run, ranks: One) -> Iterator[threading.Event]:
    """What a rank trains in. The event is set by Ctrl-C or SIGTERM."""
    c = run.config
    keep_freed_memory()
    product = 2 * c.batch_size // ranks.size * c.block_size * c.n_embd * 4 * c.n_embd  # operations of a block's largest one
    own = threads_for(product, by_batch=True) if ranks.size > 1 else helped(run.model, run.optimizer, c.batch_size, product)
    # Where a number becomes infinite the loop says so; NumPy need not.
    with interruptible() as asked, replaying(), np.errstate(all="ignore"), own:
        yield asked


def _go_on(run: Run, corpus: Corpus, folder: Path, display: Progress, ranks: One, remark: str = "") -> Run:
    """Train what is left, look at the result, and write the rest of the run folder."""
    c = run.config
    display.start(run.step, c.steps, c.batch_size * c.grad_accum * c.block_size)
    try:
        size, unit = sum(p.numel() for p in run.model.parameters()), run.vocabulary.unit
        display.say(f"{c.preset}: {size:,} parameters, {len(run.vocabulary)} different {unit}s, {len(corpus.train):,} to learn "
                    f"from, {len(corpus.val):,} held out; folder {folder}")
        for line in filter(None, (corpus.changes and f"{c.text}: {corpus.changes}", remark, ranks.remark)):
            display.say(line)
        write_atomically(folder / CONFIG, json.dumps(c.to_json(), indent=2) + "\n")
        write_atomically(folder / METRICS, _lines(run.history))
        ranks.share(lambda: (run.pack(), replace(corpus, vocabulary=None)))
        ranks.if_killed(f"a process was killed; the last checkpoint in {folder} is whole: go on with --resume {typed(folder)}")
        with _at_work(run, ranks) as asked:
            run.threads, before = shares(run.model, c.batch_size // ranks.size), run.threads
            if before not in (0, run.threads) and run.step < c.steps:
                display.say(f"a batch had {before} part{'s'[: before > 1]} before and has {run.threads} now: sums differ in "
                            f"the last digits{', and dropout falls elsewhere' * (c.dropout > 0)}")
            with open(folder / METRICS, "a", encoding="utf-8") as log:
                stopped = _steps(run, corpus, folder, display, log, asked, ranks)
            if stopped:
                draw_curves(run.history, folder, c.preset, corpus.floor, unit)
                raise ranks.end(BrokenPipeError() if display.closed else KeyboardInterrupt(
                    f"stopped after step {run.step}, which is saved; go on with: tinygrad-tf train --resume {typed(folder)}"))
            _finish(run, corpus, folder, display, ranks, asked)
        if asked.is_set():
            raise ranks.end(KeyboardInterrupt(f"the run in {folder} was already at its end and is complete"))
    except Lost as error:
        raise RunError(f"{error}; the last checkpoint in {folder} is whole: go on with --resume {typed(folder)}") from None
    except BrokenPipeError:
        raise
    except KeyboardInterrupt as error:
        raise error if error.args else KeyboardInterrupt(
            f"interrupted; the last checkpoint in {folder} is whole: go on with --resume {typed(folder)}") from None
    except OSError as error:  # of the files that are open here only one is written without a name for its errors
        raise RunError(f"{error.filename or folder / METRICS}: {error.strerror or error}; the last checkpoint is whole: "
                       f"go on from it with --resume {typed(folder)} once this is mended") from error
    finally:
        display.stop()
    return run


def _finish(run: Run, corpus: Corpus, folder: Path, display: Progress, ranks: One, asked: threading.Event) -> None:
    """Evaluate on all held-out text, write a last sample, save, and draw. A finished run is only drawn again.

    A process alone stops where it is asked to; several go on to the end, as none knows how far the others are.
    """
    c = run.config
    if not _judged(run):
        run.save(folder)
        try:
            loss = evaluate_all(run, corpus, ranks, asked.is_set if ranks.size == 1 else lambda: False)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"stopped in the evaluation after step {run.step}, the last one, which is saved; the rest "
                                    f"is done by: tinygrad-tf train --resume {typed(folder)}") from None
        run.history.append({"step": run.step, "final_val_loss": loss})
        run.sample = write_sample(run)
        run.save(folder)
    loss = run.history[-1]["final_val_loss"]
    write_atomically(folder / METRICS, _lines(run.history))
    write_atomically(folder / SAMPLE, run.sample + "\n")
    draw_curves(run.history, folder, c.preset, corpus.floor, run.vocabulary.unit)
    display.stop()
    display.sample(run.step, run.sample)
    above = "" if corpus.floor is None else f", {loss / corpus.floor - 1:.1%} above the entropy of the text, {corpus.floor:.4f}"
    context = f", each after at least {c.context_only} others" if c.context_only else ""
    display.say(f"held-out loss {loss:.4f} nats per {run.vocabulary.unit} over the whole split{context}{above}")
    display.say(f"the run is in {folder}; let it write with: tinygrad-tf sample {typed(folder)}")


def _judged(run: Run) -> bool:
    return any(line["step"] == run.step and "final_val_loss" in line for line in run.history)


def _lines(history: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(line) + "\n" for line in history)
