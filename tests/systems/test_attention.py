"""S7 to S14 and S36: attention in numbers small enough to do by hand, and what it must never do."""

import math
import tracemalloc

import numpy as np
import pytest

from tinygrad_tf import Tensor, fused, nn
from tinygrad_tf import tensor as t
from tinygrad_tf.models import Decoder, DecoderConfig
from tinygrad_tf.nn import functional as F
from tinygrad_tf.nn.residual import residual


def scores_for(weights):
    """Scores whose softmax is these weights."""
    return t(np.log(weights))


def random(*shape, dtype=np.float64, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# ------------------------------------------------------------------------------------------------ one head, two heads


def test_S07_one_head_is_one_weight():
    values = t(np.array([[2.0, 0.0], [0.0, 1.0]]))

    def read(a):
        return (scores_for([a, 1 - a]).softmax(-1) @ values).array

    for a in np.linspace(0.01, 0.99, 9):
        np.testing.assert_allclose(read(a), [2 * a, 1 - a], rtol=1e-14)
        assert np.linalg.matrix_rank(np.stack([read(a) - read(0.01), read(0.99) - read(0.01)]), tol=1e-12) == 1  # on a segment
    np.testing.assert_allclose(read(3 / 4), [3 / 2, 1 / 4], rtol=1e-14)  # 3/2 in the first takes a = 3/4 ...
    np.testing.assert_allclose(read(1 / 4), [1 / 2, 3 / 4], rtol=1e-14)  # ... and 3/4 in the second takes a = 1/4


def test_S08_two_heads_of_one_number_each():
    values = t(np.array([[2.0], [0.0]])), t(np.array([[0.0], [1.0]]))
    weights = scores_for([3 / 4, 1 / 4]).softmax(-1), scores_for([1 / 4, 3 / 4]).softmax(-1)
    reads = [w @ v for w, v in zip(weights, values)]
    np.testing.assert_allclose([r.item() for r in reads], [3 / 2, 3 / 4], rtol=1e-14)
    joined = F.ops.cat(*reads, dim=0)
    update = joined @ t(np.array([[1.0, 0.0], [-1.0, 1.0]]))
    np.testing.assert_allclose(update.array, [3 / 4, 3 / 4], rtol=1e-14)
    np.testing.assert_allclose(residual(t(np.array([0.0, 1.0])), update).array, [3 / 4, 7 / 4], rtol=1e-14)


def test_S08_two_heads_inside_the_layer():
    """The same numbers out of MultiHeadAttention: the first coordinate of the queries is head A's, the second is B's."""
    attn = nn.MultiHeadAttention(2, 2, bias=False).double()
    nn.init.zeros_(attn.q_proj.weight)
    attn.q_proj.weight.data = np.diag([1.0, 1.0])
    attn.k_proj.weight.data = np.array([[math.log(3) / 2, 0.0], [0.0, math.log(3)]])  # scores differ by ln 3 for both heads
    attn.v_proj.weight.data = np.diag([1.0, 1.0])
    attn.out_proj.weight.data = np.array([[1.0, 0.0], [-1.0, 1.0]]).T
    memory = Tensor(np.array([[[2.0, 0.0], [0.0, 1.0]]]))
    update = attn(Tensor(np.array([[[1.0, 1.0]]])), context=memory)
    np.testing.assert_allclose(update.array, [[[3 / 4, 3 / 4]]], rtol=1e-14)


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_S09_joining_then_projecting_is_the_sum_over_heads(kv_heads):
    d, heads = 12, 4
    width = d // heads
    attn = nn.MultiHeadAttention(d, heads, kv_heads, bias=False).double()
    x = random(1, 6, d)
    total, w_o = 0, attn.out_proj.weight.array.T  # (heads * width, d)
    for r in range(heads):
        shared = r // (heads // kv_heads)
        q = x[0] @ attn.q_proj.weight.array[r * width : (r + 1) * width].T
        k = x[0] @ attn.k_proj.weight.array[shared * width : (shared + 1) * width].T
        v = x[0] @ attn.v_proj.weight.array[shared * width : (shared + 1) * width].T
        scores = np.where(np.tri(6, dtype=bool), q @ k.T / math.sqrt(width), -np.inf)
        weights = t(scores).softmax(-1).array
        np.testing.assert_allclose(weights.sum(-1), 1)
        write = w_o[r * width : (r + 1) * width]
        assert np.linalg.matrix_rank(write) == width
        contribution = weights @ v @ write
        assert np.linalg.matrix_rank(contribution) <= width < d
        total = total + contribution
    np.testing.assert_allclose(attn(Tensor(x), causal=True).array[0], total, atol=1e-14)


def read_by(attn, query, words, asks):
    """The update that `attn` computes for a query vector that is `asks`, over the keys and values of `words`."""
    attn.q_proj.weight.data = np.outer(asks, query) / np.dot(query, query)
    return attn(Tensor(np.array([[query]])), context=Tensor(words[None])).array[0, 0]


WORDS = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])  # the, Eiffel, tower


def identity_head():
    attn = nn.MultiHeadAttention(2, 1, bias=False).double()
    for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
        getattr(attn, name).weight.data = np.eye(2)
    return attn


def test_S10_mixture_update_result(prints):
    tower, swapped = WORDS[2], np.array([[0.0, 1.0], [1.0, 0.0]])
    scores = t(tower @ swapped @ WORDS.T / math.sqrt(2))
    prints(scores.softmax(-1), "0.2483 0.5035 0.2483")

    attn = identity_head()
    mixture = read_by(attn, tower, WORDS, tower @ swapped)
    prints(mixture, "0.2483 0.5035")
    prints(tower + mixture, "1.2483 0.5035")

    attn.out_proj.weight.data = np.diag([-1.0, 1.0])
    update = read_by(attn, tower, WORDS, tower @ swapped)
    prints(update, "-0.2483 0.5035")
    prints(tower + update, "0.7517 0.5035")


def test_S10_the_query_and_the_values_are_the_readers_choice():
    attn = identity_head()
    plain = read_by(attn, WORDS[2], WORDS, WORDS[2])
    weights = np.exp([0, 0, 1 / math.sqrt(2)])
    np.testing.assert_allclose(plain, weights @ WORDS / weights.sum(), rtol=1e-14)  # "tower" asks for itself
    attn.v_proj.weight.data = np.array([[0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_allclose(read_by(attn, WORDS[2], WORDS, WORDS[2]), plain[::-1], rtol=1e-14)


# ------------------------------------------------------------------------------------------------ scale and masks


def weights_of(attn, x, **options):
    """(H, T, S): the weights, read off by giving the head one-hot values."""
    q = fused.split_heads(attn.q_proj(x), heads=attn.n_head)
    k = fused.split_heads(attn.k_proj(x), heads=attn.n_kv_head)
    n = x.shape[1]
    values = Tensor(np.broadcast_to(np.eye(n, dtype=x.dtype), (1, attn.n_kv_head, n, n)).copy())
    return fused.attention(q, k, values, **options).array[0]


def test_S11_doubling_the_input_makes_scores_four_times_as_large():
    attn = nn.MultiHeadAttention(8, 2, bias=False).double()
    x = random(1, 5, 8)
    once, twice = (np.log(weights_of(attn, Tensor(c * x))) for c in (1, 2))
    gaps = [w - w[..., :1] for w in (once, twice)]  # differences of scores
    np.testing.assert_allclose(gaps[1], 4 * gaps[0], atol=1e-12)
    entropy = [-(np.exp(w) * w).sum(-1) for w in (once, twice)]
    assert (entropy[1] < entropy[0]).all()


@pytest.mark.parametrize("eps, tolerance", [(1e-30, 1e-14), (1e-6, 1e-5)])
def test_S11_with_rms_norm_first_the_scale_does_not_matter(eps, tolerance):
    attn, norm = nn.MultiHeadAttention(8, 2, bias=False).double(), nn.RMSNorm(8, eps=eps).double()
    x = random(1, 5, 8)
    for c in (2, 1e3, 0.5):
        np.testing.assert_allclose(attn(norm(Tensor(c * x))).array, attn(norm(Tensor(x))).array, atol=tolerance)


def test_S12_causal_row_i_sees_keys_up_to_i():
    attn = nn.MultiHeadAttention(8, 2)
    x = Tensor(random(1, 6, 8, dtype=np.float32))
    full, causal = weights_of(attn, x), weights_of(attn, x, causal=0)
    assert (full > 0).all()
    np.testing.assert_array_equal(causal > 0, np.broadcast_to(np.tri(6, dtype=bool), causal.shape))
    np.testing.assert_array_equal(causal[:, 0], [[1, 0, 0, 0, 0, 0]] * 2)  # position 0 sees itself
    np.testing.assert_allclose(causal.sum(-1), 1, rtol=1e-6)


def test_S12_padding_takes_no_part():
    attn = nn.MultiHeadAttention(8, 2).double()
    x = random(2, 5, 8)
    lengths = np.array([3, 5])
    allowed = (np.arange(5) < lengths[:, None])[:, None, None, :]
    y = attn(Tensor(x), mask=allowed).array
    np.testing.assert_allclose(y[0, :3], attn(Tensor(x[:1, :3])).array[0], atol=1e-14)
    changed = x.copy()
    changed[0, 3:] = 1e6
    np.testing.assert_array_equal(attn(Tensor(changed), mask=allowed).array[:, :3], y[:, :3])


@pytest.mark.parametrize("block", [None, 1])
def test_S12_a_row_that_may_look_nowhere_is_zeros_both_ways(block):
    q, k = (Tensor(np.zeros((1, 1, 2, 2), np.float32), requires_grad=True) for _ in range(2))
    v = Tensor(np.eye(2, dtype=np.float32)[None, None], requires_grad=True)
    with np.errstate(all="raise"):
        out = fused.attention(q, k, v, mask=np.array([[False, False], [True, True]]), block=block)
        out.backward(np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2))
    assert out.tolist() == [[[[0, 0], [0.5, 0.5]]]]
    assert all(np.isfinite(x.grad.array).all() for x in (q, k, v))
    assert not q.grad.array[0, 0, 0].any()
    np.testing.assert_array_equal(v.grad.array[0, 0], [[1, 1.5], [1, 1.5]])  # from row 1 alone


# ------------------------------------------------------------------------------------------------ order


def test_S13_rows_permute_with_their_outputs_until_positions_come_in():
    x, order = random(1, 6, 8), np.array([3, 0, 5, 1, 4, 2])
    plain, turned = (nn.MultiHeadAttention(8, 2, positions=r).double() for r in (None, nn.Rotary(4)))
    shuffled = Tensor(x[:, order])
    np.testing.assert_allclose(plain(shuffled).array, plain(Tensor(x)).array[:, order], atol=1e-14)
    assert abs(turned(shuffled).array - turned(Tensor(x)).array[:, order]).max() > 1e-3
    assert (
        abs(plain(shuffled, causal=True).array - plain(Tensor(x), causal=True).array[:, order]).max() > 1e-3
    )  # a mask orders too
    added = random(6, 8, seed=1)
    assert abs(plain(Tensor(x[:, order] + added)).array - plain(Tensor(x + added)).array[:, order]).max() > 1e-3


def test_S14_the_second_word_asks_differently_from_the_second_block_on():
    model = Decoder(DecoderConfig(10, 4, n_layer=2, n_head=2, n_embd=8, init_std=0.5), np.random.default_rng(0))
    seen = {}
    for i, block in enumerate(model.blocks):
        block.attn_norm.register_forward_pre_hook(lambda m, args, i=i: seen.__setitem__(("stream", i), args[0].array[0, 1]))
        block.attn.q_proj.register_forward_hook(lambda m, args, out, i=i: seen.__setitem__(("query", i), out.array[0, 1]))
    model(np.array([[3, 7]]))  # I like
    first = dict(seen)
    model(np.array([[5, 7]]))  # They like
    for what in ("stream", "query"):
        np.testing.assert_array_equal(first[what, 0], seen[what, 0])
        assert abs(first[what, 1] - seen[what, 1]).max() > 1e-3


# ------------------------------------------------------------------------------------------------ memory


def plain_attention(q, k, v, causal, mask, since=None):
    """The definition, one T x S matrix a head, in float64."""
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    allowed = np.ones(scores.shape[-2:], bool) if causal is None else np.tri(*scores.shape[-2:], causal, dtype=bool)
    if since is not None:
        allowed &= np.arange(scores.shape[-1]) - np.arange(scores.shape[-2])[:, None] >= since
    scores = np.where(allowed if mask is None else allowed & mask, scores, -np.inf)
    top = scores.max(-1, keepdims=True)
    w = np.exp(scores - np.where(top == -np.inf, 0, top))
    total = w.sum(-1, keepdims=True)
    w = w / np.where(total == 0, 1, total)
    return w @ v, w, k, v


def plain_gradients(g, q, k, v, causal, mask, since=None):
    out, w, k2, v2 = plain_attention(q, k, v, causal, mask, since)
    ds = w * (g @ v2.swapaxes(-1, -2) - (g * out).sum(-1, keepdims=True)) / math.sqrt(q.shape[-1])
    share = lambda x: x.reshape(x.shape[0], k.shape[1], -1, *x.shape[2:]).sum(2)
    return ds @ k2, share(ds.swapaxes(-1, -2) @ q), share(w.swapaxes(-1, -2) @ g)


@pytest.mark.parametrize("causal", [None, 0, 9, -3])
@pytest.mark.parametrize("groups", [4, 2, 1])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("block", [1, 7, 16, 64, None])
@pytest.mark.parametrize("keep", [0, 1000])  # weights made again in backward, and kept until then
def test_S36_block_wise_attention_is_the_plain_one(monkeypatch, causal, groups, masked, block, keep):
    monkeypatch.setattr("tinygrad_tf.attention.KEEP", keep)
    q, k, v = random(2, 4, 37, 6), random(2, groups, 45, 6, seed=1), random(2, groups, 45, 5, seed=2)
    mask = np.random.default_rng(3).random((2, 1, 37, 45)) > 0.3 if masked else None
    g = random(2, 4, 37, 5, seed=4)
    tensors = [Tensor(x, requires_grad=True) for x in (q, k, v)]
    out = fused.attention(*tensors, causal=causal, mask=mask, block=block)
    np.testing.assert_allclose(out.array, plain_attention(q, k, v, causal, mask)[0], atol=1e-13)
    out.backward(g)
    for x, expected in zip(tensors, plain_gradients(g, q, k, v, causal, mask)):
        np.testing.assert_allclose(x.grad.array, expected, atol=1e-12)


@pytest.mark.parametrize("causal", [None, 0, 9, -3])
@pytest.mark.parametrize("since", [-50, -8, 0, 3, 50])  # from keys that are not there to keys that are not there
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("block", [1, 7, None])
@pytest.mark.parametrize("keep", [0, 1000])
def test_S36_keys_from_a_place_on(monkeypatch, causal, since, masked, block, keep):
    """A band of keys for each query; where it is empty the query gives zeros and sends none back."""
    monkeypatch.setattr("tinygrad_tf.attention.KEEP", keep)
    q, k, v = random(2, 4, 37, 6), random(2, 2, 45, 6, seed=1), random(2, 2, 45, 5, seed=2)
    mask = np.random.default_rng(3).random((2, 1, 37, 45)) > 0.3 if masked else None
    added, g = random(4, 37, 45, seed=5), random(2, 4, 37, 5, seed=4)
    for numbers in (None, np.where(added > 2, -np.inf, 0)):  # a bias without a gradient, which hides keys too
        hidden = mask if numbers is None else (numbers == 0) & (True if mask is None else mask)
        tensors = [Tensor(x, requires_grad=True) for x in (q, k, v)]
        with np.errstate(all="raise", under="ignore"):
            out = fused.attention(*tensors, causal=causal, since=since, mask=mask, added=numbers, block=block)
            out.backward(g)
        np.testing.assert_allclose(out.array, plain_attention(q, k, v, causal, hidden, since)[0], atol=1e-13)
        for x, expected in zip(tensors, plain_gradients(g, q, k, v, causal, hidden, since)):
            np.testing.assert_allclose(x.grad.array, expected, atol=1e-12)


@pytest.fixture
def scores(monkeypatch):
    """Every array of scores that attention computes, forward or backward, by its shape."""
    from tinygrad_tf import attention as blocks

    found, whole = [], blocks._scores

    def counted(*args):
        s = whole(*args)
        found.append(s.shape)
        return s

    monkeypatch.setattr(blocks, "_scores", counted)
    return found


@pytest.mark.parametrize("window", [1, 16, 64, 100])
@pytest.mark.parametrize("keep", [0, 10_000])
def test_S36_a_window_visits_its_own_keys_and_those_of_its_block_alone(monkeypatch, scores, window, keep):
    """Counted: 64 queries meet at most window + 63 keys, whatever the length; so the work grows with it in line."""
    monkeypatch.setattr("tinygrad_tf.attention.KEEP", keep)
    for tokens in (512, 1024, 2048):
        scores.clear()
        tensors = [Tensor(random(1, 2, tokens, 4, dtype=np.float32, seed=i), requires_grad=True) for i in range(3)]
        out = fused.attention(*tensors, causal=0, since=1 - window)
        assert len(scores) == tokens // 64
        assert max(shape[-2] for shape in scores) == window + 63
        forward = sum(math.prod(shape) for shape in scores)
        missing = sum(max(0, window - 1 - first) for first in range(0, tokens, 64))  # before the beginning there are no keys
        assert forward == 2 * 64 * (tokens // 64 * (window + 63) - missing)
        out.sum().backward()
        again = 0 if keep else forward  # made again in backward, the same ones
        assert sum(math.prod(shape) for shape in scores) == forward + again
    assert forward < 2 * 2048 * 2049 / 2 / 6


def test_S36_keys_outside_a_window_are_not_even_read():
    """Garbage there does not matter, forward and backward."""
    q, k, v = (random(1, 2, 64, 4, seed=i) for i in range(3))
    found = []
    for garbage in (0.0, np.nan):
        k[:, :, :24], v[:, :, :24] = garbage, garbage
        tensors = [Tensor(x, requires_grad=True) for x in (q, k, v)]
        out = fused.attention(*tensors, causal=0, since=-8, block=16)[:, :, 32:]
        out.sum().backward()
        found.append([out.array, tensors[0].grad.array[:, :, 32:], *(x.grad.array[:, :, 24:32] for x in tensors[1:])])
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_S36_causal_work_is_not_spent_on_the_masked_half():
    """Keys and values behind a whole block of queries are not even read: garbage there does not matter."""
    q, k, v = (random(1, 2, 64, 4, seed=i) for i in range(3))
    clean = fused.attention(Tensor(q), Tensor(k), Tensor(v), causal=0, block=16).array
    k[:, :, 48:], v[:, :, 48:] = np.nan, np.nan
    tensors = [Tensor(x, requires_grad=True) for x in (q, k, v)]
    out = fused.attention(*tensors, causal=0, block=16)
    np.testing.assert_array_equal(out.array[:, :, :48], clean[:, :, :48])


def peak(tokens, causal, since=None):
    """Bytes allocated at most, beyond the inputs, by attention over this many tokens, forward and backward."""
    tensors = [Tensor(random(1, 2, tokens, 16, dtype=np.float32, seed=i), requires_grad=True) for i in range(3)]
    g = np.ones((1, 2, tokens, 16), np.float32)
    tracemalloc.start()
    try:
        fused.attention(*tensors, causal=causal, since=since).backward(g)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("causal, since", [(None, None), (0, None), (0, -100), (0, -300)])
def test_S36_peak_memory_grows_linearly(causal, since):
    sizes = [512, 1024, 2048, 4096]
    peaks = [peak(n, causal, since) for n in sizes]
    for smaller, larger in zip(peaks, peaks[1:]):
        assert larger < 2.2 * smaller, dict(zip(sizes, peaks))
    assert peaks[-1] < 4096 * 4096 * 4 / 2, "half of one head's T x T matrix of float32"
