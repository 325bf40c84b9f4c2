"""Every loss, as a function and as a module, against PyTorch's: values, shapes, dtypes and gradients."""

import numpy as np
import pytest

from tinygrad_tf import Tensor, nn
from tinygrad_tf.nn import functional as F

CLASSES = {  # logits, targets
    "rows": ((6, 5), (6,)),
    "one row": ((1, 5), (1,)),
    "no batch": ((5,), ()),
    "no rows": ((0, 5), (0,)),
    "times": ((4, 5, 3), (4, 3)),
    "no times": ((2, 5, 0), (2, 0)),
    "pictures": ((2, 5, 3, 2), (2, 3, 2)),
}
HOW = [  # ignore_index, whether the classes have weights, label_smoothing
    (-100, False, 0.0), (3, False, 0.0), (-1, False, 0.0), (-100, True, 0.0), (1, True, 0.0), (-100, False, 0.1),
    (-100, False, 1.0), (0, False, 0.2), (-100, True, 0.3), (4, True, 0.3),
]  # fmt: skip
REDUCTIONS = ["mean", "sum", "none"]
WEIGHT = np.array([0.5, 2.0, 0.1, 1.0, 3.0])


def targets(shape, ignored):
    """Classes, every third of them ignored; at least one is kept."""
    found = np.random.default_rng(1).integers(0, 5, shape)
    if ignored != -100 and found.size > 1:
        found.reshape(-1)[::3] = ignored
        found.reshape(-1)[1] = 2
    return found


def pair(torch, name, dtype, **options):
    """The module with these options, ours and PyTorch's."""
    made = []
    for modules, convert in ((nn, Tensor), (torch.nn, torch.tensor)):
        own = {k: convert(v.astype(dtype)) if isinstance(v, np.ndarray) else v for k, v in options.items()}
        made.append(getattr(modules, name)(**own))
    return made


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("ignored, weighted, smoothing", HOW)
@pytest.mark.parametrize("case", CLASSES)
def test_cross_entropy(oracle, against, randn, dtype, case, ignored, weighted, smoothing, reduction):
    shape, wanted = CLASSES[case]
    ids = targets(wanted, ignored)
    if not (ids != ignored).any() and reduction == "mean":  # in PyTorch 0 / 0
        assert F.cross_entropy(Tensor(randn(*shape, dtype)), ids, ignore_index=ignored).item() == 0
        return
    options = {"ignore_index": ignored, "label_smoothing": smoothing, "reduction": reduction}
    loss = pair(oracle, "CrossEntropyLoss", dtype, weight=WEIGHT if weighted else None, **options)
    against.same(oracle, *loss, 3 * randn(*shape, dtype), ids)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted, smoothing", [(False, 0.0), (True, 0.0), (False, 0.2), (True, 0.2)])
@pytest.mark.parametrize("shape", [(6, 5), (1, 5), (5,), (4, 5, 3), (2, 5, 3, 2)])
def test_cross_entropy_with_a_distribution_for_a_target(oracle, against, randn, dtype, shape, weighted, smoothing, reduction):
    loss = pair(oracle, "CrossEntropyLoss", dtype, weight=WEIGHT if weighted else None, label_smoothing=smoothing,
                reduction=reduction)  # fmt: skip
    wanted = np.random.default_rng(2).dirichlet(np.ones(5), shape[:1] + shape[2:] if len(shape) > 1 else ())
    wanted = np.moveaxis(wanted, -1, min(1, len(shape) - 1)).astype(dtype).copy()
    against.same(oracle, *loss, 3 * randn(*shape, dtype), wanted)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("ignored, weighted", [(-100, False), (3, False), (-1, False), (-100, True), (1, True)])
@pytest.mark.parametrize("case", CLASSES)
def test_nll_loss(oracle, against, randn, dtype, case, ignored, weighted, reduction):
    shape, wanted = CLASSES[case]
    ids = targets(wanted, ignored)
    if not (ids != ignored).any() and reduction == "mean":
        assert F.nll_loss(Tensor(randn(*shape, dtype)), ids, ignore_index=ignored).item() == 0
        return
    loss = pair(oracle, "NLLLoss", dtype, weight=WEIGHT if weighted else None, ignore_index=ignored, reduction=reduction)
    against.same(oracle, *loss, randn(*shape, dtype), ids)


def test_what_is_ignored_may_be_infinite():
    logp = Tensor(np.array([[-np.inf, 0.0], [np.log(0.5), np.log(0.5)]]), requires_grad=True)
    loss = F.nll_loss(logp, np.array([-100, 1]))
    loss.backward()
    assert loss.item() == pytest.approx(np.log(2))
    assert logp.grad.tolist() == [[0, 0], [0, -1]]


@pytest.mark.parametrize("reduction", [*REDUCTIONS, "batchmean"])
@pytest.mark.parametrize("log_target", [False, True])
@pytest.mark.parametrize("shape", [(5,), (1, 5), (4, 5), (2, 3, 5), (3, 1), (2, 3, 2, 2)])
def test_kl_div(oracle, against, randn, dtype, shape, log_target, reduction):
    logq, p = randn(*shape, dtype), np.random.default_rng(0).dirichlet(np.ones(shape[-1]), shape[:-1]).astype(dtype)
    loss = pair(oracle, "KLDivLoss", dtype, reduction=reduction, log_target=log_target)
    against.same(oracle, *loss, logq, np.log(p) if log_target else p)


def test_kl_div_where_the_target_is_zero(oracle, against, randn, dtype):
    """0 ln 0 is 0; only the input has a slope that is finite there."""
    logq, p = randn(3, 4, dtype), np.eye(3, 4, dtype=dtype)
    ours, theirs = (lambda x: F.kl_div(x, p)), (lambda x: oracle.nn.functional.kl_div(x, oracle.from_numpy(p)))
    against.same(oracle, ours, theirs, logq)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(), (1,), (5,), (2, 3), (2, 0, 3)])
def test_mse_and_bce_with_logits(oracle, against, randn, dtype, shape, reduction):
    x, wanted = 9 * randn(*shape, dtype), np.random.default_rng(0).random(shape).astype(dtype)
    x, wanted = np.asarray(x, dtype), np.asarray(wanted, dtype)
    if x.size or reduction != "mean":
        against.same(oracle, *pair(oracle, "MSELoss", dtype, reduction=reduction), x, wanted)
        against.same(oracle, *pair(oracle, "BCEWithLogitsLoss", dtype, reduction=reduction), x, wanted)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(3, 5), (1,), (2, 1, 3), (), (7,)])
def test_bce_of_probabilities(oracle, against, dtype, shape, reduction):
    rng = np.random.default_rng(0)
    p = np.asarray(rng.uniform(0.01, 0.99, shape), dtype)
    for wanted in (np.zeros(shape), np.ones(shape), rng.random(shape)):
        against.same(oracle, *pair(oracle, "BCELoss", dtype, reduction=reduction), p, np.asarray(wanted, dtype))


def test_bce_of_certain_probabilities(oracle, dtype):
    """Values as PyTorch's, no NaN; a probability that is not one is refused there and here."""
    p, wanted = np.array([0, 1, 0, 1, 1e-38], dtype), np.array([0, 1, 1, 0, 1], dtype)
    x = Tensor(p, requires_grad=True)
    loss = F.binary_cross_entropy(x, wanted, weight=np.full(5, 2, dtype), reduction="none")
    theirs = oracle.nn.functional.binary_cross_entropy
    expected = theirs(oracle.tensor(p), oracle.tensor(wanted), weight=oracle.full((5,), 2, dtype=oracle.tensor(p).dtype),
                      reduction="none")  # fmt: skip
    np.testing.assert_allclose(loss.array, expected, rtol=1e-5)
    loss.sum().backward()
    assert np.isfinite(x.grad.array).all()
    for bad in ([1.5], [np.nan], [-0.1]):
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            F.binary_cross_entropy(Tensor(np.array(bad, dtype)), np.ones(1, dtype))
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            theirs(oracle.tensor(np.array(bad, dtype)), oracle.ones(1, dtype=oracle.tensor(p).dtype))


@pytest.mark.parametrize("options", [{"pos_weight": WEIGHT}, {"weight": WEIGHT}, {"pos_weight": WEIGHT, "weight": WEIGHT}])
def test_bce_with_weights(oracle, against, randn, dtype, options):
    for wanted in (np.zeros((3, 5)), np.ones((3, 5)), np.random.default_rng(0).random((3, 5))):
        against.same(oracle, *pair(oracle, "BCEWithLogitsLoss", dtype, **options), 4 * randn(3, 5, dtype), wanted.astype(dtype))


def test_bce_far_from_zero_and_at_zero(oracle, against, dtype):
    x = np.array([-1e4, -90, -20, 0, 20, 90, 1e4], dtype)
    for t in (0.0, 0.3, 1.0):
        against.same(oracle, *pair(oracle, "BCEWithLogitsLoss", dtype, reduction="none"), x, np.full(7, t, dtype))


@pytest.mark.parametrize("call, words", [
    (lambda: F.cross_entropy(Tensor(np.ones((2, 5, 3), np.float32)), np.zeros((3, 2), int)), r"targets of shape \(3, 2\)"),
    (lambda: F.cross_entropy(Tensor(np.ones((2, 5))), [0, 1], weight=np.ones(4)), "weights of shape"),
    (lambda: F.cross_entropy(Tensor(np.ones((2, 5))), [0, 1], label_smoothing=1.5), "label_smoothing"),
    (lambda: F.cross_entropy(Tensor(np.ones((2, 5))), np.ones((2, 5)), ignore_index=2), "ignore_index"),
    (lambda: F.cross_entropy(Tensor(np.array(1.0)), np.array(0)), "0-d"),
    (lambda: F.nll_loss(Tensor(np.ones((2, 5))), [0, 1], reduction="avg"), "reduction is"),
    (lambda: F.kl_div(Tensor(np.ones(3)), np.ones(3), reduction="avg"), "reduction is"),
    (lambda: nn.MSELoss(reduction="batchmean"), "reduction is"),
    (lambda: F.binary_cross_entropy_with_logits(Tensor(np.ones((2, 1))), np.ones(2)), "shapes must be equal"),
])  # fmt: skip
def test_what_is_no_loss_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
