"""What the systems page, and the tables that it points to, say lesson 7 must give."""

HALF = 5e-5  # of the fourth digit

EXPECTED = {
    "S3 direct path is g": (True, 0),
    "S3 through the branch is the Jacobian transposed times g": (True, 0),
    "S3 their sum is the gradient": (True, 0),
    "S3 the Jacobian is the measured one": (True, 0),
    "S4 plain inputs": ([1.0000, 0.4621, 0.2270, 0.1130, 0.0565], HALF),
    "S4 plain slopes": ([0.3932, 0.4742, 0.4936, 0.4984, 0.4996], HALF),
    "S4 plain running gradient": ([0.3932, 0.1865, 0.0920, 0.0459, 0.0229], HALF),
    "S4 residual inputs": ([1.0000, 1.4621, 2.0858, 2.8649, 3.7570], HALF),
    "S4 residual slopes": ([0.3932, 0.3055, 0.1966, 0.1020, 0.0446], HALF),
    "S4 residual factors": ([1.3932, 1.3055, 1.1966, 1.1020, 1.0446], HALF),
    "S4 residual running gradient": ([1.3932, 1.8188, 2.1763, 2.3984, 2.5053], HALF),
    "S4 plain, 5 layers": (0.0229, HALF),
    "S4 plain, 10 layers": (0.00072, 5e-6),
    "S4 plain, 20 layers": (7.0e-7, 5e-9),
    "S4 residual, 5 layers": (2.5053, HALF),
    "S4 residual, 10 layers": (2.576, 5e-4),
    "S4 residual, 20 layers": (2.577, 5e-4),
    "S4 residual with F = x/2, 10 layers": (57.7, 0.05),
    "S4 by hand and by the engine the same": (True, 0),
}
