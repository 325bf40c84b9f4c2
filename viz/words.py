"""What stands inside a node: its name, its shape, its numbers."""

from __future__ import annotations

from .graph import Graph, Module, Node, Numbers
from .style import Options, count, number


def words(node: Node, graph: Graph, options: Options, sum: bool = False, railed: bool = False) -> list[str]:
    """The lines inside a node. A sum's circle has room for the plus alone; a rail says itself how many skips run through it."""
    if sum:
        return ["+"]
    lines = [node.label]
    if node.kind == "parameter":
        lines = [short(node, graph)]
    elif node.kind == "op" and node.name:
        lines = [f"{node.name} = {node.label}"]
    elif node.kind == "module":
        lines = [*dict.fromkeys((short(node, graph), node.label)), held(node)]
    elif node.kind == "fold":
        lines = [node.label, held(node)]
    if node.kind != "constant" and options.shapes and node.shape and node.kind != "fold":
        lines.append(shape_of(node.shape) + (f" · {count(node.parameters)}" if node.kind == "parameter" else ""))
    elif node.kind == "parameter":
        lines.append(count(node.parameters))
    if node.loss and node.value is not None and options.values == "none":
        lines.append(number(node.value.item))
    if node.badge and not railed:
        lines.append(f"↷{node.badge}")
    return lines + numbers(node, graph, options)


def short(node: Node, graph: Graph) -> str:
    """The path of a parameter or a collapsed module, from the cluster that it stands in; and which call of a module it is."""
    around = graph.module_by_id.get(node.module)
    if node.kind == "module":
        path, _, call = node.id.rpartition("/")[2].partition("#")  # of graphs side by side, the frame around says which
        name = path.removeprefix(f"{around.id.rpartition('/')[2]}.") if around is not None else path
        return name + (f" (call {call})" if call else "")
    name = node.name or node.label
    return name.removeprefix(f"{around.path}.") if around is not None and around.path else name


def numbers(node: Node, graph: Graph, options: Options) -> list[str]:
    """Its value and its gradient, as far as the options ask for them and they are known."""
    lines = []
    show, v = options.values, node.value
    if v is not None and show != "none" and node.kind != "constant":
        if v.item is not None:
            lines.append(number(v.item))
        elif show == "stats" and v.nonfinite < v.size:
            rest = "the rest: " if v.nonfinite else ""
            lines.append(f"{rest}mean {number(v.mean)} ± {number(v.std)}, norm {number(v.norm)}")
        elif show != "stats":
            lines.append("[" + ", ".join(number(x) for x in v.first) + (", …]" if len(v.first) < v.size else "]"))
        if v.nonfinite and v.item is None:
            lines.insert(0, f"{count(v.nonfinite)} of {count(v.size)} are NaN or inf")
    wanted = options.grads in ("labels", "edges") or (options.grads == "auto" and show != "none")
    real = options.grads == "edges" or graph.arrived
    if wanted and node.trained and node.kind in ("op", "input", "parameter", "module"):
        g = node.grad if real else None
        if options.grads == "edges" and g is None:
            return lines  # the edges say it; backward() has not run
        lines.append("grad –" if g is None else f"grad {size(g)}")
    return lines


def size(numbers: Numbers) -> str:
    """A number, or the norm of several; what is not finite is never left out."""
    if numbers.item is not None:
        return number(numbers.item)
    if numbers.nonfinite:
        return f"{count(numbers.nonfinite)} of {count(numbers.size)} NaN or inf"
    return number(numbers.norm)


def beside(node: Node, graph: Graph, options: Options) -> list[str]:
    """What a sum says beside its circle."""
    shown = numbers(node, graph, options) if options.grads != "edges" else []  # there the edges say it
    return ([node.name] if node.name else []) + shown


def called(module: Module) -> str:
    """The words on a cluster: path and class, and which call it is."""
    call = module.id.rpartition("#")[2] if "#" in module.id else ""
    path = module.id.rpartition("#")[0] or module.id  # with the name of the model in front, if there are several
    if path.endswith(f"/{module.path}"):  # of two graphs side by side: the frame around says which
        path = module.path
    name = f"{path} · {module.kind}" if path != module.kind else path
    return f"{name} (call {call})" if call else name


def held(node: Node) -> str:
    return f"{number_of(node.parameters, 'parameter')} · {number_of(node.ops, 'op')}"


def number_of(n: int, what: str) -> str:
    return f"{count(n)} {what}{'s' if n != 1 else ''}"


def shape_of(shape: tuple[int, ...]) -> str:
    return "(" + ", ".join(map(str, shape)) + (",)" if len(shape) == 1 else ")")
