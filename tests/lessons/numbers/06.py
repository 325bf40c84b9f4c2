"""What the systems page says lesson 6 must give."""

EXPECTED = {
    "S1 weights": ([1 / 2, 1 / 2], 0),
    "S1 the read": ([1, 1 / 2], 0),
    "S1 replaced": ([1, 1 / 2], 0),
    "S1 added": ([1, 3 / 2], 0),
    "S1 added, by the engine": ([1, 3 / 2], 0),
    "S2 branch zero, replaced": ([0, 0], 0),
    "S2 branch zero, added": ([0, 1], 0),
    "S2 the branch returns minus the input": ([0, 0], 0),
    "S2 pre-norm block with silent branches is the identity, bit for bit": (True, 0),
    "S2 and so says what_if": (True, 0),
    "S2 post-norm block with silent branches is Norm(Norm(x))": (True, 0),
    "S2 Norm(Norm(x)) is x": (False, 0),
    "S2 largest number without the first x +": (0, 0),
    "S2 norm on the skip path: the scale is lost": (True, 0),
}
