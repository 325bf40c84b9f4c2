"""Work on a given number of threads, for tests."""

from contextlib import contextmanager

import pytest
from threadpoolctl import threadpool_limits

from tinygrad_tf import threads


@contextmanager
def parts(count):
    """A block with this many threads, whatever the environment says."""
    with threadpool_limits(count, user_api="blas"), threads.parts():
        if threads.count() != count:
            pytest.skip("nothing here tells NumPy's products how many threads to use")
        yield
