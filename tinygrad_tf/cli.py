"""The command `tinygrad-tf`. A mistake of the user ends in one line on stderr and exit status 2, never in a traceback."""

import errno
import os
import re
import shutil
import signal
import sys
import warnings
from collections.abc import Callable
from dataclasses import fields
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from . import __version__, parallel
from .errors import one_line
from .process import launched
from .runfolder import RunError, typed
from .settings import FIXED_BY_MODEL, PRESETS, SettingError, TrainConfig, option

INTERRUPTED, PIPE_CLOSED = 130, 141  # 128 + the signal's number, as shells count
NARROW = 60  # columns of a terminal
WAYS_OUT = {
    errno.ENOSPC: "; make room there, or name a folder on another disk",
    errno.ENOTDIR: "; a part of that path is a file",
    errno.ENOENT: "; name a place that is there",
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "; change its permissions, or name another place"),
}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None,
                  help="A small deep-learning framework to read in an evening.")


def with_settings(command: Callable) -> Callable:
    """Replace `**settings` of a command by one option for each field of TrainConfig; one not given is None."""
    hints = get_type_hints(TrainConfig)
    options = []
    for spec in fields(TrainConfig):
        kind, help = hints[spec.name], spec.metadata["help"]
        if get_origin(kind) is Literal:  # a text here, so that TrainConfig alone checks it
            kind, help = str, f"{help} One of: {', '.join(get_args(kind))}."
        flag = option(spec.name)
        shown = typer.Option(f"{flag}/--no{flag[1:]}" if kind is bool else flag, help=help, show_default=False)
        options.append(Parameter(spec.name, Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, shown]))
    own = [p for p in signature(command, eval_str=True).parameters.values() if p.kind is not Parameter.VAR_KEYWORD]
    command.__signature__ = signature(command).replace(parameters=[*own, *options])  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in [*own, *options]}
    return command


def path(text: str) -> Path:
    """What an option that takes a path makes of its text."""
    if not text:  # Path("") would be the folder that we are in
        raise typer.BadParameter("a path cannot be empty")
    return Path(text)


@app.callback(invoke_without_command=True)
def root(context: typer.Context,
         version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        print(f"tinygrad-tf {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
@with_settings
def train(
    run: Annotated[Path | None, typer.Option(parser=path, help="Folder for the run (default: runs/<preset>-<number>).")] = None,
    resume: Annotated[Path | None, typer.Option(parser=path, help="Folder of a run to go on with.")] = None,
    progress: Annotated[str | None, typer.Option(help="auto, bar, plain or none; else TINYGRAD_TF_PROGRESS.")] = None,
    data_parallel: Annotated[bool, typer.Option(
        "--data-parallel", help="Divide each batch among the processes that mpirun started (needs the extra mpi).")] = False,
    **settings: Any,
) -> None:
    """Train a character model. Settings that are not given come from the preset."""
    given = {name: value for name, value in settings.items() if value is not None}
    try:
        with parallel.joined(data_parallel) as ranks:
            from . import report  # here, where the others hear of it if this process cannot
            from .train import follow
            from .train import resume as resume_run
            from .train import train as train_run

            display = report.progress(progress)
            if not ranks.first:
                follow(ranks)
            elif resume is not None:
                if run is not None:
                    raise RunError("--run and --resume exclude each other: a resumed run stays in its folder")
                resumed = resume_run(resume, display, ranks, **given)
                if not display.losses:
                    display.say(f"all its steps ({resumed.step}) had been done; more go on with: tinygrad-tf train "
                                f"--resume {typed(resume)} --steps {2 * resumed.step}")
            else:
                preset = given.get("preset", "tiny")
                if preset not in PRESETS:
                    raise RunError(f"--preset must be one of {', '.join(PRESETS)}, not {preset!r}")
                taken = [option(name) for name in FIXED_BY_MODEL if name in given] if "init_from" in given else []
                if taken:
                    raise RunError(f"--init-from brings a model whose settings stay as they are: leave out {', '.join(taken)}")
                config = PRESETS[preset].changed(**given)
                config.check_effect(given)
                train_run(config, run, display, ranks)
    except SettingError as error:
        raise RunError(error.in_options()) from None
    except MemoryError as error:
        raise RunError(f"out of memory ({error or 'for Python objects'}); --recompute needs less, and so does a new run with "
                       "a smaller --batch-size, --grad-accum, --block-size, --n-layer or --n-embd") from None


@app.command()
def sample(
    run: Annotated[Path, typer.Argument(parser=path, help="Folder of a run, or its checkpoint file.")],
    prompt: Annotated[str, typer.Option(
        help="Text to go on from (default: the end of a held-out paragraph, not shown, so that a new one begins).")] = "",
    tokens: Annotated[int, typer.Option(help="Number of new characters, or tokens, as the model knows them.", min=0)] = 500,
    temperature: Annotated[float, typer.Option(help="0 always takes the most probable character.")] = 0.8,
    top_k: Annotated[int | None, typer.Option(help="Only the k most probable characters.")] = None,
    top_p: Annotated[float | None, typer.Option(help="Only the most probable that together reach p, at most 1.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same text.", min=0)] = 0,
    stop: Annotated[list[str] | None, typer.Option(help="End before this text; may be repeated.")] = None,
    cache: Annotated[bool, typer.Option(help="Keep keys and values of earlier characters.")] = True,
    stats: Annotated[bool, typer.Option("--stats", help="Say at the end, on stderr, what was computed and kept.")] = False,
) -> None:
    """Write text with a trained model, character by character."""
    import numpy as np

    from .generate import GenerationStats, check_sampling, generate
    from .memory import keep_freed_memory
    from .report import printable
    from .run import Run
    from .runfolder import checkpoint_in
    from .writing import until

    check_sampling(temperature, top_k, top_p)
    idle = [name for name, value in (("--top-k", top_k), ("--top-p", top_p)) if value is not None]
    if idle and temperature == 0:
        print(f"{' and '.join(idle)} change{'s'[: len(idle) < 2]} nothing: --temperature 0 always takes the most probable "
              "character", file=sys.stderr)
    keep_freed_memory()  # before the weights are read: each token goes through all of them
    trained = Run.load(checkpoint_in(run))
    vocabulary = trained.vocabulary
    ids = vocabulary.encode(prompt or trained.start)
    cost = GenerationStats()
    new = generate(trained.model, ids, tokens, temperature=temperature, top_k=top_k, top_p=top_p,
                   generator=np.random.default_rng(seed), cache=cache, stats=cost, stop=vocabulary.ends)
    sys.stdout.write(printable(prompt, sys.stdout))
    for piece in until(vocabulary.stream(new, ids), stop or ()):
        sys.stdout.write(printable(piece, sys.stdout))
        sys.stdout.flush()
    print(flush=True)
    if stats:
        print(f"{cost.computed} positions computed, {cost.recomputed} of them again, {cost.reused} read from the cache "
              f"of {cost.cache_bytes:,} bytes", file=sys.stderr)


@app.command()
def models(
    name: Annotated[str, typer.Argument(help="A named model: where its parameters live.", show_default=False)] = "",
    change: Annotated[list[str] | None, typer.Option(
        "--set", metavar="FIELD=VALUE", help="Another value of a field, as in n_layer=24; may be repeated.")] = None,
) -> None:
    """List the named models and their sizes, or take one apart. Nothing is downloaded or allocated."""
    from .models_command import listing, page
    from .report import printable

    if change and not name:
        raise ValueError("--set changes a named model: tinygrad-tf models gpt2 --set n_layer=24")
    print(printable(page(name, change or ()) if name else listing(), sys.stdout))


def main() -> None:
    """Run the command line and exit with its status."""
    try:
        signal.signal(signal.SIGINT, _interrupt_once)
        warnings.showwarning = _warn  # type: ignore[assignment]
        for name in ("stdout", "stderr"):  # None where the caller closed it
            if getattr(sys, name) is None:
                setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        status = run_command(sys.argv[1:])
    except KeyboardInterrupt:  # before or after the command itself
        status = INTERRUPTED
    _ignore_interrupts()  # what Python does at its end is not to be disturbed
    try:
        sys.stdout.flush()
    except OSError:  # told already; Python would tell it again at its end, and end with another status
        from .report import silence

        silence(sys.stdout)
    parallel.leave(status)
    sys.exit(status)


def _warn(message: Warning | str, *where: Any) -> None:
    """In one line, as an error is told; the line of the source says nothing to whoever runs a command."""
    if sys.stderr is not None:
        print(f"warning: {one_line(str(message))}", file=sys.stderr)


def _interrupt_once(signum: int, frame: Any) -> None:
    _ignore_interrupts()  # a key held down must not disturb the tidying up
    raise KeyboardInterrupt


def _ignore_interrupts() -> None:
    """Ctrl-C does nothing from here on. Of one that comes in this very moment Python would show a traceback."""
    show = sys.unraisablehook
    sys.unraisablehook = lambda told: None if "race condition" in str(told.exc_value) else show(told)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def run_command(arguments: list[str]) -> int:
    """Run one command line; return its exit status, with any error told in one line on stderr."""
    UsageError: Any = typer.BadParameter.__base__  # of typer's own parser, or of click's, by typer's version
    try:
        rank, processes = launched()
        if processes > 1 and (arguments[:1] != ["train"] or "--help" in arguments):
            if rank:
                return 0
            print(f"{processes} processes were started; the first one does this alone", file=sys.stderr)
        _add_plugins(arguments)
        command: Any = typer.main.get_command(app)
        for each in command.commands.values():  # a whole sentence in the list of all: by itself it would be cut off
            each.short_help = re.split(r"(?<=\.)\s", each.help or "", maxsplit=1)[0]
        if shutil.get_terminal_size().columns < NARROW:
            _write_help_below(command)
        # Not command.main(): that one has ways of its own to end after Ctrl-C or a closed pipe.
        status = 0
        try:
            with command.make_context("tinygrad-tf", arguments) as context:
                command.invoke(context)
        except typer.Exit as done:
            status = done.exit_code
        sys.stdout.flush()
        return status
    except KeyboardInterrupt as stopped:
        return _fail(str(stopped) or "interrupted", INTERRUPTED, "")
    except BrokenPipeError:
        from .report import silence

        silence(sys.stdout)
        return PIPE_CLOSED
    except UsageError as error:
        message = error.format_message().rstrip(".")
        return _fail(message if "?" in message or not error.ctx else f"{message}; {error.ctx.command_path} --help says more")
    except MemoryError:
        return _fail("out of memory; end other programs, or take a smaller model")
    except OSError as error:
        if not error.filename and error.errno == errno.ENOENT:  # what asks for the current folder names no file
            return _fail("the folder that this was started in is gone; go to another one")
        return _fail(f"{error.filename or 'standard output'}: {error.strerror or error}{WAYS_OUT.get(error.errno or 0, '')}")
    except ImportError as error:
        return _fail(f"{error}; tinygrad-tf doctor says what is installed")
    except ValueError as error:
        return _fail(str(error))


def _add_plugins(arguments: list[str]) -> None:
    """Let other packages add their commands to `app`, unless the command line names one that is there already."""
    if arguments and arguments[0] in [command.callback.__name__ for command in app.registered_commands if command.callback]:
        return
    from importlib.metadata import entry_points  # takes a while

    for entry in entry_points(group="tinygrad_tf.commands"):
        entry.load()(app)


def _write_help_below(command: Any) -> None:
    """Let the help put what an option does below its name: side by side they need more columns than there are."""

    class Below(command.context_class.formatter_class):
        def __init__(self, **settings: Any):
            super().__init__(**{**settings, "width": max(20, shutil.get_terminal_size().columns - 1)})

        def write_dl(self, rows: Any, col_max: int = 6, col_spacing: int = 2) -> None:
            super().write_dl(rows, col_max, col_spacing)

    class Context(command.context_class):
        formatter_class = Below

    for each in (command, *command.commands.values()):
        each.context_class = Context


def _fail(message: str, status: int = 2, prefix: str = "error: ") -> int:
    message = re.sub(r"\s*\n\s*", " ", message)  # spaces stay: a path may have two in a row
    if parallel.speaks():
        print(prefix + one_line(message), file=sys.stderr)
    return status


if __name__ == "__main__":
    main()
