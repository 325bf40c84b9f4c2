"""What the systems page says lesson 10 must give."""

EXPECTED = {
    "S11 scores of twice the input, over those of once": (4, 1e-12),
    "S11 with RMSNorm first, nothing changes up to 1000 times": (True, 0),
    "S19 RMSNorm of (3, 4)": ([0.848528, 1.131371], 5e-7),
    "S19 RMSNorm of (0, 0)": ([0, 0], 0),
    "S19 RMSNorm of (2, 2)": ([1, 1], 5e-7),
    "S19 LayerNorm of (1, 0, 0, 0)": ([1.732005, -0.577335, -0.577335, -0.577335], 5.1e-6),
    "S19 the same with n - 1": (1.49997, 5e-6),
    "S19 LayerNorm does not see a shift": (True, 0),
    "S19 RMSNorm sees a shift": (True, 0),
    "S19 gradient of the sum of LayerNorm is 0": (True, 0),
    "S19 gradient with weights 1, 2, 3": ([-0.114545, 0.171809, -0.057265], 5.1e-7),
    "S19 width 1: output, gradient of input and of gain": ([0, 0, 0], 0),
    "S19 a norm over coordinates does not": ([0, 0], 0),
    "S19 silent pre-norm block gives its input": (True, 0),
    "S19 silent post-norm block gives its input": (False, 0),
    "S19 silent block with both norms gives its input": (True, 0),
}
