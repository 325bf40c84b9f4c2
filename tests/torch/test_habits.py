"""Small things that programs written for PyTorch do: printing, closures, prefixes, changes in place; compared with PyTorch."""

import warnings

import numpy as np
import pytest

import tinygrad_tf.torch as ours
from tinygrad_tf.torch import nn
from tinygrad_tf.torch.nn import functional as F

# ------------------------------------------------------------------------------------------------ printing


def printed():
    rng = np.random.default_rng(0)
    for x in (1.5, 2, [], [1, 2.5], [np.nan, np.inf, 1.5, -2], [np.nan, -np.inf, 1, -2], [1e-5, 1], [1e9, 1], [1001, 1]):
        yield np.array(x, np.float32)
    yield from (np.array(x, np.float32) for x in ([1e-3, 999], [0, 0.5], [1e38, 1], [0, -0.0], [-1e-8, 0]))
    yield from (np.zeros(shape, np.float32) for shape in ((2, 3), (0, 3), (2, 0, 4), (1, 1, 1)))
    yield from (np.array(x) for x in (7, [3, -12, 100], [[True, False]], [True], np.zeros((0, 2), np.int64), np.zeros(0, bool)))
    for n in (1, 7, 8, 9, 10, 11, 12, 20, 40, 80, 200, 1000):
        for scale in (1e-3, 1, 300):
            yield (rng.standard_normal(n) * scale).astype(np.float32)
        yield rng.integers(-1000, 1000, n)
        yield np.round(rng.standard_normal(n) * 100).astype(np.float32)
    few, many = ((2, 3), (3, 12), (2, 2, 17), (30, 4), (2, 3, 4), (2, 2, 2, 2)), ((40, 40), (4, 5, 60), (3, 40, 40), (2000, 1))
    for shape in (*few, *many):
        yield rng.uniform(0.1, 9, shape).astype(np.float32)  # with exponents a line with an ellipsis may break elsewhere
        yield rng.integers(0, 50, shape)
        yield rng.standard_normal(shape) > 0


def test_a_tensor_prints_as_in_pytorch(oracle):
    for array in printed():
        theirs = str(oracle.tensor(array)).replace("torch.", "")
        assert str(ours.tensor(array)) == theirs, (array.shape, array.dtype)


def test_print_options(oracle):
    arrays = [a for a in printed() if a.size < 300]
    few, many = np.linspace(0, 1, 50, dtype=np.float32), np.arange(2000)
    try:
        for options in (
            {"precision": 2},
            {"precision": 6, "linewidth": 120},
            {"sci_mode": True},
            {"sci_mode": False, "precision": 3},
            {"threshold": 10, "edgeitems": 1},
            {"profile": "short"},
            {"profile": "full"},
            {"profile": "default"},
        ):
            for m in (ours, oracle):
                m.set_printoptions(**options)
            for array in (*arrays, few, many) if "sci_mode" not in options else (few, few[:5] * 1e-6, few[:3] * 1e9):
                if "threshold" not in options or (array.dtype.kind == "f" and array.ndim == 1):
                    theirs = str(oracle.tensor(array)).replace("torch.", "")
                    assert str(ours.tensor(array)) == theirs, (options, array.shape, array.dtype)
    finally:
        for m in (ours, oracle):
            m.set_printoptions(profile="default")


def test_a_gradient_and_another_dtype_are_printed_too(oracle):
    for array in (np.ones(2), np.ones(2, np.float16), np.ones((0, 2)), np.ones(2, np.int32), np.array(2, np.uint8)):
        assert str(ours.tensor(array)) == str(oracle.tensor(array)).replace("torch.", "")
    for m in (ours, oracle):
        x = m.ones(2, requires_grad=True)
        assert str(x) == "tensor([1., 1.], requires_grad=True)"
        assert str(x * 2).startswith("tensor([2., 2.], grad_fn=<")


@pytest.mark.parametrize("spec", ["", ".4f", "8.2e", ">6", "d", "g"])
def test_a_tensor_in_a_format_string(spec, oracle):
    for number in (1.5, 0.1, 3, -2, True, 1e10):
        results = []
        for m in (ours, oracle):
            try:
                results.append(format(m.tensor(number), spec))
            except ValueError as error:
                results.append(str(error))
        assert results[0] == results[1]
    for m in (ours, oracle):
        x = m.tensor([1.5, 2.0])
        assert f"{x}" == str(x) == "tensor([1.5000, 2.0000])"
        with pytest.raises((TypeError, ValueError)):
            f"{x:.2f}"


def test_what_loading_a_state_says(oracle):
    for m in (ours, oracle):
        model = m.nn.Linear(2, 3)
        answer = model.load_state_dict(model.state_dict())
        assert str(answer) == repr(answer) == "<All keys matched successfully>"
        other = model.load_state_dict({"weight": m.zeros(3, 2), "more": m.zeros(1)}, strict=False)
        assert (other.missing_keys, other.unexpected_keys) == (["bias"], ["more"])
        missing, unexpected = other
        assert (missing, unexpected) == (["bias"], ["more"])
        assert "missing_keys=['bias'], unexpected_keys=['more']" in repr(other)


def test_compared_with_none_and_with_text(oracle):
    for m in (ours, oracle):
        for x in (m.ones(2, 3), m.tensor(1.0), m.zeros(0)):
            assert (x == None) is (x == "a") is False  # noqa: E711
            assert (x != None) is (x != "a") is True  # noqa: E711
            assert None not in [x]


# ------------------------------------------------------------------------------------------------ in place

IN_PLACE = {
    "pow_": lambda m, y, b: y.pow_(2),
    "pow_ 3.0": lambda m, y, b: y.pow_(3.0),
    "pow_ tensor": lambda m, y, b: y.abs_().pow_(b),
    "**=": lambda m, y, b: y.__ipow__(2),
    "log_": lambda m, y, b: y.abs_().log_(),
    "abs_": lambda m, y, b: y.abs_(),
    "exp_": lambda m, y, b: y.exp_(),
    "sqrt_": lambda m, y, b: y.abs_().sqrt_(),
    "rsqrt_": lambda m, y, b: y.abs_().rsqrt_(),
    "reciprocal_": lambda m, y, b: y.reciprocal_(),
    "square_": lambda m, y, b: y.square_(),
    "log1p_": lambda m, y, b: y.abs_().log1p_(),
    "sin_": lambda m, y, b: y.sin_(),
    "cos_": lambda m, y, b: y.cos_(),
    "tanh_": lambda m, y, b: y.tanh_(),
    "sigmoid_": lambda m, y, b: y.sigmoid_(),
    "relu_": lambda m, y, b: y.relu_(),
    "neg_": lambda m, y, b: y.neg_(),
    "mul_": lambda m, y, b: y.mul_(b),
    "div_": lambda m, y, b: y.div_(b),
    "add_": lambda m, y, b: y.add_(b),
    "add_ itself": lambda m, y, b: y.add_(y),
    "mul_ itself": lambda m, y, b: y.mul_(y),
    "mul_ twice": lambda m, y, b: y.mul_(b).mul_(b),
    "clamp_": lambda m, y, b: y.clamp_(-0.5, 1),
    "tril_": lambda m, y, b: y.tril_(),
    "triu_": lambda m, y, b: y.triu_(diagonal=1),
    "pow_ of a part": lambda m, y, b: y[:, 1:].pow_(2),
    "mul_ of a part": lambda m, y, b: y[0].mul_(b[0]),
    "abs_ of a part": lambda m, y, b: y.t().abs_(),
}
BEFORE = {"product": lambda x: x * 1.5, "sin": lambda x: x.sin(), "exp": lambda x: x.exp(), "tanh": lambda x: x.tanh()}


@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_in_the_middle_of_a_graph(name, before, oracle):
    """The same values and gradients, or an error at backward in both: what came before may need its own result."""
    for shape in ((2, 3), (1, 1), (3, 3), (0, 2), (4, 1)):
        outcomes = []
        for m in (ours, oracle):
            x = m.tensor(np.linspace(-1.3, 1.7, int(np.prod(shape))).reshape(shape), requires_grad=True)
            b = m.tensor(np.linspace(0.5, 2, int(np.prod(shape))).reshape(shape), requires_grad=True)
            y = BEFORE[before](x)
            try:
                IN_PLACE[name](m, y, b)
                (y * m.tensor(np.linspace(1, 2, int(np.prod(shape))).reshape(shape))).sum().backward()
                outcomes.append([y.detach().numpy(), x.grad.numpy(), None if b.grad is None else b.grad.numpy()])
            except (RuntimeError, IndexError) as error:
                outcomes.append(type(error))
        mine, theirs = outcomes
        if isinstance(theirs, type) or isinstance(mine, type):
            assert mine == theirs
            continue
        for a, b in zip(mine, theirs):
            assert (a is None) == (b is None)
            if a is not None:
                np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


# ------------------------------------------------------------------------------------------------ optimizers


OPTIMIZERS = {
    "optim.SGD": lambda m, p, **o: m.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1, **o),
    "optim.Adam": lambda m, p, **o: m.optim.Adam(p, lr=0.1, weight_decay=0.1, **o),
    "optim.AdamW": lambda m, p, **o: m.optim.AdamW(p, lr=0.1, **o),
    "optim.RMSprop": lambda m, p, **o: m.optim.RMSprop(p, lr=0.1, momentum=0.5, centered=True, **o),
    "optim.Adagrad": lambda m, p, **o: m.optim.Adagrad(p, lr=0.1, weight_decay=0.1, **o),
}


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_maximize_and_a_closure(name, maximize, oracle):
    ends = []
    for m in (ours, oracle):
        p = m.tensor(np.array([0.5, -1.0, 2.0, 0.0]), requires_grad=True)
        q = m.tensor(np.ones((2, 2)), requires_grad=True)
        optimizer = OPTIMIZERS[name](m, [p, q], maximize=maximize)
        assert optimizer.param_groups[0]["maximize"] is maximize

        def closure(p=p, q=q, optimizer=optimizer):
            optimizer.zero_grad()
            loss = ((p - 1) ** 2).sum() + (q * p[:2]).sum()
            loss.backward()
            return loss

        losses = [optimizer.step(closure).item() for _ in range(3)]
        with m.no_grad():
            losses.append(optimizer.step(closure).item())  # recorded all the same
        assert optimizer.step() is None
        again = OPTIMIZERS[name](m, [p, q])
        again.load_state_dict(optimizer.state_dict())
        assert again.param_groups[0]["maximize"] is maximize
        ends.append([losses, p.detach().numpy(), q.detach().numpy()])
    for mine, theirs in zip(*ends):
        np.testing.assert_allclose(mine, theirs, rtol=1e-8)


def test_muon_takes_a_closure():
    w = nn.Parameter(ours.ones(2, 2))
    optimizer = ours.optim.Muon([w])

    def closure():
        loss = (w * w).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 4
    assert not w.detach().equal(ours.ones(2, 2))


# ------------------------------------------------------------------------------------------------ gradients and modules


def test_grad_with_every_argument_of_pytorch(agree):
    for x in (np.array([1.0, 2.0]), np.array(3.0), np.zeros(0), np.ones((2, 1))):
        agree(lambda m, x: list(m.autograd.grad((x * x).sum(), x, only_inputs=True)), x)
        agree(lambda m, x: list(m.autograd.grad((x * x).sum(), x, None, None, False, True, False)), x)
        agree(lambda m, x: list(m.autograd.grad(x.sum(), [x, m.ones(2, requires_grad=True)], allow_unused=True)), x)
        agree(lambda m, x: list(m.autograd.grad(x.sum(), [x, m.ones(2, requires_grad=True)], materialize_grads=True)), x)
        agree(lambda m, x: list(m.autograd.grad(x.sum(), [x, m.ones(2, requires_grad=True)])), x)
    with pytest.raises(NotImplementedError, match=r"is_grads_batched=True is not supported: call grad\(\) once"):
        ours.autograd.grad(ours.ones(1, requires_grad=True).sum(), [], is_grads_batched=True)


def test_a_function_with_a_backward_of_its_own_names_the_way():
    class Double(ours.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return 2 * x

    for use in (lambda: Double.apply(ours.ones(1)), lambda: Double()):
        with pytest.raises(NotImplementedError, match=r"torch.autograd.Function is not supported: write an op: @op"):
            use()


def tied(m):
    model = m.nn.Module()
    model.first, model.second = m.nn.Linear(2, 2, bias=False), m.nn.Linear(2, 2)
    model.second.weight = model.first.weight
    model.register_buffer("mask", m.ones(2))
    model.scale = m.nn.Parameter(m.ones(1))
    return model


def test_prefixes_and_duplicates(oracle):
    mine, theirs = tied(ours), tied(oracle)
    every = {"remove_duplicate": False}
    for options in (
        {},
        {"prefix": "net"},
        every,
        {"prefix": "net", **every},
        {"recurse": False},
        {"recurse": False, "prefix": "a", **every},
    ):
        names, wanted = ([name for name, _ in model.named_parameters(**options)] for model in (mine, theirs))
        assert sorted(names) == sorted(wanted)
    for options in ({}, {"prefix": "net."}, {"keep_vars": True}, {"prefix": "net.", "keep_vars": True}):
        a, b = mine.state_dict(**options), theirs.state_dict(**options)
        assert sorted(a) == sorted(b)
        assert {k: v.requires_grad for k, v in a.items()} == {k: v.requires_grad for k, v in b.items()}
    assert mine.state_dict(keep_vars=True)["scale"] is mine.scale


def test_embeddings_of_a_largest_norm(oracle):
    rng = np.random.default_rng(0)
    for norm_type in (2.0, 1.0, float("inf")):
        for ids in ([1, 2, 2], [[0], [4]], [], 3):
            table, ids = rng.standard_normal((5, 3)).astype(np.float32) * 2, np.array(ids, np.int64)
            results = []
            for m in (ours, oracle):
                layer = m.nn.Embedding(5, 3, max_norm=1.0, norm_type=norm_type)
                layer.weight.data.copy_(m.tensor(table))
                y = layer(m.tensor(ids))
                (y * y).sum().backward()
                results.append([y.detach().numpy(), layer.weight.detach().numpy(), layer.weight.grad.numpy()])
            for a, b in zip(*results):
                np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    for option in ("sparse", "scale_grad_by_freq"):
        with pytest.raises(NotImplementedError, match="scale_grad_by_freq and sparse are not here"):
            nn.Embedding(2, 2, **{option: True})


# ------------------------------------------------------------------------------------------------ arithmetic


@pytest.mark.parametrize("mode", [None, "floor", "trunc"])
def test_division_that_rounds(mode, agree):
    values = np.array([7.0, -7.0, 0.0, 2.5, -2.5, 1e10])
    some = values[:3].astype(np.int64)
    for x in (values, values.astype(np.float32), some, some.astype(np.int32), np.zeros(0), values[0]):
        for other in (2, -3, 0.5, np.array(2), np.array([-2])):
            agree(lambda m, x, b: [x.div(b, rounding_mode=mode), m.div(x, b, rounding_mode=mode)], x, other)
        if x.dtype.kind == "f" and mode is None:
            agree(lambda m, x, b: x.div(b, rounding_mode=mode), x, np.array(-2.0))  # else only x is told its slope of 0
    agree(lambda m, x: x.div(2, rounding_mode="up"), values)


def test_a_softmax_without_dim_warns_and_guesses(oracle):
    for f in ("softmax", "log_softmax"):
        for shape in ((), (3,), (2, 3), (2, 3, 2), (2, 1, 2, 2), (0, 2), (1, 1)):
            x = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
            with pytest.warns(UserWarning, match="without dim") as told:
                mine = getattr(F, f)(ours.tensor(x))
            assert told[0].filename == __file__
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = getattr(oracle.nn.functional, f)(oracle.tensor(x))
            np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-5, atol=1e-7)
