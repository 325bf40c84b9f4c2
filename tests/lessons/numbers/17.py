"""What the systems page says lesson 17 must give."""

EXPECTED = {
    "S6 the updates": ("['embedding', 'blocks.0.attn', 'blocks.0.ffn', 'blocks.1.attn', 'blocks.1.ffn']", 0),
    "S6 embedding and updates differ from the final stream by less than 1e-4": (True, 0),
    "S6 by hand and by `read` they are the same": (True, 0),
    "S6 heads add up to the update of their layer": (True, 0),
    "S34 contributions add up to the logits": (True, 0),
    "S34 the last row of the lens is what the model says": (True, 0),
    "S34 rows of the maps add up to 1": (True, 0),
    "S34 that is more than 1 nat worse": (True, 0),
    "S34 the idle head, made sharp, still changes the loss by less than 0.1": (True, 0),
    "S34 a head of block 0 decides where one of block 1 looks": (True, 0),
    "S34 right from the second round on": (1, 0.02),
}
