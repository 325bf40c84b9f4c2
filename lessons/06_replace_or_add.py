"""Replace or add: the residual path

A layer has read something. Does that replace what the position held, or is it added to it?

Systems: S1, S2
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="6 · Replace or add: the residual path", width="medium")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from lessons.page import check_button, exercises, links, show

    return check_button, exercises, links, mo, show


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Replace or add: the residual path

    Position 2 brought a vector into the layer. Its head has read another one from the positions it may see. The next
    layer takes one vector. Two lines of code could hand it over, `x = read` or `x = x + read`. The shapes agree, so both
    run, and they make two very different machines.

    Take the numbers small enough to hold in the head: position 2 holds (0, 1), the values are (2, 0) and (0, 1), and the
    head gives each of them half of its weight.
    """)
    return


@app.cell
def _():
    import numpy as np

    import viz
    from tinygrad_tf import Tensor, nn
    from tinygrad_tf.nn import functional as F
    from tinygrad_tf.nn import residual

    return F, Tensor, nn, np, residual, viz


@app.cell
def _(np):
    x = np.array([0.0, 1.0])  # (d,): what position 2 holds
    values = np.array([[2.0, 0.0], [0.0, 1.0]])  # (T, d)
    weights = np.array([0.5, 0.5])

    read = weights @ values
    replaced = read
    added = x + read
    np.stack([read, replaced, added])
    return added, read, replaced, values, weights, x


@app.cell(hide_code=True)
def _(added, mo, read, replaced, x):
    mo.md(f"""
    The read is ({read[0]:g}, {read[1]:g}). Replaced, that is all that goes on: ({replaced[0]:g}, {replaced[1]:g}).
    Added, the next layer gets ({added[0]:g}, {added[1]:g}).

    Is something of position 2 not already in the read? It is, here, and by luck: its own value happens to be its input,
    and its own weight is a half. A value is made by a matrix, which may turn it into anything; and the weight shrinks as
    soon as the position attends to others. A position should be free to look elsewhere with all of its weight and still
    remember what it held. Adding gives it that.

    The sum is a **residual connection**. In the numbers above ({read[0]:g}, {read[1]:g}) is the **update**, what is added;
    whatever computes it, here the head, is the **branch**. The straight way past the branch, on which
    ({x[0]:g}, {x[1]:g}) comes to the sum untouched, is the skip path.

    In the engine the sum is an op of its own, `residual(x, update)`: an addition that remembers which of the two came
    along the skip path.
    """)
    return


@app.cell
def _(Tensor, added, np, residual, values, weights, x):
    def head(scores):
        """The read of position 2 for two scores, by the engine."""
        return Tensor(scores).softmax(dim=-1) @ Tensor(values)

    held = Tensor(x, requires_grad=True)
    update = head(np.zeros(2))  # equal scores, equal weights
    sum_of_both = residual(held, update)
    assert np.array_equal(Tensor(np.zeros(2)).softmax(dim=-1).array, weights)
    assert np.array_equal(sum_of_both.array, added)
    sum_of_both
    return (sum_of_both,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Draw both machines, with other branches: two linear layers and a ReLU between them, of random weights. On the left
    every line that leaves x goes into the branch. On the right a second line leaves it, thick and straight, and meets the
    branch again at the plus. A model is a chain of such sums, and the vector that travels along all of them is its
    **residual stream**.
    """)
    return


@app.cell
def _(Tensor, nn, np, residual, viz):
    def branch(seed):
        rng = np.random.default_rng(seed)
        layers = nn.Linear(2, 8, generator=rng), nn.ReLU(), nn.Linear(8, 2, generator=rng)
        return nn.Sequential(*layers).double()  # float64, as NumPy has it

    _x = Tensor(np.array([[0.0, 1.0]]), requires_grad=True)  # a name with _ is known in this cell alone
    left, right = branch(0), branch(1)
    both = [left(_x), residual(_x, right(_x))]
    viz.draw(both, view="modules", names={"x": _x}, title="y = f(x), and y = x + f(x)", legend=False)
    return (branch,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Set the branch to zero

    What a coordinate means in a trained model is anybody's guess. Here is a test that needs no guess: let the branch
    return nothing, and see what arrives.

    Below is position 2 again, x = (0, 1), with what its branch returns, F. Scale F from −1 over 0 to 1. Then let the branch
    return the input itself, and go to −1.
    """)
    return


@app.cell(hide_code=True)
def _():
    from viz.figures import controls, replace_or_add

    settings = controls(replace_or_add)
    settings
    return replace_or_add, settings


@app.cell(hide_code=True)
def _(replace_or_add, settings):
    replace_or_add(**settings.value)
    return


@app.cell
def _(np, x):
    nothing = np.zeros(2)
    zero_replaced = nothing
    zero_added = x + nothing
    cancelled = x + (-x)
    np.stack([zero_replaced, zero_added, cancelled])
    return cancelled, zero_added, zero_replaced


@app.cell(hide_code=True)
def _(cancelled, mo, zero_added, zero_replaced):
    mo.md(f"""
    A silent branch that replaces leaves ({zero_replaced[0]:g}, {zero_replaced[1]:g}): the input is gone for good, and
    every later layer reads zeros. A silent branch that adds leaves ({zero_added[0]:g}, {zero_added[1]:g}), the input
    itself.

    The figure shows why it cannot be otherwise. As the branch is scaled from −1 to 1, y moves from one end of the dashed
    line to the other, and at scale 0 it stands in the middle. When the branch replaces, the middle of the line is 0; when
    it adds, the same line has been carried over, and its middle is x.

    And the other end: a branch that returns −x takes everything away, ({cancelled[0]:g}, {cancelled[1]:g}). The skip
    path brings x to the sum unchanged. It is no promise that x is still there after the sum, nor that it can be told
    apart from what was added to it.

    That is also why it is called *residual*. If a layer should turn (0, 1) into something near (0, 1), a branch that
    adds has only to supply the difference, the residual. To leave x alone it has to be zero, and small weights are
    nearly that already. A branch that replaces would have to learn to be the identity first, matrix by matrix.
    """)
    return


@app.cell
def _(Tensor, branch, np):
    _x = Tensor(np.random.default_rng(0).standard_normal((1000, 2)))
    small = branch(2)
    for parameter in small.parameters():
        parameter.array[:] *= 0.1  # as a model starts: small weights
    from_plain = (small(_x) - _x).square().mean().item()  # how far "leave x alone" is missed, replacing …
    from_residual = ((_x + small(_x)) - _x).square().mean().item()  # … and adding
    np.array([from_plain, from_residual])
    return from_plain, from_residual


@app.cell(hide_code=True)
def _(from_plain, from_residual, mo):
    mo.md(f"""
    Before any training, the layer that replaces misses "leave x alone" by a mean square of {from_plain:.3f}; the one
    that adds by {from_residual:.5f}.

    ## A whole block

    A transformer block holds two branches: attention, which reads other positions, and a feed-forward network, which
    works on each position by itself. In the **pre-norm** arrangement each branch reads a normed copy of the stream, and
    what it returns is added to the stream itself:

    ```python
    x = x + attn(attn_norm(x))
    x = x + ffn(ffn_norm(x))
    ```

    The block below is 8 numbers wide. Its attention has two heads (lesson 8), its norms are those of lesson 10, and
    `nn.pre_norm` says where they stand. `viz.what_if` runs a model as it is and once more with the output of some of its
    parts set to zero; both branches are silenced here. (×3 beside an arrow: the normed copy is used three times, for
    queries, keys and values.)
    """)
    return


@app.cell
def _(Tensor, nn, np, viz):
    def block(order):
        rng = np.random.default_rng(0)
        norm = lambda: nn.RMSNorm(8)
        attn, ffn = nn.MultiHeadAttention(8, 2, generator=rng), nn.FeedForward(8, 32, generator=rng)
        return nn.Block(order(norm, attn=attn), order(norm, ffn=ffn)).double()

    pre = block(nn.pre_norm)
    tokens = Tensor(np.random.default_rng(1).standard_normal((1, 4, 8)))  # (B, T, d)
    silent = viz.what_if(pre, tokens, zero=["attn", "ffn"])
    _picture = silent.graph.replace(notes=())  # its notes, what the two runs differ in, are told below
    viz.draw(_picture, view="blocks", legend=False, title="A block, and with silent branches")
    return block, pre, silent, tokens


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    In both pictures the orange line runs from x to y through two plus signs and through nothing else. On the right, where
    the branches are silent, what comes out is what went in: not nearly, but the same bits. Make it so by hand, and compare
    with **post-norm**, the arrangement of 2017, in which the norm stands on the stream, after each sum:
    `x = norm(x + attn(x))`.
    """)
    return


@app.cell
def _(block, nn, pre, tokens):
    def silence(block):
        """Set to zero the last matrix of each branch, so that it returns exactly zero."""
        for last in (block.attn.out_proj, block.ffn.down):
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
        return block

    silence(pre)
    same_bits = pre(tokens).array.tobytes() == tokens.array.tobytes()

    post = silence(block(nn.post_norm))
    post_out = post(tokens)
    twice_normed = post.ffn_norm(post.attn_norm(tokens))
    norm_of_norm = post_out.equal(twice_normed)
    moved = abs(post_out.array - tokens.array).max()
    assert same_bits
    assert norm_of_norm
    return moved, norm_of_norm, same_bits


@app.cell(hide_code=True)
def _(mo, moved, norm_of_norm, same_bits):
    mo.md(f"""
    Pre-norm, both branches zero: the output is the input, bit for bit: **{'yes' if same_bits else 'no'}**. Post-norm:
    the output is Norm(Norm(x)): **{'yes' if norm_of_norm else 'no'}**; some coordinate has moved by {moved:.3f}. In a
    deep post-norm model the stream goes through two norms in every block, whatever the branches do.

    ## Broken on purpose

    Two slips that raise no error. Forget the first `x +`. Or norm the stream and go on with the normed one.
    """)
    return


@app.cell
def _(np, pre, tokens):
    def forgotten(block, x):
        x = block.attn(block.attn_norm(x))  # no "x +"
        return x + block.ffn(block.ffn_norm(x))

    def norm_on_skip(block, x):
        x = block.attn_norm(x)  # the stream itself, not a copy for the branch
        x = x + block.attn(x)
        x = block.ffn_norm(x)
        return x + block.ffn(x)

    lost = forgotten(pre, tokens)  # the branches of this block are still silent
    once, tenfold = norm_on_skip(pre, tokens), norm_on_skip(pre, tokens * 10)
    scale_lost = np.allclose(once.array, tenfold.array, atol=1e-6)
    assert lost.shape == tokens.shape
    assert not lost.array.any()
    return lost, scale_lost


@app.cell(hide_code=True)
def _(lost, mo, scale_lost):
    mo.md(f"""
    Without the first `x +`, the shape is still {lost.shape} and every number in it is {abs(lost.array).max():g}. With
    the norm on the skip path, a stream ten times as large comes out the same: **{'yes' if scale_lost else 'no'}**. How
    large a vector had become was something the model knew, and it has been erased. Set your branches to zero once in
    every model that you write. It takes two lines and finds both slips.
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(6, again)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **To carry on with:** a branch adds to the stream; the stream itself goes from the first layer to the last through
    sums alone. That is the way forward. Lesson 7 walks it backward, with the gradient.
    """)
    return


@app.cell(hide_code=True)
def _(
    F,
    Tensor,
    added,
    cancelled,
    from_plain,
    from_residual,
    lost,
    norm_of_norm,
    read,
    replaced,
    same_bits,
    scale_lost,
    show,
    silent,
    sum_of_both,
    tokens,
    weights,
    zero_added,
    zero_replaced,
):
    _double = F.rms_norm(F.rms_norm(tokens, 8), 8)
    numbers = {
        "S1 weights": weights,
        "S1 the read": read,
        "S1 replaced": replaced,
        "S1 added": added,
        "S1 added, by the engine": sum_of_both,
        "S2 branch zero, replaced": zero_replaced,
        "S2 branch zero, added": zero_added,
        "S2 the branch returns minus the input": cancelled,
        "S2 pre-norm block with silent branches is the identity, bit for bit": same_bits,
        "S2 and so says what_if": all("equals what came in" in fact for fact in silent.facts[:2]),
        "S2 post-norm block with silent branches is Norm(Norm(x))": norm_of_norm,
        "S2 Norm(Norm(x)) is x": bool(Tensor(tokens.array).allclose(_double)),
        "S2 largest number without the first x +": float(abs(lost.array).max()),
        "S2 norm on the skip path: the scale is lost": bool(scale_lost),
        "S2 a fresh layer misses the identity by, replacing": from_plain,
        "S2 a fresh layer misses the identity by, adding": from_residual,
    }
    show(numbers)
    return


@app.cell(hide_code=True)
def _(links):
    links(6)
    return


if __name__ == "__main__":
    app.run()
