"""The picture of lesson 3: its counts against what a recursion over the same graph does."""

import pytest

from tinygrad_tf import Tensor
from viz.figures.visits import visits


@pytest.mark.parametrize("n", [1, 2, 7, 12])
def test_the_counts_are_those_of_a_recursion_and_of_a_loop(n):
    x = Tensor(1.0, requires_grad=True)
    for _ in range(n):
        x = x + x

    def visit(node):
        return 1 + sum(visit(source) if hasattr(source, "inputs") else 1 for source in node.inputs)

    made = visits(n)
    assert made.data["visits"] == {"each path by itself": visit(x.node), "newest first": n + 1}
    assert f"{visit(x.node):,}" in made.words and f"{visit(x.node):,}" in made.drawing
