"""Is the gradient right? Finite differences answer; if it is not, the op whose rule is wrong is found and named.

First the whole function is compared: for outputs y and a random upstream gradient g, backward gives d(sum(g * y))/dx, and
(y(x + eps) - y(x - eps)) / (2 eps) measures it. On disagreement every recorded op is run again on the values that it had, and
its rule is compared in the same way, oldest first. What the wrong numbers look like says what was probably forgotten.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .blame import DOUBTS, Comparison, GradientError, Limits, arrays_of, first_wrong, recorded, slopes_of, tracked, upstream
from .causes import cause_of
from .engine import FLOAT64, Node, Traced, history, state
from .higher import grad
from .lines import operand, path, quoted, title, user_line
from .nn.module import Module
from .tensor import Tensor

# ------------------------------------------------------------------------------------------------ the two checks


def gradcheck(function: Callable, inputs: Any, eps: float = 1e-6, atol: float = 1e-6, rtol: float = 1e-4) -> bool:
    """True if the gradients of `function` agree with central differences, else a GradientError that names the fault.

    inputs: a tensor, a module, or a sequence of them. Tensors are passed to the function; of a module, which the function
    already knows, the parameters are varied where they stand: `gradcheck(lambda: model.loss(ids, targets), model)`.
    What requires a gradient is varied, one element at a time, and must be a float64 leaf; anything else is passed on as it is.
    The function returns one tensor or several, and the same ones each time it is called (no dropout).
    The cost is two calls of the function for each element. ValueError: inputs or a function that cannot be checked.
    """
    args, leaves = _given(inputs)
    _compare_all(function, args, leaves, Limits(eps, atol, rtol))
    return True


def gradgradcheck(function: Callable, inputs: Any, eps: float = 1e-6, atol: float = 1e-6, rtol: float = 1e-4) -> bool:
    """gradcheck of `function`, and then of its gradients as `create_graph=True` computes them.

    The gradients are checked as a function of the inputs and of the upstream gradient. The interface is gradcheck's.
    """
    args, leaves = _given(inputs)
    limits = Limits(eps, atol, rtol)
    values = _compare_all(function, args, leaves, limits)
    try:
        _compare_slopes(function, args, leaves, limits)
    except Exception:
        for node in values:
            if recorded(node, values):
                _compare_slopes_of_op(node, arrays_of(node, values), limits)
        raise
    return True


def _compare_slopes_of_op(node: Node, arrays: list, limits: Limits) -> None:
    args = [Tensor(a, requires_grad=True) if tracked(source) else a for a, source in zip(arrays, node.inputs, strict=True)]
    leaves = [(operand(node.op, i), x) for i, x in enumerate(args) if isinstance(x, Tensor)]
    try:
        _compare_slopes(lambda *xs: node.op(*xs, **node.settings), args, leaves, limits)
    except Exception as error:
        if getattr(error, "cause", "") in DOUBTS:
            return
        seen = str(error).splitlines()[1].strip() if isinstance(error, GradientError) else f"{type(error).__name__}: {error}"
        raise GradientError(
            f"{title(node)} has a right gradient, but the gradient of that gradient is wrong.\n  {seen}\n"
            "  Likely cause: its rule computes with plain arrays (np.asarray, .array, out=), which are constants to a second "
            "derivative,\n  or with a NumPy function that takes no tensor. Compute with the op's own inputs, or give the op a "
            f"composed twin (@{node.op.name}.reference).\n  Called at {quoted(node.line)}",
            "second", node.op.name, path(node),
        ) from error  # fmt: skip


def _compare_slopes(function: Callable, args: list, leaves: list, limits: Limits) -> None:
    """Compare the gradients of `function`, seen as a function of its inputs and of the upstream gradients."""
    random, x = np.random.default_rng(1), [leaf for _, leaf in leaves]
    seeds = [Tensor(upstream(y.shape, random), requires_grad=True) for y in _outputs(function(*args))]

    def slopes(*given: Any) -> list:
        outputs = _outputs(function(*given[: len(args)]))
        used = [(y, g) for y, g in zip(outputs, given[len(args) :], strict=True) if y.requires_grad]
        found = grad([y for y, _ in used], x, [g for _, g in used], create_graph=True, allow_unused=True)
        return [Tensor(np.zeros(leaf.shape)) if g is None else g for leaf, g in zip(x, found, strict=True)]

    named = [(f"the upstream gradient of output {i}", g) for i, g in enumerate(seeds)]
    _compare_all(slopes, [*args, *seeds], leaves + named, limits)


def _given(inputs: Any) -> tuple[list, list[tuple[str, Tensor]]]:
    """What the function is called with, and every tensor to vary, with its name."""
    inputs = [inputs] if isinstance(inputs, (Traced, Module)) else list(inputs)
    args = [x for x in inputs if not isinstance(x, Module)]
    named = [(f"input {i}", x) for i, x in enumerate(args) if isinstance(x, Traced)]
    for module in inputs:
        named += list(module.named_parameters()) if isinstance(module, Module) else []
    leaves = list({id(x): (name, x) for name, x in named if x.requires_grad}.values())  # each once, under its last name
    if not leaves:
        raise ValueError("gradcheck: no input requires a gradient: make one with requires_grad=True")
    for name, x in leaves:
        if x.array.dtype != FLOAT64:
            raise ValueError(f"gradcheck: {name} is {x.array.dtype}, in which rounding drowns the differences: use float64 "
                             "(Tensor(..., dtype=float64), model.double())")  # fmt: skip
        if x.node is not None:
            raise ValueError(f"gradcheck: {name} is the result of an op: pass x.detach().requires_grad_()")
        if not x.array.flags.writeable:
            raise ValueError(f"gradcheck: {name} is read-only memory and cannot be varied: pass a copy")
    return args, leaves  # type: ignore[return-value]


# ------------------------------------------------------------------------------------------------ the whole function


@np.errstate(all="ignore")  # what is not finite is reported in words
def _compare_all(function: Callable, args: list, leaves: list, limits: Limits) -> dict[Node, np.ndarray]:
    """Raise unless every gradient agrees; return the value of every recorded node."""

    def evaluate() -> list[np.ndarray]:
        return [np.array(y.array) for y in _outputs(function(*args))]

    with _watched() as values:
        outputs = _outputs(function(*args))
    for node in values:
        if node.dtype != FLOAT64:
            raise ValueError(f"gradcheck: {title(node)} gives {node.dtype}; the function must compute in float64 throughout. "
                             f"Called at {quoted(node.line)}")  # fmt: skip
    before = [np.array(y.array) for y in outputs]
    if not all(np.allclose(a, b, 1e-12, 1e-12, equal_nan=True) for a, b in zip(before, evaluate(), strict=True)):
        raise ValueError("gradcheck: the function gives other values when it is called again with the same inputs: "
                         "switch dropout off with model.eval(), or seed the generator inside the function")  # fmt: skip
    random = np.random.default_rng(0)
    seeds = [upstream(y.shape, random) for y in before]
    used = [(y, Tensor(g)) for y, g in zip(outputs, seeds, strict=True) if y.requires_grad]
    order = history(*[y.node for y, _ in used])
    try:
        found = grad([y for y, _ in used], [x for _, x in leaves], [g for _, g in used], retain_graph=True, allow_unused=True)
    except Exception:
        error = first_wrong(order, values, limits)
        if error is None or error.cause in DOUBTS:
            raise
        raise error from None
    for (name, x), g in zip(leaves, found, strict=True):
        ours = np.zeros(x.shape) if g is None else g.array
        whole = Comparison(ours, *slopes_of(evaluate, x.array, seeds, limits.eps), limits, seeds)
        if whole.wrong.any():
            error = first_wrong(order, values, limits)
            if error is None or (error.cause in DOUBTS and whole.smooth(whole.worst(whole.wrong))):
                error = _cut(name, whole, order, values)
            raise error
    return values


def _cut(name: str, c: Comparison, order: list[Node], values: dict) -> GradientError:
    """All rules are right and the gradient is not: something between them is not on the tape."""
    place, kink = c.worst(c.wrong), bool((c.kinked == c.wrong).all())
    outside = [node for node in order if node not in values]
    hooked = [node for node in order if node.watchers]
    cause, _ = cause_of(c.ours, c.measured, c.wrong)
    cut = "detach(), no_grad(), .item(), .array, or NumPy on the values of a tensor takes {} off the tape."
    if kink:
        reason = ("a kink or a jump within eps of this point that no single op has: a comparison or a mask made from the "
                  f"inputs changes there.\n  {c.sides(place)} Check at a point away from it.")  # fmt: skip
    elif outside:
        reason = (f"{title(outside[-1])} was called before the check, so varying the input does not reach it: compute it "
                  "inside the function.")  # fmt: skip
    elif hooked:
        reason = f"a hook on {title(hooked[-1])} changes the gradient."
    elif cause == "nonfinite":
        reason = "the function is not finite everywhere within eps of this point. Check at a point away from it."
    elif cause == "zero":
        reason = f"nothing flows back to it. {cut.format('every path')}"
    elif cause == "factor":
        reason = f"the input is used more than once, and a use is missing. {cut.format('a path')}"
    else:
        reason = f"{cut.format('a path')} Or, if the two numbers are close, the function is too rough for this eps."
    return GradientError(
        f"The gradient of {name} {c.ours.shape} is wrong, though the rule of every recorded op ({len(order)}) is right.\n"
        f"  {c.numbers(c.wrong, 'backward')}\n  Likely cause: {reason}",
        "kink" if kink else "edge" if cause == "nonfinite" else "cut", input=name, element=place,
    )  # fmt: skip


@contextmanager
def _watched() -> Iterator[dict[Node, np.ndarray]]:
    """The value of every node recorded inside, as a copy, in order; the nodes learn the line that they were called from."""
    values: dict[Node, np.ndarray] = {}
    before = state.observer

    def observe(node: Node, value: np.ndarray) -> None:
        values[node], node.line = np.array(value), user_line()
        if before is not None:
            before(node, value)

    state.observer = observe
    try:
        yield values
    finally:
        state.observer = before


def _outputs(result: Any) -> list[Tensor]:
    """The tensors of a float dtype in what a function returned."""
    found = [y for y in (result if isinstance(result, (tuple, list)) else [result]) if isinstance(y, Tensor)]
    found = [y for y in found if y.is_floating_point()]
    if not found:
        raise ValueError(f"gradcheck: the function must return tensors of a float dtype, not {type(result).__name__}")
    return found
