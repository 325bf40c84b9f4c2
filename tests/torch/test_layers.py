"""torch.nn: each layer with weights made by NumPy, in value and in every gradient, against PyTorch; modules as containers.

F.max_pool1d F.max_pool2d F.avg_pool1d F.avg_pool2d F.adaptive_avg_pool1d F.adaptive_avg_pool2d F.conv1d F.conv2d F.group_norm
F.embedding_bag are what the modules call.
"""

import copy

import numpy as np
import pytest

import tinygrad_tf.torch as ours

SIZES = [(1, 1), (2, 3), (3, 2), (4, 4), (5, 1), (1, 5), (0, 3), (2, 6), (6, 2), (7, 3)]


def filled(module, m):
    """The module with the same numbers in every parameter here and in PyTorch."""
    for i, p in enumerate(module.parameters()):
        p.data.copy_(m.tensor(np.random.default_rng(i).standard_normal(tuple(p.shape)).astype(np.float32)))
    return module


def given(*shape):
    return np.random.default_rng(9).standard_normal(shape).astype(np.float32)


def used(make, give=lambda m, n, d: m.tensor(given(n, 4, d))):
    """What a layer makes of an input (n, 4, d) in training and in evaluation, its parameters, and its state by name."""

    def f(m, n, d):
        layer = filled(make(m, d), m)
        out = [layer(give(m, n, d))]
        layer.eval()
        out += [layer(give(m, n, d)), *layer.parameters()]
        return out + [",".join(layer.state_dict())]

    return f


def ids(m, n, d):
    return m.tensor(np.random.default_rng(3).integers(0, d + 1, (n, 4)))


def longer(m, n, d):
    return m.tensor(given(n, 4, d + 4))


def picture(m, n, d):
    return m.tensor(given(n, 4, d + 1, 5))


def bags(make):
    """A bag for each number: some are empty, one holds an id twice."""

    def f(m, n, d):
        layer, last = filled(make(m, d), m), [n + 2] if make(m, d).include_last_offset else []
        numbers = m.tensor(np.random.default_rng(3).integers(0, d + 1, n + 2))
        offsets = m.tensor([0, 0, min(1, n), n, *last])
        out = [layer(numbers, offsets)] + ([] if last else [layer(numbers, offsets=offsets[:1])])
        if layer.mode == "sum":
            out.append(layer(numbers, offsets, per_sample_weights=m.tensor(given(n + 2))))
        return out + list(layer.parameters())

    return f


def held(m, d, kind):
    """A module that reads its parameters out of a list or a dictionary of them."""

    class Holder(m.nn.Module):
        def __init__(self):
            super().__init__()
            made = {"a": m.nn.Parameter(m.ones(d)), "b": m.ones(1)}
            self.held = m.nn.ParameterList(made.values()) if kind == "list" else m.nn.ParameterDict(made)
            if kind == "list":
                self.held.append(m.nn.Parameter(m.ones(4, 1))).extend([m.zeros(1)])
                self.held[1] = m.nn.Parameter(m.ones(1) * 2)
            else:
                self.held["c"] = m.nn.Parameter(m.ones(4, 1))
                assert "c" in self.held
                assert list(self.held.keys()) == ["a", "b", "c"]
                assert len(list(self.held.items())) == len(list(self.held.values())) == 3

        def forward(self, x):
            if kind == "list":
                return x * self.held[0] + self.held[1] * self.held[-2] + sum(p.sum() for p in self.held) + len(self.held[1:])
            return x * self.held["a"] + self.held["b"] * self.held["c"] + len(self.held)

    return Holder()


LAYERS = {
    "nn.Linear": [
        used(lambda m, d: m.nn.Linear(d, 3)),
        used(lambda m, d: m.nn.Linear(d, 2, bias=False, device="cpu", dtype=m.float32)),
    ],
    "nn.Embedding": [
        used(lambda m, d: m.nn.Embedding(d + 1, 3), ids),
        used(lambda m, d: m.nn.Embedding(d + 1, 3, padding_idx=d), ids),
        used(
            lambda m, d: m.nn.Embedding(num_embeddings=d + 1, embedding_dim=2, device="cpu", dtype=m.float32, padding_idx=-1),
            ids,
        ),
    ],
    "nn.Dropout": [used(lambda m, d: m.nn.Dropout(p=0.0)), used(lambda m, d: m.nn.Dropout(p=1.0))],
    "nn.LayerNorm": [
        used(lambda m, d: m.nn.LayerNorm(d)),
        used(lambda m, d: m.nn.LayerNorm((4, d), eps=1e-3)),
        used(lambda m, d: m.nn.LayerNorm(d, bias=False)),
        used(lambda m, d: m.nn.LayerNorm([d], elementwise_affine=False)),
    ],
    "nn.RMSNorm": [
        used(lambda m, d: m.nn.RMSNorm(d, eps=1e-5)),
        used(lambda m, d: m.nn.RMSNorm(d, eps=1e-5, elementwise_affine=False)),
    ],
    "nn.ReLU": [used(lambda m, d: m.nn.ReLU()), used(lambda m, d: m.nn.Sequential(m.nn.Linear(d, d), m.nn.ReLU(inplace=True)))],
    "nn.GELU": [used(lambda m, d: m.nn.GELU()), used(lambda m, d: m.nn.GELU(approximate="tanh"))],
    "nn.SiLU": used(lambda m, d: m.nn.SiLU()),
    "nn.Tanh": used(lambda m, d: m.nn.Tanh()),
    "nn.Sigmoid": used(lambda m, d: m.nn.Sigmoid()),
    "nn.Identity": used(lambda m, d: m.nn.Identity(d, unused=1)),
    "nn.Softmax": used(lambda m, d: m.nn.Softmax(dim=-1)),
    "nn.LogSoftmax": used(lambda m, d: m.nn.LogSoftmax(dim=1)),
    "nn.Flatten": [used(lambda m, d: m.nn.Flatten()), used(lambda m, d: m.nn.Flatten(start_dim=0))],
    "nn.Unflatten": used(lambda m, d: m.nn.Unflatten(1, (2, 2))),
    "nn.GroupNorm": [
        used(lambda m, d: m.nn.GroupNorm(2, 4)),
        used(lambda m, d: m.nn.GroupNorm(num_groups=1, num_channels=4, eps=0.1)),
        used(lambda m, d: m.nn.GroupNorm(4, 4, affine=False), lambda m, n, d: m.tensor(given(n, 4, d + 1, 2))),
    ],
    "nn.BatchNorm2d": used(lambda m, d: m.nn.BatchNorm2d(4), lambda m, n, d: m.tensor(given(n + 1, 4, d + 1, 2))),
    "nn.EmbeddingBag": [
        used(lambda m, d: m.nn.EmbeddingBag(d + 1, 3), ids),
        used(lambda m, d: m.nn.EmbeddingBag(d + 1, 2, mode="sum", padding_idx=0), ids),
        used(lambda m, d: m.nn.EmbeddingBag(d + 1, 2, padding_idx=-1), ids),
        bags(lambda m, d: m.nn.EmbeddingBag(d + 1, 2)),
        bags(lambda m, d: m.nn.EmbeddingBag(d + 1, 2, mode="sum", include_last_offset=True)),
    ],
    "nn.ParameterList": used(lambda m, d: held(m, d, "list")),
    "nn.ParameterDict": used(lambda m, d: held(m, d, "dict")),
    "nn.MaxPool1d": [
        used(lambda m, d: m.nn.MaxPool1d(1)),
        used(lambda m, d: m.nn.MaxPool1d(2, stride=1, padding=1), longer),
        used(lambda m, d: m.nn.MaxPool1d(3, 2, dilation=2), longer),
    ],
    "nn.AvgPool1d": [
        used(lambda m, d: m.nn.AvgPool1d(1)),
        used(lambda m, d: m.nn.AvgPool1d(2, stride=1, padding=1), longer),
        used(lambda m, d: m.nn.AvgPool1d(3, padding=1, count_include_pad=False), longer),
    ],
    "nn.AdaptiveAvgPool1d": [
        used(lambda m, d: m.nn.AdaptiveAvgPool1d(1), longer),
        used(lambda m, d: m.nn.AdaptiveAvgPool1d(4), longer),
        used(lambda m, d: m.nn.AdaptiveAvgPool1d(9), longer),
    ],
    "nn.Conv2d": [
        used(lambda m, d: m.nn.Conv2d(4, 2, 2), picture),
        used(lambda m, d: m.nn.Conv2d(4, 4, (2, 1), stride=(1, 2), padding=(1, 0), groups=2), picture),
        used(lambda m, d: m.nn.Conv2d(4, 3, 3, padding="same", bias=False, dilation=2), picture),
        used(lambda m, d: m.nn.Conv2d(4, 3, 2, 2, padding="valid"), picture),
    ],
    "nn.MaxPool2d": [
        used(lambda m, d: m.nn.MaxPool2d(2), picture),
        used(lambda m, d: m.nn.Sequential(m.nn.ReLU(), m.nn.MaxPool2d((2, 3), stride=1, padding=(1, 1))), picture),
    ],
    "nn.AvgPool2d": [
        used(lambda m, d: m.nn.AvgPool2d(2), picture),
        used(lambda m, d: m.nn.AvgPool2d((2, 3), stride=(1, 2), padding=1, count_include_pad=False), picture),
    ],
    "nn.AdaptiveAvgPool2d": [
        used(lambda m, d: m.nn.AdaptiveAvgPool2d(1), picture),
        used(lambda m, d: m.nn.AdaptiveAvgPool2d((2, None)), picture),
    ],
    "nn.Conv1d": [
        used(lambda m, d: m.nn.Conv1d(4, 2, 3, padding="same", dilation=2)),
        used(lambda m, d: m.nn.Conv1d(4, 2, 1)),
        used(lambda m, d: m.nn.Conv1d(4, 2, 3, padding=1, bias=False)),
    ],
    "nn.Sequential": used(lambda m, d: m.nn.Sequential(m.nn.Linear(d, 4), m.nn.ReLU(), m.nn.Sequential(m.nn.Linear(4, 1)))),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(agree, name):
    for f in LAYERS[name] if isinstance(LAYERS[name], list) else [LAYERS[name]]:
        for n, d in SIZES:
            agree(f, n, d, rtol=1e-4, atol=1e-4)  # of one number, LayerNorm is 0 here and rounding in PyTorch


PASSED_ON = """
    nn.CrossEntropyLoss nn.NLLLoss nn.KLDivLoss nn.MultiheadAttention nn.Transformer nn.TransformerEncoderLayer
    nn.TransformerEncoder nn.TransformerDecoderLayer nn.TransformerDecoder nn.RNN nn.LSTM nn.GRU nn.BatchNorm1d
    nn.RNNCell nn.LSTMCell nn.GRUCell
    nn.LazyLinear nn.LazyBatchNorm1d optim.Adam optim.AdamW optim.SGD optim.RMSprop optim.Adagrad optim.Muon
    optim.Optimizer optim.Adadelta optim.Adamax optim.RAdam
""".split()  # noqa: SIM905  compared with PyTorch in tests/nn, layer by layer


@pytest.mark.parametrize("name", PASSED_ON)
def test_the_door_gives_the_layers_own_class(name):
    import tinygrad_tf.adaptive

    package, _, cls = name.partition(".")
    own = getattr(tinygrad_tf, package)
    assert getattr(getattr(ours, package), cls) is getattr(own if hasattr(own, cls) else tinygrad_tf.adaptive, cls)


# ------------------------------------------------------------------------------------------------ modules as containers


class Net:
    """A module with all that a module can hold; `build(m)` makes it a subclass of m.nn.Module.

    width: of the stream; times: the factor on every parameter; dtype: what it is cast to, by its name.
    """

    @staticmethod
    def build(m, width=4, times=1.0, dtype="float32"):
        class Model(m.nn.Module):
            def __init__(self):
                super().__init__()
                self.wte = m.nn.Embedding(5, width)
                self.blocks = m.nn.ModuleList([m.nn.Linear(width, width) for _ in range(2)])
                self.parts = m.nn.ModuleDict({"norm": m.nn.LayerNorm(width), "act": m.nn.ReLU()})
                self.head = m.nn.Linear(width, 5, bias=False)
                self.head.weight = self.wte.weight  # tied
                self.scale = m.nn.Parameter(m.ones(width))
                self.register_parameter("none", None)
                self.register_buffer("mask", m.tril(m.ones(3, 3)))
                self.register_buffer("cache", m.zeros(2), persistent=False)
                self.add_module("last", m.nn.Identity())

            def forward(self, ids):
                x = self.wte(ids) * self.scale
                for block in self.blocks:
                    x = x + self.parts.act(block(self.parts["norm"](x)))
                return self.last(self.head(x))

        model = filled(Model(), m)
        for p in model.parameters():
            p.data.mul_(times)
        return model.to(getattr(m, dtype))


def whole_ids(*shape):
    return np.random.default_rng([6, *shape]).integers(0, 5, shape)


def calls(model, m):
    names = []
    model.apply(lambda module: names.append(type(module).__name__))
    return ",".join(names)


MODULES = {
    "nn.Module": lambda m, net, ids: [net(ids), *net.parameters()],
    "nn.ModuleList": lambda m, net, ids: [
        len(net.blocks),
        net.blocks[-1].weight * 1,
        len(net.blocks.append(m.nn.Linear(1, 1))),
        len(list(net.blocks)),
        len(net.blocks.extend([m.nn.Linear(1, 1)])),
    ],
    "nn.ModuleDict": lambda m, net, ids: [
        ",".join(net.parts.keys()),
        len(net.parts),
        int("norm" in net.parts),
        net.parts.norm.weight * 1,
        ",".join(name for name, _ in net.parts.items()),
    ],
    "Module.parameters": lambda m, net, ids: [
        list(net.parameters()),
        len(list(net.parameters())),
        len(list(net.parameters(recurse=False))),
    ],
    "Module.named_parameters": lambda m, net, ids: [
        ",".join(n for n, _ in net.named_parameters()),
        ",".join(n for n, _ in net.named_parameters(prefix="a", recurse=False)),
    ],
    "Module.named_modules": lambda m, net, ids: ",".join(f"{n}:{type(x).__name__}" for n, x in net.named_modules()),
    "Module.buffers": lambda m, net, ids: [[b * 1 for b in net.buffers()], ",".join(n for n, _ in net.named_buffers())],
    "Module.register_buffer": lambda m, net, ids: [net.mask * 1, ",".join(net.state_dict())],
    "Module.register_parameter": lambda m, net, ids: [net.none, len(list(net.parameters()))],
    "Module.add_module": lambda m, net, ids: (
        net.add_module("more", m.nn.Linear(1, 1)),
        ",".join(n for n, _ in net.named_children()),
    )[1],
    "Module.state_dict": lambda m, net, ids: [",".join(net.state_dict()), list(net.state_dict().values())],
    "Module.load_state_dict": lambda m, net, ids: [
        len(net.load_state_dict({k: v * 2 for k, v in net.state_dict().items()}).missing_keys),
        list(net.state_dict().values()),
        ",".join(net.load_state_dict({"scale": m.zeros(net.scale.shape), "more": m.zeros(1)}, strict=False).unexpected_keys),
        net.scale * 1,
    ],
    "Module.train": lambda m, net, ids: [
        int(net.eval().blocks[0].training),
        int(net.train().blocks[0].training),
        int(net.train(False).training),
    ],
    "Module.eval": lambda m, net, ids: int(net.eval().parts.norm.training),
    "Optimizer/Module.training": lambda m, net, ids: int(net.training),
    "Module.apply": lambda m, net, ids: calls(net, m),
    "Optimizer/Module.zero_grad": lambda m, net, ids: [
        net(ids).sum().backward(),
        net.zero_grad(set_to_none=True),
        net.scale.grad,
        net(ids).sum().backward(),
        net.zero_grad(set_to_none=False),
        net.scale.grad,
    ],
    "Module.reset_parameters": lambda m, net, ids: [
        net.head.reset_parameters(),
        net.parts.norm.reset_parameters(),
        net.parts.norm.weight * 1,
    ],
    "copy.deepcopy": lambda m, net, ids: [
        copy.deepcopy(net).scale.data.add_(1),
        net.scale * 1,
        *(int(other.head.weight is other.wte.weight) for other in [copy.deepcopy(net)]),
    ],
    "parameter over parameter": lambda m, net, ids: [
        setattr(net.wte, "weight", m.nn.Parameter(net.wte.weight[:3])),
        net.wte.weight * 1,
        ",".join(n for n, _ in net.named_parameters()),
    ],
    "Module.to": lambda m, net, ids: [
        net.to("cpu").scale * 1,
        net.to(m.float64).scale * 1,
        net.mask * 1,
        net.float().scale * 1,
        net.double().mask * 1,
    ],
    "super of another form": lambda m, net, ids: int(isinstance(net, m.nn.Module)),
}


# ids that the model reads, and the model's settings
CASES = {
    "one sentence": (np.array([[1, 2, 3]]), {}),
    "a batch": (whole_ids(4, 6), {}),
    "batch 0": (whole_ids(0, 3), {}),
    "length 0": (whole_ids(2, 0), {}),
    "length 1": (whole_ids(3, 1), {}),
    "no batch axis": (whole_ids(4), {}),
    "one number": (whole_ids(), {}),
    "one id, many times": (np.full((2, 5), 4), {}),
    "ids turned": (whole_ids(3, 2).T, {}),
    "every second id": (whole_ids(2, 6)[:, ::2], {}),
    "int32 ids": (whole_ids(2, 3).astype(np.int32), {}),
    "width 1": (whole_ids(2, 3), {"width": 1}),
    "width 33": (whole_ids(2, 3), {"width": 33}),
    "large numbers": (whole_ids(2, 3), {"times": 1e4}),
    "zeros": (whole_ids(2, 3), {"times": 0.0}),
    "float64": (whole_ids(2, 3), {"dtype": "float64"}),
    "an id that is none": (np.array([[5]]), {}),
}
LOOSE = {  # where longer sums, or larger terms that cancel, leave more rounding
    "width 33": {"rtol": 1e-4, "atol": 1e-4},
    "large numbers": {"rtol": 1e-4, "atol": 1.0},
}
TERMS = {"rtol": 2e-5, "atol": 3e-5}  # gradients up to 14, of terms that cancel, on any processor


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", MODULES)
def test_modules(agree, name, case):
    ids, settings = CASES[case]
    agree(lambda m, ids: MODULES[name](m, Net.build(m, **settings), ids), ids, **LOOSE.get(case, TERMS))


def test_a_state_that_does_not_fit_is_an_error(oracle):
    for m in (ours, oracle):
        net = Net.build(m)
        for state in ({}, {**net.state_dict(), "more": m.zeros(1)}, {**net.state_dict(), "scale": m.zeros(7)}):
            with pytest.raises((ValueError, RuntimeError), match="scale|more"):
                net.load_state_dict(state)
        for place in ("cuda", m.device("cuda", 0)):
            with pytest.raises(RuntimeError if m is ours else (AssertionError, RuntimeError)):
                net.to(place)
        with pytest.raises(RuntimeError if m is ours else (AssertionError, RuntimeError)):
            net.cuda()
        with pytest.raises(NotImplementedError):
            m.nn.Module()(1)


INIT = {
    "nn.init.zeros_": lambda m, x: m.nn.init.zeros_(x),
    "nn.init.ones_": lambda m, x: m.nn.init.ones_(x),
    "nn.init.eye_": lambda m, x: m.nn.init.eye_(x),
    "nn.init.constant_": lambda m, x: m.nn.init.constant_(x, 2.5),
    "nn.init._calculate_fan_in_and_fan_out": lambda m, x: m.nn.init._calculate_fan_in_and_fan_out(x),
}


@pytest.mark.parametrize("name", INIT)
def test_init(agree, inputs, name):
    for x in inputs.floats:
        agree(lambda m, y: INIT[name](m, y.detach()), x)
