"""What lesson 4 must give. On 41 points from −1 to 1, x² has the mean 0.35 and |x| has 21/41: a variance of 0.35 − (21/41)²."""

EXPECTED = {
    "loss of the line after 100 steps, by hand": (0.35 - (21 / 41) ** 2, 1e-9),
    "the same, by the engine": (0.35 - (21 / 41) ** 2, 1e-9),
    "variance of |x|": (0.35 - (21 / 41) ** 2, 1e-12),
    "loss of two units set by hand": (0.0, 0),
    "ReLU of −2, 0, 3": ([0.0, 0.0, 3.0], 0),
    "what ReLU passes on of 10, 10, 10": ([0.0, 0.0, 10.0], 0),
    "loss of 8 units after 400 steps": (0.0, 1e-3),
    "without ReLU": (0.35 - (21 / 41) ** 2, 1e-5),
    "bends left without zero_grad": (0.0, 0),
    "no better than the best line": (True, 0),
}
