"""Errors name the op, the shapes, the reason and the module path, in one line."""

import numpy as np
import pytest

from tinygrad_tf import Tensor, cat, nn, ones, stack, tensor, zeros
from tinygrad_tf.nn import functional

CASES = {
    "matmul": (lambda: ones(4, 6, 32) @ ones(64, 3), ValueError, "matmul: (4, 6, 32) @ (64, 3): inner sizes 32 and 64 differ"),
    "matmul vector": (lambda: ones(3) @ ones(4), ValueError, "matmul: (3,) @ (4,): inner sizes 3 and 4 differ"),
    "matmul batch": (
        lambda: ones(2, 3, 4) @ ones(5, 4, 6),
        ValueError,
        "matmul: (2, 3, 4) @ (5, 4, 6): sizes 2 and 5 on axis -3 differ and neither is 1",
    ),
    "matmul batch further out": (
        lambda: ones(2, 1, 3, 4) @ ones(7, 5, 4, 4),
        ValueError,
        "matmul: (2, 1, 3, 4) @ (7, 5, 4, 4): sizes 2 and 7 on axis -4 differ and neither is 1",
    ),
    "matmul 0-d": (
        lambda: ones(()) @ ones(2, 2),
        ValueError,
        "matmul: () @ (2, 2): a 0-d tensor has no rows or columns; use * to scale by a number",
    ),
    "linear": (
        lambda: functional.linear(ones(4, 6, 32), ones(3, 64), ones(3)),
        ValueError,
        "linear: (4, 6, 32), (3, 64), (3,): inner sizes 32 and 64 differ",
    ),
    "add": (
        lambda: ones(2, 3) + ones(2, 4),
        ValueError,
        "add: (2, 3) + (2, 4): sizes 3 and 4 on axis -1 differ and neither is 1",
    ),
    "sub outer axis": (
        lambda: ones(2, 1, 3) - ones(5, 1, 1),
        ValueError,
        "sub: (2, 1, 3) - (5, 1, 1): sizes 2 and 5 on axis -3 differ and neither is 1",
    ),
    "array": (lambda: ones(3) * np.ones(4), ValueError, "mul: (3,) * (4,): sizes 3 and 4 on axis -1 differ and neither is 1"),
    "reversed": (
        lambda: np.ones(4) / ones(3),
        ValueError,
        "div: (4,) / (3,): sizes 3 and 4 on axis -1 differ and neither is 1",
    ),
    "reshape": (
        lambda: ones(2, 3).reshape(4, 2),
        ValueError,
        "reshape: (2, 3) with shape=(4, 2): cannot reshape array of size 6 into shape (4,2)",
    ),
    "sum": (
        lambda: ones(2, 3).sum(2),
        IndexError,
        "sum: (2, 3) with dim=2, keepdim=False: dim 2 is out of range for a tensor with 2 axes, -2 to 1",
    ),
    "sum twice": (
        lambda: ones(2, 3).sum((1, -1)),
        ValueError,
        "sum: (2, 3) with dim=(1, -1), keepdim=False: dim (1, -1) names an axis twice",
    ),
    "cumsum": (
        lambda: ones(2, 3).cumsum(-3),
        IndexError,
        "cumsum: (2, 3) with dim=-3: dim -3 is out of range for a tensor with 2 axes, -2 to 1",
    ),
    "softmax": (
        lambda: ones(2, 3).softmax(5),
        IndexError,
        "softmax: (2, 3) with dim=5: dim 5 is out of range for a tensor with 2 axes, -2 to 1",
    ),
    "index": (
        lambda: ones(2, 3)[2],
        IndexError,
        "getitem: (2, 3) with index=2: index 2 is out of bounds for axis 0 with size 2",
    ),
    "too many indices": (
        lambda: ones(2)[0, 0],
        IndexError,
        "getitem: (2,) with index=(0, 0): too many indices for array: array is 1-dimensional, but 2 were indexed",
    ),
    "expand": (lambda: ones(2, 3).expand(2, 4), ValueError, "expand: (2, 3) with shape=(2, 4): "),
    "cat": (lambda: cat([ones(2, 3), ones(2, 4)]), ValueError, "cat: (2, 3), (2, 4) with dim=0: "),
    "cat ranks": (lambda: cat([ones(2, 3), ones(3)], 1), ValueError, "cat: (2, 3), (3,) with dim=1: "),
    "maximum": (
        lambda: ones(2).maximum(ones(3)),
        ValueError,
        "maximum: (2,), (3,): sizes 2 and 3 on axis -1 differ and neither is 1",
    ),
    "attention": (
        lambda: functional.scaled_dot_product_attention(ones(1, 2, 3, 4), ones(1, 2, 3, 5), ones(1, 2, 3, 4)),
        ValueError,
        "attention: (1, 2, 3, 4), (1, 2, 3, 5), (1, 2, 3, 4): ",
    ),
    "layer_norm": (lambda: functional.layer_norm(ones(2, 3), (4,)), ValueError, "(4,)"),
    "amax of nothing": (lambda: zeros(0).max(), ValueError, "amax: (0,)"),
}


@pytest.mark.parametrize("name", CASES)
def test_one_line_that_names_op_shapes_and_reason(name):
    call, kind, text = CASES[name]
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert type(caught.value) is kind
    assert "\n" not in message
    assert message.startswith(text) if name != "layer_norm" else text in message
    if not text.endswith((": ", ")")):
        assert message == text


def test_the_module_path_stands_at_the_end():
    class Block(nn.Module):
        def __init__(self):
            self.ffn = nn.Sequential(nn.Linear(4, 8), nn.Linear(16, 4))
            self.norm = nn.LayerNorm(4)

        def forward(self, x):
            return self.norm(self.ffn(x)) @ ones(5, 5)

    class Model(nn.Module):
        def __init__(self):
            self.blocks = nn.ModuleList([Block(), Block()])

        def forward(self, x):
            return self.blocks[1](x)

    model = Model()
    with pytest.raises(
        ValueError, match=r"^linear: \(2, 8\), \(4, 16\), \(4,\): inner sizes 8 and 16 differ \[blocks\.1\.ffn\.1\]$"
    ):
        model(ones(2, 4))
    model.blocks[1].ffn = nn.Identity()
    with pytest.raises(ValueError, match=r"^matmul: \(2, 4\) @ \(5, 5\): inner sizes 4 and 5 differ \[blocks\.1\]$"):
        model(ones(2, 4))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.unsqueeze(4),
        lambda x: x.unsqueeze(-4),
        lambda x: x.squeeze(2),
        lambda x: x.transpose(0, 2),
        lambda x: x.permute(0, 2),
        lambda x: x.select(2, 0),
        lambda x: x.narrow(-3, 0, 1),
        lambda x: x.index_select(2, tensor([0])),
        lambda x: x.index_add(5, tensor([0]), x),
        lambda x: x.gather(2, tensor([[0]])),
        lambda x: x.scatter(-3, tensor([[0]]), 1.0),
        lambda x: x.split(1, dim=2),
        lambda x: x.chunk(2, dim=2),
        lambda x: x.unbind(2),
        lambda x: x.flip(2),
        lambda x: x.roll(1, 2),
        lambda x: x.flatten(0, 2),
        lambda x: x.flatten(3),
        lambda x: x.mean(2),
        lambda x: x.var(-3),
        lambda x: x.prod(2),
        lambda x: x.logsumexp(2),
        lambda x: x.log_softmax(2),
        lambda x: stack([x, x], 4),
        lambda x: cat([x, x], 2),
    ],
)
def test_a_dim_that_does_not_exist_never_wraps_around(call):
    with pytest.raises(IndexError, match=r"dim -?\d is out of range for a tensor with \d axes"):
        call(ones(2, 3))


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda x: x.narrow(0, 1, 2), "2 places from 1 on do not fit into 2"),
        (lambda x: x.narrow(0, -3, 1), "do not fit"),
        (lambda x: x.permute(0, 0), "names an axis twice"),
        (lambda x: x.chunk(0), "chunk: chunks is a whole number from 1 on"),
        (lambda x: x.split(0), "split: a size of 0"),
        (lambda x: x.split([1, 2]), r"sizes \[1, 2\] add up to 3, not to 2"),
        (lambda x: x[0].tril(), "has no triangle"),
        (lambda x: x.flatten(1, 0), "start_dim 1 comes after end_dim 0"),
        (lambda x: x.repeat(2), "one number for each axis"),
        (lambda x: x.expand(3), "one size for each axis"),
        (lambda x: x.expand(-1, 2, 3), "-1 only for an axis that exists"),
        (lambda x: x.topk(4), "k=4 is more than the 3 elements"),
        (lambda x: x.gather(0, tensor([0])), "the ranks must be equal"),
        (lambda x: x.clamp(), "min, max or both"),
        (lambda x: x.cumsum((0, 1)), "must name one axis"),
        (lambda x: stack([]), "at least one tensor"),
        (lambda x: cat([]), "at least one tensor"),
        (lambda x: x.unsqueeze(0).t(), r"t\(\) takes a matrix"),
        (lambda x: x.item(), "exactly one element"),
        (lambda x: x[0.5], "only integers, slices"),
        (lambda x: x[tensor([0.5])], "integers or booleans, not float32"),
        (lambda x: x.to("cuda"), "no CUDA here"),
    ],
)
def test_other_bad_arguments_are_one_clear_line(call, words):
    with pytest.raises((ValueError, IndexError, RuntimeError), match=words) as caught:
        call(ones(2, 3))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "ids, kind, words",
    [
        ([[0, 5]], IndexError, r"id 5 at position \(0, 1\) .* 5 rows"),
        ([[0.0, 1.0]], TypeError, "ids is int64 or int32 here, not float32"),
        ([[-1, 0]], IndexError, r"id -1 at position \(0, 0\)"),
    ],
)
def test_IX_04_bad_ids_are_named_with_their_place_and_the_size_of_the_table(ids, kind, words):
    with pytest.raises(kind, match=words):
        functional.embedding(Tensor(np.array(ids, dtype=np.int64 if isinstance(ids[0][0], int) else np.float32)), ones(5, 2))
    with pytest.raises(kind, match=words):
        nn.Embedding(5, 2)(tensor(ids))


def test_IX_04_targets_out_of_range_are_named():
    with pytest.raises(IndexError, match=r"target 3 at position \(1,\) is none of 3 classes"):
        functional.cross_entropy(ones(2, 3), tensor([0, 3]))
    with pytest.raises(TypeError, match="ids is int64 or uint8 here, not float32"):
        functional.cross_entropy(ones(2, 3), tensor([0.0, 1.0]))
    with pytest.raises(ValueError, match="2 rows of logits and 3 targets"):
        functional.cross_entropy(ones(2, 3), tensor([0, 1, 2]))
    with pytest.raises(ValueError, match="reduction is"):
        functional.cross_entropy(ones(2, 3), tensor([0, 1]), reduction="avg")
