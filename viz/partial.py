"""Where a run that failed stopped: the op call that raised the error, as a call that can be drawn behind those before it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tinygrad_tf.engine import Node as Call
from tinygrad_tf.engine import Traced
from tinygrad_tf.lines import INSIDE

from .graph import Graph
from .record import Tape

LONGEST = 400  # characters of an error's text in a caption


def failed_call(tape: Tape) -> Call | None:
    """The op call that ended the tape, with the calls, leaves and arrays that it was given; None if no op failed."""
    error = _from_op(tape.error)
    if error is None:
        return None
    op, args, settings, scope = error.call  # type: ignore[attr-defined]
    inputs = tuple((a.node or a if a.requires_grad else a.array) if isinstance(a, Traced) else a for a in args)
    call = Call(op, inputs, settings, None, (), np.dtype(np.float32))
    call.scope, call.line = scope, _line(error)
    return call


def marked(graph: Graph, tape: Tape, id: str | None) -> Graph:
    """The graph with the node of the failed call marked, and a note that says what ended the tape."""
    error = tape.error
    text = str(error)
    words = f"stopped by {type(error).__name__}" + (f": {text}" if text else "")
    words = words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"
    nodes = graph.nodes
    if id is not None:
        op = graph[id].op
        reason = str(_from_op(error)).split(": ", 2)[-1].rpartition(" [")  # op: shapes: reason [path]
        label = f"{op}: {reason[0] or reason[2]}"
        broken = replace(graph[id], label=label, failed=True, shape=None, dtype="", trained=False)
        nodes = tuple(broken if node.id == id else node for node in nodes)
    return graph.replace(nodes=nodes, notes=(*graph.notes, words))


def _from_op(error: BaseException | None) -> BaseException | None:
    """The error that an op raised: this one, or the one behind it that somebody caught and raised anew."""
    seen: set[int] = set()
    while error is not None and not hasattr(error, "call") and id(error) not in seen:
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return error if hasattr(error, "call") else None


def _line(error: BaseException) -> str:
    """The innermost line outside of these packages that was running, as `file:line`."""
    found, step = "", error.__traceback__
    while step is not None:
        if step.tb_frame.f_globals.get("__name__", "").partition(".")[0] not in INSIDE:
            found = f"{step.tb_frame.f_code.co_filename}:{step.tb_lineno}"
        step = step.tb_next
    return found
