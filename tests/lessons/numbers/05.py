"""What the systems page says lesson 5 must give."""

EXPECTED = {
    "S7 weight on position 1 for 3/2 in the first coordinate": (3 / 4, 1e-12),
    "S7 the read with that weight": ([3 / 2, 1 / 4], 1e-12),
    "S7 weight on position 1 for 3/4 in the second coordinate": (1 / 4, 1e-12),
    "S7 the read with that weight in turn": ([1 / 2, 3 / 4], 1e-12),
    "S7 dimension of all reads": (1, 0),
    "S11 scores of twice the input over those of the input": ([4, 4], 1e-9),
    "S11 every row is sharper": (True, 0),
    "S11 with RMSNorm first no score moves": (True, 0),
    "S12 positions seen by each row under the causal mask": ([1, 2, 3, 4], 0),
    "S12 a padded value moves the reads by": (0, 0),
    "S12 a masked key moves earlier weights by": (0, 0),
    "S12 read of a row that may look nowhere": ([0, 0, 0], 0),
    "S12 its gradients are finite": (True, 0),
}
