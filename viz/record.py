"""What an op call computed, kept for looking at: its value, its gradient, the share of every edge, the line that made it.

The tape of the engine holds no values. `record()` keeps them while a model runs; `replay()` computes them again from the
leaves, for a graph that ran unrecorded.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tinygrad_tf.engine import Node, Traced, enable_grad, history, kept_by, promote, state, tap, unbroadcast
from tinygrad_tf.lines import user_line
from tinygrad_tf.recompute import settings_of

from .stale import Overwritten, changed, check_not_freed


class Entry:
    """What is known of one op call."""

    __slots__ = ("grad", "kept", "line", "shares", "value")

    def __init__(self, value: np.ndarray, kept: list[np.ndarray], line: str = ""):
        self.value, self.line = value, line
        self.kept = kept  # the arrays that its rule holds for backward
        self.grad: np.ndarray | None = None  # of its output; None until one has arrived
        self.shares: dict[int, np.ndarray] = {}  # input -> what it was sent


_entries: weakref.WeakKeyDictionary[Node, Entry] = weakref.WeakKeyDictionary()


class Tape:
    """The op calls of one `record()` block, in order. While it lives, it keeps their values and gradients alive."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.error: BaseException | None = None  # what ended the block

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"<Tape: {len(self.nodes)} op calls{f', then {type(self.error).__name__}' if self.error else ''}>"


@contextmanager
def record() -> Iterator[Tape]:
    """Keep what every op recorded inside computes, the gradients that later flow through it, and the line that called it.

        with viz.record():
            loss = model.loss(ids, targets)
        loss.backward()
        viz.draw(loss, view="ops", values="stats")

    For this thread. It costs memory: nothing that is recorded is freed before the loss and the tape are gone. A gradient that
    is itself recorded (`create_graph=True`) passes by unseen.
    """
    tape, before = Tape(), state.observer

    def observe(node: Node, value: np.ndarray) -> None:
        node.line = user_line()
        _entries[node] = Entry(np.array(value), node.kept(), node.line)  # as it is now: it may be changed in place later
        tap(node, _carried)
        tape.nodes.append(node)
        if before is not None:
            before(node, value)

    state.observer = observe
    try:
        yield tape
    except BaseException as error:
        tape.error = error
        raise
    finally:
        state.observer = before


def _carried(node: Node | None, i: int, g: np.ndarray, share: Any) -> None:
    """A rule has sent `share` to input i of `node`, whose own gradient is g."""
    if node is None or node not in _entries:
        return
    entry, source = _entries[node], node.inputs[i]
    entry.grad = g
    if share is None or not isinstance(source, (Node, Traced)):
        return
    want = source.array if isinstance(source, Traced) else source
    entry.shares[i] = unbroadcast(share, want.shape)


def recorded(nodes: Iterable[Node]) -> dict[Node, Entry]:
    """The entries of these op calls, as far as they were made inside `record()`."""
    return {node: _entries[node] for node in nodes if node in _entries}


@enable_grad()
def replay(root: Node, known: dict[Node, Entry]) -> dict[Node, Entry]:
    """Compute the value of every op call behind `root` again and, if `root` is a scalar, the gradients.

    Nothing of the graph or of the tensors is changed. `known` entries are used as they are. Overwritten if a leaf was changed
    in place since: the numbers would be others.
    """
    order = history(root)[::-1]
    check_not_freed(order)
    for node in order:
        for source in node.inputs:
            if (place := changed(node, source)) is not None:
                raise Overwritten(place)
    entries: dict[Node, Entry] = {}
    rules: dict[Node, Any] = {}
    for node in order:
        args = [_Shown(entries[source].value) if type(source) is Node else source for source in node.inputs]
        arrays = promote(tuple(args), [a.array if isinstance(a, Traced) else a for a in args])
        with np.errstate(all="ignore"):
            value, rules[node] = node.op.raw(*arrays, **settings_of(node))
        value = np.asarray(value, dtype=node.dtype)
        entries[node] = Entry(value, kept_by(rules[node]), node.line or "")
    if root.shape == () or np.prod(root.shape) == 1:
        gradients = {root: np.ones(root.shape, root.dtype)}
        for node in reversed(order):
            g = entries[node].grad = gradients.get(node)
            if g is None:
                continue
            with np.errstate(all="ignore"):
                for i, source, share in _by_input(node, g, rules[node]):
                    entries[node].shares[i] = share
                    if type(source) is Node:
                        gradients[source] = gradients[source] + share if source in gradients else share
    for node, entry in known.items():
        if node in entries and (entry.grad is not None or entries[node].grad is None):
            entries[node] = entry
    return entries


class _Shown(Traced):
    """An array in the place of a tensor, for `promote` to weigh."""

    __slots__ = ()

    def __init__(self, array: np.ndarray):
        self.array = array


def _by_input(node: Node, g: np.ndarray, rule: Any) -> Iterator[tuple[int, Any, np.ndarray]]:
    """(input, source, share): as the engine's `shares`, with the number of the input, which tells x * x's two edges apart."""
    together = None if isinstance(rule, tuple) else rule(g)
    for i, source in enumerate(node.inputs):
        if not isinstance(source, (Node, Traced)):
            continue
        share = together[i] if together is not None else rule[i](g)
        if share is not None:
            want = source.array if isinstance(source, Traced) else source
            yield i, source, unbroadcast(np.asarray(share, dtype=want.dtype), want.shape)
