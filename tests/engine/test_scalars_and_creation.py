"""0-d tensors as numbers, what a tensor says of itself, and the functions that make tensors."""

import copy
import pickle

import numpy as np
import pytest

import tinygrad_tf
from tinygrad_tf import Tensor, manual_seed, tensor


def test_one_element_is_a_python_number():
    for x in (tensor(2.5), tensor([2.5]), tensor([[2.5]])):
        assert (x.item(), float(x), int(x), bool(x)) == (2.5, 2.5, 2, True)
        assert f"{x:.2f} {x:6.1f}" == "2.50    2.5"
        assert f"{x}" == ("2.5" if x.ndim == 0 else str(x))
        assert "%.1f %d" % (x, x) == "2.5 2"  # noqa: UP031
    assert type(tensor(3).item()) is int
    assert type(tensor(True).item()) is bool
    assert [1, 2, 3][tensor(1) :] == [2, 3]
    assert list(range(tensor(3))) == [0, 1, 2]
    assert [10, 20][tensor([1])] == 20
    assert not tensor(0.0)
    assert not tensor([[False]])


@pytest.mark.parametrize("convert", [float, int, bool, lambda x: x.item(), lambda x: f"{x:.2f}", lambda x: [0][x]])
@pytest.mark.parametrize("data", [[1, 2], []])
def test_more_or_fewer_elements_are_not(convert, data):
    with pytest.raises(ValueError, match="exactly one element|neither true nor false"):
        convert(tensor(data, dtype=np.int64))


def test_a_list_of_tensors_that_require_a_gradient_is_refused():
    w = tensor([1.0, 2.0], requires_grad=True)
    for parts in ([w, w], (w * 2, w), [1.0, w.sum()]):
        with pytest.raises(TypeError, match=r"leave the graph: use stack\(\), or x.detach\(\)"):
            Tensor(parts)
    assert Tensor([w.detach(), tensor([3.0, 4.0])]).tolist() == [[1, 2], [3, 4]]
    assert tinygrad_tf.stack([w, w]).requires_grad


def test_a_tensor_of_a_tensor_has_its_memory_and_not_its_graph():
    w = tensor([1.0, 2.0], requires_grad=True)
    assert Tensor(w).array is w.array
    assert not Tensor(w).requires_grad
    assert "not its graph" in " ".join(Tensor.__doc__.split())


def test_a_float_is_no_index():
    with pytest.raises(TypeError, match=r"integer tensor .* float32"):
        range(tensor(2.0))


def test_comparison_of_numbers_in_an_if():
    best, loss = tensor(2.0), tensor(1.5)
    assert loss < best
    assert not (loss > best)
    assert min(best, loss) is loss
    assert (tensor([1, 2]) == tensor([1, 2])).all()
    assert (tensor([1.0]) == None, tensor([1.0]) != None, tensor([1.0]) == "a") == (False, True, False)  # noqa: E711
    assert 2 in tensor([1, 2])
    assert 3 not in tensor([1, 2])


def test_tensors_are_keys_by_identity():
    a, b = tensor(1.0), tensor(1.0)
    assert len({a: 1, b: 2}) == 2
    assert {a: 1}[a] == 1


def test_what_a_tensor_says_of_itself():
    x = tensor(np.zeros((2, 3), dtype=np.float32), requires_grad=True)
    assert (x.shape, x.size(), x.size(-1), x.size(0)) == ((2, 3), (2, 3), 3, 2)
    assert (x.ndim, x.dim(), x.numel(), x.nelement(), len(x), x.element_size()) == (2, 2, 6, 6, 2, 4)
    assert x.shape[:-1] + (-1, 2) == (2, -1, 2)
    assert isinstance(x.shape, tuple)
    assert (str(x.dtype), x.is_floating_point(), x.is_leaf, x.requires_grad) == ("float32", True, True, True)
    assert str(x.device) == "cpu"
    assert (x * 2).is_leaf is False
    assert x.contiguous() is x
    assert not x.T.is_contiguous()
    assert x.T.contiguous().is_contiguous()


@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: tensor(1.5), "tensor(1.5000)"),
        (lambda: tensor([1, 2]), "tensor([1, 2])"),
        (lambda: tensor([True]), "tensor([True])"),
        (lambda: tensor([1.0], requires_grad=True), "tensor([1.], requires_grad=True)"),
        (lambda: tensor([1.0], requires_grad=True) * 2, "tensor([2.], grad_fn=<mul>)"),
        (lambda: tensor([1], dtype=np.int32), "tensor([1], dtype=int32)"),
        (lambda: tensor([]), "tensor([])"),
    ],
)
def test_repr(make, text):
    assert repr(make()).startswith(text)


def test_repr_of_a_large_tensor_is_short():
    assert len(repr(tensor(np.zeros((500, 500))))) < 1000


def test_the_graph_has_no_say_in_copies_of_leaves():
    x = tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    for y in (copy.deepcopy(x), copy.copy(x)):
        assert y is not x
        assert y.tolist() == [1, 2]
    y = pickle.loads(pickle.dumps(x.detach()))
    assert isinstance(y, Tensor)
    assert y.tolist() == [1, 2]


def test_a_0d_tensor_cannot_be_iterated_or_measured():
    with pytest.raises(TypeError, match="0-d tensor cannot be iterated"):
        iter(tensor(1.0))
    with pytest.raises(TypeError):
        len(tensor(1.0))


def test_tensor_copies_and_Tensor_shares():
    a = np.zeros(2, dtype=np.float32)
    copied, shared, from_numpy = tensor(a), Tensor(a), tinygrad_tf.from_numpy(a)
    a[0] = 5
    assert copied.tolist() == [0, 0]
    assert shared.tolist() == from_numpy.tolist() == [5, 0]
    assert tinygrad_tf.as_tensor(shared) is shared
    t = tensor([1.0], requires_grad=True)
    assert not tensor(t).requires_grad


CREATION = {
    "zeros": lambda m: [m.zeros(2, 3), m.zeros((2, 3)), m.zeros([2]), m.zeros(()), m.zeros(2, dtype=m.int64)],
    "ones": lambda m: [m.ones(1, 1, 5), m.ones((2,), dtype=m.float64), m.ones(0)],
    "full": lambda m: [m.full((2, 3), 7), m.full((2,), 1.5), m.full((), True), m.full((2,), 3, dtype=m.float32)],
    "arange": lambda m: [
        m.arange(5),
        m.arange(2, 7, 2),
        m.arange(0, 1, 0.25),
        m.arange(3.0),
        m.arange(5, 0, -1),
        m.arange(0),
        m.arange(4, dtype=m.float32),
    ],
    "linspace": lambda m: [m.linspace(0, 1, 5), m.linspace(3, -2, 7)],
    "eye": lambda m: [m.eye(3), m.eye(2, 4)],
    "like": lambda m: [
        m.zeros_like(m.arange(3)),
        m.ones_like(m.zeros(2, 2)),
        m.full_like(m.arange(2), 4),
        m.zeros_like(m.arange(3), dtype=m.float32),
    ],
    "tensor": lambda m: [
        m.tensor(1.5),
        m.tensor([1, 2]),
        m.tensor([[True, False]]),
        m.tensor([1, 2.5]),
        m.tensor([]),
        m.tensor([1], dtype=m.float64),
    ],
    "from tensors": lambda m: [m.tensor([m.tensor(1.0), m.tensor(2.5)]), m.stack([m.tensor(1), m.tensor(2)])],
    "inverse frequencies": lambda m: 1.0 / (10000 ** (m.arange(0, 8, 2).float() / 8)),
}


@pytest.mark.parametrize("name", CREATION)
def test_creation_as_in_torch(name, same_as_torch):
    same_as_torch(lambda m, x: CREATION[name](m), np.zeros(1, dtype=np.float32))


DRAWS = {
    "rand": lambda g: tinygrad_tf.rand(200, 5, generator=g),
    "randn": lambda g: tinygrad_tf.randn((200, 5), generator=g),
    "randint": lambda g: tinygrad_tf.randint(3, 9, (200, 5), generator=g),
    "randint from 0": lambda g: tinygrad_tf.randint(9, (200, 5), generator=g),
    "randint by keyword": lambda g: tinygrad_tf.randint(high=9, size=(1000,), generator=g),
    "randperm": lambda g: tinygrad_tf.randperm(1000, generator=g),
    "multinomial": lambda g: tinygrad_tf.multinomial(tensor([[1.0, 2.0, 0.0]] * 100), 10, replacement=True, generator=g),
}


@pytest.mark.parametrize("name", DRAWS)
def test_draws_follow_a_seed_or_a_generator(name):
    draw = DRAWS[name]
    manual_seed(1)
    first, second = draw(None), draw(None)
    assert first.numel() == 1000
    assert first.tolist() != second.tolist()
    manual_seed(1)
    assert draw(None).tolist() == first.tolist()
    assert draw(np.random.default_rng(1)).tolist() == first.tolist()


def test_draws_are_what_they_say():
    rand, randn, randint = DRAWS["rand"](None).array, DRAWS["randn"](None).array, DRAWS["randint"](None).array
    assert rand.dtype == randn.dtype == np.float32
    assert 0 <= rand.min() < 0.05
    assert 0.95 < rand.max() < 1
    assert abs(randn.mean()) < 0.15
    assert abs(randn.std() - 1) < 0.1
    assert set(randint.ravel()) == {3, 4, 5, 6, 7, 8}
    assert randint.dtype == np.int64
    assert sorted(DRAWS["randperm"](None).tolist()) == list(range(1000))
    picked = DRAWS["multinomial"](None)
    assert picked.shape == (100, 10)
    assert abs((picked == 1).float().mean().item() - 2 / 3) < 0.05
    assert not (picked == 2).any()
    without = tinygrad_tf.multinomial(tensor([0.2, 0.3, 0.5]), 3)
    assert sorted(without.tolist()) == [0, 1, 2]
    for bad in ([-1.0, 2.0], [0.0, 0.0], [np.nan, 1.0]):
        with pytest.raises(ValueError, match="weights must be finite"):
            tinygrad_tf.multinomial(tensor(bad), 1)


def test_the_seed_reaches_those_who_hold_the_generator_already():
    held = tinygrad_tf.random.default()
    manual_seed(5)
    a = held.random()
    assert manual_seed(5).random() == a


def test_mm_and_bmm_take_no_other_shapes_and_truth_no_other_size():
    x = Tensor(np.ones((2, 3, 4), np.float32))
    assert x.bmm(x.transpose(1, 2)).shape == (2, 3, 3)
    assert x[0].mm(x[1].T).shape == (3, 3)
    for wrong in (lambda: x.mm(x.transpose(1, 2)), lambda: x[0].bmm(x[0].T), lambda: x.bmm(x[:1].transpose(1, 2))):
        with pytest.raises(ValueError, match="it takes two tensors of [23] axes"):
            wrong()
    with pytest.raises(ValueError, match=r"neither true nor false: take .any\(\) or .all\(\)"):
        bool(x > 0)
