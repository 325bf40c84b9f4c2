"""What the systems page says lesson 15 must give; the held-out loss of the preset is in README.md."""

EXPECTED = {
    "S31 predictions from one pass over 64 characters": (64, 0),
    "S31 losses that move before the changed character": (0, 0),
    "S31 losses that move from it on, of 25": (25, 0),
    "S31 one pass gives what as many passes give": (True, 0),
    "S31 entropy of the text, nats per character": (0.2086, 5e-5),
    # The last bits of a machine's products act as another seed: seeds 0 to 3, with kernels and without, end at 0.212 to 0.222.
    "S31 held-out loss": (0.212, 0.011),
    "S31 held-out loss of the grammar itself": (0.2091, 5e-5),
}
