"""Recomputation: memory for time. `nn.checkpoint(function, *args)` keeps the inputs of a function and nothing that it made.

A rule needs what its op computed, so a model keeps the values of every layer until its backward. Here the function runs
forward as ever and its nodes stand in the graph as ever, but each rule is let go of at once. When backward reaches the last of
these nodes, the function runs a second time on the same inputs, and its nodes get their rules back, each from its double. They
are used from the newest to the oldest and freed on the way: one function's values are there at a time, not those of all.

With n blocks that keep k bytes each and read x, n k becomes n x + k. The price is a second forward pass, about half a
step (`python -m benchmarks recomputation`). The gradients are those of the plain call to the last bit: it is the same
graph, walked in the same order.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import numpy as np

from .engine import Node, Traced, _serial, check_not_written, owner, state, written_since
from .random import Drawn, drawn_again, noted, source

CLOSE = {2: 2e-2, 4: 1e-3, 8: 1e-6}  # by bytes a number: of the largest one, between a result and the second
LONGEST = 40  # characters of a thing that is named in an error
PROBES = 64  # numbers of a result that are compared


CHECKS = ("default", "none")


class _Here(threading.local):
    """Of this thread."""

    first = False  # on while a function runs for the first time
    again = False  # on while it runs again


_here = _Here()


def running_again() -> bool:
    """Whether this is the second run of a function: what counts its calls, as running statistics do, has counted this one."""
    return _here.again


def checkpoint(function: Callable, *args: Any, use_reentrant: bool | None = None, context_fn: Callable | None = None,
               determinism_check: str = "default", debug: bool = False, early_stop: bool = True,
               preserve_rng_state: bool = True, **kwargs: Any) -> Any:
    """function(*args, **kwargs), keeping its inputs alone for backward, which calls it again.

        x = nn.checkpoint(block, x, mask)

    Values and gradients are those of the plain call: of tensors among the arguments (lists, tuples and dicts of them too), of
    parameters and of tensors that the function knows otherwise. Its result is what it returns, one tensor or several. Random
    numbers that come from tinygrad_tf, or from generators among the arguments, are drawn the same again, and no generator moves
    for it; modules run in the mode that they were in; running statistics move once. Inside `no_grad` it is the plain call, and
    a checkpoint inside another works when that one runs again.

    The keywords that have a name here are PyTorch's, and never reach the function. There is one way, PyTorch's
    use_reentrant=False: random numbers are always drawn the same again, the second run is always whole and compared with the
    first, and says where it differs. So they change nothing, and a `context_fn` is a NotImplementedError.

    What the function does beside its result, as to print, or to call a module's hooks, it does twice. RuntimeError in backward
    if an input or a parameter was changed in place meanwhile, or if the second run did not do the same as the first; inside
    the function for a backward of what it computed itself. TypeError for what cannot be called.
    """
    if not callable(function):
        raise TypeError(f"checkpoint: what it is to call comes first, a function or a module, not {_named(function)}")
    if context_fn is not None:
        raise NotImplementedError("checkpoint: context_fn is not here; enter the contexts inside the function instead")
    if determinism_check not in CHECKS:
        raise ValueError(f"checkpoint: determinism_check is {_named(determinism_check)}: it can be {' or '.join(CHECKS)}")
    if not state.recording or _here.first:
        return function(*args, **kwargs)
    return _Run(function, args, kwargs).first()


def _named(thing: Any) -> str:
    """A thing in a few words: `3 (int)`, `a Tensor`."""
    text, kind = repr(thing), type(thing).__name__
    return f"{text} ({kind})" if len(text) <= LONGEST and "\n" not in text else f"a {kind}"


class Remade:
    """Stands in a node for an array of the function's own that took no gradient, as a dropout mask: NumPy gets it made again.

    What the run kept goes with the rules, after backward; this does not hold it.
    """

    __slots__ = ("dtype", "key", "node", "run", "shape")

    def __init__(self, run: _Run, node: int, key: int | str, like: np.ndarray):
        self.run, self.node, self.key, self.shape, self.dtype = weakref.ref(run), node, key, like.shape, like.dtype

    @property
    def gone(self) -> bool:
        return self.run() is None

    def make(self) -> Any:
        run = self.run()
        if run is None:
            raise RuntimeError(f"{self!r}: backward() has freed what it is made from; ask before that, or keep it with "
                               "retain_graph=True")  # fmt: skip
        return run.constant(self.node, self.key)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = np.asarray(self.make(), dtype)
        return array.copy() if copy else array

    def __repr__(self) -> str:
        return f"{self.dtype} {self.shape}, made again when needed"

    @property
    def ndim(self) -> int:
        return len(self.shape)


def settings_of(node: Node) -> dict[str, Any]:
    """The settings of an op call, for a function that needs each of them."""
    return {key: value.make() if type(value) is Remade else value for key, value in node.settings.items()}


class _Run:
    """One call of a function, and how to call it again. The nodes hold this, and this holds none of them: no cycle."""

    def __init__(self, function: Callable, args: tuple, kwargs: dict[str, Any]):
        self.function, self.call = function, (args, kwargs)
        self.serial = next(_serial)  # when, by the clock of the tape
        self.scope, self.composed = state.scope, state.composed
        self.drawn: Drawn = {}
        self.did: list[tuple[Any, tuple]] = []  # op and shape of each node, in order
        self.leaves: dict[int, tuple[Traced, np.ndarray]] = {}  # the leaves that took part, and their values
        self.modes = {id(m): (m, m.training) for m in _modules(function)}
        self.probes: list[tuple[np.ndarray, tuple]] = []  # of the results
        self.nodes: list[Node | None] = []  # of the second run, as long as their rules wait to be used
        self.running = False

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"<checkpoint of {name}{f' in {self.scope.path}' if self.scope and self.scope.path else ''}>"

    # ---------------------------------------------------------------------------------------- the first run

    def first(self) -> Any:
        args, kwargs = self.call
        with noted(self.drawn):
            self.call = _held(self.call)  # notes generators among the arguments, and lets go of the graph behind tensors
        held = tuple(_arrays((self.call, _closed_over(self.function))))
        outer, lent = state.observer, list[tuple[Node, Any, weakref.ref]]()

        def observe(node: Node, value: np.ndarray) -> None:
            memory = {id(owner(array)) for array in node.kept()}
            node.rule = _later(self, len(self.did), held)
            node.rule.memory = memory
            if outer is not None:
                outer(node, value)
            lent.extend(self._let_go(node, len(self.did)))
            self.did.append((node.op, node.shape))

        state.observer, _here.first, self.running = observe, True, True
        try:
            with noted(self.drawn):
                out = self.function(*args, **kwargs)
        finally:
            state.observer, _here.first, self.running = outer, False, False
        for node, key, reference in lent:  # who is still there belongs to somebody else: a mask of the caller, a table
            array = reference()
            if array is not None:
                _put(node, key, array)
        self.probes = [_probe(x) for x in _tensors(out) if x.requires_grad]
        return out

    def _let_go(self, node: Node, i: int) -> Iterator[tuple[Node, Any, weakref.ref]]:
        """Replace the constants in a node by what makes them again; note its leaves, and the mode of its modules."""
        for key, value in [*enumerate(node.inputs), *node.settings.items()]:
            if isinstance(value, Traced) and type(key) is int:
                self.leaves.setdefault(id(value), (value, value.array))
            elif isinstance(value, (np.ndarray, Traced)):
                like = value.array if isinstance(value, Traced) else value
                _put(node, key, Remade(self, i, key, like))
                yield node, key, weakref.ref(value)
        scope = node.scope
        while scope is not None and scope is not self.scope:
            if scope.module is not None:
                self.modes.setdefault(id(scope.module), (scope.module, scope.module.training))
            scope = scope.parent

    # ---------------------------------------------------------------------------------------- the second

    def rule(self, i: int, held: tuple) -> Any:
        """The rule of node i, which is handed out once; all are made again if it was."""
        node = self.node(i, held)
        self.nodes[i] = None
        check_not_written(node, node.kept())
        return node.rule

    def constant(self, i: int, key: int | str) -> Any:
        """What node i has in this place."""
        node = self.node(i)
        return node.inputs[key] if type(key) is int else node.settings[key]

    def node(self, i: int, held: tuple = ()) -> Node:
        if not self.nodes or self.nodes[i] is None:
            self.nodes = self.again(held or tuple(_arrays((self.call, _closed_over(self.function)))))  # type: ignore[assignment]
        node = self.nodes[i]
        assert node is not None
        return node

    def again(self, held: tuple) -> list[Node]:
        """Run the function on its inputs once more, recording; its nodes."""
        if self.running:
            raise RuntimeError(f"{self!r}: backward through what it computes, before it has returned. Call the function itself "
                               "or take that gradient outside of it")  # fmt: skip
        for array in (*held, *(array for _, array in self.leaves.values())):
            line = written_since(self, array)
            if line is not None:
                raise RuntimeError(f"{self!r} needs its inputs for its backward, and one was changed in place afterwards, at "
                                   f"{line}. Use the form that makes a new tensor, or change it after backward()")  # fmt: skip
        nodes: list[Node] = []
        with drawn_again(self.drawn), self._as_before(lambda node, value: nodes.append(node)):
            args, kwargs = _stand_ins(self.call)
            out = self.function(*args, **kwargs)
            probes = [_probe(x) for x in _tensors(out) if x.requires_grad]
        self._compare([(node.op, node.shape) for node in nodes], probes)
        return nodes

    @contextmanager
    def _as_before(self, observe: Callable) -> Iterator[None]:
        """The state of this thread, the modes of the modules and the values of the leaves as they were in the first run."""
        with ExitStack() as stack:

            def put(thing: Any, **values: Any) -> None:
                for name, value in values.items():
                    stack.callback(setattr, thing, name, getattr(thing, name))
                    setattr(thing, name, value)

            put(_here, first=False, again=True)
            put(state, recording=True, composed=self.composed, scope=self.scope, observer=observe)
            for module, training in self.modes.values():
                if module.training != training:
                    put(module, training=training)
            for leaf, array in self.leaves.values():
                if leaf.array is not array:  # its values lie in another place since, as in an optimizer's buffer
                    put(leaf, array=array)
                if not leaf.requires_grad:  # frozen since
                    put(leaf, requires_grad=True)
            self.running = True
            stack.callback(setattr, self, "running", False)
            yield

    def _compare(self, did: list[tuple[Any, tuple]], probes: list[tuple[np.ndarray, tuple]]) -> None:
        difference = next((f"{_said(*a)}, then {_said(*b)}" for a, b in zip(self.did, did) if a != b), "")
        if not difference and len(self.did) != len(did):
            difference = f"{len(self.did)} ops, then {len(did)}"
        for (a, shape), (b, other) in zip(self.probes, probes) if not difference else ():
            with np.errstate(all="ignore"):
                scale = float(np.abs(a[np.isfinite(a)]).max(initial=0))
                same = shape == other and np.allclose(a, b, rtol=0, atol=CLOSE.get(a.itemsize, 0) * scale, equal_nan=True)
            difference = difference if same else "it returned other numbers"
        if difference:
            raise RuntimeError(f"{self!r} did not do the same when it ran again for backward: {difference}. It must depend on "
                               "its arguments and parameters alone, and draw from generators that nn.functional.dropout or an "
                               "argument gives it")  # fmt: skip


def _later(run: _Run, i: int, held: tuple) -> Callable:
    """The rule of a node that has let go of its own. It closes over the inputs, so that they count as kept and are watched.

    Its attribute `memory`: ids of the arrays that own what the real rule kept, for whoever is about to write there.
    """

    def rule(g: Any) -> Any:
        real = run.rule(i, held)
        return tuple(None if one is None else one(g) for one in real) if isinstance(real, tuple) else real(g)

    return rule


def _put(node: Node, key: Any, value: Any) -> None:
    if type(key) is int:
        node.inputs = (*node.inputs[:key], value, *node.inputs[key + 1 :])
    else:
        node.settings[key] = value


def _said(op: Any, shape: tuple) -> str:
    return f"{op.name} {shape}"


def _probe(x: Traced) -> tuple[np.ndarray, tuple]:
    """A few numbers of a result, spread over it, and its shape."""
    size = x.array.size
    return x.array.flat[np.arange(min(size, PROBES)) * size // max(1, min(size, PROBES))], x.array.shape


# ------------------------------------------------------------------------------------------------ inputs


class _Held:
    """A tensor without the graph behind it."""

    __slots__ = ("array", "cls", "requires_grad")

    def __init__(self, x: Traced):
        self.array, self.cls, self.requires_grad = x.array, x.result, x.requires_grad


def _inside(x: Any, change: Callable[[Any], Any]) -> Any:
    """`change` on everything in lists, tuples and dicts."""
    if type(x) in (list, tuple):
        return type(x)(_inside(item, change) for item in x)
    return {key: _inside(item, change) for key, item in x.items()} if type(x) is dict else change(x)


def _held(x: Any) -> Any:
    """What is kept of the arguments: a leaf itself, of another tensor its values; where a generator stands is noted."""

    def hold(x: Any) -> Any:
        if isinstance(x, np.random.Generator):
            source(x)
        return _Held(x) if isinstance(x, Traced) and (x.node is not None or not x.requires_grad) else x

    return _inside(x, hold)


def _stand_ins(x: Any) -> Any:
    """The arguments of the second run."""

    def stand_in(x: Any) -> Any:
        if isinstance(x, np.random.Generator):
            return source(x)
        if not isinstance(x, _Held):
            return x
        tensor = x.cls(x.array)
        tensor.requires_grad = x.requires_grad
        return tensor

    return _inside(x, stand_in)


def _arrays(x: Any) -> list[np.ndarray]:
    """Every array that these arguments hold, once."""
    found: dict[int, np.ndarray] = {}

    def look(x: Any) -> None:
        array = x.array if isinstance(x, (_Held, Traced)) else x
        if isinstance(array, np.ndarray):
            found[id(array)] = array

    _inside(x, look)
    return list(found.values())


def _tensors(x: Any) -> list[Traced]:
    found: list[Traced] = []
    _inside(x, lambda x: found.append(x) if isinstance(x, Traced) else None)
    return found


def _closed_over(function: Any) -> list[Any]:
    """What a function, or a part of one with arguments filled in, knows from where it was made."""
    if isinstance(function, partial):
        return [*function.args, *function.keywords.values(), *_closed_over(function.func)]
    found = []
    for cell in getattr(function, "__closure__", None) or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not filled yet
            continue
    return found


def _modules(function: Any) -> list[Any]:
    """A module and those in it, of a method those of its object."""
    function = function.func if isinstance(function, partial) else function
    whole = getattr(getattr(function, "__self__", function), "modules", None)
    return list(whole()) if callable(whole) else []
