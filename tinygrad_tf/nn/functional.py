"""The functions of the layers, without their parameters. Names and arguments are those of torch.nn.functional."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from .. import activations, fused, ops
from ..dtypes import as_array, as_ids, check_ids, int32, int64
from ..engine import mark_written
from ..errors import called, real, shown, tensors, whole
from ..random import source
from ..recompute import running_again
from ..tensor import Tensor
from .distances import (  # noqa: F401  (F's names)
    cosine_embedding_loss,
    cosine_similarity,
    huber_loss,
    l1_loss,
    margin_ranking_loss,
    mse_loss,
    pairwise_distance,
    smooth_l1_loss,
    triplet_margin_loss,
)
from .embedding_bag import embedding_bag  # noqa: F401
from .losses import (  # noqa: F401
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    kl_div,
    nll_loss,
)
from .pointwise import (  # noqa: F401
    elu,
    glu,
    hardtanh,
    leaky_relu,
    logsigmoid,
    mish,
    prelu,
    relu6,
    selu,
    softsign,
)
from .windows import (  # noqa: F401
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    avg_pool1d,
    avg_pool2d,
    conv1d,
    conv2d,
    max_pool1d,
    max_pool2d,
    pad,
)


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """(..., in), (out, in), (out,) -> (..., out)   y = input @ weight^T + bias"""
    return fused.linear(input, weight) if bias is None else fused.linear(input, weight, bias)


def embedding(input: Any, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
              norm_type: float = 2.0) -> Tensor:
    """ids (...), table (V, d) -> (..., d)   the rows of the table that the ids name; no gradient reaches row padding_idx

    Ids are int64 or int32 if they are a tensor, any integers in an array or list. max_norm: rows that are read and whose
    norm_type-norm is larger are first scaled down to it, in the table itself.
    """
    if getattr(weight, "ndim", None) != 2:
        raise ValueError(f"embedding: a table (V, d), not {shown(weight)}")
    ids = check_ids(input, weight.shape[0], (int64, int32))
    if max_norm is not None:
        read = np.unique(ids)
        norms = np.linalg.norm(weight.array[read], norm_type, axis=1, keepdims=True)
        weight.detach()[read] = weight.array[read] * np.where(norms > max_norm, max_norm / (norms + 1e-7), 1)
    rows = fused.embedding(weight, ids=ids)
    if padding_idx is None:
        return rows
    return ops.where(rows.detach(), rows, condition=(ids == padding_idx % weight.shape[0])[..., None])


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    return input.relu_() if inplace else ops.relu(input)


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """ln(1 + e ** (beta x)) / beta; x itself where beta x is above the threshold, as in PyTorch"""
    tensors(input=input)
    if not real("beta", beta, -math.inf):
        raise ValueError("softplus: beta divides, so it is not 0")
    x = input._floats("softplus") * beta
    return ops.where(input, -ops.logsigmoid(-x) / beta, condition=(x > threshold).array)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x times the standard normal distribution function; approximate="tanh" for GPT-2's form."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f'gelu: approximate is "none" or "tanh", not {approximate!r}')
    return activations.gelu(input) if approximate == "none" else activations.gelu_tanh(input)


def silu(input: Tensor) -> Tensor:
    return activations.silu(input)


def sigmoid(input: Tensor) -> Tensor:
    return ops.sigmoid(input)


def tanh(input: Tensor) -> Tensor:
    return ops.tanh(input)


def swiglu(gate: Tensor, up: Tensor) -> Tensor:
    """silu(gate) * up"""
    return activations.swiglu(gate, up)


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    tensors(input=input)
    return input.softmax(_implied(input, dim), dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    tensors(input=input)
    return input.log_softmax(_implied(input, dim), dtype)


def _implied(x: Tensor, dim: int | None) -> int:
    """The axis of a softmax for which none was given: PyTorch's guess, with PyTorch's warning."""
    if dim is None:
        dim = 0 if x.ndim in (0, 1, 3) else 1
        warnings.warn(f"softmax without dim takes dim={dim} for a tensor with {x.ndim} axes: say dim=", stacklevel=3)
    return dim


def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1,
                   generator: np.random.Generator | None = None) -> Tensor:
    """softmax((logits + Gumbel noise) / tau): close to one-hot draws from softmax(logits), with a gradient (Jang et al. 2017)

    hard: exactly one-hot, with the gradient of the soft one. eps is there for PyTorch's sake: nothing is divided by it.
    """
    tensors(logits=logits)
    if not real("tau", tau):
        raise ValueError("gumbel_softmax: tau divides, so it is above 0")
    logits._floats("gumbel_softmax")
    noise = -np.log(source(generator).standard_exponential(logits.shape))
    soft = ((logits + noise.astype(logits.dtype)) / tau).softmax(dim)
    if not hard:
        return soft
    chosen = np.expand_dims(soft.array.argmax(dim), dim)
    one = np.zeros_like(soft.array)
    np.put_along_axis(one, chosen, 1, dim)
    return Tensor(one) - soft.detach() + soft


def layer_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(var + eps), over the last axes, which must be `normalized_shape`."""
    x, affine = _last_axes(input, normalized_shape, weight, bias)
    if bias is not None and weight is None:
        return _all_axes(fused.layer_norm(x, eps=eps), input.shape) + bias
    return _all_axes(fused.layer_norm(x, *affine, eps=eps), input.shape)


def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-5) -> Tensor:
    """(B, C, ...) -> the same   (x - mean) / sqrt(var + eps), over each of num_groups parts of the channels (Wu and He 2018)"""
    tensors(input=input)
    if input.ndim < 2 or whole("num_groups", num_groups) < 1 or input.shape[1] % num_groups:
        raise ValueError(f"group_norm: the channels of {input.shape} do not divide into {num_groups} groups")
    apart = input.reshape(input.shape[0], num_groups, math.prod(input.shape[1:]) // num_groups)
    for name, given in {"weight": weight, "bias": bias}.items():
        if given is not None and given.shape != input.shape[1:2]:
            raise ValueError(f"group_norm: {name} of shape {given.shape} for {input.shape[1]} channels: one for each")
    y = fused.layer_norm(apart, eps=eps).reshape(input.shape)
    wide = lambda x: x.reshape(-1, *(1,) * (input.ndim - 2))
    y = y if weight is None else y * wide(weight)
    return y if bias is None else y + wide(bias)


def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """x / sqrt(mean(x^2) + eps), over the last axes; eps defaults to the dtype's epsilon."""
    x, gain = _last_axes(input, normalized_shape, weight)
    eps = float(np.finfo(input.dtype).eps) if eps is None else eps
    return _all_axes(fused.rms_norm(x, *gain, eps=eps), input.shape)


def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
               bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    """(N, C), (N, C, ...) -> the same   (x - mean) / sqrt(var + eps), for each channel over all else (Ioffe and Szegedy 2015)

    In training mean and var are those of the input, and move the running ones by `momentum` of the way, the variance with
    n - 1 in place of n; otherwise they are the running ones.
    """
    tensors(input=input)
    input._floats("batch_norm"), real("momentum", momentum)
    along = (0, *range(2, input.ndim))
    wide = lambda x: x.reshape(-1, *(1,) * (input.ndim - 2))  # (C,) -> what broadcasts to the input
    if training:
        count = math.prod(input.shape[i] for i in along)
        if count < 2:
            raise ValueError(f"a mean over one number alone is that number: batch norm trains on more than shape {input.shape}")
        mean = input.mean(along, keepdim=True)
        off = input - mean
        var = off.square().mean(along, keepdim=True)
        if running_mean is not None and running_var is not None and not running_again():
            for running, now in ((running_mean, mean.array), (running_var, var.array * (count / (count - 1)))):
                running.array += momentum * (now.reshape(-1) - running.array)
                mark_written(running.array)
    elif running_mean is None or running_var is None:
        raise ValueError("batch norm needs a running mean and variance when it is not training")
    else:
        off, var = input - wide(running_mean), wide(running_var)
    y = off / (var + eps).sqrt()
    y = y if weight is None else y * wide(weight)
    return y if bias is None else y + wide(bias)


def _last_axes(x: Tensor, shape: Any, *affine: Tensor | None) -> tuple[Tensor, list[Tensor]]:
    """The axes to normalise over as one."""
    if type(shape) is not tuple:
        shape = tuple(shape) if np.iterable(shape) else (whole("normalized_shape", shape),)
    if x.shape[x.ndim - len(shape) :] != shape:
        raise ValueError(f"{called()}a norm over {shape} does not fit an input of shape {x.shape}")
    given = [a for a in affine if a is not None]
    if len(shape) == 1:
        return x, given
    return x.reshape(*x.shape[: x.ndim - len(shape)], math.prod(shape)), [a.reshape(-1) for a in given]


def _all_axes(y: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The axes as they were before `_last_axes`."""
    return y if y.shape == shape else y.reshape(shape)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False,
            generator: np.random.Generator | None = None) -> Tensor:
    """Zero each element with probability p and scale the others by 1 / (1 - p); the identity when not training."""
    real("p", p, -math.inf)
    if not 0 <= p <= 1:
        raise ValueError(f"dropout: p is a probability, not {p}")
    if not training or p == 0:
        return input
    tensors(input=input)
    keep = source(generator).random(input.shape, dtype=np.float32) >= p
    out = ops.dropout(input._floats("dropout"), keep=keep * input.dtype.type(1 / (1 - p) if p < 1 else 0))
    return input.copy_(out) if inplace else out


def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
                                 generator: np.random.Generator | None = None) -> Tensor:
    """(..., H, T, D), (..., G, S, D), (..., G, S, E) -> (..., H, T, E)   softmax(q k^T scale + mask) v

    attn_mask: boolean (true = may look) or numbers added to the scores (a tensor that requires a gradient gets one).
    is_causal: query i looks at keys 0 ... i. A query that may look nowhere gives zeros. G < H heads of keys and values
    need `enable_gqa=True`. As torch.nn.functional.scaled_dot_product_attention.
    """
    if is_causal and attn_mask is not None:
        raise ValueError("attention takes attn_mask or is_causal, not both")
    tensors("ndim", query=query, key=key, value=value)
    if min(query.ndim, key.ndim, value.ndim) < 2 or (dropout_p and not 0 <= real("dropout_p", dropout_p) <= 1):
        raise ValueError(f"scaled_dot_product_attention: (..., T, D), (..., S, D), (..., S, E) and a probability, not "
                         f"{query.shape}, {key.shape}, {value.shape}, {dropout_p}")  # fmt: skip
    lead = query.shape[:-2]
    if query.ndim != 4:
        attn_mask = None if attn_mask is None else _four_axes(attn_mask, lead[:-1])
        query, key, value = (_four_axes(x, x.shape[:-3]) for x in (query, key, value))
    if query.shape[1] != key.shape[1] and not enable_gqa:
        raise ValueError(f"{query.shape[1]} query heads on {key.shape[1]} key heads need enable_gqa=True")
    bias, mask = mask_or_bias(attn_mask, (*query.shape[:3], key.shape[2]))
    causal = 0 if is_causal else None
    drop = weight_dropout(dropout_p, generator)
    out = fused.attention(query, key, value, *bias, mask=mask, causal=causal, scale=scale, **drop)
    return out if len(lead) == 2 else out.reshape(*lead, *out.shape[-2:])


def weight_dropout(p: float, generator: np.random.Generator | None) -> dict[str, Any]:
    """The settings of fused.attention for dropout: none for p = 0, else p and a seed from this generator or the default one."""
    return {"dropout": p, "seed": int(source(generator).integers(2**63))} if p else {}


def _four_axes(x: Any, batch: tuple[int, ...]) -> Any:
    """(..., H, T, S) -> (B, H, T, S)   repeated to a batch of any number of axes; no batch and no head count as one"""
    x = x if hasattr(x, "ndim") else as_array(x)
    if x.ndim < 2:
        return x
    x = x.reshape((1,) * (3 - x.ndim) + x.shape)
    if x.shape[:-3] not in ((), batch):
        if len(x.shape) - 3 > len(batch) or any(n not in (1, m) for n, m in zip(x.shape[-4::-1], batch[::-1], strict=False)):
            return x  # which fits no scores
        x = ops.expand(x, shape=(*batch, *x.shape[-3:]))
    return x.reshape(math.prod(x.shape[:-3]), *x.shape[-3:])


def mask_or_bias(mask: Any, shape: tuple[int, ...]) -> tuple[tuple[Any, ...], np.ndarray | None]:
    """A mask for scores (B, H, T, S) as what is added to them, or as where a query may look; the other is empty."""
    if mask is None:
        return (), None
    array = as_array(mask)
    if array.dtype.kind not in "bf":
        raise TypeError(f"a mask is boolean (true = may look) or floats to add to the scores, not {array.dtype}")
    if len(array.shape) > 4 or any(n not in (1, m) for n, m in zip(array.shape[::-1], shape[::-1], strict=False)):
        raise ValueError(f"a mask of shape {array.shape} does not fit scores of shape {shape}: (batch, heads, queries, keys)")
    return ((), array) if array.dtype.kind == "b" else ((mask if isinstance(mask, Tensor) else array,), None)


def one_hot(input: Any, num_classes: int = -1) -> Tensor:
    """ids (...) -> (..., num_classes) of int64, a single 1 in each row"""
    ids = as_ids(input, (int64,))
    if ids.dtype.kind not in "iu" or (not ids.size and num_classes < 0):
        raise TypeError(f"one_hot: ids are integers, of none of which the classes are not counted: {ids.dtype} of {ids.shape}")
    size = int(ids.max()) + 1 if whole("num_classes", num_classes, -1) < 0 else num_classes
    return Tensor((check_ids(ids, size)[..., None] == np.arange(size)).astype(np.int64))
