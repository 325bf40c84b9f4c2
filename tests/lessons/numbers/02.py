"""What lesson 2 must give. The gradient of sum(x @ w) for w has in row k the sum of column k of x: 1, 1, 3."""

EXPECTED = {
    "sum of x @ w": (7.5, 0),
    "gradient of w, measured": ([[1.0, 1.0], [1.0, 1.0], [3.0, 3.0]], 1e-9),
    "gradient of w, by the engine": ([[1.0, 1.0], [1.0, 1.0], [3.0, 3.0]], 0),
    "runs to measure it": (12, 0),
    "bias gradient minus the sum over rows": (0.0, 1e-6),
    "shape of the bias after a step": ("(3,)", 0),
    "shape without the sum": ("(4, 3)", 0),
    "slope of a sum of squares at (1, 2), measured": ([2.0, 4.0], 1e-9),
}
