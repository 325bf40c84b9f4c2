"""The numbers of a tensor as text, laid out as PyTorch prints them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Layout:
    """How tensors are printed, in the words of torch.set_printoptions."""

    precision: int = 4  # decimals
    threshold: float = 1000  # with more numbers than these, only those at the ends of each axis are shown
    edgeitems: int = 3  # so many at either end
    linewidth: int = 80  # characters
    sci_mode: bool | None = None  # whether with exponents; None: if the numbers differ much in size


PROFILES = {"default": Layout(), "short": Layout(precision=2, edgeitems=2), "full": Layout(threshold=float("inf"))}
layout = PROFILES["default"]


def set_printoptions(precision: int | None = None, threshold: float | None = None, edgeitems: int | None = None,
                     linewidth: int | None = None, profile: str | None = None, sci_mode: bool | None = None) -> None:
    """How tensors are printed from now on; `profile` is "default", "short" or "full". As torch.set_printoptions."""
    global layout  # noqa: PLW0603
    given: dict[str, Any] = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    start = layout if profile is None else PROFILES[profile]
    layout = replace(start, sci_mode=sci_mode, **{name: value for name, value in given.items() if value is not None})


def numbers(array: np.ndarray) -> str:
    """The numbers, each as wide as the widest: with four decimals, as whole numbers if all are, or with an exponent."""
    shown, edge = array, layout.edgeitems
    if array.size > layout.threshold:
        for axis, n in enumerate(array.shape):
            if n > 2 * edge:
                shown = np.take(shown, [*range(edge), *range(n - edge, n)], axis)
    width = layout.linewidth - 1 + array.ndim  # NumPy leaves room for the brackets at the end
    most = array.size if array.size <= layout.threshold else int(layout.threshold)
    text = np.array2string(array, separator=", ", prefix="tensor(", formatter={"all": _words(shown.reshape(-1))},
                           threshold=most, edgeitems=edge, max_line_width=width)  # fmt: skip
    return text.replace(", ...,", ",  ...,")


def _words(flat: np.ndarray) -> Callable[[object], str]:
    """How one of these numbers is written."""
    if flat.dtype.kind != "f":
        width = max((len(str(x)) for x in flat.tolist()), default=0)
        return lambda x: f"{x!s:>{width}}"
    finite = flat[np.isfinite(flat)].astype(np.float64)
    sizes = np.abs(finite[finite != 0])
    whole = bool((finite == np.trunc(finite)).all())
    small, large = (sizes.min(), sizes.max()) if sizes.size else (1, 1)
    exponent = large / small > 1000 or large > 1e8 or (small < 1e-4 and not whole)
    exponent, digits = exponent if layout.sci_mode is None else layout.sci_mode, f".{layout.precision}"
    spec, end = (f"{digits}e", "") if exponent else (".0f", ".") if whole else (f"{digits}f", "")

    def word(x: object) -> str:
        return format(float(x), spec) + (end if np.isfinite(x) else "")  # type: ignore[arg-type, call-overload]

    width = max((len(word(x)) for x in finite[finite != 0]), default=1)
    return lambda x: f"{word(x):>{width}}"
