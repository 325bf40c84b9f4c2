"""How many threads the matrix products use."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext

SMALL = 64_000_000  # operations of one product, multiplications and additions
VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def threads_for(operations: float) -> AbstractContextManager:
    """Inside, products of about this many operations run on one thread if they are small, else on as many as there are.

    Two threads wait for each other after every product. For a small one that wait is most of the time, and when another program
    holds one of the cores it is nearly all of it. Whoever sets one of VARIABLES has decided already.
    """
    if operations >= SMALL or any(os.environ.get(name) for name in VARIABLES):
        return nullcontext()
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="blas")
