"""Feed-forward

Attention has brought the context home. What is left for a position to do on its own?

Systems: S15, S16, S17, S18
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="9 · Feed-forward")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from lessons.page import check_button, exercises, links, show

    return check_button, exercises, links, mo, show


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Feed-forward

    After attention, one position of a toy model holds two numbers, p = ¾ and q = 7/4. Whatever it needed from other positions
    is in them already. Give it a small task: *if q is larger than p, add the excess to p; otherwise change nothing.*
    Nothing has to be looked up for that. It is arithmetic on two numbers, and a network with one unit can do it.

    That is the division of labour in a block. Attention fetches: it decides *where from*, and brings back a mixture. What to
    make of the mixture, now that it is here, is decided by the second half, which most of a model's weights are spent on.
    """)
    return


@app.cell
def _():
    import math

    import numpy as np

    import viz
    from tinygrad_tf import Tensor, nn
    from tinygrad_tf.nn import functional as F
    from viz.figures import controls, widen_narrow

    return F, Tensor, controls, math, nn, np, viz, widen_narrow


@app.cell
def _(np):
    x = np.array([3 / 4, 7 / 4])
    excess = x @ np.array([-1.0, 1.0])  # what the unit reads: q - p
    fires = max(excess, 0.0)  # ReLU: an excess counts, a deficit does not
    update = fires * np.array([1.0, 0.0])  # where it writes: to p
    by_hand = x + update
    by_hand
    return by_hand, x


@app.cell(hide_code=True)
def _(by_hand, mo, x):
    mo.md(f"""
    From ({x[0]:g}, {x[1]:g}) to ({by_hand[0]:g}, {by_hand[1]:g}). Three lines, and they are all there is to a
    **feed-forward network**: a linear map that reads, an **activation** that decides how much of each reading counts, and a
    second linear map that writes. Each number in the middle is a **hidden unit**. What the network returns is an update,
    added to what was there.

    The engine calls the two maps `up` and `down`. A `Linear` keeps its weight as (out, in), one *row* for each output, so the
    weight of `up` below is one row, and that of `down` has one column. Getting this the wrong way round is the most common
    slip when a formula is turned into code; with square matrices nothing complains.
    """)
    return


@app.cell
def _(Tensor, by_hand, nn, np, x):
    rule = nn.FeedForward(2, 1, "relu", bias=False).double()
    rule.up.weight.data = np.array([[-1.0, 1.0]])
    rule.down.weight.data = np.array([[1.0], [0.0]])
    with_skip = nn.Residual(rule)
    added = with_skip(Tensor(x)).array
    kept = with_skip(Tensor(x[::-1].copy())).array  # the other way round there is no excess
    assert (added == by_hand).all()
    assert (kept == x[::-1]).all()
    added, kept
    return added, rule, with_skip


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    As a graph, the path of the stream is the straight line, and the network a side trip that reads it and returns.
    """)
    return


@app.cell
def _(Tensor, viz, with_skip, x):
    viz.draw(with_skip, inputs=Tensor(x), title="Add the excess of q over p to p")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Broken on purpose: take the activation away

    Two linear maps in a row are one linear map. `up` followed by `down`, with nothing in between, does no more than the
    single matrix that is their product.
    """)
    return


@app.cell
def _(Tensor, np, rule):
    one_matrix = rule.down.weight.array @ rule.up.weight.array
    some = np.random.default_rng(0).standard_normal((5, 2))
    assert np.allclose(rule.down(rule.up(Tensor(some))).array, some @ one_matrix.T)

    more, less = np.array([[0.0, 1.0]]), np.array([[0.0, -1.0]])  # q above p, and q below p
    with_relu = [rule(Tensor(row)).array[0] for row in (more, less)]
    without = [(row @ one_matrix.T)[0] for row in (more, less)]
    one_matrix
    return one_matrix, with_relu, without


@app.cell(hide_code=True)
def _(mo, with_relu, without):
    _t = lambda pair: f"({pair[0]:g}, {pair[1]:g})".replace("-", "−")
    mo.md(f"""
    | input | update with ReLU | update of the one matrix |
    | --- | --- | --- |
    | (0, 1) | {_t(with_relu[0])} | {_t(without[0])} |
    | (0, −1) | {_t(with_relu[1])} | {_t(without[1])} |

    A matrix that answers (0, 1) with {_t(without[0])} must answer (0, −1) with {_t(without[1])}: it takes the deficit away
    from p, which the task forbids. "Only if" is what no matrix can say, and what the activation is there for.
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Widen, activate, narrow

    One unit can hold one rule. A real network has many: the first map *widens* the row to more numbers than it came with,
    often four times as many, and the second *narrows* it again, because the update has to be as wide as what it is added to.
    The wide middle is room for many small questions to be asked of one row at once. Nobody outside the network ever sees it.

    Here are two numbers, four units, and every number by hand. Take them with a pencil once; after that the figure below is
    easy to read.
    """)
    return


@app.cell
def _(np):
    w1 = np.array([[1.0, 0, 1, -1], [0, 1, 1, 1]])  # (2, 4): a column for each unit, what it reads
    b1 = np.array([0.0, 0, 0, 0.5])
    w2 = np.array([[1.0, 0], [0, 1], [0.5, 0.5], [-1, 1]])  # (4, 2): a row for each unit, what it writes
    z = np.array([1.0, -1.0])

    sums = z @ w1 + b1
    active = np.maximum(sums, 0)
    out = active @ w2
    sums, active, out
    return active, b1, out, sums, w1, w2, z


@app.cell(hide_code=True)
def _(mo, out):
    mo.md(f"""
    The sums are the answers to four questions. Unit 1 asks for the first number alone, unit 2 for the second, unit 3 for both
    together, unit 4 for the second minus the first. Only unit 1 gets a positive answer, so the update is what unit 1 writes:
    ({out[0]:g}, {out[1]:g}). The engine's layer, given the same weights, says the same.
    """)
    return


@app.cell
def _(Tensor, b1, nn, np, out, w1, w2, z):
    network = nn.FeedForward(2, 4, "relu").double()
    network.up.weight.data, network.up.bias.data = w1.T.copy(), b1.copy()
    network.down.weight.data, network.down.bias.data = w2.T.copy(), np.zeros(2)
    assert (network(Tensor(z)).array == out).all()
    return (network,)


@app.cell(hide_code=True)
def _(active, sums, widen_narrow):
    relu, gelu, raised = (
        widen_narrow(**settings).data for settings in ({}, {"activation": "GELU"}, {"activation": "ReLU", "bias": 2.5})
    )
    assert relu["hidden"] == sums.tolist()
    assert relu["active"] == active.tolist()
    return gelu, raised, relu


@app.cell(hide_code=True)
def _(controls, widen_narrow):
    settings = controls(widen_narrow)
    settings
    return (settings,)


@app.cell(hide_code=True)
def _(settings, widen_narrow):
    widen_narrow(**settings.value)
    return


@app.cell(hide_code=True)
def _(gelu, mo, raised):
    _t = lambda values: "(" + ", ".join(f"{v:.3f}" for v in values).replace("-", "−") + ")"
    mo.md(f"""
    Read it unit by unit: a column of the first matrix is what the unit looks for, a row of the second is what it writes when
    it finds it. Raise the bias of unit 4 to 2.5: its sum climbs to {raised["hidden"][3]:g}, ReLU lets it through, and
    {raised["hidden"][3]:g} times (−1, 1) joins the update, which becomes ({raised["out"][0]:g}, {raised["out"][1]:g}). A bias
    moves the point at which a unit begins to fire. Switch to GELU, with the bias back at 0.5: units whose sums are below 0
    leak a little, {_t(gelu["active"])}, and the update is {_t(gelu["out"])}. Switch the activation off, and every unit always
    fires.

    In a trained model nobody has chosen what a unit asks for. The loss has, over millions of steps, and most units answer to
    several unrelated things at once. What carries over is the form: ask, decide, write.

    ## The activations that are in use

    ReLU keeps what is positive: max(0, z). It has a corner at 0. **GELU** multiplies z by the probability that a standard
    normal number is below z: for a large z that is nearly 1, for a very negative one nearly 0, and in between it turns
    smoothly. **SiLU** does the same with the sigmoid in place of the normal distribution. By hand, each is one line.
    """)
    return


@app.cell
def _(math):
    def gelu_by_hand(v):
        return v * 0.5 * (1 + math.erf(v / math.sqrt(2)))

    def silu_by_hand(v):
        return v / (1 + math.exp(-v))

    return gelu_by_hand, silu_by_hand


@app.cell(hide_code=True)
def _(F, Tensor, gelu_by_hand, np, silu_by_hand):
    points = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    curves = {
        "ReLU": F.relu(Tensor(points)).array,
        "GELU": F.gelu(Tensor(points)).array,
        "GELU, tanh form": F.gelu(Tensor(points), "tanh").array,
        "SiLU": F.silu(Tensor(points)).array,
    }
    assert np.allclose(curves["GELU"], [gelu_by_hand(v) for v in points], atol=1e-14)
    assert np.allclose(curves["SiLU"], [silu_by_hand(v) for v in points], atol=1e-14)
    return curves, points


@app.cell(hide_code=True)
def _(curves, mo, points):
    _f = lambda v: f"{v:.4f}".replace("-", "−")
    _rows = ["| z | " + " | ".join(f"{p:g}".replace("-", "−") for p in points) + " |", "| --- |" + " --- |" * len(points)]
    _rows += [f"| {name} | " + " | ".join(map(_f, values)) + " |" for name, values in curves.items()]
    mo.md("\n".join(_rows))
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    These are the engine's; the two lines above agree with it. The tanh form is a shortcut from the days when the exact one
    was slow. GPT-2 was trained with it, so GPT-2 needs it: the two differ in the fourth digit.

    ReLU has one weakness that the others do not share: a unit whose sum is below 0 gets no gradient at all. Here is how much
    reaches each unit's own weights in the network above, for a loss that weighs the two outputs by 1 and 2.
    """)
    return


@app.cell
def _(Tensor, network, np, z):
    reached = {}
    for kind in ("relu", "gelu"):
        network.kind = kind
        network.zero_grad()
        (network(Tensor(z)) * np.array([1.0, 2.0])).sum().backward()
        reached[kind] = np.linalg.norm(network.up.weight.grad.array, axis=1).round(3)  # one row a unit
    reached
    return (reached,)


@app.cell(hide_code=True)
def _(mo, reached):
    mo.md(f"""
    With ReLU, {int((reached["relu"] > 0).sum())} of 4 units can learn from this input; with GELU,
    {int((reached["gelu"] > 0).sum())} of 4 do. That is no harm in itself: another input will fire other units. But a ReLU
    unit that is below 0 for *every* input never hears from the loss again, and stays as it is for good.

    ## A gate

    Llama and its relatives use three maps in place of two. One makes candidates, `up`; one, through an activation, says how
    much of each candidate passes, the **gate**; the product is narrowed. With SiLU that is **SwiGLU**, with GELU **GEGLU**. A
    unit of this kind asks two questions and multiplies the answers, so it can say "this, but only as far as that is so". To
    keep the number of weights the same, the middle is made two thirds as wide.
    """)
    return


@app.cell
def _(Tensor, nn, np):
    gated = nn.FeedForward(3, 5, "swiglu", bias=False, generator=np.random.default_rng(1)).double()
    row = np.array([[1.0, -2.0, 0.5]])
    opened = row @ gated.gate.weight.array.T
    opened = opened / (1 + np.exp(-opened))  # SiLU
    gated_by_hand = (opened * (row @ gated.up.weight.array.T)) @ gated.down.weight.array.T
    assert np.allclose(gated(Tensor(row)).array, gated_by_hand, atol=1e-14)
    gated_by_hand
    return gated, gated_by_hand, row


@app.cell
def _(Tensor, gated, nn, row):
    nn.init.zeros_(gated.gate.weight)
    closed = gated(Tensor(row)).array  # a gate that is closed lets nothing through
    closed
    return (closed,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Each position on its own

    The same network, with the same weights, is applied to every row of the sequence. It reads that row and no other: change
    row 3 and row 3 alone comes out different. Attention is the opposite. A layer like this is called **position-wise**. All
    exchange between positions in a transformer therefore goes through attention; and because rows do not meet here, all of
    them can be computed at once, as one matrix product.
    """)
    return


@app.cell
def _(Tensor, nn, np):
    rng = np.random.default_rng(0)
    text = rng.standard_normal((1, 5, 8)).astype(np.float32)
    other = text.copy()
    other[0, 3] += 1  # one row is changed
    layers = {
        "feed-forward": nn.FeedForward(8, 32, generator=rng),
        "SwiGLU": nn.FeedForward(8, 32, "swiglu", generator=rng),
        "LayerNorm": nn.LayerNorm(8),
        "attention": nn.MultiHeadAttention(8, 2, generator=rng),
    }
    differs = {name: layer(Tensor(text)).array[0] != layer(Tensor(other)).array[0] for name, layer in layers.items()}
    moved = {name: np.flatnonzero(rows.any(-1)).tolist() for name, rows in differs.items()}
    return (moved,)


@app.cell(hide_code=True)
def _(mo, moved):
    _rows = ["| layer | rows that change, counted from 0 |", "| :-- | :-- |"]
    _rows += [f"| {name} | {', '.join(map(str, rows))} |" for name, rows in moved.items()]
    _after = (
        "The norm is in the table because it is position-wise too. None of this means that a row is about its own word alone: "
        "attention has written into it before, and the network works with whatever is there."
    )
    mo.md("\n".join([*_rows, "", _after]))
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(9, again)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **To carry on with:** attention moves information between positions, the feed-forward network computes with it within one.
    Both return an update of the stream's own width. What neither controls is how *large* the stream gets, and attention minds
    that very much.
    """)
    return


@app.cell(hide_code=True)
def _(
    added,
    closed,
    curves,
    gated_by_hand,
    gelu,
    moved,
    one_matrix,
    raised,
    relu,
    show,
    with_relu,
):
    numbers = {
        "S15 the excess is added": added,
        "S15 the two maps as one matrix": one_matrix,
        "S15 updates for (0, 1) and (0, -1)": with_relu,
        "S16 hidden sums": relu["hidden"],
        "S16 after ReLU": relu["active"],
        "S16 output with ReLU": relu["out"],
        "S16 after GELU": gelu["active"],
        "S16 output with GELU": gelu["out"],
        "S16 output with ReLU, bias 2.5": raised["out"],
        "S17 GELU at 1": curves["GELU"][3],
        "S17 GELU at -1": curves["GELU"][1],
        "S17 GELU at 2": curves["GELU"][4],
        "S17 GELU at 2, tanh form": curves["GELU, tanh form"][4],
        "S17 ReLU at -1 and 1": curves["ReLU"][[1, 3]],
        "S17 SiLU at 1": curves["SiLU"][3],
        "S17 SwiGLU network, by hand": gated_by_hand,
        "S17 a closed gate lets nothing through": bool((closed == 0).all()),
        "S18 rows that a feed-forward network changes": moved["feed-forward"],
        "S18 rows that a norm changes": moved["LayerNorm"],
        "S18 rows that attention changes": moved["attention"],
    }
    show(numbers)
    return


@app.cell(hide_code=True)
def _(links):
    links(9)
    return


if __name__ == "__main__":
    app.run()
