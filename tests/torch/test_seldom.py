"""Methods and functions that programs seldom need, against PyTorch.

nn.CosineSimilarity F.cosine_similarity Tensor.addcmul_ Tensor.addcdiv_ Tensor.clamp_min_ Tensor.clamp_max_ Tensor.nan_to_num_
Tensor.triu_ torch.moveaxis
"""

import pytest


def finite(m, x):
    return m.where(x.isfinite(), x, 0.5).clamp(-30, 30)


def not_tied(x):
    """Among equal numbers PyTorch does not say which comes first."""
    values = x.detach().numpy().reshape(-1).tolist()
    return len(set(values)) == len(values)


def rows(x):
    """All axes but the last as one."""
    return x.reshape(-1, x.shape[-1]) if x.numel() else x.flatten(0, -2)


# family of inputs -> name of PyTorch -> what is done with it
TABLE = {
    "floats special": {
        "torch.erf": lambda m, x: [m.erf(finite(m, x)), finite(m, x).erf()],
        "torch.expm1": lambda m, x: [m.expm1(finite(m, x).clamp(-30, 9)), (finite(m, x) * 1e-6).expm1()],
        "torch.tan": lambda m, x: m.tan(finite(m, x).clamp(-1, 1)),
        "torch.logaddexp": lambda m, x: [
            m.logaddexp(finite(m, x), finite(m, x) * 2),
            finite(m, x).logaddexp(m.zeros(1, dtype=x.dtype)),
        ],
        "torch.nan_to_num": lambda m, x: [
            m.nan_to_num(x),
            x.nan_to_num(nan=1.5, posinf=3.0, neginf=-4.0),
            m.nan_to_num(input=x, nan=-1.0),
            (x * 1).nan_to_num_(),
        ],
        "torch.clamp_min": lambda m, x: [m.clamp_min(x, 0.5), x.clamp_min(min=-0.5), (x * 1).clamp_min_(0.1)],
        "torch.clamp_max": lambda m, x: [m.clamp_max(x, 0.5), x.clamp_max(max=-0.5), (x * 1).clamp_max_(0.1)],
    },
    "floats": {
        "torch.trunc": lambda m, x: [m.trunc(x), x.trunc(), x.floor(), m.ceil(x), x.round(decimals=1), m.round(x), x.sign()],
        "torch.lerp": lambda m, x: [m.lerp(x, x * 3, 0.25), x.lerp(end=x * 0 + 1, weight=m.tensor(0.75, dtype=x.dtype))],
        "Tensor.lerp_": lambda m, x: [(x * 2).lerp_(x, 0.1), m.zeros_like(x).lerp_(x.detach(), 0.5)],
        "torch.addcmul": lambda m, x: [
            m.addcmul(x, x, x + 1),
            x.addcmul(x, x, value=-0.5),
            (x * 1).addcmul_(x, x, value=2),
        ],
        "torch.addcdiv": lambda m, x: [
            m.addcdiv(x, x, x * x + 1, value=0.1),
            x.addcdiv(x, x * x + 2),
            x.detach().clone().addcdiv_(x.detach(), m.ones_like(x), value=-0.1),
        ],
        "torch.median": lambda m, x: [
            m.median(x),
            x.median(),
            m.median(x.unsqueeze(-1), dim=-1),
            m.median(m.cat([x.flatten(), x.flatten()])),
        ],
        "torch.histc": lambda m, x: [
            m.histc(x.detach(), bins=4, min=-1, max=1),
            m.histc(x.detach(), 3) if x.numel() else 0,
            x.detach().histc(5, 0, 3),
        ],
    },
    "floats integers": {
        "torch.count_nonzero": lambda m, x: [m.count_nonzero(x), m.count_nonzero(x.unsqueeze(0), dim=0)],
        "torch.ravel": lambda m, x: [m.ravel(x), x.ravel()],
        "torch.broadcast_to": lambda m, x: [m.broadcast_to(x, (2, *x.shape)), x.broadcast_to((3, *x.shape))],
        "Tensor.reshape_as": lambda m, x: x.flatten().reshape_as(x),
        "torch.unflatten": lambda m, x: [
            m.unflatten(x.unsqueeze(0), 0, (1, 1)),
            x.flatten().unflatten(dim=0, sizes=(-1, 1)),
            m.nn.Unflatten(0, (1, -1))(x.flatten()),
        ],
        "torch.movedim": lambda m, x: [
            m.movedim(x.unsqueeze(0), 0, -1),
            m.movedim(x.unsqueeze(-1), source=-1, destination=0),
            m.moveaxis(x[None, None], (0, 1), (-1, 0)),
        ],
        "torch.argwhere": lambda m, x: m.argwhere(x),
        "torch.isin": lambda m, x: [
            m.isin(x.detach(), m.tensor([1, 2], dtype=x.dtype)),
            m.isin(x.detach(), x.detach()[:1] if x.dim() else x.detach(), invert=True),
        ],
        "torch.cumprod": lambda m, x: [
            m.cumprod(x.unsqueeze(0), dim=0),
            m.cumprod(x, -1),
            x.cumprod(dim=0, dtype=m.float64),
            m.cumprod(m.stack([x, x * 0, x, x, x]), 0),
        ],
        "Tensor.stride": lambda m, x: [list(x.unsqueeze(0).repeat(2, *[1] * x.dim()).stride()) if x.numel() else 0],
        "Tensor.data_ptr": lambda m, x: [
            int(x.data_ptr() == x.detach().data_ptr()),
            int(x.clone().data_ptr() == x.data_ptr()) if x.numel() else 0,
        ],
        "Tensor.ndimension": lambda m, x: x.ndimension(),
    },
    "integers": {
        "torch.bincount": lambda m, x: [
            m.bincount(x.long().abs().flatten()),
            m.bincount(x.long().abs().flatten(), minlength=9),
            m.bincount(x.long().abs().flatten(), weights=m.ones(x.numel()) * 0.5),
            m.bincount(x.long().abs().flatten(), m.ones(x.numel(), dtype=m.float64)),
        ],
    },
    "vectors": {
        "torch.kthvalue": lambda m, x: (
            [m.kthvalue(x, 1), x.kthvalue(k=x.shape[0], dim=0, keepdim=True), m.kthvalue(x, 2, dim=-1)] if not_tied(x) else []
        ),
        "torch.median (dim)": lambda m, x: (
            [m.median(x, dim=-1), x.median(0, keepdim=True), x.median(dim=0).values] if not_tied(x) and x.numel() else []
        ),
        "torch.mode": lambda m, x: (
            [m.mode(x.detach().round())[0], m.mode(m.cat([x, x[:1]]), dim=0).values, x.mode(-1, keepdim=True).values]
            if x.numel()
            else []
        ),
        "torch.cummax": lambda m, x: [m.cummax(x, dim=0), x.cummax(-1), m.cummax(m.cat([x, x]), 0)],
        "torch.cummin": lambda m, x: [m.cummin(x, dim=0), x.cummin(-1).values, m.cummin(m.cat([x, x]), 0)],
        "torch.logcumsumexp": lambda m, x: [m.logcumsumexp(x, dim=0), (x * 100).logcumsumexp(-1)],
        "torch.diag": lambda m, x: [
            m.diag(x.flatten()),
            m.diag(x.flatten(), 1),
            x.flatten().diag(diagonal=-2),
            *([m.diag(x), x.diag(1), x.diag(-1)] if x.dim() == 2 and x.numel() else []),
        ],
        "Tensor.unfold": lambda m, x: [
            x.unfold(0, 1, 1),
            x.unfold(dimension=-1, size=2, step=1) if x.shape[-1] > 1 else 0,
            x.unfold(0, 1, 2),
        ],
        "torch.dot": lambda m, x: [m.dot(x.flatten(), x.flatten() * 2), x.flatten().dot(x.flatten())],
        "torch.combinations": lambda m, x: [
            m.combinations(x.flatten()),
            m.combinations(x.flatten()[:5], r=3, with_replacement=True),
            m.combinations(x.flatten()[:3], 1),
        ],
        "torch.cartesian_prod": lambda m, x: [
            m.cartesian_prod(x.flatten(), x.flatten() * 2),
            m.cartesian_prod(x.flatten()),
        ],
        "torch.meshgrid": lambda m, x: [
            *m.meshgrid(x.flatten(), x.flatten()[:2] * 2, indexing="ij"),
            *m.meshgrid([x.flatten(), x.flatten()], indexing="xy"),
            *m.meshgrid(x.flatten()[:1], x.flatten(), x.flatten()[:2], indexing="xy"),
        ],
        "torch.searchsorted": lambda m, x: [
            m.searchsorted(m.tensor([-1.0, 0.0, 0.0, 1.0], dtype=x.dtype), x),
            m.searchsorted(x.detach().sort(-1).values, x.detach(), right=True),
            m.searchsorted(x.detach().sort(-1).values, x.detach() * 0.5, side="right", out_int32=True),
            m.searchsorted(m.tensor([1, 3]), 2),
        ],
        "torch.bucketize": lambda m, x: [
            m.bucketize(x.detach(), m.tensor([-1.0, 0.0, 1.0], dtype=x.dtype)),
            m.bucketize(x.detach(), boundaries=m.tensor([0.0], dtype=x.dtype), right=True, out_int32=True),
        ],
        "Tensor.tril_": lambda m, x: [(x.unsqueeze(0) * 2).tril_(), (x.unsqueeze(-1) * 2).triu_(diagonal=1)],
        "torch.cosine_similarity": lambda m, x: [
            m.cosine_similarity(x, x * x + 1, dim=-1),
            m.nn.functional.cosine_similarity(x, x[:1], dim=0),
            m.nn.functional.cosine_similarity(x.unsqueeze(0), m.ones_like(x), eps=1e-3),
            m.nn.CosineSimilarity(dim=0, eps=1e-6)(x, x + 1),
        ],
    },
    "matrices": {
        "torch.trace": lambda m, x: [m.trace(rows(x)), rows(x).trace()],
        "torch.mv": lambda m, x: [m.mv(rows(x), rows(x)[0])] if x.numel() else [],
        "torch.baddbmm": lambda m, x: m.baddbmm(
            m.ones(1, 1, 1, dtype=x.dtype), rows(x)[None], rows(x).T[None], beta=0.5, alpha=2
        ),
        "torch.cdist": lambda m, x: [
            m.cdist(x, x * 2 + 1),
            m.cdist(x, x[..., :1, :] + 3, p=1.0),
            m.cdist(x[..., :1, :], x[..., :1, :]),
        ],
        "Tensor.fill_diagonal_": lambda m, x: [
            (rows(x) * 2).fill_diagonal_(3.0),
            rows(x.detach()).clone().fill_diagonal_(0),
        ],
    },
}
CASES = [(family, name) for family, names in TABLE.items() for name in names]


@pytest.mark.parametrize("family,name", CASES, ids=[name for _, name in CASES])
def test_same_as_torch(walk, family, name):
    walk(TABLE[family][name], family, rtol=1e-4, atol=1e-5)
