"""What the systems page says lesson 9 must give."""

EXPECTED = {
    "S15 the excess is added": ([7 / 4, 7 / 4], 0),
    "S15 the two maps as one matrix": ([[-1, 1], [0, 0]], 0),
    "S15 updates for (0, 1) and (0, -1)": ([[1, 0], [0, 0]], 0),
    "S16 hidden sums": ([1, -1, 0, -1.5], 0),
    "S16 after ReLU": ([1, 0, 0, 0], 0),
    "S16 output with ReLU": ([1, 0], 0),
    "S16 after GELU": ([0.841, -0.159, 0, -0.100], 5e-4),
    "S16 output with GELU": ([0.942, -0.259], 5e-4),
    "S16 output with ReLU, bias 2.5": ([0.5, 0.5], 0),
    "S17 GELU at 1": (0.841, 5e-4),
    "S17 GELU at -1": (-0.159, 5e-4),
    "S17 GELU at 2": (1.955, 5.01e-4),  # 1.9545 to four digits: the page's figure is this, rounded twice
    "S17 GELU at 2, tanh form": (1.955, 5e-4),
    "S17 ReLU at -1 and 1": ([0, 1], 0),
    "S17 a closed gate lets nothing through": (True, 0),
    "S18 rows that a feed-forward network changes": ([3], 0),
    "S18 rows that a norm changes": ([3], 0),
    "S18 rows that attention changes": ([0, 1, 2, 3, 4], 0),
}
