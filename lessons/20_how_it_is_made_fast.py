"""How it is made fast

The engine is Python and NumPy. Where do time and memory go in a model, and what can be done about it without a compiler?

Systems: S35, S36
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="20 · How it is made fast")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from lessons.page import check_button, exercises, links, pictures, show
    from viz.reading import Plot

    return Plot, check_button, exercises, links, mo, pictures, show


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # How it is made fast

    NumPy does one operation at a time. `a * b + c` first makes an array for `a * b`, then another for the sum. For a few
    numbers Python's own work is what costs; for many it is the walk through memory, because a multiplication takes less time
    than fetching what is to be multiplied. So there are three things to count: how many operations are called, how many
    arrays are made on the way, and how many multiplications there are at all. Times depend on your machine. Counts do not,
    and every claim below is one; where a time is shown, it is a ratio of two, measured just now.

    ## Arrays on the way

    Here is the middle of a LayerNorm on a million numbers, as one would write it, and with room asked for once.
    """)
    return


@app.cell
def _():
    import numpy as np

    import viz
    from tinygrad_tf import Tensor, composed, no_grad
    from tinygrad_tf.fused import attention
    from tinygrad_tf.nn import functional as F
    from tinygrad_tf.nn.linear_attention import LinearMix

    return F, LinearMix, Tensor, attention, composed, no_grad, np, viz


@app.cell(hide_code=True)
def _(np):
    import time
    import tracemalloc

    def peak(function):
        """The most bytes that were held at one time beyond those at the start, while function() ran."""
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        result = function()
        most = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
        del result
        return most

    def ratio(slow, quick, turns=7):
        """How many times as long `slow` takes: the quickest of some turns each, the two in alternation."""
        best = [np.inf, np.inf]
        for _ in range(turns):
            for i, call in enumerate((slow, quick)):
                start = time.perf_counter()
                call()
                best[i] = min(best[i], time.perf_counter() - start)
        return best[0] / best[1]

    return peak, ratio


@app.cell
def _(np):
    x = np.random.default_rng(0).standard_normal((1000, 1000)).astype(np.float32)
    mean, deviation = x.mean(-1, keepdims=True), x.std(-1, keepdims=True)
    gain, shift = np.full(1000, 1.5, np.float32), np.full(1000, 0.5, np.float32)

    def line_by_line():
        centred = x - mean
        normed = centred / deviation
        scaled = normed * gain
        return scaled + shift

    def in_place():
        y = x - mean  # the one new array; the others write into it
        y /= deviation
        y *= gain
        y += shift
        return y

    assert np.array_equal(line_by_line(), in_place())
    return in_place, line_by_line, x


@app.cell(hide_code=True)
def _(in_place, line_by_line, mo, peak, x):
    arrays = {function.__name__: round(peak(function) / x.nbytes) for function in (line_by_line, in_place)}
    mo.md(f"""
    The bits are the same. What is held in memory at the worst moment is not: {arrays["line_by_line"]} arrays of the size of x
    against {arrays["in_place"]}. (`tracemalloc`, of Python itself, counts every byte that NumPy asks for.) Why does an engine
    not do this everywhere? Because a network needs backward, and an array that backward will want must not be overwritten.
    The gradient of the gain is made from `normed`, which the second way has destroyed. Someone has to know which arrays the
    gradient needs.

    ## One op in place of many

    A **fused op** is that knowledge, written down once: one call, its own rule for backward, and inside it whatever work in
    place is safe. In this engine each has a **composed twin**, the same thing in small ops, which says what it means; a test
    compares them. `with composed():` runs a whole model on the twins. Here is a small decoder of two layers, its loss
    computed both ways; count the ops of which each loss is made, and the bytes that they keep until backward comes.
    """)
    return (arrays,)


@app.cell(hide_code=True)
def _(np):
    from tinygrad_tf.engine import history
    from tinygrad_tf.models import Decoder, DecoderConfig

    model = Decoder(
        DecoderConfig(65, block_size=64, n_layer=2, n_head=4, n_embd=64, norm="rms", ffn="gelu_tanh"),
        np.random.default_rng(0),
    )
    ids = np.random.default_rng(1).integers(0, 65, (4, 65))

    def loss_of():
        return model.loss(ids[:, :-1], ids[:, 1:])

    def ops_and_bytes(loss):
        """How many ops a loss is made of, and the bytes that they keep for backward, each array once."""
        nodes = history(loss.node)
        kept = {id(array): array.nbytes for node in nodes for array in node.kept()}
        return len(nodes), sum(kept.values())

    return Decoder, DecoderConfig, loss_of, model, ops_and_bytes


@app.cell
def _(composed, loss_of, np, ops_and_bytes):
    loss = loss_of()
    fused_ops, fused_kept = ops_and_bytes(loss)
    with composed():
        twin_loss = loss_of()
        twin_ops, twin_kept = ops_and_bytes(twin_loss)
    assert np.isclose(loss.item(), twin_loss.item(), rtol=1e-5)
    return fused_kept, fused_ops, loss, twin_kept, twin_ops


@app.cell(hide_code=True)
def _(
    composed,
    fused_kept,
    fused_ops,
    loss,
    loss_of,
    mo,
    model,
    ratio,
    twin_kept,
    twin_ops,
):
    def _step():
        for p in model.parameters():
            p.grad = None
        loss_of().backward()

    def _step_on_twins():
        with composed():
            _step()

    mo.md(f"""
    The same loss, {loss.item():.4f}: {fused_ops} ops instead of {twin_ops}, and {fused_kept / 2**20:.1f} MiB kept for
    backward instead of {twin_kept / 2**20:.1f}. A training step on the twins took **{ratio(_step_on_twins, _step):.1f} times**
    as long, here and now. Notice how much smaller that ratio is than the one of the ops. Most of the time goes into matrix
    products, and those are the same both ways; fusing saves what lies between them.

    One of these ops, opened. Each box inside would make an array, and x is needed twice:
    """)
    return


@app.cell
def _(F, Tensor, np, viz):
    small = Tensor(np.random.default_rng(2).standard_normal((2, 4)), requires_grad=True)
    viz.draw(F.rms_norm(small, 4), names={"x": small}, fused=False, title="rms_norm: one op, opened")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Attention without the square

    Attention makes a number for every pair of positions. For T positions that is a T × T matrix, scores and then weights, for
    each head of each layer. At a few thousand positions nothing else in the model is as large. It is needed for one thing
    only: the sum of the values by weight. Can one have the sum and never the matrix?

    Softmax seems to forbid it: before the first weight is known, every score must be, for the sum below the line. But the sum
    can be kept *running*. Take the keys in blocks. Hold the largest score so far, the sum of the exponentials less that
    largest, and the values summed with the same factors. When a new block has a larger score, shrink what you have by the
    difference. This is the **online softmax**. Here for one query, ten keys and blocks of four, the last one of two; look for
    the line that shrinks, and for what happens to it in the very first block.
    """)
    return


@app.cell
def _(np):
    rng = np.random.default_rng(3)
    q_one, keys, values = rng.standard_normal(8) / np.sqrt(8), rng.standard_normal((10, 8)), rng.standard_normal((10, 3))

    def online_read(q, block=4, rescale=True):
        top, total, read = -np.inf, 0.0, np.zeros(3)
        for i in range(0, len(keys), block):
            scores = keys[i : i + block] @ q
            new_top = max(top, scores.max())
            shrink = np.exp(top - new_top) if rescale else 1.0  # in the first block exp(-inf), which is 0
            shares = np.exp(scores - new_top)
            total = total * shrink + shares.sum()
            read = read * shrink + shares @ values[i : i + block]
            top = new_top
        return read / total

    def whole_read(q):
        shares = np.exp(keys @ q)
        return shares / shares.sum() @ values

    assert np.allclose(online_read(q_one), whole_read(q_one))
    return online_read, q_one, whole_read


@app.cell(hide_code=True)
def _(mo, np, online_read, q_one):
    from tinygrad_tf.attention import BLOCK

    online = online_read(q_one)
    _by_block = [online_read(q_one, block) for block in (1, 2, 3, 10)]
    assert np.allclose(_by_block, online)
    _said = ", ".join(f"{value:.3f}" for value in online).replace("-", "−")
    mo.md(f"""
    The read is ({_said}), with blocks of 1, 2, 3, 4 or 10 keys. It is not an approximation: the sum is the same sum, its
    terms taken in another order.

    Blocks of queries are even simpler: a query's weights depend on no other query. The engine takes {BLOCK} queries at a time
    with the keys that they may see, so the weights in hand are complete and the softmax is the ordinary one. For backward it
    keeps one number per query, the logarithm of the sum, and makes the weights again (it keeps those of 256 keys or fewer: to
    make them again would cost more than they do). FlashAttention (Dao et al. 2022) cuts both ways, and so stays within the
    fast memory of a graphics processor.

    Compare the engine's op with attention as it is written on paper, output and gradients. Making the weights a second time
    costs time; what is bought with it?
    """)
    return (online,)


@app.cell
def _(attention, np):
    def in_blocks(q, k, v):
        return attention(q, k, v, causal=0)

    def in_full(q, k, v):
        may = np.tri(q.shape[2], dtype=bool)
        scores = q @ k.transpose(-1, -2) / np.sqrt(q.shape[-1])  # (1, 1, T, T)
        return scores.masked_fill(~may, -np.inf).softmax(-1) @ v

    return in_blocks, in_full


@app.cell(hide_code=True)
def _(Tensor, in_blocks, in_full, mo, np, peak):
    def heads(t, d=32):
        """Queries, keys and values (1, 1, T, D) of one head."""
        rng = np.random.default_rng(0)
        return [Tensor(rng.standard_normal((1, 1, t, d)).astype(np.float32), requires_grad=True) for _ in range(3)]

    def _both_ways(function, qkv):
        """The output, and the gradients of queries, keys and values."""
        out = function(*qkv)
        for each in qkv:
            each.grad = None
        out.backward(np.ones(out.shape, np.float32))
        return [out.array, *(each.grad.array for each in qkv)]

    def _peak_at(t, function):
        """Bytes at most, forward and backward."""
        qkv = heads(t)
        return peak(lambda: _both_ways(function, qkv))

    _LENGTHS, _qkv = (512, 1024, 2048), heads(700)
    apart = max(float(abs(a - b).max()) for a, b in zip(_both_ways(in_blocks, _qkv), _both_ways(in_full, _qkv)))
    assert apart < 1e-4
    peak_blocks, peak_full = (np.array([_peak_at(t, each) for t in _LENGTHS]) for each in (in_blocks, in_full))
    _rows = "\n    ".join(f"| {t:,} | {a:.1f} | {b:.1f} |" for t, a, b in zip(_LENGTHS, peak_blocks / 2**20, peak_full / 2**20))
    mo.md(f"""
    For {_qkv[0].shape[2]} positions output and all three gradients differ by {apart:.0e} at most. The most memory held at one
    time, in MiB, for one head, forward and backward:

    | positions | in blocks | the whole matrix |
    | --: | --: | --: |
    {_rows}

    When the length doubles, blocks take {peak_blocks[-1] / peak_blocks[-2]:.1f} times the memory, the full matrix
    {peak_full[-1] / peak_full[-2]:.1f} times. The number of multiplications is what it was, but for the masked half, which
    blocks need not touch: the square is gone from memory, not from time.

    ## Attention without the square, in time

    Softmax weighs a key by exp(q · k), and that has to be computed for every pair. Suppose the weight were a plain product,
    φ(q) · φ(k), of some vectors φ that are never negative. Then the brackets can be moved: (φ(Q) φ(K)ᵀ) V = φ(Q) (φ(K)ᵀ V).
    On the left stands a T × T matrix, on the right one of D × D, however long the text. This is **linear attention**
    (Katharopoulos et al. 2020). With features already taken, six positions of width 3:
    """)
    return apart, heads, peak_blocks, peak_full


@app.cell
def _(np):
    _rng = np.random.default_rng(4)
    pq, pk = np.exp(_rng.standard_normal((2, 6, 3)))  # (T, D), nothing negative
    pv = _rng.standard_normal((6, 4))

    square = pq @ pk.T  # (T, T)
    by_pairs = (square / square.sum(axis=1, keepdims=True)) @ pv

    state, norm = pk.T @ pv, pk.sum(axis=0)  # (D, E), (D,): all that a query needs of the text
    by_state = (pq @ state) / (pq @ norm)[:, None]
    assert np.allclose(by_pairs, by_state)
    return by_pairs, by_state, pk, pq, pv, square


@app.cell(hide_code=True)
def _(mo, square):
    mo.md(f"""
    `state` and `norm` are all that the {len(square)} queries need to know of the text. A model that writes needs a little
    more care: position i may use only what stood there when it came. So the state is not made once but grows, one outer
    product k v for each position, and every query meets it as it was at its time. By pairs, the same is a triangle.
    """)
    return


@app.cell
def _(LinearMix, Tensor, np, pk, pq, pv, square):
    triangle = np.tril(square)  # the future left out
    causal_pairs = (triangle / triangle.sum(axis=1, keepdims=True)) @ pv

    states = np.cumsum(pk[:, :, None] * pv[:, None, :], axis=0)  # (T, D, E)
    norms = np.cumsum(pk, axis=0)
    causal_states = np.einsum("td,tde->te", pq, states) / np.einsum("td,td->t", pq, norms)[:, None]

    _mix = LinearMix()(*(Tensor(a[None, None]) for a in (pq, pk, pv)), causal=True)
    assert np.allclose(causal_pairs, causal_states) and np.allclose(causal_pairs, _mix.array[0, 0])
    return causal_pairs, causal_states


@app.cell(hide_code=True)
def _(mo):
    from tinygrad_tf.nn.linear_attention import CHUNK, features

    mo.md(f"""
    Three ways, the engine's among them, and one result. The engine goes in chunks of {CHUNK} positions: pairs within a chunk,
    and the state before it for all that is older. Then count. Every pair costs 2 D multiplications, a score and a share of
    the values; a state costs about 2 D² for each position, however long the text.
    """)
    return CHUNK, features


@app.cell
def _(CHUNK):
    def multiplications(t, d):
        """Of one head, over t positions of width d."""
        n = min(CHUNK, t)
        return {"softmax, all pairs": 2 * t * t * d, "linear, in chunks": 2 * t * n * d + 2 * t * d * (d + 1)}

    return (multiplications,)


@app.cell(hide_code=True)
def _(multiplications):
    def crossover(d):
        """The first length at which linear attention multiplies less."""
        return next(t for t in range(1, 10**6) if (m := list(multiplications(t, d).values()))[1] < m[0])

    return (crossover,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    For short texts that is more, for long ones less. Where do the lines cross? Guess first. Then move the length, and see
    whether the clock agrees with the count.
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    _lengths = [32, 64, 128, 256, 512, 1024, 2048]
    length = mo.ui.slider(steps=_lengths, value=512, label="positions T", show_value=True, full_width=True)
    width = mo.ui.dropdown(["16", "32", "64"], value="32", label="width of a head D")
    mo.vstack([length, width])
    return length, width


@app.cell(hide_code=True)
def _(
    LinearMix,
    Plot,
    crossover,
    features,
    heads,
    in_blocks,
    length,
    mo,
    multiplications,
    no_grad,
    np,
    pictures,
    ratio,
    width,
):
    _t, _d = int(length.value), int(width.value)
    _q, _k, _v = heads(_t, d=_d)

    def _linear():
        with no_grad():
            LinearMix()(features(_q), features(_k), _v, causal=True)

    def _softmax():
        with no_grad():
            in_blocks(_q, _k, _v)

    def _draw(figure):
        axes = figure.subplots()
        ts = np.geomspace(16, 4096, 60).astype(int)
        for name, colour, dash in (("softmax, all pairs", "#D55E00", "-"), ("linear, in chunks", "#0072B2", "--")):
            axes.plot(ts, [multiplications(int(t), _d)[name] for t in ts], dash, color=colour, label=name, linewidth=2)
            axes.plot(_t, multiplications(_t, _d)[name], "o", color=colour, markersize=8)
        axes.axvline(crossover(_d), color="grey", linewidth=0.8)
        axes.set(xscale="log", yscale="log", xlabel="positions", ylabel="multiplications, one head")
        axes.legend(frameon=False, fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)

    _m = multiplications(_t, _d)
    mo.vstack([
        pictures(Plot((4.4, 3.4), _draw)),
        mo.md(f"""
        At T = {_t}, D = {_d}: softmax multiplies **{_m["softmax, all pairs"] / _m["linear, in chunks"]:.2f}** times as much.
        It took **{ratio(_softmax, _linear, 3):.2f}** times as long, here and now. The lines cross at T = {crossover(_d)}.
        """),
    ])
    return


@app.cell(hide_code=True)
def _(crossover, mo):
    mo.md(f"""
    By count the lines cross at T = {crossover(32)} for heads of width 32, at T = {crossover(64)} for width 64. By the clock
    they cross elsewhere: the engine's softmax attention is one fused op that leaves out the masked half, and linear attention
    is composed of a dozen ops. What is counted says how things grow, and not where they begin.

    ## What it costs

    All that a head remembers has to fit into one D × D matrix. A text of any length is added into it, and what was added
    cannot be taken out again one by one. The task of lesson 17 asks for precisely that: texts are a random word, repeated, and
    from its second round on the next letter can be looked up. One small decoder, trained twice, with the same numbers at the
    start and the same 300 batches. Only the mixing rule differs.
    """)
    return


@app.cell(hide_code=True)
def _(Decoder, DecoderConfig, np):
    from tinygrad_tf.tasks import fit

    def _repeats(size, generator):
        """ids and targets (size, 24): each row one random word of 5 to 10 of 16 letters, over and over."""
        words = [generator.permutation(16)[: generator.integers(5, 11)] for _ in range(size)]
        rows = np.stack([np.resize(word, 25) for word in words])
        return rows[:, :-1], rows[:, 1:]

    def trained(kind):
        """A decoder that mixes by "softmax" or "linear" attention, after 300 steps on repeated words."""
        config = DecoderConfig(16, 24, n_layer=2, n_head=2, n_embd=32, n_hidden=64, norm="rms", tied=False, attention=kind)
        pupil = Decoder(config, np.random.default_rng(0))
        fit(pupil, lambda generator: _repeats(24, generator), 300, np.random.default_rng(1))
        return pupil.eval()

    def share_right(pupil):
        """How many letters it says right on fresh texts, from the second round of the word on."""
        texts, targets = _repeats(128, np.random.default_rng(5))
        known = np.array([[i >= len(set(row)) for i in range(24)] for row in texts])
        return float((pupil(texts).array.argmax(-1) == targets)[known].mean())

    return share_right, trained


@app.cell
def _(share_right, trained):
    recall = {kind: share_right(trained(kind)) for kind in ("softmax", "linear")}
    return (recall,)


@app.cell(hide_code=True)
def _(mo, np, ratio, recall):
    from tinygrad_tf import threads

    _gemm = np.random.default_rng(5).standard_normal((2, 900, 900)).astype(np.float32)

    def _free():
        _gemm[0] @ _gemm[1]

    def _one():
        with threads.threads_for(1):
            _gemm[0] @ _gemm[1]

    _sizes = {"width 64, 8 × 64 tokens": (8 * 64, 64, 256), "width 128, 12 × 64": (12 * 64, 128, 512),
              "width 384, 8 × 256": (8 * 256, 384, 1536)}  # fmt: skip
    _work = {name: 2 * m * k * n for name, (m, k, n) in _sizes.items()}

    def _mode(operations):
        return "processes, on Linux" if operations < threads.LARGE else "threads"

    _rows = "\n    ".join(f"| {name} | {count / 1e6:,.0f} million | {_mode(count)} |" for name, count in _work.items())
    mo.md(f"""
    Softmax attention gets {recall["softmax"]:.0%} of the letters right from the second round on, linear attention
    {recall["linear"]:.0%}. It is not a faster version of the same thing. It is another thing, which grows more slowly. A
    benchmark that shows the time alone compares two answers of which one is worse.

    ## Threads and processes

    A matrix product can be shared out among the cores; NumPy's library does so by itself. The threads then wait for each
    other after every product, and everything between two products is done by one of them. `tinygrad-tf train` shares out the
    sequences of a batch instead: each thread takes some of them through all layers and back, and the threads meet once, when
    their gradients are added. What they still share is Python, which one thread runs at a time, and in a small model that is
    most of the work. Processes share nothing unless they are told to. So where the work is small the trainer makes a copy of
    itself (on Linux, where that takes some milliseconds), with the parameters in memory that both see. Each has Python to
    itself; each needs memory for what it keeps until backward, and for its Python. The largest product of a step decides:

    | model | operations in its largest product | its sequences are shared by |
    | :-- | --: | :-- |
    {_rows}

    A product of 900 × 900 took **{ratio(_one, _free, 9):.1f}** times as long on one thread as on those that NumPy may use
    here, just now. That is 1.0 on a machine with one core, or where `OMP_NUM_THREADS=1` is set; on a busy machine two threads
    may well be the slower.

    ## Broken on purpose

    The online softmax has one line that is easy to leave out: shrink what was summed so far, when a larger score comes. And
    the formula from the book, `whole_read`, leaves out something too: it never subtracts the largest score. Both are wrong.
    One of them can be found by looking at what comes out.
    """)
    return


@app.cell
def _(np, online_read, q_one, whole_read):
    not_shrunk = online_read(q_one, rescale=False)
    with np.errstate(all="ignore"):
        large, large_by_the_book = online_read(3000 * q_one), whole_read(3000 * q_one)
    np.stack([online_read(q_one), not_shrunk, large, large_by_the_book])
    return large, large_by_the_book, not_shrunk


@app.cell(hide_code=True)
def _(large, large_by_the_book, mo, not_shrunk, online):
    mo.md(f"""
    Not shrunk, the read is off by {abs(not_shrunk - online).max():.2f}, and looks like any other vector: it is still a mean of
    the values, with the wrong shares. Nothing but a comparison with the plain formula finds it; that is what the twins and
    their tests are for. Not subtracted, all is well until the scores are large. Then exp() is infinite and the read
    {large_by_the_book[0]}, where the running form still gives {f"{large[0]:.3f}".replace("-", "−")}.
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(20, again)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **To carry on with:** count operations, arrays and multiplications before timing anything; the same sum in another order
    can need far less room, and a different sum far less work. Ask each time which of the two it is.
    """)
    return


@app.cell(hide_code=True)
def _(
    apart,
    arrays,
    by_pairs,
    by_state,
    causal_pairs,
    causal_states,
    crossover,
    fused_kept,
    fused_ops,
    multiplications,
    np,
    online,
    peak_blocks,
    peak_full,
    recall,
    show,
    twin_kept,
    twin_ops,
):
    numbers = {
        "arrays held by a norm, line by line and in place": list(arrays.values()),
        "ops of a loss, fused": fused_ops,
        "ops of a loss, on the composed twins": twin_ops,
        "the twins keep more for backward": twin_kept > fused_kept,
        "S36 online softmax": online,
        "S36 in blocks and in full agree, forward and backward": apart < 1e-4,
        "S36 in blocks, twice the length takes less than 2.2 times the memory": bool(
            (peak_blocks[1:] < 2.2 * peak_blocks[:-1]).all()
        ),
        "S36 in full, more than 3.6 times": bool((peak_full[1:] > 3.6 * peak_full[:-1]).all()),
        "S36 in blocks, less at any time than half of one T × T matrix of 2,048": bool(peak_blocks[-1] < 4 * 2048**2 / 2),
        "S35 by pairs and by state agree": bool(np.allclose(by_pairs, by_state)),
        "S35 causal too": bool(np.allclose(causal_pairs, causal_states)),
        "S35 multiplications at 2,048 positions, D = 32, softmax over linear": (
            multiplications(2048, 32)["softmax, all pairs"] / multiplications(2048, 32)["linear, in chunks"]
        ),
        "S35 multiplications for twice the length, linear": (
            multiplications(4096, 32)["linear, in chunks"] / multiplications(2048, 32)["linear, in chunks"]
        ),
        "S35 cheaper by count from T =": crossover(32),
        "S35 right from the second round on, softmax": recall["softmax"],
        "S35 right from the second round on, linear": recall["linear"],
        "S35 linear attention finds fewer": recall["linear"] < recall["softmax"],
    }
    show(numbers)
    return


@app.cell(hide_code=True)
def _(links):
    links(20)
    return


if __name__ == "__main__":
    app.run()
