"""Several heads, one update

Each head has weights of its own. How do the reads of several heads become one update?

Systems: S8, S9, S10
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="8 · Several heads, one update", width="medium")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from lessons.page import check_button, exercises, links, show

    return check_button, exercises, links, mo, show


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Several heads, one update

    Position 2 holds (0, 1) and sees the values (2, 0) and (0, 1). It would like 3/2 in the first coordinate and 3/4 in
    the second. One head cannot: it has one weight for position 1, and the first wish takes ¾ where the second takes ¼.
    So give it two heads that return one number each. Head A mixes the first coordinates of the values, head B the second
    ones, and each has scores and a softmax of its own.

    Two numbers then lie side by side, a **concatenation** of the reads. What the position should do with them is another
    question, and another matrix answers it, the **output projection** W_O. It turns what the heads brought home into an
    update as wide as the stream.
    """)
    return


@app.cell
def _():
    import math

    import numpy as np

    import viz
    from tinygrad_tf import Tensor, nn
    from tinygrad_tf.nn import residual

    return Tensor, math, nn, np, residual, viz


@app.cell
def _(np):
    x2 = np.array([0.0, 1.0])  # what position 2 holds
    values = np.array([[2.0, 0.0], [0.0, 1.0]])  # (T, d)
    weights_a, weights_b = np.array([0.75, 0.25]), np.array([0.25, 0.75])  # a softmax each

    read_a = weights_a @ values[:, 0]  # one number
    read_b = weights_b @ values[:, 1]  # another
    joined = np.array([read_a, read_b])  # side by side
    w_o = np.array([[1.0, 0.0], [-1.0, 1.0]])  # a row for each head
    update = joined @ w_o
    result = x2 + update
    np.stack([joined, update, result])
    return joined, read_a, read_b, result, update, w_o, weights_a, weights_b


@app.cell(hide_code=True)
def _(joined, mo, result, update, w_o):
    mo.md(f"""
    Both wishes at once: ({joined[0]:g}, {joined[1]:g}). The first column of W_O is ({w_o[0, 0]:g}, {w_o[1, 0]:g}): it
    writes A's number minus B's. The second, ({w_o[0, 1]:g}, {w_o[1, 1]:g}), writes B's alone. The update is
    ({update[0]:g}, {update[1]:g}), and added to what the position held it gives ({result[0]:g}, {result[1]:g}). The
    heads decide *how much of whom*; the projection decides *what is written*; the addition writes it.

    In the engine all heads live in one layer, whose four matrices are filled in here by hand. One thing to know: like
    PyTorch, `Linear` keeps its matrix with a row for each *output*, the transpose of the one above.
    """)
    return


@app.cell
def _(Tensor, math, nn, np, residual, result, update):
    layer = nn.MultiHeadAttention(2, 2, bias=False).double()  # width 2, two heads: one coordinate each
    layer.q_proj.weight.data = np.array([[0.0, 1.0], [0.0, 1.0]])  # from (0, 1) both heads ask 1
    layer.k_proj.weight.data = np.diag([math.log(3) / 2, math.log(3)])  # keys: A (ln 3, 0), B (0, ln 3)
    layer.v_proj.weight.data = np.eye(2)  # A takes the first coordinate, B the second
    layer.out_proj.weight.data = np.array([[1.0, 0.0], [-1.0, 1.0]]).T

    stream = Tensor(np.array([[[2.0, 0.0], [0.0, 1.0]]]), requires_grad=True)  # (B, T, d): what both positions hold
    by_layer = layer(stream)
    written = residual(stream, by_layer)
    assert np.allclose(by_layer.array[0, 1], update)
    assert np.allclose(written.array[0, 1], result)
    written[0, 1]
    return by_layer, written


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Here is that layer on the stream. Everything between the split and the join happens once for each head, side by side;
    then one matrix and one sum.
    """)
    return


@app.cell
def _(viz, written):
    viz.draw(written, view="ops", params=False, legend=False, title="Two heads in one layer, and the sum that writes")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Move the two weights. The pair of reads can be anywhere in the rectangle. Then let one weight serve both, as a single
    head does, and see what is left of it.
    """)
    return


@app.cell(hide_code=True)
def _():
    from viz.figures import controls, heads_to_update, mixture

    heads_settings = controls(heads_to_update)
    heads_settings
    return controls, heads_settings, heads_to_update, mixture


@app.cell(hide_code=True)
def _(heads_settings, heads_to_update):
    heads_to_update(**heads_settings.value)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Joining and projecting is adding up the heads

    Now at a more usual size: six positions of width 12, four heads of width 3. Each head sees the *whole* row of every
    position and projects it to its own three numbers; a head is not a slice of the input. The four projections are kept
    as one matrix and the product is split afterwards.

    Look at W_O, 12 × 12, in four bands of three rows. A row of the joined reads times W_O is the first three numbers
    times the first band, plus the next three times the second, and so on. So each head has an update of its own, and the
    layer's update is their sum.
    """)
    return


@app.cell
def _(Tensor, math, nn, np):
    _rng = np.random.default_rng(0)
    tokens = _rng.standard_normal((6, 12))  # (T, d)
    heads, width = 4, 3
    full = nn.MultiHeadAttention(12, heads, bias=False, generator=_rng).double()
    W_q, W_k, W_v, W_o = (full.get_submodule(f"{name}_proj").weight.array.T for name in ("q", "k", "v", "out"))

    def head(r):
        """The read (T, D) of head r: project, score, mask, softmax, mix."""
        own = slice(r * width, (r + 1) * width)
        q, k, v = tokens @ W_q[:, own], tokens @ W_k[:, own], tokens @ W_v[:, own]  # (T, d) -> (T, D)
        scores = np.where(np.tri(6, dtype=bool), q @ k.T / math.sqrt(width), -np.inf)  # causal
        return Tensor(scores).softmax(dim=-1).array @ v

    reads = [head(r) for r in range(heads)]
    joined_then_projected = np.concatenate(reads, axis=1) @ W_o  # (T, H D) @ (H D, d)
    shares = [reads[r] @ W_o[r * width : (r + 1) * width] for r in range(heads)]  # each (T, D) @ (D, d)
    apart = abs(sum(shares) - joined_then_projected).max()
    ranks = [int(np.linalg.matrix_rank(share)) for share in shares]

    by_engine = full(Tensor(tokens[None]), causal=True).array[0]
    assert np.allclose(by_engine, joined_then_projected)
    assert np.allclose(by_engine, sum(shares))
    return W_k, W_o, W_q, W_v, apart, heads, ranks, tokens, width


@app.cell(hide_code=True)
def _(apart, mo, ranks, width):
    mo.md(f"""
    Joined and projected, or each head by itself and summed: they differ by {apart:.0e}, which is rounding. The second
    way of reading says who wrote what. It also shows a limit. A head writes twelve coordinates, yet what it writes is
    three numbers times three rows of W_O. At all six positions its writes have rank {', '.join(map(str, ranks))}: each
    head has a **write subspace** of at most {width} dimensions, the width of its values, wherever it looks.

    ## Mixture, update, result

    Three things are easily taken for one another: what a head has mixed, what is written, and what the position holds
    afterwards. Three words, "the", "Eiffel" and "tower", have two coordinates, structure and Paris; "tower" is (1, 0)
    and asks with its coordinates swapped, which is what "Eiffel" answers to.
    """)
    return


@app.cell
def _(Tensor, math, np):
    words = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]])  # the, Eiffel, tower
    tower = words[2]
    query = tower @ np.array([[0.0, 1.0], [1.0, 0.0]])  # swapped: (0, 1)
    tower_weights = Tensor(words @ query / math.sqrt(2)).softmax(dim=-1).array
    h = tower_weights @ words  # the mixture
    plain_result = tower + h  # W_O the identity: the update is the mixture
    negated_update = h @ np.diag([-1.0, 1.0])
    negated_result = tower + negated_update
    np.stack([h, plain_result, negated_update, negated_result]).round(4)
    return h, negated_result, negated_update, plain_result, tower_weights


@app.cell(hide_code=True)
def _(controls, mixture):
    mixture_settings = controls(mixture)
    mixture_settings
    return (mixture_settings,)


@app.cell(hide_code=True)
def _(mixture, mixture_settings):
    mixture(**mixture_settings.value)
    return


@app.cell(hide_code=True)
def _(h, mo, negated_result, negated_update, plain_result, tower_weights):
    mo.md(f"""
    With the weights {tower_weights[0]:.4f}, {tower_weights[1]:.4f} and {tower_weights[2]:.4f} the mixture is
    ({h[0]:.4f}, {h[1]:.4f}). It has less structure than "tower" had; the result,
    ({plain_result[0]:.4f}, {plain_result[1]:.4f}), has more. Let W_O negate the first coordinate: the update becomes
    ({negated_update[0]:.4f}, {negated_update[1]:.4f}) and the result ({negated_result[0]:.4f}, {negated_result[1]:.4f}).
    Still an addition, and structure has fallen. From the weights alone, which have not changed, nobody could have told.

    ## Broken on purpose

    The product for all heads has the shape (T, H·D) and is wanted as (H, T, D). A single `reshape` gives that shape and
    raises no error; so does a single `reshape` on the way back. Both cut the numbers at the wrong places. Two tests that
    know only what a causal head may see: change the first position, and the last has to move; change the last, and the
    others have to stay.
    """)
    return


@app.cell
def _(Tensor, W_k, W_o, W_q, W_v, heads, math, np, tokens, width):
    def split(x):
        return x.reshape(len(x), heads, width).transpose(1, 0, 2)  # (T, H D) -> (T, H, D) -> (H, T, D)

    def split_wrong(x):
        return x.reshape(heads, len(x), width)  # the right shape

    def join(reads):
        return reads.transpose(1, 0, 2).reshape(-1, heads * width)  # (H, T, D) -> (T, H, D) -> (T, H D)

    def join_wrong(reads):
        return reads.reshape(-1, heads * width)  # the right shape

    def attention(x, split, join):
        q, k, v = split(x @ W_q), split(x @ W_k), split(x @ W_v)  # (H, T, D)
        scores = np.where(np.tri(len(x), dtype=bool), q @ k.transpose(0, 2, 1) / math.sqrt(width), -np.inf)
        return join(Tensor(scores).softmax(dim=-1).array @ v) @ W_o

    def moves(at, *cuts):
        """How far each position moves when one of them is changed."""
        changed = tokens.copy()
        changed[at] += 1.0
        return abs(attention(changed, *cuts) - attention(tokens, *cuts)).max(axis=1)

    last_moves = {"right": moves(0, split, join)[-1], "split wrong": moves(0, split_wrong, join_wrong)[-1]}
    others_move = {"right": moves(-1, split, join)[:-1].max(), "joined wrong": moves(-1, split, join_wrong)[:-1].max()}
    assert last_moves["right"] > 0
    return last_moves, others_move


@app.cell(hide_code=True)
def _(last_moves, mo, others_move):
    mo.md(f"""
    | | the first is changed: the last moves by | the last is changed: the others move by |
    | --- | ---: | ---: |
    | exchanged, then reshaped | {last_moves['right']:.4f} | {others_move['right']:g} |
    | split by reshape alone | **{last_moves['split wrong']:g}** | |
    | joined by reshape alone | | **{others_move['joined wrong']:.4f}** |

    Split wrong, a "head" is a stretch of the text: the last position cannot see the first any more, however much it
    should. Joined wrong, one row holds the reads of several positions, and later ones come to stand in earlier rows: the
    model sees the words that it has to predict. No shape is wrong anywhere. Only a test that asks who depends on whom
    can tell.
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(8, again)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **To carry on with:** heads read independently; their reads lie side by side; W_O turns them into one update, the sum
    of a share of each head; the stream takes it in by addition. Position 2 now holds (3/4, 7/4), gathered from others.
    Lesson 9 lets it work on that alone.
    """)
    return


@app.cell(hide_code=True)
def _(
    apart,
    by_layer,
    h,
    last_moves,
    negated_result,
    negated_update,
    others_move,
    plain_result,
    ranks,
    read_a,
    read_b,
    result,
    show,
    tower_weights,
    update,
    weights_a,
    weights_b,
    width,
    written,
):
    numbers = {
        "S8 weights of head A": weights_a,
        "S8 weights of head B": weights_b,
        "S8 head A reads": read_a,
        "S8 head B reads": read_b,
        "S8 update": update,
        "S8 result": result,
        "S8 update, by the layer": by_layer.array[0, 1],
        "S8 result, by the layer": written.array[0, 1],
        "S9 joined and projected is the sum over heads": bool(apart < 1e-12),
        "S9 rank of what each head writes": ranks,
        "S9 no rank above the width of a head": max(ranks) <= width,
        "S9 split and joined properly, earlier positions move by": others_move["right"],
        "S9 split wrong, the last position does not see the first": bool(last_moves["split wrong"] == 0),
        "S9 joined wrong, the future leaks": bool(others_move["joined wrong"] > 0),
        "S10 weights": tower_weights,
        "S10 mixture": h,
        "S10 result": plain_result,
        "S10 update with W_O = diag(-1, 1)": negated_update,
        "S10 result with W_O = diag(-1, 1)": negated_result,
    }
    show(numbers)
    return


@app.cell(hide_code=True)
def _(links):
    links(8)
    return


if __name__ == "__main__":
    app.run()
