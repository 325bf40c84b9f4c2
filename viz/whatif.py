"""What a part of a model does, told by taking it away: the model as it is beside the model with one output set to zero."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from tinygrad_tf import nn, ops
from tinygrad_tf.engine import Node as Call
from tinygrad_tf.engine import Traced, history, propagate
from tinygrad_tf.random import default

from .beside import beside
from .contract import ZEROED
from .facts import Change, changes_of, facts_of
from .graph import Graph, Node, Numbers
from .record import recorded
from .style import VIEWS
from .trace import called, trace

BEFORE = "as it is"


@dataclass(frozen=True)
class Comparison:
    """Two runs of one model. `before` and `after` are their graphs, `graph` holds both side by side."""

    before: Graph
    after: Graph
    graph: Graph
    changes: tuple[Change, ...]  # for each op call that is in both, in the order of computing
    facts: tuple[str, ...]  # what the picture shows, in sentences
    options: dict[str, Any] = field(default_factory=dict)

    def draw(self, **options: Any) -> Any:
        """Both graphs in one picture; options as for `viz.draw`."""
        from .draw import draw

        return draw(self.graph, **{"title": self.graph.title, **self.options, **options})

    def save(self, path: str | Path) -> Path:
        """Write the picture; the suffix chooses the format, as in `Drawing.save`."""
        return self.draw().save(path)

    def __str__(self) -> str:
        return "\n".join(self.facts)

    def _repr_svg_(self) -> str | None:
        return self.draw()._repr_svg_()


def what_if(model: nn.Module, inputs: Any, zero: str | Sequence[str], *, call: Callable | None = None, training: bool = False,
            **options: Any) -> Comparison:  # fmt: skip
    """Run `model` on `inputs` as it is and with the output of a module inside it set to zero, and compare.

    inputs: as for `trace`. zero: the dotted path of a module, a pattern such as "blocks.*.attn" (`*` also runs across dots), or
    several. call: what to call in the model's place, as `model.loss`. training: in training mode; otherwise both runs are in
    evaluation mode. options: for the drawing. Of a pattern's modules, those that are not called in the run are passed over.

    Both runs draw the same random numbers. Afterwards the model, its gradients and the generators are as they were. If a scalar
    comes out, the gradients of both runs are compared as well. ValueError, with near names, if `zero` matches no module, or
    none that is called.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"what_if takes a model, an nn.Module, not {type(model).__name__}; call= names a method of it")
    _check(options)
    given = [zero] if isinstance(zero, str) else list(zero) if isinstance(zero, (list, tuple)) else []
    if not all(isinstance(pattern, str) for pattern in given) or not isinstance(zero, (str, list, tuple)):
        raise TypeError(f'zero is the path of a module, as "blocks.0.attn", or a list of paths, not {zero!r:.80}')
    found = _chosen(model, given)
    chosen = {path: module for modules in found.values() for path, module in modules.items()}
    with _undisturbed(model, training):
        before = Run(call or model, inputs, [])
    with _undisturbed(model, training), _zeroed(chosen) as made:
        after = Run(call or model, inputs, made)
    ran = {id(module) for _, module in made}
    for pattern, modules in found.items():
        if not any(id(module) in ran for module in modules.values()):
            which = "this module was not" if pattern in modules else f"none of {', '.join([*modules][:4])} was"
            raise ValueError(f"zero={pattern!r}: {which} called in the run, so there is no output to set to zero")
    words = f"with {', '.join(given)} set to zero"
    title = f"{type(model).__name__}: {BEFORE}, and {words}"
    changes = tuple(changes_of(before, after))
    facts = tuple(facts_of(before, after, changes, words))
    graph = beside({BEFORE: before.graph, words: after.graph}, title).replace(notes=facts)
    return Comparison(before.graph, after.graph, graph, changes, facts, options)


def _check(options: dict[str, Any]) -> None:
    """Refuse before the runs what the drawing after them could not take."""
    from .draw import draw

    for name in options:
        if name not in signature(draw).parameters or name in ("what", "inputs", "names"):
            raise TypeError(f"what_if has no option {name!r}; see viz.draw for those of the picture")
    if (view := options.get("view", VIEWS[0])) not in VIEWS or view == "scalars":
        raise ValueError(f"view={view!r} is none of {', '.join(v for v in VIEWS if v != 'scalars')}")


def _chosen(model: nn.Module, patterns: list[str]) -> dict[str, dict[str, nn.Module]]:
    """Pattern -> the modules that it matches, by path."""
    named = {path: module for path, module in model.named_modules() if path}
    callable_ = {path: m for path, m in named.items() if type(m).forward is not nn.Module.forward}
    found: dict[str, dict[str, nn.Module]] = {}
    for pattern in patterns:
        hits = {path: module for path, module in callable_.items() if fnmatchcase(path, pattern)}
        if not hits and pattern in named:
            raise ValueError(f"zero={pattern!r} is a list of modules, which has no output: name the ones in it, as {pattern}.*")
        if not hits:
            near = get_close_matches(pattern, callable_, n=4, cutoff=0.5) or list(callable_)[:4]
            has = f"near: {', '.join(near)}" if near else "it has no modules"
            raise ValueError(f"zero={pattern!r} matches no module of this {type(model).__name__}; {has}")
        found[pattern] = hits
    if not found:
        raise ValueError('zero names no module; give a path such as "blocks.0.attn"')
    return found


@contextmanager
def _undisturbed(model: nn.Module, training: bool) -> Iterator[None]:
    """For a run in this mode; afterwards modes, buffers and generators are as before: the next run draws the same numbers."""
    modules, buffers = list(model.modules()), [(buffer.array, buffer.array.copy()) for buffer in model.buffers()]
    modes = [(module, vars(module).get("training")) for module in modules]
    own = [value for module in modules for value in vars(module).values() if isinstance(value, np.random.Generator)]
    states = [(g.bit_generator, g.bit_generator.state) for g in (default(), *own)]
    model.train(training)
    try:
        yield
    finally:
        for module, mode in modes:
            if mode is None:
                del module.training
            else:
                module.training = mode
        for bits, state in states:
            bits.state = state
        for array, before in buffers:
            array[...] = before


@contextmanager
def _zeroed(chosen: dict[str, nn.Module]) -> Iterator[list[tuple[Call | None, nn.Module]]]:
    """Inside, these modules return zeros. Yields a list that fills with (op call that made the zeros, module)."""
    made: list[tuple[Call | None, nn.Module]] = []

    def zeros(module: nn.Module, out: Any) -> Any:
        if isinstance(out, Traced):  # chosen, not multiplied: 0 * inf is no zero. What is not chosen gets a gradient of zeros
            out = ops.where(out, 0, condition=np.array(False))
            made.append((out.node, module))
            return out
        if isinstance(out, dict):
            return {name: zeros(module, part) for name, part in out.items()}
        return type(out)(zeros(module, part) for part in out) if type(out) in (list, tuple) else out

    with ExitStack() as stack:
        for module in chosen.values():
            stack.callback(module.register_forward_hook(lambda module, args, out: zeros(module, out)))
        yield made


class Run:
    """One run: its graph, and the arrays of the nodes by id."""

    def __init__(self, call: Any, inputs: Any, made: list[tuple[Call | None, nn.Module]]):
        roots, names = called(call, inputs)
        top = [root.node for root in roots if root.node is not None]
        self.calls = history(*top)[::-1]
        self.scalar = len(top) == 1 and roots[0].array.size == 1
        totals = propagate({top[0]: np.ones_like(roots[0].array)}, keep=True) if self.scalar else {}
        graph = trace(roots, names=names, numbers=True)
        self.ids = dict(zip(self.calls, (node.id for node in graph.nodes if node.kind == "op")))
        self.outputs = [self.ids[node] for node in top]
        self.arrays = {self.ids[each]: entry.value for each, entry in recorded(self.calls).items()}
        self.grads: dict[str, np.ndarray] = {}
        for each, id in self.ids.items():
            for edge in graph.incoming[id]:
                source = each.inputs[edge.slot] if edge.slot < len(each.inputs) else None
                if isinstance(source, Traced):
                    self.arrays[edge.source] = source.array
                    if source in totals:
                        self.grads[edge.source] = totals[source]
                elif isinstance(source, np.ndarray):
                    self.arrays[edge.source] = source
        zeros = {self.ids[node]: module for node, module in made if node in self.ids}
        self.zeros = list(zeros)
        hidden = {edge.source for id in self.zeros for edge in graph.incoming[id] if graph[edge.source].kind == "constant"}
        self.graph = graph.replace(
            nodes=tuple(self._shown(node) for node in graph.nodes if node.id not in hidden),
            edges=tuple(edge for edge in graph.edges if edge.source not in hidden),
            notes=(),  # of numbers that are not this run's
        )

    def _shown(self, node: Node) -> Node:
        """The zeros under their own words; on leaves the gradient of this run, not one that they had before."""
        if node.id in self.zeros:
            return replace(node, label=ZEROED)
        if node.kind in ("input", "parameter"):
            return replace(node, grad=Numbers.of(self.grads[node.id]) if node.id in self.grads else None)
        return node
