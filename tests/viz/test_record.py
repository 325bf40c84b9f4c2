"""Recording: what is kept is what the engine computed, and nothing else changes."""

import gc
import threading
import weakref

import numpy as np
import pytest

import viz
from tinygrad_tf import Tensor, grad, manual_seed, nn, no_grad
from tinygrad_tf.engine import history, shares, state
from tinygrad_tf.models import Decoder, DecoderConfig
from viz.record import record, recorded, replay

SMALL = DecoderConfig(vocab_size=11, block_size=6, n_layer=2, n_head=2, n_embd=8, dropout=0.2)
IDS = np.arange(12).reshape(2, 6) % 11


def decoder():
    manual_seed(3)
    return Decoder(SMALL, np.random.default_rng(0))


def leaf(*shape, salt=0):
    return Tensor(np.random.default_rng(salt).standard_normal(shape).astype(np.float32), requires_grad=True)


def gradients(model):
    return {name: p.grad.numpy().copy() for name, p in model.named_parameters()}


def test_recording_changes_no_value_and_no_gradient():
    plain = decoder()
    loss = plain.loss(IDS, IDS)
    loss.backward()
    watched = decoder()
    with record():
        seen = watched.loss(IDS, IDS)
    seen.backward()
    assert seen.item() == loss.item()
    for name, g in gradients(plain).items():
        np.testing.assert_array_equal(g, gradients(watched)[name], err_msg=name)


def test_the_values_and_gradients_are_the_engines():
    x, w = leaf(3, 4), leaf(4, 4, salt=1)
    with record() as tape:
        h = x @ w
        y = h.tanh()
        z = y * h
        loss = z.sum()
    for t in (h, y, z):
        t.retain_grad()
    loss.backward()
    entries = recorded(tape.nodes)
    assert [node.op.name for node in tape.nodes] == ["matmul", "tanh", "mul", "sum"]
    for t in (h, y, z, loss):
        assert np.array_equal(entries[t.node].value, t.array)
    for t in (h, y, z):
        np.testing.assert_array_equal(entries[t.node].grad, t.grad.numpy())
    forked = entries[y.node].shares[0] + entries[z.node].shares[1]  # the two shares of the fork at h
    np.testing.assert_array_equal(forked, h.grad.numpy())
    np.testing.assert_array_equal(entries[h.node].shares[0], x.grad.numpy())
    np.testing.assert_array_equal(entries[h.node].shares[1], w.grad.numpy())


def test_the_share_of_every_edge_is_the_one_that_the_engine_sends():
    model = decoder().eval()
    with record() as tape:
        loss = model.loss(IDS, IDS)
    loss.backward(retain_graph=True)
    for node, entry in recorded(tape.nodes).items():
        sent = [share for _, share in shares(node, entry.grad)]
        assert len(sent) == len(entry.shares) > 0
        for share, kept in zip(sent, entry.shares.values()):
            np.testing.assert_array_equal(share, kept)


def test_broadcast_shares_have_the_shape_of_the_input():
    x, b = leaf(3, 4), leaf(4, salt=1)
    with record() as tape:
        y = (x + b).sum()
    y.backward()
    entry = recorded(tape.nodes)[tape.nodes[0]]
    np.testing.assert_array_equal(entry.shares[1], b.grad.numpy())
    assert entry.shares[1].shape == (4,)


def test_both_edges_of_a_square_have_a_share():
    x = Tensor(3.0, requires_grad=True)
    with record() as tape:
        y = x * x
    y.backward()
    assert {i: float(g) for i, g in recorded(tape.nodes)[y.node].shares.items()} == {0: 3.0, 1: 3.0}


def test_the_skip_carries_the_upstream_gradient_exactly():
    model = decoder()
    with record() as tape:
        loss = model.loss(IDS, IDS)
    loss.backward()
    sums = [entry for node, entry in recorded(tape.nodes).items() if node.op.name == "residual"]
    assert len(sums) == 4
    for entry in sums:
        np.testing.assert_array_equal(entry.shares[0], entry.grad)


def test_replay_gives_what_recording_gives():
    model = decoder().eval()
    with record() as tape:
        loss = model.loss(IDS, IDS)
    loss.backward(retain_graph=True)
    again = replay(loss.node, {})
    assert list(again) == tape.nodes
    for node, entry in recorded(tape.nodes).items():
        np.testing.assert_array_equal(again[node].value, entry.value)
        np.testing.assert_array_equal(again[node].grad, entry.grad)
        for i, share in entry.shares.items():
            np.testing.assert_array_equal(again[node].shares[i], share)


def test_replay_of_a_freed_graph_that_drew_random_numbers():
    model = decoder()
    loss = model.loss(IDS, IDS)
    before = loss.item()
    loss.backward()
    given = gradients(model)
    assert float(replay(loss.node, {})[loss.node].value) == before
    for name, g in gradients(model).items():
        np.testing.assert_array_equal(g, given[name])  # nothing was added


def test_replay_refuses_when_a_leaf_was_changed_since():
    x = leaf(3)
    y = (x * 2).sum()
    with no_grad():
        x += 1
    with pytest.raises(RuntimeError, match="changed in place"):
        replay(y.node, {})


def test_mixed_dtypes_are_replayed_as_they_ran():
    x, w = Tensor(np.ones((2, 3)), requires_grad=True), leaf(2, 3)
    y = (x * w * 0.5).sum()
    entries = replay(y.node, {})
    assert {node.op.name: entry.value.dtype for node, entry in entries.items()} == {
        node.op.name: node.dtype for node in history(y.node)
    }  # fmt: skip
    assert float(entries[y.node].value) == y.item()


# ------------------------------------------------------------------------------------------------ on and off


def test_nobody_observes_unless_recording():
    assert state.observer is None
    with record() as tape:
        assert state.observer is not None
        leaf(2) * 2
    assert state.observer is None
    leaf(2) * 2
    assert len(tape) == 1


class _Stop(BaseException):
    pass


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, _Stop])
def test_an_error_ends_the_recording(error):
    def run():
        leaf(2) * 2
        raise error

    with pytest.raises(error), record() as tape:
        run()
    assert state.observer is None and isinstance(tape.error, error)
    assert error.__name__ in repr(tape) and "1 op calls" in repr(tape)


def test_a_failing_op_ends_the_recording():
    with pytest.raises(ValueError, match="inner sizes"), record():
        leaf(2, 3) @ leaf(2, 3)
    assert state.observer is None


def test_a_generator_that_is_dropped_ends_its_recording():
    def run():
        with record():
            yield leaf(2) * 2

    steps = run()
    next(steps)
    assert state.observer is not None
    steps.close()
    assert state.observer is None


@pytest.mark.parametrize("draw", [
    lambda m: viz.trace(m, inputs=IDS), lambda m: viz.trace(m.loss(IDS, IDS)),
    lambda m: viz.trace(m.loss(IDS, IDS), fused=False),
])  # fmt: skip
def test_tracing_leaves_no_observer(draw):
    draw(decoder())
    assert state.observer is None and state.scope is None and state.recording and not state.composed


def test_a_model_that_fails_while_it_is_traced_leaves_no_observer():
    with pytest.raises(ValueError, match="the shape"):
        viz.trace(decoder(), inputs=IDS[0])
    assert state.observer is None and state.scope is None and state.recording and not state.composed


def test_recordings_nest():
    with record() as outer:
        leaf(2) * 2
        with record() as inner:
            leaf(2).exp()
        leaf(2).tanh()
    assert [node.op.name for node in outer.nodes] == ["mul", "exp", "tanh"]
    assert [node.op.name for node in inner.nodes] == ["exp"]


def test_nested_recordings_both_get_the_gradients():
    x = leaf(3)
    with record() as outer, record():
        y = (x * x).sum()
    y.backward()
    entry = recorded(outer.nodes)[outer.nodes[0]]
    np.testing.assert_array_equal(entry.shares[0] + entry.shares[1], x.grad.numpy())


def test_other_threads_are_not_recorded():
    with record() as tape:
        thread = threading.Thread(target=lambda: leaf(2) * 2)
        thread.start()
        thread.join(10)
    assert len(tape) == 0


def test_what_needs_no_gradient_is_not_recorded():
    with record() as tape:
        Tensor([1.0]) * 2
        with no_grad():
            leaf(2) * 2
    assert len(tape) == 0


def test_the_line_is_the_readers():
    with record() as tape:
        leaf(2) * 2  # this line
        nn.Linear(2, 2)(leaf(1, 2))
    lines = [node.line for node in tape.nodes]
    number = test_the_line_is_the_readers.__code__.co_firstlineno
    assert [line.rpartition(":")[2] for line in lines] == [str(number + 2), str(number + 3)]
    assert all(line.rpartition(":")[0] == __file__ for line in lines)


def test_what_was_recorded_goes_with_the_tape():
    gc.collect()
    gc.disable()
    try:
        with record() as tape:
            loss = (leaf(50).exp() * 2).sum()
        loss.backward()
        held = [weakref.ref(entry.value) for entry in recorded(tape.nodes).values()]
        assert all(r() is not None for r in held)
        del tape, loss
        assert all(r() is None for r in held)
    finally:
        gc.enable()


def test_higher_derivatives_are_the_same_when_recorded():
    def second(x):
        (first,) = grad((x**3).sum(), x, create_graph=True)
        return grad(first.sum(), x)[0]

    plain = second(leaf(4)).numpy()
    with record():
        seen = second(leaf(4)).numpy()
    np.testing.assert_array_equal(seen, plain)


def test_a_gradient_with_a_graph_of_its_own_passes_unseen():
    x = leaf(4)
    with record() as tape:
        y = (x**3).sum()
    y.backward(create_graph=True)
    viz.trace(y)
    assert x.grad.node is not None
    assert len(tape) == 2


def test_what_is_recorded_is_what_was_there_before_a_change_in_place():
    x = Tensor(1.5, requires_grad=True)
    with record() as tape:
        y = x * 2
        y += 1
    assert [recorded(tape.nodes)[node].value.item() for node in tape.nodes] == [3.0, 4.0]


def test_a_picture_keeps_no_variable_of_its_caller():
    x = Tensor(np.ones(3), requires_grad=True)
    y = (x * 2).sum()
    alive = weakref.ref(y)
    viz.trace(y)
    del y
    gc.collect()
    assert alive() is None
    mine, z = locals(), (x + 1).sum()
    viz.trace(z)
    assert "x" in mine  # whoever has asked for the variables keeps them
