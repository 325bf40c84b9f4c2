"""What the systems page says lesson 16 must give; the numbers of S33 by plain arithmetic from the hand-made decoder of F3."""

EXPECTED = {
    "S33 by hand as by the engine": (True, 0),
    "S33 probabilities": ([0.002, 0.112, 0.376, 0.471, 0.039], 5e-4),
    "S33 greedy": ("on", 0),
    "S33 top-k 2": ([0, 0, 0.376 / 0.847, 0.471 / 0.847, 0], 1e-3),
    "S33 top-p 0.8": ([0, 0, 0.376 / 0.847, 0.471 / 0.847, 0], 1e-3),
    "S32 earlier positions unchanged by later tokens": (True, 0),
    "S32 cached and uncached logits agree at every step": (True, 0),
    "S32 the same text with and without the cache": (True, 0),
    "S32 positions computed without the cache": (sum(range(8, 28)), 0),
    "S32 of those computed before": (sum(range(8, 27)), 0),
    "S32 positions computed with the cache": (8 + 19, 0),
    "S32 positions read from the cache": (sum(range(8, 27)), 0),
    "S32 bytes of the cache": (2 * 3 * 4 * 32 * 8 * 4, 0),
    "S32 bytes by the formula": (2 * 3 * 4 * 32 * 8 * 4, 0),
    "S32 bytes for GPT-2 small, 1,024 tokens": (2 * 12 * 1024 * 768 * 4, 0),
}
