"""What the systems page says lesson 20 must give."""

EXPECTED = {
    "S36 in blocks and in full agree, forward and backward": (True, 0),
    "S36 in blocks, twice the length takes less than 2.2 times the memory": (True, 0),
    "S36 in full, more than 3.6 times": (True, 0),
    "S36 in blocks, less at any time than half of one T × T matrix of 2,048": (True, 0),
    "S35 by pairs and by state agree": (True, 0),
    "S35 causal too": (True, 0),
    "S35 multiplications for twice the length, linear": (2, 1e-9),
    "S35 cheaper by count from T =": (98, 0),
    "S35 linear attention finds fewer": (True, 0),
}
