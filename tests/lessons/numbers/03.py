"""What lesson 3 must give: c = 4a; n sums in a row have 2 ** (n + 1) - 1 visits on their paths, and a slope of 2 ** n."""

EXPECTED = {
    "b = a + a, c = b + b: at once": (6.0, 0),
    "the same, each path by itself": (4.0, 0),
    "the same, newest first": (4.0, 0),
    "the same, by the engine": (4.0, 0),
    "nodes of the engine for two sums": (2, 0),
    "visits for 1, 2, 4, 8, 16 sums, each path by itself": ([3, 7, 31, 511, 131071], 0),
    "visits for 16 sums, newest first": (17, 0),
    "gradient through 16 sums": (65536.0, 0),
    "20,000 sums in a row, at once": ("RecursionError", 0),
    "20,000 sums in a row, newest first": (1.0, 0),
    "20,000 sums in a row, the engine": (1.0, 0),
}
