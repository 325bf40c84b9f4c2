"""A stretch of a model that does the same ops at every step, as one op: recorded once, then run again without the tape.

In a small model the tape, and the Python of the layers, take longer than the arithmetic. Inside `replaying()` the blocks of a
transformer are recorded as always in the first step. From then on the NumPy functions of their ops run one after the other,
and in backward their rules in the opposite order, which are the same operations in the same order: the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from operator import attrgetter, is_
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from . import fused, ops
from .engine import FLOAT32, Node, Traced, _Switch, history, op, state, unbroadcast
from .lines import PACKAGE

wants = attrgetter("requires_grad")
LARGE = 1 << 15  # numbers in x from which on the arithmetic takes most of the time, and memory is freed earlier by the tape


@op
def replay(x: Any, *weights: Any, program: tuple) -> Any:
    """(...), weights -> (...)   the ops of `program`, each with the places of its inputs, its settings: y is the last one's

    Places count x, the weights, and then the outputs. Backward is the tape's: the newest op first, gradients added up.
    """
    values, rules = [x, *weights], []
    given = len(values)
    for each, places, settings in program:
        value, rule = each.raw(*map(values.__getitem__, places), **settings)
        values.append(value)
        rules.append(rule)
    shapes = [value.shape for value in values]

    def back(g: Any) -> list:
        totals: list[Any] = [None] * (len(shapes) - 1) + [g]
        for at in range(len(rules) - 1, -1, -1):
            g, totals[given + at] = totals[given + at], None
            rule = rules[at]
            apart = type(rule) is tuple
            for i, share in zip(program[at][1], rule if apart else rule(g), strict=True):
                if apart:
                    share = share(g)
                if share.shape != shapes[i]:
                    share = unbroadcast(share, shapes[i])
                before = totals[i]
                totals[i] = share if before is None else before + share
        return totals[:given]

    return values[-1], back


@replay.reference
def _(x: Any, *weights: Any, program: tuple) -> Any:
    values = [x, *weights]
    for each, places, settings in program:
        values.append(each(*[values[i] for i in places], **settings))
    return values[-1]


class replaying(_Switch):
    """Inside, the blocks of a small transformer are one node of the graph from the second step on: faster, the same bits.

    A context manager and a decorator, for a training loop; other models run in it as always. While hooks, a drawing, dropout,
    a cache or a mask want to see or change single ops, they are recorded one by one, and after any change to the model anew.
    """

    field, value = "replaying", True


def untouched(part: Any) -> bool:
    """Whether this one module has no hook, and no other `forward` than its class has."""
    return not {"_hooks", "forward"} & vars(part).keys()


class Recorded:
    """What a module did with an x of one shape, and what the module was then."""

    def __init__(self, module: Any, x: Any, y: Any):
        parts = list(module.modules())
        self.shape, self.inside = x.array.shape, [vars(part) for part in parts]
        self.attributes = list(chain.from_iterable(map(dict.values, self.inside)))
        self.weights: list[Any] = []
        self.program: tuple | None = None  # None: it may do something else at the next step
        if all(type(part).__module__.startswith(PACKAGE) and untouched(part) for part in parts):
            self._read(x.node, history(y.node, stop={x.node})[::-1])

    def _read(self, first: Node, nodes: list[Node]) -> None:
        """The program that these nodes are, the oldest first, unless one of them took a constant or `_differs`."""
        sources = [source for node in nodes for source in node.inputs]
        if not all(isinstance(source, (Node, Traced)) for source in sources) or any(map(_differs, nodes)):
            return
        self.weights = [source for source in dict.fromkeys(sources) if isinstance(source, Traced)]
        places: dict[Any, int] = {source: i for i, source in enumerate((first, *self.weights, *nodes))}
        self.program = tuple((node.op, tuple([places[source] for source in node.inputs]), node.settings) for node in nodes)

    def holds(self, x: Any) -> bool:
        """Whether x has that shape, and the parts of the module every attribute that they had: weights, hooks, mode and all."""
        return (
            x.array.shape == self.shape
            and sum(map(len, self.inside)) == len(self.attributes)
            and all(map(is_, chain.from_iterable(map(dict.values, self.inside)), self.attributes))
            and all(map(wants, self.weights))
        )


def _differs(node: Node) -> bool:
    """Whether the settings of this node may be others at the next step: drawn numbers, or arrays that are no angles."""
    arrays = any(isinstance(setting, np.ndarray) for setting in node.settings.values())
    return node.op is ops.dropout or bool(node.settings.get("dropout")) or (arrays and node.op is not fused.rotary)


_recorded: WeakKeyDictionary[Any, Recorded] = WeakKeyDictionary()  # by module


def replayed(module: Any, run: Callable, x: Any) -> Any:
    """run(x), whose ops must be the same whenever x has this shape and the attributes of the module's parts are the same."""
    if not (state.replaying and state.recording and x.node is not None and x.array.size < LARGE and x.array.dtype is FLOAT32):
        return run(x)
    if state.observer is not None or state.composed:
        return run(x)
    known = _recorded.get(module)
    if known is None or not known.holds(x):
        y = run(x)
        _recorded[module] = Recorded(module, x, y)
        return y
    return run(x) if known.program is None else replay(x, *known.weights, program=known.program)
