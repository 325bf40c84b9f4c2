"""From what the engine recorded to plain data: what is behind a tensor, behind a model's output, or on a tape."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from tinygrad_tf import Tensor, enable_grad, nn
from tinygrad_tf.engine import Node as Call
from tinygrad_tf.engine import Traced, history, plain

from .graph import Graph
from .partial import failed_call, marked
from .quoting import in_utf8
from .record import Tape, record
from .tracer import Tracer
from .twins import opened

HELD = 3  # references to a copy of a frame's variables that nobody else has: the frame's, ours, and that of whoever counts


def trace(what: Any, *, inputs: Any = None, names: Mapping[str, Any] | None = None, numbers: bool | None = None,
          full: bool = False, fused: bool = True, title: str = "") -> Graph:
    """The graph behind `what` as plain data.

    what: a Tensor or a sequence of them; a Module, which is called on `inputs` (one value, a tuple, or a dict of keywords); a
    Tape of `record()`; a Graph, which is returned as it is. names: name -> tensor or array, for what the picture should call by
    its name; variables of the caller are found without it. numbers: whether values and gradients are summed up in it; None: yes
    if they were recorded or are quick to compute. full: keep every element, not the first six. fused: False opens each fused
    op: the small ops of its composed twin stand in a module of its name.

    Tracing changes no value and no gradient. TypeError if there is nothing to trace, or for names and a title that are none.
    """
    if not isinstance(title, str):
        raise TypeError(f"title is a text, not {title!r:.80}")
    if names is not None and not (isinstance(names, Mapping) and all(isinstance(name, str) for name in names)):
        raise TypeError(f'names gives a tensor for each name, as {{"x": x}}, and this is {names!r:.80}')
    if isinstance(what, Graph):
        return what
    title, names = in_utf8(title), {in_utf8(name): value for name, value in (names or {}).items()}
    given = _first(names, _variables(sys._getframe(1)))
    if isinstance(what, nn.Module):
        return _trace_module(what, inputs, given, numbers, full, fused, title)
    if inputs is not None:
        raise TypeError(f"inputs= goes with a module, and this is a {type(what).__name__}")
    if isinstance(what, Tape):
        return _trace_tape(what, given, numbers, full, title)
    roots = [what] if isinstance(what, Traced) else list(what) if isinstance(what, (list, tuple)) else None
    if not roots or not all(isinstance(root, Traced) for root in roots):
        raise TypeError(f"trace takes a Tensor, a Module with inputs=, a Tape or a Graph, not {type(what).__name__}")
    if all(root.node is None for root in roots):
        why = "it was made under no_grad, or nothing behind it requires a gradient"
        raise TypeError(f"there is no graph behind this tensor of shape {roots[0].array.shape}: {why}")
    calls = [root.node for root in roots if root.node is not None]
    return _traced(calls, given, numbers, full, fused, title)


def _traced(calls: list[Call], given: Mapping[str, Any], numbers: bool | None, full: bool, fused: bool, title: str) -> Graph:
    tracer = Tracer(given, full)
    if not fused:
        twins = opened(calls)
        calls = [twins[call] for call in calls]
        tracer.names_of(twins)
    return tracer.graph(history(*calls)[::-1], calls, numbers, title)


def _trace_module(
    model: nn.Module, inputs: Any, given: dict, numbers: bool | None, full: bool, fused: bool, title: str
) -> Graph:
    if inputs is None:
        raise TypeError(f"a {type(model).__name__} is drawn by calling it: give inputs=, as in trace(model, inputs=x)")
    roots, named = called(model, inputs)
    return _traced([root.node for root in roots if root.node is not None], {**given, **named}, numbers, full, fused, title)


def called(model: Any, inputs: Any) -> tuple[list[Traced], dict[str, Any]]:
    """Call a module, or a method of one, with float inputs made to take gradients, so that every op on them is recorded.

    Returns the tensors that it returned, as far as they were computed, and its arguments by name. The ops are recorded.
    """
    args = inputs if isinstance(inputs, tuple) else () if isinstance(inputs, dict) else (inputs,)
    keywords = inputs if isinstance(inputs, dict) else {}
    bound = inspect.signature(model.forward if isinstance(model, nn.Module) else model).bind(*args, **keywords)
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        if isinstance(value, (Traced, np.ndarray)) and plain(value).dtype.kind == "f":
            value = value if isinstance(value, Traced) else Tensor(value)
            if not value.requires_grad:
                value = Tensor(value.array, requires_grad=True)
            bound.arguments[name] = value
        if isinstance(value, (Traced, np.ndarray, list)):
            named[name] = value
    with enable_grad(), record():
        out = model(*bound.args, **bound.kwargs)
    roots = [t for t in _tensors(out) if t.node is not None]
    if not roots:
        name = getattr(model, "__qualname__", type(model).__name__)
        raise TypeError(f"{name} returned no tensor that was computed from parameters or float inputs")
    return roots, named


def _trace_tape(tape: Tape, given: Mapping[str, Any], numbers: bool | None, full: bool, title: str) -> Graph:
    """Every op call that was recorded and, if the recording ended in an error, the one that raised it."""
    failed = failed_call(tape)
    calls = [*tape.nodes, *([failed] if failed is not None else [])]
    if not calls:
        ended = f"; it ended in {type(tape.error).__name__}: {tape.error}" if tape.error is not None else ""
        why = "it ran under no_grad(), most likely; else nothing in it took a tensor that requires a gradient"
        raise TypeError(f"this tape holds no op call, since nothing was recorded: {why}{ended}")
    tracer = Tracer(given, full)
    graph = tracer.graph(calls, [], numbers, title)
    return graph if tape.error is None else marked(graph, tape, tracer.ids.get(failed))


def _tensors(out: Any) -> list[Traced]:
    if isinstance(out, Traced):
        return [out]
    parts = out.values() if isinstance(out, dict) else out if isinstance(out, (list, tuple)) else ()
    return [tensor for part in parts for tensor in _tensors(part)]


def _variables(frame: Any) -> dict[str, Any]:
    """The tensors and modules in the caller's variables, by name; one with a leading underscore is not the caller's own."""
    inside = __name__.partition(".")[0]
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == inside:
        frame = frame.f_back
    local = frame.f_locals
    held = _first(local, frame.f_globals)
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED and sys.getrefcount(local) == HELD:
        local.clear()  # a copy, which Python would keep, with all that is in it, until the function returns
    kinds = (Traced, np.ndarray, nn.Module)
    return {name: value for name, value in held.items() if isinstance(value, kinds) and name.isidentifier() and name[0] != "_"}


def _first(names: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """All of them, those of `names` first: of several names for one tensor the first counts."""
    return {**names, **{name: value for name, value in more.items() if name not in names}}
