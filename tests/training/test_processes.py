"""A batch that several processes share: the bits of threads, new parameters in every step, and nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from tests.several_threads import parts as on
from tinygrad_tf import Tensor, helper, manual_seed, replay, threads
from tinygrad_tf import train as training
from tinygrad_tf.data import IGNORE
from tinygrad_tf.gradients import Team, add_gradients, helped
from tinygrad_tf.models.decoder import Decoder, DecoderConfig
from tinygrad_tf.nn import Linear, Parameter
from tinygrad_tf.nn.utils import clip_grad_norm_
from tinygrad_tf.optim import AdamW, Muon, Together
from tinygrad_tf.runfolder import RunError
from tinygrad_tf.train import resume, train

pytestmark = pytest.mark.skipif(not helper.POSSIBLE, reason="a helper is a copy of this process, on Linux alone")


class Steps:
    """A model, its optimizer, and training steps."""

    def __init__(self, batch=6, muon=False, **settings):
        manual_seed(0)  # of dropout
        self.model = Decoder(DecoderConfig(vocab_size=11, block_size=7, n_layer=2, n_head=2, n_embd=20, **settings),
                             np.random.default_rng(0))  # fmt: skip
        ids = np.random.default_rng(1).integers(0, 11, (batch, 8))
        self.x, self.y = ids[:, :-1], ids[:, 1:].copy()
        self.parameters = list(self.model.parameters())
        matrices = [p for p in self.parameters if p.ndim == 2] if muon else []
        adamw = AdamW([p for p in self.parameters if all(p is not m for m in matrices)], lr=0.01)
        self.optimizer = Together(Muon(matrices), adamw) if muon else adamw

    def gradients(self, slices=1):
        loss = add_gradients(self.model, self.x, self.y, slices)
        return [np.array(loss), *(p.grad.array.copy() for p in self.parameters)]

    def gradients_of_some(self):
        loss = add_gradients(self.model, self.x, self.y, 1)
        found = [np.array(loss), *(p.grad.array.copy() for p in self.parameters if p.grad is not None)]
        for p in self.parameters:
            p.grad = None
        return found

    def step(self):
        found = self.gradients()
        clip_grad_norm_(self.optimizer.rows(), 0.5)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return found


@contextmanager
def several(steps, count):
    """Gradients of these steps on this many processes."""
    with threadpool_limits(count, user_api="blas"), ExitStack() as stack:
        if count > 2:
            stack.enter_context(pytest.MonkeyPatch.context()).setattr(threads, "SHARE", 1)
        stack.enter_context(helped(steps.model, steps.optimizer, len(steps.x), count))
        if Team.at_work.size != min(count, len(steps.x)):
            pytest.skip("nothing here tells NumPy's products how many threads to use")
        yield


def same(found, wanted):
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("settings", [{}, {"dropout": 0.3}, {"batch": 5}, {"batch": 2}, {"batch": 1}, {"muon": True},
                                      {"recompute": True, "dropout": 0.3}], ids=str)  # fmt: skip
def test_steps_have_the_bits_of_as_many_threads(count, settings):
    """Of the gradients, and so of the parameters that the next ones are computed with; dropout included."""
    with on(count):
        threaded = Steps(**settings)
        wanted = [threaded.gradients()]
        for p in threaded.parameters:
            p.grad = None
    processes = Steps(**settings)
    with several(processes, count):
        same(processes.gradients(), wanted[0])
        processes.optimizer.zero_grad()
        losses = [float(processes.step()[0]) for _ in range(8)]
    assert losses[-1] < losses[0] - 0.02  # it learns: what the helpers see are the parameters of the last step


@pytest.mark.parametrize("settings", [{}, {"dropout": 0.3}, {"muon": True}], ids=str)
def test_several_steps_are_those_of_two_threads(settings):
    threaded, processes = Steps(**settings), Steps(**settings)
    manual_seed(0)
    with on(2), replay.replaying():
        wanted = [threaded.step() for _ in range(4)]
    manual_seed(0)
    with several(processes, 2), replay.replaying():
        found = [processes.step() for _ in range(4)]
    for a, b in zip(found, wanted, strict=True):
        for g, h in zip(a, b, strict=True):
            np.testing.assert_allclose(g, h, rtol=2e-4, atol=1e-6)  # the clipping adds squares up in another order
    same(found[0], wanted[0])


def test_twice_the_same_bits():
    def run():
        steps = Steps(dropout=0.3)
        with several(steps, 2), replay.replaying():
            return [array for _ in range(3) for array in steps.step()]

    same(run(), run())


@pytest.mark.parametrize("ignored", [0, 10, 42])
def test_slices_add_up(ignored):
    steps, whole = Steps(), Steps()
    for each in (steps, whole):
        each.y.reshape(-1)[:ignored] = IGNORE
    wanted = whole.gradients()
    with several(steps, 2):
        for _ in range(2):
            for a, b in zip(steps.gradients(slices=3), wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
            steps.optimizer.zero_grad()


def test_gradients_are_added_to_those_that_are_there():
    steps = Steps()
    once = steps.gradients()[1:]
    with several(steps, 2):
        for times in (2, 3):
            for g, h in zip(steps.gradients()[1:], once, strict=True):
                np.testing.assert_allclose(g, times * h, rtol=1e-4, atol=1e-6)


def test_what_the_loss_does_not_use_gets_no_gradient():
    steps = Steps()
    steps.model.aside = Parameter(np.ones(3, np.float32))
    steps.optimizer.add_param_group({"params": [steps.model.aside]})
    steps.model.position_embedding.weight.requires_grad = False
    before = steps.model.position_embedding.weight.array.copy()
    with several(steps, 2):
        for _ in range(2):
            add_gradients(steps.model, steps.x, steps.y, 1)
            assert steps.model.aside.grad is None
            assert steps.model.position_embedding.weight.grad is None
            clip_grad_norm_(steps.optimizer.rows(), 1.0)
            steps.optimizer.step()
            steps.optimizer.zero_grad()
    np.testing.assert_array_equal(steps.model.aside.array, 1)
    np.testing.assert_array_equal(steps.model.position_embedding.weight.array, before)


def test_rows_hold_every_gradient_once():
    steps = Steps()
    with several(steps, 2):
        steps.gradients()
        row, *others = steps.optimizer.rows()
        assert not others
        assert row.grad.numel() == sum(p.numel() for p in steps.parameters)
        assert all(np.shares_memory(p.grad.array, row.grad.array) for p in steps.parameters)
        whole = clip_grad_norm_(steps.optimizer.rows(), 1e9)
        assert whole == pytest.approx(clip_grad_norm_(steps.parameters, 1e9), rel=1e-5)
    steps.optimizer.zero_grad()
    steps.model.loss(steps.x, steps.y).backward()
    assert steps.optimizer.rows() == steps.parameters


def test_a_hook_sees_the_whole_gradient_once():
    steps, seen = Steps(), []
    with several(steps, 2):
        handle = steps.model.lm_head.weight.register_hook(lambda g: seen.append(g.array.copy()))
        add_gradients(steps.model, steps.x, steps.y, 1)
        handle.remove()
    assert len(seen) == 1
    np.testing.assert_array_equal(seen[0], steps.model.lm_head.weight.grad.array)


@pytest.mark.parametrize("place", [0, -1])
def test_an_error_in_any_share_comes_out_and_the_next_batch_runs(place):
    steps = Steps()
    right = steps.x
    with several(steps, 2):
        steps.x = right.copy()
        steps.x[place, -1] = 11
        with pytest.raises(IndexError, match="11"):
            steps.gradients()
        assert all(p.grad is None for p in steps.parameters)
        steps.x = right
        found = steps.gradients()
    wanted = Steps()
    with on(2):
        same(found, wanted.gradients())


def test_other_models_are_computed_here():
    steps, other = Steps(), Steps()
    with several(steps, 2):
        other.optimizer.zero_grad()
        found = other.gradients()
        assert other.optimizer.rows() == other.parameters
    same(found, Steps().gradients())


def test_no_room_for_a_process(monkeypatch):
    def full():
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(os, "fork", full)
    steps, plain = Steps(dropout=0.3), Steps(dropout=0.3)
    with on(2):
        manual_seed(0)
        wanted = plain.gradients()
    with threadpool_limits(2, user_api="blas"), helped(steps.model, steps.optimizer, 6, 1):
        manual_seed(0)
        same(steps.gradients(), wanted)  # its two shares are computed one after the other
        assert Team.at_work.size == 1


def test_work_that_pays_on_threads_gets_no_processes():
    with threadpool_limits(2, user_api="blas"):
        assert threads.processes_for(threads.LARGE) == 0
        assert threads.processes_for(1) in (1, 2)


def test_helpers_end_with_the_block():
    steps = Steps()
    with several(steps, 3):
        steps.gradients()
        pids = [each.pid for each in Team.at_work.helpers]
        assert len(pids) == 2
    assert Team.at_work is None
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_killed_helper_is_told_and_the_next_batch_is_computed_here():
    steps = Steps()
    with several(steps, 2):
        steps.gradients()
        steps.optimizer.zero_grad()
        os.kill(Team.at_work.helpers[0].pid, signal.SIGKILL)
        with pytest.raises(helper.Lost, match="was ended by SIGKILL, perhaps for want of memory"):
            steps.gradients()
        assert Team.at_work.size == 1
        same(steps.gradients(), Steps().gradients())


def test_after_an_interruption_the_next_batch_is_computed_here(monkeypatch):
    steps, real = Steps(), helper._came

    def interrupted(semaphore):
        monkeypatch.setattr(helper, "_came", real)
        raise TimeoutError

    with several(steps, 2):
        monkeypatch.setattr(helper, "_came", interrupted)
        with pytest.raises(TimeoutError):
            steps.gradients()
        assert Team.at_work.size == 1
        for _ in range(3):
            same(steps.gradients(), Steps().gradients())
            steps.optimizer.zero_grad()


def test_memory_is_shared_no_longer_than_the_block():
    """Processes that are forked afterwards have parameters of their own."""
    steps = Steps()
    with several(steps, 2):
        steps.step()
    before = [p.array.copy() for p in steps.parameters]
    child = os.fork()
    if child == 0:
        for p in steps.parameters:
            p.array[...] = 7
        os._exit(0)
    os.waitpid(child, 0)
    same([p.array for p in steps.parameters], before)


def wider(model):
    model.blocks[1].ffn_norm.eps = 0.5


def hooked(model):
    model.blocks[0].attn.register_forward_hook(lambda module, inputs, output: output * 0.5)


def another_parameter(model):
    model.lm_head.weight = Parameter(np.ones_like(model.lm_head.weight.array))


def another_forward(model):
    forward = model.blocks[1].ffn.forward
    model.blocks[1].ffn.forward = lambda x: forward(x) * 2


@pytest.mark.parametrize("change", [wider, hooked, another_parameter, another_forward])
def test_a_model_changed_after_its_helpers_began_is_not_mixed_with_the_old_one(change):
    steps, plain = Steps(), Steps()
    with several(steps, 2):
        steps.gradients()
        steps.optimizer.zero_grad()
        for model in (steps.model, plain.model):
            change(model)
        found, wanted = (add_gradients(each.model, each.x, each.y, 1) for each in (steps, plain))
        assert found == pytest.approx(wanted, rel=1e-5)
        for p, q in zip(steps.model.parameters(), plain.model.parameters(), strict=True):
            np.testing.assert_allclose(p.grad.array, q.grad.array, rtol=1e-4, atol=1e-6)


def frozen(steps):
    """Its table of positions is of no concern to the optimizer."""
    weight = steps.model.position_embedding.weight
    weight.requires_grad_(False)
    steps.optimizer = AdamW([p for p in steps.parameters if p is not weight], lr=0.01)
    return weight


@pytest.mark.parametrize("change", [
    lambda w: w.detach().mul_(30), lambda w: setattr(w, "data", w.data * 30), lambda w: w.requires_grad_(True),
])  # fmt: skip
def test_what_the_optimizer_does_not_have_may_change_too(change):
    steps, plain = Steps(), Steps()
    weights = [frozen(each) for each in (steps, plain)]
    with several(steps, 2):
        steps.gradients_of_some()
        for weight in weights:
            change(weight)
        same(steps.gradients_of_some(), plain.gradients_of_some())
        assert (weights[0].grad is None) == (weights[1].grad is None)


def test_a_parameter_given_another_array_before_the_first_step_is_seen_by_all():
    steps, plain = Steps(), Steps()
    with several(steps, 2):
        for each in (steps, plain):
            each.model.lm_head.weight.data = each.model.lm_head.weight.data * 3
        for _ in range(3):
            for a, b in zip(steps.step(), plain.step(), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_a_gradient_given_another_array_is_the_one_that_is_stepped_with():
    steps, plain = Steps(), Steps()
    with several(steps, 2):
        for each in (steps, plain, steps, plain):
            each.gradients()
            for p in each.parameters:
                p.grad.data = p.grad.data * 0
            assert clip_grad_norm_(each.optimizer.rows(), 1.0) == 0
            each.optimizer.step()
            each.optimizer.zero_grad()
        for p, q in zip(steps.parameters, plain.parameters, strict=True):
            np.testing.assert_allclose(p.array, q.array, atol=1e-6)
        for a, b in zip(steps.gradients(), plain.gradients(), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_another_dtype_inside_the_block_is_refused():
    steps = Steps()
    with several(steps, 2):
        steps.step()
        steps.model.double()
        with pytest.raises(ValueError, match="a parameter is float64 now, the optimizer was made for float32"):
            steps.gradients()


@pytest.mark.parametrize("count", [1, 2])
def test_leaves_beside_the_model_get_their_gradients_on_threads(count):
    steps = Steps()
    beside = Tensor(np.ones(20, np.float32), requires_grad=True)
    forward = steps.model.norm.forward
    steps.model.norm.forward = lambda x: forward(x) * beside
    with on(count):
        add_gradients(steps.model, steps.x, steps.y, 1)
    assert beside.grad.shape == (20,)


def test_changes_to_the_model_inside_the_block_count():
    steps, plain = Steps(dropout=0.5), Steps(dropout=0.5)
    weight, other = steps.model.lm_head.weight, plain.model.lm_head.weight
    with several(steps, 2):
        steps.step()
        for p, q in zip(steps.parameters, plain.parameters, strict=True):
            q.array[...] = p.array
        weight.data, other.data = weight.data * 0.5, other.data * 0.5
        for model in (steps.model, plain.model):
            model.eval()
        for a, b in zip(steps.gradients(), plain.gradients(), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
        steps.optimizer.zero_grad()
        steps.model.train()
        weight.requires_grad_(False)
        add_gradients(steps.model, steps.x, steps.y, 1)
        assert weight.grad is None


def test_an_optimizer_of_some_parameters_alone_gets_no_processes():
    steps = Steps()
    some = AdamW(steps.parameters[:2])
    with threadpool_limits(2, user_api="blas"), helped(steps.model, some, 6, 1):
        assert Team.at_work is None
        same(steps.gradients(), Steps().gradients())


def test_numbers_that_are_no_ids():
    class Regression(Linear):
        def loss(self, x, y):
            return ((self(Tensor(x)) - Tensor(y)) ** 2).mean()

    generator = np.random.default_rng(0)
    x, y = generator.standard_normal((8, 4), np.float32), generator.standard_normal((8, 1), np.float32)
    model = Regression(4, 1)
    optimizer = AdamW(model.parameters())
    wanted = model.loss(x, y)
    wanted.backward()
    gradient = model.weight.grad.array
    for slices in (1, 3):
        optimizer.zero_grad()
        with threadpool_limits(2, user_api="blas"), helped(model, optimizer, 8, 1):
            assert add_gradients(model, x, y, slices) == pytest.approx(wanted.item(), rel=1e-5)
        np.testing.assert_allclose(model.weight.grad.array, gradient, rtol=1e-4)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_more_slices_than_sequences(number):
    steps, plain = Steps(), Steps()
    with several(steps, 2):
        losses = [add_gradients(each.model, each.x[:number], each.y[:number], 3) for each in (steps, plain)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_training_whose_helper_is_killed_can_go_on(tmp_path, small, no_pictures):
    real, steps = training.add_gradients, []

    def kills(*batch):
        steps.append(1)
        if len(steps) == 6:
            os.kill(Team.at_work.helpers[0].pid, signal.SIGKILL)
        return real(*batch)

    config = small(checkpoint_every=5)
    with threadpool_limits(2, user_api="blas"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "add_gradients", kills)
        with pytest.raises(RunError, match=r"ended by SIGKILL.*the last checkpoint in .* is whole: go on with --resume"):
            train(config, tmp_path / "run")
    assert resume(tmp_path / "run").step == config.steps


ORPHAN = """
import sys
from threadpoolctl import threadpool_limits
from tests.training.test_processes import Steps, several
from tinygrad_tf.gradients import Team
steps = Steps()
with several(steps, 2):
    steps.gradients()
    print(Team.at_work.helpers[0].pid, flush=True)
    sys.stdin.read()
"""


def test_a_helper_does_not_outlive_this_process():
    with subprocess.Popen([sys.executable, "-c", ORPHAN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        pid = int(process.stdout.readline())
        process.kill()
        process.wait()
    for _ in range(200):
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return  # ended, and nobody has asked how
        except OSError:
            return
        time.sleep(0.05)
    pytest.fail("it still runs")
