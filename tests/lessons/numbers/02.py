"""What lesson 2 must give. The gradient of sum(g * (x @ w)) for w is xᵀ @ g: row k has column k of x times each column of g."""

EXPECTED = {
    "sum of g times x @ w": (4.5, 0),
    "gradient of w, measured": ([[3.0, 5.0], [1.0, 2.0], [6.0, 0.0]], 1e-9),
    "gradient of w, by the engine": ([[3.0, 5.0], [1.0, 2.0], [6.0, 0.0]], 0),
    "runs to measure it": (12, 0),
    "bias gradient minus the sum over rows": (0.0, 1e-6),
    "shape of the bias after a step": ("(3,)", 0),
    "shape without the sum": ("(4, 3)", 0),
    "slope of a sum of squares at (1, 2), measured": ([2.0, 4.0], 1e-9),
}
