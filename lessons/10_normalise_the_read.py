"""Normalise the read

Why does a block bring what it reads to one size, and leave the stream as it is?

Systems: S11, S19
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="10 · Normalise the read")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from lessons.page import check_button, exercises, links, show

    return check_button, exercises, links, mo, show


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Normalise the read

    Every block adds two updates to the stream, so the stream tends to grow: the vectors that reach the twelfth block are
    larger than those that reached the first. Is that a problem? A linear map does not mind. Its output grows in proportion,
    and nothing else changes. Attention minds. Its scores are products of *two* projections of the stream, and a softmax
    stands behind them.

    Take three positions and a head without biases. To have every number in view, let each position be its own query and key.
    Then make the whole input twice as large, and change nothing else.
    """)
    return


@app.cell
def _():
    import numpy as np

    import viz
    from tinygrad_tf import Tensor, nn
    from viz.beside import beside

    return Tensor, beside, nn, np, viz


@app.cell
def _(Tensor, np):
    x = np.array([[1.0, 0.0], [0.5, 1.0], [1.0, 1.5]])

    def scores(rows):
        return rows @ rows.T / np.sqrt(2)

    once = Tensor(scores(x)).softmax(-1).array
    twice = Tensor(scores(2 * x)).softmax(-1).array
    growth = scores(2 * x) / scores(x)
    once.round(3), twice.round(3)
    return growth, once, scores, twice, x


@app.cell(hide_code=True)
def _(growth, mo, once, twice):
    mo.md(f"""
    Queries and keys have both doubled, so every score is {growth.max():g} times what it was. The last position gave
    itself {once[2, 2]:.3f} of its attention and now gives {twice[2, 2]:.3f}. Nothing about the *content* has changed, only
    the size. In a deep model the late blocks would find every softmax hardened in this way, close to picking a single
    position. (The division by the root of the width, here √2, does not help. It makes up for the length of the sum, not for
    the size of its terms.)

    The cure is to bring every vector to one size before a branch reads it. What is its size? The **root mean square**: square
    the numbers, take the mean, take the root. Dividing by it is **RMSNorm**.
    """)
    return


@app.cell
def _(Tensor, nn, np):
    pair = np.array([3.0, 4.0])
    size = np.sqrt((pair**2).mean() + 1e-6)  # ε, a tiny number, keeps a row of zeros from dividing by 0
    by_hand = pair / size

    norm = nn.RMSNorm(2, eps=1e-6).double()
    assert np.allclose(norm(Tensor(pair)).detach().array, by_hand, atol=1e-15)
    zeros = norm(Tensor(np.zeros(2))).array
    by_hand, zeros
    return by_hand, zeros


@app.cell(hide_code=True)
def _(by_hand, mo):
    mo.md(f"""
    (3, 4) becomes ({by_hand[0]:.6f}, {by_hand[1]:.6f}): the same direction, and the mean of its squares is 1. The **ε**
    stands *inside* the root; a row of zeros stays a row of zeros. A layer also has a **gain**, one learned number for each
    coordinate that multiplies the result, so that a model can still make one coordinate count more than another. Gains start
    at 1.

    Now the head again, with the norm in front of it. Move the size of the input, and the norm.
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    factor = mo.ui.slider(steps=[0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0], value=1.0, label="Input times", show_value=True)
    which = mo.ui.dropdown(["none", "RMSNorm", "LayerNorm"], value="none", label="Norm before it", allow_select_none=False)
    mo.hstack([factor, which], justify="start", gap=2, wrap=True)
    return factor, which


@app.cell(hide_code=True)
def _(Tensor, factor, nn, scores, which, x):
    from viz.figures import Figure
    from viz.figures.paint import number, rect, svg, text

    def _figure(c, name):
        norms = {"none": lambda t: t, "RMSNorm": nn.RMSNorm(2, eps=1e-6).double(), "LayerNorm": nn.LayerNorm(2).double()}
        read = norms[name](Tensor(c * x)).detach().array
        weights = Tensor(scores(read)).softmax(-1).array
        marks = [text(8, 24, "what the head reads", "soft"), text(190, 24, "weights of the last position", "soft")]
        for i in range(3):
            y = 40 + 44 * i
            marks += [text(8, y + 21, f"({number(read[i, 0], 2)}, {number(read[i, 1], 2)})", "ink"),
                      rect(190, y, 200, 30, "faint", radius=3), rect(190, y, 200 * weights[2, i], 30, "cool", radius=3),
                      text(398, y + 21, number(weights[2, i], 3))]  # fmt: skip
        words = f"Input times {c:g}, {'no norm' if name == 'none' else name}: the last position's weights are " + ", ".join(
            number(w, 3) for w in weights[2]
        )
        return Figure({}, svg(460, 172, marks), words + ".", "Weights of a head by the size of its input")

    _figure(factor.value, which.value)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Without a norm the bars harden to the right and melt to the left. With RMSNorm they stand still, whatever the factor. That
    is the whole purpose. (With two coordinates LayerNorm, further down, leaves only +1 and −1; real rows are wider.) In
    numbers, by the engine's own attention layer with random weights, up to a thousand times the input:
    """)
    return


@app.cell
def _(Tensor, nn, np):
    rng = np.random.default_rng(0)
    head = nn.MultiHeadAttention(8, 2, bias=False, generator=rng).double()
    exact = nn.RMSNorm(8, eps=1e-30).double()
    rows = rng.standard_normal((1, 5, 8))
    held = [abs((head(exact(Tensor(c * rows))) - head(exact(Tensor(rows)))).array).max() for c in (0.5, 2, 1000)]
    assert max(held) < 1e-12

    gaps = {}  # with a larger ε, size begins to matter again
    for eps in (1e-1, 1e-3, 1e-5):
        loose = nn.RMSNorm(8, eps=eps).double()
        gaps[eps] = abs((loose(Tensor(2 * rows)) - loose(Tensor(rows))).array).max()
    gaps
    return gaps, held, rows


@app.cell(hide_code=True)
def _(gaps, mo):
    mo.md(f"""
    Strictly, RMSNorm(c z) = RMSNorm(z) holds only as ε goes to 0. The three lines above show by how much it fails for z and 2
    z: {gaps[0.1]:.2g} with ε = 0.1, and {gaps[1e-5]:.2g} with ε a ten-thousandth of that. For vectors that are themselves
    tiny, ε wins and the norm lets them stay small, which is what it is for.

    ## LayerNorm also takes the mean away

    The older norm, of GPT-2 and BERT, first subtracts the mean of the row, then divides by the standard deviation:
    **LayerNorm**. After it the numbers of a row add to 0. The variance divides by n, the number of coordinates, not by n − 1:
    this is no estimate from a sample, it is the size of this very row.
    """)
    return


@app.cell
def _(Tensor, nn, np):
    one = np.array([1.0, 0.0, 0.0, 0.0])
    centred = one - one.mean()
    layer_by_hand = centred / np.sqrt(one.var() + 1e-5)
    by_sample = centred / np.sqrt(one.var(ddof=1) + 1e-5)  # n - 1: the mistake

    layer = nn.LayerNorm(4).double()
    assert np.allclose(layer(Tensor(one)).detach().array, layer_by_hand, atol=1e-15)
    layer_by_hand, by_sample
    return by_sample, layer, layer_by_hand, one


@app.cell
def _(Tensor, layer, nn, np, one):
    norms = {"LayerNorm": layer, "RMSNorm": nn.RMSNorm(4).double()}
    moved = {name: abs((f(Tensor(one + 3)) - f(Tensor(one))).array).max() for name, f in norms.items()}
    even = nn.RMSNorm(2).double()(Tensor(np.array([2.0, 2.0]))).array  # LayerNorm would leave nothing of it
    return even, moved


@app.cell(hide_code=True)
def _(by_sample, even, layer_by_hand, mo, moved):
    mo.md(f"""
    (1, 0, 0, 0) becomes {layer_by_hand[0]:.6f} and three times −{-layer_by_hand[1]:.6f}; with n − 1, the first would be
    {by_sample[0]:.5f}. Add 3 to all four coordinates: LayerNorm's output stays where it is,
    RMSNorm's moves by {moved["RMSNorm"]:.2f}. And of (2, 2), which LayerNorm turns into zeros, RMSNorm makes
    ({even[0]:.4g}, {even[1]:.4g}). RMSNorm keeps the mean because in practice it does no harm, and the row is read once
    instead of twice. LayerNorm has a learned shift, its bias, beside the gain.

    ## Broken on purpose: a norm over the wrong axis

    Both norms work on the coordinates of *one position*. A slip in one argument, and each coordinate is normalised over the
    positions of the text instead. The shapes agree, training runs, and the loss looks splendid. Look at what the first
    position knows then.
    """)
    return


@app.cell
def _(np):
    def over_positions(rows):
        return rows / np.sqrt((rows**2).mean(axis=0, keepdims=True))  # axis 0: the mistake

    def over_coordinates(rows):
        return rows / np.sqrt((rows**2).mean(axis=-1, keepdims=True))

    text_a = np.array([[1.0, 2.0], [0.5, 1.0], [1.0, 1.0]])
    text_b = np.array([[1.0, 2.0], [0.5, 1.0], [9.0, 1.0]])  # only the last word differs
    leak = over_positions(text_b)[0] - over_positions(text_a)[0]
    no_leak = over_coordinates(text_b)[0] - over_coordinates(text_a)[0]
    leak, no_leak
    return leak, no_leak


@app.cell(hide_code=True)
def _(leak, mo):
    mo.md(f"""
    The first row moved by {abs(leak[0]):.2f} because the *last* word did. A model that predicts the next word has been handed
    a piece of the answer, mask or no mask. That is why a splendid loss is a reason to look, and why the norm never leaves its
    row.

    ## A trap: "LayerNorm kills my gradients"

    Somebody tests a LayerNorm with the quickest loss there is, the sum of its output, and finds that no gradient arrives at
    all.
    """)
    return


@app.cell
def _(Tensor, nn):
    def gradient(weights):
        """Of the loss: the output of LayerNorm for (1, 2, 4), weighed."""
        z = Tensor([1.0, 2.0, 4.0], requires_grad=True, dtype="float64")
        (nn.LayerNorm(3).double()(z) * Tensor(weights, dtype="float64")).sum().backward()
        return z.grad.array

    of_the_sum, uneven = gradient([1, 1, 1]), gradient([1, 2, 3])
    assert abs(uneven.sum()) < 1e-12
    of_the_sum, uneven
    return of_the_sum, uneven


@app.cell(hide_code=True)
def _(Tensor, nn):
    narrow, single = nn.LayerNorm(1).double(), Tensor([[5.0]], requires_grad=True, dtype="float64")
    blind = narrow(single)
    (3 * blind).sum().backward()
    width_1 = [blind.item(), single.grad.item(), narrow.weight.grad.item()]
    assert width_1 == [0, 0, 0]
    return (width_1,)


@app.cell(hide_code=True)
def _(mo, uneven):
    _t = ", ".join(f"{v:.6f}" for v in uneven).replace("-", "−")
    _along = float(uneven @ [1.0, 2.0, 4.0])
    mo.md(f"""
    Not a fault. The mean has been taken out, so the output adds to 0 *whatever the input is*. A loss that cannot change has
    the gradient 0, up to rounding. Weigh the outputs 1, 2, 3 and the gradient is there: ({_t}).

    It still adds to 0, because moving all three inputs by the same amount changes nothing. And its product with the input is
    only {_along:.0e}, because stretching the input changes nothing either, but for ε. What a norm makes the output blind to,
    it takes out of the gradient: for LayerNorm the common shift and the size, for RMSNorm the size alone. A LayerNorm of
    width 1 is blind to everything: its output is its shift, and input and gain get the gradient 0. Test with uneven weights.

    ## Where the norm stands

    A block can normalise in three places. **Pre-norm**: what the branch reads, x + F(norm(x)). **Post-norm**, the order of
    2017: the sum, norm(x + F(x)). Both sides: what the branch reads and what it writes, x + norm(F(norm(x))). The branch is
    the same.
    """)
    return


@app.cell
def _(nn, np):
    def block(order, zero=False):
        rng = np.random.default_rng(1)  # the same weights in all three
        norm = lambda: nn.RMSNorm(8)
        attn, ffn = nn.MultiHeadAttention(8, 2, generator=rng), nn.FeedForward(8, 32, "silu", generator=rng)
        for p in [*attn.parameters(), *ffn.parameters()] if zero else []:
            nn.init.zeros_(p)
        return nn.Block(order(norm, attn=attn), order(norm, ffn=ffn)).double()

    orders = {"pre-norm": nn.pre_norm, "post-norm": nn.post_norm, "both sides": nn.both_norms}
    return block, orders


@app.cell
def _(Tensor, block, orders, rows):
    stream = Tensor(3 * rows)  # (1, 5, 8), larger than a norm would make it
    outputs = {name: block(order)(stream).array for name, order in orders.items()}
    silent = {name: block(order, zero=True)(stream).array for name, order in orders.items()}
    kept = {name: bool((y == stream.array).all()) for name, y in silent.items()}
    return kept, outputs, stream


@app.cell(hide_code=True)
def _(mo, np, outputs, stream):
    sizes = {name: f"{np.sqrt((y**2).mean()):.2f}" for name, y in [("stream", stream.array), *outputs.items()]}
    mo.md(f"""
    The stream comes in with a root mean square of {sizes["stream"]}. What leaves the block, and what leaves it when both
    branches are silent (all their weights 0):
    """)
    return (sizes,)


@app.cell(hide_code=True)
def _(kept, mo, sizes):
    _what = {True: "the input, bit for bit", False: "the input, normalised twice"}
    _rows = ["| order | size of the output | with silent branches |", "| :-- | :-- | :-- |"]
    mo.md("\n".join(_rows + [f"| {name} | {sizes[name]} | {_what[same]} |" for name, same in kept.items()]))
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    In pre-norm the direct path goes through nothing at all: normalise the *read*, keep the *stream*. In post-norm every sum
    is squeezed to size 1, and so is what came from far below. The pictures say it at a glance: the orange line of the first
    is whole, that of the second runs through two norms.
    """)
    return


@app.cell(hide_code=True)
def _(beside, block, orders, stream, viz):
    both = {name: viz.trace(block(orders[name]), inputs=stream) for name in ("pre-norm", "post-norm")}
    viz.draw(beside(both, "Pre-norm and post-norm"), view="blocks", legend=False)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Neither order is wrong. Post-norm trained the first transformers, with a careful warm-up of the learning rate. Pre-norm
    trains without, deep stacks too, because the gradient has the same free way back; it needs one more norm at the very end,
    before the vocabulary, since the stream it hands on is of any size. Today's models are pre-norm, nearly all with RMSNorm.
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(10, again)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **To carry on with:** a branch reads the stream at one size, and writes to the stream itself. So far a position knows what
    it holds and what others hold, but not where it stands: shuffle the words, and attention would not notice.
    """)
    return


@app.cell(hide_code=True)
def _(
    by_hand,
    by_sample,
    even,
    gaps,
    growth,
    held,
    kept,
    layer_by_hand,
    leak,
    moved,
    no_leak,
    of_the_sum,
    once,
    show,
    twice,
    uneven,
    width_1,
    zeros,
):
    numbers = {
        "S11 scores of twice the input, over those of once": growth.max(),
        "S11 weights of the last position, input once": once[2],
        "S11 weights of the last position, input twice": twice[2],
        "S11 with RMSNorm first, nothing changes up to 1000 times": max(held) < 1e-12,
        "S19 RMSNorm of (3, 4)": by_hand,
        "S19 RMSNorm of (0, 0)": zeros,
        "S19 RMSNorm of (2, 2)": even,
        "S19 LayerNorm of (1, 0, 0, 0)": layer_by_hand,
        "S19 the same with n - 1": by_sample[0],
        "S19 LayerNorm does not see a shift": moved["LayerNorm"] < 1e-9,
        "S19 RMSNorm sees a shift": moved["RMSNorm"] > 0.1,
        "S19 RMSNorm of z and 2 z, apart by, as eps falls": list(gaps.values()),
        "S19 gradient of the sum of LayerNorm is 0": abs(of_the_sum).max() < 1e-6,
        "S19 gradient with weights 1, 2, 3": uneven,
        "S19 width 1: output, gradient of input and of gain": width_1,
        "S19 a norm over positions leaks the last word": leak,
        "S19 a norm over coordinates does not": no_leak,
        "S19 silent pre-norm block gives its input": kept["pre-norm"],
        "S19 silent post-norm block gives its input": kept["post-norm"],
        "S19 silent block with both norms gives its input": kept["both sides"],
    }
    show(numbers)
    return


@app.cell(hide_code=True)
def _(links):
    links(10)
    return


if __name__ == "__main__":
    app.run()
