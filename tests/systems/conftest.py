"""How a computed number is compared with the one that an article prints."""

from decimal import Decimal

import numpy as np
import pytest

from tinygrad_tf.tensor import as_array


def prints(values, figures):
    """Assert that every value, rounded to the digits of its printed figure, is that figure.

    `figures` is a string of numbers apart by blanks, commas and brackets, in the order of the values.
    """
    values = [float(v) for v in np.ravel(as_array(values))]
    texts = figures.translate(str.maketrans("()[]", "    ")).split()
    texts = [text.rstrip(",").replace(",", "") for text in texts]
    assert len(values) == len(texts), f"{len(values)} values for {len(texts)} figures"
    for value, text in zip(values, texts):
        figure = Decimal(text)
        half = 0.5 * 10.0 ** int(figure.as_tuple().exponent)
        assert abs(value - float(figure)) <= half * (1 + 1e-6), f"computed {value!r}, printed {text}"


@pytest.fixture(name="prints")
def prints_fixture():
    return prints
