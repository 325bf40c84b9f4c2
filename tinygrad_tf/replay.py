"""A model that does the same ops at every step, as one op: recorded once, then run again without the tape.

In a small model the tape, and the Python of the layers, take longer than the arithmetic. Inside `replaying()` the loss of a
decoder is recorded as always in the first step. From then on the NumPy functions of its ops run one after the other, and in
backward their rules in the opposite order, which are the same operations in the same order: the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import chain
from operator import is_
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from . import fused, ops
from .engine import FLOAT32, Node, Traced, _Switch, enable_grad, history, last_write, op, state, unbroadcast
from .lines import PACKAGE

LARGE = 1 << 18  # numbers in one value from which on arithmetic takes most of the time, and memory is freed earlier by the tape


@op
def replay(*weights: Any, program: tuple, given: tuple = ()) -> Any:
    """weights -> (...)   the ops of `program`, each with the places of its inputs and its settings: y is the last one's

    Places count the weights, and then the outputs. A setting that is one of the arrays `given` stands in the program as its
    number and shape. Backward is the tape's: the newest op first, gradients added up. Last in each entry of the program are the
    values that no later op reads: of these stays what the rules keep.
    """

    def run() -> tuple[Any, list, list]:
        values, rules, shapes = list(weights), [], [w.shape for w in weights]
        for each, places, settings, live, done in program:
            value, rule = each.raw(*map(values.__getitem__, places), **(_filled(settings, live, given) if live else settings))
            values.append(value)
            rules.append(rule)
            shapes.append(value.shape)
            for i in done:
                values[i] = None
        return values[-1], rules, shapes

    (value, rules, shapes), number = run(), len(weights)

    def back(g: Any) -> list:
        nonlocal rules
        if not rules:  # they were used already
            with enable_grad():
                rules = run()[1]
        left, rules = rules, []  # each is dropped once it was used, and its arrays serve again: in the cache still
        totals: list[Any] = [None] * (number + len(program) - 1) + [g]
        for at in range(len(left) - 1, -1, -1):
            g, totals[number + at] = totals[number + at], None
            rule = left.pop()
            apart = type(rule) is tuple
            for i, share in zip(program[at][1], rule if apart else rule(g), strict=True):
                if apart:
                    share = share(g)
                if share.shape != shapes[i]:
                    share = unbroadcast(share, shapes[i])
                before = totals[i]
                totals[i] = share if before is None else before + share
        return totals[:number]

    return value, back


def _filled(settings: dict[str, Any], live: dict[str, tuple[int, tuple[int, ...]]], given: tuple) -> dict[str, Any]:
    """The settings with the given arrays in their places."""
    return {**settings, **{name: given[i].reshape(shape) for name, (i, shape) in live.items()}}


@replay.reference
def _(*weights: Any, program: tuple, given: tuple = ()) -> Any:
    values = list(weights)
    for each, places, settings, live, _ in program:
        values.append(each(*[values[i] for i in places], **_filled(settings, live, given)))
    return values[-1]


class replaying(_Switch):
    """Inside, the loss of a small decoder is one node of the graph from the second step on: faster, the same bits.

    A context manager and a decorator, for a training loop; other models run in it as always. While hooks, a drawing or dropout
    want to see or change single ops, they are recorded one by one, and after any change to the model anew.
    """

    field, value = "replaying", True


def untouched(part: Any) -> bool:
    """Whether this one module has no hook, and no other `forward` than its class came with."""
    forward = _forward(type(part))
    return not {"_hooks", "forward"} & vars(part).keys() and (forward is None or forward.__module__.startswith(PACKAGE))


class Likeness:
    """Every attribute of a module and its parts, and what their classes compute, to see later whether all is the same still.

    The module itself is not held: what is recorded of it must not keep it alive.
    """

    def __init__(self, module: Any):
        parts = list(module.modules())
        self.inside: list[dict] = [vars(part) for part in parts]
        self.classes = list(dict.fromkeys(map(type, parts)))
        self.forwards = [*map(_forward, self.classes)]
        self.attributes = list(chain.from_iterable(map(dict.values, self.inside)))

    def holds(self) -> bool:
        return (
            sum(map(len, self.inside)) == len(self.attributes)
            and all(map(is_, chain.from_iterable(map(dict.values, self.inside)), self.attributes))
            and all(map(is_, map(_forward, self.classes), self.forwards))
        )


def _forward(kind: type) -> Any:
    """What modules of a class compute; a list of modules computes nothing."""
    return getattr(kind, "forward", None)


class Recorded:
    """What a module did with arrays of these shapes and dtypes, and what the module was then."""

    def __init__(self, module: Any, given: tuple[np.ndarray, ...], y: Any, wrote: bool):
        self.kinds, self.like = kinds(given), Likeness(module)
        self.weights: list[Any] = []
        self.program: tuple | None = None  # None: it may do something else at the next step
        ours = all(type(part).__module__.startswith(PACKAGE) and untouched(part) for part in module.modules())
        if y.node is not None and ours and not wrote:
            self._read(history(y.node)[::-1], given)

    def _read(self, nodes: list[Node], given: tuple[np.ndarray, ...]) -> None:
        """The program that these nodes are, the oldest first, unless one of them took a constant, `_differs` or is large."""
        sources = [source for node in nodes for source in node.inputs]
        settings = [_divided(node.settings, given) for node in nodes]
        if not all(map(_of_model, sources)) or any(math.prod(node.shape) > LARGE for node in nodes):
            return
        if any(_differs(node, fixed) for node, (fixed, _) in zip(nodes, settings, strict=True)):
            return
        self.weights = [source for source in dict.fromkeys(sources) if isinstance(source, Traced)]
        places: dict[Any, int] = {source: i for i, source in enumerate((*self.weights, *nodes))}
        last = {places[source]: i for i, node in enumerate(nodes) for source in node.inputs}  # which op reads it last
        done: list[list[int]] = [[] for _ in nodes]
        for at, i in last.items():
            done[i].append(at)
        self.program = tuple(
            (node.op, tuple([places[source] for source in node.inputs]), *both, tuple(over))
            for node, both, over in zip(nodes, settings, done, strict=True)
        )

    def holds(self, given: tuple[np.ndarray, ...]) -> bool:
        """Whether these arrays and the weights are like those, and the module's parts have every attribute that they had."""
        return (
            kinds(given) == self.kinds
            and self.like.holds()
            and all(weight.requires_grad and weight.array.dtype == FLOAT32 for weight in self.weights)
        )


def _of_model(source: Any) -> bool:
    """Whether it is a weight or what an op made, and no constant; float32."""
    if isinstance(source, Traced):
        return source.array.dtype == FLOAT32
    return type(source) is Node and source.dtype == FLOAT32


def kinds(given: tuple[np.ndarray, ...]) -> list[tuple]:
    return [(array.shape, array.dtype) for array in given]


def _divided(settings: dict[str, Any], given: tuple[np.ndarray, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings that stay, and which of the given arrays the others show, all of it in its order, with their shapes."""
    live = {name: (i, a.shape) for name, a in settings.items() if isinstance(a, np.ndarray) and a.flags.c_contiguous
            for i, b in enumerate(given) if a.size == b.size and a.dtype == b.dtype and np.shares_memory(a, b)}  # fmt: skip
    return {name: setting for name, setting in settings.items() if name not in live}, live


def _differs(node: Node, settings: dict[str, Any]) -> bool:
    """Whether these settings of the node may be others at the next step: drawn numbers, or arrays other than angles and those
    that nobody can write to.
    """
    found = chain.from_iterable(setting if type(setting) is tuple else (setting,) for setting in settings.values())
    arrays = [part for part in found if isinstance(part, np.ndarray)]
    drawn = node.op is ops.dropout or bool(settings.get("dropout"))
    return drawn or (node.op is not fused.rotary and any(array.flags.writeable for array in arrays))


_recorded: WeakKeyDictionary[Any, Recorded] = WeakKeyDictionary()  # by module


def replayed(module: Any, run: Callable, *given: np.ndarray) -> Any:
    """run(*given), whose ops must be the same whenever these are alike and the attributes of the module's parts the same."""
    if not (state.replaying and state.recording) or state.observer is not None or state.composed:
        return run(*given)
    known = _recorded.get(module)
    if known is None or not known.holds(given):
        copies = tuple([array.copy() for array in given])  # the memory of each is its own, by which it is known again
        before = last_write()
        y = run(*copies)
        _recorded[module] = Recorded(module, copies, y, last_write() != before)  # what is changed in place is no op
        return y
    return run(*given) if known.program is None else replay(*known.weights, program=known.program, given=given)
