"""What the systems page says lesson 8 must give."""

HALF = 5e-5  # of the fourth digit

EXPECTED = {
    "S8 weights of head A": ([3 / 4, 1 / 4], 0),
    "S8 weights of head B": ([1 / 4, 3 / 4], 0),
    "S8 head A reads": (3 / 2, 0),
    "S8 head B reads": (3 / 4, 0),
    "S8 update": ([3 / 4, 3 / 4], 0),
    "S8 result": ([3 / 4, 7 / 4], 0),
    "S8 update, by the layer": ([3 / 4, 3 / 4], 1e-12),
    "S8 result, by the layer": ([3 / 4, 7 / 4], 1e-12),
    "S9 joined and projected is the sum over heads": (True, 0),
    "S9 rank of what each head writes": ([3, 3, 3, 3], 0),
    "S9 no rank above the width of a head": (True, 0),
    "S9 split and joined properly, earlier positions move by": (0, 0),
    "S9 split wrong, the last position does not see the first": (True, 0),
    "S9 joined wrong, the future leaks": (True, 0),
    "S10 weights": ([0.2483, 0.5035, 0.2483], HALF),
    "S10 mixture": ([0.2483, 0.5035], HALF),
    "S10 result": ([1.2483, 0.5035], HALF),
    "S10 update with W_O = diag(-1, 1)": ([-0.2483, 0.5035], HALF),
    "S10 result with W_O = diag(-1, 1)": ([0.7517, 0.5035], HALF),
}
