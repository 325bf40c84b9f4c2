"""Gradients as tensors: `grad`, and derivatives of derivatives.

With `create_graph=True` the backward pass is itself recorded. No op has a second rule for that: its own function runs once
more, on tensors in place of arrays, so that the rule it returns computes with tensors too. A fused op, whose function is
written for arrays alone, is differentiated through its composed twin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .engine import (
    Node,
    Traced,
    check_not_written,
    composed,
    deposit,
    enable_grad,
    history,
    hooked,
    overwritten,
    plain,
    propagate,
    shares,
)
from .recompute import Remade, settings_of


def backward(output: Traced, seed: Any, retain_graph: bool = False, create_graph: bool = False,
             inputs: list | None = None) -> None:
    """Add d(sum(output * seed))/d(leaf) to the `grad` of every leaf that `output` depends on, or of `inputs` alone."""
    if inputs is not None and (not inputs or not all(isinstance(x, Traced) and x.node is None for x in inputs)):
        raise RuntimeError("backward: inputs are leaves, which no op made, at least one; retain_grad() is for the others")
    for leaf, g in _run([output], [seed], retain_graph, create_graph).items():
        if inputs is not None and not any(leaf is x for x in inputs):
            continue
        deposit(leaf, g.clone() if create_graph else g)  # the leaf owns its gradient: a rule may return a view


def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None,
         create_graph: bool = False, allow_unused: bool = False) -> tuple:
    """The gradients of sum(outputs * grad_outputs) with respect to `inputs`, as a tuple of tensors; no `.grad` is touched.

    `inputs` may be leaves or intermediate tensors. An input that the outputs do not depend on is an error, or None with
    `allow_unused=True`. As torch.autograd.grad.
    """
    outputs = [outputs] if isinstance(outputs, Traced) else list(outputs)
    inputs = [inputs] if isinstance(inputs, Traced) else list(inputs)
    if grad_outputs is None:
        grad_outputs = [None] * len(outputs)
    seeds = [grad_outputs] if isinstance(grad_outputs, (Traced, np.ndarray)) else list(grad_outputs)
    caught: dict[Node, Any] = {}
    watched = [(x.node, lambda g, node=x.node: caught.__setitem__(node, g)) for x in inputs if x.node is not None]
    for node, watch in watched:
        node.watchers = [*(node.watchers or ()), watch]
    try:
        seeds = [seed_for(y, seed) for y, seed in zip(outputs, seeds, strict=True)]
        keep = create_graph if retain_graph is None else retain_graph
        leaves = _run(outputs, seeds, keep, create_graph, {x.node: x for x in inputs if x.node is not None})
    finally:
        for node, watch in watched:
            node.watchers = [other for other in node.watchers if other is not watch]
    leaves = {x: hooked(x, g) for x, g in leaves.items() if any(x is other for other in inputs)}  # each once
    found = [caught.get(x.node) if x.node is not None else leaves.get(x) for x in inputs]
    for i, (x, g) in enumerate(zip(inputs, found, strict=True)):
        if g is None and not allow_unused:
            raise RuntimeError(f"input {i} of shape {x.array.shape} was not used by the outputs; pass allow_unused=True")
    return tuple(g if g is None or isinstance(g, Traced) else x.result(np.array(g)) for x, g in zip(inputs, found, strict=True))


def leaf_gradients(output: Traced, share: float = 1) -> dict:
    """The gradient of share * output, one number, for each leaf, as arrays that are not copied: two may be the same."""
    return _run([output], [seed_for(output, None) * share], False, False)


def seed_for(output: Traced, seed: Any) -> Any:
    """The gradient that backward starts from: ones for a single element, else given, in exactly the output's shape."""
    if not output.requires_grad:
        raise RuntimeError("backward of a tensor that needs no gradient: nothing it depends on has requires_grad=True")
    shape = output.array.shape
    if seed is None:
        if output.array.size != 1:
            raise RuntimeError(f"backward of a tensor of shape {shape} needs a gradient of that shape: backward(gradient)")
        return np.ones_like(output.array)
    if not isinstance(seed, Traced):
        seed = np.asarray(seed)
    if tuple(seed.shape) != shape:
        raise RuntimeError(f"the gradient has shape {tuple(seed.shape)}, the tensor {shape}; it is never broadcast")
    if isinstance(seed, Traced):
        return seed if seed.requires_grad else seed.array.astype(output.array.dtype, copy=False)
    return seed.astype(output.array.dtype, copy=False)


def _run(outputs: Sequence[Traced], seeds: Sequence[Any], keep: bool, create_graph: bool, pinned: dict | None = None) -> dict:
    """The total gradient of each leaf. `pinned` maps nodes to the tensors that the caller will differentiate by again."""
    roots: dict[Any, Any] = {}
    for output, seed in zip(outputs, seeds, strict=True):
        seed = output.result(seed) if create_graph and not isinstance(seed, Traced) else seed
        seed = seed.array if isinstance(seed, Traced) and not create_graph else seed
        key = output if output.node is None else output.node
        roots[key] = roots[key] + seed if key in roots else seed
    leaves = {key: g for key, g in roots.items() if not isinstance(key, Node)}
    nodes = {key: g for key, g in roots.items() if isinstance(key, Node)}
    if create_graph:
        with enable_grad():
            found = propagate(nodes, _rerun(history(*nodes), pinned or {}), keep=True)
    else:
        found = propagate(nodes, keep=keep)
    for leaf, g in found.items():
        leaves[leaf] = leaves[leaf] + g if leaf in leaves else g
    return leaves


def _rerun(order: list[Node], known: dict[Node, Traced]) -> Callable:
    """Run every op in `order` (newest first) again on tensors; return the `step` that uses the rules so obtained.

    `known` holds tensors that stand for the output of their node instead of a recomputed one.
    """
    values, rules = dict(known), {}
    for node in reversed(order):
        if overwritten and node in overwritten:
            raise RuntimeError(
                f"{node!r}: its value was changed in place afterwards, at {overwritten[node]}, outside of the graph. "
                "A backward that is recorded would not see the change: clone() before it."
            )
        inputs = [values[source] if isinstance(source, Node) else source.make() if type(source) is Remade else source
                  for source in node.inputs]  # fmt: skip
        settings = settings_of(node)
        check_not_written(node, [plain(source) for source in node.inputs if not isinstance(source, (Node, bool, int, float))])
        if node.op.twin is None:
            value, rules[node] = node.op.raw(*inputs, **settings)
            if not isinstance(value, Traced):
                value = next(x.result for x in inputs if isinstance(x, Traced))(value)
            if any(value is x for x in inputs):
                value = _alias(value, node)
            value.node, value.requires_grad = node, True  # the same quantity: further derivatives flow through its own history
        else:
            with composed():
                twin = node.op.twin(*inputs, **settings)
            rules[node] = _through(twin, {x.node: x for x in inputs if isinstance(x, Traced) and x.node is not None})
            value = _alias(twin, node)
        values.setdefault(node, value)

    def step(node: Node, g: Any) -> Iterable[tuple[Any, Any]]:
        return shares(node, g, rules[node]) if node.op.twin is None else rules[node](g)

    return step


def _through(twin: Traced, border: dict[Node, Traced]) -> Callable:
    """The rule of a fused op by way of its twin: walk from the twin's output back to the op's inputs and no further."""
    root = twin.node
    if root is None:
        return lambda g: ()
    step = _rerun(history(root, stop=set(border)), border)
    return lambda g: propagate({root: g}, step, keep=True, stop=set(border)).items()


def _alias(tensor: Traced, node: Node) -> Traced:
    """The same array as the output of `node`."""
    out = tensor.result(tensor.array)
    out.node, out.requires_grad = node, True
    return out
