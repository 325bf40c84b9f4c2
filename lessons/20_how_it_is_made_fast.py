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

    from lessons.page import check_button, exercises, links, show

    return check_button, exercises, links, mo, show


@app.cell
def _():
    import time
    import tracemalloc

    import numpy as np

    import viz
    from tinygrad_tf import Tensor, composed, no_grad, threads
    from tinygrad_tf.attention import BLOCK
    from tinygrad_tf.engine import history
    from tinygrad_tf.fused import attention
    from tinygrad_tf.models import Decoder, DecoderConfig
    from tinygrad_tf.nn import functional as F
    from tinygrad_tf.nn.linear_attention import CHUNK, LinearMix, features
    from tinygrad_tf.tasks import fit
    from viz.reading import Plot

    return (
        BLOCK,
        CHUNK,
        Decoder,
        DecoderConfig,
        F,
        LinearMix,
        Plot,
        Tensor,
        attention,
        composed,
        features,
        fit,
        history,
        no_grad,
        np,
        threads,
        time,
        tracemalloc,
        viz,
    )


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
def _(np, tracemalloc):
    def peak(function):
        """The most bytes that were held at one time beyond those at the start, while function() ran."""
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        result = function()
        most = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
        del result
        return most

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
    arrays = {function.__name__: round(peak(function) / x.nbytes) for function in (line_by_line, in_place)}
    arrays
    return arrays, peak


@app.cell(hide_code=True)
def _(arrays, mo):
    mo.md(f"""
    {arrays["line_by_line"]} arrays of the size of x against {arrays["in_place"]}, and the same bits. But a network needs
    backward, and an array that backward will want must not be overwritten. That is why an engine cannot do this on its own:
    someone has to know which of the arrays the gradient needs.

    ## One op in place of many

    A **fused op** is that knowledge, written down once: one call, its own rule for backward, and inside it whatever work in
    place is safe. In this engine each has a **composed twin**, the same thing in small ops, which says what it means; a test
    compares them. `with composed():` runs a whole model on the twins.
    """)
    return


@app.cell
def _(Decoder, DecoderConfig, composed, history, np):
    config = DecoderConfig(65, block_size=64, n_layer=2, n_head=4, n_embd=64, norm="rms", ffn="gelu_tanh")
    model = Decoder(config, np.random.default_rng(0))
    ids = np.random.default_rng(1).integers(0, 65, (4, 65))

    def a_step():
        for p in model.parameters():
            p.grad = None
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        loss.backward()
        return loss

    def nodes_and_kept():
        """How many ops one loss is made of, and the bytes that they keep for backward, each array once."""
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        nodes = history(loss.node)
        kept = {id(array): array.nbytes for node in nodes for array in node.kept()}
        return len(nodes), sum(kept.values()), loss.item()

    fused_nodes, fused_kept, fused_loss = nodes_and_kept()
    with composed():
        twin_nodes, twin_kept, twin_loss = nodes_and_kept()
    assert np.isclose(fused_loss, twin_loss, rtol=1e-5)
    (fused_nodes, twin_nodes), (fused_kept, twin_kept)
    return a_step, fused_kept, fused_loss, fused_nodes, twin_kept, twin_nodes


@app.cell
def _(a_step, composed, np, time):
    def ratio(slow, quick, turns=7):
        """How many times as long `slow` takes: the quickest of some turns each, the two in alternation."""
        best = [np.inf, np.inf]
        for _ in range(turns):
            for i, call in enumerate((slow, quick)):
                start = time.perf_counter()
                call()
                best[i] = min(best[i], time.perf_counter() - start)
        return best[0] / best[1]

    def on_twins():
        with composed():
            a_step()

    twin_time = ratio(on_twins, a_step)
    return ratio, twin_time


@app.cell(hide_code=True)
def _(
    fused_kept,
    fused_loss,
    fused_nodes,
    mo,
    twin_kept,
    twin_nodes,
    twin_time,
):
    mo.md(f"""
    The same loss, {fused_loss:.4f}: {fused_nodes} ops instead of {twin_nodes}, and {fused_kept / 2**20:.1f} MiB kept for
    backward instead of {twin_kept / 2**20:.1f}. A training step on the twins took **{twin_time:.1f} times** as long, here and
    now. One of these ops, opened:
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
    difference. This is the **online softmax**.
    """)
    return


@app.cell
def _(np):
    rng = np.random.default_rng(3)
    q_one, keys, values = rng.standard_normal(8), rng.standard_normal((10, 8)), rng.standard_normal((10, 3))

    top, total, read = -np.inf, 0.0, np.zeros(3)
    for i in range(0, 10, 4):  # blocks of four keys, the last one of two
        scores = keys[i : i + 4] @ q_one / np.sqrt(8)
        new_top = max(top, scores.max())
        shrink = np.exp(top - new_top)
        shares = np.exp(scores - new_top)
        total = total * shrink + shares.sum()
        read = read * shrink + shares @ values[i : i + 4]
        top = new_top
    online = read / total

    whole = np.exp(keys @ q_one / np.sqrt(8))
    assert np.allclose(online, whole / whole.sum() @ values)
    online
    return keys, online, q_one, values


@app.cell(hide_code=True)
def _(BLOCK, mo):
    mo.md(f"""
    Blocks of queries are even simpler: a query's weights depend on no other query. The engine takes {BLOCK} queries at a time
    with the keys that they may see, so the weights in hand are complete and the softmax is the ordinary one. For backward it
    keeps one number per query, the logarithm of the sum, and makes the weights again. FlashAttention (Dao et al. 2022) cuts
    both ways, and so stays within the fast memory of a graphics processor.
    """)
    return


@app.cell
def _(Tensor, attention, np):
    def heads(t, seed=0, d=32):
        """Queries, keys and values (1, 1, T, D)."""
        rng = np.random.default_rng(seed)
        return [Tensor(rng.standard_normal((1, 1, t, d)).astype(np.float32), requires_grad=True) for _ in range(3)]

    def in_blocks(q, k, v):
        return attention(q, k, v, causal=0)

    def plain(q, k, v):
        t = q.shape[2]
        may = np.tri(t, dtype=bool)
        weights = ((q @ k.transpose(-1, -2)) * (1 / np.sqrt(q.shape[-1]))).masked_fill(~may, -np.inf).softmax(-1)
        return weights @ v

    def both_ways(function, qkv):
        """The output, and the gradients of queries, keys and values."""
        out = function(*qkv)
        for each in qkv:
            each.grad = None
        out.backward(np.ones(out.shape, np.float32))
        return [out.array, *(each.grad.array for each in qkv)]

    _qkv = heads(700)
    differences = [float(abs(a - b).max()) for a, b in zip(both_ways(in_blocks, _qkv), both_ways(plain, _qkv))]
    assert max(differences) < 1e-4
    differences
    return both_ways, differences, heads, in_blocks, plain


@app.cell
def _(both_ways, heads, in_blocks, np, peak, plain):
    LENGTHS = (512, 1024, 2048)

    def peaks(function):
        """Bytes at most, forward and backward, at each length."""
        found = []
        for t in LENGTHS:
            qkv = heads(t)
            found.append(peak(lambda qkv=qkv: both_ways(function, qkv)))
        return np.array(found)

    peak_blocks, peak_plain = peaks(in_blocks), peaks(plain)
    peak_blocks / 2**20, peak_plain / 2**20
    return LENGTHS, peak_blocks, peak_plain


@app.cell(hide_code=True)
def _(LENGTHS, differences, mo, peak_blocks, peak_plain):
    _rows = "\n    ".join(f"| {t:,} | {a:.1f} | {b:.1f} |" for t, a, b in zip(LENGTHS, peak_blocks / 2**20, peak_plain / 2**20))
    mo.md(f"""
    Output and all three gradients agree to {max(differences):.0e}. The most memory held at one time, in MiB, for one head,
    forward and backward:

    | positions | in blocks | the whole matrix |
    | --: | --: | --: |
    {_rows}

    When the length doubles, blocks take {peak_blocks[-1] / peak_blocks[-2]:.1f} times the memory, the full matrix
    {peak_plain[-1] / peak_plain[-2]:.1f} times. The number of multiplications is what it was, but for the masked half, which
    blocks need not touch: the square is gone from memory, not from time.

    ## Attention without the square, in time

    Softmax weighs a key by exp(q · k), and that has to be computed for every pair. Suppose the weight were a plain product,
    φ(q) · φ(k), of some vectors φ that are never negative. Then the brackets can be moved: (φ(Q) φ(K)ᵀ) V = φ(Q) (φ(K)ᵀ V).
    On the left stands a T × T matrix, on the right one of D × D, however long the text. This is **linear attention**
    (Katharopoulos et al. 2020).
    """)
    return


@app.cell
def _(LinearMix, Tensor, np):
    _rng = np.random.default_rng(4)
    pq, pk = np.exp(_rng.standard_normal((2, 6, 3)))  # (T, D), nothing negative
    pv = _rng.standard_normal((6, 4))

    square = pq @ pk.T  # (T, T)
    by_pairs = (square / square.sum(axis=1, keepdims=True)) @ pv

    state, norm = pk.T @ pv, pk.sum(axis=0)  # (D, E), (D,): all that a query needs of the text
    by_state = (pq @ state) / (pq @ norm)[:, None]
    assert np.allclose(by_pairs, by_state)

    hidden = np.tril(square)  # causal: pairs with the future left out ...
    causal_pairs = (hidden / hidden.sum(axis=1, keepdims=True)) @ pv
    states = np.cumsum(pk[:, :, None] * pv[:, None, :], axis=0)  # ... and the state as it was when each position came
    norms = np.cumsum(pk, axis=0)
    causal_states = np.einsum("td,tde->te", pq, states) / np.einsum("td,td->t", pq, norms)[:, None]
    assert np.allclose(causal_pairs, causal_states)

    _mix = LinearMix()(*(Tensor(a[None, None]) for a in (pq, pk, pv)), causal=True)
    assert np.allclose(_mix.array[0, 0], causal_pairs)
    state.shape, states.shape
    return by_pairs, by_state, causal_pairs, causal_states


@app.cell(hide_code=True)
def _(mo):
    _lengths = [32, 64, 128, 256, 512, 1024, 2048]
    length = mo.ui.slider(steps=_lengths, value=512, label="positions T", show_value=True, full_width=True)
    width = mo.ui.dropdown(["16", "32", "64"], value="32", label="width of a head D")
    mo.vstack([length, width])
    return length, width


@app.cell
def _(CHUNK):
    def multiplications(t, d):
        """Of one causal head: softmax, every pair; linear in chunks, pairs within a chunk and the state before it."""
        n = min(CHUNK, t)
        return {"softmax, all pairs": 2 * t * t * d, "linear, in chunks": 2 * t * n * d + 2 * t * d * (d + 1)}

    def crossover(d):
        """The first length at which linear attention multiplies less."""
        return next(t for t in range(1, 10**6) if (m := list(multiplications(t, d).values()))[1] < m[0])

    return crossover, multiplications


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
    ratio,
    width,
):
    def picture(size, draw):
        """A plot on white paper, no wider than the page."""
        svg = Plot(size, draw).render().decode()
        svg = svg[svg.index("<svg") :].replace("<svg", "<svg style='max-width:100%;height:auto'", 1)
        style = "display:inline-block;max-width:100%;overflow-x:auto;background:white;border-radius:6px"
        return mo.Html(f"<div style='{style}'>{svg}</div>")

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
            axes.plot(_t, multiplications(_t, _d)[name], "o", color=colour)
        axes.axvline(crossover(_d), color="grey", linewidth=0.8)
        axes.set(xscale="log", yscale="log", xlabel="positions", ylabel="multiplications, one head")
        axes.legend(frameon=False, fontsize=9)
        axes.spines[["top", "right"]].set_visible(False)

    _m = multiplications(_t, _d)
    mo.vstack([
        picture((6.5, 3.4), _draw),
        mo.md(f"""
        At T = {_t}, D = {_d}: softmax multiplies **{_m["softmax, all pairs"] / _m["linear, in chunks"]:.2f}** times as much.
        It took **{ratio(_softmax, _linear, 5):.2f}** times as long, here and now.
        """),
    ])
    return


@app.cell(hide_code=True)
def _(crossover, mo):
    mo.md(f"""
    By count the lines cross at T = {crossover(32)} for heads of width 32. By the clock they cross elsewhere: the engine's
    softmax attention is one fused op that leaves out the masked half, and linear attention is composed of a dozen ops. What
    is counted says how things grow, and not where they begin.

    ## What it costs

    All that a head remembers has to fit into one D × D matrix. A text of any length is added into it, and what was added
    cannot be taken out again one by one. The task of lesson 17 asks for precisely that: find one letter among many. Same
    model, same steps, another mixing rule.
    """)
    return


@app.cell
def _(Decoder, DecoderConfig, fit, np):
    def repeats(size, generator):
        """ids and targets (size, 24): each row one random word of 5 to 10 of 16 letters, over and over."""
        words = [generator.permutation(16)[: generator.integers(5, 11)] for _ in range(size)]
        rows = np.stack([np.resize(word, 25) for word in words])
        return rows[:, :-1], rows[:, 1:]

    def trained(kind, steps=300):
        config = DecoderConfig(16, 24, n_layer=2, n_head=2, n_embd=32, n_hidden=64, norm="rms", tied=False, attention=kind)
        model = Decoder(config, np.random.default_rng(0))
        fit(model, lambda generator: repeats(24, generator), steps, np.random.default_rng(1))
        ids, targets = repeats(128, np.random.default_rng(5))
        known = np.array([[i >= len(set(row)) for i in range(24)] for row in ids])  # from the second round on
        return float((model.eval()(ids).array.argmax(-1) == targets)[known].mean())

    recall = {kind: trained(kind) for kind in ("softmax", "linear")}
    recall
    return (recall,)


@app.cell(hide_code=True)
def _(mo, np, ratio, recall, threads):
    _gemm = np.random.default_rng(5).standard_normal((2, 900, 900)).astype(np.float32)

    def _free():
        _gemm[0] @ _gemm[1]

    def _one():
        with threads.threads_for(1):
            _gemm[0] @ _gemm[1]

    sizes = {"width 64, 8 × 64 tokens": (8 * 64, 64, 256), "width 128, 12 × 64": (12 * 64, 128, 512),
             "width 384, 8 × 256": (8 * 256, 384, 1536)}  # fmt: skip
    work = {name: 2 * m * k * n for name, (m, k, n) in sizes.items()}

    def mode(operations):
        if operations >= threads.LARGE:
            return "everything in parts, one part a thread"
        return "the matrix products, as NumPy does it" if operations >= threads.SMALL else "one"

    _rows = "\n    ".join(f"| {name} | {count / 1e6:,.0f} million | {mode(count)} |" for name, count in work.items())
    mo.md(f"""
    Softmax attention gets {recall["softmax"]:.0%} of the letters right from the second round on, linear attention
    {recall["linear"]:.0%}. It is not a faster version of the same thing. It is another thing, which grows more slowly.

    ## Threads

    A matrix product can be shared out among the cores; NumPy's library does so by itself. The threads then wait for each
    other after every product. For a small one the wait is most of the time. So the engine decides by the largest product of a
    step:

    | model | operations in its largest product | threads |
    | --- | --: | --- |
    {_rows}

    A product of 900 × 900 took **{ratio(_one, _free, 9):.1f}** times as long on one thread as on those that NumPy may use
    here, just now.

    That is 1.0 on a machine with one core, or where `OMP_NUM_THREADS=1` is set; on a busy machine two threads may well be the
    slower.
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Broken on purpose

    The online softmax has one line that is easy to leave out: shrink what was summed so far, when a larger score comes.
    Without it, and without subtracting the largest at all:
    """)
    return


@app.cell
def _(keys, np, q_one, values):
    def online_read(q, k, v, block, rescale=True, subtract=True):
        top, total, read = -np.inf, 0.0, np.zeros(v.shape[1])
        for i in range(0, len(k), block):
            scores = k[i : i + block] @ q
            new_top = max(top, scores.max()) if subtract else 0.0
            shrink = np.exp(top - new_top) if rescale and subtract else 1.0
            shares = np.exp(scores - new_top)
            total, read, top = total * shrink + shares.sum(), read * shrink + shares @ v[i : i + block], new_top
        return read / total

    with np.errstate(all="ignore"):
        right = online_read(q_one, keys, values, 4)
        not_shrunk = float(abs(online_read(q_one, keys, values, 4, rescale=False) - right).max())
        large = online_read(1000 * q_one, keys, values, 4), online_read(1000 * q_one, keys, values, 4, subtract=False)
    not_shrunk, large
    return large, not_shrunk


@app.cell(hide_code=True)
def _(large, mo, not_shrunk):
    mo.md(f"""
    Not shrunk, the read is off by {not_shrunk:.2f}, and looks like any other vector. Not subtracted, it is right until the
    scores are large: then exp() is infinite and the read {large[1][0]}, where the running form still gives {large[0][0]:.3f}.
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    again
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(20, again)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **To carry on with:** count operations, arrays and multiplications before timing anything; the same sum in another order
    can need far less room, and a different sum far less work.
    """)
    return


@app.cell(hide_code=True)
def _(
    arrays,
    by_pairs,
    by_state,
    causal_pairs,
    causal_states,
    crossover,
    differences,
    fused_kept,
    fused_nodes,
    multiplications,
    np,
    online,
    peak_blocks,
    peak_plain,
    recall,
    show,
    twin_kept,
    twin_nodes,
):
    numbers = {
        "arrays held by a norm, line by line and in place": list(arrays.values()),
        "ops of a loss, fused": fused_nodes,
        "ops of a loss, on the composed twins": twin_nodes,
        "the twins keep more for backward": twin_kept > fused_kept,
        "S36 online softmax": online,
        "S36 in blocks and in full agree, forward and backward": max(differences) < 1e-4,
        "S36 in blocks, twice the length takes less than 2.2 times the memory": bool(
            (peak_blocks[1:] < 2.2 * peak_blocks[:-1]).all()
        ),
        "S36 in full, more than 3.6 times": bool((peak_plain[1:] > 3.6 * peak_plain[:-1]).all()),
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
