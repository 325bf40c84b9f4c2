"""The small ops that are timed: the same statement for our tensors and PyTorch's, and what it is in NumPy alone."""

from __future__ import annotations

import timeit
from time import process_time
from typing import Any

import numpy as np

TENSOR = {
    "add": "a + b",
    "mul": "a * b",
    "matmul": "a @ b",
    "sum": "a.sum()",
    "relu": "a.relu()",
    "getitem": "a[1]",
    "forward + backward": "(a @ b + c).relu().sum().backward(); a.grad = b.grad = c.grad = None",
}
BARE = {
    "add": "a + b",
    "mul": "a * b",
    "matmul": "a @ b",
    "sum": "a.sum()",
    "relu": "np.maximum(a, 0)",
    "getitem": "a[1]",
    "forward + backward": "y = a @ b + c; np.maximum(y, 0).sum(); dc = (y > 0) * one; da = dc @ b.T; db = a.T @ dc",
}


def operands() -> dict[str, np.ndarray]:
    """Three matrices 4 x 4 and the number one, float32."""
    generator = np.random.default_rng(0)
    return {**{name: generator.standard_normal((4, 4), np.float32) for name in "abc"}, "one": np.ones((), np.float32)}


def seconds(statement: str, number: int, names: dict[str, Any]) -> dict[str, float]:
    """Of `number` executions: seconds by the clock, and of processor time.

    The garbage collector stays on: it is part of what a tape costs.
    """
    cpu = process_time()
    wall = timeit.timeit(statement, "import gc; gc.enable()", number=number, globals={"np": np, **names})
    return {"wall": wall, "cpu": process_time() - cpu}
