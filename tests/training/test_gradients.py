"""The gradients of a batch, divided among threads: the numbers of one thread, the same ones each time, and nothing lost."""

import numpy as np
import pytest

from tests.several_threads import parts as on
from tinygrad_tf import Tensor, manual_seed, replay
from tinygrad_tf.data import IGNORE
from tinygrad_tf.engine import state
from tinygrad_tf.evaluation import evaluate
from tinygrad_tf.gradients import add_gradients
from tinygrad_tf.models.decoder import Decoder, DecoderConfig
from tinygrad_tf.nn import Parameter
from tinygrad_tf.optim import Muon


def model_and_batch(batch=6, **settings):
    config = DecoderConfig(vocab_size=11, block_size=7, n_layer=2, n_head=2, n_embd=20, **settings)
    ids = np.random.default_rng(1).integers(0, 11, (batch, 8))
    return Decoder(config, np.random.default_rng(0)), ids[:, :-1], ids[:, 1:].copy()


def gradients(count, parts=1, ignored=0, **settings):
    manual_seed(0)  # of dropout
    model, x, y = model_and_batch(**settings)
    y.reshape(-1)[:ignored] = IGNORE
    with on(count):
        loss = add_gradients(model, x, y, parts)
    return [np.array(loss), *(p.grad.array for p in model.parameters())]


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize(
    "settings", [{}, {"parts": 2}, {"batch": 5}, {"batch": 2}, {"batch": 1}, {"ignored": 15}, {"ignored": 42}], ids=str
)
def test_shares_of_a_batch_add_up_to_its_gradient(count, settings):
    for several, one in zip(gradients(count, **settings), gradients(1, **settings), strict=True):
        np.testing.assert_allclose(several, one, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("settings", [{}, {"dropout": 0.3}, {"dropout": 0.3, "recompute": True}], ids=str)
def test_the_same_bits_every_time(settings):
    for a, b in zip(gradients(2, **settings), gradients(2, **settings), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("batch", "again"), [(6, True), (5, False)])
def test_shares_of_one_shape_are_replayed_on_every_thread(batch, again, monkeypatch):
    """With the same bits. Shares of two shapes would be recorded anew in every step, so these are not."""
    model, x, y = model_and_batch(batch)
    shares, inside = [], replay.replay
    monkeypatch.setattr(replay, "replay", lambda *args, **options: shares.append(1) or inside(*args, **options))

    def step():
        for p in model.parameters():
            p.grad = None
        return [np.array(add_gradients(model, x, y, 1)), *(p.grad.array for p in model.parameters())]

    with on(2):
        recorded = step()
        with replay.replaying():
            for _ in range(3):
                for a, b in zip(step(), recorded, strict=True):
                    np.testing.assert_array_equal(a, b)
                assert state.replaying
    assert (len(shares) >= 4) == again  # in the second step and the third, by both


def test_recomputed_blocks_drop_what_was_dropped():
    for kept, again in zip(gradients(2, dropout=0.3), gradients(2, dropout=0.3, recompute=True), strict=True):
        np.testing.assert_array_equal(kept, again)


def test_each_share_has_its_own_dropout_and_the_next_step_another():
    model, x, y = model_and_batch(dropout=0.5)
    x[:], y[:] = x[0], y[0]  # what differs is dropout alone
    drawn = []
    keep = model.dropout.forward
    model.dropout.forward = lambda h: drawn.append((keep(h).array == 0).tobytes()) or h
    generator = manual_seed(3)
    with on(2):
        for _ in range(2):
            before = generator.bit_generator.state["state"]
            add_gradients(model, x, y, 1)
            assert generator.bit_generator.state["state"] != before
    assert len(drawn) == len(set(drawn)) == 4


def test_gradients_are_added_to_those_that_are_there():
    model, x, y = model_and_batch()
    with on(2):
        add_gradients(model, x, y, 1)
        once = [p.grad.array.copy() for p in model.parameters()]
        add_gradients(model, x, y, 1)
    for p, g in zip(model.parameters(), once, strict=True):
        np.testing.assert_allclose(p.grad.array, 2 * g, rtol=1e-6)


def test_what_the_loss_does_not_use_gets_no_gradient():
    model, x, y = model_and_batch()
    model.aside = Parameter(np.ones(3, np.float32))
    model.position_embedding.weight.requires_grad = False
    with on(2):
        add_gradients(model, x, y, 1)
    assert model.aside.grad is None
    assert model.position_embedding.weight.grad is None
    assert model.lm_head.weight.grad is not None


def test_a_hook_sees_the_whole_gradient_once():
    model, x, y = model_and_batch()
    seen = []
    model.lm_head.weight.register_hook(lambda g: seen.append(g.array.copy()))
    with on(2):
        add_gradients(model, x, y, 1)
    assert len(seen) == 1
    np.testing.assert_array_equal(seen[0], model.lm_head.weight.grad.array)


def test_an_error_in_one_share_comes_out_and_the_next_batch_runs():
    model, x, y = model_and_batch()
    wrong = x.copy()
    wrong[-1, -1] = 11
    with on(2):
        with pytest.raises(IndexError):
            add_gradients(model, wrong, y, 1)
        assert all(p.grad is None for p in model.parameters())
        add_gradients(model, x, y, 1)
    assert all(p.grad is not None for p in model.parameters())


def test_evaluation_gives_the_same_number_on_any_number_of_threads():
    model, x, y = model_and_batch(batch=5)
    y[0, 3:] = IGNORE
    batches = [(x[i : i + 1], y[i : i + 1]) for i in range(5)]
    found = []
    for count in (1, 2, 3):
        with on(count):
            found.append(evaluate(model, iter(batches)))
            assert all(p.grad is None for p in model.parameters())
    assert found[0] == found[1] == found[2]
    with on(2):
        assert evaluate(model, []) == 0


def test_matrices_are_moved_on_all_threads_as_on_one():
    def moved(count):
        params = [Parameter(np.random.default_rng(i).standard_normal((4 + i, 6), np.float32)) for i in range(5)]
        optimizer = Muon(params)
        with on(count):
            for p in params:
                p.grad = p.detach() * 0.1
            optimizer.step()
        return [p.array for p in params]

    for a, b in zip(moved(1), moved(3), strict=True):
        np.testing.assert_array_equal(a, b)


def test_lists_and_tensors_are_batches_too_and_wrong_ones_are_named():
    model, x, y = model_and_batch()
    y[0, :5] = IGNORE
    losses = [add_gradients(model, a, b, 2) for a, b in [(x, y), (x.tolist(), y.tolist()), (Tensor(x), Tensor(y))]]
    assert losses[0] == losses[1] == losses[2]
    with pytest.raises(ValueError, match="0 parts of 6 sequences and 6 targets"):
        add_gradients(model, x, y, 0)
    with pytest.raises(ValueError, match="2 parts of 6 sequences and 5 targets"):
        add_gradients(model, x, y[1:], 2)
