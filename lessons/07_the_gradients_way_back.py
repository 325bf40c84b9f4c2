"""The gradient's way back

A loss is computed at the end of a deep stack. How does its gradient get back to the first layer without fading away?

Systems: S3, S4
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(app_title="7 · The gradient's way back", width="medium")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from lessons.page import check_button, exercises, links, show

    return check_button, exercises, links, mo, show


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # The gradient's way back

    The first layer of a model learns from a gradient that has come through all the others. Each layer on its way
    multiplies it by its **local slope**: how fast its output changes with its input. Ten layers with a slope of one
    half, and one part in a thousand is left. For some years that kept networks shallow.

    The smallest stack that shows it has one number a layer. Each layer computes F(x) = tanh(x/2). (tanh rises from −1 to 1
    in the shape of an S: steep around 0, flat far from it.) How fast F changes with x is written F′, and here it is ½ (1 −
    tanh²(x/2)).

    The stack starts with x₀ = 1. *Plain*, a layer replaces: x ← F(x), and its slope is F′(x). *Residual*, it adds: x ← x +
    F(x). Then its slope is 1 + F′(x), because x changes as fast as itself. F is now a branch beside the skip path. Plain
    Python does for both.
    """)
    return


@app.cell
def _():
    import math

    def walk(depth, add):
        """For each layer: its input, F′ there, and how fast its output changes with x₀."""
        x, running, rows = 1.0, 1.0, []
        for _ in range(depth):
            slope = 0.5 * (1 - math.tanh(x / 2) ** 2)
            running *= 1 + slope if add else slope  # chain rule: slopes along a path multiply
            rows.append((x, slope, running))
            x = x + math.tanh(x / 2) if add else math.tanh(x / 2)
        return rows

    plain, added = walk(5, add=False), walk(5, add=True)
    return added, plain, walk


@app.cell(hide_code=True)
def _(added, mo, plain):
    def _table(name, slope, rows):
        lines = [f"| {name}&nbsp;{k} | {x:.4f} | {s:.4f} | **{g:.4f}** |" for k, (x, s, g) in enumerate(rows, 1)]
        head = [f"| layer | input x | {slope} | running gradient |", "| --- |" + " ---: |" * 3]
        return mo.md("\n".join(head + lines)).text

    _left = _table("plain", "slope F′", plain)
    _right = _table("residual", "1 + F′", [(x, 1 + s, g) for x, s, g in added])
    mo.vstack(
        [
            mo.Html(f"<div style='display: flex; flex-wrap: wrap; gap: 1rem 3rem'><div>{_left}</div><div>{_right}</div></div>"),
            mo.md(
                f"A gradient of 1 has become {plain[-1][2]:.4f} after five plain layers, and {added[-1][2]:.4f} after five "
                f"residual ones. The tables multiply from the first layer on; backward multiplies the "
                f"same slopes "
                "from the last one back. The product at the end is the same."
            ),
        ]
    )
    return


@app.cell
def _():
    import numpy as np

    import viz
    from tinygrad_tf import Tensor, grad, nn
    from tinygrad_tf.nn import residual

    return Tensor, grad, nn, np, residual, viz


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    The engine knows nothing of this formula. It has a rule for `tanh`, one for the product and one for the sum, and
    walks back.
    """)
    return


@app.cell
def _(Tensor, added, grad, np, plain, residual):
    def half_tanh(x):
        return (x * 0.5).tanh()

    def stack(depth, add, F=half_tanh):
        """The first and the last number of a stack."""
        x0 = x = Tensor(1.0, requires_grad=True, dtype=np.float64)
        for _ in range(depth):
            x = residual(x, F(x)) if add else F(x)
        return x0, x

    def gradient(depth, add, F=half_tanh):
        x0, y = stack(depth, add, F)
        return grad(y, x0)[0].item()

    assert np.isclose(gradient(5, add=False), plain[-1][2])
    assert np.isclose(gradient(5, add=True), added[-1][2])
    deep = {depth: (gradient(depth, add=False), gradient(depth, add=True)) for depth in (5, 10, 20)}
    return deep, gradient, stack


@app.cell(hide_code=True)
def _(deep, mo):
    from viz.figures.gradient_walk import shown

    mo.md(
        "| layers | plain | residual |\n| ---: | ---: | ---: |\n"
        + "\n".join(f"| {n} | {shown(p)} | {r:.3f} |" for n, (p, r) in deep.items())
        + f"\n\nAt twenty layers the plain stack hands {shown(deep[20][0])} of the gradient to its first number. A learning "
        "rate that suits the last layer would leave the first where it is: the **vanishing gradient**. The residual stack has "
        "stopped "
        "changing: as x grows, tanh flattens, F′ goes to 0 and the factor 1 + F′ goes to 1."
    )
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Here are three layers of each, drawn backward: the arrows point the way the gradient goes, from y to x₀, each with the
    size of what it carries. In the plain stack there is one road, and every op on it takes its toll.
    """)
    return


@app.cell
def _(stack, viz):
    _x0, _y = stack(3, add=False)  # names with _ are known in this cell alone
    viz.draw(_y, grads="edges", names={"x0": _x0}, title="Three layers that replace: one road back", legend=False)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    In the residual stack a gradient that reaches a plus is copied, whole, onto both roads: a sum changes as fast as
    either of its terms. The orange road leads from plus to plus with nothing on it. Where the roads meet again, what
    comes from the branch is added. (The plus of the last layer is the octagon at the bottom, marked `residual`: backward
    starts there, and where it starts the picture says which op it was.)
    """)
    return


@app.cell
def _(stack, viz):
    _x0, _y = stack(3, add=True)
    viz.draw(_y, grads="edges", names={"x0": _x0}, title="Three layers that add: the orange road has no toll", legend=False)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Now walk. The gradient starts as 1 at the output, below, and every step takes it up through one layer. The bars stand
    on a logarithmic scale, the same for both stacks, and the dashed line is 1. (Arrow keys work once the figure has been
    clicked; a click on any row goes there.)
    """)
    return


@app.cell(hide_code=True)
def _():
    from viz.figures import controls, gradient_walk
    from viz.figures import walk as steps

    settings = controls(gradient_walk)
    settings
    return gradient_walk, settings, steps


@app.cell(hide_code=True)
def _(gradient_walk, settings, steps):
    steps(gradient_walk, **settings.value)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Vectors: the same two roads

    With vectors the slope becomes a matrix, the **Jacobian** J: how fast each output changes with each input. When a
    gradient g arrives at y = x + F(x), the chain rule gives

    $$ \text{gradient at } x \;=\; g + J_F^{\top} g . $$

    The first g came along the skip path and met nothing. The second went through the branch. Take as branch four layers
    that a transformer has (GELU, lesson 9, is a ReLU without its corner), and ask the engine for each part by itself. A walk
    back clears the graph as it goes, since that saves memory; `retain_graph=True` keeps it for the next.
    """)
    return


@app.cell
def _(Tensor, grad, nn, np, residual):
    _rng = np.random.default_rng(0)
    _layers = nn.RMSNorm(4), nn.Linear(4, 6, generator=_rng), nn.GELU(), nn.Linear(6, 4, generator=_rng)
    branch = nn.Sequential(*_layers).double()  # float64
    x = Tensor(_rng.standard_normal(4), requires_grad=True)
    g = Tensor(_rng.standard_normal(4))  # what arrives at y

    update = branch(x)
    (through_branch,) = grad(update, x, g, retain_graph=True)
    (total,) = grad(residual(x, update), x, g, retain_graph=True)
    direct = total.array - through_branch.array
    assert np.allclose(direct, g.array)
    np.stack([direct, through_branch.array, total.array]).round(4)
    return branch, direct, g, through_branch, total, update, x


@app.cell(hide_code=True)
def _(direct, g, mo, through_branch, total):
    mo.md(f"""
    Three rows: what came directly, what came through the branch, and their sum. The direct one is g itself: they differ
    by {abs(direct - g.array).max():.0e}, which is rounding. The share of the branch can help or hinder: here the norms
    are {(direct**2).sum() ** 0.5:.3f} directly, {(through_branch.array**2).sum() ** 0.5:.3f} through the branch and
    {(total.array**2).sum() ** 0.5:.3f} together.

    Is the second row Jᵀg? Row i of the Jacobian is the gradient of output i alone, so four walks back give all of it. And
    it can be measured without any backward: move one input a little to either side, and see how the outputs change.
    """)
    return


@app.cell
def _(Tensor, branch, g, grad, np, through_branch, update, x):
    jacobian = np.stack([grad(update[i], x, retain_graph=True)[0].array for i in range(4)])

    _after, _before = (branch(Tensor(x.array + h)).array for h in (1e-6 * np.eye(4), -1e-6 * np.eye(4)))
    measured = (_after - _before).T / 2e-6  # row j of both: input j was moved

    assert np.allclose(jacobian, measured, atol=1e-8)
    assert np.allclose(through_branch.array, jacobian.T @ g.array)
    return jacobian, measured


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Both agree, and Jᵀg is what came through the branch; g itself is what the skip path adds to it.

    ## Broken on purpose

    "With a skip path a gradient can neither vanish nor explode." That is often said. Four branches put it to the test, ten
    layers each.
    """)
    return


@app.cell
def _(deep, gradient):
    ten = {
        "tanh(x/2)": deep[10][1],
        "x/2": gradient(10, add=True, F=lambda x: x * 0.5),
        "-x/2": gradient(10, add=True, F=lambda x: x * -0.5),
        "-x": gradient(10, add=True, F=lambda x: x * -1.0),
    }
    ten
    return (ten,)


@app.cell(hide_code=True)
def _(mo, ten):
    mo.md(f"""
    The linear branch x/2 multiplies by 1.5 each time: {ten['x/2']:.1f} after ten layers, an **exploding gradient**. The
    branch −x/2 leaves half of it each time, {ten['-x/2']:.5f} in the end, as bad as the plain stack. The branch −x
    cancels it: what arrives is exactly {ten['-x']:g}, from the first layer on. The formula says where the gradient *can*
    go, not how much of it arrives. What makes the skip path work is that branches are kept small: small weights at the
    start, a norm before each branch, in some models a learned factor that begins at 0.01. Then every factor is near 1,
    and the product of a hundred such factors is still something that a first layer can learn from.

    Choose `−x/2` and then `−x` in the figure above, and walk again: under `−x` the plain stack passes the gradient on
    whole, and it is the residual one that loses it. `0` is the silent branch of lesson 6. Replaced, nothing comes back;
    added, the 1 arrives as it left.
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(7, again)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **To carry on with:** going back, a plain layer multiplies the gradient by its slope, a residual layer by 1 plus its
    slope. The 1 is the skip path. It makes depth possible as long as the branches stay small beside it.
    """)
    return


@app.cell(hide_code=True)
def _(
    added,
    deep,
    direct,
    g,
    jacobian,
    measured,
    np,
    plain,
    show,
    ten,
    through_branch,
    total,
    walk,
):
    numbers = {
        "S3 direct path is g": bool(np.allclose(direct, g.array, atol=1e-12)),
        "S3 through the branch is the Jacobian transposed times g": bool(
            np.allclose(through_branch.array, jacobian.T @ g.array, atol=1e-12)
        ),
        "S3 their sum is the gradient": bool(np.allclose(total.array, g.array + jacobian.T @ g.array, atol=1e-12)),
        "S3 the Jacobian is the measured one": bool(np.allclose(jacobian, measured, atol=1e-8)),
        "S4 plain inputs": [row[0] for row in plain],
        "S4 plain slopes": [row[1] for row in plain],
        "S4 plain running gradient": [row[2] for row in plain],
        "S4 residual inputs": [row[0] for row in added],
        "S4 residual slopes": [row[1] for row in added],
        "S4 residual factors": [1 + row[1] for row in added],
        "S4 residual running gradient": [row[2] for row in added],
        "S4 plain, 5 layers": deep[5][0],
        "S4 plain, 10 layers": deep[10][0],
        "S4 plain, 20 layers": deep[20][0],
        "S4 residual, 5 layers": deep[5][1],
        "S4 residual, 10 layers": deep[10][1],
        "S4 residual, 20 layers": deep[20][1],
        "S4 residual with F = x/2, 10 layers": ten["x/2"],
        "S4 by hand and by the engine the same": bool(np.isclose(walk(20, add=True)[-1][2], deep[20][1])),
    }
    show(numbers)
    return


@app.cell(hide_code=True)
def _(links):
    links(7)
    return


if __name__ == "__main__":
    app.run()
