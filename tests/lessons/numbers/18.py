"""What the systems page says lesson 18 must give."""

EXPECTED = {
    "S5 plain 56 has a higher training loss than plain 20": (True, 0),
    "S5 residual 56 has a higher training loss than residual 20": (False, 0),
    "S5 residual 56 is below plain 20": (True, 0),
    "S5 36 residual layers of zero change nothing, bit for bit": (True, 0),
    "S5 LayerScale starts at": (0.01, 0),
    "S5 without norms, 56 layers learn with LayerScale only": (True, 0),
}
