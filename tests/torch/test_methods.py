"""Methods of Tensor and the operators, through the door, against PyTorch."""

import pytest

# family of inputs -> name of PyTorch -> what is done with it
TABLE = {
    "floats integers special": {
        "op: -a": lambda m, x: -x,
        "op: a == b": lambda m, x: [x == x, x == 0, x == 1],
        "op: a != b": lambda m, x: [x != x, x != 1],
        "op: a < b": lambda m, x: [x < 0.5, x > 1],
        "op: a > b": lambda m, x: x > 0.5,
        "op: a >= b": lambda m, x: x >= 1,
        "op: a <= b": lambda m, x: x <= 0,
        "torch.isnan": lambda m, x: m.isnan(x),
        "torch.isinf": lambda m, x: m.isinf(x),
        "Tensor.clone": lambda m, x: x.clone(),
        "Tensor.contiguous": lambda m, x: x.contiguous(),
        "Tensor.shape": lambda m, x: list(x.shape) + [len(x.shape + (1,)), len(x.shape[:-1] + (-1, 2))],
        "Tensor.size": lambda m, x: list(x.size()) + [x.size(d) for d in range(-x.dim(), x.dim())],
        "Tensor.dim": lambda m, x: x.dim(),
        "Tensor.ndim": lambda m, x: x.ndim,
        "Tensor.numel": lambda m, x: x.numel(),
        "torch.numel": lambda m, x: m.numel(x),
        "Tensor.nelement": lambda m, x: x.nelement(),
        "Tensor.element_size": lambda m, x: x.element_size(),
        "Tensor.tolist": lambda m, x: m.tensor(x.tolist()),
        "Tensor.device": lambda m, x: [x.device.type, str(x.device), x.device == m.device("cpu")],
        "Tensor.is_cuda": lambda m, x: int(x.is_cuda),
        "Tensor.cpu": lambda m, x: x.cpu(),
        "Tensor.requires_grad": lambda m, x: int(x.requires_grad),
        "Tensor.dtype": lambda m, x: x == m.zeros(1, dtype=x.dtype),
        "Tensor.detach": lambda m, x: x.detach(),
        "Tensor.data": lambda m, x: x.data,
        "Tensor.float": lambda m, x: x.float(),
        "Tensor.double": lambda m, x: x.double(),
        "Tensor.type": lambda m, x: [x.type(m.float64), x.type(), x.type(m.DoubleTensor)],
        "Tensor.type_as": lambda m, x: x.type_as(m.zeros(1, dtype=m.float64)),
        "Tensor.to": lambda m, x: [
            x.to(m.float64),
            x.to("cpu"),
            x.to(m.device("cpu")),
            x.to(dtype=m.float64),
            x.to("cpu", non_blocking=True),
            x.to(device="cpu", dtype=m.float32),
            x.to(m.zeros(1, dtype=m.float64)),
            x.to("cpu", m.float64),
            x.to(x, copy=True),
        ],
        "Tensor.reshape": lambda m, x: [x.reshape(-1, *x.shape), x.reshape((x.numel(),)), x.reshape(1, *x.shape, 1)],
        "Tensor.unsqueeze": lambda m, x: [x.unsqueeze(0), x.unsqueeze(-1), x.unsqueeze(dim=x.dim())],
        "Tensor.squeeze": lambda m, x: [x.squeeze(), x.unsqueeze(0).squeeze(0), x.unsqueeze(-1).squeeze(dim=-1)],
        "Tensor.flatten": lambda m, x: [x.flatten(), x.flatten(0), x.flatten(start_dim=0, end_dim=-1)],
        "torch.flatten": lambda m, x: [m.flatten(x), m.flatten(x, start_dim=-1)],
        "Tensor.expand": lambda m, x: [x.expand(2, *x.shape), x.expand((3, *x.shape)), x.expand(2, *[-1] * x.dim())],
        "Tensor.repeat": lambda m, x: [x.repeat(2, *[1] * x.dim()), x.repeat((1, *[2] * x.dim()))],
        "Tensor.masked_fill": lambda m, x: [x.masked_fill(x > 0, 3), x.masked_fill(x != x, 0)],
        "torch.where": lambda m, x: [
            m.where(x > 0, x, x * 2),
            m.where(x > 0, x, 0.0),
            m.where(x > 0, 1.0, x),
            *m.where(x > 0),
        ],
        "torch.zeros_like": lambda m, x: [m.zeros_like(x), m.zeros_like(x, dtype=m.float64, device="cpu")],
        "torch.ones_like": lambda m, x: [m.ones_like(x), m.ones_like(x, dtype=m.int64)],
        "torch.full_like": lambda m, x: [m.full_like(x, 3), m.full_like(x, 2.5, dtype=m.float64)],
        "Tensor.new_zeros": lambda m, x: [x.new_zeros(2, 3), x.new_zeros((2,)), x.new_zeros(1, dtype=m.int64, device="cpu")],
        "Tensor.nonzero": lambda m, x: [x.nonzero(), *x.nonzero(as_tuple=True)],
        "torch.nonzero": lambda m, x: [m.nonzero(x), *m.nonzero(x, as_tuple=True)],
        "torch.unique": lambda m, x: (
            [m.unique(x.detach()), *m.unique(x.detach(), return_inverse=True, return_counts=True)] if not (x != x).any() else []
        ),
        "Tensor.repeat_interleave": lambda m, x: x.repeat_interleave(2),
        "torch.repeat_interleave": lambda m, x: [m.repeat_interleave(x, 3), m.repeat_interleave(x.unsqueeze(0), 2, dim=0)],
        "op: a & b": lambda m, x: [(x > 0) & (x < 1), (x > 0) & True],
        "op: a | b": lambda m, x: (x > 1) | (x < 1),
        "op: ~a": lambda m, x: ~(x > 0),
        "Tensor.bool": lambda m, x: x.bool(),
        "Tensor.numpy": lambda m, x: x.detach().numpy(),
        "Tensor.requires_grad_": lambda m, x: x.detach().requires_grad_(),
        "Tensor.is_leaf": lambda m, x: int(x.is_leaf),
    },
    "floats integers": {
        "Tensor.abs": lambda m, x: x.abs(),  # of NaN the slope is NaN here, 0 in PyTorch
        "torch.abs": lambda m, x: m.abs(x),
        "Tensor.T": lambda m, x: x.T if x.dim() == 2 else x,
        "Tensor.t": lambda m, x: x.t(),
        "Tensor.sum": lambda m, x: [
            x.sum(),
            x.sum(dtype=m.float64),
            x.unsqueeze(0).sum(0),
            x.unsqueeze(0).sum(dim=-1, keepdim=True),
            x.unsqueeze(0).sum(axis=0, keepdims=True),
            x.sum(dim=tuple(range(x.dim()))),
        ],
        "torch.sum": lambda m, x: [m.sum(x), m.sum(x.unsqueeze(0), dim=0), m.sum(input=x)],
        "Tensor.any": lambda m, x: [x.any(), x.unsqueeze(0).any(dim=0), x.unsqueeze(0).any(-1)],
        "torch.any": lambda m, x: [m.any(x), m.any(x.unsqueeze(0), dim=0)],
        "Tensor.all": lambda m, x: [x.all(), x.unsqueeze(0).all(dim=-1, keepdim=True)],
        "torch.all": lambda m, x: [m.all(x), m.all(x.unsqueeze(0), 0)],
        "Tensor.max": lambda m, x: x.max(),
        "torch.max": lambda m, x: m.max(x),
        "Tensor.argmax": lambda m, x: x.argmax(),
        "Tensor.argmin": lambda m, x: x.argmin(),
        "torch.argmax": lambda m, x: m.argmax(x),
        "torch.argmin": lambda m, x: m.argmin(x),
        "Tensor.int": lambda m, x: x.int(),
        "Tensor.long": lambda m, x: x.long(),
        "torch.roll": lambda m, x: m.roll(x, 1),
    },
    "floats special": {
        "torch.cos": lambda m, x: m.cos(x),
        "Tensor.cos": lambda m, x: x.cos(),
        "torch.sin": lambda m, x: m.sin(x),
        "Tensor.sin": lambda m, x: x.sin(),
        "torch.tanh": lambda m, x: m.tanh(x),
        "torch.exp": lambda m, x: m.exp(x),
        "Tensor.exp": lambda m, x: x.exp(),
        "torch.sigmoid": lambda m, x: m.sigmoid(x),
        "torch.sqrt": lambda m, x: m.sqrt(x),
        "Tensor.sqrt": lambda m, x: x.sqrt(),
        "torch.rsqrt": lambda m, x: m.rsqrt(x),
        "torch.log": lambda m, x: m.log(x),
        "Tensor.log": lambda m, x: x.log(),
        "Tensor.log10": lambda m, x: x.log10(),
        "torch.pow": lambda m, x: [m.pow(x, 3.0), m.pow(x, 2), m.pow(2.0, x), m.pow(input=x, exponent=2)],
        "Tensor.pow": lambda m, x: [x.pow(2), x.pow(3)],
        "op: a ** b / torch.pow": lambda m, x: [x**2, 2.0**x, x**0, x**1],
        "torch.isclose": lambda m, x: [
            m.isclose(x, x),
            m.isclose(x, x + 1e-3, atol=1e-2, rtol=0),
            m.isclose(x, x * 1.0001, rtol=1e-3),
        ],
        "torch.allclose": lambda m, x: [int(m.allclose(x, x + 1e-3, atol=1e-2)), int(m.allclose(x, x + 1))],
    },
    "floats": {
        "torch.relu": lambda m, x: m.relu(x),  # of NaN the slope is 0 here, 1 in PyTorch
        "Tensor.relu": lambda m, x: x.relu(),
        "Tensor.mean": lambda m, x: [x.mean(), x.unsqueeze(0).mean(0), x.unsqueeze(0).mean(dim=-1, keepdim=True)],
        "Tensor.var": lambda m, x: [
            x.var(),
            x.var(unbiased=False),
            x.unsqueeze(0).var(dim=-1, keepdim=True, unbiased=False),
            x.unsqueeze(-1).var(0),
            x.var(correction=0),
        ],
        "Tensor.std": lambda m, x: [x.std(), x.unsqueeze(0).std(dim=-1, keepdim=True), x.std(unbiased=False)],
        "torch.linalg.norm": lambda m, x: [
            m.linalg.norm(x),
            m.linalg.norm(x, dim=-1),
            m.linalg.norm(x, dim=-1, keepdim=True, ord=1),
        ],
        "Tensor.norm": lambda m, x: [x.norm(), x.norm(dim=-1), x.norm(p=1, dim=-1, keepdim=True)],
        "torch.linalg.vector_norm": lambda m, x: [m.linalg.vector_norm(x), m.linalg.vector_norm(x, ord=3)],
        "Tensor.retain_grad": lambda m, x: retained(x * 3),
        "Tensor.grad": lambda m, x: ((x * x * x).sum().backward(), x.grad.clone())[1],
        "Tensor.backward": lambda m, x: ((x * 2).backward(m.ones_like(x)), x.grad.clone())[1],
    },
    "vectors": {
        "Tensor.softmax": lambda m, x: [x.softmax(-1), x.softmax(dim=0)],
        "torch.softmax": lambda m, x: [m.softmax(x, -1), m.softmax(x, dim=0), m.softmax(x, dim=-1, dtype=m.float64)],
        "Tensor.log_softmax": lambda m, x: [x.log_softmax(-1), x.log_softmax(dim=0)],
        "torch.log_softmax": lambda m, x: m.log_softmax(x, dim=-1),
        "Tensor.transpose": lambda m, x: [x.transpose(0, -1), x.transpose(-1, -x.dim())],
        "torch.transpose": lambda m, x: [m.transpose(x, 0, -1), m.transpose(x, dim0=-1, dim1=0)],
        "Tensor.permute": lambda m, x: [x.permute(*range(x.dim())[::-1]), x.permute(tuple(range(x.dim())))],
        "Tensor.view": lambda m, x: [
            x.contiguous().view(-1),
            x.contiguous().view(*x.shape, 1),
            x.contiguous().view((1, *x.shape)),
        ],
        "Tensor.split": lambda m, x: [
            x.split(1),
            x.split(2, dim=-1),
            x.split(split_size=3, dim=0),
            x.split([1, x.shape[0] - 1]),
        ],
        "Tensor.chunk": lambda m, x: [x.chunk(2), x.chunk(3, dim=-1), x.chunk(chunks=1)],
        "Tensor.unbind": lambda m, x: [x.unbind(), x.unbind(dim=-1)],
        "Tensor.flip": lambda m, x: [x.flip(0), x.flip(-1), x.flip([0]), x.flip(dims=(0,))],
        "torch.flip": lambda m, x: [m.flip(x, (0,)), m.flip(x, dims=[-1])],
        "Tensor.cumsum": lambda m, x: [x.cumsum(0), x.cumsum(dim=-1)],
        "torch.cumsum": lambda m, x: [m.cumsum(x, 0), m.cumsum(x, dim=-1)],
        "torch.topk": lambda m, x: [m.topk(x, 1), m.topk(x, k=2, dim=-1), m.topk(x, 2, largest=False)] if not_tied(x) else [],
        "Tensor.index_select": lambda m, x: [x.index_select(0, m.tensor([0, 0])), x.index_select(-1, m.tensor([0]))],
        "torch.cat": lambda m, x: [m.cat([x, x * 2]), m.cat((x, x, x), dim=-1), m.cat([x], 0), m.cat([x.double(), x])],
        "torch.stack": lambda m, x: [m.stack([x, x * 2]), m.stack((x, x), dim=-1), m.stack([x, x], 1)],
        "torch.outer": lambda m, x: m.outer(x.flatten(), x.flatten() * 2),
        "op: t[...]": lambda m, x: [
            x[0],
            x[-1],
            x[...],
            x[None],
            x[..., None],
            x[:1],
            x[..., ::2],
            x[[0]],
            x[..., [-1]],
            x[m.tensor([0, 0])],
            x[x > 0],
        ],
        "Tensor.gather": lambda m, x: [
            x.gather(0, m.zeros(*x.shape, dtype=m.long)),
            x.gather(-1, m.zeros((1,) * x.dim(), dtype=m.long)),
        ],
        "torch.gather": lambda m, x: [
            m.gather(x, -1, m.zeros((1,) * x.dim(), dtype=m.long)),
            m.gather(x, dim=0, index=m.zeros((1,) * x.dim(), dtype=m.long)),
        ],
        "Tensor.max (dim)": lambda m, x: (
            [x.max(dim=-1), x.max(0, keepdim=True), m.max(x, dim=0), m.max(x, x * 2)] if not_tied(x) else []
        ),
        "Tensor.argmax (dim)": lambda m, x: [x.argmax(dim=-1), x.argmax(0, keepdim=True), m.argmax(x, dim=-1, keepdim=True)],
        "torch.histogram": lambda m, x: list(m.histogram(x.detach(), 4, range=(-3.0, 3.0))),
    },
    "matrices": {
        "Tensor.triu": lambda m, x: [x.triu(), x.triu(1), x.triu(diagonal=-1)],
        "torch.triu": lambda m, x: [m.triu(x), m.triu(x, diagonal=1), m.triu(x, -2)],
        "torch.tril": lambda m, x: [m.tril(x), m.tril(x, diagonal=1), m.tril(x, -1)],
        "op: a @ b": lambda m, x: [
            x @ x.transpose(-1, -2),
            x @ m.ones(x.shape[-1], 2, dtype=x.dtype),
            x @ m.ones(x.shape[-1], dtype=x.dtype),
        ],
        "torch.matmul": lambda m, x: [m.matmul(x, x.transpose(-1, -2)), m.matmul(input=x, other=x.mT)],
        "torch.bmm": lambda m, x: (
            m.bmm(x.reshape(-1, *x.shape[-2:]), x.reshape(-1, *x.shape[-2:]).transpose(1, 2)) if x.numel() else x
        ),
        "torch.addmm": lambda m, x: (
            m.addmm(
                m.ones(2, dtype=x.dtype),
                x.reshape(-1, max(x.shape[-1], 1)),
                m.ones(max(x.shape[-1], 1), 2, dtype=x.dtype),
                beta=0.5,
                alpha=2,
            )
            if x.numel()
            else x
        ),
        "torch.einsum": lambda m, x: [
            m.einsum("...ij,...kj->...ik", x, x),
            m.einsum("...ij->...ji", x),
            m.einsum("...ij->...", x),
        ],
    },
    "pairs": {
        "op: a + b": lambda m, x, y: [x + y, x + 2, 2.5 + x],
        "op: a - b": lambda m, x, y: [x.float() - y, 1 - x.float(), x - y if x.dtype != m.bool else x],
        "op: a * b": lambda m, x, y: [x * y, 2 * x, x * 0.5],
        "op: a / b": lambda m, x, y: [x / y, x / 2, 1.0 / y],
        "Tensor.add_": lambda m, x, y: [(x.clone().float()).add_(1), (m.zeros(2, 3) + 0).add_(2, alpha=3), x.clone().add_(y)],
    },
}


def retained(y):
    y.retain_grad()
    (y * y).sum().backward()
    return y.grad.detach()


def not_tied(x):
    """Among equal numbers PyTorch does not say which comes first."""
    values = x.detach().numpy().reshape(-1).tolist()
    return len(set(values)) == len(values)


CASES = [(family, name) for family, names in TABLE.items() for name in names]


@pytest.mark.parametrize("family,name", CASES, ids=[name for _, name in CASES])
def test_same_as_torch(walk, family, name):
    walk(TABLE[family][name], family)


@pytest.mark.parametrize("name", ["op: float(t)", "op: int(t)", "op: bool(t)", "Tensor.item", "format", "percent", "index"])
def test_a_tensor_of_one_element_is_a_number(agree, inputs, name):
    table = {
        "op: float(t)": lambda m, x: float(x.detach()),
        "op: int(t)": lambda m, x: int(x.detach()),
        "op: bool(t)": lambda m, x: int(bool(x)),
        "Tensor.item": lambda m, x: x.item(),
        "format": lambda m, x: f"{x.detach():.4f}" if x.dim() == 0 else "",
        "percent": lambda m, x: "%d %.3f" % (x.detach(), x.detach()),  # noqa: UP031  this form is tested
        "index": lambda m, x: list(range(10))[: x.long()] if x.dim() == 0 else [],
    }
    for x in [*inputs.floats, *inputs.integers]:
        agree(table[name], x)
