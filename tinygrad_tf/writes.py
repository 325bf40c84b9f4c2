"""One run of a model, watched: what was written to its residual stream, by whom, and what the attention layers did.

The tape says it all. Each `residual` node names its skip and its update, and every node knows the module call it was made in.
In a pre-norm model the skip of one sum is the sum before it, so the way back over the skips is the stream itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import fused, nn
from .engine import Node, Scope, Traced, enable_grad, history, state
from .generate import evaluating
from .nn.linear_attention import LinearMix
from .recompute import settings_of
from .tensor import Tensor

HELD = (nn.LayerNorm, nn.RMSNorm, nn.LayerScale)  # linear in what they read once their scale is held: see `reading.held`
AROUND = (*HELD, nn.Dropout)  # what stands around a branch and does not give an update its name


@dataclass(eq=False)
class Call:
    """One call of a module: which, where, when by the clock of the tape, what it read and what it returned."""

    module: Any
    scope: Scope
    args: tuple  # arrays in place of tensors
    out: Any = None

    @property
    def read(self) -> Any:
        return self.args[0]


@dataclass(eq=False)
class Attention:
    """What an attention layer did in one call."""

    layer: nn.MultiHeadAttention
    joined: np.ndarray  # (B, T, H E), the mixtures of the heads side by side
    mix: Callable[[np.ndarray], np.ndarray]  # values (B, G, S, E) -> (B, H, T, E): what the heads of this call make of them
    values: tuple[int, int, int]  # (B, G, S)

    def weights(self) -> np.ndarray:
        """(B, H, T, S)   what each head reads when every position has a value of its own, one-hot: its weights."""
        size = self.values[-1]
        return self.mix(np.broadcast_to(np.eye(size, dtype=self.joined.dtype), (*self.values, size)))


@dataclass(eq=False)
class Write:
    """One update to the stream."""

    name: str  # the path of the branch, as blocks.0.attn
    block: str  # the path of the module that adds it, as blocks.0
    update: np.ndarray  # (B, T, d), exactly what was added
    after: list[Call]  # the norms and scales between the branch and the sum, in order
    attention: Attention | None = None


@dataclass(eq=False)
class Run:
    """What `watch` found. `embedding` and the updates add up to `stream`."""

    embedding: np.ndarray
    writes: list[Write]
    stream: np.ndarray
    out: Any  # what the model returned
    tail: list[Call]  # the norms and linear maps after the last sum


def watch(model: Any, *inputs: Any) -> Run:
    """Call `model(*inputs)` in evaluation mode and find the writes to the stream that its output is made of.

    The model is left as it was. ValueError if the stream is no sum of updates, as in a post-norm model.
    """
    seen, out = _seen(model, inputs, {})
    last = next((node for node in history(getattr(out, "node", None)) if node.op.name == "residual"), None)
    if last is None:
        raise ValueError(f"this run of {type(model).__name__} holds no residual sum: it has no stream to read")
    writes: list[Write] = []
    node: Any = last
    while isinstance(node, Node) and node.op.name == "residual":
        writes[:0] = seen.writes(node)
        node = node.inputs[0]
    if isinstance(node, Node) and any(other.op.name == "residual" for other in history(node)):
        where = seen.path(node.scope)
        raise ValueError(
            f"the stream of this {type(model).__name__} is no sum of updates: {node.op.name} in {where or 'it'} takes one "
            "and puts something else in its place, as post-norm does after every update, or an edit of a whole block. "
            "Only pre-norm models can be read so"
        )
    counts: dict[str, int] = {}
    for write in writes:  # a block that is called twice writes twice
        counts[write.name] = counts.get(write.name, 0) + 1
        write.name += f"#{counts[write.name]}" if counts[write.name] > 1 else ""
    tail = [call for call in seen.calls if call.scope.serial > last.serial]
    return Run(seen.value(node), writes, seen.value(last), _array(out), tail)


def attention_maps(model: Any, *inputs: Any, **named: Any) -> dict[str, np.ndarray]:
    """Path -> (B, H, T, S), the weights of every attention layer that runs, in any model, post-norm and cross-attention too."""
    seen, _ = _seen(model, inputs, named)
    layers = [call.scope for call in seen.calls if isinstance(call.module, nn.MultiHeadAttention)]
    return {seen.path(scope): seen.attention(scope).weights() for scope in layers}


def _seen(model: Any, inputs: tuple, named: dict[str, Any]) -> tuple[_Seen, Any]:
    seen = _Seen({id(module): path for path, module in model.named_modules()})
    with evaluating(model), enable_grad(), _watched(model, seen):
        return seen, model(*map(_tracked, inputs), **{name: _tracked(x) for name, x in named.items()})


@contextmanager
def _watched(model: Any, seen: _Seen) -> Iterator[None]:
    """Fill `seen` while the model runs: an observer for the ops of this thread, hooks for the modules."""
    observer, inside = state.observer, state.composed

    def observe(node: Node, value: np.ndarray) -> None:
        seen.values[node] = value
        if observer is not None:
            observer(node, value)

    with ExitStack() as stack:
        for module in model.modules():
            if isinstance(module, nn.Embedding):  # with frozen weights nothing would be recorded
                stack.callback(module.register_forward_hook(lambda module, args, out: _tracked(out)).remove)
            if isinstance(module, (*HELD, nn.MultiHeadAttention, LinearMix, nn.Linear)):
                stack.callback(module.register_forward_pre_hook(seen.enter).remove)
                stack.callback(module.register_forward_hook(seen.leave).remove)
        state.observer, state.composed = observe, False  # fused attention: one node that knows its queries, keys and mask
        try:
            yield
        finally:
            state.observer, state.composed = observer, inside


def _array(x: Any) -> Any:
    """The values of a tensor without its graph; anything else as it is."""
    return x.array if isinstance(x, Traced) else x


def _tracked(x: Any) -> Any:
    """The same numbers, as a tensor that the tape follows; ids stay as they are."""
    array = np.asarray(_array(x))
    if array.dtype.kind != "f" or (isinstance(x, Traced) and x.requires_grad):
        return x
    return Tensor(array, requires_grad=True)


@dataclass(eq=False)
class _Seen:
    paths: dict[int, str]  # id of a module -> where the model holds it
    values: dict[Node, np.ndarray] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    open: list[Call] = field(default_factory=list)

    def enter(self, module: Any, args: tuple) -> None:
        assert state.scope is not None  # a hook runs inside the module's call
        self.open.append(Call(module, state.scope, tuple(_array(x) for x in args)))
        self.calls.append(self.open[-1])

    def leave(self, module: Any, args: tuple, out: Any) -> None:
        self.open.pop().out = _array(out)

    def path(self, scope: Scope | None) -> str:
        """Of a module: where the model holds it, also if a method of its parent was called and not the parent itself."""
        return "" if scope is None else self.paths.get(id(scope.module), scope.path)

    def value(self, source: Any) -> np.ndarray:
        """The value of an input of a node."""
        if isinstance(source, Node):
            return self.values[source]
        return np.asarray(_array(source))

    def writes(self, total: Node) -> Iterator[Write]:
        """The updates that one residual sum adds: one, or several where branches side by side were added up first."""
        parts, stack = [], [total.inputs[1]]
        while stack:
            part = stack.pop()
            if isinstance(part, Node) and part.op.name == "add" and part.scope is total.scope:
                stack += part.inputs[::-1]
            else:
                parts.append(part)
        inside = self.path(total.scope)
        for part in parts:
            found = self._between(total, part)
            branch = next((scope for scope in found if not isinstance(scope.module, AROUND)), None)
            after = [call for call in self.calls if call.scope in found and isinstance(call.module, HELD)
                     and branch is not None and call.scope.serial > branch.serial]  # fmt: skip
            name = self.path(branch) if branch is not None else f"{inside}.update".lstrip(".")
            attends = branch is not None and isinstance(branch.module, nn.MultiHeadAttention)
            attention = self.attention(branch) if branch is not None and attends else None
            yield Write(name, inside, self.value(part), after, attention)

    def _between(self, total: Node, part: Any) -> list[Scope]:
        """The module calls directly inside the sum's own that lie between its skip and one of its updates, last one first."""
        skip = total.inputs[0]
        nodes = history(part, stop={skip} if isinstance(skip, Node) else set()) if isinstance(part, Node) else []
        found: dict[Scope, None] = {}
        for node in nodes:
            scope = node.scope
            while scope is not None and scope.parent is not total.scope:
                scope = scope.parent
            if scope is not None and scope is not total.scope:
                found[scope] = None
        return sorted(found, key=lambda scope: -scope.serial)

    def attention(self, scope: Scope) -> Attention:
        """What the attention layer of this call did."""
        layer = scope.module
        (joined,) = (call.read for call in self.calls if call.module is layer.out_proj and call.scope.parent is scope)
        mixed = next((call for call in self.calls if call.scope.parent is scope and isinstance(call.module, LinearMix)), None)
        if mixed is not None:
            rule, (q, k, v, *how) = mixed.module.forward, mixed.args
            return Attention(layer, joined, lambda v: _array(rule(Tensor(q), Tensor(k), Tensor(v), *how)), v.shape[:3])
        node = next(node for node in self.values if node.op is fused.attention and node.scope is scope)
        q, k, v, *bias = (self.value(source) for source in node.inputs)
        settings = settings_of(node)
        return Attention(layer, joined, lambda v: fused.attention.raw(q, k, v, *bias, **settings)[0], v.shape[:3])
