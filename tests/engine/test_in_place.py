"""Changes in place: the same values and gradients as the form that makes a new tensor, or a refusal that says what to do."""

from pathlib import Path

import numpy as np
import pytest

from tinygrad_tf import Tensor, manual_seed, nn, no_grad, optim, tensor, zeros
from tinygrad_tf.engine import history

HERE = __file__
LEAF = "a leaf that requires a gradient cannot be changed in place: use no_grad"
VIEW = r"shares its memory with another \(a view\)"

IN_PLACE = {
    "+=": (lambda y, b: y.__iadd__(b), lambda y, b: y + b),
    "-=": (lambda y, b: y.__isub__(b), lambda y, b: y - b),
    "*=": (lambda y, b: y.__imul__(b), lambda y, b: y * b),
    "/=": (lambda y, b: y.__itruediv__(b), lambda y, b: y / b),
    "**=": (lambda y, b: y.__ipow__(b), lambda y, b: y**b),
    "add_": (lambda y, b: y.add_(b), lambda y, b: y + b),
    "add_ alpha": (lambda y, b: y.add_(b, alpha=-0.5), lambda y, b: y - 0.5 * b),
    "sub_": (lambda y, b: y.sub_(b), lambda y, b: y - b),
    "mul_": (lambda y, b: y.mul_(b), lambda y, b: y * b),
    "div_": (lambda y, b: y.div_(b), lambda y, b: y / b),
    "fill_": (lambda y, b: y.fill_(2.0), lambda y, b: y * 0 + 2),
    "zero_": (lambda y, b: y.zero_(), lambda y, b: y * 0),
    "copy_": (lambda y, b: y.copy_(b), lambda y, b: y * 0 + b),
    "masked_fill_": (lambda y, b: y.masked_fill_(np.eye(3) > 0, -1.0), lambda y, b: y.masked_fill(np.eye(3) > 0, -1.0)),
    "clamp_": (lambda y, b: y.clamp_(0.6, 2.5), lambda y, b: y.clamp(0.6, 2.5)),
    "relu_": (lambda y, b: y.relu_(), lambda y, b: y.relu()),
    "index_add_": (lambda y, b: y.index_add_(0, tensor([1, 1, 0]), b), lambda y, b: y.index_add(0, tensor([1, 1, 0]), b)),
    "scatter_": (
        lambda y, b: y.scatter_(1, tensor([[2], [0], [1]]), b[:, :1]),
        lambda y, b: y.scatter(1, tensor([[2], [0], [1]]), b[:, :1]),
    ),
    "[...] =": (
        lambda y, b: (y.__setitem__((slice(None), 1), b[0]), y)[1],
        lambda y, b: y.index_add(1, tensor([1]), (b[:1] - y[:, 1:2].T).T),
    ),
}


@pytest.mark.parametrize("other", ["parameter", "constant", "number"])
@pytest.mark.parametrize("name", IN_PLACE)
def test_IP_01_the_same_as_the_form_that_makes_a_new_tensor(name, other, calculus):
    change, make = IN_PLACE[name]
    if other == "number" and name in ("index_add_", "scatter_", "[...] ="):
        other = "constant"
    results = []
    for f in (change, make):
        x = calculus.leaf(calculus.numbers(3, 3, low=0.5, high=2))
        b = calculus.numbers(3, 3, low=0.5, high=2, salt=1)
        b = {"parameter": calculus.leaf(b), "constant": tensor(b), "number": 2.0}[other]
        y = x + 0.25
        same = f(y, b)
        assert (same is y) == (f is change)
        value = same.array.copy()
        loss = (same * calculus.numbers(3, 3, salt=2)).sum()
        loss.backward()
        results.append((value, x.grad.array, b.grad.array if other == "parameter" and b.grad is not None else 0))
    for mine, wanted in zip(*results):
        np.testing.assert_allclose(mine, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", IN_PLACE)
def test_IP_01_refused_on_a_leaf_and_on_views_while_recording(name, calculus):
    change, b = IN_PLACE[name][0], tensor(np.ones((3, 3)))
    x = calculus.leaf(calculus.numbers(3, 3))
    before = x.array.copy()
    with pytest.raises(RuntimeError, match=LEAF):
        change(x, b)
    with pytest.raises(RuntimeError, match=LEAF):
        change(x[:], b)
    y = x + 1
    view = y[:2]
    with pytest.raises(RuntimeError, match=VIEW):
        change(y.T, b)
    with pytest.raises(RuntimeError, match=VIEW):
        change(y, b)
    assert np.array_equal(x.array, before)
    assert np.array_equal(view.array, before[:2] + 1)


@pytest.mark.parametrize("name", IN_PLACE)
def test_IP_01_allowed_on_a_leaf_outside_the_graph_through_every_view(name, calculus):
    change, make = IN_PLACE[name]
    x, b = calculus.leaf(calculus.numbers(3, 3, low=0.5, high=2)), tensor(calculus.numbers(3, 3, low=0.5, high=2, salt=1))
    memory, transposed = x.array, x.detach().T
    wanted = make(x.detach(), b).array
    with no_grad():
        change(x, b)
    assert x.array is memory
    assert x.is_leaf
    assert x.requires_grad
    np.testing.assert_allclose(x.array, wanted, rtol=1e-15, atol=1e-15)
    assert np.array_equal(transposed.array, x.array.T)


SHOWN = {  # y (3, 3) -> a view of it of the same shape, and the way from an array of that shape back
    "transposed": (lambda y: y.T, lambda a: a.T),
    "reshaped twice": (lambda y: y.reshape(9).view(3, 3), lambda a: a),
    "backwards": (lambda y: y[::-1][::-1], lambda a: a),
    "steps": (lambda y: y.unsqueeze(0).transpose(0, 2).squeeze(-1).T, lambda a: a),
}


@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize("name", IN_PLACE)
def test_a_view_changed_in_place_changes_what_it_is_a_view_of(name, shown, calculus):
    """The same values and gradients as the form that makes a new tensor, of the view and of the whole."""
    (change, make), (view, back) = IN_PLACE[name], SHOWN[shown]
    results = []
    for in_place in (True, False):
        x = calculus.leaf(calculus.numbers(3, 3, low=0.5, high=2))
        b = calculus.leaf(calculus.numbers(3, 3, low=0.5, high=2, salt=1))
        y = x + 0.25
        if in_place:
            part = change(view(y), b)
        else:
            part = make(view(y), b)
            y = back(part)
        weights = calculus.numbers(3, 3, salt=2)
        ((part * weights).sum() + (y * weights * weights).sum()).backward()
        results.append((part.array.copy(), y.array.copy(), x.grad.array, b.grad.array if b.grad is not None else np.zeros(1)))
    for mine, wanted in zip(*results):
        np.testing.assert_allclose(mine, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("index", [0, -1, (slice(None), 1), (1, 2), (slice(0, 2),), (..., slice(None, None, 2)), (None, 0)])
def test_a_part_is_added_to_by_an_augmented_assignment(index, calculus):
    results = []
    for augmented in (True, False):
        x = calculus.leaf(calculus.numbers(3, 3))
        y = x * 1 if augmented else None
        if augmented:
            y[index] += 2 * x[0, 0]
            y[index] -= 0.5
        else:
            place = np.zeros((3, 3))
            place[index] = 1
            y = x + (2 * x[0, 0] - 0.5) * place
        (y * calculus.numbers(3, 3, salt=3)).sum().backward()
        results.append((y.array.copy(), x.grad.array))
    for mine, wanted in zip(*results):
        np.testing.assert_allclose(mine, wanted, rtol=1e-12, atol=1e-12)


def test_parts_of_a_new_tensor_are_filled_one_after_the_other(calculus):
    x = calculus.leaf(calculus.numbers(4, 3))
    whole = zeros(4, 3, dtype=np.float64)
    for i in range(4):
        whole[i] += x[i] * (i + 1)
    whole.sum().backward()
    assert x.grad.array.tolist() == [[i + 1.0] * 3 for i in range(4)]
    for i in range(1000):  # whoever looked and is gone is forgotten
        whole[i % 4]
    assert len(whole.views) < 10


def test_IP_05_in_place_on_a_broadcast_view_says_so():
    y = tensor([[1.0], [2.0]]).expand(2, 3)
    with pytest.raises(ValueError, match="read-only"):
        y += 1
    assert y.clone().add_(1).tolist() == [[2, 2, 2], [3, 3, 3]]


# ------------------------------------------------------------------------------------------------ a value still needed


def line_of(text):
    lines = Path(HERE).read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(lines, 1) if text in line and "line_of" not in line)


def test_a_value_still_needed_that_was_changed_raises_and_names_both_lines():
    x = tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    z = y * y  # the victim
    y += 1  # the culprit
    lines = [rf".*test_in_place\.py:{line_of(mark)}" for mark in ("# the victim", "# the culprit")]
    with pytest.raises(
        RuntimeError,
        match=rf"^<mul \(2,\)>, computed at {lines[0]}, needs a value .* changed in place afterwards, at {lines[1]}\. ",
    ):
        z.sum().backward()


@pytest.mark.parametrize(
    "compute,op",
    [
        (lambda y: y.square(), "mul"),  # a method made of others
        (lambda y: nn.functional.softmax(y, -1), "softmax"),
        (nn.Sequential(nn.Linear(2, 2, bias=False)), "linear .* in 0"),  # a layer in a layer: too deep to look for
        (lambda y: 3.0 / y, "div"),
    ],
    ids=["method", "function", "layer", "reflected"],
)
def test_the_line_that_called_a_method_or_a_function_is_named_and_of_a_layer_its_path(compute, op):
    y = tensor([[1.0, 2.0]], requires_grad=True) * 2
    z = compute(y)
    with no_grad():
        (z if op == "softmax" else y).mul_(3)
    where = "" if "in 0" in op else r"test_in_place\.py:\d+, needs"
    with pytest.raises(RuntimeError, match=rf"^<{op}.*>, computed at .*{where}.* afterwards, at .*test_in_place\.py:\d+"):
        z.sum().backward()


@pytest.mark.parametrize(
    "write",
    [
        lambda w: w.add_(1),
        lambda w: w.__setitem__(0, 9.0),
        lambda w: w.data.add_(1),
        lambda w: w.detach().zero_(),
        lambda w: w.detach()[1:].zero_(),
        lambda w: w.data.T.mul_(2),
        lambda w: w.normal_(),
        lambda w: w.uniform_(),
        lambda w: w.copy_(tensor([[5.0], [6.0]])),
    ],
)
def test_a_leaf_changed_between_forward_and_backward_is_noticed_through_every_door(write):
    w = tensor([[1.0], [2.0]], requires_grad=True)
    loss = (w * w).sum()
    with no_grad():
        write(w)
    with pytest.raises(RuntimeError, match=r"changed in place afterwards, at .*test_in_place\.py:\d+"):
        loss.backward()


def test_an_optimizer_step_between_forward_and_backward_is_noticed():
    w = tensor([1.0, 2.0], requires_grad=True)
    optimizer = optim.SGD([w], lr=0.1)
    for _ in range(2):
        loss = (w * w).sum()
        loss.backward(retain_graph=True)
        optimizer.step()
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()


def test_what_the_rule_does_not_need_may_change():
    x = tensor([1.0, 2.0], requires_grad=True)
    y = x + 1
    z = y + 1
    y += 5
    z.sum().backward()
    assert x.grad.tolist() == [1, 1]


def test_a_change_before_the_use_is_no_fault():
    buffer = zeros(2)
    buffer += 3
    x = tensor([1.0, 2.0], requires_grad=True)
    (x * buffer).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_a_change_of_values_through_data_is_seen_by_the_tensor():
    x = tensor([1.0, 2.0], requires_grad=True)
    x.data += 1
    assert x.tolist() == [2, 3]
    x.data -= 0.5 * tensor([1.0, 1.0])
    assert x.tolist() == [1.5, 2.5]
    assert x.is_leaf
    x.data = tensor([7.0, 8.0])
    assert x.tolist() == [7, 8]
    with pytest.raises(ValueError, match=r"shape \(3,\) cannot replace .* \(2,\)"):
        x.data = tensor([1.0, 2.0, 3.0])


def test_an_in_place_change_keeps_shape_and_dtype():
    x = tensor([1.0, 2.0])
    with pytest.raises(ValueError, match=r"cannot turn shape \(2,\) into \(2, 2\)"):
        x += tensor([[1.0, 1.0], [2.0, 2.0]])
    with pytest.raises(TypeError, match="cast"):
        tensor([1, 2]).add_(0.5)
    y = tensor([1.0, 2.0])
    y += tensor([1.0, 2.0], dtype=np.float64)
    assert y.dtype == np.float32


def test_the_memory_of_writes_is_bounded():
    """Marks of in-place writes go with their arrays."""
    from tinygrad_tf.engine import _written

    before = len(_written)
    for _ in range(100):
        zeros(2).add_(1)
    assert len(_written) == before


def test_a_view_of_one_element_shares_memory_as_in_torch():
    x = zeros(3)
    x[0].fill_(5)
    x[1:].add_(1)
    x.reshape(3, 1)[2] = 7
    assert x.tolist() == [5, 1, 7]


def test_indexing_with_arrays_copies_as_in_torch():
    x = zeros(3)
    x[[0, 1]].fill_(5)
    x[np.array([True, False, True])].fill_(5)
    assert x.tolist() == [0, 0, 0]


def test_requires_grad_cannot_be_asked_of_integers_or_withdrawn_from_intermediates():
    with pytest.raises(RuntimeError, match=r"float dtype .* int64"):
        tensor([1, 2], requires_grad=True)
    x = tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="detach"):
        (x * 2).requires_grad_(False)
    assert not x.requires_grad_(False).requires_grad


def test_random_fills_come_from_the_default_generator():
    manual_seed(3)
    a = zeros(4).normal_(1.0, 2.0)
    manual_seed(3)
    assert zeros(4).normal_(1.0, 2.0).tolist() == a.tolist()
    assert a.dtype == np.float32
    assert history(None) == []


# ------------------------------------------------------------------------------------------------ what shares memory


def test_what_pytorch_copies_is_copied():
    x = tensor([[1.0, 2.0], [3.0, 4.0]])
    for f in (lambda x: x.flip(0), lambda x: x.repeat(1, 1), lambda x: x.roll(1, 0), lambda x: x[[0, 1]], lambda x: x.tril()):
        assert not np.shares_memory(f(x).array, x.array)


def test_a_copy_by_index_is_no_view():
    x, b = tensor([1.0, 2.0], requires_grad=True), tensor([3.0, 4.0], requires_grad=True)
    y = x * 2
    rows = y[[0, 0, 1]]
    y += b
    rows += 1
    (y.sum() + rows.sum()).backward()
    assert x.grad.tolist() == [6, 4]
    assert b.grad.tolist() == [1, 1]


def test_a_value_may_have_more_axes_of_size_1_than_its_place():
    for index, shape in ((0, (1, 1, 3)), ((1, 2), (1,)), (slice(0, 1), (1, 1, 3)), (tensor([True, False]), (1, 1, 3))):
        t = tensor(np.ones(shape), dtype=np.float32, requires_grad=True)
        x = zeros(2, 3)
        x[index] = t
        x.sum().backward()
        assert t.grad.shape == shape
        assert t.grad.array.tolist() == np.ones(shape).tolist()
        constant = zeros(2, 3)
        constant[index] = t.detach()
        assert constant.equal(x.detach())
    for place, bad in ((0, np.ones((2, 3))), ((0, 0), np.ones(2)), (0, np.ones((2, 1, 3)))):
        for x in (zeros(2, 3), tensor(np.zeros((2, 3)), requires_grad=True) * 1):
            with pytest.raises(ValueError, match=r"broadcast.*from shape"):
                x[place] = bad
    with pytest.raises(ValueError, match=r"copy_: a source of shape \(1, 2, 3\) is not broadcast into shape \(2, 3\)"):
        zeros(2, 3).copy_(np.ones((1, 2, 3)))


def test_retain_grad_is_about_the_tensor_as_it_is_at_the_end():
    x = tensor([1.0, 2.0], requires_grad=True)
    y, seen = x * 3, []
    y.retain_grad()
    y.register_hook(lambda g: seen.append(g.tolist()))  # on the value before the change
    y *= tensor([10.0, 100.0])
    (y * y).sum().backward()
    assert y.grad.tolist() == [60, 1200]
    assert seen == [[600, 120000]]
    assert x.grad.tolist() == [1800, 360000]


@pytest.mark.parametrize("change", [
    lambda y: y.add_(1.0), lambda y: y.__setitem__(0, 5.0), lambda y: y[0:1].zero_(), lambda y: y.detach().mul_(2.0),
    lambda y: y.detach()[0:1].mul_(2.0), lambda y: Tensor(y[0:1]).mul_(2.0), lambda y: setattr(y, "data", zeros(2)),
], ids=["add_", "item", "view", "detached", "view of detached", "detached view", "data"])  # fmt: skip
def test_a_recorded_backward_notices_a_change_outside_of_the_graph(change):
    """It makes every value again, and would go on with what was there before. A plain backward has what was used."""
    x = tensor([2.0, 3.0], requires_grad=True)
    y = x * x
    with no_grad():
        change(y)
    loss = (x * y).sum()
    with pytest.raises(RuntimeError, match=f"<mul .* changed in place afterwards, at {HERE}:.*outside of the graph"):
        loss.backward(create_graph=True)
    assert x.grad is None
    loss.backward()
    np.testing.assert_allclose(x.grad.array, y.array + 2 * x.array**2)
