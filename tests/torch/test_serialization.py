"""torch.save and torch.load: what goes in comes out, PyTorch's files are read, and no file runs code."""

import collections
import errno
import io
import os
import pickle
import zipfile

import numpy as np
import pytest

import tinygrad_tf.torch as ours

OBJECTS = [
    1,
    2.5,
    -float("inf"),
    True,
    None,
    "text",
    b"\x00\xff",
    [],
    {},
    (),
    [1, [2, (3, {"a": 4})]],
    {"a": {"b": {1: "c", (2, 3): "d"}}},
    {1, 2},
    collections.OrderedDict(b=1, a=2),
    {"$": "not a kind"},
    {"lr": 1e-3, "betas": (0.9, 0.95), "none": None},
]


def there_and_back(obj):
    file = io.BytesIO()
    ours.save(obj, file)
    file.seek(0)
    return ours.load(file)


@pytest.mark.parametrize("obj", OBJECTS, ids=repr)
def test_torch_save_and_load_plain_objects(obj):
    """torch.save torch.load"""
    again = there_and_back(obj)
    assert again == obj
    assert type(again) is type(obj)


TENSORS = [
    ours.ones(2, 3),
    ours.tensor(1.5),
    ours.zeros(0),
    ours.zeros(2, 0),
    ours.arange(5),
    ours.tensor([True, False]),
    ours.ones(2, dtype=ours.float64),
    ours.ones(3, dtype=ours.int8),
    ours.arange(6).view(2, 3).t(),
    ours.tensor([ours.inf, -ours.inf, ours.nan]),
    ours.ones(1, requires_grad=True),
    ours.nn.Parameter(ours.ones(2)),
    ours.ones(1).expand(4),
    ours.ones(4)[::2],
    ours.ones(2, dtype=ours.float16),
]


@pytest.mark.parametrize("x", TENSORS, ids=repr)
def test_tensors(x, tmp_path):
    ours.save({"x": [x]}, tmp_path / "x.pt")
    (again,) = ours.load(tmp_path / "x.pt", map_location="cpu", weights_only=True, mmap=True)["x"]
    assert type(again) is type(x)
    assert again.dtype == x.dtype
    assert again.requires_grad == x.requires_grad
    np.testing.assert_array_equal(again.detach().numpy(), x.detach().numpy())
    again.data.zero_()  # its own, writable memory
    assert [file.name for file in tmp_path.iterdir()] == ["x.pt"]


def test_tied_weights_and_other_things():
    weight = ours.nn.Parameter(ours.ones(2))
    state = there_and_back({"a": weight, "b": weight, "c": weight.detach(), "d": ours.ones(2)})
    state["a"].data.add_(1)
    assert state["b"].tolist() == [2, 2]
    assert state["d"].tolist() == [1, 1]
    assert there_and_back([np.arange(3), np.float32(2)])[0].tolist() == [0, 1, 2]
    assert there_and_back([ours.float16, ours.bfloat16, ours.device("cpu")]) == [
        ours.float16,
        ours.bfloat16,
        ours.device("cpu"),
    ]
    generator = ours.Generator().manual_seed(5)
    kept = there_and_back(generator.get_state())
    first = ours.rand(3, generator=generator).tolist()
    generator.set_state(kept)
    assert ours.rand(3, generator=generator).tolist() == first


def test_a_training_goes_on_where_it_was_saved(tmp_path):
    def start():
        ours.manual_seed(1)
        model = ours.nn.Sequential(ours.nn.Linear(3, 4), ours.nn.Tanh(), ours.nn.Linear(4, 1))
        return model, ours.optim.AdamW(model.parameters(), lr=0.1, betas=(0.8, 0.9))

    def train(model, optimizer, steps):
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=True)
            model(ours.ones(2, 3)).square().sum().backward()
            optimizer.step()

    model, optimizer = start()
    train(model, optimizer, 3)
    ours.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 3}, tmp_path / "run.pt")
    train(model, optimizer, 3)
    again, other = start()
    state = ours.load(tmp_path / "run.pt")
    again.load_state_dict(state["model"])
    other.load_state_dict(state["optimizer"])
    train(again, other, state["step"])
    for p, q in zip(model.parameters(), again.parameters()):
        assert p.tolist() == q.tolist()


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_save_that_fails_leaves_the_file_from_before(call, tmp_path, monkeypatch):
    """And it reaches the disk before it takes the old one's name, as a checkpoint does."""
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, name=name, real=real: (calls.append(name), real(*args)))
    ours.save(1, tmp_path / "x.pt")
    assert calls[:2] == ["fsync", "replace"]

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, call, full)
    with pytest.raises(OSError, match="No space") as error:
        ours.save({"w": ours.ones(3)}, tmp_path / "x.pt")
    assert error.value.filename == str(tmp_path / "x.pt")
    assert [path.name for path in tmp_path.iterdir()] == ["x.pt"]
    assert ours.load(tmp_path / "x.pt") == 1


class Config:
    pass


@pytest.mark.parametrize(
    "obj,match",
    [
        (ours.nn.Linear(1, 1), "the object is a whole Linear: save its state_dict"),
        ({"a": [Config()]}, r"\['a'\]\[0\] is a Config.*vars\(x\)"),
        (len, "builtin_function"),
    ],
)
def test_what_cannot_be_saved_says_where_it_is_and_leaves_no_file(obj, match, tmp_path):
    ours.save(1, tmp_path / "x.pt")
    with pytest.raises(TypeError, match=match):
        ours.save(obj, tmp_path / "x.pt")
    assert ours.load(tmp_path / "x.pt") == 1


# ------------------------------------------------------------------------------------------------ PyTorch's files


def theirs(oracle, obj):
    file = io.BytesIO()
    oracle.save(obj, file)
    file.seek(0)
    return file


def test_files_of_pytorch(oracle):
    weight = oracle.nn.Parameter(oracle.randn(3, 2))
    tensors = [
        oracle.ones(2, 3),
        oracle.tensor(2.5),
        oracle.zeros(0, 2),
        oracle.arange(6).view(2, 3).t(),
        oracle.tensor([True]),
        oracle.ones(2).double(),
        oracle.ones(2).half(),
        oracle.ones(3).char(),
        oracle.arange(5)[1::2],
        oracle.ones(1).expand(3),
        oracle.ones(2, requires_grad=True),
        oracle.ones(2).to(oracle.uint8),
        oracle.ones(2).int(),
        oracle.ones(2).short(),
        weight,
    ]
    again = ours.load(theirs(oracle, tensors))
    for mine, other in zip(again, tensors):
        assert str(mine.dtype) == str(other.dtype).removeprefix("torch.")
        assert mine.requires_grad == other.requires_grad
        np.testing.assert_array_equal(mine.detach().numpy(), other.detach().numpy())
    half = oracle.randn(5).bfloat16()
    np.testing.assert_array_equal(ours.load(theirs(oracle, half)).numpy(), half.float().numpy())
    state = {
        "model": collections.OrderedDict(w=weight, v=weight),
        "lr": 0.1,
        "list": [1, (2, None)],
        "size": weight.shape,
        "set": {1},
        "dtype": oracle.float32,
        "device": oracle.device("cpu"),
        "bytes": b"ab",
        "nested": {"a": {"b": [True]}},
    }
    loaded = ours.load(theirs(oracle, state))
    assert loaded["size"] == (3, 2)
    assert (loaded["lr"], loaded["list"], loaded["set"], loaded["bytes"], loaded["nested"]) == (
        0.1,
        [1, (2, None)],
        {1},
        b"ab",
        {"a": {"b": [True]}},
    )
    assert loaded["dtype"] == ours.float32
    loaded["model"]["w"].data.zero_()
    assert not loaded["model"]["v"].any()


def test_a_state_dict_and_an_optimizer_of_pytorch(oracle):
    model = oracle.nn.Sequential(oracle.nn.Linear(3, 4), oracle.nn.BatchNorm1d(4), oracle.nn.Linear(4, 1))
    optimizer = oracle.optim.AdamW(model.parameters(), lr=0.1)
    model(oracle.randn(5, 3)).sum().backward()
    optimizer.step()
    saved = ours.load(theirs(oracle, {"model": model.state_dict(), "optimizer": optimizer.state_dict()}))
    mine = ours.nn.Sequential(ours.nn.Linear(3, 4), ours.nn.BatchNorm1d(4), ours.nn.Linear(4, 1))
    mine.load_state_dict(saved["model"])
    np.testing.assert_allclose(
        mine.eval()(ours.ones(2, 3)).detach().numpy(), model.eval()(oracle.ones(2, 3)).detach().numpy(), rtol=1e-5, atol=1e-6
    )
    ours.optim.AdamW(mine.parameters(), lr=0.1).load_state_dict(saved["optimizer"])


def test_no_file_runs_code(oracle, tmp_path):
    class Evil:
        def __reduce__(self):
            return print, ("code from a file",)

    with pytest.raises(pickle.UnpicklingError, match=r"the file holds a (builtins|__builtin__)\.print"):
        ours.load(theirs(oracle, {"a": Evil()}), weights_only=False)
    with pytest.raises(pickle.UnpicklingError, match=r"torch.nn.modules.linear.Linear|Linear"):
        ours.load(theirs(oracle, oracle.nn.Linear(1, 1)), weights_only=False)
    (tmp_path / "old.pt").write_bytes(pickle.dumps([1]))
    with pytest.raises(ValueError, match="no file of torch.save"):
        ours.load(tmp_path / "old.pt")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a.txt", "a")
    with pytest.raises(ValueError, match="no data.pkl"):
        ours.load(tmp_path / "other.zip")
    with pytest.raises(RuntimeError, match="no CUDA here"):
        ours.load(tmp_path / "old.pt", map_location="cuda")


def test_a_tensor_that_reaches_beyond_its_storage_is_refused(oracle):
    from tinygrad_tf.torch.pickled import _tensor

    storage = np.arange(6.0)
    assert _tensor(storage, 1, (2, 2), (2, 1)).tolist() == [[1, 2], [3, 4]]
    for offset, size, stride in [
        (0, (7,), (1,)),
        (5, (2,), (1,)),
        (-1, (2,), (1,)),
        (0, (3, 3), (2, 1)),
        (0, (2,), (-1,)),
        (6, (1,), (1,)),
        (0, (-1,), (1,)),
    ]:
        with pytest.raises(ValueError, match="is not in 6 elements"):
            _tensor(storage, offset, size, stride)
