"""The small models of F12: computations of the engine, what stands in their boxes, and the graph that `viz.trace` reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tinygrad_tf import Tensor, nn
from tinygrad_tf.engine import Node as Call
from tinygrad_tf.engine import history, propagate, shares
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.nn import functional as F

from ..collapse import view
from ..graph import Edge, Graph, Node
from ..trace import trace

W1, W2 = np.array([[0.6, -0.4], [0.3, 0.8]]), np.array([[0.5, 0.5], [-0.7, 0.2]])


def leaf(values: Any) -> Tensor:
    return Tensor(np.array(values, dtype=np.float64), requires_grad=True)


@dataclass(frozen=True)
class Model:
    """loss: what is walked back from. leaves: by name. ops: what stands in each other box, in order: "name = what it is"."""

    loss: Tensor
    leaves: dict[str, Tensor]
    ops: tuple[str, ...]
    collapse: tuple[str, ...] = ()


def expression() -> Model:
    a, b, c = leaf(2.0), leaf(-3.0), leaf(10.0)
    d = a * b
    e = d + c
    return Model(e * a, {"a": a, "b": b, "c": c}, ("d = a · b", "e = d + c", "L = e · a"))


def twice() -> Model:
    a = leaf(3.0)
    b = a + a
    return Model(b + b, {"a": a}, ("b = a + a", "c = b + b"))


def replaced() -> Model:
    x, w1, w2 = leaf([1.0, -0.5]), leaf(W1), leaf(W2)
    h = F.linear(x, w1).tanh()
    loss = F.linear(h, w2).tanh().sum()
    return Model(loss, {"x": x, "W₁": w1, "W₂": w2}, ("u = x W₁ᵀ", "h = tanh u", "s = h W₂ᵀ", "y = tanh s", "L = sum of y"))


def added() -> Model:
    x, w1, w2 = leaf([1.0, -0.5]), leaf(W1), leaf(W2)
    h = nn.residual(x, F.linear(x, w1).tanh())
    y = nn.residual(h, F.linear(h, w2).tanh())
    ops = ("u = x W₁ᵀ", "v = tanh u", "h = x + v", "s = h W₂ᵀ", "t = tanh s", "y = h + t", "L = sum of y")
    return Model(y.sum(), {"x": x, "W₁": w1, "W₂": w2}, ops)


def block() -> Model:
    config = DecoderConfig(vocab_size=4, block_size=4, n_layer=1, n_head=1, n_embd=2, n_hidden=4, norm="rms", ffn="relu",
                           positions="none")  # fmt: skip
    made = Decoder(config, np.random.default_rng(0)).double().blocks[0]
    rng = np.random.default_rng(4)
    for name, parameter in made.named_parameters():
        if "norm" not in name:
            parameter.array[...] = 0.7 * rng.standard_normal(parameter.shape)
    x = leaf([[[1.0, -0.5], [0.5, 1.0]]])
    ops = ("n = norm(x)", "a = attention(n)", "h = x + a", "m = norm(h)", "f = feed-forward(m)", "y = h + f", "L = sum of y")
    return Model(made(x).sum(), {"x": x}, ops, ("*attn", "*ffn", "*norm"))


MODELS: dict[str, Callable[[], Model]] = {
    "two layers that add": added, "two layers that replace": replaced, "a pre-norm block": block,
    "an expression": expression, "a sum used twice": twice,
}  # fmt: skip


class Walked:
    """A model's graph as it is drawn, with its numbers, and the rules by which a gradient goes back through it.

    graph: what is drawn. leaves, ops: ids of the boxes that are given, and of those that compute something, in order. titles,
    names: id -> what stands in the box, what it is called in a sentence. values: id -> its array.
    """

    def __init__(self, model: Model):
        full = trace(model.loss, names=model.leaves, full=True)
        self.graph: Graph = _shown(full, model)
        self.ops = [node.id for node in self.graph.nodes if node.kind in ("op", "module")]
        self.leaves = [node.id for node in self.graph.nodes if node.kind == "input"]
        self.titles = {id_: self.graph[id_].name for id_ in self.leaves} | dict(zip(self.ops, model.ops, strict=True))
        self.names = {id_: title.partition(" = ")[0] for id_, title in self.titles.items()}
        self.values = {node.id: _array(node) for node in self.graph.nodes}
        calls = history(model.loss.node)[::-1]
        recorded = [node for node in full.nodes if node.kind == "op"]
        self._call: dict[str, Any] = {}  # box -> the op call whose value it holds, or the leaf
        for node, call in zip(recorded, calls, strict=True):
            inside = [m.id for m in full.modules_around(node.module) if m.id in self.graph.by_id]
            self._call[inside[0] if inside else node.id] = call
        named = {id(tensor): name for name, tensor in model.leaves.items()}
        for call in calls:
            for source in call.inputs:
                if id(source) in named:
                    self._call[f"input/{named[id(source)]}"] = source

    def edges(self, id: str) -> list[Edge]:
        """The edges into a box, by slot."""
        return self.graph.incoming[id]

    def sent(self, id: str, g: np.ndarray) -> Iterator[tuple[Edge, np.ndarray]]:
        """What a box sends along each of its edges when the gradient g has arrived, by the engine's own rules."""
        call: Call = self._call[id]
        edges = self.edges(id)
        if self.graph[id].kind == "op":
            yield from ((edge, share) for edge, (_, share) in zip(edges, shares(call, g), strict=True))
            return
        sources = [self._call[edge.source] for edge in edges]
        totals = propagate({call: g}, keep=True, stop={source for source in sources if isinstance(source, Call)})
        yield from ((edge, totals[source]) for edge, source in zip(edges, sources, strict=True))


def _shown(full: Graph, model: Model) -> Graph:
    """The graph without constants and without what the boxes hide."""
    graph = view(full, "ops", collapse=model.collapse, fold="off") if model.collapse else full
    kept = {node.id for node in graph.nodes if node.kind in ("op", "module", "input")}
    return graph.replace(
        nodes=tuple(node for node in graph.nodes if node.id in kept),
        edges=tuple(edge for edge in graph.edges if edge.source in kept),
    )


def _array(node: Node) -> np.ndarray:
    assert node.value is not None
    values = np.array(node.value.first).reshape(node.shape or ())
    return values[0] if values.ndim == 3 else values


@cache
def walked(name: str) -> Walked:
    return Walked(MODELS[name]())
