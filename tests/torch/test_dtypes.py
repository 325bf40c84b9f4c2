"""Which dtypes go together, and which are refused, through the door, against PyTorch."""

import numpy as np
import pytest

import tinygrad_tf.torch as ours
from tinygrad_tf.torch import nn
from tinygrad_tf.torch.nn import functional as F

DTYPES = ["bool", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"]
PRODUCTS = {
    "op: a @ b": lambda m, a, b: a @ b,
    "torch.matmul": lambda m, a, b: m.matmul(a, b),
    "torch.mm": lambda m, a, b: m.mm(a, b),
    "torch.bmm": lambda m, a, b: m.bmm(a.unsqueeze(0), b.unsqueeze(0)),
    "torch.mv": lambda m, a, b: m.mv(a, b[0]),
    "torch.dot": lambda m, a, b: m.dot(a[0], b[0]),
    "vector @ matrix": lambda m, a, b: a[0] @ b,
    "batch @ matrix": lambda m, a, b: a.unsqueeze(0) @ b,
    "F.linear": lambda m, a, b: m.nn.functional.linear(a, b),
    "F.linear with bias": lambda m, a, b: m.nn.functional.linear(a, b, b[0]),
    "F.linear with another bias": lambda m, a, b: m.nn.functional.linear(a, a, b[0]),
    "torch.einsum": lambda m, a, b: m.einsum("ij,jk->ik", a, b),
    "einsum without a sum": lambda m, a, b: [m.einsum("ij,kl->ijkl", a, b), m.einsum("ij,ij->ij", a, b)],
    "torch.addmm": lambda m, a, b: m.addmm(a, a, b),
    "addmm to another": lambda m, a, b: m.addmm(b, a, a),
    "F.layer_norm": lambda m, a, b: m.nn.functional.layer_norm(a, (2,), b[0], b[0]),
    "attention": lambda m, a, b: m.nn.functional.scaled_dot_product_attention(*(x.view(1, 1, 2, 2) for x in (a, b, a))),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_every_pair_of_dtypes(name, agree):
    """A result where PyTorch has one, an error where it has none; of booleans and halves it has none on some processors."""
    for a in DTYPES:
        for b in DTYPES:
            if (not {"bool", "float16"} & {a, b} or a != b) and not ("layer_norm" in name and "float16" in (a, b)):
                x, y = (np.array([[1, 2], [0, 1]]).astype(dtype) for dtype in (a, b))
                agree(lambda m, x, y: _detached(PRODUCTS[name](m, x, y)), x, y, rtol=1e-5)


def _detached(y):
    return [part.detach() for part in y] if isinstance(y, list) else y.detach()


@pytest.mark.parametrize("shape", [(2, 2), (0, 2), (2, 0), (1, 1), (0, 0)])
@pytest.mark.parametrize("dtypes", [("float32", "float64"), ("int64", "float32"), ("int32", "int64"), ("int64", "int64")])
def test_products_of_few_or_no_numbers(shape, dtypes, agree):
    a, b = np.ones(shape, dtypes[0]), np.ones(shape[::-1], dtypes[1])
    agree(lambda m, a, b: (a @ b).detach(), a, b)
    agree(lambda m, a, b: m.nn.functional.linear(a, b.t()).detach(), a, b)


def test_a_product_of_two_dtypes_says_what_to_do():
    x, w = ours.zeros(2, 3, dtype=ours.float64), ours.zeros(3, 2)
    with pytest.raises(TypeError, match=r"matmul: \(2, 3\) @ \(3, 2\): tensors of dtypes float64 and float32.*\.to\(dtype\)"):
        x @ w
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    with pytest.raises(TypeError, match=r"linear: .* float64 and float32, which have to be one: .*\[0\]"):
        model(x)
    assert model.double()(x).dtype == ours.float64
    with pytest.raises(TypeError, match="conv1d: an input of dtype float64 and weights of dtype float32"):
        nn.Conv1d(2, 2, 1)(ours.zeros(1, 2, 3, dtype=ours.float64))


INTEGERS = {
    "Tensor.mean": lambda m, x: [x.mean(), x.mean(0)],
    "Tensor.mean dtype": lambda m, x: [x.mean(dtype=m.float32), x.mean(0, dtype=m.float64), x.float().mean()],
    "Tensor.var": lambda m, x: x.var(),
    "Tensor.std": lambda m, x: x.std(0),
    "Tensor.softmax": lambda m, x: x.softmax(0),
    "F.softmax": lambda m, x: m.nn.functional.softmax(x, dim=-1),
    "softmax with a dtype": lambda m, x: [x.softmax(0, dtype=m.float32), x.log_softmax(-1, dtype=m.float64)],
    "F.log_softmax": lambda m, x: m.nn.functional.log_softmax(x, dim=0),
    "Tensor.norm": lambda m, x: x.norm(),
    "norm 1": lambda m, x: x.norm(1),
    "norm inf": lambda m, x: x.norm(float("inf")),
    "torch.linalg.norm": lambda m, x: m.linalg.norm(x),
    "F.normalize": lambda m, x: m.nn.functional.normalize(x, dim=0),
    "F.gelu": lambda m, x: m.nn.functional.gelu(x),
    "F.silu": lambda m, x: m.nn.functional.silu(x),
    "F.softplus": lambda m, x: m.nn.functional.softplus(x),
    "F.dropout": lambda m, x: m.nn.functional.dropout(x, 0.5, True),
    "F.dropout off": lambda m, x: m.nn.functional.dropout(x, 0.5, False),
    "F.mse_loss": lambda m, x: m.nn.functional.mse_loss(x, x),
    "F.mse_loss of one": lambda m, x: m.nn.functional.mse_loss(x.float(), x),
    "F.binary_cross_entropy": lambda m, x: m.nn.functional.binary_cross_entropy(x.float() * 0 + 0.5, x * 0 + 1),
    "F.binary_cross_entropy_with_logits": lambda m, x: m.nn.functional.binary_cross_entropy_with_logits(x.float(), x * 0 + 1),
    "F.kl_div": lambda m, x: m.nn.functional.kl_div(x.float(), x * 0 + 1),
    "multinomial": lambda m, x: m.multinomial(x * 0 + 1, 1),
    "masked_fill by numbers": lambda m, x: x.masked_fill(x, 1),
    "where by numbers": lambda m, x: m.where(x, 1.0, 2.0),
    "Tensor.exp": lambda m, x: [x.exp(), x.logsumexp(0), x.sigmoid()],
    "//": lambda m, x: [x // 2, x // -3],
}


@pytest.mark.parametrize("name", INTEGERS)
def test_what_integers_have_and_what_not(name, agree):
    for dtype in ("int64", "int32", "int16", "int8"):
        for values in ([[1, 2], [3, 0]], [[1]], [[5, -2, 7]], [[0, 0]], np.zeros((2, 0)), np.zeros((0, 3))):
            if np.size(values) or not ("softmax" in name or name in ("F.dropout", "multinomial", "Tensor.exp")):
                agree(INTEGERS[name], np.array(values).astype(dtype))  # without numbers PyTorch does not ask for their dtype


@pytest.mark.parametrize("name", ["Tensor.mean", "Tensor.std", "F.softmax", "Tensor.norm", "F.mse_loss", "//"])
def test_what_booleans_have_not(name, agree):
    for x in (np.array([[True, False]]), np.array([[True]])):
        if name != "//":
            agree(INTEGERS[name], x)


def test_integers_divided_by_zero(agree):
    for f in (lambda m, x: x // 0, lambda m, x: x % 0, lambda m, x: x // m.tensor([1, 0]), lambda m, x: x.float() // 0):
        agree(f, np.array([3, 4]))
    agree(lambda m, x: x // 0, np.zeros(0, np.int64))


TARGETS = {
    "F.cross_entropy": lambda m, x, y: m.nn.functional.cross_entropy(x, y),
    "F.cross_entropy weighted": lambda m, x, y: m.nn.functional.cross_entropy(x, y, weight=m.ones(3)),
    "F.cross_entropy of one": lambda m, x, y: m.nn.functional.cross_entropy(x[0], y[0]),
    "F.cross_entropy (N, C, T)": lambda m, x, y: m.nn.functional.cross_entropy(x.view(1, 4, 3).transpose(1, 2), y.view(1, 4)),
    "F.nll_loss": lambda m, x, y: m.nn.functional.nll_loss(x, y),
    "F.embedding": lambda m, x, y: m.nn.functional.embedding(y, x),
    "nn.Embedding": lambda m, x, y: m.nn.Embedding.from_pretrained(x)(y),
    "F.one_hot": lambda m, x, y: m.nn.functional.one_hot(y, 3),
}


@pytest.mark.parametrize("name", TARGETS)
def test_ids_of_every_dtype(name, agree):
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    for dtype in DTYPES:
        if not (dtype == "uint8" and "(N, C, T)" in name):
            agree(TARGETS[name], x, np.array([0, 1, 1, 0]).astype(dtype))


def test_arrays_and_lists_of_ids_may_be_any_integers():
    """What a corpus is stored in."""
    x = ours.tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))
    ids = [0, 2, 1, 0]
    for dtype in ("uint8", "uint16", "int16", "int32", "int64"):
        array = np.array(ids, dtype)
        assert F.embedding(array, x).equal(F.embedding(ours.tensor(ids), x))
        assert F.cross_entropy(x, array).equal(F.cross_entropy(x, ours.tensor(ids)))
    assert F.embedding(ids, x).shape == (4, 3)
    with pytest.raises(TypeError, match=r"a tensor of ids is int64 or int32 here, not float32: \.long\(\) converts"):
        F.embedding(x[0], x)
    with pytest.raises(TypeError, match=r"ids must be integers, not float32"):
        F.embedding(np.zeros(2, np.float32), x)


NO_GRADIENT = {
    "requires_grad_": lambda m, x: x.requires_grad_(),
    "tensor": lambda m, x: m.tensor([1], requires_grad=True),
    "ones": lambda m, x: m.ones(2, dtype=m.int64, requires_grad=True),
    "arange": lambda m, x: m.arange(3, requires_grad=True),
    "full": lambda m, x: m.full((2,), 1, requires_grad=True),
    "Parameter": lambda m, x: m.nn.Parameter(x),
    "Parameter without": lambda m, x: m.nn.Parameter(x, requires_grad=False).detach(),
    "Variable": lambda m, x: m.autograd.Variable(x, requires_grad=True),
    "no": lambda m, x: x.requires_grad_(False),
    "eye": lambda m, x: m.eye(2, requires_grad=True),
}


@pytest.mark.parametrize("name", NO_GRADIENT)
def test_integers_have_no_gradient(name, agree):
    for dtype in ("int64", "int32", "uint8", "bool"):
        agree(NO_GRADIENT[name], np.array([1, 0]).astype(dtype))


def test_integers_whose_flag_is_set_by_hand_are_refused_at_backward():
    x = ours.tensor([1, 2])
    x.requires_grad = True
    with pytest.raises(RuntimeError, match="leaf of dtype int64: only floats have a gradient"):
        (x * ours.tensor([1.0, 2.0])).sum().backward()
