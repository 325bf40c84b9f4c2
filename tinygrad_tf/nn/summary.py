"""A model as a table: what it is made of, in which shapes, with how many parameters."""

from __future__ import annotations

from collections.abc import Iterator

from .module import Module, ModuleList, Parameter

Row = tuple[int, str, str, str, int]  # depth, name, class, shapes, parameters


def table(module: Module) -> str:
    rows = list(_rows(module, "", 0))
    names = ["  " * depth + name for depth, name, *_ in rows]
    cells = [(n or kind, kind if n else "", shapes, f"{count:,}") for n, (_, _, kind, shapes, count) in zip(names, rows, strict=True)]
    cells.insert(0, ("module", "class", "own parameters", "count"))
    widths = [max(len(row[i]) for row in cells) for i in range(4)]
    lines = [
        f"{name:<{widths[0]}}  {kind:<{widths[1]}}  {shapes:<{widths[2]}}  {count:>{widths[3]}}".rstrip()
        for name, kind, shapes, count in cells
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _rows(module: Module, name: str, depth: int) -> Iterator[Row]:
    own = [f"{key} {value.shape}" for key, value in vars(module).items() if isinstance(value, Parameter)]
    shapes = ", ".join([*own, module.extra_repr()] if module.extra_repr() else own)
    yield depth, name, type(module).__name__, shapes, sum(p.numel() for p in module.parameters())
    children = list(module.named_children())
    while children:
        label, child = children.pop(0)
        alike = 1
        if isinstance(module, ModuleList):
            pattern = list(_rows(child, "", 0))
            while alike <= len(children) and list(_rows(children[alike - 1][1], "", 0)) == pattern:
                alike += 1
        for row in _rows(child, label if alike == 1 else f"{label} … {children[alike - 2][0]}", depth + 1):
            yield row if alike == 1 else (row[0], row[1], f"{row[2]} ×{alike}" if row[0] == depth + 1 else row[2], row[3], row[4] * alike)
        del children[: alike - 1]
