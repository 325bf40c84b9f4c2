"""Several graphs as one, to be drawn side by side."""

from __future__ import annotations

from dataclasses import replace

from .graph import Edge, Graph, Module, Node, Skip


def beside(graphs: dict[str, Graph], title: str) -> Graph:
    """One graph with each of these in an outermost module of its own, called by its key, in the place of the model's.

    Ids get the key in front: "as it is/blocks.0/residual".
    """
    nodes: list[Node] = []
    modules: list[Module] = []
    edges: list[Edge] = []
    skips: list[Skip] = []
    notes: list[str] = []
    late = 0
    for words, graph in graphs.items():
        tops = [module for module in graph.modules if not module.parent]
        only = tops[0].id if len(tops) == 1 and not tops[0].path else None
        frame = f"{tops[0].kind}, {words}" if only is not None else words

        def inside(id: str, words: str = words, only: str | None = only, frame: str = frame) -> str:
            return frame if not id or id == only else f"{words}/{id}"

        count = sum(module.parameters for module in tops)
        modules.append(Module(frame, "", frame, "", count, late))
        own = (m for m in graph.modules if m.id != only)
        modules += [replace(m, id=inside(m.id), parent=inside(m.parent), order=m.order + late) for m in own]
        nodes += [replace(n, id=f"{words}/{n.id}", module=inside(n.module), order=n.order + late) for n in graph.nodes]
        edges += [
            replace(e, source=f"{words}/{e.source}", target=f"{words}/{e.target}", skips=tuple(f"{words}/{s}" for s in e.skips))
            for e in graph.edges
        ]
        skips += [
            replace(s, id=f"{words}/{s.id}", source=f"{words}/{s.source}", target=f"{words}/{s.target}") for s in graph.skips
        ]
        notes += [note for note in graph.notes if note not in notes]
        late = 1 + max([late, *(n.order for n in nodes), *(m.order for m in modules)])
    return Graph(tuple(nodes), tuple(edges), tuple(modules), tuple(skips), title, tuple(notes))
