"""A number that remembers

A program has computed one number from another. How does it know what would have happened, had the first been a little larger?

Systems: none
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="1 · A number that remembers")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from lessons.page import check_button, exercises, links, show
    from viz.figures import graph_walk, walk
    from viz.style import number

    return check_button, exercises, graph_walk, links, mo, number, show, walk


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # A number that remembers

    Training a network asks one question of every number in it, again and again: if this one had been a little larger, how
    much larger would the result have been? The ratio of the two changes is the **derivative**, or slope. To find it for one
    number takes no theory at all: compute twice, a small step apart, and divide.

    Words in bold are explained where they stand. All of them are in the glossary, which the foot of each page leads to.
    """)
    return


@app.cell
def _():
    import viz
    from tinygrad_tf import Tensor

    return Tensor, viz


@app.cell
def _():
    def L(a, b, c):
        return (a * b + c) * a

    step = 1e-4
    measured = (L(2 + step, -3, 10) - L(2 - step, -3, 10)) / (2 * step)
    measured
    return L, measured


@app.cell(hide_code=True)
def _(L, measured, mo, number):
    mo.md(f"""
    At a = 2, b = −3, c = 10 the result is {L(2, -3, 10)}, and a slope of {number(measured)} says: push a up by a hundredth,
    and the result goes down by about two hundredths.

    Measuring is honest, and it is dear. It took two runs to learn about one number. A network with a million numbers would
    have to run two million times before it could change any of them once.

    ## The same by hand, in one walk

    Take the expression apart into single operations, and ask each of them alone. The answers are then easy. When `a` moves a
    little, `a * b` moves `b` times as much; when `d` moves, `d + c` moves just as much.

    Now walk back from the result. It changes as fast as itself, so it gets 1. Each step back multiplies what has arrived by
    the slope of that one operation: this is the **chain rule**. And `a` was used in two places, so two shares come back to
    it. Both moved the result, so they are added.
    """)
    return


@app.cell
def _():
    a, b, c = 2.0, -3.0, 10.0
    d = a * b
    e = d + c  # and the result is L = e * a

    to_L = 1.0
    to_e = to_L * a  # L = e * a: when e moves, L moves a times as much
    to_a = to_L * e  # and the other way round
    to_d, to_c = to_e, to_e  # e = d + c: both move e as much as they move
    to_a += to_d * b  # d = a * b: a was used here too, and its second share is added
    to_b = to_d * a
    f"slope of a: {to_a}, of b: {to_b}, of c: {to_c}"
    return to_a, to_b, to_c


@app.cell(hide_code=True)
def _(mo, number, to_a, to_b, to_c):
    mo.md(f"""
    One walk, and all three slopes are there: {number(to_a)} for a, as measured, {number(to_b)} for b and {number(to_c)} for
    c. A walk costs about as much as a run, however many numbers there are. That is why networks can be trained.

    ## A number that takes notes

    Nobody wants to write that walk for each expression. So let a number take notes while it is computed: what it was made
    from, and with which slope. A dozen lines of Python are enough.
    """)
    return


@app.cell
def _():
    class Number:
        def __init__(self, value, made_from=()):
            self.value, self.made_from, self.grad = value, made_from, 0.0

        def __add__(self, other):
            return Number(self.value + other.value, [(self, 1.0), (other, 1.0)])

        def __mul__(self, other):
            return Number(self.value * other.value, [(self, other.value), (other, self.value)])

    def backward(number, share=1.0):
        number.grad += share
        for source, slope in number.made_from:
            backward(source, share * slope)

    noted = [Number(2.0), Number(-3.0), Number(10.0)]
    backward((noted[0] * noted[1] + noted[2]) * noted[0])
    by_notes = [each.grad for each in noted]
    f"gradients of a, b, c: {by_notes}"
    return Number, backward, by_notes


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    A number that nothing made, here a, b or c, is a **leaf**. What a leaf has collected at the end is its **gradient**:
    the slope of the result with respect to it.

    The engine of this project does the same for whole arrays. Its number is called a **tensor**. With `requires_grad=True` it
    takes notes, `backward()` walks them, and the gradient waits in `grad`.
    """)
    return


@app.cell
def _(L, Tensor, by_notes, measured):
    x, y, z = (Tensor(value, requires_grad=True) for value in (2.0, -3.0, 10.0))
    result = L(x, y, z)
    result.backward()
    gradients = [leaf.grad.item() for leaf in (x, y, z)]
    assert gradients == by_notes
    assert abs(gradients[0] - measured) < 1e-6
    f"gradients of a, b, c: {gradients}"
    return gradients, result


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## The notes are a graph

    One box for each value, one circle for each operation, a line wherever a value was used. Two lines leave `a`: the two
    shares that met above. Each box has its value, `data`, and its gradient, `grad`. What was computed last is on the right.
    """)
    return


@app.cell
def _(Tensor, viz):
    def drawn(a, b, c):
        a, b, c = (Tensor(value, requires_grad=True) for value in (a, b, c))
        with viz.record():
            d = a * b
            e = d + c
            L = e * a
        L.backward()
        return viz.draw(L, view="scalars")

    drawn(2.0, -3.0, 10.0)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Here is the walk, a step at a time: first the values, downwards; then, in violet, the gradients on their way back up.
    Press the button → above it, or click on a box; after a first click the arrow keys work as well, here and in every such
    figure. Watch `a` when its second share arrives.
    """)
    return


@app.cell(hide_code=True)
def _(graph_walk, walk):
    walk(graph_walk, model="an expression")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    A gradient holds for the place where it was taken. Move the three numbers. Is there a b for which a has no influence at
    all, for a moment? (Try a = 2, c = 10 and look for the place where the two shares cancel.)
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    moved = mo.ui.batch(
        mo.hstack(["{a}", "{b}", "{c}"], justify="start", gap=2, wrap=True),
        {
            "a": mo.ui.slider(-3, 3, 0.5, value=2, label="a", show_value=True),
            "b": mo.ui.slider(-4, 4, 0.5, value=-3, label="b", show_value=True),
            "c": mo.ui.slider(-10, 10, 1, value=10, label="c", show_value=True),
        },
    )
    moved
    return (moved,)


@app.cell(hide_code=True)
def _(L, Tensor, mo, moved, number):
    _leaves = [Tensor(float(moved.value[name]), requires_grad=True) for name in "abc"]
    _out = L(*_leaves)
    _out.backward()
    _a, _b, _c = (leaf.grad.item() for leaf in _leaves)
    _e = _out.item() / moved.value["a"] if moved.value["a"] else moved.value["c"]
    _found = " They cancel: for a moment, a has no influence." if _a == 0 else ""
    mo.md(f"""
    L = **{number(_out.item())}**, and the gradients are **{number(_a)}** for a, **{number(_b)}** for b, **{number(_c)}** for
    c.

    The two shares of a: {number(_e)} from `e * a`, and {number(_a - _e)} by way of `a * b`.{_found}

    <details><summary>The place</summary>The shares are e = a · b + c and a · b. For a = 2 and c = 10 that is 2b + 10 and 2b:
    together 4b + 10, which is 0 at b = {number(-10 / 4)}. There L is at its highest, as far as a is concerned.</details>
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Broken on purpose

    One sign in `backward` is easily lost: `+=` becomes `=`, and each share *replaces* what was there. Nothing fails. Most
    gradients are even right: those of numbers that were used once.
    """)
    return


@app.cell
def _(Number):
    def backward_replacing(number, share=1.0):
        number.grad = share  # += is right
        for source, slope in number.made_from:
            backward_replacing(source, share * slope)

    broken = [Number(2.0), Number(-3.0), Number(10.0)]
    backward_replacing((broken[0] * broken[1] + broken[2]) * broken[0])
    replaced = [each.grad for each in broken]
    f"gradients of a, b, c: {replaced}"
    return (replaced,)


@app.cell(hide_code=True)
def _(gradients, mo, number, replaced):
    mo.md(f"""
    The slopes of b and c are still right; a has {number(replaced[0])} in place of {number(gradients[0])}. Its sign is wrong,
    so a network would push a the wrong way, quietly, for ever. In a transformer nearly every value is used more than once.
    Adding is the rule that all the rest stands on.
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(1, again)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **To carry on with:** a gradient is a sum over all paths from a number to the result; along each path, the slopes
    multiply. The walk needs the notes of the run, and nothing else. Next: what the notes of a whole array look like.
    """)
    return


@app.cell(hide_code=True)
def _(Number, backward, gradients, measured, replaced, result, show):
    _cube = Number(2.0)
    backward(_cube * _cube * _cube)
    numbers = {
        "L at (2, −3, 10)": result.item(),
        "slope of a, measured": measured,
        "gradients of a, b, c": gradients,
        "gradients with shares that replace each other": replaced,
        "slope of the cube of 2, by notes": _cube.grad,
    }
    show(numbers)
    return


@app.cell(hide_code=True)
def _(links):
    links(1)
    return


if __name__ == "__main__":
    app.run()
