"""Arguments that cannot be: one clear line that names what was called, in place of what NumPy or Python say inside."""

import numpy as np
import pytest

import tinygrad_tf as t
from tinygrad_tf import Tensor, errors, nn, ones, tensor
from tinygrad_tf.einsum import einsum

# ------------------------------------------------------------------------------------------------ axes, sizes, numbers

REDUCTIONS = ["argmax", "argmin", "all", "any", "sum", "mean", "var", "std", "max", "min", "amax", "prod", "median", "mode",
              "cumsum", "cumprod", "argsort", "sort", "logsumexp", "softmax", "unbind", "flip", "squeeze", "flatten", "size",
              "stride", "count_nonzero", "cummax"]  # fmt: skip


@pytest.mark.parametrize("dim, kind", [(9, IndexError), (-3, IndexError), ("a", TypeError), (1.5, TypeError)])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_an_axis_that_is_none(name, dim, kind):
    with pytest.raises(kind) as caught:
        getattr(ones(3, 4), name)(dim)
    message = str(caught.value)
    assert type(caught.value) is kind
    assert message.startswith((f"{name}: ", "sum: ", "amax: "))  # mean, var and std are sums
    words = "is a whole number, not" if kind is TypeError else f"dim {dim} is out of range for a tensor with 2 axes, -2 to 1"
    assert words in message


def test_integers_take_no_axis_that_is_none_either():
    with pytest.raises(IndexError, match="^amin: dim 9"):
        tensor([1, 2]).amin(9)


def test_dim_and_axis_are_one_argument():
    for name in ("sum", "mean"):
        with pytest.raises(TypeError, match=f"^{name}: dim and axis are two names for the same"):
            getattr(ones(3, 4), name)(axis=0, dim=1)
        assert getattr(ones(3, 4), name)(axis=0).shape == (4,)


def test_axes_may_be_numpy_integers_and_tensors():
    x = Tensor(np.arange(6.0).reshape(2, 3))
    assert x.sum(np.int64(0)).tolist() == x.sum(tensor(0)).tolist() == x.sum([0]).tolist() == [3, 5, 7]
    assert x.argmax(tensor(1)).tolist() == x.argmax(np.int32(1)).tolist() == [2, 2]
    assert x.reshape(tensor(3), np.int64(2)).shape == (3, 2)


def test_the_frobenius_norm_has_a_name():
    assert ones(2, 2).norm("fro").item() == 2


CASES = [
    (lambda x: x.reshape("a"), TypeError, "reshape: a size or an axis is a whole number, not 'a' (str)"),
    (lambda x: x.reshape(2.0, 6), TypeError, "reshape: a size or an axis is a whole number, not 2.0 (float)"),
    (lambda x: x.view(None), TypeError, "view: a size or an axis is a whole number, not None"),
    (lambda x: t.zeros("a"), TypeError, "zeros: a size or an axis is a whole number"),
    (lambda x: t.zeros(2, -1), ValueError, "zeros: a size is a whole number from 0 on, not -1"),
    (lambda x: t.rand(1.5), TypeError, "rand: a size"),
    (lambda x: t.randn(-1), ValueError, "randn: a size"),
    (lambda x: t.full((2, "a"), 1.0), TypeError, "full: a size"),
    (lambda x: x.new_zeros(-1), ValueError, "new_zeros: a size"),
    (lambda x: t.eye("a"), TypeError, "eye: n is a whole number"),
    (lambda x: t.linspace(0, 1, 1.5), TypeError, "linspace: steps is a whole number"),
    (lambda x: t.linspace("a", 1, 5), TypeError, "linspace: start is a number"),
    (lambda x: t.arange("a"), ValueError, "arange: numbers, and a step that is not 0"),
    (lambda x: t.arange(0, 5, 0), ValueError, "arange: numbers, and a step that is not 0"),
    (lambda x: t.randint(5, 3, (2,)), ValueError, "randint: there is no integer from 5 up to 2"),
    (lambda x: t.randint("a", 5, (2,)), TypeError, "randint: low is a whole number"),
    (lambda x: t.randperm(-1), ValueError, "randperm: n is a whole number from 0 on"),
    (lambda x: t.zeros_like(3), TypeError, "zeros_like: input is a tensor, not 3 (int)"),
    (lambda x: t.cat(x), TypeError, "cat: a list of tensors, not a Tensor of shape (3, 4)"),
    (lambda x: t.cat(x, x), TypeError, "cat: a list of tensors"),
    (lambda x: t.cat([x, 3]), TypeError, "cat: a list of tensors, not with 3 (int) in it"),
    (lambda x: t.stack(3), TypeError, "stack: a list of tensors, not 3 (int)"),
    (lambda x: x.topk(1.5), TypeError, "topk: k is a whole number"),
    (lambda x: x.topk(2, 9), IndexError, "topk: dim 9"),
    (lambda x: x.narrow(0, "a", 1), TypeError, "narrow: start is a whole number"),
    (lambda x: x.split("ab"), TypeError, "split: a size"),
    (lambda x: x.split([5, -2]), ValueError, "split: a size is a whole number from 0 on, not -2"),
    (lambda x: x.chunk(1.5), TypeError, "chunk: chunks is a whole number"),
    (lambda x: x.repeat(-1, 1), ValueError, "repeat: (-1, 1) for shape (3, 4)"),
    (lambda x: x.repeat_interleave(-1), ValueError, "repeat_interleave: repeats"),
    (lambda x: x.repeat_interleave(tensor([1, 2]), 0), ValueError, "repeat_interleave: repeats"),
    (lambda x: x.roll((1, 2), 0), ValueError, "roll: shifts (1, 2) for dims (0,)"),
    (lambda x: x.tril("a"), TypeError, "tril: diagonal is a whole number"),
    (lambda x: x[0].triu(), ValueError, "triu: a tensor of shape (4,) has no triangle"),
    (lambda x: x.unfold(0, 1, 0), ValueError, "unfold: windows of 1, 0 apart"),
    (lambda x: x.unflatten(1, 3), ValueError, "unflatten: sizes (3,)"),
    (lambda x: x.unique(dim=9), IndexError, "unique: dim 9"),
    (lambda x: x.outer(3), ValueError, "outer: two vectors, not a Tensor of shape (3, 4) and 3 (int)"),
    (lambda x: x[0].dot(3), RuntimeError, "dot: two vectors of one length"),
    (lambda x: x.mv(3), RuntimeError, "mv: a matrix and a vector"),
    (lambda x: x.lerp(1.0, 0.5), TypeError, "lerp: end is a tensor, not 1.0 (float)"),
    (lambda x: x.masked_select(tensor([True] * 7)), ValueError, "masked_select: a mask of shape (7,) does not fit (3, 4)"),
    (lambda x: x.index_fill(0, tensor([9]), 1.0), IndexError, "index_fill: index 9"),
    (lambda x: x[0].multinomial(5), ValueError, "multinomial: 5 draws from weights of shape (4,)"),
    (lambda x: x.histc(-1), ValueError, "histc: bins is a whole number from 1 on"),
    (lambda x: x.normal_(0, -1), ValueError, "normal_: std must not be negative"),
    (lambda x: x.uniform_(3, 1), RuntimeError, "uniform_: there is no number from 3 up to 1"),
    (lambda x: x.to("gpu"), TypeError, "to: 'gpu' (str) is no dtype and no device"),
    (lambda x: len(x[0, 0]), TypeError, "a 0-d tensor has no len()"),
    (lambda x: tensor("a"), TypeError, "tensor: a tensor holds numbers, not <U1 (from 'a' (str))"),
    (lambda x: tensor([[1, 2], [3]]), ValueError, "tensor: setting an array element with a sequence"),
    (lambda x: einsum(x), TypeError, 'einsum: the equation comes first, as in einsum("ij,jk->ik", a, b), not a Tensor'),
    (lambda x: einsum("ij", 3), TypeError, "einsum: an operand of 'ij' is 3 (int) and no tensor"),
    (lambda x: einsum("i1", x), ValueError, "einsum: 'i1' is letters"),
    (lambda x: einsum("i->j->k", x), ValueError, "einsum: 'i->j->k' is letters"),
]


# ------------------------------------------------------------------------------------------------ operands

OPERANDS = [
    (lambda x: x + "a", TypeError, "add: (3, 4) + str: 'a' (str) is neither a tensor nor a number: tensor(...) makes one"),
    (lambda x: x @ None, TypeError, "matmul: (3, 4) @ NoneType: None is neither a tensor nor a number"),
    (lambda x: "a" ** x, TypeError, "pow: str ** (3, 4): 'a' (str) is neither"),
    (lambda x: x * {"a": 1}, TypeError, "mul: (3, 4) * dict: {'a': 1} (dict) is neither"),
    (lambda x: x < "a", TypeError, "less: (3, 4), str: 'a' (str) is neither"),
    (lambda x: x < ones(7), ValueError, "less: (3, 4), (7,): sizes 4 and 7 on axis -1 differ and neither is 1"),
    (lambda x: x == ones(7), ValueError, "equal: (3, 4), (7,): sizes 4 and 7"),
    (lambda x: x.allclose(ones(7)), ValueError, "isclose: (3, 4), (7,): sizes 4 and 7"),
    (lambda x: x & x, TypeError, "bitwise_and: (3, 4), (3, 4): not for tensors of dtype float32: compare first"),
    (lambda x: ~x, TypeError, "invert: (3, 4): not for tensors of dtype float32: compare first"),
    (lambda x: x.clamp("a"), TypeError, "clamp: (3, 4) with min=a: min='a' is no number"),
    (lambda x: nn.functional.gelu(x.long()), TypeError, "gelu: (3, 4): not for tensors of dtype int64: .float() converts"),
    (lambda x: nn.functional.sigmoid(3), TypeError, "sigmoid: (): 3 (int) is no tensor: tensor(...) makes one"),
    (lambda x: x.expand(2, 3, 5), ValueError, "expand: (3, 4) with shape=(2, 3, 5): an axis keeps its size or is repeated"),
    (lambda x: x.masked_fill(tensor([True] * 7), 0), ValueError, "where: (), (3, 4) with condition=bool[7]: sizes 4 and 7"),
    (lambda x: x.__setitem__(0, ones(7)), ValueError, "put: (3, 4), (7,) with index=0: could not broadcast"),
    (lambda x: x.__setitem__(9, 1.0), IndexError, "put: (3, 4), () with index=9: index 9 is out of bounds"),
    (lambda x: x.long().add_(0.5), TypeError, "add_: a result of float32 cannot be cast to int64"),
]


@pytest.mark.parametrize("call, kind, words", [*CASES, *OPERANDS], ids=[words for *_, words in [*CASES, *OPERANDS]])
def test_it_is_said_by_name_what_cannot_be(call, kind, words):
    with pytest.raises(kind) as caught:
        call(ones(3, 4))
    assert type(caught.value) is kind
    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)


def test_the_state_of_a_layer_is_no_operand():
    x = ones(2, 3).requires_grad_()
    with pytest.raises(TypeError, match=r"^linear: tuple, \(2, 3\): a tuple of Tensor, tuple is .*: take one of its parts"):
        nn.functional.linear((x, (x, x)), x)


# ------------------------------------------------------------------------------------------------ how it is said


def test_what_was_called_is_what_the_users_line_called():
    class Net(nn.Module):
        def forward(self, x):
            return x.flatten(9)

    with pytest.raises(IndexError, match="^flatten: dim 9"):
        Net()(ones(2))
    with pytest.raises(IndexError, match="^Flatten: dim 9"):
        nn.Flatten(9)(ones(2))
    assert errors.called() == ""


def test_what_is_shown_of_an_argument_is_one_short_line():
    assert errors.shown("a\nb") == r"'a\nb' (str)"
    assert errors.shown(nn.Linear(2, 2)) == "a Linear"
    assert errors.shown(nn.ReLU) == "the class ReLU"
    assert errors.shown([ones(2), None]) == "a list of Tensor, NoneType"
    assert len(errors.shown("a" * 1000)) < 100


def test_numbers_are_what_python_takes_for_one():
    assert errors.whole("n", np.int8(3)) == errors.whole("n", tensor(3)) == 3
    assert errors.real("x", tensor(0.5)).item() == errors.real("x", np.float32(0.5)) == 0.5
    assert np.isnan(errors.real("x", float("nan")))
    for value in ("1", None, [1.0], ones(2), 1j):
        with pytest.raises(TypeError, match="x is a number, not"):
            errors.real("x", value)
    with pytest.raises(ValueError, match=r"x lies in \[0, 1\), not at 1"):
        errors.real("x", 1, below=1)
    with pytest.raises(ValueError, match=r"x lies in \[0, 1\], not at 2"):
        errors.real("x", 2, most=1)
