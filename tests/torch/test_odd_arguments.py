"""What PyTorch refuses is refused here too, with an exception of its kind and in one line of our own words."""

import warnings

import numpy as np
import pytest

import tinygrad_tf.torch as ours

# Expressions over a module m (ours, or PyTorch) that both refuse; x (3, 4), v (3,), i (3,) of integers, b (2, 3, 4)
REFUSED = """
x.argmax(9)
x.argmin('a')
x.max(9)
x.sort(-3)
x.unique(dim=9)
x.size(9)
x.stride(9)
x.topk(2, 9)
x.sum('a')
x.softmax(1.5)
x.unsqueeze('a')
x.transpose(0, 'a')
x.reshape(1.5)
x.view(None)
x.tril('a')
x.narrow(0, 'a', 1)
x.split('a')
x.chunk(1.5)
x + 'a'
x @ None
x < 'a'
~x
x[v]
m.zeros('a')
m.zeros(2, 1.5)
m.eye('a')
m.linspace(0, 1, 1.5)
m.zeros_like(3)
m.cat(3)
m.cat([x, 3])
m.cat([])
m.stack(x)
m.hstack(3)
m.max(3)
m.exp()
m.matmul(x)
m.mm(x)
m.where(x > 0, x)
m.bernoulli(x)
m.normal('a', 1, (2,))
m.normal(0.0, -1.0, (2,))
m.einsum('ij', 3)
m.finfo(m.int64)
m.iinfo(m.float32)
m.nn.Linear('a', 3)
m.nn.Linear(4, 2.5)
m.nn.LSTM('a', 5)
m.nn.LayerNorm(4.0)
m.nn.Dropout('a')
m.nn.Conv1d(4, 2, 2, groups='a')
m.nn.ModuleList(3)
m.nn.Sequential([m.nn.ReLU()])
m.nn.Linear(4, 2)('a')
m.nn.LayerNorm(4)(3)
m.nn.Conv2d(3, 2, 2)(None)
m.nn.Embedding(5, 3)('a')
m.nn.functional.cross_entropy(x, i, ignore_index='a')
m.nn.functional.cross_entropy(x, i, label_smoothing='a')
m.nn.functional.cross_entropy(3, i)
m.nn.functional.gumbel_softmax('a')
m.nn.functional.conv1d(b, 3)
m.optim.SGD([w], lr='a')
m.optim.Adam([w], betas=0.9)
m.optim.lr_scheduler.StepLR([w], 5)
m.optim.lr_scheduler.MultiStepLR(o, 5)
m.optim.lr_scheduler.MultiplicativeLR(o, 0.5)
m.optim.lr_scheduler.LinearLR(o, 'a')
setattr(w, 'grad', np.ones(3))
setattr(w, 'grad', m.ones(4))
m.utils.data.random_split([1, 2, 3], 2)
""".strip().splitlines()


def error(expression, m):
    names = {"m": m, "np": np, "x": m.arange(12.0).reshape(3, 4), "v": m.arange(3.0), "i": m.arange(3), "b": m.ones(2, 3, 4)}
    names["w"] = m.nn.Parameter(m.ones(3))
    names["o"] = m.optim.SGD([names["w"]], lr=0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((TypeError, ValueError, LookupError, RuntimeError, AttributeError)) as caught:
            eval(expression, names)
    return caught.value


@pytest.mark.oracle
@pytest.mark.parametrize("expression", REFUSED)
def test_the_same_kind_of_error_as_pytorchs(expression, oracle):
    ours_, theirs = error(expression, ours), error(expression, oracle)
    kinds = [kind for kind in (TypeError, IndexError, ValueError, RuntimeError) if isinstance(theirs, kind)]
    assert isinstance(ours_, (*kinds, TypeError) if isinstance(theirs, AttributeError) else tuple(kinds)), (ours_, theirs)


@pytest.mark.parametrize("expression", REFUSED)
def test_in_one_line_that_is_not_numpys(expression):
    message = str(error(expression, ours))
    assert "\n" not in message
    for raw in ("'<=' not supported", "'<' not supported", "object cannot be interpreted", "object has no attribute",
                "is not iterable", "out of bounds for array of dimension", "tuple index out of", "ufunc '"):  # fmt: skip
        assert raw not in message


def test_a_door_without_arguments_says_what_comes_first():
    with pytest.raises(TypeError, match=r"^torch.exp takes a tensor first, as torch.exp\(x\)$"):
        ours.exp()
    assert ours.exp(input=ours.zeros(1)).item() == 1
