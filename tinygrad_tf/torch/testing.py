"""torch.testing.assert_close."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import as_array, float16, float32, float64

TOLERANCES = {float16: (1e-3, 1e-5), float32: (1.3e-6, 1e-5), float64: (1e-7, 1e-7)}


def assert_close(actual: Any, expected: Any, *, rtol: float | None = None, atol: float | None = None, equal_nan: bool = False,
                 check_dtype: bool = True, check_device: bool = True, msg: Any = None) -> None:
    """AssertionError unless shapes, dtypes and values agree; sequences and dicts item by item. Tolerances as in PyTorch."""
    settings: dict[str, Any] = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan, "check_dtype": check_dtype, "msg": msg}
    if isinstance(actual, dict):
        assert actual.keys() == expected.keys(), f"keys {list(actual)} and {list(expected)} differ"
        actual, expected = list(actual.values()), [expected[key] for key in actual]
    if isinstance(actual, (list, tuple)):
        assert len(actual) == len(expected), f"{len(actual)} and {len(expected)} items"
        for a, b in zip(actual, expected, strict=True):
            assert_close(a, b, **settings)
        return
    a, b = as_array(actual), as_array(expected)
    if (rtol is None) != (atol is None):
        raise ValueError("rtol and atol are given together, or neither")
    assert a.shape == b.shape, msg or f"shapes {a.shape} and {b.shape} differ"
    assert a.dtype == b.dtype or not check_dtype, msg or f"dtypes {a.dtype} and {b.dtype} differ"
    if rtol is None:
        pairs = [TOLERANCES.get(x.dtype, (0.0, 0.0)) for x in (a, b)]
        rtol, atol = max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)
    np.testing.assert_allclose(a, b, rtol, atol or 0.0, equal_nan, err_msg=str(msg or ""))
