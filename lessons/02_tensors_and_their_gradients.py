"""Tensors and their gradients

A tensor holds thousands of numbers. What shape is its gradient, and what if a small tensor was used many times?

Systems: none
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="2 · Tensors and their gradients")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from lessons.page import check_button, exercises, links, show
    from viz.figures import graph_walk, walk
    from viz.figures.broadcasting import SHAPES, broadcasting

    return SHAPES, broadcasting, check_button, exercises, graph_walk, links, mo, show, walk


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Tensors and their gradients

    A gradient answers one question for each number: how fast does the result change when this number does? A tensor is an
    array of such numbers, so there is one answer for each of its elements. Hence the first fact, and it never fails: *the
    gradient of a tensor has the shape of the tensor*. When a shape does not fit, something is wrong, and it is worth finding
    out what.

    The **shape** says how many numbers lie along each axis. `x` below is (4, 3): four rows, each of three numbers. `w` is
    (3, 2), so their product is (4, 2). To have one result, its eight elements are added up, each as often as `g` says.
    """)
    return


@app.cell
def _():
    import numpy as np

    import viz
    from tinygrad_tf import Tensor, nn, ops

    return Tensor, nn, np, ops, viz


@app.cell
def _(np):
    x = np.array([[1.0, 2.0, 0.0], [0.0, -1.0, 3.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])
    w = np.array([[0.5, -1.0], [2.0, 0.0], [1.0, 1.0]])
    g = np.array([[1.0, 0.0], [2.0, -1.0], [0.0, 3.0], [1.0, 1.0]])

    def result(w):
        return float((g * (x @ w)).sum())

    def measured(f, w, step=1e-3):
        grad = np.zeros_like(w)
        for place in np.ndindex(w.shape):
            up, down = w.copy(), w.copy()
            up[place] += step
            down[place] -= step
            grad[place] = (f(up) - f(down)) / (2 * step)
        return grad

    slow = measured(result, w)
    slow.round(6)
    return g, measured, result, slow, w, x


@app.cell(hide_code=True)
def _(g, mo, slow, w, x):
    _terms = " + ".join(f"{a:g} · {b:g}" for a, b in zip(x[:, 0], g[:, 0]))
    mo.md(f"""
    That took {2 * w.size} runs for the {w.size} elements of w. Follow one of them, w[0, 0]: in each row of the product it was
    multiplied by the first number of that row of x, and what came of it counts as often as the first number of that row of g
    says. So its slope is {_terms} = {slow[0, 0]:g}: the first column of x times the first column of g.

    ## The rule of a matrix product, by hand

    g is also the gradient that arrives at the product: one number for each of its elements, how fast the result grows when
    that element does. What goes on from there to w has the shape of w, (3, 2). From x, (4, 3), and g, (4, 2), only one
    product has it: **xᵀ @ g**, each column of x times each column of g. And what goes to x is (4, 3): from g, (4, 2), and w,
    (3, 2), only **g @ wᵀ** is. As long as the three lengths differ, the shapes leave no other choice, which is a good way
    to find the two again.
    """)
    return


@app.cell
def _(g, np, slow, w, x):
    to_w = x.T @ g
    to_x = g @ w.T
    assert np.allclose(to_w, slow)
    to_w
    return to_w, to_x


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## The same by the engine

    In this engine an **op** is a plain NumPy function that returns two things: its value, and its **rule**, which says what
    each input gets when g arrives. With `.raw` you can call one without any tape around it. The rule of `matmul` is what you
    have just worked out.
    """)
    return


@app.cell
def _(g, np, ops, to_w, to_x, w, x):
    product, (rule_x, rule_w) = ops.matmul.raw(x, w)
    assert np.array_equal(product, x @ w)
    assert np.allclose(rule_x(g), to_x)
    assert np.allclose(rule_w(g), to_w)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    A `Tensor` calls the same function, keeps the rule, and uses it when the gradient comes. So nothing is left to write:
    """)
    return


@app.cell
def _(Tensor, g, np, to_w, to_x, w, x):
    X, W = Tensor(x, requires_grad=True), Tensor(w, requires_grad=True)
    (g * (X @ W)).sum().backward()
    assert np.allclose(W.grad.numpy(), to_w)
    assert np.allclose(X.grad.numpy(), to_x)
    W.grad
    return (W,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Why the `.sum()`? A slope compares the change of *one* number with the change of another. From a whole array there is no
    such thing, and the engine says so. Either make one number of it, as every **loss** is one: the number that says how wrong
    a model's answers are. Or hand over how much each element is to count, as in `(X @ W).backward(g)`.
    """)
    return


@app.cell
def _(Tensor, w, x):
    try:
        (Tensor(x) @ Tensor(w, requires_grad=True)).backward()
    except RuntimeError as error:
        refused = str(error)
    return (refused,)


@app.cell(hide_code=True)
def _(mo, refused):
    mo.md(f"""
    It says: *{refused}*.

    ## A small tensor that is used many times

    A layer adds the same three numbers, its **bias**, to each row of a (4, 3) array. NumPy and tensors allow that without a
    loop: the bias, of shape (3,), is repeated along the rows. This is **broadcasting**. Now think of lesson 1: each element
    of the bias was used four times, and shares add. So its gradient is the sum of g over the rows, and has the shape (3,)
    again.
    """)
    return


@app.cell
def _(Tensor, np):
    arriving = np.random.default_rng(0).standard_normal((4, 3)).round(1)
    rows, bias = Tensor(np.zeros((4, 3))), Tensor(np.zeros(3), requires_grad=True)
    (rows + bias).backward(arriving)
    assert np.allclose(bias.grad.numpy(), arriving.sum(axis=0), atol=1e-6)
    bias.grad
    return arriving, bias


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Choose another shape for b. Each of its elements collects what arrives at the places where it was used; where b has more
    than one element, the slider goes from one to the next.
    """)
    return


@app.cell(hide_code=True)
def _(SHAPES, mo):
    shape = mo.ui.dropdown(list(SHAPES), value="(3,)", label="shape of b", allow_select_none=False)
    return (shape,)


@app.cell(hide_code=True)
def _(SHAPES, mo, np, shape):
    _last = int(np.prod(SHAPES[shape.value])) - 1
    element = mo.ui.slider(0, _last, value=0, label="element", show_value=True) if _last else None
    mo.hstack([shape, element] if _last else [shape], justify="start", gap=2, wrap=True)
    return (element,)


@app.cell(hide_code=True)
def _(broadcasting, element, shape):
    broadcasting(shape.value, element.value if element is not None else 0)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## The graph of two layers

    Whole arrays make the graph small again: one box for each op, however many numbers pass through it. The **parameters**,
    the numbers that training will change, stand at the side; here they are two matrices and two biases, and each box says its
    shape. Between the two layers stands tanh, a curve that brings any number between −1 and 1. The loss is the mean of the
    squares of what comes out.
    """)
    return


@app.cell
def _(Tensor, nn, np, viz):
    def two_layers():
        rng = np.random.default_rng(1)
        x = Tensor(rng.standard_normal((4, 3)))
        w1, b1 = nn.Parameter(rng.standard_normal((3, 5))), nn.Parameter(np.zeros(5))
        w2, b2 = nn.Parameter(rng.standard_normal((5, 1))), nn.Parameter(np.zeros(1))
        hidden = (x @ w1 + b1).tanh()
        loss = (hidden @ w2 + b2).square().mean()
        loss.backward()
        return loss, viz.draw(loss)

    loss, picture = two_layers()
    picture
    return (loss,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    And the walk through two such layers, without biases and with one row for x, small enough for every number to be seen. A
    layer of the engine stores its matrix turned round, one row for each output. So it computes x Wᵀ where you had x @ w, and
    the two rules are turned as well: x gets g @ W, and W gets gᵀ @ x, where x and g are rows, (1, 2). Watch the step in which
    W₂ gets its gradient, in violet: it has the shape of W₂.
    """)
    return


@app.cell(hide_code=True)
def _(graph_walk, walk):
    walk(graph_walk, model="two layers that replace")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Broken on purpose

    The raw rule of `add` passes g on as it is; summing over the repeated axis is the engine's part. What if nobody did it?
    Training takes a small part of the gradient away from each parameter, here a tenth. Do that with the raw share of the
    bias, and look at the shape of what comes out.
    """)
    return


@app.cell
def _(arriving, bias, np, ops):
    _, (_, share_of_bias) = ops.add.raw(np.zeros((4, 3)), np.zeros(3))
    unsummed = share_of_bias(arriving)
    trained = np.zeros(3) - 0.1 * unsummed
    right = np.zeros(3) - 0.1 * bias.grad.numpy()
    f"right: {right.shape}; without the sum: {trained.shape}"
    return right, trained


@app.cell(hide_code=True)
def _(mo, right, trained):
    mo.md(f"""
    The bias is now {trained.shape}: a different one for each of the four rows, and no error anywhere. NumPy broadcast the
    subtraction just as willingly as the addition. It goes wrong later, in another place, when an input has another number of
    rows. A gradient has the shape of its tensor, {right.shape}; the engine checks that for every rule.
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(2, again)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **To carry on with:** the gradient has the shape of the tensor; a product passes `g @ wᵀ` and `xᵀ @ g`; what was repeated
    going forward is summed coming back. Next: in which order the boxes are to be visited, and what happens in any other.
    """)
    return


@app.cell(hide_code=True)
def _(
    W,
    arriving,
    bias,
    loss,
    measured,
    np,
    refused,
    result,
    right,
    show,
    slow,
    trained,
    w,
):
    numbers = {
        "sum of g times x @ w": result(w),
        "gradient of w, measured": slow,
        "gradient of w, by the engine": W.grad,
        "runs to measure it": 2 * w.size,
        "backward of an array": refused,
        "bias gradient minus the sum over rows": float(np.abs(bias.grad.numpy() - arriving.sum(0)).max()),
        "shape of the bias after a step": str(right.shape),
        "shape without the sum": str(trained.shape),
        "loss of two layers": loss.item(),
        "slope of a sum of squares at (1, 2), measured": measured(lambda v: float((v**2).sum()), np.array([1.0, 2.0])),
    }
    show(numbers)
    return


@app.cell(hide_code=True)
def _(links):
    links(2)
    return


if __name__ == "__main__":
    app.run()
