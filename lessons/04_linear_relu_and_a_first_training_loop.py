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
    from viz.figures.fitting import RATES, STEPS, TARGETS, fitting, train

    return RATES, STEPS, TARGETS, check_button, exercises, fitting, links, mo, show, train


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Linear, ReLU and a first training loop

    A network begins with random numbers, and nobody ever tells it which ones would be right. It is told only how wrong its
    answers are: one number, the loss. The gradient of the loss says of every parameter in which direction it makes the
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

    return Tensor, nn, np, optim, viz


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
    is as short: where the number was positive the gradient goes through as it is, elsewhere 0 arrives. Put it between two
    Linear layers, and each number between them is a **unit**: a weighted sum of the inputs, plus a bias, bent. Where it bends,
    its weight and its bias choose. Two units are enough for |x|, and you can set them by hand.
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
    return bent, exact, z


@app.cell(hide_code=True)
def _(exact, mo, z):
    _kept, _passed = (", ".join(f"{value:g}" for value in values.tolist()) for values in (z.relu(), z.grad))
    mo.md(f"""
    relu(x) + relu(−x) = |x|, and the loss is exactly {exact:g}. Of −2, 0 and 3, ReLU makes {_kept}; of three gradients of 10
    that arrive there, {_passed} come through.

    The two linear maps and the bend between them are a network: an **MLP**, multi-layer perceptron. This is the graph of
    these two units, with the loss at its end. Each Linear is one box with its two parameters.
    """)
    return


@app.cell
def _(Tensor, bent, viz, x, y):
    viz.draw((bent(Tensor(x)) - Tensor(y)).square().mean(), legend=False)
    return


@app.cell(hide_code=True)
def _(mo, np, train):
    _flat = train("|x|", 8, rate=1.0)[1]
    _off = int(np.argmax(np.ptp(_flat, axis=1) == 0))
    _high, _low = (f"{value:.2f}".replace("-", "−") for value in sorted(_flat[-2:, 0], reverse=True))
    _many = [train("a wave", 32, rate=rate)[0][-1] for rate in (0.1, 0.3)]
    mo.md(f"""
    ## Let it find the numbers itself

    Now with random numbers to begin with. Walk through the steps, and watch the bends find their places. Then make it harder:
    a wave bends more often than |x| and needs more units; a step jumps, where a sum of bends can only climb steeply.

    And try the learning rates. Too small a rate is slow. Too large a one throws the bends away: with 8 units on |x| and a rate
    of 1, every ReLU is off for all 41 points after {_off} steps. Only the last bias still learns then, and each step throws it
    from one side of the goal to the other: the output is a flat line, by turns at {_high} and at {_low}, for
    ever. The more units have a share in the output, the smaller a rate they bear: 32 of them come to a loss of
    {_many[0]:.3f} on the wave at a rate of 0.1, and to {_many[1]:.3f} at 0.3.
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
    return curves, flat, hoarding


@app.cell(hide_code=True)
def _(curves, flat, hoarding, mo, np):
    mo.md(f"""
    It has lost its bends on the way: between the highest and the lowest point of the curve there is a difference of
    {np.ptp(flat):g} left. Every ReLU was pushed to where it is off for all 41 points, and through a ReLU that is off no
    gradient comes back. What still moves is the last bias, so the flat line goes up and down, like a ball that rolls through
    a valley without friction: in the last 100 steps between {curves[-100:, 0].min():.2f} and {curves[-100:, 0].max():.2f},
    and the loss between {hoarding[-100:].min():.3f} and {hoarding[-100:].max():.3f}. Nothing in the program is an error. If a
    loss of yours does not want to fall, look here first.
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
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
