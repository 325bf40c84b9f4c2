"""A run that failed, drawn up to the op that raised the error."""

import numpy as np
import pytest

import viz
from tinygrad_tf import Tensor, composed, nn, no_grad
from tinygrad_tf.engine import state
from tinygrad_tf.models import Decoder, DecoderConfig
from viz.dot import to_dot
from viz.graph import Graph
from viz.record import record
from viz.style import Options


def leaf(*shape, salt=0):
    return Tensor(np.random.default_rng(salt).standard_normal(shape).astype(np.float32), requires_grad=True)


class Broken(nn.Module):
    """up gives 8 numbers where down takes 7."""

    def __init__(self):
        self.up, self.down = nn.Linear(4, 8), nn.Linear(7, 4)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


def failing(run, error=ValueError):
    with pytest.raises(error) as caught, record() as tape:
        run()
    assert tape.error is caught.value
    return tape


def edges_into(graph, id):
    return [edge.source for edge in graph.incoming[id]]


def test_the_failed_op_is_drawn_behind_all_that_ran():
    model, x = Broken(), np.ones((2, 4), np.float32)
    tape = failing(lambda: model(Tensor(x)))
    g = viz.trace(tape)
    ops = [node for node in g.nodes if node.kind == "op"]
    assert [node.id for node in ops] == ["up/linear", "Broken/relu", "down/linear"]
    assert [node.failed for node in ops] == [False, False, True]
    assert edges_into(g, "down/linear") == ["Broken/relu", "parameter/down.weight", "parameter/down.bias"]
    assert ops[-1].label == "linear: inner sizes 8 and 7 differ"
    assert (ops[-1].shape, ops[-1].value, ops[-1].module) == (None, None, "down")
    assert ops[-1].line.endswith(f"test_partial.py:{Broken.forward.__code__.co_firstlineno + 1}")
    assert g.notes == (f"stopped by ValueError: {tape.error}",)
    assert [module.id for module in g.modules] == ["Broken", "up", "down"]
    assert Graph.from_json(g.to_json()) == g
    assert "inner sizes 8 and 7 differ" in to_dot(g, Options())


def test_the_values_of_what_ran_are_there():
    x, w = leaf(2, 3), leaf(4, 4, salt=1)

    def run():
        h = x.exp()
        return h @ w

    g = viz.trace(failing(run))
    assert g["exp"].value == viz.graph.Numbers.of(np.exp(x.array))
    assert edges_into(g, "matmul") == ["exp", "input/w"]
    assert g["input/w"].value is not None and g["input/w"].trained


def test_mixed_dtypes_are_still_linked():
    x, w = Tensor(np.ones((2, 3)), requires_grad=True), leaf(4, 4)
    g = viz.trace(failing(lambda: (x * 2) + w))
    assert edges_into(g, "add") == ["mul", "input/w"]


def test_both_edges_of_one_value_into_the_failed_op():
    x = leaf(2, 3)
    h = x.exp()
    g = viz.trace(failing(lambda: (h * 2) @ h), names={"h": h})
    assert edges_into(g, "matmul") == ["mul", "input/h"]  # h was made before the recording

    def squared():
        y = x.exp()
        return y @ y

    g = viz.trace(failing(squared))
    assert [edge.key for edge in g.incoming["matmul"]] == [("exp", "matmul", 0), ("exp", "matmul", 1)]


def test_the_first_op_of_all_may_fail():
    x, y = leaf(2), leaf(3)
    tape = failing(lambda: x + y)
    g = viz.trace(tape)
    assert [node.id for node in g.nodes] == ["input/x", "input/y", "add"]
    assert g["add"].failed and g["add"].label == "add: sizes 2 and 3 on axis -1 differ and neither is 1"


def test_a_fused_op_and_its_twin():
    model = Broken()
    with composed():
        tape = failing(lambda: model(leaf(2, 4)))
    g = viz.trace(tape)
    assert [node.op for node in g.nodes if node.failed] == ["matmul"]
    assert edges_into(g, "down/matmul")[0] == "Broken/relu"


def test_an_op_with_settings():
    x = leaf(2, 3)
    g = viz.trace(failing(lambda: x.exp().sum(dim=5), IndexError))
    failed = next(node for node in g.nodes if node.failed)
    assert failed.settings["dim"] == "5" and "out of range" in failed.label


def test_an_error_that_is_no_ops_draws_what_ran():
    x = leaf(3)

    def run():
        x.exp()
        raise RuntimeError("of my own\nin two lines")

    g = viz.trace(failing(run, RuntimeError))
    assert [node.id for node in g.nodes] == ["input/x", "exp"]
    assert not any(node.failed for node in g.nodes)
    assert g.notes == ("stopped by RuntimeError: of my own\nin two lines",)


def test_an_ops_error_that_was_caught_and_raised_anew():
    x = leaf(2, 3)

    def run():
        try:
            x @ x
        except ValueError as error:
            raise RuntimeError("the model does not fit") from error

    g = viz.trace(failing(run, RuntimeError))
    assert [node.op for node in g.nodes if node.failed] == ["matmul"]
    assert g.notes == ("stopped by RuntimeError: the model does not fit",)


def test_an_ops_error_that_was_dealt_with_is_none():
    x = leaf(2, 3)
    with record() as tape:
        try:
            x @ x
        except ValueError:
            x.exp()
    assert tape.error is None
    g = viz.trace(tape)
    assert [node.id for node in g.nodes] == ["input/x", "exp"] and g.notes == ()


def test_a_model_that_refuses_its_input_before_any_op():
    model = Decoder(DecoderConfig(vocab_size=11, block_size=6, n_layer=1, n_head=2, n_embd=8))
    tape = failing(lambda: model(np.zeros((2, 9), int)))
    with pytest.raises(TypeError, match="holds no op call.*9 tokens"):
        viz.trace(tape)


def test_a_long_error_is_cut():
    def run():
        leaf(2).exp()
        raise RuntimeError("x" * 5000)

    assert len(viz.trace(failing(run, RuntimeError)).notes[0]) == 400


def test_the_failed_op_may_run_under_no_grad():
    x = leaf(2, 3)

    def run():
        y = x.exp()
        with no_grad():
            return y @ y

    g = viz.trace(failing(run))
    assert edges_into(g, "matmul") == ["exp", "exp"]
    assert state.recording


def test_looking_twice_gives_the_same():
    model = Broken()
    tape = failing(lambda: model(leaf(2, 4)))
    assert viz.trace(tape).to_json() == viz.trace(tape).to_json()
    assert len(tape) == 2


def test_a_tape_without_an_error_has_all_its_calls_and_no_notes():
    x = leaf(3)
    with record() as tape:
        y = x * 2
        y.exp()
        y.tanh().sum()
    g = viz.trace(tape)
    assert [node.id for node in g.nodes if node.kind == "op"] == ["mul", "exp", "tanh", "sum"]
    assert g.notes == () and not any(node.failed or node.kind == "output" for node in g.nodes)


def test_the_error_carries_the_call_and_says_the_same():
    x = leaf(2, 3)
    with pytest.raises(ValueError, match="inner sizes") as caught:
        x @ x
    op, args, settings, scope = caught.value.call
    assert op.name == "matmul" and args == (x, x) and settings == {} and scope is None
    assert str(caught.value) == "matmul: (2, 3) @ (2, 3): inner sizes 3 and 2 differ"
