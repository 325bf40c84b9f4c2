"""Linear, ReLU and a first training loop

A network begins with random numbers. How does it come to compute something?

Systems: none
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(
    width="medium",
    app_title="4 · Linear, ReLU and a first training loop",
)


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from lessons.page import check_button, exercises, links, show

    return check_button, exercises, links, mo, show


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Linear, ReLU and a first training loop

    A network begins with random numbers, and nobody ever tells it which ones would be right. It is told only how wrong its
    answers are: one number, the **loss**. The gradient of the loss says of every parameter in which direction it makes the
    answers more wrong. So take a small step in the other direction, all at once, and ask again. That is all:
    **gradient descent**.

    Here are 41 points of a curve with a bend in it, y = |x|. First a straight line, y = w·x + b, with both gradients by hand.
    The loss is the mean of the squared errors; the slope of e² is 2e.
    """)
    return


@app.cell
def _():
    import numpy as np

    import viz
    from tinygrad_tf import Tensor, nn, optim
    from viz.figures.fitting import RATES, STEPS, TARGETS, fitting, train

    return RATES, STEPS, TARGETS, Tensor, fitting, nn, np, optim, train, viz


@app.cell
def _(np):
    x = np.linspace(-1, 1, 41)[:, None]  # (41, 1): 41 inputs of one number each
    y = np.abs(x)

    w, b, by_hand = 0.5, 0.0, []
    for _ in range(100):
        error = w * x + b - y
        by_hand.append((error**2).mean())
        w -= 0.3 * (2 * error * x).mean()  # w moves the output x times as much
        b -= 0.3 * (2 * error).mean()  # b moves it just as much
    f"loss {by_hand[0]:.4f}, then {by_hand[-1]:.4f}"
    return b, by_hand, w, x, y


@app.cell(hide_code=True)
def _(b, by_hand, mo, w, y):
    mo.md(f"""
    The loss falls from {by_hand[0]:.4f} to {by_hand[-1]:.4f}, and there it stays. The line has become flat, w = {abs(w):.1f},
    at the height b = {b:.4f}, the mean of all y: the best that a line can do here. Its loss is the variance of y,
    {y.var():.4f}. The factor 0.3 is the **learning rate**: how far a step goes for each unit of slope.

    ## The same by the engine

    `nn.Linear(1, 1)` is the same line: it holds a matrix `weight` with one row for each output, and a `bias`, and computes
    **x @ weightᵀ + bias**. Five lines make a step, here and in the largest model.
    """)
    return


@app.cell
def _(Tensor, by_hand, nn, np, optim, x, y):
    def trained_line():
        line = nn.Linear(1, 1).double()
        line.weight.array[...], line.bias.array[...] = 0.5, 0.0
        optimizer = optim.SGD(line.parameters(), lr=0.3)
        inputs, targets = Tensor(x), Tensor(y)
        losses = []
        for _ in range(100):
            loss = (line(inputs) - targets).square().mean()  # run, and compare
            optimizer.zero_grad()  # forget the gradients of the step before
            loss.backward()  # which way is worse?
            optimizer.step()  # a small step the other way
            losses.append(loss.item())  # and remember how it went
        return losses

    by_engine = trained_line()
    assert np.allclose(by_engine, by_hand)
    by_engine[-1]
    return (by_engine,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Step by step the same losses. `optim.SGD` is the line `w -= 0.3 * gradient` for every parameter. SGD stands for
    **stochastic gradient descent**, stochastic because a large training shows it a few examples at a time, drawn at random.

    ## A bend

    What a line lacks is a bend. **ReLU** is one: it lets a positive number through, and makes 0 of a negative one. Its rule
    is as short: where the number was positive the gradient goes through as it is, elsewhere 0 arrives. Each unit bends at a
    place that its weight and bias choose. Two of them are enough for |x|, and you can set them by hand.
    """)
    return


@app.cell
def _(Tensor, nn, np, x, y):
    bent = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 1)).double()
    bent[0].weight.array[...], bent[0].bias.array[...] = [[1.0], [-1.0]], 0.0  # x and -x
    bent[2].weight.array[...], bent[2].bias.array[...] = [[1.0, 1.0]], 0.0  # their sum
    exact = (bent(Tensor(x)) - Tensor(y)).square().mean().item()

    z = Tensor([-2.0, 0.0, 3.0], requires_grad=True)
    z.relu().backward(np.array([10.0, 10.0, 10.0]))
    exact
    return exact, z


@app.cell(hide_code=True)
def _(exact, mo, z):
    _kept, _passed = (", ".join(f"{value:g}" for value in values.tolist()) for values in (z.relu(), z.grad))
    mo.md(f"""
    relu(x) + relu(−x) = |x|, and the loss is exactly {exact:g}. Of −2, 0 and 3, ReLU makes {_kept}; of three gradients of 10
    that arrive there, {_passed} come through.

    The two linear maps and the bend between them are a network: an **MLP**,
    multi-layer perceptron. This is its graph. Each Linear is one box with its two parameters.
    """)
    return


@app.cell
def _(Tensor, nn, np, viz, x, y):
    def network_with_loss():
        rng = np.random.default_rng(0)
        network = nn.Sequential(nn.Linear(1, 8, generator=rng), nn.ReLU(), nn.Linear(8, 1, generator=rng))
        inputs, targets = Tensor(x, dtype=np.float32), Tensor(y, dtype=np.float32)
        loss = (network(inputs) - targets).square().mean()
        loss.backward()
        return viz.draw(loss, legend=False)

    network_with_loss()
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Let it find the numbers itself

    Now with random numbers to begin with. Walk through the steps, and watch the bends find their places. Then make it harder:
    a wave needs more units than |x|; a step has a corner that no slope reaches. And try the learning rates. Too small a rate
    is slow; too large a one goes past the goal, further each time.
    """)
    return


@app.cell(hide_code=True)
def _(RATES, STEPS, TARGETS, mo):
    moved = mo.ui.batch(
        mo.hstack(["{target}", "{units}", "{rate}", "{step}"], justify="start", gap=2, wrap=True),
        {
            "target": mo.ui.dropdown(list(TARGETS), value="|x|", label="curve", allow_select_none=False),
            "units": mo.ui.slider(steps=[1, 2, 4, 8, 16, 32], value=8, label="units", show_value=True),
            "rate": mo.ui.slider(steps=list(RATES), value=0.3, label="learning rate", show_value=True),
            "step": mo.ui.slider(0, STEPS, 10, value=20, label="step", show_value=True),
        },
    )
    moved
    return (moved,)


@app.cell(hide_code=True)
def _(fitting, moved):
    fitting(**moved.value)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Broken on purpose: no bend

    Take the ReLU out and leave everything else: two Linear layers, one after the other, and a few hundred steps. A linear map
    of a linear map is a linear map. However many are stacked, the result is one line, and it stops where the line stopped.
    """)
    return


@app.cell
def _(fitting, train):
    without = train("|x|", 8, relu=False)[0]
    with_relu = train("|x|", 8)[0]
    fitting(relu=False)
    return with_relu, without


@app.cell(hide_code=True)
def _(by_hand, mo, with_relu, without):
    mo.md(f"""
    {without[-1]:.4f}, where the best line had {by_hand[-1]:.4f}. With the ReLU, the same eight units come to
    {with_relu[-1]:.6f}.

    ## Broken on purpose: nothing forgotten

    Leave out `zero_grad`. Gradients add up in `grad`; that is what lessons 1 and 2 were about. So the next step goes in the
    direction of this gradient *and* of all before it, and cannot stop when it has arrived.
    """)
    return


@app.cell
def _(fitting, train):
    hoarding, curves = train("|x|", 8, forget=True)
    flat = curves[-1]
    fitting(forget=True)
    return flat, hoarding


@app.cell(hide_code=True)
def _(flat, hoarding, mo, np):
    mo.md(f"""
    It swings, like a ball that rolls through a valley without friction: {hoarding[100]:.3f} after 100 steps,
    {hoarding[200]:.3f} after 200, {hoarding[400]:.3f} after 400. And it has lost its bends on the way: between the highest
    and the lowest point of the curve there is a difference of {np.ptp(flat):g} left. Every ReLU was pushed to where it is off
    for all 41 points, and through a ReLU that is off no gradient comes back. Nothing in the program is an error. If a loss of
    yours does not want to fall, look here first.
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    again
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(4, again)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **To carry on with:** run, compare, forget, backward, step. A Linear layer mixes, a ReLU bends, and without the bend two
    layers are one. Next: a layer that chooses by itself what it reads.
    """)
    return


@app.cell(hide_code=True)
def _(
    by_engine,
    by_hand,
    exact,
    flat,
    hoarding,
    np,
    show,
    with_relu,
    without,
    y,
    z,
):
    numbers = {
        "loss of the line at first": by_hand[0],
        "loss of the line after 100 steps, by hand": by_hand[-1],
        "the same, by the engine": by_engine[-1],
        "variance of |x|": y.var(),
        "loss of two units set by hand": exact,
        "ReLU of −2, 0, 3": z.relu(),
        "what ReLU passes on of 10, 10, 10": z.grad,
        "loss of 8 units after 400 steps": with_relu[-1],
        "without ReLU": without[-1],
        "no better than the best line": bool(np.isclose(without[-1], y.var(), rtol=1e-4)),
        "without zero_grad, the best of 400 steps": hoarding[1:].min(),
        "bends left without zero_grad": float(np.ptp(flat)),
    }
    show(numbers)
    return


@app.cell(hide_code=True)
def _(links):
    links(4)
    return


if __name__ == "__main__":
    app.run()
