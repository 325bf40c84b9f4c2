"""What happens at one node, in words and numbers: `forward` says what it computes, `backward` what it sends to each input.

Of single numbers the whole arithmetic is written out; of arrays the shape, the norm, the mean and the first elements.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from tinygrad_tf.engine import registry

from .graph import Edge, Graph, Node, Numbers
from .rules import Words, words
from .stale import OTHER
from .style import count, number

NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
UNSET = "–"
FIRST = 4  # elements of an array that are shown
SHARES = 8  # shares that are told one by one


def forward(node: Node, graph: Graph) -> str:
    """What the node computes: one line for single numbers, as in "mul: y = a · b = 2 · −3 = −6"; for arrays a line for each."""
    if node.kind != "op":
        return _told(node)
    told, inputs = _words(node, graph), operands(node, graph)
    if node.failed:
        reason = node.label.removeprefix(f"{node.op}: ")
        lines = [f"{node.op} failed: {reason}", f"it was to compute y = {_present(told.forward, inputs)}{_settings(node)}"]
        return "\n".join(lines + [f"{name}{_array(graph[e.source].shape, graph[e.source].value)}" for name, e in inputs])
    scalars = _scalars(node, graph, inputs)
    lines = [f"{node.label}: y = {_formula(told.forward, inputs, _terms(told, scalars), node.value)}{_settings(node)}"]
    if not scalars:
        lines += [f"{name}{_array(graph[e.source].shape, graph[e.source].value)}" for name, e in inputs]
        lines.append(f"y{_array(node.shape, node.value)}")
    return "\n".join(lines + _where(told, [told.forward], inputs, scalars) + _aside(told.aside, node, inputs, scalars))


def backward(node: Node, graph: Graph) -> str:
    """What arrives at the node and what each of its inputs gets.

    Where several consumers send their shares, the first line says them and their sum. An unset gradient is a dash. "" for a
    node that takes no gradient.
    """
    if node.kind != "op":
        return _leaf(node, graph)
    told, inputs = _words(node, graph), operands(node, graph)
    scalars = _scalars(node, graph, inputs)
    both = ""
    if node.op in ("add", "residual") and any(_ends_here(edge, graph) for edge in graph.incoming[node.id]):
        both = f"y = {told.forward}: the gradient goes down both ways unchanged. "
    if node.grad is None:
        arrives = f"g = {UNSET}: no gradient has arrived"
    else:
        arrives = f"g = {short(node.grad)} arrives" if scalars else f"g arrives{_array(node.shape, node.grad)}"
    if scalars and node.grad is not None and node.grad.item is not None:
        scalars["g"] = node.grad.item
    rules = [told.back[min(i, len(told.back) - 1)] for i in range(len(inputs))]
    lines = [f"{node.label}: {both}{arrives}"]
    lines += [_sent(name, edge, rule, told, node, graph, scalars) for rule, (name, edge) in zip(rules, inputs)]
    told_too = _where(told, rules, inputs, scalars) + _aside(told.back_aside, node, inputs, scalars)
    return "\n".join([*_shares(node, graph), ("; " if scalars else "\n").join(lines), *told_too])


def shape_line(op: str) -> str:
    """Which shapes an op takes and gives, from its definition: "(..., in), (out, in), (out,) -> (..., out)"."""
    known = registry.get(op)
    first = (known.raw.__doc__ or "").strip().partition("\n")[0] if known is not None else ""
    return first.partition("   ")[0] if "->" in first else ""


def operands(node: Node, graph: Graph) -> list[tuple[str, Edge]]:
    """The inputs that a gradient can flow to, each with its name in the formulas, without what came in as a setting."""
    keywords = _keywords(registry.get(node.op))
    edges = [edge for edge in graph.incoming[node.id] if edge.name not in keywords]
    found = words(node.op, node.settings)
    own = found.names if found is not None else ()
    return [(own[i] if i < len(own) else edge.name.replace("parts[", "part ").rstrip("]") or f"input {i}", edge)
            for i, edge in enumerate(edges)]  # fmt: skip


@cache
def _keywords(op: Any) -> frozenset[str]:
    """The settings of an op, by the names that its definition gives them."""
    parameters = inspect.signature(op.raw).parameters.values() if op is not None else ()
    return frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)


def fork(node: Node, graph: Graph) -> list[Edge]:
    """The edges along which gradients come back to this node, if there are several."""
    edges = [edge for edge in graph.outgoing[node.id]
             if graph[edge.target].kind == "op" and any(edge is e for _, e in operands(graph[edge.target], graph))]  # fmt: skip
    return edges if len(edges) > 1 else []


# ------------------------------------------------------------------------------------------------ parts of a sentence


def _words(node: Node, graph: Graph) -> Words:
    edges = graph.incoming[node.id]
    found = words(node.op, node.settings)
    if found is not None:
        return found
    names = ", ".join(edge.name or f"input {edge.slot}" for edge in edges)  # an op of the reader's own
    return Words(f"{node.op or node.label}({names})", ("what its own rule gives",))


def _sent(name: str, edge: Edge, rule: str, told: Words, node: Node, graph: Graph, scalars: dict | None) -> str:
    """What one input gets."""
    source = graph[edge.source]
    who = "the branch" if name == "branch" else name
    if not source.trained and edge.grad is None:
        return f"{who} takes no gradient"
    if scalars is not None:
        known = _terms(told, scalars) if "g" in scalars and edge.grad is not None else None
        unset = f" = {UNSET}" if edge.grad is None else ""
        return f"{who} gets {_formula(rule, operands(node, graph), known, edge.grad)}{unset}"
    summed = ", summed over the axes along which it was repeated" if told.elementwise and source.shape != node.shape else ""
    return f"{who}{_size(source.shape)} gets {_present(rule, operands(node, graph))}{summed}: {_numbers(edge.grad)}"


def _scalars(node: Node, graph: Graph, inputs: list[tuple[str, Edge]]) -> dict[str, float] | None:
    """Every letter of the formula with its number, if all are single numbers and known."""
    values = {name: graph[edge.source].value for name, edge in inputs} | {
        edge.name: graph[edge.source].value for edge in graph.incoming[node.id] if edge.name == "keep"
    }
    values["y"] = node.value
    items = {name: value.item for name, value in values.items() if value is not None and value.item is not None}
    return items if len(items) == len(values) else None


def _terms(told: Words, scalars: dict[str, float] | None) -> dict[str, float] | None:
    """The letters of the formula with their numbers, those that stand for a formula of their own among them."""
    if scalars is None:
        return None
    return scalars | {letter: compute(scalars) for letter, (_, compute) in told.terms.items() if compute is not None}


def _formula(text: str, inputs: list, known: dict[str, float] | None, result: Numbers | None) -> str:
    """The formula; with numbers for all its letters, then the same in numbers, and the result."""
    text = _present(text, inputs)
    if known is None:
        return text
    return " = ".join(dict.fromkeys([text, _filled(text, known), short(result)]))


def _where(told: Words, formulas: list[str], inputs: list, scalars: dict | None) -> list[str]:
    """What the letters stand for that are no input, as one line, if there are any."""
    used = {letter for formula in formulas for letter in NAME.findall(_present(formula, inputs))}
    for letter in [*told.terms] * 2:  # a term may stand on another
        if letter in used:
            used |= {*NAME.findall(told.terms[letter][0])}
    known = _terms(told, scalars) or {}
    lines = [" = ".join([letter, _present(formula, inputs), *([number(known[letter])] if letter in known else [])])
             for letter, (formula, _) in told.terms.items()
             if letter in used and (letter in known or not formula.startswith(f"{letter}("))]  # fmt: skip
    return ["with " + "; ".join(lines)] if lines else []


def _present(text: str, inputs: Iterable[tuple[str, Edge]]) -> str:
    """Keep what stands between braces only where an input named in it is there."""
    names = {name for name, _ in inputs}
    return re.sub(r"\{([^{}]*)\}", lambda m: m[1] if names & set(NAME.findall(m[1])) else "", text)


def _filled(formula: str, numbers: dict[str, float]) -> str:
    """The formula with numbers for letters; a negative number stands in parentheses where it would be misread."""

    def put(m: re.Match) -> str:
        if numbers.get(m[0]) is None:
            return m[0]
        shown, before, after = number(numbers[m[0]]), formula[: m.start()].rstrip(), formula[m.end() :].lstrip()
        bare = (not before or before[-1] in "·([|,=") and after[:1] not in ("²", "³", "^")
        return shown if bare or not shown.startswith("−") else f"({shown})"

    return NAME.sub(put, formula)


def _settings(node: Node) -> str:
    shown = ", ".join(f"{name} = {value.replace('-', '−')}" for name, value in node.settings.items())
    return f", {shown}" if shown else ""


def _aside(text: str, node: Node, inputs: list, scalars: dict | None) -> list[str]:
    """What else there is to say, as one line; not of cases that this call is not."""
    if node.op == "pow" and scalars and scalars["a"] and scalars["b"]:
        return []
    if node.op == "matmul" and text.startswith("a vector") and node.shape is not None and len(node.shape) > 1:
        return []
    return [said] if (said := _present(text, inputs)) else []


def _array(shape: tuple[int, ...] | None, numbers: Numbers | None) -> str:
    """As in " (2, 8): norm 3.2, mean 0.1, first 0.2, −0.3, …"."""
    return f"{_size(shape)}: {_numbers(numbers)}"


def _size(shape: tuple[int, ...] | None) -> str:
    return "" if not shape else f" ({', '.join(map(str, shape))}{',' * (len(shape) == 1)})"


def _numbers(numbers: Numbers | None) -> str:
    """Norm, mean and first elements of an array, or the number itself; a dash for what is not there."""
    if numbers is None or numbers.item is not None:
        return short(numbers)
    shown = ", ".join(number(x) for x in numbers.first[:FIRST]) + (", …" if numbers.size > FIRST else "")
    bad = f", {count(numbers.nonfinite)} of {count(numbers.size)} NaN or inf" if numbers.nonfinite else ""
    return f"norm {number(numbers.norm)}, mean {number(numbers.mean)}, first {shown}{bad}"


def short(numbers: Numbers | None) -> str:
    """The number itself, or the norm of an array; a dash for what is not there."""
    return UNSET if numbers is None else number(numbers.item if numbers.item is not None else numbers.norm)


# ------------------------------------------------------------------------------------------------ where gradients meet


def _ends_here(edge: Edge, graph: Graph) -> bool:
    return any(skip.id in edge.skips and skip.target == edge.target for skip in graph.skips)


def _begins_here(edge: Edge, graph: Graph) -> bool:
    return any(skip.id in edge.skips and skip.source == edge.source for skip in graph.skips)


def _shares(node: Node, graph: Graph) -> list[str]:
    """The shares that meet at a fork, and their sum; of a node with one consumer nothing."""
    edges = fork(node, graph)
    if not edges:
        return []
    skips = [edge for edge in edges if _begins_here(edge, graph)]
    others = [edge for edge in edges if edge not in skips]
    parts = [f"{short(edge.grad)} along the skip" for edge in skips]
    if skips and len(others) == 1:
        parts.append(f"{short(others[0].grad)} through the branch")
    else:
        parts += [f"{short(edge.grad)} through {_consumer(edge, edges, graph)}" for edge in others[:SHARES]]
        parts += [f"and {count(len(others) - SHARES)} more"] if len(others) > SHARES else []
    plain = len(skips) == 1 and len(others) == 1 and _identity(skips[0], graph)
    start = "g + Jᵀg" if plain else f"{count(len(edges))} shares meet"
    scalar = (node.value is not None and node.value.item is not None) or node.shape in ((), (1,))
    total = _total(node, edges, graph)
    return [f"{start}: {', '.join(parts)}{f', together {total}' if total else ''}{'' if scalar else ' (norms)'}"]


def _identity(edge: Edge, graph: Graph) -> bool:
    return any(skip.id in edge.skips and skip.source == edge.source and skip.kind == "identity" for skip in graph.skips)


def _consumer(edge: Edge, edges: list[Edge], graph: Graph) -> str:
    target = graph[edge.target]
    where = f" in {graph.module_by_id[target.module].path}" if target.module and graph.module_by_id[target.module].path else ""
    twice = sum(e.target == edge.target for e in edges) > 1
    return f"{target.label}{f' as {edge.name}' if twice else ''}{where}"


def _total(node: Node, edges: list[Edge], graph: Graph) -> str:
    """The sum of the shares: of an op what arrived; of a leaf, whose .grad may hold more, what can be told from the shares.

    "" of an array whose .grad may be that of other graphs too.
    """
    if node.kind == "op":
        return short(node.grad)
    items = [edge.grad.item for edge in edges if edge.grad is not None]
    if items and len(items) == len(edges) and all(item is not None for item in items):
        return number(sum(item for item in items if item is not None))
    return "" if any(OTHER in note for note in graph.notes) else short(node.grad)


def _leaf(node: Node, graph: Graph) -> str:
    """Where a gradient ends: at a parameter or an input."""
    if node.kind not in ("parameter", "input") or not node.trained:
        return ""
    if node.grad is None:
        held = f"its .grad is {UNSET}: backward() has not filled it"
    else:
        held = f"its .grad holds {_numbers(node.grad)}"
    shares = _shares(node, graph)
    return f"{node.label}: {shares[0]}\n{held}" if shares else f"{node.label}: the gradient ends here; {held}"


def _told(node: Node) -> str:
    """A node that is no op, in one sentence."""
    if node.kind in ("module", "fold"):
        return f"{node.label}: {count(node.ops)} ops, {count(node.parameters)} parameters"
    return f"{node.label}: {node.kind}{_array(node.shape, node.value)}"
