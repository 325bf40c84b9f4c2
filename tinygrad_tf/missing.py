"""What PyTorch's tensors have and those here have not: asked for by name, each answers with the way to the same result."""

from __future__ import annotations


class Unsupported(NotImplementedError, AttributeError):
    """Not implemented, and for `hasattr` not there either."""


WAYS = {
    name: way.strip()
    for names, way in (line.split(":", 1) for line in """
quantile nanquantile: x.sort(dim).values and an index take it, or numpy.quantile of x.detach().numpy() without a gradient
nanmean nanmedian: x[~x.isnan()] has the numbers alone, and x.isnan() their places
nansum: x.nan_to_num().sum(dim)
aminmax: x.amin(dim) and x.amax(dim)
msort: x.sort(0).values
unique_consecutive: x[1:] != x[:-1] says where a new number begins
diff: x[1:] - x[:-1], or narrow(dim, ...) for another axis
dist: (x - other).norm(p)
cov corrcoef: with y = x - x.mean(1, keepdim=True), y @ y.T / (n - 1) is the covariance
greater greater_equal less less_equal not_equal: x > other, x.gt(other), and so ge, lt, le, ne
bitwise_and bitwise_or bitwise_xor: x & other, x | other, x ^ other
exp2: 2.0 ** x
sinh cosh: (x.exp() - (-x).exp()) / 2 is sinh, with + it is cosh
acos asin atan atan2 acosh asinh atanh: numpy has it (arctan of x.detach().numpy()), without a gradient
lgamma digamma polygamma erfinv i0 igamma: scipy.special has it (gammaln of x.detach().numpy()), without a gradient
erfc: 1 - x.erf()
logit: (x / (1 - x)).log()
xlogy: x * other.log(), with torch.where for x == 0
hypot: (x * x + other * other).sqrt()
frac: x - x.trunc()
fix: x.trunc()
fmod: x - x.div(other, rounding_mode="trunc") * other
rad2deg deg2rad: x * (180 / torch.pi), and back x * (torch.pi / 180)
positive absolute: x, and x.abs()
fmax fmin: x.maximum(other) and x.minimum(other), after nan_to_num()
signbit isneginf isposinf isreal: x < 0, x == -torch.inf, x == torch.inf, True
inner vdot: x @ other.mT, of two vectors x.dot(other)
ger: x.outer(vec2)
cross: torch.stack of the products of x[..., i] and other[..., j]
kron: (x[:, None, :, None] * other[None, :, None, :]).reshape(rows, columns)
addmv addr addbmm: x + mat @ vec, x + vec1.outer(vec2), x + (batch1 @ batch2).sum(0)
matrix_power: x @ x as often as it takes
det inverse pinverse slogdet logdet cholesky qr svd lu matrix_exp: numpy.linalg on x.detach().numpy() has it, without a gradient
fliplr flipud rot90: x.flip(1), x.flip(0), x.flip(1).transpose(0, 1)
swapdims adjoint H mH: x.swapaxes(dim0, dim1), x.mT; numbers are real here
tensor_split hsplit vsplit dsplit split_with_sizes: x.split([sizes], dim)
narrow_copy: x.narrow(dim, start, length).clone()
take_along_dim: x.gather(dim, index)
diag_embed diagflat: x.unsqueeze(-1) * torch.eye(n), and x.reshape(-1).diag()
index_put index_copy masked_scatter put slice_scatter select_scatter diagonal_scatter: y = x.clone(); y[index] = values
index_put_ index_copy_ masked_scatter_ put_: x[index] = values, or x.index_add_(dim, index, values) to add
scatter_reduce index_reduce: x.scatter_add(dim, index, src) for sums, over counts for means
sum_to_size: x.sum(dims, keepdim=True) over the axes that were broadcast
renorm: x * (maxnorm / x.norm(dim=dims, keepdim=True)).clamp(max=1)
as_strided as_strided_: x.unfold(dim, size, step) cuts windows, and indexing picks any places
resize_ resize_as_ set_: x.reshape(shape) for as many numbers, x.data = other for others, else a new tensor
apply_ map_: a NumPy function on x.detach().numpy(), which shares the memory
storage untyped_storage storage_offset: x.numpy() shares the memory, x.data_ptr() and x.stride() say where it is
nbytes itemsize: x.numel() * x.element_size(), and x.element_size()
is_cpu is_mps is_xpu is_meta get_device: x.device is the CPU
is_sparse to_sparse to_dense coalesce indices values: tensors are dense here
is_quantized dequantize int_repr: quantized tensors are not here
is_complex real imag conj angle cfloat cdouble: complex numbers are not here
bfloat16: x.float(), bfloat16 is a name alone here
is_nonzero: bool(x)
is_signed is_conj is_neg is_inference layout: x.dtype says what it holds
register_post_accumulate_grad_hook: x.register_hook(f) is called with the gradient before it is added
retains_grad output_nr name: x.grad_fn is the node that made x
share_memory_ is_shared: one process computes here
histogram: torch.histogram(x, bins)
""".strip().splitlines())
    for name in names.split()
}  # fmt: skip


def unsupported(name: str, way: str) -> Unsupported:
    return Unsupported(f"{name} is not supported: {way}")


def not_here(name: str) -> str:
    return f"tinygrad_tf has no {name}: tinygrad_tf/torch/COVERAGE.md lists the names that are here"


def missing(x: object, name: str) -> AttributeError:
    """What to raise for an attribute that a tensor does not have. Of a change in place there may be the form that copies."""
    way = WAYS.get(name) or (f"x = x.{name[:-1]}(...)" if name.endswith("_") and hasattr(x, name[:-1]) else None)
    return unsupported(f"Tensor.{name}", way) if way else AttributeError(not_here(f"Tensor.{name}"))
