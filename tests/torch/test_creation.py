"""Functions that make tensors, dtypes and the older constructors, against PyTorch; random ones by their mean and spread."""

import math

import numpy as np
import pytest

import tinygrad_tf.torch as ours

SHAPES = [(), (1,), (3,), (0,), (2, 3), (3, 1), (2, 0), (1, 1, 5), (2, 3, 4), (4, 1, 2)]
FILLED = {
    "torch.zeros": lambda m, s: [
        m.zeros(*s or (1,)),
        m.zeros(s),
        m.zeros(s, dtype=m.long),
        m.zeros(s, device="cpu"),
        m.zeros(s, requires_grad=True).detach(),
    ],
    "torch.ones": lambda m, s: [m.ones(*s or (2,)), m.ones(s), m.ones(size=s), m.ones(s, dtype=m.bool, device=m.device("cpu"))],
    "torch.empty": lambda m, s: [m.zeros_like(m.empty(s)), m.empty(s, dtype=m.int64, device="cpu").shape == tuple(s)],
    "torch.full": lambda m, s: [
        m.full(s, 3),
        m.full(s, 2.5),
        m.full(s, -m.inf),
        m.full(s, True),
        m.full(s, 1, dtype=m.float64, device="cpu"),
    ],
    "torch.Tensor": lambda m, s: [m.Tensor(np.ones(s)), m.Tensor([1, 2]), m.Tensor([[1.5], [2]]), list(m.Tensor(2, 3).shape)],
    "torch.FloatTensor": lambda m, s: [m.FloatTensor(np.ones(s, np.float32)), m.FloatTensor([1, 2])],
    "torch.LongTensor": lambda m, s: [m.LongTensor(np.ones(s or 1, np.int64)), m.LongTensor([[1, 2]])],
    "torch.IntTensor": lambda m, s: [m.IntTensor(np.ones(s or 1, np.int32)), m.IntTensor([1, 2])],
    "torch.BoolTensor": lambda m, s: [m.BoolTensor(np.ones(s or 1, bool)), m.BoolTensor([True, False])],
    "torch.tensor": lambda m, s: [
        m.tensor(np.ones(s)),
        m.tensor(np.ones(s).tolist()),
        m.tensor(np.ones(s, np.int32)),
        m.tensor(np.ones(s), dtype=m.float32),
        m.tensor(np.ones(s).tolist(), dtype=m.long, device="cpu"),
        m.tensor(3),
        m.tensor(2.5),
        m.tensor([True]),
        m.tensor([]),
        m.tensor([[1, 2.5]]),
        m.tensor([m.tensor(1), m.tensor(2)]),
    ],
    "torch.as_tensor": lambda m, s: [
        m.as_tensor(np.ones(s)),
        m.as_tensor([1, 2]),
        m.as_tensor(m.ones(s), dtype=m.long, device="cpu"),
    ],
    "torch.from_numpy": lambda m, s: [m.from_numpy(np.ones(s)), m.from_numpy(np.ones(s, np.int64))],
    "torch.autograd.Variable": lambda m, s: m.autograd.Variable(m.ones(s)),
    "torch.Generator": lambda m, s: m.rand(s, generator=m.Generator(device="cpu").manual_seed(1)) < 1,
    "nn.Parameter": lambda m, s: [m.nn.Parameter(m.ones(s)).detach(), m.nn.Parameter(m.ones(s), requires_grad=False)],
}
RANGES = [(5,), (0,), (1, 4), (-2, 3), (0, 10, 3), (5, 0, -2), (0, 1, 0.25), (2.5,), (1.0, 3.0), (0.5, 2, 0.5), (3, 3), (7, 8)]


@pytest.mark.parametrize("name", FILLED)
def test_filled_tensors_are_the_same(agree, name):
    for shape in SHAPES:
        agree(FILLED[name], shape)


def test_ranges_are_the_same(agree):
    """torch.arange torch.linspace torch.triu_indices torch.randperm"""
    for given in RANGES:
        agree(lambda m, given: [m.arange(*given), m.arange(*given, dtype=m.float64, device="cpu")], given)
        agree(lambda m, given: m.linspace(given[0], given[-1], 7), given)
        rows, columns = abs(int(given[0])), abs(int(given[-1]))
        agree(lambda m, i, j: [m.triu_indices(i, j), m.triu_indices(i, j, offset=1), m.tril_indices(i, j, -1)], rows, columns)
        agree(lambda m, n: m.randperm(n).sort()[0], columns)
    agree(lambda m: [m.arange(start=1, end=5, step=2), m.arange(m.tensor(4)), m.arange(0, m.tensor(3)), m.eye(3), m.eye(2, 3)])


def test_dtypes_and_constants(agree):
    """torch.device torch.finfo torch.float torch.float32 torch.long torch.int64 torch.int torch.int32 torch.int8 torch.uint8
    torch.bool torch.inf torch.pi"""
    for name in (
        "float",
        "float32",
        "float64",
        "double",
        "half",
        "float16",
        "long",
        "int64",
        "int",
        "int32",
        "short",
        "int8",
        "uint8",
        "int16",
        "bool",
    ):
        agree(lambda m, d: [m.zeros(2, dtype=getattr(m, d)), getattr(m, d).itemsize, m.zeros(1).to(getattr(m, d))], name)
        if name[0] in "fdh":
            agree(lambda m, d: [getattr(m.finfo(getattr(m, d)), part) for part in ("min", "max", "eps", "tiny", "bits")], name)
    agree(lambda m: [m.inf, m.pi, m.sqrt(m.tensor(2.0 / m.pi)), m.nan != m.nan, m.iinfo(m.int32).max])
    assert ours.long is ours.int64
    assert {ours.bfloat16: "half", ours.float16: "half"}[ours.bfloat16] == "half"


def test_instances(agree):
    names = ["Tensor", "FloatTensor", "LongTensor", "BoolTensor"]
    for make in (
        lambda m: m.ones(2),
        lambda m: m.ones(2, dtype=m.long),
        lambda m: m.nn.Parameter(m.ones(1)),
        lambda m: m.ones(1) > 0,
    ):
        agree(lambda m, make: [int(isinstance(make(m), getattr(m, n))) for n in names] + [int(m.is_tensor(make(m)))], make)


DRAWN = {  # name of PyTorch -> what is drawn
    "torch.rand": lambda m, s, g: m.rand(*s, generator=g),
    "torch.randn": lambda m, s, g: m.randn(s, generator=g, dtype=m.float64, device="cpu", requires_grad=True).detach(),
    "torch.randint": lambda m, s, g: m.randint(low=-3, high=4, size=s, generator=g),
    "Tensor.normal_": lambda m, s, g: m.empty(s).normal_(mean=1.0, std=2.0, generator=g),
    "nn.init.normal_": lambda m, s, g: m.nn.init.normal_(m.empty(s), mean=0.5, std=0.1, generator=g),
    "nn.init.uniform_": lambda m, s, g: m.nn.init.uniform_(m.empty(s), a=-1, b=2),
    "nn.init.xavier_uniform_": lambda m, s, g: m.nn.init.xavier_uniform_(m.empty(s)),
    "nn.init.kaiming_uniform_": lambda m, s, g: m.nn.init.kaiming_uniform_(m.empty(s), a=math.sqrt(5)),
    "nn.init.trunc_normal_": lambda m, s, g: m.nn.init.trunc_normal_(m.empty(s), std=0.5, a=-0.4, b=2.0, generator=g),
    "nn.init.trunc_normal_, by default": lambda m, s, g: m.nn.init.trunc_normal_(m.empty(s), generator=g),
    "nn.init.trunc_normal_, far": lambda m, s, g: m.nn.init.trunc_normal_(m.empty(s), mean=1.0, std=2.0, a=4.0, b=9.0),
    "nn.init.orthogonal_": lambda m, s, g: m.nn.init.orthogonal_(m.empty(s), gain=2.0, generator=g),
    "nn.init.xavier_normal_": lambda m, s, g: m.nn.init.xavier_normal_(m.empty(s), gain=0.5),
    "nn.init.kaiming_normal_": lambda m, s, g: m.nn.init.kaiming_normal_(m.empty(s), mode="fan_out", nonlinearity="relu"),
    "Tensor.exponential_": lambda m, s, g: m.empty(s).exponential_(2.0, generator=g),
    "Tensor.random_": lambda m, s, g: m.empty(s, dtype=m.long).random_(-3, 9, generator=g),
    "Tensor.random_, from 0": lambda m, s, g: m.empty(s).random_(7, generator=g),
    "Tensor.bernoulli_": lambda m, s, g: m.empty(s).bernoulli_(0.3, generator=g),
    "Tensor.multinomial": lambda m, s, g: m.tensor([1.0, 3.0]).multinomial(math.prod(s), replacement=True, generator=g),
    "F.gumbel_softmax": lambda m, s, g: m.nn.functional.gumbel_softmax(m.zeros(*s, 2))[..., 0],
    "F.gumbel_softmax, hard": lambda m, s, g: m.nn.functional.gumbel_softmax(m.arange(s[1]).expand(s) * 0.1, hard=True),
    "nn.init.kaiming_uniform": lambda m, s, g: m.nn.init.kaiming_uniform(m.empty(s)),
    "torch.multinomial": lambda m, s, g: m.multinomial(
        m.tensor([0.5, 0.25, 0.25]), num_samples=math.prod(s), replacement=True, generator=g
    ),
    "torch.randperm": lambda m, s, g: m.randperm(math.prod(s), generator=g),
}


@pytest.mark.parametrize("name", DRAWN)
def test_random_numbers_have_the_same_shape_dtype_mean_and_spread_and_come_again_with_the_seed(oracle, name):
    shape = (300, 100)
    mine, theirs = [DRAWN[name](m, shape, m.Generator().manual_seed(3)) for m in (ours, oracle)]
    assert tuple(mine.shape) == tuple(theirs.shape)
    assert str(mine.dtype) == str(theirs.dtype).removeprefix("torch.")
    a, b = mine.numpy().astype(float), theirs.numpy().astype(float)
    assert abs(a.mean() - b.mean()) < 0.03 * (1e-3 + b.std()) * 2
    assert abs(a.std() - b.std()) < 0.03 * b.std()
    for i in range(10):  # the same again, and another with another seed
        draws = []
        for seed in (i, i, i + 1):
            ours.manual_seed(seed)
            draws.append(DRAWN[name](ours, (7, 5), ours.Generator().manual_seed(seed)).tolist())
        assert draws[0] == draws[1]
        assert draws[0] != draws[2]


@pytest.mark.parametrize("shape", [(5, 5), (3, 7), (7, 3), (1, 4), (4, 1), (1, 1), (4, 2, 3), (2, 3, 1, 2), (9, 9), (0, 3)])
def test_an_orthogonal_matrix(oracle, shape):
    """nn.init.orthogonal_: of the rows, or of the columns if they are fewer, every product is that of the identity."""
    for m in (ours, oracle):
        x = m.nn.init.orthogonal_(m.empty(shape, dtype=m.float64), gain=3.0).numpy().reshape(shape[0], math.prod(shape[1:]))
        x = x if x.shape[0] <= x.shape[1] else x.T
        np.testing.assert_allclose(x @ x.T, 9 * np.eye(len(x)), atol=1e-9)


def test_truncated_draws_stay_inside():
    for a, b in [(-2, 2), (0, 0.1), (3, 9), (-9, -8.5), (-1, 50), (12, 13)]:
        x = ours.nn.init.trunc_normal_(ours.empty(1000), a=a, b=b)
        assert a <= x.min() <= x.max() <= b


def test_a_hard_gumbel_softmax_has_the_gradient_of_the_soft_one():
    x = ours.zeros(4, 3, requires_grad=True)
    y = ours.nn.functional.gumbel_softmax(x, tau=0.7, hard=True)
    assert sorted(y.detach().flatten().round().tolist()) == [0] * 8 + [1] * 4
    (y * ours.arange(3.0)).sum().backward()
    assert x.grad.abs().sum() > 0
    np.testing.assert_allclose(x.grad.sum(-1).numpy(), 0, atol=1e-6)


@pytest.mark.parametrize(
    "f",
    [
        lambda m: m.nn.init.orthogonal_(m.empty(3)),
        lambda m: m.nn.init.eye_(m.empty(3)),
        lambda m: m.bincount(m.tensor([-1])),
        lambda m: m.bincount(m.tensor([0.5])),
        lambda m: m.lerp(m.tensor([1]), m.tensor([2]), 0.5),
        lambda m: m.logaddexp(m.tensor([1]), m.tensor([2])),
        lambda m: m.addcdiv(m.tensor([1]), m.tensor([1]), m.tensor([2])),
        lambda m: m.histc(m.tensor([1, 2]), 2),
        lambda m: m.dot(m.ones(2), m.ones(3)),
        lambda m: m.mv(m.ones(2, 3), m.ones(3, 1)),
        lambda m: m.trace(m.ones(2)),
        lambda m: m.empty(3).random_(4, 4),
        lambda m: m.ones(3).fill_diagonal_(1),
        lambda m: m.searchsorted(m.ones(2, 3), m.ones(3, 3)),
        lambda m: m.meshgrid(m.ones(2), indexing="yx"),
        lambda m: m.diag(m.ones(1, 1, 1)),
        lambda m: m.kthvalue(m.ones(3), 4),
        lambda m: m.ones(3, 0).median(1),
        lambda m: m.ones(4).unflatten(0, (3, 2)),
        lambda m: m.ones(4).unfold(0, 5, 1),
        lambda m: m.ones(4).movedim((0,), (0, 1)),
        lambda m: m.cartesian_prod(m.ones(2, 2)),
        lambda m: m.combinations(m.ones(2, 2)),
        lambda m: m.nn.functional.glu(m.ones(3)),
        lambda m: m.nn.functional.prelu(m.ones(3, 4), m.ones(3)),
        lambda m: m.nn.functional.huber_loss(m.ones(3), m.ones(3), delta=0.0),
        lambda m: m.nn.functional.smooth_l1_loss(m.ones(3), m.ones(3), beta=-1.0),
        lambda m: m.nn.functional.conv2d(m.ones(1, 2, 3, 3), m.ones(1, 3, 2, 2)),
        lambda m: m.nn.functional.conv1d(m.ones(1, 2, 3), m.ones(1, 2, 4)),
        lambda m: m.nn.functional.conv1d(m.ones(1, 2, 3), m.ones(1, 2, 2), padding="same", stride=2),
        lambda m: m.nn.functional.max_pool1d(m.ones(1, 2, 3), 2, padding=2),
        lambda m: m.nn.functional.group_norm(m.ones(1, 3, 3), 2),
        lambda m: m.nn.functional.embedding_bag(m.tensor([1]), m.ones(2, 2)),
        lambda m: m.nn.functional.embedding_bag(m.tensor([[2]]), m.ones(2, 2)),
        lambda m: m.nn.functional.embedding_bag(m.tensor([1]), m.ones(2, 2), m.tensor([1])),
        lambda m: m.nn.functional.cosine_embedding_loss(m.ones(2, 2), m.ones(2, 2), m.tensor(1)),
        lambda m: m.randint(0, (2,)),
        lambda m: m.randint(3, 3, (2,)),
        lambda m: m.multinomial(m.zeros(3), 1),
        lambda m: m.multinomial(m.tensor([1.0, -1.0]), 1),
        lambda m: m.zeros(-1),
        lambda m: m.multinomial(m.ones(3), 4),
        lambda m: m.full((2,), "a"),
        lambda m: m.tensor("a"),
        lambda m: m.arange(0, 5, 0),
        lambda m: m.tensor([[1], [1, 2]]),
        lambda m: m.cat([]),
        lambda m: m.stack([]),
        lambda m: m.cat([m.ones(2), m.ones(2, 2)]),
        lambda m: m.stack([m.ones(2), m.ones(3)]),
        lambda m: m.zeros(2, dtype=m.float32, device="cuda"),
        lambda m: m.cos(1.0),
        lambda m: m.cos(np.ones(2)),
        lambda m: m.zeros(2).view(3),
        lambda m: m.zeros(3).split(0),
        lambda m: m.ones(2) @ m.ones(3),
        lambda m: m.ones(2).transpose(0, 1),
        lambda m: m.ones(3)[5],
        lambda m: m.ones(3)[[4]],
        lambda m: m.ones(2, 2).item(),
        lambda m: bool(m.ones(2)),
        lambda m: int(m.ones(2)),
        lambda m: m.ones(2).requires_grad_().numpy(),
        lambda m: m.ones(1).backward(),
        lambda m: m.ones(2, requires_grad=True).mul(2).backward(),
        lambda m: m.ones(2, dtype=m.long).requires_grad_(),
        lambda m: m.ones(2).softmax(2),
        lambda m: m.ones(2).topk(3),
        lambda m: m.ones(2).gather(0, m.tensor([2])),
        lambda m: m.ones(3).t().t(1),
        lambda m: m.ones(2, 2, 2).t(),
        lambda m: m.ones(2).expand(3),
        lambda m: m.ones(2).repeat(),
        lambda m: m.einsum("ij", m.ones(2)),
        lambda m: m.einsum("i,j->k", m.ones(2), m.ones(2)),
        lambda m: m.ones(2).index_select(0, m.tensor([3])),
        lambda m: iter(m.tensor(1)),
        lambda m: len(m.tensor(1)),
        lambda m: m.ones(2).cuda(),
        lambda m: m.ones(2).to("cuda"),
        lambda m: range(3)[m.tensor(1.0)],
        lambda m: m.ones(2, requires_grad=True).add_(1),
        lambda m: m.bernoulli(m.tensor([2.0])),
        lambda m: m.device("nowhere"),
    ],
)
def test_errors_where_pytorch_has_them(oracle, f):
    for module in (oracle, ours):
        with pytest.raises(Exception):  # noqa: B017, PT011  each module has its own kinds
            f(module)
