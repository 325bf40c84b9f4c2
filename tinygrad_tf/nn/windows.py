"""What reads a few neighbouring places of an axis or two: padding, convolution and pooling, as functions.

The neighbours of all places are laid side by side first. Then a convolution is one matrix product, a pool one maximum or mean.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from .. import ops
from ..errors import called, real, tensors, whole
from ..functions import stack
from ..tensor import Tensor


def pad(input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    """Constant padding: (before, after) of the last axis, then of the one before it, and so on. Negative sizes crop."""
    if mode != "constant":
        raise NotImplementedError(f'pad: mode is "constant", not {mode!r}: cat() and indexing build the others')
    tensors(input=input)
    pad = [whole("pad", n) for n in (pad if np.iterable(pad) else (pad,))]
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise ValueError(f"pad: {tuple(pad)} is no list of pairs for the axes of a tensor of shape {input.shape}")
    widths = [(0, 0)] * (input.ndim - len(pad) // 2) + [(pad[i], pad[i + 1]) for i in range(len(pad) - 2, -1, -2)]
    if any(n + a + b < 0 for n, (a, b) in zip(input.shape, widths, strict=True)):
        raise ValueError(f"pad: {tuple(pad)} crops more than there is of a tensor of shape {input.shape}")
    inner = input[tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(input.shape, widths, strict=True))]
    widths = [(max(a, 0), max(b, 0)) for a, b in widths]
    shape = tuple(n + a + b for n, (a, b) in zip(inner.shape, widths, strict=True))
    place = tuple(slice(a, a + n) for n, (a, _) in zip(inner.shape, widths, strict=True))
    number = 0 if value is None else real("value", value, -math.inf)
    return ops.put(Tensor(np.full(shape, number, input.dtype)), inner, index=place)


def _each(what: str, value: Any, n: int, least: int = 1) -> tuple[int, ...]:
    """One number for each of n axes, from such a tuple or from one number."""
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,) * n
    if len(values) != n:
        raise ValueError(f"{called()}{what} {values}: one number, or one for each of {n} axes")
    if not all(isinstance(number, (int, np.integer)) and number >= least for number in values):
        raise ValueError(f"{called()}{what} is whole numbers from {least} on, not {value!r}")
    return values


def _windows(x: Tensor, kernel: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...]) -> list[Tensor]:
    """For each place of the kernel, what it reads at every position: over the last axes of x, one tensor for each place."""
    sizes, spans = x.shape[x.ndim - len(kernel) :], []
    for size, k, s, d in zip(sizes, kernel, stride, dilation, strict=True):
        count = (size - d * (k - 1) - 1) // s + 1
        if count < 1:
            raise ValueError(f"{called()}{size} positions, padding included, are fewer than a kernel of {k} needs: "
                             f"{d * (k - 1) + 1}")  # fmt: skip
        spans.append(s * (count - 1) + 1)
    places = itertools.product(*(range(0, d * (k - 1) + 1, d) for k, d in zip(kernel, dilation, strict=True)))
    cuts = [[slice(i, i + span, s) for i, span, s in zip(place, spans, stride, strict=True)] for place in places]
    return [x[(..., *cut)] for cut in cuts]


def _padded(x: Tensor, padding: list[tuple[int, int]], value: float = 0.0) -> Tensor:
    """(before, after) for each of the last axes."""
    return pad(x, [n for pair in reversed(padding) for n in pair], value=value) if any(map(any, padding)) else x


def _check(name: str, x: Tensor, n: int) -> None:
    """Refuse all but (B, C, and n axes of positions), or that without B, of floats; max_pool2d takes whole numbers too."""
    tensors("ndim", input=x)
    if x.ndim not in (n + 1, n + 2):
        raise ValueError(f"{name} takes inputs of shape (B, C, {'T' if n == 1 else 'H, W'}), or without B, not {x.shape}")
    if name != "max_pool2d" or x.dtype.kind == "b":
        x._floats(name)


# ------------------------------------------------------------------------------------------------ convolution


def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
           groups: int = 1) -> Tensor:
    """(B, in, T) or (in, T), (out, in / groups, K), (out,) -> (B, out, T') or (out, T')

    y_t = weight applied to the positions t stride - padding + i dilation, i = 0 ... K - 1, zeros beyond the ends, + bias.
    groups: that many parts of the input channels, each for its own part of the output channels. padding: a number, "valid"
    for none, or "same" for T' = T.
    """
    return _convolved(input, weight, bias, stride, padding, dilation, groups, 1)


def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
           groups: int = 1) -> Tensor:
    """(B, in, H, W) or (in, H, W), (out, in / groups, K, L), (out,) -> (B, out, H', W')   as `conv1d`, over two axes"""
    return _convolved(input, weight, bias, stride, padding, dilation, groups, 2)


def _convolved(x: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any, groups: int,
               n: int) -> Tensor:
    tensors("ndim", input=x, weight=weight)
    x = x if isinstance(x, Tensor) else Tensor(x)
    if weight.ndim != n + 2 or weight.shape[0] % whole("groups", groups, 1):
        raise ValueError(f"conv{n}d takes weights (out, in / groups, {'K' if n == 1 else 'K, L'}), not {weight.shape} in "
                         f"{groups} groups")  # fmt: skip
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"conv{n}d: a bias of shape {bias.shape} for {weight.shape[0]} channels out: one for each")
    out, channels, kernel = weight.shape[0], weight.shape[1] * groups, weight.shape[2:]
    if x.ndim not in (n + 1, n + 2) or x.shape[-n - 1] != channels:
        raise ValueError(f"conv{n}d takes inputs of shape (B, {channels}, {'T' if n == 1 else 'H, W'}), not {x.shape}")
    if x.dtype != weight.dtype:
        raise TypeError(f"conv{n}d: an input of dtype {x.dtype} and weights of dtype {weight.dtype}: .to(dtype) converts")
    if x.ndim == n + 1:
        return _convolved(x.unsqueeze(0), weight, bias, stride, padding, dilation, groups, n).squeeze(0)
    stride, dilation = _each("stride", stride, n), _each("dilation", dilation, n)
    if isinstance(padding, str):
        if padding not in ("same", "valid") or (padding == "same" and max(stride) > 1):
            raise ValueError(f'padding is a number, "valid", or "same" for a stride of 1, not {padding!r}')
        total = [d * (k - 1) if padding == "same" else 0 for k, d in zip(kernel, dilation, strict=True)]
        x = _padded(x, [(k // 2, k - k // 2) for k in total])
    else:
        x = _padded(x, [(p, p) for p in _each("padding", padding, n, 0)])
    parts = x.reshape(x.shape[0], groups, channels // groups, *x.shape[2:])
    near = ops.cat(*_windows(parts, kernel, stride, dilation), dim=2)  # (B, groups, kernel in, T')
    rows = weight.flatten(2).permute(0, 2, 1).reshape(groups, out // groups, -1)
    y = (rows @ near.flatten(3)).reshape(x.shape[0], out, *near.shape[3:])
    return y if bias is None else y + bias.reshape(-1, *(1,) * n)


# ------------------------------------------------------------------------------------------------ pooling


def max_pool1d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False, return_indices: bool = False) -> Tensor:
    """(B, C, T) or (C, T) -> (B, C, T')   the largest of kernel_size positions, `stride` apart (kernel_size if None)"""
    return _max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 1)


def max_pool2d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False, return_indices: bool = False) -> Tensor:
    """(B, C, H, W) or (C, H, W) -> (B, C, H', W')   as `max_pool1d`, over two axes"""
    return _max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, return_indices, 2)


def _max_pool(x: Tensor, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool, return_indices: bool,
              n: int) -> Tensor:
    if return_indices:
        raise NotImplementedError("return_indices is not here: max(dim) of what Tensor.unfold cuts gives places too")
    _check(f"max_pool{n}d", x, n)
    x, kernel, stride = _pooled(x, kernel, stride, padding, ceil_mode, n, -math.inf)
    return stack(_windows(x, kernel, stride, _each("dilation", dilation, n))).max(0).values


def avg_pool1d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
               count_include_pad: bool = True) -> Tensor:
    """(B, C, T) or (C, T) -> (B, C, T')   the mean of kernel_size positions, `stride` apart (kernel_size if None)

    count_include_pad: the zeros beyond the ends count as numbers.
    """
    return _avg_pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad, 1)


def avg_pool2d(input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
               count_include_pad: bool = True) -> Tensor:
    """(B, C, H, W) or (C, H, W) -> (B, C, H', W')   as `avg_pool1d`, over two axes"""
    return _avg_pool(input, kernel_size, stride, padding, ceil_mode, count_include_pad, 2)


def _avg_pool(x: Tensor, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool, n: int) -> Tensor:
    _check(f"avg_pool{n}d", x, n)
    padded, sizes, steps = _pooled(x, kernel, stride, padding, ceil_mode, n, 0.0)
    total = stack(_windows(padded, sizes, steps, (1,) * n)).sum(0)
    if count_include_pad:
        return total / math.prod(sizes)
    real = _pooled(Tensor(np.ones(x.shape[x.ndim - n :], x.dtype)), kernel, stride, padding, ceil_mode, n, 0.0)
    return total / stack(_windows(*real, (1,) * n)).sum(0)


def _pooled(x: Tensor, kernel: Any, stride: Any, padding: Any, ceil_mode: bool, n: int,
            value: float) -> tuple[Tensor, Any, Any]:
    """The input with its padding, and kernel and stride for each axis."""
    if ceil_mode:
        raise NotImplementedError("ceil_mode=True is not here: F.pad() adds what the last window lacks")
    kernel, padding = _each("kernel_size", kernel, n), _each("padding", padding, n, 0)
    stride = kernel if stride in (None, ()) else _each("stride", stride, n)
    if any(2 * p > k for p, k in zip(padding, kernel, strict=True)):
        raise ValueError(f"{called()}a padding of {padding} is more than half of a window of {kernel}")
    return _padded(x, [(p, p) for p in padding], value), kernel, stride


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """(B, C, T) or (C, T) -> (B, C, output_size)   means over parts of nearly one size"""
    return _adaptive(input, output_size, 1)


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """(B, C, H, W) or (C, H, W) -> (B, C, *output_size)   means over parts of nearly one size; None keeps an axis as it is"""
    return _adaptive(input, output_size, 2)


def _adaptive(x: Tensor, output_size: Any, n: int) -> Tensor:
    _check(f"adaptive_avg_pool{n}d", x, n)
    sizes = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * n
    _each("output_size", [1 if size is None else size for size in sizes], n)
    for dim, parts in zip(range(-n, 0), sizes, strict=True):
        size = x.shape[dim]
        if parts is not None and parts != size:
            ends = [(i * size // parts, -(-(i + 1) * size // parts)) for i in range(parts)]
            x = ops.cat(*(x.narrow(dim, a, b - a).mean(dim, keepdim=True) for a, b in ends), dim=dim)
    return x
