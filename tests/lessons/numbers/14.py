"""What the systems page says lesson 14 must give."""

EXPECTED = {
    "S26 attention": (2_362_368, 0),
    "S26 feed-forward": (4_722_432, 0),
    "S26 one block": (7_087_872, 0),
    "S26 twelve blocks": (85_054_464, 0),
    "S26 GPT-2 small": (124_439_808, 0),
    "S26 GPT-2 small by hand": (124_439_808, 0),
    "S26 formula of attention": ("4 d² + 4 d", 0),
    "S26 formula of feed-forward": ("8 d² + 5 d", 0),
    "S26 12 N d² over the blocks": (1, 0.005),
    "S26 different counts for 1 to 12 heads": (1, 0),
    "S26 share of feed-forward in a block": (2 / 3, 0.001),
    "S26 twice the text, times the work in matrices": (2, 0),
    "S26 twice the text, times the work between tokens": (4, 0),
    "S26 tokens at which both are equal": (4608, 0),
}
