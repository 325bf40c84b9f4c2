"""What a Module holds, in which order, and how it is loaded, copied, cast and called."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn
from tinygrad_tf.models import Decoder, DecoderConfig

ROOT = Path(__file__).parents[2]


def small(**options):
    return Decoder(DecoderConfig(**{"vocab_size": 11, "block_size": 8, "n_layer": 2, "n_head": 2, "n_embd": 8, **options}))


# ------------------------------------------------------------------------------------------------ order and names


class Holder(nn.Module):
    def __init__(self, value):
        self.layers = value


@pytest.mark.parametrize(("value", "better"), [
    (lambda: [nn.Linear(2, 2), nn.Linear(2, 2)], "nn.ModuleList"),
    (lambda: [nn.Parameter([1.0])], "a name of its own"),
    (lambda: {"a": nn.Linear(2, 2)}, "nn.ModuleDict"),
    (lambda: [(nn.Linear(2, 2), nn.ReLU())], "nn.ModuleList"),
])
def test_a_plain_list_of_layers_is_refused(value, better):
    with pytest.raises(TypeError, match=rf"Holder.layers is a (list|dict) that holds .* parameters\(\) does not see.*{better}"):
        Holder(value())


def test_layers_that_are_appended_to_a_plain_list_are_refused_when_the_parameters_are_asked_for():
    model = nn.Sequential(Holder([]))
    assert list(model.parameters()) == []
    model[0].layers.append(nn.Linear(2, 2))
    with pytest.raises(TypeError, match="Holder.layers is a list"):
        list(model.parameters())


def test_a_tuple_of_layers_is_a_warning():
    teacher = nn.Linear(2, 2)
    with pytest.warns(UserWarning, match="Holder.layers is a tuple that holds modules") as caught:
        model = Holder((teacher,))
    assert caught[0].filename == __file__
    assert model.layers == (teacher,)
    assert list(model.parameters()) == []


def test_a_list_of_what_is_held_anyway_is_fine(recwarn):
    class Model(nn.Module):
        def __init__(self):
            self.a, self.b = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2))
            self.pair = (self.a, self.b)
            self.all = [self, self.b[0], *self.parameters()]
            self.sizes, self.names, self.none = [1, [2]], {"a": 1}, ()

    assert len(list(Model().parameters())) == 4
    assert not recwarn.list


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


# ------------------------------------------------------------------------------------------------ hash seeds

PROGRAM = """
import hashlib, numpy as np
from tinygrad_tf import nn, optim
from tinygrad_tf.models import Decoder, DecoderConfig
config = DecoderConfig(11, 8, 2, 4, n_kv_head=2, n_embd=8, ffn="swiglu", bias=True, dropout=0.1)
model = Decoder(config, np.random.default_rng(0))
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
