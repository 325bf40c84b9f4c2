"""nn.checkpoint: the plain call to the last bit, with the inputs of a function kept and nothing else of it."""

import gc
import threading
import tracemalloc
import weakref
from functools import partial
from operator import add

import numpy as np
import pytest

from tinygrad_tf import Tensor, composed, grad, is_grad_enabled, nn, no_grad, ops, optim, tensor
from tinygrad_tf.engine import history, state
from tinygrad_tf.generate import generate
from tinygrad_tf.models import TransformerConfig, build
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn.transformer import block_of_gpt2
from tinygrad_tf.random import default, manual_seed


def rng(seed=0):
    return np.random.default_rng(seed)


def leaf(*shape, seed=0):
    return tensor(rng(seed).normal(size=shape).astype(np.float32), requires_grad=True)


def kept(loss, leaves):
    """Bytes that backward from `loss` keeps, those of these leaves left out."""
    arrays = {id(a): a for node in history(loss.node) for a in node.kept()}
    return sum(a.nbytes for a in arrays.values() if not any(np.shares_memory(a, x.array) for x in leaves))


MODELS = {
    "plain": {},
    "dropout": {"dropout": 0.3},
    "rotary, grouped heads, gated, window": {
        "positions": "rotary", "n_kv_head": 2, "ffn": "swiglu", "norm": "rms", "qk_norm": True, "window": 5},
    "t5 positions, shared by all blocks": {"positions": "t5", "dropout": 0.1},
    "post-norm with biases": {"norm_order": "post", "bias": True},
    "linear attention, parallel": {"attention": "linear", "parallel": True},
    "encoder": {"arrangement": "encoder", "dropout": 0.2},
    "encoder-decoder": {"arrangement": "encoder-decoder", "dropout": 0.2},
    "scales of the updates, untied": {"layer_scale": 0.3, "tied": False},
}  # fmt: skip


def a_step(fields, recompute, times=1):
    """Loss, gradients after so many backward passes, bytes kept, where the dropout's generator then stands."""
    config = TransformerConfig(vocab_size=19, block_size=12, n_layer=3, n_embd=32, recompute=recompute, **fields)
    model, stream = build(config, rng(1)), rng(2)
    for module in model.modules():
        if isinstance(module, (nn.Dropout, nn.MultiHeadAttention)):
            module.generator = stream
    manual_seed(3)
    ids = rng(4).integers(0, 19, (2, 4, 12))
    arguments = (*ids, ids[0]) if config.arrangement == "encoder-decoder" else ids
    for _ in range(times):
        loss = model.loss(*arguments)
        size = kept(loss, list(model.parameters()))
        loss.backward()
    grads = {name: p.grad.array.tobytes() for name, p in model.named_parameters() if p.grad is not None}
    return loss.item(), grads, size, (stream.random(), default().random())


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_the_same_loss_and_gradients_to_the_last_bit(name):
    plain, again = a_step(MODELS[name], False, times=2), a_step(MODELS[name], True, times=2)
    assert again[0] == plain[0]
    assert again[1] == plain[1]
    assert len(plain[1]) > 10
    assert again[3] == plain[3]  # the generators
    assert again[2] < plain[2] / 2


@pytest.mark.parametrize("name", ["dropout", "encoder-decoder"])
def test_on_the_twins_too(name):
    with composed():
        plain, again = a_step(MODELS[name], False), a_step(MODELS[name], True)
    assert again[:2] == plain[:2]


def chain(layers, run, width=16, rows=32):
    blocks = [block_of_gpt2(width, 2) for _ in range(layers)]
    x = leaf(1, rows, width) * 1
    for block in blocks:
        x = run(block, x)
    return x.sum(), [p for block in blocks for p in block.parameters()]


def plain(function, *args, **kwargs):
    return function(*args, **kwargs)


def test_what_is_kept_is_the_inputs_of_each_call_to_the_byte():
    sizes = [kept(*chain(n, nn.checkpoint)) for n in (1, 2, 4, 8)]
    assert sizes == [n * 32 * 16 * 4 for n in (1, 2, 4, 8)]
    one, two = (kept(*chain(n, plain)) for n in (1, 2))
    assert two - one > 10 * 32 * 16 * 4


def test_the_peak_of_a_step_grows_by_an_input_a_layer_and_not_by_all_that_a_layer_makes():
    def peak(layers, run):
        loss, parameters = None, None
        tracemalloc.start()
        loss, parameters = chain(layers, run, width=16, rows=512)
        loss.backward()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most - sum(p.array.nbytes * 2 for p in parameters)  # and their gradients

    chain(1, nn.checkpoint)[0].backward()
    x = 512 * 16 * 4
    growth = (peak(9, nn.checkpoint) - peak(5, nn.checkpoint)) / 4 / x
    assert growth < 2.5
    assert (peak(9, plain) - peak(5, plain)) / 4 / x > 10


def test_the_forward_itself_holds_no_more_than_without_a_tape():
    def f(x):
        for _ in range(20):
            x = x.tanh()
        return x

    x = leaf(1000, 100) * 1
    tracemalloc.start()
    y = nn.checkpoint(f, x)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 4 * x.array.nbytes
    assert y.requires_grad


# ------------------------------------------------------------------------------------------------ what goes in and out


def same(f, *args, **kwargs):
    """The gradients of every float leaf among the arguments, plain and recomputed, are the same; returns them."""
    found = []
    for run in (plain, nn.checkpoint):
        leaves = [a for a in args if isinstance(a, Tensor) and a.requires_grad]
        for x in leaves:
            x.grad = None
        out = run(f, *(a * 1 if any(a is x for x in leaves) else a for a in args), **kwargs)
        parts = out if isinstance(out, (tuple, list)) else [out]
        tracked = [(i, y) for i, y in enumerate(parts) if isinstance(y, Tensor) and y.requires_grad]
        sum(((i + 1) * y.sin().sum() for i, y in tracked), start=0).backward()
        found.append([x.grad.array.tobytes() if x.grad is not None else None for x in leaves])
    assert found[0] == found[1]
    return found[0]


def test_several_inputs_and_outputs_keywords_and_other_things():
    def f(a, b, times, *, c, mask=None, name=""):
        assert name == "x"
        return a * b * times, [a.exp() @ c.T], {"mask": mask}, a.masked_fill(mask, 0.0), None, 3

    a, b, c, mask = leaf(2, 3), leaf(2, 3, seed=1), leaf(2, 3, seed=2), rng().random((2, 3)) < 0.5
    results = []
    for run in (plain, nn.checkpoint):
        a.grad = b.grad = c.grad = None
        y, (z,), same_mask, filled, nothing, three = run(f, a, b, 2, c=c, mask=mask, name="x")
        assert (same_mask["mask"], nothing, three) == (mask, None, 3) if same_mask["mask"] is mask else False
        (y.sum() + (z * z).sum() + filled.exp().sum()).backward()
        results.append([x.grad.array.tobytes() for x in (a, b, c)])
    assert results[0] == results[1]


def test_tensors_in_lists_and_dicts():
    def f(pair, named):
        return (pair[0] * pair[1][0]).tanh() * named["k"]

    a, b, c = leaf(3), leaf(3, seed=1), leaf(3, seed=2)
    results = []
    for run in (plain, nn.checkpoint):
        a.grad = b.grad = c.grad = None
        run(f, (a * 1, [b * 1]), {"k": c * 1}).exp().sum().backward()
        results.append([x.grad.array.tobytes() for x in (a, b, c)])
    assert results[0] == results[1]


def test_one_of_several_outputs_alone_and_one_after_the_other():
    x = leaf(4)
    a, b = nn.checkpoint(lambda x: (x.exp(), x.tanh()), x)
    a.sum().backward()
    assert x.grad.allclose(x.exp())
    b.sum().backward()
    assert x.grad.allclose(x.exp() + 1 - x.tanh() ** 2)


def test_inputs_that_need_no_gradient():
    layer, x = nn.Linear(3, 2), Tensor(np.ones((4, 3), np.float32))
    out = nn.checkpoint(layer, x)
    assert out.requires_grad
    out.sum().backward()
    assert (layer.weight.grad.array == 4).all()
    assert x.grad is None
    with no_grad():
        assert not nn.checkpoint(layer, x).requires_grad
    assert nn.checkpoint(lambda x: x * 2, x).node is None


def test_an_input_handed_through_and_one_used_twice():
    x = leaf(3)
    h = x * 2
    a, b = nn.checkpoint(lambda p, q: (p, p * q), h, h)
    assert a is h
    (a.sum() + b.sum()).backward()
    assert x.grad.allclose(2 + 8 * x)


def test_parameters_that_a_function_closes_over_tied_ones_and_tensors_on_the_way():
    layer, x = nn.Linear(3, 3, bias=False), leaf(2, 3)
    results = []
    for run in (plain, nn.checkpoint):
        layer.zero_grad()
        x.grad = None
        h = x * 3
        y = run(lambda z: layer(layer(z) + h).tanh() + h, x.exp())  # noqa: B023  used in this turn
        (layer(y) * h).sum().backward()
        results.append([layer.weight.grad.array.tobytes(), x.grad.array.tobytes()])
    assert results[0] == results[1]


def test_a_tensor_from_inside_that_is_used_outside():
    found = []
    x = leaf(3)
    y = nn.checkpoint(lambda x: (found.append(x.exp()), found[0] * 2)[1], x)
    (y.sum() + found[0].square().sum()).backward()
    assert x.grad.allclose(2 * x.exp() + 2 * (2 * x).exp())


@pytest.mark.parametrize("f", [
    lambda x: x.reshape(2, 3)[:, ::2].T.contiguous().softmax(-1),
    lambda x: x[np.array([0, 0, 3])] * x.amax(),
    lambda x: _in_place(x),
    lambda x: F.dropout(x * 2, 0.4, generator=rng(3)) + F.dropout(x, 0.4),
    lambda x: x * Tensor(rng(1).random(6).astype(np.float32)) + x.where(x > 0, x * 2),
], ids=["views", "indices", "in place", "dropout", "constants"])  # fmt: skip
def test_ops_of_every_kind(f):
    manual_seed(0)
    state_before = default().bit_generator.state
    x = leaf(6)
    results = []
    for run in (plain, nn.checkpoint):
        default().bit_generator.state = state_before
        x.grad = None
        run(f, x * 1).sin().sum().backward()
        results.append((x.grad.array.tobytes(), default().random()))
    assert results[0] == results[1]


def _in_place(x):
    y = x * 2
    y[0] = x[1] * 3
    y += x
    return y.exp()


# ------------------------------------------------------------------------------------------------ random numbers and modes


def test_a_generator_among_the_arguments_draws_the_same_and_moves_once():
    g = rng(7)
    x = leaf(50)
    y = nn.checkpoint(lambda x, g: x * Tensor(g.random(50).astype(np.float32)), x, g)
    following = rng(7)
    wanted = following.random(50).astype(np.float32)
    g_next, want_next = g.bit_generator.state, following.bit_generator.state
    assert g_next == want_next
    y.sum().backward()
    assert g.bit_generator.state == want_next
    assert np.array_equal(x.grad.array, wanted)


def test_numbers_drawn_between_forward_and_backward_change_nothing_and_are_not_drawn_again():
    layer, x = nn.Dropout(0.5), leaf(100)
    manual_seed(1)
    y = nn.checkpoint(layer, x)
    between = default().random()
    y.sum().backward()
    after = default().random()
    assert ((x.grad.array != 0) == (y.array != 0)).all()
    manual_seed(1)
    layer(x)
    assert (between, after) == (default().random(), default().random())


def test_the_second_run_is_in_the_mode_of_the_first():
    layer, x = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)), leaf(4, 8)
    for call in (layer, lambda x: layer(x), layer.forward):
        x.grad = None
        y = nn.checkpoint(call, x)
        layer.eval()
        y.sum().backward()
        assert not any(m.training for m in layer.modules())
        layer.train()
        expected = (y.array != 0) @ layer[0].weight.array
        np.testing.assert_allclose(x.grad.array, 2 * expected, rtol=1e-5)


def test_running_statistics_move_once():
    results = []
    for run in (plain, nn.checkpoint):
        layer, x = nn.BatchNorm1d(3, momentum=None), leaf(5, 3)
        for _ in range(2):
            (run(layer, x) ** 3).sum().backward()
        results.append([t.array.tobytes() for t in (*layer.buffers(), layer.weight.grad, x.grad)])
    assert results[0] == results[1]


# ------------------------------------------------------------------------------------------------ one in another


def deep(x, depth, run):
    return (run(deep, x.tanh() * 1.1, depth - 1, run) if depth else x.exp() * F.dropout(x, 0.3)) + x


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_checkpoints_in_checkpoints(depth):
    x, found = leaf(5), []
    for run in (plain, nn.checkpoint):
        manual_seed(2)
        x.grad = None
        run(deep, x * 1, depth, run).sum().backward()
        found.append((x.grad.array.tobytes(), default().random()))
    assert found[0] == found[1]


def test_segments_of_segments_keep_less():
    """Sixteen layers in four checkpoints of four: four inputs, then the four inside one of them, are there at a time."""
    layers = [nn.Linear(64, 64, bias=False) for _ in range(16)]

    def some(x, run, start, end):
        for layer in layers[start:end]:
            x = run(lambda x, layer=layer: layer(x.tanh()).tanh(), x)
        return x

    def peak(inner):
        x = leaf(500, 64) * 1
        tracemalloc.start()
        for start in range(0, 16, 4):
            x = nn.checkpoint(some, x, inner, start, start + 4)
        x.sum().backward()
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(plain)
    assert peak(nn.checkpoint) < peak(plain)


# ------------------------------------------------------------------------------------------------ backward


def test_retain_graph_and_the_error_of_a_second_backward():
    x = leaf(4)
    y = nn.checkpoint(lambda x: x.exp() * x, x).sum()
    y.backward(retain_graph=True)
    once = x.grad.array.copy()
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_array_equal(x.grad.array, once + once + once)
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        y.backward()


def test_it_runs_once_more_for_one_backward():
    calls = []

    def f(x):
        calls.append(is_grad_enabled())
        return x.exp().tanh() * x

    x = leaf(3)
    y = nn.checkpoint(f, x).sum()
    with no_grad():
        y.backward(retain_graph=True)
    assert calls == [True, True]
    y.backward()
    assert len(calls) == 3


def test_derivatives_of_derivatives():
    x, w = leaf(5), leaf(5, seed=1)

    def f(x):
        return F.dropout((x * w).tanh(), 0.3).exp() * F.rms_norm(x, (5,), w) + F.gelu(x)

    found = []
    for run in (plain, nn.checkpoint):
        manual_seed(5)
        w.grad = None
        (slope,) = grad(run(f, x * 1).sum(), x, create_graph=True)
        (bend,) = grad((slope * slope).sum(), x, create_graph=True)
        bend.sum().backward()
        found.append((slope.array.tobytes(), bend.array.tobytes(), w.grad.array.tobytes()))
    assert found[0] == found[1]


def test_grad_by_an_input_and_by_a_tensor_inside():
    inside = []
    x = leaf(3)
    y = nn.checkpoint(lambda x: (inside.append(x * x), inside[0].exp())[1], x)
    by_x, by_inside = grad(y.sum(), [x, inside[0]])
    assert by_inside.allclose(y)
    assert by_x.allclose(2 * x * y)


def test_hooks_on_tensors_inside_and_around():
    seen = []
    x = leaf(3)
    h = x * 2
    h.register_hook(lambda g: seen.append("input") or g * 10)

    def f(h):
        inside = h.exp()
        inside.register_hook(lambda g: seen.append("inside") or g * 5)
        return inside * 1

    y = nn.checkpoint(f, h)
    y.retain_grad()
    y.register_hook(lambda g: seen.append("output"))
    y.sum().backward()
    assert seen == ["output", "inside", "input"]
    assert y.grad.tolist() == [1, 1, 1]
    assert x.grad.allclose(100 * h.exp())


def test_hooks_of_modules_run_in_both_runs():
    layer, calls = nn.Linear(2, 2), []
    layer.register_forward_hook(lambda module, args, out: calls.append(state.scope.kind))
    nn.checkpoint(layer, leaf(1, 2)).sum().backward()
    assert calls == ["Linear", "Linear"]


def test_backward_inside_the_function_is_refused_in_words():
    def f(x):
        y = x.exp()
        (g,) = grad(y.sum(), x)
        return y * g

    with pytest.raises(RuntimeError, match=r"<checkpoint of f>: backward .* before it has returned"):
        nn.checkpoint(f, leaf(3))
    assert state.observer is None


# ------------------------------------------------------------------------------------------------ what cannot be


def test_an_input_changed_in_place_is_an_error():
    """As x + 1 keeps nothing, the plain call would not notice; here the second run would compute with other numbers."""
    x = leaf(3)
    h = x * 1
    y = nn.checkpoint(lambda h: (h + 1).exp(), h)
    with no_grad():
        h += 1
    with pytest.raises(RuntimeError, match=r"changed in place afterwards, at .*test_checkpoint.py"):
        y.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize("what", ["parameter", "closed over", "constant", "inside"])
def test_so_is_a_change_of_what_the_function_uses_otherwise(what):
    layer, x, other = nn.Linear(3, 3), leaf(2, 3), Tensor(np.ones((2, 3), np.float32))
    inner = leaf(2, 3, seed=3)
    h = inner * 1

    def f(x):
        out = layer(x + other) + h
        if what == "inside":
            keep = x.exp()
            out = out + keep
            keep.array[...] = 0  # behind the back of everything
            ops_written(keep)
        return out

    def ops_written(keep):
        with no_grad():
            keep.zero_()

    y = nn.checkpoint(f, x)
    with no_grad():
        if what == "parameter":
            layer.bias.add_(1)
        elif what == "closed over":
            h.add_(1)
        elif what == "constant":
            other.mul_(2)
    with pytest.raises(RuntimeError, match="in place afterwards"):
        y.sum().backward()
    assert x.grad is None


def test_a_parameter_that_lies_in_an_optimizers_buffer_by_now_is_the_same_parameter():
    layer, x = nn.Linear(3, 3), leaf(2, 3)
    y = nn.checkpoint(layer, x).exp().sum()
    layer.weight.data = Tensor(np.zeros((3, 3), np.float32))
    y.backward()
    wanted = x.grad.array.copy()
    assert (layer.weight.array == 0).all()
    assert np.abs(wanted).sum() > 0
    other = nn.Linear(3, 3)
    y = nn.checkpoint(other, x).exp().sum()
    optim.AdamW(other.parameters(), lr=1e-2)
    y.backward()
    assert other.weight.grad is not None


@pytest.mark.parametrize("change, words", [
    (lambda x, n: x * float(n), "it returned other numbers"),
    (lambda x, n: x.exp() if n == 1 else x.tanh(), r"exp \(8,\), then tanh \(8,\)"),
    (lambda x, n: x[:4 * n] * 1, r"getitem|then"),
    (lambda x, n: x.exp() if n == 1 else x.exp().tanh(), "1 ops, then 2"),
    (lambda x, n: x * Tensor(np.random.default_rng().random(8)), "it returned other numbers"),
])  # fmt: skip
def test_a_second_run_that_does_otherwise_is_an_error(change, words):
    runs = []

    def f(x):
        runs.append(0)
        return change(x, len(runs))

    x = leaf(8)
    y = nn.checkpoint(f, x).sum()
    with pytest.raises(RuntimeError, match="<checkpoint of f> did not do the same when it ran again") as caught:
        y.backward()
    assert __import__("re").search(words, str(caught.value))
    assert x.grad is None


def test_nan_and_infinity_are_the_same_numbers_again():
    x = tensor(np.array([0.0, -1.0, 2.0], np.float32), requires_grad=True)
    with np.errstate(all="ignore"):
        y = nn.checkpoint(lambda x: x.log(), x)
        y.sum().backward()
    assert x.grad.array[2] == 0.5


def test_an_exception_leaves_everything_as_it_was():
    calls = []

    def f(x):
        calls.append(state.observer)
        if len(calls) in (1, 3):
            raise KeyError("inside")
        return F.dropout(x.exp(), 0.5)

    layer = nn.Linear(2, 2)
    x = leaf(3)
    before = (state.recording, state.composed, state.scope, state.observer)
    with pytest.raises(KeyError):
        nn.checkpoint(f, x)
    assert (state.recording, state.composed, state.scope, state.observer) == before
    y = nn.checkpoint(f, x).sum()
    stands = default().bit_generator.state
    with pytest.raises(KeyError):
        y.backward(retain_graph=True)
    assert (state.recording, state.composed, state.scope, state.observer) == before
    assert default().bit_generator.state == stands
    y.backward()  # the fourth call is well
    assert ((x.grad.array != 0).sum() > 0) == (y.item() != 0)
    assert layer(leaf(1, 2)).node.kept()


def test_errors_inside_name_the_module_as_ever():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(5, 2))
    with pytest.raises(ValueError, match=r"\[1\]"):
        nn.checkpoint(model, leaf(2, 3))


@pytest.mark.parametrize("keywords", [
    {"use_reentrant": False}, {"use_reentrant": True}, {"use_reentrant": None},
    {"preserve_rng_state": False, "determinism_check": "none", "debug": True, "early_stop": False, "context_fn": None},
])  # fmt: skip
def test_pytorchs_keywords_are_taken_and_never_reach_the_function(keywords):
    x, calls = leaf(30), []

    def f(x, **own):
        calls.append(own)
        return F.dropout(x, 0.5).exp()

    y = nn.checkpoint(f, x, times=2, **keywords)
    y.sum().backward()
    assert calls == [{"times": 2}] * 2
    np.testing.assert_array_equal(x.grad.array == 0, y.array == 1)  # the same numbers are dropped again


def test_what_cannot_be_called_or_asked_for_is_named():
    x = leaf(3)
    with pytest.raises(TypeError, match=r"^checkpoint: what it is to call comes first, a function or a module, not 3 \(int\)$"):
        nn.checkpoint(3, x)
    with pytest.raises(TypeError, match="not a Tensor$"):
        nn.checkpoint(leaf(30, 30), lambda x: x)
    with pytest.raises(NotImplementedError, match="context_fn is not here; enter the contexts inside the function"):
        nn.checkpoint(lambda x: x, x, context_fn=lambda: None)
    with pytest.raises(ValueError, match=r"determinism_check is 'all' \(str\): it can be default or none"):
        nn.checkpoint(lambda x: x, x, determinism_check="all")


# ------------------------------------------------------------------------------------------------ memory and threads


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_all_goes_with_the_loss_or_with_its_backward(no_collector):
    for backward in (False, True):
        x = leaf(4, 8)
        h = x * 2
        made = []

        def f(h):
            y = F.dropout(h.exp(), 0.5)
            made.append(weakref.ref(y.array))  # noqa: B023  used in this turn
            return (y * y).tanh()

        y = nn.checkpoint(lambda h: nn.checkpoint(f, h) * 1, h)
        value, nodes = weakref.ref(h.array), [weakref.ref(node) for node in history(y.node)]
        loss = y.sum()
        del h, y
        assert value() is not None
        assert made[0]() is None
        if backward:
            loss.backward()
        else:
            del loss
        assert value() is None
        assert [r() for r in made] == [None] * len(made)
        assert not backward or len(made) == 3
        if not backward:
            assert [node() for node in nodes] == [None] * len(nodes)
        loss = None
        assert [node() for node in nodes] == [None] * len(nodes)


def test_values_of_the_second_run_are_freed_while_it_is_walked(no_collector):
    refs, alive = [], []

    def f(x):
        first = x.exp()
        first.register_hook(lambda g: alive.append([r() is not None for r in refs[-2:]]))
        second = first.exp()
        refs.extend([weakref.ref(first.array), weakref.ref(second.array)])
        return second.exp()

    x = leaf(3)
    nn.checkpoint(f, x * 1).sum().backward()
    assert alive == [[True, False]]


def test_five_thousand_of_them_in_a_row_are_harmless():
    x = leaf(1)
    y = x
    for _ in range(5_000):
        y = nn.checkpoint(lambda y: y + 1e-5, y)
    y.backward(retain_graph=True)
    assert x.grad.tolist() == [1]
    for _ in range(5_000):
        y = nn.checkpoint(partial(add, y), x)  # knows what came before
    y = None


def test_every_thread_has_its_own():
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 8))
    errors, results = [], {}

    def work(i, run):
        try:
            generator = rng(i)
            x, total = leaf(4, 8, seed=i), []
            for _ in range(20):
                y = run(lambda x: F.dropout(model[2](model[0](x).tanh()), 0.5, generator=generator), x * 1).square().sum()
                total.append(grad(y, x)[0].array.tobytes())
            results[run.__name__, i] = total
        except Exception as error:  # shown below
            errors.append(error)

    for run in (plain, nn.checkpoint):
        threads = [threading.Thread(target=work, args=(i, run)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert errors == []
    assert all(results["plain", i] == results["checkpoint", i] for i in range(4))


def test_backward_in_another_thread():
    x = leaf(4)
    y = nn.checkpoint(lambda x: F.dropout(x.exp(), 0.5), x)
    thread = threading.Thread(target=lambda: y.sum().backward())
    thread.start()
    thread.join()
    assert x.grad.allclose(y)


# ------------------------------------------------------------------------------------------------ the field of a model


def test_evaluation_and_generation_are_as_ever_and_so_are_the_names():
    config = TransformerConfig(vocab_size=19, block_size=12, n_layer=2, n_embd=16)
    plain_model, again = build(config, rng(1)), build(TransformerConfig(**{**vars(config), "recompute": True}), rng(1))
    assert list(plain_model.state_dict()) == list(again.state_dict())
    for cache in (True, False):
        texts = [list(generate(m, [1, 2], 8, generator=rng(0), cache=cache)) for m in (plain_model, again)]
        assert texts[0] == texts[1]
    again.eval()
    size = kept(again.loss(np.ones((1, 12), int), np.ones((1, 12), int)), list(again.parameters()))
    again.train()
    less = kept(again.loss(np.ones((1, 12), int), np.ones((1, 12), int)), list(again.parameters()))
    assert less < size / 2


def test_each_node_says_what_is_kept_of_it():
    block, x = block_of_gpt2(16, 2), leaf(1, 8, 16) * 1
    y = nn.checkpoint(block, x)
    nodes = [node for node in history(y.node) if node.serial > x.node.serial]
    assert {id(a) for node in nodes for a in node.kept()} == {id(x.array)}
    assert {node.op.name for node in nodes} == {node.op.name for node in history(block(x).node) if node.serial > x.node.serial}
    assert any(node.op is ops.residual for node in nodes)


def test_a_constant_of_the_function_is_let_go_and_made_again_for_who_asks():
    x = leaf(6)
    mask = Tensor(np.arange(6, dtype=np.float32))
    y = nn.checkpoint(lambda x: F.dropout(x, 0.5) * mask, x)
    drop, times = (next(n for n in history(y.node) if n.op.name == name) for name in ("dropout", "mul"))
    assert any(source is mask.array for source in times.inputs)  # the caller's own stays where it is
    assert not isinstance(drop.settings["keep"], np.ndarray)
    assert repr(drop.settings["keep"]) == "float32 (6,), made again when needed"
    np.testing.assert_array_equal(np.asarray(drop.settings["keep"]) * x.array * mask.array, y.array)
