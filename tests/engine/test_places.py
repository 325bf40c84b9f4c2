"""Tensors live on the CPU: what asks for another place is an error; new tensors like an old one; casts and copies."""

import numpy as np
import pytest

from tinygrad_tf import float64, int64, nn, ones, tensor, zeros
from tinygrad_tf.device import device, on_cpu


def test_devices_by_name():
    places = [device(), device("cuda"), device("cuda:1"), device("cuda", 2), device("mps")]
    assert [(place.type, place.index) for place in places] == [
        ("cpu", None),
        ("cuda", None),
        ("cuda", 1),
        ("cuda", 2),
        ("mps", None),
    ]
    assert repr(device("cpu")) == "device(type='cpu')"
    assert repr(places[2]) == "device(type='cuda', index=1)"
    assert device("cpu") == "cpu"
    for name in ("gpu", "cuda:x", "", "cpu:"):
        with pytest.raises(RuntimeError, match="no device is called"):
            device(name)
    on_cpu(None)
    on_cpu("cpu")
    with pytest.raises(RuntimeError, match="no CUDA here: tensors live on the CPU"):
        on_cpu("cuda:0")


@pytest.mark.parametrize(
    "f",
    [
        lambda: ones(1).to("cuda"),
        lambda: ones(1).cuda(),
        lambda: ones(1).to(device("cuda", 0)),
        lambda: nn.Linear(1, 1).to("cuda"),
        lambda: nn.Linear(1, 1).cuda(),
        lambda: nn.Linear(1, 1, device="cuda"),
        lambda: nn.Embedding(1, 1, device="cuda"),
        lambda: nn.LayerNorm(1, device="cuda"),
        lambda: nn.RMSNorm(1, device="cuda"),
        lambda: nn.Identity().to("cuda"),
        lambda: ones(1).new_zeros(1, device="cuda"),
    ],
)
def test_another_place_is_an_error(f):
    with pytest.raises(RuntimeError, match="no CUDA here"):
        f()


def test_to():
    x = ones(2)
    assert x.to("cpu") is x.to(x) is x.to(None) is x.cpu() is x.pin_memory() is x
    assert x.to("cpu", float64).dtype == x.to(dtype=float64).dtype == x.to(zeros(1, dtype=float64)).dtype == float64
    copied = x.to("cpu", copy=True)
    copied += 1
    assert x.tolist() == [1, 1]
    assert not x.is_cuda
    assert x.device.type == "cpu"


def test_a_model_that_stays_where_it_is_keeps_its_gradients():
    layer = nn.Linear(2, 1)
    layer(ones(1, 2)).sum().backward()
    kept = layer.weight.grad
    assert layer.to("cpu").weight.grad is kept
    assert layer.to(float64).weight.grad is None
    assert layer.weight.dtype == float64
    with pytest.raises(TypeError, match="a float dtype"):
        layer.to(int64)


def test_new_ones_like_an_old_one():
    x = zeros(2, dtype=float64)
    assert [y.dtype for y in (x.new_zeros(3), x.new_ones((1, 2)), x.new_full((2,), 7), x.new_tensor([1]))] == [float64] * 4
    assert x.new_full((2, 1), 7).tolist() == [[7], [7]]
    assert x.new_ones(2, 1, dtype=int64).tolist() == [[1], [1]]
    assert x.new_zeros(1, requires_grad=True).requires_grad
    array = np.ones(2)
    x.new_tensor(array).add_(1)
    assert array.tolist() == [1, 1]


def test_a_row_for_padding_starts_at_zero_and_gets_no_gradient():
    for place in (0, 2, -1):
        table = nn.Embedding(3, 2, padding_idx=place)
        assert table.weight[place].tolist() == [0, 0]
        table(tensor([0, 1, 2])).sum().backward()
        wanted = np.ones((3, 2))
        wanted[place] = 0
        assert np.array_equal(table.weight.grad.array, wanted)
    with pytest.raises(ValueError, match="padding_idx 3 is not a row of a table of 3 rows"):
        nn.Embedding(3, 2, padding_idx=3)
    rows = nn.Embedding.from_pretrained(ones(2, 3))
    assert rows(tensor([1])).tolist() == [[1, 1, 1]]
    assert not rows.weight.requires_grad


def test_what_two_states_do_not_share_is_returned():
    layer = nn.Linear(1, 1)
    assert layer.load_state_dict(layer.state_dict()) == ([], [])
    missing, unexpected = layer.load_state_dict({"bias": zeros(1), "more": zeros(1)}, strict=False)
    assert (missing, unexpected) == (["weight"], ["more"])


def test_norms_and_unique():
    x = tensor([[3.0, -4.0], [0.0, 0.0]], requires_grad=True)
    assert x.norm(dim=1).tolist() == [5, 0]
    assert x.norm(p=1).item() == 7
    assert x.norm(p=float("inf"), dim=1, keepdim=True).tolist() == [[4], [0]]
    x.norm(dim=1).sum().backward()
    np.testing.assert_allclose(x.grad.array, [[0.6, -0.8], [0, 0]], rtol=1e-6)
    values, inverse, counts = tensor([3, 1, 3]).unique(return_inverse=True, return_counts=True)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([1, 3], [1, 0, 1], [1, 2])
