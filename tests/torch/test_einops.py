"""einops on tensors of the door: the same values, shapes and gradients as on PyTorch's."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import tinygrad_tf.torch as ours

PATTERNS = {
    "rearrange": lambda e, x: [
        e.rearrange(x, "b t (h d) -> b h t d", h=2),
        e.rearrange(x, "b t c -> (b t) c"),
        e.rearrange(x, "b t c -> c b t 1"),
        e.rearrange([x, x], "n b t c -> b (n t) c"),
        e.rearrange(x, "b ... -> b (...)"),
    ],
    "reduce": lambda e, x: [
        e.reduce(x, "b t c -> b c", how) for how in ("sum", "mean", "max", "min", "prod")
    ] + [e.reduce(x, "b t c -> c", "max"), e.reduce(x, "b t (h d) -> h", "mean", h=2), e.reduce(x, "b t c -> b 1 1", "prod")],
    "any, all": lambda e, x: [e.reduce(x > 0, "b t c -> b", "any"), e.reduce(x > -9, "b t c -> c", "all")],
    "repeat": lambda e, x: [e.repeat(x, "b t c -> b (n t) c", n=3), e.repeat(x, "b t c -> m b t n c", m=2, n=2)],
    "einsum": lambda e, x: [e.einsum(x, x, "b q c, b k c -> b q k"), e.einsum(x, x, "batch t c, batch t c -> batch")],
    "pack": lambda e, x: [
        (packed := e.pack([x, x[:, 0]], "b * c"))[0],
        *e.unpack(packed[0] * 2, packed[1], "b * c"),
    ],
    "parse_shape": lambda e, x: list(e.parse_shape(x, "b t _").values()),
}  # fmt: skip
SHAPES = [(2, 3, 4), (1, 1, 2), (3, 2, 2), (2, 5, 6), (1, 4, 8), (4, 1, 2), (2, 2, 10), (5, 3, 2), (3, 3, 4), (1, 7, 2)]


@pytest.fixture(scope="session")
def einops():
    if find_spec("einops") is None:
        pytest.skip("programs with einops not run (einops is not installed: pip install -e '.[test]')")
    import einops

    return einops


@pytest.mark.parametrize("name", PATTERNS)
def test_the_same_as_on_tensors_of_pytorch(einops, agree, name):
    for shape in SHAPES:
        agree(lambda m, x: PATTERNS[name](einops, x), np.random.default_rng(shape).standard_normal(shape), rtol=1e-6)


def test_what_einops_refuses_is_its_own_error(einops):
    with pytest.raises(einops.EinopsError, match="Shape mismatch"):
        einops.rearrange(ours.ones(2, 3), "b (h d) -> b h d", h=2)
    np.testing.assert_array_equal(einops.asnumpy(ours.ones(2, requires_grad=True)), np.ones(2))
    with pytest.raises(RuntimeError, match="unknown to einops"):
        einops.rearrange(object(), "a -> a")


@pytest.mark.parametrize("before", ["", "import einops; "], ids=["first the door", "first einops"])
def test_in_either_order_and_through_redirected_imports(einops, tmp_path, before):
    program = f"{before}import torch\nfrom einops import rearrange\nfrom einops.layers.torch import Rearrange, Reduce\n"
    program += "x = torch.arange(6.0, requires_grad=True)\nrearrange(x, '(a b) -> b a', a=2)[1].sum().backward()\n"
    program += "net = torch.nn.Sequential(Rearrange('b (h d) -> b h d', h=2), Reduce('b h d -> b d', 'max'))\n"
    program += "print(x.grad.tolist(), type(x).__module__, net(torch.arange(8.0).view(2, 4)).tolist())"
    (tmp_path / "program.py").write_text(program)
    run = Path(__file__).parents[1] / "clients" / "run.py"
    done = subprocess.run([sys.executable, run, tmp_path / "program.py"], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[0.0, 1.0, 0.0, 0.0, 1.0, 0.0] tinygrad_tf.tensor [[2.0, 3.0], [6.0, 7.0]]", done.stderr
