"""Why the order of backward matters

Every operation knows how to pass a gradient on. Is it not enough to start at the result and let each one do so?

Systems: none
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(
    width="medium",
    app_title="3 · Why the order of backward matters",
)


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from lessons.page import check_button, exercises, links, show
    from viz.figures import graph_walk, walk
    from viz.figures.visits import visits as visits_picture

    return check_button, exercises, graph_walk, links, mo, show, visits_picture, walk


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Why the order of backward matters

    Every operation knows how to pass a gradient on: that was all lessons 1 and 2 needed. So the first program that comes to
    mind is short. Start at the result; give each input its share; go on from that input at once. It works on many
    expressions. On the two lines below it does not, and most people who write an engine of their own find out the hard way.

    ```
    b = a + a
    c = b + b
    ```

    c is four times a, so the slope is 4, whatever a is.

    The number below keeps the notes of lesson 1, what it was made from and with which slope, and can only add: more is not
    needed to go wrong.
    """)
    return


@app.cell
def _():
    import sys

    import viz
    from tinygrad_tf import Tensor, engine, nn

    return Tensor, engine, nn, sys, viz


@app.cell
def _():
    class Number:
        def __init__(self, made_from=()):
            self.made_from, self.grad, self.visits = made_from, 0.0, 0

        def __add__(self, other):
            return Number([(self, 1.0), (other, 1.0)])

    def at_once(number):
        for source, slope in number.made_from:
            source.grad += number.grad * slope
            at_once(source)

    a = Number()
    b = a + a
    c = b + b
    c.grad = 1.0
    at_once(c)
    wrong = a.grad
    wrong
    return Number, at_once, wrong


@app.cell(hide_code=True)
def _(mo, wrong):
    mo.md(f"""
    {wrong:g}, and 4 is right. No slope is wrong here, and no share was lost. Follow it by hand:

    1. c gives b its first share: `b.grad` is 1. We go on from b at once.
    2. b gives a this 1, twice: `a.grad` is 2.
    3. c gives b its second share: `b.grad` is 2. We go on from b again.
    4. b gives a *all it has*, 2, twice: `a.grad` is {wrong:g}. The first share was sent a second time.

    b spoke before it had heard everything. Here you can watch it; then change the order and watch again. Besides the sums of
    above there are the expression of lesson 1, and two layers in a row. Where layers *replace*, the output f(x) of the first
    is all that the second gets: h = f(x). Where they *add*, what came in stays: h = x + f(x), so x is used twice.
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    order = mo.ui.radio(["at once", "newest first"], value="at once", label="Order of backward", inline=True)
    model = mo.ui.dropdown(
        ["a sum used twice", "an expression", "two layers that add", "two layers that replace"],
        value="a sum used twice",
        label="Computation",
        allow_select_none=False,
    )
    mo.hstack([model, order], justify="start", gap=2, wrap=True)
    return model, order


@app.cell(hide_code=True)
def _(graph_walk, model, order, walk):
    walk(graph_walk, model=model.value, order=order.value)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    With the expression of lesson 1, and with layers that replace one another, going on at once happens to be right: nothing
    between a leaf and the result is used twice there. With layers that add it is wrong from the first sum on. A transformer
    is made of such sums. In the figure, choose "two layers that add" and look for the step in which h sends for the second
    time.

    ## A repair that costs too much

    Send on the share that has just arrived, rather than all that has gathered. That was the `backward` of lesson 1. It is
    right always, since it walks every path from the result to a leaf by itself, and a gradient is the sum over these paths.
    """)
    return


@app.cell
def _(Number):
    def each_path(number, share=1.0):
        number.visits += 1
        number.grad += share
        for source, slope in number.made_from:
            each_path(source, share * slope)

    def doubled(n):
        chain = [Number()]
        for _ in range(n):
            chain.append(chain[-1] + chain[-1])
        return chain

    visits, by_paths = {}, {}
    for n in (1, 2, 4, 8, 16):
        chain = doubled(n)
        each_path(chain[-1])
        by_paths[n], visits[n] = chain[0].grad, sum(each.visits for each in chain)
    visits
    return by_paths, doubled, visits


@app.cell(hide_code=True)
def _(mo, visits):
    mo.md(f"""
    The gradient is right, and the program is hopeless. Each sum has two ways back, so n of them have 2ⁿ paths: {visits[16]:,}
    visits for a chain of 16 sums, the leaf's included, as everywhere below. A stack of layers that add has the same form: past
    each f, or through it. GPT-2's smallest model has 24 of them: {2**24:,} paths. Nobody could train it so.

    ## Wait until everything has arrived

    The number of b's shares is known: b was used twice. If b waits for both, it can send their sum on, once. So the order is
    all that has to change: *visit a number only after everything that was made from it*. Such an order is a
    **topological order**. Each number is visited once, each line walked once.

    One such order is there for free. A number is always made after what it is made of. So the order in which the numbers were
    made, walked backwards, never comes too early: the **newest first**. It is not the only one. Numbers that have nothing to
    do with each other may be visited in any order; all such orders give the same sums.

    In the program below, `made` is the list of all numbers in the order of their making; its last is the result.
    """)
    return


@app.cell
def _(doubled):
    def newest_first(made):
        made[-1].grad = 1.0
        for number in reversed(made):
            for source, slope in number.made_from:
                source.grad += number.grad * slope

    two, long = doubled(2), doubled(16)
    newest_first(two)
    newest_first(long)
    right = two[0].grad
    f"two sums: {right}; 16 sums: {long[0].grad}"
    return long, newest_first, right


@app.cell(hide_code=True)
def _(long, mo, right):
    mo.md(f"""
    {right:g}, as it should be, and {long[0].grad:,.0f}, which is 2¹⁶, with {len(long)} visits: one for each sum and one for
    the leaf. No line of the rule has changed. It is the same multiplication and the same addition as in the wrong program;
    they only happen later, when there is nothing more to come.
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Move n. Drawn to scale, the upper bar would soon leave the page; so each mark stands for ten times the one before it.
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    sums = mo.ui.slider(1, 16, value=10, label="sums, n", show_value=True)
    sums
    return (sums,)


@app.cell(hide_code=True)
def _(sums, visits_picture):
    visits_picture(sums.value)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## The same by the engine

    The engine's notes are called nodes: a **node** is one call of an op, with its inputs, its rule, and the count at which it
    was made. `backward()` always takes the newest that waits, so it comes to each of them once. `engine.history` lists them
    in that order. Two sums are two nodes; a leaf is no call, it only collects what arrives.
    """)
    return


@app.cell
def _(Tensor, engine, right):
    x = Tensor(3.0, requires_grad=True)
    y = x + x
    z = y + y
    nodes = engine.history(z.node)
    z.backward()
    assert x.grad.item() == right
    f"{len(nodes)} nodes, slope {x.grad.item():g}"
    return nodes, x


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Where the paths come from in a real block

    Two layers that add, as the engine records them: `nn.Residual(f)` computes x + f(x), and its f, here an `nn.Linear`, is the
    branch. The orange line is the **skip path**: what came in goes on unchanged past the branch, and both meet in the sum.
    Each sum doubles the number of ways back. Count them from the end to `x`: past both branches, through the first, through
    the second, through both.
    """)
    return


@app.cell
def _(Tensor, nn, viz):
    def stack():
        x = Tensor([[1.0, -0.5]], requires_grad=True)
        layers = nn.Sequential(nn.Residual(nn.Linear(2, 2)), nn.Residual(nn.Linear(2, 2)))
        return viz.draw(layers(x), view="modules", legend=False)

    stack()
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Broken on purpose, once more

    There is a second trap in the short programs. They call themselves once for every step along a path, and Python allows
    about a thousand such calls within each other. A text of a few thousand characters, read one after the other, is deeper
    than that. A loop over a list has no such limit.
    """)
    return


@app.cell
def _(Number, Tensor, at_once, newest_first):
    deep, fate = [Number()], "came to its end"
    for _ in range(20_000):
        deep.append(deep[-1] + Number())
    try:
        at_once(deep[-1])
    except RecursionError as error:
        fate = type(error).__name__
    newest_first(deep)

    leaf = Tensor(0.0, requires_grad=True)
    total = leaf
    for _ in range(20_000):
        total = total + 1.0
    total.backward()
    f"{fate}; {deep[0].grad}; {leaf.grad.item()}"
    return deep, fate, leaf


@app.cell(hide_code=True)
def _(deep, fate, leaf, mo, sys):
    mo.md(f"""
    Sending at once ends in a `{fate}`, at {sys.getrecursionlimit():,} calls. The loop gives {deep[0].grad:g}, and so does the
    engine, {leaf.grad.item():g}: its walk is a loop too, and so is everything else in it that follows a graph, from drawing
    to freeing memory.
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(3, again)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **To carry on with:** a gradient is passed on when it is complete, and not before. The newest first does that, visits each
    node once, and needs no recursion. Next: what to do with a gradient once you have one.
    """)
    return


@app.cell(hide_code=True)
def _(by_paths, deep, fate, leaf, long, nodes, right, show, visits, wrong, x):
    numbers = {
        "b = a + a, c = b + b: at once": wrong,
        "the same, each path by itself": by_paths[2],
        "the same, newest first": right,
        "the same, by the engine": x.grad.item(),
        "nodes of the engine for two sums": len(nodes),
        "visits for 1, 2, 4, 8, 16 sums, each path by itself": list(visits.values()),
        "visits for 16 sums, newest first": len(long),
        "gradient through 16 sums": long[0].grad,
        "20,000 sums in a row, at once": fate,
        "20,000 sums in a row, newest first": deep[0].grad,
        "20,000 sums in a row, the engine": leaf.grad.item(),
    }
    show(numbers)
    return


@app.cell(hide_code=True)
def _(links):
    links(3)
    return


if __name__ == "__main__":
    app.run()
