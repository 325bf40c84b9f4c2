"""One head reads

What can a single head take from what it sees, and what can it not?

Systems: S7, S11, S12
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="5 · One head reads", width="medium")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from lessons.page import check_button, exercises, links, show

    return check_button, exercises, links, mo, show


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # One head reads

    A vector stands at each position of a text. Position 2 needs something that stands at position 1. It cannot point
    there; where the thing stands changes with every text. So it asks everyone at once. It sends out a vector, its
    **query**, and every position, itself included, holds up a vector to be matched with it, its **key**. How well the
    two fit is their dot product, divided by the root of the width: the **score**.

    Two positions of width 2 are enough to see it. In a model three matrices make the queries, the keys and a third set of
    vectors, which is needed in a moment. Here they are left out, to keep every number visible: each vector x is its own
    query, its own key, and the third as well.
    """)
    return


@app.cell
def _():
    import math

    import numpy as np

    import viz
    from tinygrad_tf import Tensor, grad
    from tinygrad_tf.nn import functional as F

    return F, Tensor, grad, math, np, viz


@app.cell
def _(math, np):
    x = np.array([[2.0, 0.0], [0.0, 1.0]])  # (T, d): a row for each position
    q, k, v = x, x, x

    scores = q @ k.T / math.sqrt(2)  # (T, d) @ (d, T) -> (T, T): row i asks, column j is asked
    scores.round(4)
    return k, q, scores, v


@app.cell(hide_code=True)
def _(mo, scores):
    mo.md(f"""
    Row 2 says how well position 2's query fits the two keys: {scores[1, 0]:g} and {scores[1, 1]:.4f}. **Softmax** makes
    shares of such a row, the **weights**: the exponential of each score, over the sum of the row's exponentials. They are
    positive and add to 1. The third vector of each position is its **value**, what it gives away. What comes back to the
    one that asked, the **read**, is the sum of the values, each times its weight. Queries, keys and values together, with
    weights of their own, are a **head**.
    """)
    return


@app.cell
def _(np, scores, v):
    shares = np.exp(scores)
    weights = shares / shares.sum(axis=1, keepdims=True)  # each row adds to 1
    read = weights @ v  # (T, T) @ (T, d) -> (T, d)
    read.round(4)
    return read, weights


@app.cell(hide_code=True)
def _(math, mo, read, weights):
    mo.md(f"""
    Row 2 of the weights is what position 2 takes: {weights[1, 0]:.4f} of position 1's value and {weights[1, 1]:.4f} of
    its own. Its read is ({read[1, 0]:.4f}, {read[1, 1]:.4f}).

    The division by √d, here {math.sqrt(2):.4f}, is there because a dot product is a sum of d terms: the wider the
    vectors, the larger the scores, and without it a wide head would start out with nearly all its weight on one
    position. The engine has all of this as one function.
    """)
    return


@app.cell
def _(F, Tensor, k, np, q, read, v):
    by_engine = F.scaled_dot_product_attention(Tensor(q), Tensor(k), Tensor(v))
    assert np.allclose(by_engine.array, read)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Written out in small ops, with the three matrices in place, the graph has one long way and one short one. The long
    way, from the queries and keys through the softmax, decides *how much*; the short one, from the values, is *what*.
    There is no line that goes past both: everything that leaves this picture went through the mixing at its end.
    (`matmul` is @, and `permute` exchanges the axes: the transposed keys.)
    """)
    return


@app.cell
def _(Tensor, math, np, viz):
    _x = Tensor(np.array([[2.0, 0.0], [0.0, 1.0]]), requires_grad=True)  # a name with _ is known in this cell alone
    W_q, W_k, W_v = (Tensor(np.eye(2), requires_grad=True) for _ in range(3))
    queries, keys, values = _x @ W_q, _x @ W_k, _x @ W_v
    shared = (queries @ keys.T / math.sqrt(2)).softmax(-1)
    mixture = shared @ values
    viz.draw(mixture, names={"x": _x}, title="read = softmax(q kᵀ / √d) v", shapes=False, legend=False)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## One head is one weight

    Suppose position 2 would like 3/2 in the first coordinate, and 3/4 in the second. The values are (2, 0) and (0, 1).
    Call the weight on position 1 *a*; the other is 1 − *a*, since they add to 1. The read is then (2*a*, 1 − *a*),
    whatever the scores were. Each wish alone can be granted:
    """)
    return


@app.cell
def _(Tensor, math, np):
    two_values = Tensor(np.array([[2.0, 0.0], [0.0, 1.0]]))

    def read_for(score):
        """The weights, and the read, when position 1 has this score and position 2 has the score 0."""
        a = Tensor(np.array([score, 0.0])).softmax(dim=-1)
        return a, a @ two_values

    for_first, read_first = read_for(math.log(3))  # softmax of (ln 3, 0): shares 3 and 1
    for_second, read_second = read_for(-math.log(3))
    assert np.isclose(read_first.array[0], 3 / 2)
    assert np.isclose(read_second.array[1], 3 / 4)
    np.array([read_first, read_second])
    return for_first, for_second, read_first, read_for, read_second, two_values


@app.cell(hide_code=True)
def _(for_first, for_second, mo, read_first, read_second):
    mo.md(f"""
    3/2 in the first coordinate takes *a* = {for_first.array[0]:g}, and then {read_first.array[1]:g} is all there is of
    the second. 3/4 in the second takes *a* = {for_second.array[0]:g}, which leaves {read_second.array[0]:g} of the
    first. One number cannot be both {for_first.array[0]:g} and {for_second.array[0]:g}. Move the score and watch where
    the read can go.
    """)
    return


@app.cell(hide_code=True)
def _():
    from viz.figures import controls, one_weight, who_reads

    one_settings = controls(one_weight)
    one_settings
    return controls, one_settings, one_weight, who_reads


@app.cell(hide_code=True)
def _(one_settings, one_weight):
    one_weight(**one_settings.value)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    The read slides along the *segment* between the two values. Every point between its ends can be had and no point off
    it; the ends themselves are approached and never reached, since softmax gives no share of exactly 0. With three
    positions the segment would be a triangle, with more whatever a rubber band around the values encloses. No read lies
    outside.

    Is that only a matter of choosing the score badly? Let gradient descent choose: 300 steps against the slope of a
    loss, here the squared distance to the wish (3/2, 3/4). `grad(loss, score)` gives that slope.
    """)
    return


@app.cell
def _(Tensor, grad, np, two_values):
    wish = np.array([1.5, 0.75])
    score = Tensor(np.array([0.0, 0.0]), requires_grad=True)
    for _ in range(300):
        loss = (score.softmax(dim=-1) @ two_values - wish).square().sum()
        (slope,) = grad(loss, score)
        score.array[:] -= 0.5 * slope.array
    best = score.softmax(dim=-1)
    best_read = best @ two_values
    left_over = loss.item()
    best_read
    return best, best_read, left_over


@app.cell(hide_code=True)
def _(best, best_read, left_over, mo):
    mo.md(f"""
    It settles at *a* = {best.array[0]:.3f} with the read ({best_read.array[0]:.3f}, {best_read.array[1]:.3f}): the point
    of the segment that is nearest to the wish. The loss that is left is {left_over:.3f}, a distance of
    {left_over**0.5:.3f}; the figure shows how near its slider comes to that. No training gets it closer.
    What is missing is not a better weight but a second one.

    ## The size of the input matters

    Double every input of this head. Its queries double, and its keys double, so each score becomes four times as large.
    Softmax takes the exponential of the scores: what was a slight preference turns into nearly all of the weight, unless
    two keys fit a query equally well; those share. How evenly weights are spread is measured by their **entropy**, which
    is 0 when everything is on one position.
    """)
    return


@app.cell
def _(F, Tensor, np):
    rng = np.random.default_rng(0)
    four = rng.standard_normal((4, 6))  # (T, d)
    w_q, w_k = rng.standard_normal((2, 6, 6)) / 6**0.5

    def scores_of(x):
        return (x @ w_q) @ (x @ w_k).T / 6**0.5  # no bias anywhere

    def entropy(scores):
        w = Tensor(scores).softmax(dim=-1).array
        return -(w * np.log(w)).sum(axis=-1)

    growth = scores_of(2 * four) / scores_of(four)
    sharper = entropy(scores_of(four)), entropy(scores_of(2 * four))

    def normed(x):
        return F.rms_norm(Tensor(x), 6, eps=1e-30).array  # each row divided by its root mean square

    moved = abs(scores_of(normed(2 * four)) - scores_of(normed(four))).max()
    assert np.allclose(growth, 4)
    assert (sharper[1] < sharper[0]).all()
    return growth, moved, sharper


@app.cell(hide_code=True)
def _(growth, mo, moved, sharper):
    mo.md(f"""
    Every score became {growth.mean():g} times as large. The mean entropy of a row fell from {sharper[0].mean():.3f}
    to {sharper[1].mean():.3f}. Dividing by √d does nothing about this, because the width has not changed. What helps is
    to bring each row to one size before it asks: **RMSNorm** divides a row by the root of the mean of its squares. After
    it, doubling the input moves {'no score at all' if moved == 0 else f'no score by more than {moved:.0e}'}. Lesson 10 is
    about that norm.

    ## Who may be read

    A model that predicts the next word must not look at it. A **causal mask** allows position *i* to read itself and
    what came before. A **padding mask** hides positions that only fill up a row of a batch. Both work in the same place:
    a score that is not allowed becomes −∞ *before* the softmax, so that its share is exactly 0 and the other shares
    still add to 1.

    Below, each row is a query, and the four rows of inputs are vectors of width 2. Scale them, put the norm first, choose
    a mask.
    """)
    return


@app.cell(hide_code=True)
def _(controls, who_reads):
    map_settings = controls(who_reads)
    map_settings
    return (map_settings,)


@app.cell(hide_code=True)
def _(map_settings, who_reads):
    who_reads(**map_settings.value)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Both masks in the engine, with random queries and keys for four positions. First the values are the four unit vectors,
    so that the read of a row is its row of weights, and the weights that are not 0 can be counted. Then the fourth
    position is padding, and its value becomes a million.
    """)
    return


@app.cell
def _(F, Tensor, np):
    _rng = np.random.default_rng(1)
    queries_4, keys_4, values_4 = (Tensor(_rng.standard_normal((4, 3))) for _ in range(3))
    one_hot = Tensor(np.eye(4))  # with these as values, the read is the weights themselves
    causal = F.scaled_dot_product_attention(queries_4, keys_4, one_hot, is_causal=True)
    sees = (causal.array > 0).sum(axis=1)

    padding = np.array([True, True, True, False])  # true = may be read
    before = F.scaled_dot_product_attention(queries_4, keys_4, values_4, attn_mask=padding[None, :])
    _other = Tensor(np.where(padding[:, None], values_4.array, 1e6))
    after = F.scaled_dot_product_attention(queries_4, keys_4, _other, attn_mask=padding[None, :])
    padding_moved = abs(after.array - before.array).max()
    return keys_4, padding_moved, queries_4, sees, values_4


@app.cell(hide_code=True)
def _(mo, padding_moved, sees):
    mo.md(f"""
    Under the causal mask the four rows see {', '.join(map(str, sees))} positions. And the value of a padded position can
    be a million: the reads of the others move by {padding_moved:g}.

    What of a row that may look nowhere at all? All its scores are −∞, and by the formula its shares are 0/0. NumPy says
    `nan`, and one `nan` is enough to spoil every weight of a model in a single step. The engine defines the read of such
    a row as zeros, and its gradient as well: nothing was read, so nothing is written.
    """)
    return


@app.cell
def _(F, Tensor, keys_4, np, queries_4, values_4):
    with np.errstate(all="ignore"):
        _nowhere = np.exp(np.full(4, -np.inf))
        by_formula = _nowhere / _nowhere.sum()

    allowed = np.array([[False] * 4, [True] * 4, [True] * 4, [True] * 4])  # row 1 may look nowhere
    _leaves = [Tensor(t.array, requires_grad=True) for t in (queries_4, keys_4, values_4)]
    nothing = F.scaled_dot_product_attention(*_leaves, attn_mask=allowed)
    nothing.sum().backward()
    finite = all(np.isfinite(leaf.grad.array).all() for leaf in _leaves)
    assert np.isnan(by_formula).all()
    assert not _leaves[0].grad.array[0].any()
    nothing
    return finite, nothing


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Broken on purpose

    The mask could also be laid on the finished weights: set to 0 whatever is not allowed. It looks the same in a
    picture. Try it, and change nothing but the *last* position, which nobody before it may see.
    """)
    return


@app.cell
def _(Tensor, keys_4, np, queries_4):
    def causal_weights(k, mask_first):
        s = queries_4.array @ k.T / 3**0.5
        may = np.tri(4, dtype=bool)
        if mask_first:
            return Tensor(np.where(may, s, -np.inf)).softmax(dim=-1).array
        return Tensor(s).softmax(dim=-1).array * may

    changed = keys_4.array.copy()
    changed[3] += 2.0
    right, late = (abs(causal_weights(changed, m) - causal_weights(keys_4.array, m))[:3].max() for m in (True, False))
    late_sums = causal_weights(keys_4.array, False).sum(axis=1)
    late_sums.round(4)
    return late, late_sums, right


@app.cell(hide_code=True)
def _(late, late_sums, mo, right):
    mo.md(f"""
    Masked before the softmax, the first three rows move by {right:g}. Masked after it, a weight among them moves by
    {late:.3f}: the future has come in through the sum that the shares were divided by. The rows do not add to 1 any more
    either: {', '.join(f'{s:.3f}' for s in late_sums)}. A model trained like that has looked at the answers, and nothing
    raised an error.
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(5, again)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **To carry on with:** a head reads a mixture of values, one weight for each position and the same weight for all
    coordinates. It can reach every point between the values and none beyond. What position 2 held itself came in only as
    one more value: if its weight is small, most of it is gone. Lesson 6 asks what to do with the read.
    """)
    return


@app.cell(hide_code=True)
def _(
    best,
    finite,
    for_first,
    for_second,
    growth,
    left_over,
    moved,
    nothing,
    np,
    padding_moved,
    read_first,
    read_for,
    read_second,
    right,
    sees,
    sharper,
    show,
):
    _reads = np.stack([read_for(s)[1].array for s in np.linspace(-4, 4, 9)])
    numbers = {
        "S7 weight on position 1 for 3/2 in the first coordinate": for_first.array[0],
        "S7 the read with that weight": read_first,
        "S7 weight on position 1 for 3/4 in the second coordinate": for_second.array[0],
        "S7 the read with that weight in turn": read_second,
        "S7 dimension of all reads": int(np.linalg.matrix_rank(_reads - _reads[0], tol=1e-12)),
        "S7 weight nearest to both": best.array[0],
        "S7 squared distance that is left": left_over,
        "S11 scores of twice the input over those of the input": [growth.min(), growth.max()],
        "S11 every row is sharper": bool((sharper[1] < sharper[0]).all()),
        "S11 with RMSNorm first no score moves": bool(moved < 1e-12),
        "S12 positions seen by each row under the causal mask": sees,
        "S12 a padded value moves the reads by": padding_moved,
        "S12 a masked key moves earlier weights by": right,
        "S12 read of a row that may look nowhere": nothing.array[0],
        "S12 its gradients are finite": finite,
    }
    show(numbers)
    return


@app.cell(hide_code=True)
def _(links):
    links(5)
    return


if __name__ == "__main__":
    app.run()
