"""A model as a table: what it is made of, in which shapes, with how many parameters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .parameter import Parameter, Uninitialized

Row = tuple[int, str, str, str, int]  # depth, name, class, shapes, parameters


def table(module: Any) -> str:
    """The rows of `print(module)`: path, class, shapes of its own parameters, number of parameters inside."""
    rows = list(_rows(module, "", 0, set()))
    names = ["  " * depth + name for depth, name, *_ in rows]
    cells = [(n or kind, kind if n else "", own, f"{count:,}") for n, (_, _, kind, own, count) in zip(names, rows, strict=True)]
    cells.insert(0, ("module", "class", "own parameters", "count"))
    widths = [max(len(row[i]) for row in cells) for i in range(4)]
    lines = [
        f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {shapes:<{widths[2]}}  {count:>{widths[3]}}".rstrip()
        for name, kind, shapes, count in cells
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _rows(module: Any, name: str, depth: int, seen: set[int]) -> Iterator[Row]:
    """`seen`: the parameters of the rows above. One that comes again is tied to that place and counted there alone."""
    count = sum(p.numel() for p in module.parameters() if id(p) not in seen and not isinstance(p, Uninitialized))
    own = [(key, value) for key, value in vars(module).items() if isinstance(value, Parameter)]
    shown = [f"{key} {_shape(value)}{' tied' * (id(value) in seen)}" for key, value in own]
    seen.update(id(value) for _, value in own)
    yield depth, name, type(module).__name__, ", ".join(filter(None, [*shown, module.extra_repr()])), count
    children = list(module.named_children())
    while children:
        label, child = children.pop(0)
        rows, alike = list(_rows(child, "", 0, seen)), 1
        if label.isdigit():  # one of a list: neighbours that are alike share a row
            while alike <= len(children) and list(_rows(children[alike - 1][1], "", 0, set(seen))) == rows:
                seen.update(id(p) for p in children[alike - 1][1].parameters())
                alike += 1
        rows[0] = (0, label if alike == 1 else f"{label} … {children[alike - 2][0]}", *rows[0][2:])
        for row in rows:
            kind = f"{row[2]} ×{alike}" if alike > 1 and row[0] == 0 else row[2]
            yield depth + 1 + row[0], row[1], kind, row[3], row[4] * alike
        del children[: alike - 1]


def _shape(p: Parameter) -> str:
    return "(still to come)" if isinstance(p, Uninitialized) else str(p.shape)
