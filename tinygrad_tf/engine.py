"""The tape: what was computed, from what, and how a gradient goes back through it.

An op is a plain NumPy function that returns its value and its backward rule. `@op` does the rest:

    @op
    def mul(a, b):
        '''(...), (...) -> (...)   y = a * b'''
        return a * b, (lambda g: g * b, lambda g: g * a)

Positional arguments are the inputs that a gradient can flow to; keyword arguments are settings (an axis, a mask, an index).
A rule is a tuple with one function per input, or one function that returns the gradients of all inputs at once.
"""

from __future__ import annotations

import inspect
import math
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ContextDecorator, contextmanager
from functools import wraps
from heapq import heapify, heappop, heappush
from itertools import count
from operator import attrgetter
from sys import _getframe
from typing import Any
from weakref import ref as reference_to

import numpy as np
from numpy import may_share_memory

from .errors import describe
from .lines import PACKAGE, line_of, place_of_call, user_line

FLOAT64, FLOAT32, FLOAT16 = np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.float16)
MANY = 1 << 12  # numbers from which on it counts in which order they are added up

registry: dict[str, Any] = {}  # every op by name: tests and drawings walk it
_serial = count(1)  # the clock of the tape: nodes and in-place writes take their number here


class _State(threading.local):
    """What is switched on in this thread. A new thread starts with these defaults."""

    recording = True  # off inside no_grad()
    composed = False  # on inside composed(): fused ops run as their twins
    replaying = False  # on inside replaying(): the loss of a small model is one node
    scope: Scope | None = None  # the module call that is running
    observer: Callable[[Node, np.ndarray], None] | None = None  # called with every recorded node and its value


state = _State()


class Traced:
    """What the engine needs of a tensor. `Tensor` adds the methods."""

    __slots__ = ("__weakref__", "array", "base", "grad", "hooks", "node", "origin", "requires_grad", "views")

    result: type  # the class that an op on this tensor returns: Tensor, for a Parameter too
    array: np.ndarray  # the values
    node: Node | None  # the op call that made it; None for a leaf
    requires_grad: bool
    grad: Any  # a tensor of the same class, or None
    hooks: list[Callable] | None  # functions of the gradient, leaves only
    base: Traced | None  # the tensor whose memory this one shows
    views: Any  # weak references to the tensors that show this one's memory, some of them dead
    origin: weakref.ref[Node]  # of a detached tensor: the node whose value it shows; not set otherwise


def plain(x: Any) -> np.ndarray:
    """The array of a tensor, or an array as it is: for what carries no gradient."""
    return x.array if isinstance(x, Traced) else np.asarray(x)


class Scope:
    """One call of a module: where in the model an op ran."""

    __slots__ = ("deep", "kind", "label", "module", "ours", "parent", "serial")

    def __init__(self, parent: Scope | None, label: str, kind: str, module: Any = None):
        self.parent, self.label, self.kind, self.module, self.serial = parent, label, kind, module, next(_serial)
        self.ours = type(module).__module__.startswith(PACKAGE)
        self.deep = self.ours and parent is not None and parent.ours  # a layer in a layer, which no line of the user's called

    @property
    def path(self) -> str:
        """The dotted path, as in `blocks.2.ffn`; the outermost module has no name of its own."""
        labels, scope = [], self
        while scope is not None:
            labels.append(scope.label)
            scope = scope.parent  # type: ignore[assignment]
        return ".".join(label for label in reversed(labels) if label)


class Node:
    """One call of an op: its inputs, and the rule that carries a gradient from its output to them.

    Each entry of `inputs` is the Node that made the input, the leaf tensor itself, or a constant. No entry holds an
    intermediate array: what a node keeps for backward is exactly what its rule closes over.
    """

    __slots__ = (
        "__weakref__", "dtype", "inputs", "line", "op", "place", "rule", "scope", "serial", "settings", "shape", "watchers"
    )  # fmt: skip

    def __init__(self, op: Any, inputs: tuple, settings: dict, rule: Any, shape: tuple, dtype: np.dtype):
        self.op, self.inputs, self.settings, self.rule = op, inputs, settings, rule
        self.shape, self.dtype = shape, dtype
        self.scope = scope = state.scope
        self.serial = next(_serial)
        self.watchers: list[Callable] | None = None
        self.line: str | None = None  # the user's line, filled in by whoever observes
        self.place = None if scope is not None and scope.deep else place_of_call(_getframe(2))  # who called `record`

    def __repr__(self) -> str:
        where = f" in {self.scope.path}" if self.scope and self.scope.path else ""
        return f"<{self.op.name} {self.shape}{where}>"

    def kept(self) -> list[np.ndarray]:
        """The arrays that are kept alive for backward by this node's rule."""
        return kept_by(self.rule)


def kept_by(rule: Any) -> list[np.ndarray]:
    """The arrays that a backward rule closes over."""
    found: dict[int, np.ndarray] = {}
    rules = rule if isinstance(rule, tuple) else (rule,)
    stack = [cell.cell_contents for each in rules for cell in getattr(each, "__closure__", None) or ()]
    while stack:
        item = stack.pop()
        if isinstance(item, np.ndarray):
            found[id(item)] = item
        elif isinstance(item, (tuple, list)):
            stack.extend(item)
        elif getattr(item, "__closure__", None) and not hasattr(item, "raw"):
            stack.extend(cell.cell_contents for cell in item.__closure__)  # a helper of the rule, with a closure of its own
    return list(found.values())


# ------------------------------------------------------------------------------------------------ recording


def op(function: Callable | None = None, *, view: bool = False, alike: bool = False) -> Any:
    """Turn a NumPy function that returns (value, rule) into an op on tensors.

    `op.raw` is the function itself. `op.reference` registers a composed twin: the same mathematics in smaller ops.
    `view=True` says that the value may share the memory of the first input, `alike=True` that tensors of several dtypes are
    an error, where other ops bring them to one. Without any tensor among its inputs the op returns a plain array.
    """
    if function is None:
        return lambda f: op(f, view=view, alike=alike)
    name = function.__name__

    def record(*args: Any, **settings: Any) -> Any:
        if state.composed and call.twin is not None:
            return call.twin(*args, **settings)
        arrays: list[Any] = []  # what the function gets
        inputs: list[Any] = []  # what a node remembers
        cls = dtype = None
        mixed = fractions = False
        tracked, recording = 0, state.recording
        for a in args:
            if isinstance(a, Traced):
                array = a.array
                if cls is None:
                    cls, dtype = a.result, array.dtype
                elif array.dtype is not dtype:
                    mixed = True
                arrays.append(array)
                if recording and a.requires_grad:
                    tracked += 1
                    inputs.append(a.node or a)
                else:
                    inputs.append(array)
            else:
                if type(a) is float:
                    fractions = True
                elif type(a) is not int:
                    mixed = True
                arrays.append(a)
                inputs.append(a)
        try:
            given = arrays
            if cls is not None and (mixed or (fractions and dtype.kind != "f") or dtype is FLOAT16):  # type: ignore[union-attr]
                arrays = promote(args, arrays, alike)
                given, dtype = arrays if view else [*map(_wide, arrays)], None  # no dtype: `_as_asked` finds that of the value
            value, rule = function(*given, **settings)
        except (ValueError, IndexError, TypeError, OverflowError, AttributeError, RuntimeError) as error:
            raise describe(error, call, args, settings, state.scope) from error
        if type(value) is not np.ndarray:
            value = np.asarray(value)
        if cls is None:
            return value
        if value.dtype is not dtype and value.dtype.kind == "f" and "dtype" not in settings:
            value = _as_asked(value, arrays, function, settings)
        out = holding(cls, value)
        if view and (may_share_memory(value, args[0].array) or not value.size):
            shown = args[0]
            out.base = base = shown if shown.base is None else shown.base
            views, n = base.views, len(base.views)
            if n and (n < 8 or n & (n - 1)):
                views.append(reference_to(out))
            else:  # at 8, 16, 32, ... the dead ones are dropped
                base.views = [*[view for view in views if view() is not None], reference_to(out)]
        if tracked and value.dtype.kind == "f":
            if type(rule) is tuple and tracked < len(args):  # what only a constant's rule would need is not kept
                rule = tuple([r if isinstance(a, (Node, Traced)) else None for r, a in zip(rule, inputs, strict=True)])
            out.node = node = Node(call, tuple(inputs), settings, rule, value.shape, value.dtype)
            out.requires_grad = True
            if state.observer is not None:
                state.observer(node, value)
        return out

    call: Any = wraps(function)(record)
    call.raw, call.twin, call.name, call.view = function, None, name, view

    def reference(twin: Callable) -> Callable:
        call.twin = twin
        return twin

    call.reference = reference
    registry[name] = call
    return call


def holding(cls: type, array: np.ndarray) -> Any:
    """A tensor of this class that holds this array and has no history."""
    out: Any = object.__new__(cls)
    out.array, out.views, out.requires_grad = array, (), False
    out.node = out.base = out.grad = out.hooks = None
    return out


def _as_asked(value: np.ndarray, arrays: list, function: Callable, settings: dict) -> np.ndarray:
    """NumPy's float result in a dtype that an input had: float64 is only where the user asked for it. Integers give float32."""
    floats = [a.dtype for a in arrays if isinstance(a, (np.ndarray, np.generic)) and a.dtype.kind == "f"]
    if not floats and value.dtype.itemsize < FLOAT32.itemsize:  # NumPy computes bytes and booleans in float16
        value = np.asarray(function(*(a if _is_number(a) else a.astype(FLOAT32) for a in arrays), **settings)[0])
    return value if value.dtype in floats else value.astype(floats[0] if floats else FLOAT32)


def promote(args: tuple, arrays: list, alike: bool = False) -> list:
    """Bring the inputs of one op to one dtype, by PyTorch's rules for the dtypes there are here.

    Bool gives way to integer, integer to float. Within a kind, tensors with axes outrank 0-d tensors, and any tensor outranks
    a constant, so a float32 model stays float32 whatever NumPy scalars and arrays it meets. Python numbers stay as they are,
    except a float beside integers: that makes float32. `alike`: tensors of several dtypes are a TypeError.
    """
    if alike and len(found := dict.fromkeys(str(a.array.dtype) for a in args if isinstance(a, Traced))) > 1:
        raise TypeError(f"tensors of dtypes {' and '.join(found)}, which have to be one: .to(dtype) converts")
    rank = -1
    best: list[list[np.dtype]] = [[], [], []]  # dtypes of the highest kind: tensors with axes, 0-d tensors, constants
    for original, a in zip(args, arrays, strict=True):
        if _is_number(a):
            level, dtype = 2, np.dtype(FLOAT32 if isinstance(a, float) else bool if isinstance(a, bool) else np.int64)
        else:
            a = np.asarray(a)
            level, dtype = (0 if a.ndim else 1) if isinstance(original, Traced) else 2, a.dtype
        if dtype.kind not in _KINDS:
            raise TypeError(f"a tensor cannot hold {dtype} values")
        kind = _KINDS[dtype.kind]
        if kind > rank:
            rank, best = kind, [[], [], []]
        if kind == rank:
            best[level].append(dtype)
    target = np.result_type(*next(level for level in best if level))
    if target == FLOAT64 and not best[0] and not best[1]:
        target = FLOAT32  # only constants are floats here: they take the default
    stays = (bool, int, float) if rank == _KINDS["f"] else (bool, int)  # a float among integers is cast with them
    return [a if _is_number(a) and isinstance(a, stays) else recast(np.asarray(a), target) for a in arrays]


_KINDS = {"b": 0, "u": 1, "i": 1, "f": 2}  # which kind of number gives way to which


def recast(array: Any, dtype: Any) -> Any:
    """The numbers in another dtype; OverflowError if an integer dtype cannot hold one: none is ever wrapped around."""
    dtype = np.dtype(dtype)
    if dtype.kind in "iu" and array.size and not np.can_cast(array.dtype, dtype):
        limits = np.iinfo(dtype)
        for extreme in (array.min().item(), array.max().item()):
            if not limits.min - 1 < extreme < limits.max + 1:  # a fraction is cut off; NaN is nowhere between
                raise OverflowError(f"{extreme} out of bounds for {dtype}, {limits.min} to {limits.max}")
    return array.astype(dtype, copy=False)


def _wide(a: Any) -> Any:
    """float16 as float32, in which every op and every rule computes: results are rounded, not what adds up in them."""
    return a.astype(FLOAT32) if getattr(a, "dtype", None) is FLOAT16 else a


def _is_number(a: Any) -> bool:
    """Whether it is one of Python's own numbers, which take the dtype of what they meet."""
    return isinstance(a, (bool, int, float)) and not isinstance(a, np.generic)


@contextmanager
def scope(label: str, kind: str) -> Iterator[None]:
    """Ops recorded inside belong to the module call `label` of class `kind`."""
    before = state.scope
    state.scope = Scope(before, label, kind)
    try:
        yield
    finally:
        state.scope = before


class _Switch(ContextDecorator):
    """Set one field of this thread's state for a block, or for every call of a decorated function."""

    field, value = "", False

    def __init__(self) -> None:
        self.before: list[bool] = []

    def __new__(cls, function: Callable | None = None) -> Any:
        self = super().__new__(cls)
        if function is None:
            return self
        self.__init__()  # type: ignore[misc]
        return self(function)  # `@no_grad` without parentheses

    def _recreate_cm(self) -> Any:
        return type(self)()  # each call of a decorated function has its own memory

    def __call__(self, function: Any) -> Any:
        if not inspect.isgeneratorfunction(function):
            return super().__call__(function)

        @wraps(function)
        def generate(*args: Any, **kwargs: Any) -> Any:  # switched while the generator runs, not while its caller does
            generator, sent = function(*args, **kwargs), None
            while True:
                with self._recreate_cm():
                    try:
                        item = generator.send(sent)
                    except StopIteration as end:
                        return end.value
                try:
                    sent = yield item
                except BaseException:
                    generator.close()
                    raise

        return generate

    def __enter__(self) -> Any:
        self.before.append(getattr(state, self.field))
        setattr(state, self.field, self.value)
        return self

    def __exit__(self, *error: object) -> None:
        setattr(state, self.field, self.before.pop())


class no_grad(_Switch):
    """Record nothing inside. A context manager and a decorator; per thread; restored after an exception."""

    field, value = "recording", False


class enable_grad(_Switch):
    """Record again, inside a `no_grad` block."""

    field, value = "recording", True


class composed(_Switch):
    """Run every fused op as its composed twin: the same numbers, in ops small enough to read."""

    field, value = "composed", True


def is_grad_enabled() -> bool:
    return state.recording


# ------------------------------------------------------------------------------------------------ in-place writes

_written: dict[int, tuple[Any, int, str]] = {}  # id of the memory's owner -> (weak reference, when, by which line)
_last_write = 0  # when, by the clock of the tape
overwritten: weakref.WeakKeyDictionary[Node, str] = weakref.WeakKeyDictionary()  # whose value changed beside the graph -> line


def owner(array: np.ndarray) -> np.ndarray:
    """The array whose memory this one shows, itself if it is its own."""
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def mark_written(array: np.ndarray) -> None:
    """Note that this memory was changed in place now, so that a backward that still needs the old values can say so."""
    global _last_write  # noqa: PLW0603
    memory = owner(array)
    key = id(memory)
    reference = weakref.ref(memory, lambda _: _written.pop(key, None))
    _last_write = next(_serial)
    _written[key] = (reference, _last_write, user_line())


def last_write() -> int:
    """When memory was last changed in place, by the clock of the tape."""
    return _last_write


def note_write(tensor: Traced, recorded: bool) -> None:
    """Note that this tensor was changed in place; `recorded`: by an op that is now its node."""
    mark_written(tensor.array)
    origin = getattr(tensor, "origin", None) if recorded else origin_of(tensor)
    node = origin() if origin is not None else None
    if node is not None:
        overwritten[node] = user_line()


def origin_of(tensor: Traced) -> weakref.ref[Node] | None:
    """The node whose value lies in the memory of this tensor: that of what it is a view of or was detached from, or its own."""
    shown = tensor if tensor.base is None else tensor.base
    node = shown.node or tensor.node
    return getattr(shown, "origin", None) if node is None else weakref.ref(node)


def written_since(node: Any, array: np.ndarray) -> str | None:
    """The line that changed this memory in place after `node` was made; None if nothing did."""
    entry = _written.get(id(owner(array)))
    return entry[2] if entry is not None and entry[1] > node.serial else None


def check_not_written(node: Node, arrays: list[np.ndarray]) -> None:
    """Refuse to go on with values that were changed in place after `node` was made."""
    for array in arrays:
        line = written_since(node, array)
        if line is not None:
            raise RuntimeError(
                f"{node!r}, computed at {line_of(node.place)}, needs a value for its backward that was changed in place "
                f"afterwards, at {line}. "
                "Use the form that makes a new tensor, or change it after backward()."
            )


# ------------------------------------------------------------------------------------------------ backward


def unbroadcast(g: Any, shape: tuple[int, ...]) -> Any:
    """Sum `g` over the axes along which an input of this shape was broadcast."""
    if g.shape == shape:
        return g
    extra = g.ndim - len(shape)
    if extra < 0:
        return g
    g = added(g, tuple(range(extra))) if extra else g
    stretched = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return added(g, stretched, keepdims=True) if stretched else g


def added(x: Any, axis: tuple[int, ...], keepdims: bool = False) -> Any:
    """np.sum over axes counted from 0; in float64 where many float32 go into one, as NumPy may add them one by one."""
    if type(x) is np.ndarray and x.size > MANY and x.dtype == FLOAT32 and math.prod([x.shape[i] for i in axis]) > MANY:
        return np.sum(x, axis=axis, keepdims=keepdims, dtype=FLOAT64).astype(FLOAT32)
    return np.sum(x, axis=axis, keepdims=keepdims)


def history(*nodes: Node | None, stop: frozenset | set = frozenset()) -> list[Node]:
    """Every node that these depend on, themselves included, newest first; not the nodes in `stop`, nor beyond them.

    A node is made after its inputs, so the order of making, reversed, is a topological order.
    """
    stack = [node for node in nodes if node is not None and node not in stop]
    seen = set(stack)
    while stack:
        for source in stack.pop().inputs:
            if type(source) is Node and source not in seen and source not in stop:
                seen.add(source)
                stack.append(source)
    return sorted(seen, key=attrgetter("serial"), reverse=True)


def shares(node: Node, g: Any, rule: Any = None) -> Iterator[tuple[Any, Any]]:
    """(input, its share of the gradient) for each input of `node` that takes one."""
    rule = node.rule if rule is None else rule
    if rule is None:
        raise RuntimeError(
            f"{node!r}: this graph was already walked backward and freed. "
            "Call backward(retain_graph=True) the first time if you need it twice."
        )
    g = g if isinstance(g, Traced) else _wide(g)
    together = None if isinstance(rule, tuple) else rule(g)
    for i, source in enumerate(node.inputs):
        want: Any
        if type(source) is Node:
            want = source
        elif isinstance(source, Traced):
            want = source.array
        else:
            continue
        share = rule[i](g) if together is None else together[i]
        if share is None:
            continue
        if share.shape != want.shape:
            share = unbroadcast(share, want.shape)
            if share.shape != want.shape:
                raise RuntimeError(f"{node!r}: the rule gave a gradient {share.shape} for input {i} of shape {want.shape}")
        yield source, share if share.dtype == want.dtype else share.astype(want.dtype)


def tap(node: Node, seen: Callable) -> None:
    """Have `seen(node, i, g, share)` called with each share that the rule of `node` gives, for its input i, from now on.

    The rule holds the node weakly, since the node holds the rule.
    """
    rule, reference = node.rule, weakref.ref(node)
    if not isinstance(rule, tuple):

        def together(g: Any) -> Any:
            given = rule(g)
            for i, share in enumerate(given):
                seen(reference(), i, g, share)
            return given

        node.rule = together
        return

    def one(i: int, alone: Callable) -> Callable:
        def tapped(g: Any) -> Any:
            share = alone(g)
            seen(reference(), i, g, share)
            return share

        return tapped

    node.rule = tuple(alone if alone is None else one(i, alone) for i, alone in enumerate(rule))


def propagate(roots: dict[Node, Any], step: Callable = shares, keep: bool = False, stop: frozenset | set = frozenset()) -> dict:
    """Walk back from `roots` (node -> gradient); return the total gradient of every leaf and every node in `stop`.

    A node is made after its inputs: the newest of those that wait has no consumer among the others, its gradient is complete.
    `step(node, g)` yields the (input, share) pairs of one node. Unless `keep`, a node's rule is dropped once its complete
    gradient has been passed on, and the arrays that only it held are freed.
    """
    totals: dict[Any, Any] = dict(roots)
    waiting = [(-node.serial, node) for node in roots if node not in stop]
    heapify(waiting)
    while waiting:
        node = heappop(waiting)[1]
        g = totals.pop(node)
        if _last_write > node.serial:
            check_not_written(node, node.kept())
        for watch in node.watchers or ():
            answer = watch(g)
            g = g if answer is None else answer
        for source, share in step(node, g):
            before = totals.get(source)
            if before is not None:
                totals[source] = before + share
                continue
            totals[source] = share
            if type(source) is Node and source not in stop:
                heappush(waiting, (-source.serial, source))
        if not keep:
            node.rule = None
    return totals


def hooked(leaf: Traced, g: Any) -> Any:
    """The gradient of a leaf after its hooks."""
    for hook in leaf.hooks or ():
        answer = hook(g)
        g = g if answer is None else answer
    return g


def deposit(leaf: Traced, g: Any) -> None:
    """Add `g` to the gradient of a leaf, which owns that memory: a rule may hand the same array to several inputs."""
    if leaf.array.dtype.kind != "f":
        raise RuntimeError(f"requires_grad=True was set on a leaf of dtype {leaf.array.dtype}: only floats have a gradient")
    g = hooked(leaf, g)
    if isinstance(g, Traced) or (leaf.grad is not None and leaf.grad.requires_grad):  # a gradient with a graph of its own
        leaf.grad = g if leaf.grad is None else leaf.grad + g
    elif leaf.grad is None:
        leaf.grad = holding(leaf.result, np.array(g, leaf.array.dtype, order="C"))
    else:
        leaf.grad.array += g
