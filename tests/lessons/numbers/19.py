"""What the systems page says lesson 19 must give."""

EXPECTED = {
    "S27 arrangement": ("encoder, post-norm, learned positions", 0),
    "S27 positions that a new last token moves, encoder": (5, 0),
    "S27 positions that a new last token moves, decoder": (1, 0),
    "S27 padding moves the vectors of a text by less than 1e-4": (True, 0),
    "S30 parameters of gpt2": (124_439_808, 0),
    "S30 models with an exact public figure": (19, 0),
    "S30 of these, counted exactly": (19, 0),
    "S30 models that run at a small width": (24, 0),
    "S30 LayerScale of mimi": (0.01, 0),
    "S30 GPT-2's layout, written and read: logits differ by less than 1e-4": (True, 0),
}
