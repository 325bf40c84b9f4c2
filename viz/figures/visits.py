"""The picture of lesson 3: how often a walk backward calls on the numbers of n sums in a row, in two orders."""

from __future__ import annotations

import math

from tinygrad_tf import Tensor
from tinygrad_tf.engine import history

from .figure import Figure
from .paint import WIDTH, line, rect, svg, text

LEFT, DECADE = 30, 76  # where the scale begins, and how wide a factor of ten is


def visits(n: int) -> Figure:
    """n sums in a row, each of the one before with itself: visits by each path, and by the newest first. 1 to 16 sums."""
    x = Tensor(1.0, requires_grad=True)
    for _ in range(n):
        x = x + x
    nodes = history(x.node)
    paths = {nodes[0]: 1}  # node or leaf -> how many paths lead to it from the result
    for node in nodes:
        for source in node.inputs:
            paths[source] = paths.get(source, 0) + paths[node]
    counts = {"each path by itself": sum(paths.values()), "newest first": len(paths)}
    marks = []
    for power in range(6):
        where = LEFT + DECADE * power
        marks += [
            *(line([(where, top), (where, top + 24)], "faint") for top in (30, 82)),  # beside the words, not through them
            text(where, 131, f"{10**power:,}", "soft", anchor="middle", size=14),
        ]
    for i, (name, count) in enumerate(counts.items()):
        kind = ("grad", "good")[i]
        marks.append(text(LEFT + 6, 26 + 52 * i, f"{name}: {count:,}", kind, bold=True))
        marks.append(rect(LEFT, 34 + 52 * i, DECADE * math.log10(count), 16, kind, radius=3))
    words = (f"{n} sum{'s' * (n > 1)} in a row: {counts['each path by itself']:,} visits along each path by itself, "
             f"{counts['newest first']} with the newest first.")  # fmt: skip
    return Figure({"visits": counts}, svg(WIDTH, 140, marks), words, "Visits of a walk backward")
