"""What a command line names, as something to draw: a run, a preset, a saved graph, or a name in the reader's own file."""

from __future__ import annotations

import ast
import runpy
import sys
import traceback
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_tf import Tensor, nn
from tinygrad_tf.data import SHAKESPEARE
from tinygrad_tf.grammar import STORIES
from tinygrad_tf.models.decoder import Decoder
from tinygrad_tf.run import Run
from tinygrad_tf.runfolder import checkpoint_in
from tinygrad_tf.settings import PRESETS
from tinygrad_tf.text import Vocabulary

from .graph import Graph
from .record import Tape, record

LENGTH = 8  # tokens that a preset is drawn on
SHOWN = 32  # characters of its held-out text that a run is drawn on
CHARACTERS = {SHAKESPEARE: 65}  # how many different ones are in a text that is not at hand
EXAMPLES = "a run (runs/tiny-1), a saved graph (graph.json), a name in a file of yours (net.py:loss), or --preset tiny"


@dataclass
class Subject:
    """Something to draw, and what to call it."""

    what: Any  # a Tensor, a Module, a Tape or a Graph
    name: str  # of the file, without its suffix
    title: str = ""
    inputs: Any = None
    names: dict[str, Any] = field(default_factory=dict)
    own_lines: bool = True  # whether the lines of code that ran it are the reader's
    warning: str = ""


def find(what: str, prompt: str = "", backward: bool = False) -> Subject:
    """What `what` names. backward: run the backward pass too, where it is this program that runs the model.

    Raises ValueError or OSError, in one line.
    """
    file, _, name = what.rpartition(":")
    path = Path(what)
    if prompt and (file.endswith(".py") or path.suffix in (".json", ".py")):
        raise ValueError(f"--prompt goes with a run, and {what} is none")
    if file.endswith(".py") and name:
        return _in_file(Path(file), name, backward)
    if file.endswith(".py") or path.suffix == ".py":
        path = Path(file) if file.endswith(".py") else path
        raise ValueError(f"{path}: name what to draw in it, a tensor or a function that returns one, as in {path}:loss")
    if path.suffix == ".json":
        return _saved(path)
    if not path.exists():
        hint = f"--preset {what}" if what in PRESETS else EXAMPLES
        raise ValueError(f"{what}: there is nothing of that name; name {hint}")
    if path.is_file() and path.suffix != ".safetensors":
        raise ValueError(f"{path}: a file of this kind cannot be drawn; name {EXAMPLES}")
    return _run(path, prompt, backward)


def preset(name: str, backward: bool = False) -> Subject:
    """A preset's model before its training, on a few tokens."""
    if name not in PRESETS:
        raise ValueError(f"--preset must be one of {', '.join(PRESETS)}, not {name!r}")
    config = PRESETS[name]
    size = CHARACTERS.get(config.text) or len(Vocabulary(STORIES.text(30_000, 0)))
    model = Decoder(config.decoder(size), np.random.default_rng(config.seed)).eval()
    ids = np.arange(LENGTH + 1) % size
    return _decoder(model, ids[:LENGTH], ids[1:], name, f"{name}, untrained", backward)


def _run(path: Path, prompt: str, backward: bool) -> Subject:
    file = checkpoint_in(path)
    run = Run.load(file)
    model, last = run.model.eval(), run.config.block_size
    ids = run.vocabulary.encode(prompt or run.start[-min(SHOWN, last) :])
    if backward and len(ids) < 2:
        raise ValueError("gradients come from predicting the next character: give a --prompt of two characters or more")
    name = file.resolve().parent.name
    given, targets = (ids[:-1], ids[1:]) if backward else (ids, ids)
    return _decoder(model, given, targets, name, f"{name}, after {run.step:,} steps", backward)


def _decoder(model: Decoder, ids: np.ndarray, targets: np.ndarray, name: str, title: str, backward: bool) -> Subject:
    """The logits of the model or, for the backward pass, the mean loss of predicting `targets`."""
    ids, targets = ids[None].astype(np.int64), targets[None].astype(np.int64)  # (T,) -> (1, T)
    if not backward:
        return Subject(model, name, title, ids, own_lines=False)
    with record():
        loss = model.loss(ids, targets)
        loss.backward(retain_graph=True)
    return Subject(loss, name, title, names={"ids": ids, "targets": targets}, own_lines=False)


def _saved(path: Path) -> Subject:
    try:
        graph = Graph.load(path)
        TopologicalSorter({id: [edge.source for edge in edges] for id, edges in graph.incoming.items()}).prepare()
        return Subject(graph, path.stem)
    except CycleError as cycle:
        way = " → ".join(cycle.args[1][:4])
        raise ValueError(f"{path}: this graph is damaged: a value is computed from itself ({way})") from None
    except (ValueError, RecursionError) as error:  # json gives up on 1,000 brackets one inside the other
        raise ValueError(f"{path}: {error}") from None


def _in_file(path: Path, name: str, backward: bool) -> Subject:
    """Run the reader's file, as `python path` would except for its `if __name__ == "__main__"`, and take `name` from it."""
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    before = sys.path[:]
    sys.path.insert(0, str(path.resolve().parent))  # it may import its neighbours
    try:
        held = runpy.run_path(str(path), run_name=path.stem)
        found = held.get(name)
        called = callable(found) and not isinstance(found, nn.Module)
        value, warning = _result(found, path, backward) if called else (found, "")
    except (Exception, SystemExit) as error:
        raise ValueError(_told(error, path)) from None
    finally:
        sys.path[:] = before
    if name not in held:
        if _only_in_main(path, name):
            where = 'only under `if __name__ == "__main__"`, which is not run here'
            raise ValueError(f"{path} makes {name!r} {where}: move it out, or into a function that returns it")
        raise ValueError(f"{path} makes nothing of the name {name!r}")
    if isinstance(value, nn.Module):
        raise ValueError(f"{path}:{name} is a model, and a model is drawn on an input: write a function without arguments that "
                         "returns what the model computes, and name that")
    if not isinstance(value, (Graph, Tape, Tensor, list, tuple)):
        raise ValueError(f"{path}:{name} is of type {type(value).__name__}: name a tensor, a viz.Graph, or a function without "
                         "arguments that returns one of these")
    return Subject(value, f"{path.stem}-{name}", f"{path.name}: {name}", warning=warning)


def _only_in_main(path: Path, name: str) -> bool:
    """Whether the file gives this name to something in an `if` that asks for __name__."""
    parts = (part for part in ast.parse(path.read_bytes()).body if isinstance(part, ast.If))
    inside = [item for part in parts if "__name__" in ast.dump(part.test) for item in ast.walk(part)]
    return any(
        (isinstance(item, ast.Name) and item.id == name and isinstance(item.ctx, ast.Store))
        or (isinstance(item, (ast.FunctionDef, ast.ClassDef)) and item.name == name)
        for item in inside
    )


def _result(function: Any, path: Path, backward: bool) -> tuple[Any, str]:
    """What the function returns; if it fails in the middle, what was computed until then, and a warning."""
    tape = None
    try:
        with record() as tape:
            value = function()
            if backward and isinstance(value, Tensor):
                value.backward(retain_graph=True)
    except Exception as error:
        if not tape:  # nothing was computed
            raise
        return tape, f"drawn up to the op that failed: {_told(error, path)}"
    return value, ""


def _told(error: BaseException, path: Path) -> str:
    """An error of the reader's code in one line, with the place in the reader's file."""
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}: SyntaxError: {error.msg}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    place = f"{path}:{lines[-1]}" if lines else str(path)
    return f"{place}: {type(error).__name__}" + (f": {error}" if str(error) else "")


def without_lines(graph: Graph) -> Graph:
    """The graph without the lines of code that made its nodes."""
    return graph.replace(nodes=tuple(replace(node, line="") for node in graph.nodes))
