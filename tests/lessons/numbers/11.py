"""What the systems page says lesson 11 must give."""

WAVES = [[0, 1, 0, 1], [0.8415, 0.5403, 0.0100, 1.0000], [0.9093, -0.4161, 0.0200, 0.9998], [0.1411, -0.9900, 0.0300, 0.9996]]
REFUSED = "position 1024 is past the table of learned positions, which has 1024 rows (0 to 1023)"
EXPECTED = {
    "S13 shuffled outputs are the outputs, shuffled": (True, 0),
    "S13 not so with positions": (True, 0),
    "S14 second row into block 1, apart by": (0, 0),
    "S14 its query in block 1, apart by": (0, 0),
    "S14 second row into block 2 differs": (True, 0),
    "S14 its query in block 2 differs": (True, 0),
    "S20 positions 0 to 3, width 4": (WAVES, 5.01e-5),
    "S20 a shift is one rotation": (True, 0),
    "S21 position 1024 of 1024 rows": (REFUSED, 0),
    "S22 ALiBi slopes of four heads": ([1 / 4, 1 / 16, 1 / 64, 1 / 256], 1e-15),
    "S22 T5 buckets of distances 0 to 19": ([0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7, 7, 7, 7, 7], 0),
    "S23 gap 1 at keys 0, 1, 5, 100": ([2.232] * 4, 5e-4),
    "S23 gap 2 at keys 0, 2": ([1.866] * 2, 5e-4),
    "S23 gap -1": (1.232, 5e-4),
    "S23 4 degrees a position, 12 and 4": (0.85, 5e-3),
    "S23 speeds of the pairs, width 8": ([10000 ** (-2 * i / 8) for i in range(4)], 1e-15),
    "S23 both layouts keep the score": (True, 0),
    "S23 parameters": (0, 0),
}
