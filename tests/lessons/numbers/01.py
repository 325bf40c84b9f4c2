"""What lesson 1 must give: (a · b + c) · a at (2, −3, 10), whose slopes are 2ab + c, a² and a."""

EXPECTED = {
    "L at (2, −3, 10)": (8.0, 0),
    "slope of a, measured": (-2.0, 1e-6),
    "gradients of a, b, c": ([-2.0, 4.0, 2.0], 0),
    "gradients with shares that replace each other": ([4.0, 4.0, 2.0], 0),
    "slope of the cube of 2, by notes": (12.0, 0),
}
