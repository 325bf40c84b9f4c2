"""A whole block by hand

What exactly happens to three words on their way through one transformer block?

Systems: S24, S25
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="12 · A whole block by hand")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from lessons.page import check_button, exercises, links, show

    return check_button, exercises, links, mo, show


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # A whole block by hand

    *The cat sat.* Three words go into a transformer block and three rows of the same width come out. In between lie seven
    steps, each a line or four of NumPy. Do them once with numbers small enough to check on paper. A model with 96 blocks of
    width 12,288 goes through the same steps, with more numbers in each.

    To keep it on a page the width is 2, there is one head, and queries, keys, values and output projection are all the
    identity: each vector is its own query, key and value. The norm is RMSNorm without gain and with ε = 0. Every word may
    read all three.

    **Step 1: embedding plus position.** Each word's row of the token table, plus the row of its position.
    """)
    return


@app.cell
def _():
    import numpy as np

    import viz
    from tinygrad_tf import Tensor, nn
    from tinygrad_tf.nn.transformer import block_of_gpt2
    from viz.figures import block_by_hand, block_explorer, controls, walk

    return (
        Tensor,
        block_by_hand,
        block_explorer,
        block_of_gpt2,
        controls,
        nn,
        np,
        viz,
        walk,
    )


@app.cell
def _(np):
    tokens = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # the, cat, sat
    positions = np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5]])
    x = tokens + positions
    x
    return (x,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    This is the residual stream on its way in: a row for each word. From here on, whatever a branch computes is *added* to
    it.

    **Step 2: normalise.** What attention reads is each row divided by its root mean square. The stream itself stays as it is.
    """)
    return


@app.cell
def _(np, x):
    def rms(rows):
        return np.sqrt((rows**2).mean(axis=-1, keepdims=True))

    a = x / rms(x)
    a.round(4)
    return a, rms


@app.cell(hide_code=True)
def _(mo, x):
    mo.md(f"""
    Row “the” was ({x[0, 0]:g}, {x[0, 1]:g}). It has the mean square ½, so it grows by √2. All three rows have the same size
    now, and scores will depend on their directions alone.

    **Step 3: attention.** Scores are products of queries and keys, over √2. A softmax turns each row of scores into weights
    that add to 1. The weights mix the values.
    """)
    return


@app.cell
def _(a, np):
    scores = a @ a.T / np.sqrt(2)
    exps = np.exp(scores)
    weights = exps / exps.sum(axis=-1, keepdims=True)
    read = weights @ a
    weights.round(3), read.round(3)
    return exps, read, scores, weights


@app.cell(hide_code=True)
def _(exps, mo, read, scores, weights):
    _e = ", ".join(f"{v:.3f}" for v in exps[0])
    _w = ", ".join(f"{v:.3f}" for v in weights[0])
    mo.md(f"""
    Follow “the”. Its scores are {scores[0, 0]:.4f} for itself, {scores[0, 1]:.4f} for “cat”, {scores[0, 2]:.4f} for “sat”;
    their exponentials {_e} add to {exps[0].sum():.3f}; so it gives half of its attention to itself and the rest to the
    others: {_w}. What it reads is ({read[0, 0]:.3f}, {read[0, 1]:.3f}).

    **Step 4: the first sum.** The read is added to the stream. Not to the normalised rows: to x.
    """)
    return


@app.cell
def _(read, x):
    h = x + read
    h.round(3)
    return (h,)


@app.cell(hide_code=True)
def _(h, mo):
    mo.md(f"""
    “the” came with nothing in its second coordinate and now holds {h[0, 1]:.3f} there, borrowed from “cat” and “sat”.
    Attention is the only one of the seven steps in which anything goes from one word to another.

    **Step 5: normalise again**, because the feed-forward network wants rows of one size too. **Step 6: feed-forward**: widen
    to four hidden units, ReLU, narrow. Each word goes through it on its own.
    """)
    return


@app.cell
def _(h, np, rms):
    w1 = np.array([[1.0, -1, 0, 1], [0, 1, -1, 1]])
    w2 = np.array([[0.5, 0], [0, 0.5], [-0.5, 0], [0, -0.5]])
    b = h / rms(h)
    sums = b @ w1
    update = np.maximum(sums, 0) @ w2
    sums.round(3), update.round(3)
    return b, sums, update, w1, w2


@app.cell(hide_code=True)
def _(mo, sums, update):
    _s = ", ".join(f"{v:.3f}" for v in sums[0]).replace("-", "−")
    mo.md(f"""
    For “the” the four sums are {_s}. The two in the middle are below 0 and count for nothing. Unit 1 writes half its value to
    the first coordinate, unit 4 takes half its value from the second: the update is ({update[0, 0]:.3f},
    −{-update[0, 1]:.3f}).

    **Step 7: the second sum.** The update is added to h, which already holds what attention brought.
    """)
    return


@app.cell
def _(h, update):
    y = h + update
    y.round(3)
    return (y,)


@app.cell(hide_code=True)
def _(h, mo, x, y):
    _t = lambda row: f"({row[0]:.3f}, {row[1]:.3f})".replace("-", "−")
    mo.md(f"""
    “the” went from {_t(x[0])} to {_t(h[0])} to {_t(y[0])}. Three rows of width 2 in, three out: the next block can begin.

    ## The same by the engine

    A block is a list of residual sublayers. Here it is with the weights from above, and it must agree to the last digit or
    two. (A `Linear` keeps its weight as (out, in), so w1 and w2 go in transposed.)
    """)
    return


@app.cell
def _(Tensor, nn, np, w1, w2, x, y):
    attn = nn.MultiHeadAttention(2, 1, bias=False).double()
    for projection in (attn.q_proj, attn.k_proj, attn.v_proj, attn.out_proj):
        projection.weight.data = np.eye(2)
    ffn = nn.FeedForward(2, 4, "relu", bias=False).double()
    ffn.up.weight.data, ffn.down.weight.data = w1.T.copy(), w2.T.copy()
    plain_norm = lambda: nn.RMSNorm(2, eps=0.0, elementwise_affine=False)

    block = nn.Block(nn.pre_norm(plain_norm, attn=attn), nn.pre_norm(plain_norm, ffn=ffn))
    stream = Tensor(x).unsqueeze(0)  # (1, 3, 2): a batch of one text
    assert np.allclose(block(stream).array[0], y, atol=1e-14)
    return block, stream


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Every number of the block, in one figure. Click a number, or walk with the arrow keys: the arithmetic stands at the top,
    and the numbers that it was made from light up in blue. Then switch the causal mask on: each word reads itself and
    what stands before it, as in a model that writes.
    """)
    return


@app.cell(hide_code=True)
def _(block_by_hand, controls):
    settings = controls(block_by_hand)
    settings
    return (settings,)


@app.cell(hide_code=True)
def _(block_by_hand, settings, walk):
    walk(block_by_hand, **settings.value)
    return


@app.cell(hide_code=True)
def _(block, mo, np, stream, y):
    masked_h = (stream + block.attn(block.attn_norm(stream), causal=True)).array[0]
    masked = block(stream, causal=True).array[0]
    _t = lambda row: f"({row[0]:.3f}, {row[1]:.3f})".replace("-", "−")
    assert np.allclose(masked[2], y[2])
    mo.md(f"""
    With the mask, “the” sees itself alone: all of its weight, so it reads its own normalised row, holds {_t(masked_h[0])}
    after the first sum and leaves as {_t(masked[0])}. “cat” leaves as {_t(masked[1])}. “sat” is the same in both,
    {_t(masked[2])}: as the last word it saw everything anyway.

    The graph of the block says which way the numbers went. The orange line from x to y passes through two sums and nothing
    else.
    """)
    return masked, masked_h


@app.cell
def _(block, stream, viz):
    viz.draw(block, inputs=stream, view="modules", title="The block, by its modules")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Broken on purpose: the mask after the softmax

    Setting the forbidden weights to zero *after* the softmax looks like the same thing. It is not. The forbidden words have
    already taken their share.
    """)
    return


@app.cell
def _(np, scores, weights):
    allowed = np.tri(3, dtype=bool)
    before = np.where(allowed, scores, -np.inf)  # right: the softmax never sees what is forbidden
    before = np.exp(before) / np.exp(before).sum(axis=-1, keepdims=True)
    after = np.where(allowed, weights, 0)  # wrong
    sums_of_rows = np.stack([before.sum(axis=-1), after.sum(axis=-1)])
    sums_of_rows.round(3)
    return (sums_of_rows,)


@app.cell(hide_code=True)
def _(mo, np, sums_of_rows):
    _other = np.array([[1.0, 0.0], [0.5, 1.0], [2.0, 0.0]])  # another third word
    _other = _other / np.sqrt((_other**2).mean(axis=-1, keepdims=True))
    _exps = np.exp(_other[0] @ _other.T / np.sqrt(2))
    mo.md(f"""
    The rows of weights no longer add to 1: “the” keeps {sums_of_rows[1, 0]:.3f} of its attention, and reads a vector that is
    too small. Worse, how *much* is missing depends on the words that it must not see. With (2, 0) in place of “sat” it would
    keep {_exps[0] / _exps.sum():.3f}: the future leaks through after all. Minus infinity before the softmax; never zero
    behind it.

    ## The same steps at full size

    GPT-2's smallest block has width 768, 12 heads of 64, and a feed-forward width of 3,072. Nothing is new but the sizes. The
    engine runs the block, and every part reports the shape that came in and the shape that went out; n is the number of
    tokens, here 5.
    """)
    return


@app.cell
def _(Tensor, block_of_gpt2, np):
    wide, shapes = block_of_gpt2(768, 12), {}
    five_tokens = Tensor(np.zeros((1, 5, 768), np.float32))

    def note(name):
        return lambda part, args, out: shapes.update({name: (args[0].shape, out.shape)})

    for name, part in wide.named_modules():
        part.register_forward_hook(note(name))
    wide(five_tokens)
    q = wide.attn.q_proj(five_tokens).view(1, 5, 12, 64).transpose(1, 2)  # split into heads
    inner = {"by head": q.shape, "scores": (q @ q.transpose(-2, -1)).shape}
    return inner, shapes


@app.cell(hide_code=True)
def _(inner, mo, shapes):
    _s = lambda shape: " × ".join(map(str, shape[1:]))
    _rows = ["| part | in | out |", "| :-- | :-- | :-- |"]
    for _name, (_in, _out) in shapes.items():
        if _name.endswith("dropout"):  # switched off here
            continue
        _rows.append(f"| {_name or 'the whole block'} | {_s(_in)} | {_s(_out)} |")
        if _name == "attn.v_proj":
            _rows.append(f"| queries, keys, values, by head | {_s(_in)} | {_s(inner['by head'])} |")
            _rows.append(f"| scores and weights | | {_s(inner['scores'])} |")
    mo.md("\n".join(_rows))
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Two shapes differ from the stream's: the scores, n × n for each head, and the wide middle of the feed-forward network.
    Both stay inside their branch. What is added to the stream has the stream's shape, always. Click a stage:
    """)
    return


@app.cell(hide_code=True)
def _(block_explorer, controls):
    explorer_settings = controls(block_explorer)
    explorer_settings
    return (explorer_settings,)


@app.cell(hide_code=True)
def _(block_explorer, explorer_settings, walk):
    walk(block_explorer, **explorer_settings.value)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(12, again)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **To carry on with:** y = h + feed-forward(norm(h)), where h = x + attention(norm(x)). Same shape in, same shape out. The
    next lessons stack this block, arrange the stacks in three ways, and count where the weights are.
    """)
    return


@app.cell(hide_code=True)
def _(
    a,
    b,
    exps,
    h,
    inner,
    masked,
    masked_h,
    read,
    rms,
    scores,
    shapes,
    show,
    sums,
    sums_of_rows,
    update,
    weights,
    x,
    y,
):
    _out = lambda name: list(shapes[name][1][1:])
    numbers = {
        "S24 x, step 1": x,
        "S24 normalised, step 2": a,
        "S24 scores, step 3": scores,
        "S24 exponentials of “the”": exps[0],
        "S24 weights": weights,
        "S24 read": read,
        "S24 h, step 4": h,
        "S24 root mean squares of h": rms(h)[:, 0],
        "S24 normalised again, step 5": b,
        "S24 hidden sums of “the”, step 6": sums[0],
        "S24 feed-forward update": update,
        "S24 y, step 7": y,
        "S24 masked: “the” after attention": masked_h[0],
        "S24 masked: “the” leaves as": masked[0],
        "S24 masked: “sat” is unchanged": bool(abs(masked[2] - y[2]).max() < 1e-14),
        "S24 sums of weights, mask before and after the softmax": sums_of_rows,
        "S25 block": [list(s[1:]) for s in shapes[""]],
        "S25 norm before attention": _out("attn_norm"),
        "S25 queries": _out("attn.q_proj"),
        "S25 queries by head": list(inner["by head"][1:]),
        "S25 scores": list(inner["scores"][1:]),
        "S25 attention": _out("attn"),
        "S25 widened": _out("ffn.up"),
        "S25 feed-forward": _out("ffn"),
    }
    show(numbers)
    return


@app.cell(hide_code=True)
def _(links):
    links(12)
    return


if __name__ == "__main__":
    app.run()
