"""Open the fused ops of a graph: run it again with each of them written out in the small ops that it stands for."""

from __future__ import annotations

from typing import Any

from tinygrad_tf import enable_grad
from tinygrad_tf.engine import Node, Scope, composed, history, state
from tinygrad_tf.recompute import settings_of

from .stale import Overwritten, changed


def opened(roots: list[Node]) -> dict[Node, Node]:
    """Op call -> the call with the same result in a graph where every fused op is a scope of small ops.

    Leaves are the same tensors, so gradients and names stay with them. RuntimeError if a leaf was changed in place since.
    """
    made: dict[Node, Any] = {}
    scope, observer = state.scope, state.observer
    try:
        with enable_grad(), composed():
            for call in history(*roots)[::-1]:
                for source in call.inputs:
                    if (place := changed(call, source)) is not None:
                        what = Overwritten(place).what
                        raise RuntimeError(f"fused=False computes the graph again, and {what}. Draw before that")
                state.scope = Scope(call.scope, call.op.name, call.op.name) if call.op.twin is not None else call.scope
                state.observer = lambda node, value: setattr(node, "line", call.line)  # noqa: B023  called in this turn
                made[call] = call.op(*(made[x] if type(x) is Node else x for x in call.inputs), **settings_of(call))
    finally:
        state.scope, state.observer = scope, observer
    return {call: tensor.node for call, tensor in made.items()}
