"""torch.utils.checkpoint.checkpoint and torch.utils.checkpoint.checkpoint_sequential beside PyTorch's."""

import numpy as np
import pytest

import tinygrad_tf.torch as ours
from tinygrad_tf import nn
from tinygrad_tf.torch.utils.checkpoint import checkpoint, checkpoint_sequential


def small_model(torch):
    layers = [torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.Tanh()]
    model = torch.nn.Sequential(*layers)
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.copy_(torch.tensor(np.random.default_rng(i).normal(size=tuple(p.shape)).astype(np.float32)))
    return model


def inputs(torch):
    return torch.tensor(np.random.default_rng(9).normal(size=(3, 4)).astype(np.float32), requires_grad=True)


def gradients(torch, run):
    model, x = small_model(torch), inputs(torch)
    run(model, x).sum().backward()
    return [np.array(t.grad.detach().numpy() if hasattr(t.grad, "numpy") else t.grad.array) for t in (x, *model.parameters())]


WAYS = {
    "checkpoint": lambda of: lambda model, x: of.checkpoint(model, x, use_reentrant=False),
    "settings": lambda of: lambda model, x: of.checkpoint(
        lambda x, times: model(x) * times, x, times=2, use_reentrant=False, preserve_rng_state=True,
        determinism_check="default"),
    "two segments": lambda of: lambda model, x: of.checkpoint_sequential(model, 2, x, use_reentrant=False),
    "five segments": lambda of: lambda model, x: of.checkpoint_sequential(list(model), 5, input=x, use_reentrant=False),
}  # fmt: skip


@pytest.mark.oracle
@pytest.mark.parametrize("way", WAYS)
def test_gradients_are_pytorchs(way):
    torch = pytest.importorskip("torch")
    import torch.utils.checkpoint as theirs

    import tinygrad_tf.torch.utils.checkpoint as own

    for mine, wanted in zip(gradients(ours, WAYS[way](own)), gradients(torch, WAYS[way](theirs)), strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-5, atol=1e-6)


def test_it_is_there_under_both_names_and_recomputes():
    calls = []

    def f(x, times=1):
        calls.append(times)
        return x.exp() * times

    x = inputs(ours)
    y = ours.utils.checkpoint.checkpoint(f, x, times=3, use_reentrant=True)
    y.sum().backward()
    assert calls == [3, 3]
    assert x.grad.allclose(y)
    assert checkpoint is ours.utils.checkpoint.checkpoint is nn.checkpoint


def test_the_last_segment_is_a_plain_call():
    calls, x = [], inputs(ours)
    layers = [lambda x, i=i: (calls.append(i), x * 2)[1] for i in range(5)]
    checkpoint_sequential(layers, 2, x).sum().backward()
    assert calls == [0, 1, 2, 3, 4, 0, 1]


def test_what_cannot_be_said():
    with pytest.raises(NotImplementedError, match="context_fn"):
        checkpoint(lambda x: x, inputs(ours), context_fn=lambda: None)
    for segments in (0, 6):
        with pytest.raises(ValueError, match="5 layers do not make"):
            checkpoint_sequential(small_model(ours), segments, inputs(ours))
