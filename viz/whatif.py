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
from .graph import Graph, Node, Numbers
from .record import recorded
from .style import VIEWS
from .trace import called, trace

BEFORE = "as it is"
SUMS = ("add", "residual")
SAID = 6  # calls of the modules that are told of one by one


@dataclass(frozen=True)
class Change:
    """What became of one value, computed from the whole arrays."""

    node: str  # id, the same in both graphs
    difference: float  # max |after − before|
    before: float  # norm
    after: float


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
    given = [zero] if isinstance(zero, str) else list(zero) if isinstance(zero, (list, tuple)) else [zero]
    if not all(isinstance(pattern, str) for pattern in given):
        raise TypeError(f'zero is the path of a module, as "blocks.0.attn", or a list of paths, not {zero!r:.80}')
    found = _chosen(model, given)
    chosen = {path: module for modules in found.values() for path, module in modules.items()}
    with _undisturbed(model, training):
        before = _Run(call or model, inputs, [])
    with _undisturbed(model, training), _zeroed(chosen) as made:
        after = _Run(call or model, inputs, made)
    ran = {id(module) for _, module in made}
    for pattern, modules in found.items():
        if not any(id(module) in ran for module in modules.values()):
            which = "this module was not" if pattern in modules else f"none of {', '.join([*modules][:4])} was"
            raise ValueError(f"zero={pattern!r}: {which} called in the run, so there is no output to set to zero")
    words = f"with {', '.join(given)} set to zero"
    title = f"{type(model).__name__}: {BEFORE}, and {words}"
    changes = tuple(_changes(before, after))
    facts = tuple(_facts(before, after, changes, words))
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
    """For a run in this mode; afterwards modes and generators are as before, so that the next run draws the same numbers."""
    modules = list(model.modules())
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


class _Run:
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


def _changes(before: _Run, after: _Run) -> Iterator[Change]:
    for id in before.ids.values():
        a, b = before.arrays.get(id), after.arrays.get(id)
        if a is not None and b is not None and a.shape == b.shape:
            yield Change(id, _difference(a, b), _norm(a), _norm(b))


def _difference(a: np.ndarray, b: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        return float(np.where(a == b, 0, np.abs(a.astype(np.float64) - b)).max(initial=0))


def _norm(a: np.ndarray) -> float:
    return float(np.sqrt(np.square(a, dtype=np.float64).sum()))


def _facts(before: _Run, after: _Run, changes: tuple[Change, ...], words: str) -> Iterator[str]:
    """In plain sentences: what comes out of the sum after each zero, what of it reaches the end, what gradient the start."""
    for zero in after.zeros[:SAID]:
        where = f"with {after.graph[zero].module} set to zero"
        total, other = _sum_after(after, zero)
        if total:
            y, x = after.arrays[total], after.arrays[other]
            d = _difference(np.broadcast_to(x, y.shape), y)
            skip = _is_residual(before, total, other) or _is_residual(after, total, other)
            named = "what came in" if skip else f"{_called(after.graph, other, total)} alone"
            yield f"{where}, the sum after it ({total}) {'equals' if d == 0 else 'is not'} {named}: max |y − x| = {d:.4g}"
        else:
            yield f"{where}, {_cut(after, zero)}"
    if len(after.zeros) > SAID:
        yield f"… and {len(after.zeros) - SAID} more outputs set to zero"
    moved = {change.node: change for change in changes}
    for id in before.outputs:
        if id in moved and id in after.outputs:
            at_end = moved[id]
            if before.scalar:
                yield f"the result: {before.arrays[id].item():.4g} as it is, {after.arrays[id].item():.4g} {words}"
            else:
                norms = f"its norm goes from {at_end.before:.4g} to {at_end.after:.4g}"
                yield f"what comes out ({id}) moves by at most {at_end.difference:.4g}; {norms}"
    if before.scalar:
        start = next((n.id for n in before.graph.nodes if n.id in before.grads and n.kind == "input"), None)
        start = start or next((n.id for n in before.graph.nodes if n.id in before.grads), None)
        if start is not None:
            was, became = (f"{_norm(run.grads[start]):.4g}" if start in run.grads else "none" for run in (before, after))
            yield f"the gradient that reaches {before.graph[start].label}: norm {was} as it is, {became} {words}"


def _is_residual(run: _Run, total: str, other: str) -> bool:
    """Whether `other` goes into this sum along a skip."""
    return total in run.graph.by_id and any(edge.skips for edge in run.graph.incoming[total] if edge.source == other)


def _called(graph: Graph, id: str, total: str) -> str:
    """A value by its name, by the module that it comes out of, or by its id."""
    node = graph[id]
    module = graph.module_by_id.get(node.module)
    out = module is not None and module.path and node.module != graph[total].module
    return node.name or (module.path if out and module is not None else id)


def _sum_after(run: _Run, zero: str) -> tuple[str, str]:
    """The sum that the zeros run into, and its other operand; ("", "") if they meet none before they part or end."""
    here = zero
    while True:
        uses = [edge for edge in run.graph.outgoing[here] if run.graph[edge.target].kind == "op"]
        if len(uses) != 1:
            return "", ""
        target = uses[0].target
        others = [edge.source for edge in run.graph.incoming[target] if edge.slot != uses[0].slot]
        if run.graph[target].op in SUMS and len(others) == 1 and run.graph[others[0]].kind in ("op", "input"):
            return (target, others[0]) if others[0] in run.arrays else ("", "")
        here = target


def _cut(run: _Run, zero: str) -> str:
    """What still comes through from the inputs when all goes through the zeros, and when not."""
    graph = run.graph
    after = _reach(graph, [zero], "") - {zero}
    open_ = _reach(graph, [node.id for node in graph.nodes if node.kind == "input"], zero)
    values = [node.id for node in graph.nodes if node.id in after and node.kind == "op"]
    still = [id for id in values if id in open_]
    if not values:
        return "the result is zero"
    if not still:
        many = f"all {len(values)} values after it are" if len(values) > 1 else "the value after it is"
        return f"nothing of the input gets past it: {many} the same whatever comes in"
    return f"{len(still)} of the {len(values)} values after it still depend on the input, which reaches them another way"


def _reach(graph: Graph, starts: list[str], stop: str) -> set[str]:
    """The nodes that these lead to, themselves included, without going through `stop`."""
    seen = set(starts) - {stop}
    stack = list(seen)
    while stack:
        for edge in graph.outgoing[stack.pop()]:
            if edge.target not in seen and edge.target != stop:
                seen.add(edge.target)
                stack.append(edge.target)
    return seen
