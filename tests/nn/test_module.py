"""What a Module holds, in which order, and how it is loaded, copied, cast and called."""

import copy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn
from tinygrad_tf.models import Decoder, DecoderConfig

ROOT = Path(__file__).parents[2]


class Tied(nn.Module):
    def __init__(self):
        self.embedding = nn.Embedding(65, 16)
        self.head = nn.Linear(16, 65, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        return self.head(self.embedding(ids))


def small(**options):
    return Decoder(DecoderConfig(**{"vocab_size": 11, "block_size": 8, "n_layer": 2, "n_head": 2, "n_embd": 8, **options}))


# ------------------------------------------------------------------------------------------------ order and names


def test_parameters_come_in_definition_order():
    class Model(nn.Module):
        def __init__(self):
            self.zeta = nn.Parameter([1.0])
            self.beta = nn.Linear(2, 3)
            self.alpha = nn.Parameter([2.0])
            self.register_parameter("late", nn.Parameter([3.0]))
            self.register_parameter("absent", None)
            self.add_module("inner", nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1, bias=False)))

    names = [name for name, _ in Model().named_parameters()]
    assert names == ["zeta", "alpha", "late", "beta.weight", "beta.bias", "inner.0.weight", "inner.0.bias", "inner.1.weight"]


def test_names_and_order_are_those_of_pytorch(oracle):
    def model(nn):
        class Inner(nn.Module):
            def __init__(self):
                super().__init__()
                self.b, self.a = nn.Linear(2, 2), nn.LayerNorm(2)
                self.scale = nn.Parameter(x)
                self.register_buffer("steps", y)
                self.many = nn.ModuleList([nn.Linear(2, 2, bias=False), nn.Sequential(nn.Linear(2, 2), nn.ReLU())])
                self.named = nn.ModuleDict({"z": nn.Linear(1, 1), "y": nn.Embedding(2, 2)})

        return Inner()

    x, y = Tensor(np.ones(2, np.float32)), Tensor(np.zeros(1, np.float32))
    ours = model(nn)
    x, y = oracle.ones(2), oracle.zeros(1)
    theirs = model(oracle.nn)
    for what in ("named_parameters", "named_modules", "named_children", "named_buffers"):
        assert [n for n, _ in getattr(ours, what)()] == [n for n, _ in getattr(theirs, what)()], what
    assert list(ours.state_dict()) == list(theirs.state_dict())


def test_get_submodule():
    model = small()
    assert model.get_submodule("") is model
    assert model.get_submodule("blocks.1.ffn.up") is model.blocks[1].ffn.up
    with pytest.raises(AttributeError, match=r"Decoder has no module 'blocks\.7'"):
        model.get_submodule("blocks.7")


def test_apply_goes_innermost_first_and_train_reaches_everything():
    model, order = small(), []
    assert model.apply(lambda module: order.append(type(module).__name__)) is model
    assert order[-1] == "Decoder"
    assert order.index("Block") > order.index("FeedForward") > order.index("Linear")
    assert len(order) == len(list(model.modules()))
    assert model.eval() is model
    assert not any(module.training for module in model.modules())
    model.blocks[0].train()
    assert [m.training for m in (model, model.blocks[0].ffn.up, model.blocks[1])] == [False, True, False]


def test_requires_grad_and_zero_grad():
    layer = nn.Linear(2, 2)
    layer.requires_grad_(False)
    assert not layer(Tensor([[1.0, 2.0]])).requires_grad
    layer.requires_grad_()
    layer(Tensor([[1.0, 2.0]])).sum().backward()
    layer.zero_grad(set_to_none=False)
    assert layer.weight.grad.tolist() == [[0, 0], [0, 0]]
    layer.zero_grad()
    assert layer.weight.grad is None


def test_buffers():
    class Counter(nn.Module):
        def __init__(self):
            self.register_buffer("count", Tensor(np.zeros(2, np.int64)))
            self.register_buffer("scratch", Tensor(np.zeros(3, np.float32)), persistent=False)
            self.register_buffer("nothing", None)
            self.plain = Tensor([9.0])

    first, second = Counter(), Counter()
    assert [n for n, _ in first.named_buffers()] == ["count", "scratch"]
    assert list(first.state_dict()) == ["count"]
    assert list(first.parameters()) == []
    first.count.array[:] = 7
    second.load_state_dict(first.state_dict())
    assert second.count.tolist() == [7, 7]
    second.double()
    assert (second.count.dtype, second.scratch.dtype) == (np.int64, np.float64)
    assert nn.Linear(1, 1)._buffers == {}  # no class shares what an object registers


# ------------------------------------------------------------------------------------------------ ties


def test_WT01_a_tied_matrix_counts_once_and_gets_both_gradients():
    model = Tied()
    assert sum(p.numel() for p in model.parameters()) == 1040
    assert [n for n, _ in model.named_parameters()] == ["embedding.weight"]
    assert list(model.state_dict()) == ["embedding.weight", "head.weight"]

    ids, g = np.array([[1, 1, 4]]), np.random.default_rng(0).standard_normal((1, 3, 65)).astype(np.float32)
    model(ids).backward(g)
    untied = copy.deepcopy(model)
    untied.head.weight = nn.Parameter(model.head.weight.array.copy())
    untied.zero_grad()
    untied(ids).backward(g)
    parts = untied.embedding.weight.grad.array, untied.head.weight.grad.array
    assert all(part.any() for part in parts)
    np.testing.assert_allclose(model.embedding.weight.grad.array, parts[0] + parts[1], rtol=1e-5, atol=1e-6)


def test_WT03_a_copy_is_tied_inside_and_not_to_the_original():
    model = Tied()
    other = copy.deepcopy(model)
    assert other.head.weight is other.embedding.weight
    assert other.head.weight is not model.head.weight
    assert type(other.head.weight) is nn.Parameter
    other.head.weight.array[...] += 1
    assert not np.allclose(other.head.weight.array, model.head.weight.array)
    np.testing.assert_array_equal(other(np.array([[3]])).array, other.head(other.embedding(np.array([[3]]))).array)


def test_WT03_casting_keeps_the_tie():
    model = Tied().double()
    assert model.head.weight is model.embedding.weight
    assert model.head.weight.dtype == np.float64
    assert model(np.array([[3]])).dtype == np.float64
    assert model.float().head.weight.dtype == np.float32


def test_WT03_loading_keeps_the_tie():
    model, other = Tied(), Tied()
    model.load_state_dict(other.state_dict())
    assert model.head.weight is model.embedding.weight
    np.testing.assert_array_equal(model.head.weight.array, other.embedding.weight.array)


def test_WT03_two_different_matrices_for_one_weight_are_refused_by_both_names():
    model = Tied()
    before = model.head.weight.array.copy()
    state = {name: t.array.copy() for name, t in model.state_dict().items()}
    state["embedding.weight"] += 2
    state["head.weight"] += 3
    with pytest.raises(ValueError, match=r"embedding\.weight.*head\.weight|head\.weight.*embedding\.weight"):
        model.load_state_dict(state)
    np.testing.assert_array_equal(model.head.weight.array, before)


def test_a_module_that_is_held_under_two_names_is_saved_under_both(oracle):
    def model(nn):
        class Twice(nn.Module):
            def __init__(self):
                super().__init__()
                self.first = nn.Linear(2, 2)
                self.second = self.first

        return Twice()

    ours, theirs = model(nn), model(oracle.nn)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert (
        [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()] == ["first.weight", "first.bias"]
    )
    ours.load_state_dict({name: np.full(tuple(t.shape), 2.0) for name, t in theirs.state_dict().items()})
    assert ours.second.bias.tolist() == [2, 2]


# ------------------------------------------------------------------------------------------------ state


def test_state_dict_shares_memory_and_loading_copies():
    model, other = small(), small()
    state = model.state_dict()
    assert all(
        np.shares_memory(t.array, dict(model.named_parameters())[n].array) for n, t in state.items() if n != "lm_head.weight"
    )
    held = {name: p for name, p in other.named_parameters()}
    other.load_state_dict(state)
    for name, p in other.named_parameters():
        assert p is held[name]
        np.testing.assert_array_equal(p.array, state[name].array)
        assert not np.shares_memory(p.array, state[name].array)
    ids = np.array([[1, 2, 3]])
    assert model(ids).equal(other(ids))


def test_every_problem_is_in_one_message_and_nothing_was_written():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))
    model.register_buffer("steps", Tensor(np.zeros(2, np.int64)))
    before = {name: t.array.copy() for name, t in model.state_dict().items()}
    state = {name: a + 1 for name, a in before.items()}
    del state["0.bias"]
    state["1.weight"] = np.zeros((3, 2))
    state["1.bias"] = np.zeros((2, 1))
    state["extra"] = np.zeros(1)
    state["steps"] = np.array([0.5, 1.5])
    with pytest.raises(ValueError, match="Sequential") as caught:
        model.load_state_dict(state)
    message = str(caught.value)
    assert "\n" not in message
    for what in (
        "missing 0.bias",
        "unexpected extra",
        "1.weight has shape (3, 2), here it is (2, 3)",
        "1.bias",
        "steps",
        "float64",
    ):
        assert what in message
    for name, t in model.state_dict().items():
        np.testing.assert_array_equal(t.array, before[name])
    with pytest.raises(ValueError, match="shape") as caught:
        model.load_state_dict(state, strict=False)
    assert "missing" not in str(caught.value)


def test_loading_loosely_takes_what_fits_by_name():
    model = nn.Linear(2, 2)
    before = model.bias.array.copy()
    model.load_state_dict({"weight": np.ones((2, 2)), "other": np.ones(1)}, strict=False)
    assert model.weight.tolist() == [[1, 1], [1, 1]]
    assert model.weight.dtype == np.float32
    np.testing.assert_array_equal(model.bias.array, before)


@pytest.mark.parametrize("bad", [np.array([["a", "b"]]), np.array([[1j, 2j]]), "text"])
def test_what_is_no_array_of_numbers_is_refused_by_name_before_the_first_write(bad):
    model = nn.Linear(2, 1)
    before = model.bias.array.copy()
    with pytest.raises((ValueError, TypeError), match="weight"):
        model.load_state_dict({"bias": before + 1, "weight": bad})
    np.testing.assert_array_equal(model.bias.array, before)


# ------------------------------------------------------------------------------------------------ containers


def test_module_list():
    layers = nn.ModuleList(nn.Linear(1, i + 1) for i in range(3))
    layers.append(nn.ReLU()).extend([nn.GELU()])
    assert len(layers) == 5
    assert [type(m).__name__ for m in layers] == ["Linear", "Linear", "Linear", "ReLU", "GELU"]
    assert layers[-1] is layers[4]
    assert [m.out_features for m in layers[1:3]] == [2, 3]
    assert [n for n, _ in layers.named_parameters()] == [f"{i}.{w}" for i in range(3) for w in ("weight", "bias")]


def test_module_dict():
    layers = nn.ModuleDict({"b": nn.Linear(1, 1), "a": nn.Linear(1, 2)})
    layers["c"] = nn.ReLU()
    layers.update({"a": nn.Linear(1, 3)})
    assert list(layers) == list(layers.keys()) == ["b", "a", "c"]
    assert layers["a"].out_features == 3
    assert "c" in layers
    assert "z" not in layers
    assert [name for name, _ in layers.items()] == ["b", "a", "c"]
    assert list(layers.values())[2] is layers["c"]


@pytest.mark.parametrize("name", ["items", "keys", "forward", "training", "a.b", ""])
def test_a_module_dict_refuses_a_name_that_would_hide_something(name):
    with pytest.raises((KeyError, ValueError), match=name or "name"):
        nn.ModuleDict({name: nn.ReLU()})


def test_sequential_by_name():
    model = nn.Sequential({"first": nn.Linear(2, 3), "then": nn.ReLU()})
    assert [n for n, _ in model.named_parameters()] == ["first.weight", "first.bias"]
    assert model(Tensor(np.ones((1, 2), np.float32))).shape == (1, 3)
    assert model[0] is model.first


@pytest.mark.parametrize("path", ["blocks.1.ffn.up", "blocks.0.attn.out_proj"])
def test_an_error_names_the_module(path):
    model = small()
    bad = model.get_submodule(path)
    bad.weight = nn.Parameter(np.ones((3, 5), np.float32))
    with pytest.raises(ValueError, match=rf"\[{path}\]"):
        model(np.array([[1, 2]]))


def test_error_paths_through_every_container():
    class Model(nn.Module):
        def __init__(self):
            self.parts = nn.ModuleDict({"left": nn.ModuleList([nn.ReLU(), nn.Sequential(nn.ReLU(), nn.Linear(3, 4))])})
            self.parts["right"] = nn.Sequential({"up": nn.Linear(3, 4)})
            self.more = nn.ModuleList()
            self.more.append(nn.Linear(3, 4))

    model, x = Model(), Tensor(np.ones((1, 2), np.float32))
    for call, path in [
        (model.parts["left"][1], "parts.left.1.1"),
        (model.parts["right"], "parts.right.up"),
        (model.more[0], "more.0"),
    ]:
        with pytest.raises(ValueError, match=rf"\[{path}\]$"):
            call(x)


# ------------------------------------------------------------------------------------------------ hooks


def test_hooks_see_and_replace():
    layer, x = nn.Linear(2, 2), Tensor([[1.0, 2.0]])
    plain = layer(x)
    seen = []
    removers = [
        layer.register_forward_pre_hook(lambda module, args: seen.append(("before", module, args))),
        layer.register_forward_hook(lambda module, args, output: seen.append(("after", module, args, output))),
    ]
    assert layer(x).equal(plain)
    assert [s[0] for s in seen] == ["before", "after"]
    assert seen[0][1] is layer
    assert seen[0][2][0] is x
    removers += [
        layer.register_forward_pre_hook(lambda module, args: args[0] * 2),
        layer.register_forward_hook(lambda module, args, output: output + 1),
        layer.register_forward_hook(lambda module, args, output: output * 10),
    ]
    assert layer(x).allclose((layer.forward(x * 2) + 1) * 10)
    for remove in removers:
        remove()
    assert layer(x).equal(plain)
    assert len(seen) == 4


def test_a_hook_may_remove_itself():
    layer, x, seen = nn.Identity(), Tensor([1.0]), []

    def once(module, args, output):
        seen.append("once")
        remove()

    remove = layer.register_forward_hook(once)
    layer.register_forward_hook(lambda module, args, output: seen.append("always"))
    layer(x)
    layer(x)
    assert seen == ["once", "always", "always"]


def test_gradients_pass_through_a_replaced_output():
    layer = nn.Linear(1, 1, bias=False)
    layer.register_forward_hook(lambda module, args, output: output * 3)
    layer(Tensor([[2.0]])).sum().backward()
    assert layer.weight.grad.item() == 6.0


def test_a_module_without_forward_says_so():
    class Empty(nn.Module):
        pass

    with pytest.raises(NotImplementedError, match="Empty defines no forward"):
        Empty()(1)


def test_the_scope_is_left_after_an_error():
    from tinygrad_tf.engine import state

    with pytest.raises(ValueError, match="linear"):
        nn.Linear(2, 2)(Tensor([[1.0, 2.0, 3.0]]))
    assert state.scope is None


# ------------------------------------------------------------------------------------------------ hash seeds

PROGRAM = """
import hashlib, numpy as np
from tinygrad_tf import nn, optim
from tinygrad_tf.models import Decoder, DecoderConfig
model = Decoder(DecoderConfig(11, 8, 2, 4, n_kv_head=2, n_embd=8, ffn="swiglu", bias=True, dropout=0.1), np.random.default_rng(0))
for module in model.modules():
    if isinstance(module, nn.Dropout):
        module.generator = np.random.default_rng(1)
optimizer = optim.AdamW(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model.loss(np.arange(8).reshape(2, 4), np.arange(1, 9).reshape(2, 4)).backward()
    optimizer.step()
digest = hashlib.sha256()
for name, t in model.state_dict().items():
    digest.update(name.encode() + t.array.tobytes())
print(digest.hexdigest(), [n for n, _ in model.named_modules()])
try:
    model.load_state_dict({n: np.zeros((1, 1, 1)) for n, _ in model.named_parameters()})
except ValueError as error:
    print(error)
print(model)
"""


def test_nothing_depends_on_the_hash_seed():
    outputs = set()
    for seed in ("0", "1", "12345"):
        done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True,
                              env={"PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)})  # fmt: skip
        outputs.add(done.stdout)
    assert len(outputs) == 1, outputs
