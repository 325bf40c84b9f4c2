"""What has changed since a graph was made: values written over in place, and gradients that are not this graph's alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tinygrad_tf.engine import Node, Traced, written_since
from tinygrad_tf.recompute import Remade

OTHER = "is not what this graph sent"  # of a .grad that holds something else: a note of the graph says so
CLOSE = 1e-3  # of the largest number, between the sum of a leaf's shares and its .grad


class Overwritten(RuntimeError):
    """A value that a graph was computed from is no longer there. `what` says so without the remedy."""

    def __init__(self, place: str):
        self.what = f"a value that it was computed from was changed in place at {place}, as opt.step() does"
        super().__init__(f"{self.what}. Run the model inside viz.record(), or draw before that")


class Freed(Overwritten):
    """What a checkpoint kept to make its values again is no longer there."""

    def __init__(self) -> None:
        self.what = "backward() has let go of what a checkpoint kept of it"
        RuntimeError.__init__(self, f"{self.what}. Run the model inside viz.record(), or draw before that")


def check_not_freed(order: list[Node]) -> None:
    """Freed if one of these op calls had a constant that cannot be made again."""
    if any(type(x) is Remade and x.gone for call in order for x in (*call.inputs, *call.settings.values())):
        raise Freed


def changed(call: Node, source: Any) -> str | None:
    """The line that changed this input of `call` in place after the call; None if nothing did."""
    array = source.array if isinstance(source, Traced) else source
    return written_since(call, array) if isinstance(array, np.ndarray) else None


def left_out(kinds: list[str]) -> str:
    """The note on leaves of these kinds, whose values were changed."""
    kind = kinds[0] if len(set(kinds)) == 1 else ""
    said = f"the values of {_leaves(len(kinds), kind)} were changed after this graph was made and are left out"
    return f"{said}; draw before that to see them"


def accumulated(order: list[Node], shares: Mapping[Node, Mapping[int, np.ndarray]]) -> str:
    """The note on leaves whose .grad is not the sum of the shares that they were sent, as far as these are all known; or "".

    shares: op call -> number of the input -> what it was sent.
    """
    sums: dict[Traced, Any] = {}
    for call in order:
        for i, leaf in enumerate(call.inputs):
            if isinstance(leaf, Traced) and leaf.grad is not None:
                before, share = sums.get(leaf, 0), shares.get(call, {}).get(i)
                sums[leaf] = None if before is None or share is None else before + share
    n = sum(total is not None and not _close(total, leaf.grad.array) for leaf, total in sums.items())
    why = "it was accumulated over several backward passes, or changed afterwards"
    return f"the .grad of {_leaves(n)} {OTHER}: {why}" if n else ""


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    with np.errstate(all="ignore"):
        most = max(np.abs(a).max(initial=0), np.abs(b).max(initial=0))
        return not np.isfinite(most) or bool(np.abs(a - b).max(initial=0) <= CLOSE * most)


def _leaves(n: int, kind: str = "") -> str:
    return f"{n} {kind}{'s' * (n != 1)}" if kind else f"{n} {'leaf' if n == 1 else 'leaves'}"
