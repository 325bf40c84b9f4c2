"""Work in parts: the same numbers on several threads as on one, and nothing left behind by errors, nesting and forks."""

import os
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tests.several_threads import parts
from tinygrad_tf import Tensor, activations, fused, manual_seed, nn, optim, optimizer, threads
from tinygrad_tf.models.decoder import Decoder, DecoderConfig


@pytest.fixture
def everything(monkeypatch):
    """Cut even the smallest arrays, into pieces that do not come out even."""
    monkeypatch.setattr(threads, "WORTH", 1)
    monkeypatch.setattr(activations, "PIECE", 100)
    monkeypatch.setattr(optimizer, "PIECE", 100)


def steps(count, **settings):
    """Losses and parameters of three steps, Muon for the matrices inside, AdamW for the rest."""
    manual_seed(0)  # of dropout
    config = DecoderConfig(vocab_size=11, block_size=7, n_layer=2, n_head=2, n_embd=20, **settings)
    model = Decoder(config, np.random.default_rng(0))
    inside = [p for p in model.blocks.parameters() if p.ndim == 2]
    rest = [p for p in model.parameters() if all(p is not q for q in inside)]
    optimizer, losses = optim.Together(optim.Muon(inside), optim.AdamW(rest)), []
    with parts(count):
        for step in range(3):
            ids = np.random.default_rng(step).integers(0, 11, (5, 8))
            loss = model.loss(ids[:, :-1], ids[:, 1:])
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    return losses, [p.array.copy() for p in model.parameters()]


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("settings", [{}, {"dropout": 0.2}, {"bias": True}], ids=str)
def test_training_gives_the_same_numbers_every_time_and_those_of_one_thread(settings):
    one, two, again, three = (steps(count, **settings) for count in (1, 2, 2, 3))
    assert two[0] == again[0]
    for a, b in zip(two[1], again[1], strict=True):
        np.testing.assert_array_equal(a, b)
    for other in (two, three):
        np.testing.assert_allclose(other[0], one[0], rtol=1e-6)
        for a, b in zip(other[1], one[1], strict=True):
            np.testing.assert_allclose(a, b, atol=2e-5)


OPS = {
    "gelu": (activations.gelu, 1, {}), "gelu_tanh": (activations.gelu_tanh, 1, {}), "silu": (activations.silu, 1, {}),
    "swiglu": (activations.swiglu, 2, {}), "layer_norm": (fused.layer_norm, 1, {}), "rms_norm": (fused.rms_norm, 1, {}),
    "attention": (fused.attention, 3, {"causal": 0, "block": 4}),
}  # fmt: skip


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_op_gives_the_same_bits_however_it_is_cut(name, dtype, monkeypatch):
    monkeypatch.setattr("tinygrad_tf.attention.CHUNK", 1)  # every batch entry is a chunk
    op, inputs, settings = OPS[name]
    arrays = [np.random.default_rng(i).standard_normal((5, 2, 16, 8)).astype(dtype) for i in range(inputs)]

    def run():
        tensors = [Tensor(a.copy(), requires_grad=True) for a in arrays]
        y = op(*tensors, **settings)
        y.backward(Tensor(np.cos(y.array)))
        return [y.array, *(t.grad.array for t in tensors)]

    alone = run()
    for count in (2, 3):
        with parts(count):
            for a, b in zip(alone, run(), strict=True):
                np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("op", [fused.layer_norm, fused.rms_norm])
def test_a_norm_keeps_the_normalised_rows_and_not_its_input(op):
    x = Tensor(np.ones((4, 8)), requires_grad=True) * 2
    assert all(kept is not x.array for kept in op(x).node.kept())


@pytest.mark.usefixtures("everything")
def test_a_bias_that_all_chunks_share_gets_all_of_its_gradient(monkeypatch):
    monkeypatch.setattr("tinygrad_tf.attention.CHUNK", 1)
    q = Tensor(np.random.default_rng(0).standard_normal((6, 2, 9, 4)))
    grads = []
    for count in (1, 2):
        bias = Tensor(np.zeros((9, 9)), requires_grad=True)
        with parts(count):
            (fused.attention(q, q, q, bias) * q).sum().backward()
        grads.append(bias.grad.array)
    np.testing.assert_array_equal(*grads)


@pytest.mark.usefixtures("everything")
def test_parts_cover_everything_once_and_run_on_as_many_threads():
    seen, names, together = np.zeros(7, int), set(), threading.Barrier(3, timeout=60)

    def work(part):
        together.wait()  # passes only when three are here at once
        part += 1
        names.add(threading.current_thread().name)

    with parts(3):
        threads.in_parts(work, seen, numbers=7)
    assert seen.tolist() == [1] * 7
    assert len(names) == 3


@pytest.mark.parametrize("size", [0, 1, threads.WORTH - 1])
def test_little_work_stays_on_the_thread_that_asks(size):
    names = []
    with parts(2):
        threads.in_parts(lambda _: names.append(threading.current_thread()), np.zeros(size), numbers=size)
    assert names == [threading.current_thread()]


def limits():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.mark.usefixtures("everything")
def test_products_have_one_thread_inside_and_what_they_had_outside():
    with threadpool_limits(2, user_api="blas"):
        before = limits()
        with parts(2):
            assert set(limits()) <= {1}
        assert limits() == before
        with pytest.raises(KeyError), parts(2):
            raise KeyError
        assert limits() == before
    assert not threads.worth(1000, 1 << 30)


@pytest.mark.usefixtures("everything")
def test_one_thread_stays_one():
    with parts(1):
        assert not threads.worth(1000, 1 << 30)
        assert not any(t.name.endswith("(_help)") for t in threading.enumerate())


@pytest.mark.usefixtures("everything")
@pytest.mark.parametrize("faulty", [0, 1, 2])
def test_an_error_in_any_part_comes_out_and_the_next_work_runs(faulty):
    def work(part):
        if faulty in part:
            raise ZeroDivisionError(faulty)

    with parts(3):
        for _ in range(3):
            with pytest.raises(ZeroDivisionError, match=str(faulty)):
                threads.in_parts(work, np.arange(3), numbers=3)
        done = np.zeros(3)
        threads.in_parts(lambda part: np.add(part, 1, out=part), done, numbers=3)
    assert done.tolist() == [1, 1, 1]


@pytest.mark.usefixtures("everything")
def test_work_within_work_and_a_block_within_a_block():
    seen = np.zeros(8)

    def outer(part):
        threads.in_parts(lambda inner: np.add(inner, 1, out=inner), part, numbers=8)

    with parts(2), threads.parts():
        threads.in_parts(outer, seen, numbers=8)
        assert threads.worth(8, 8)
    assert seen.tolist() == [1] * 8


@pytest.mark.usefixtures("everything")
def test_two_callers_at_once():
    """Whoever comes second does its work itself."""
    totals = [np.zeros(1000) for _ in range(4)]

    def add(total):
        for _ in range(50):
            threads.in_parts(lambda part: np.add(part, 1, out=part), total, numbers=1000)

    with parts(2):
        callers = [threading.Thread(target=add, args=(total,)) for total in totals]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join(60)
    assert all((total == 50).all() for total in totals)


@pytest.mark.usefixtures("everything")
def test_errstate_holds_on_every_thread():
    x = np.zeros(4)
    with parts(2), np.errstate(divide="ignore"):
        threads.in_parts(lambda part: np.divide(1, part, out=part), x, numbers=4)  # a warning would fail the test
    with parts(2), np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        threads.in_parts(lambda part: np.divide(1, part[1:], out=part[1:]), np.zeros(4), numbers=4)
    assert np.isinf(x).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.usefixtures("everything")
def test_a_forked_process_works_alone():
    with parts(2):
        child = os.fork()
        if child == 0:
            x = np.zeros(4)
            threads.in_parts(lambda part: np.add(part, 1, out=part), x, numbers=4)
            os._exit(0 if x.tolist() == [1] * 4 and not threads.worth(4, 4) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert threads.worth(4, 4)


def test_how_many_operations_get_what(monkeypatch):
    for name in threads.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with threadpool_limits(2, user_api="blas"):
        with threads.threads_for(threads.LARGE):
            large = threads._count
        with threads.threads_for(threads.LARGE - 1):
            middle = threads._count, set(limits())
        with threads.threads_for(threads.SMALL - 1):
            small = threads._count, set(limits())
        by_batch = []
        for operations in (threads.SHARE - 1, threads.SHARE, 2 * threads.SHARE, 3 * threads.SHARE):
            with threads.threads_for(operations, by_batch=True):
                by_batch.append(threads.count())
    assert large in (1, 2)
    assert middle[0] == small[0] == 1
    assert small[1] <= {1}
    assert by_batch == [1, large, large, large]
    with threadpool_limits(5, user_api="blas"), threads.threads_for(3 * threads.SHARE, by_batch=True):
        assert threads.count() == (1 if large == 1 else 3)


def test_each_thread_takes_the_next_item_and_the_results_keep_their_order():
    names, slow = [], threading.Event()

    def work(item):
        if item == 0:
            assert slow.wait(60)
        names.append(threading.current_thread().name)
        if item == 5:
            slow.set()
        return item * item

    with parts(2):
        assert threads.on_threads(work, range(6)) == [0, 1, 4, 9, 16, 25]  # item 0 ends only after all others were begun
        assert threads.on_threads(work, []) == []
    assert len(set(names)) == 2
    slow.set()
    assert threads.on_threads(work, range(3)) == [0, 1, 4]
