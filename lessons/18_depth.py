"""Depth

More layers can do everything that fewer can. Why, then, does a deep plain network learn its training data worse?

Systems: S5
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="18 · Depth")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from lessons.page import check_button, exercises, links, pictures, show
    from viz.reading import Plot

    return Plot, check_button, exercises, links, mo, pictures, show


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Depth

    Take a network of 20 layers that fits its data. Put 36 more on top that do nothing. Now there are 56, and they fit the
    data just as well. So the best network of 56 layers is never worse than the best one of 20, and if training finds
    something worse, the fault lies with the search and not with the network. In 2015 it was found that it does: of two plain
    networks the deeper one had the higher error, on the very data that it was trained on. This is called **degradation**. It
    is not overfitting, which shows on new data only.

    What would a layer have to learn in order to do nothing? Try the two weights that come to mind, zero and the identity, on
    one vector; then zero again, with the input added.
    """)
    return


@app.cell
def _():
    import numpy as np

    import viz
    from tinygrad_tf import Tensor, nn, no_grad, optim
    from tinygrad_tf.nn import functional as F
    from tinygrad_tf.nn.residual import LayerScale

    return F, LayerScale, Tensor, nn, no_grad, np, optim, viz


@app.cell
def _(np):
    x = np.array([1.0, -2.0, 0.5])

    def relu(z):
        return np.maximum(z, 0)

    plain_zero, plain_identity = relu(np.zeros((3, 3)) @ x), relu(np.eye(3) @ x)
    residual_zero = x + relu(np.zeros((3, 3)) @ x)
    np.stack([plain_zero, plain_identity, residual_zero])
    return residual_zero, x


@app.cell(hide_code=True)
def _(mo, x):
    mo.md(f"""
    A plain layer with weights of zero wipes out what it is given. It would have to learn the identity matrix, every one of
    its numbers; and even then ReLU loses the −{-x[1]:g}. With x added, weights of zero *are* the layer that does nothing, and
    small weights one that does little. That is where training begins. The engine's layer says the same:
    """)
    return


@app.cell
def _(Tensor, nn, np, residual_zero, x):
    nothing = nn.Linear(3, 3)
    for _p in nothing.parameters():
        nn.init.zeros_(_p)
    quiet = nn.Residual(nn.Sequential(nothing, nn.ReLU()))
    assert np.array_equal(quiet(Tensor(x, dtype=np.float32)).array, residual_zero)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## The experiment

    One network, with one switch. Each layer is a norm, a linear map and ReLU, 16 numbers wide. With `add` off, what comes out
    replaces what went in; with `add` on, it is added to it. (Two more switches, `norm` and `scale`, stay as they are until
    the end.)
    """)
    return


@app.cell
def _(LayerScale, nn, np):
    def layer(rng, add, norm=True, scale=None):
        parts = [nn.LayerNorm(16)] if norm else []
        parts += [nn.Linear(16, 16, generator=rng), nn.ReLU()]
        parts += [LayerScale(16, scale)] if scale else []
        return nn.Residual(nn.Sequential(*parts)) if add else nn.Sequential(*parts)

    def net(depth, add, **switches):
        """(N, 2) -> (N, 2): points in, the scores of two classes out."""
        rng = np.random.default_rng(2)
        return nn.Sequential({
            "first": nn.Linear(2, 16, generator=rng),
            "layers": nn.Sequential(*(layer(rng, add, **switches) for _ in range(depth))),
            "norm": nn.LayerNorm(16),
            "last": nn.Linear(16, 2, generator=rng),
        })

    return (net,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    A comparison is worth something only if nothing else differs. Both kinds draw their numbers from one generator in one
    order, so a plain and a residual net of the same depth start with the same weights; and a residual layer has no parameter
    that the plain one lacks. An addition is all that they differ in: the orange line, past each layer.
    """)
    return


@app.cell
def _(net, np, viz):
    point = np.ones((1, 2), np.float32)
    viz.draw(net(2, add=True), inputs=point, view="modules", fold="off", title="Two layers, each a side trip")
    return


@app.cell(hide_code=True)
def _(F, Tensor, np, optim):
    def spirals(n, turns):
        """Points (n, 2) and their classes (n,): two arms that wind half `turns` times round the middle."""
        rng = np.random.default_rng(0)
        classes = np.arange(n) % 2
        radius = rng.uniform(0.1, 1, n)
        angle = np.pi * (turns * radius + classes)
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).astype(np.float32), classes

    return (spirals,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    The task: two spirals wound into each other, and for each point the question which of the two it lies on. `turns` says how
    far they wind, and so how hard it is. Every step of training sees all points; the optimizer is AdamW, its rate warmed up
    and then lowered, for all nets alike.
    """)
    return


@app.cell
def _(F, Tensor, optim):
    def train(model, points, classes, steps=250, lr=1e-3):
        """The loss of each step, all points in every one."""
        optimizer = optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0)
        losses = []
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = optim.warmup_cosine(step, lr=lr, warmup=20, total=steps)
            loss = F.cross_entropy(model(Tensor(points)), classes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    return (train,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Four nets. Before running them, put them in order: which will have the lowest loss on these points, and which the highest?
    """)
    return


@app.cell
def _(net, np, spirals, train):
    points, classes = spirals(192, turns=8)
    nets = {f"{'residual' if add else 'plain'} {depth}": net(depth, add) for add in (False, True) for depth in (20, 56)}
    curves = {name: train(each, points, classes) for name, each in nets.items()}
    final = {name: float(np.mean(curve[-10:])) for name, curve in curves.items()}
    return classes, curves, final, nets, points


@app.cell(hide_code=True)
def _(Plot, classes, curves, final, np, pictures, points):
    STYLES = {"plain 20": ("#E69F00", "-"), "plain 56": ("#D55E00", "--"),
              "residual 20": ("#56B4E9", "-"), "residual 56": ("#0072B2", "--")}  # fmt: skip

    def _spirals(figure):
        axes = figure.subplots()
        for kind, colour, mark in ((0, "#D55E00", "o"), (1, "#0072B2", "^")):
            axes.scatter(*points[classes == kind].T, s=14, color=colour, marker=mark)
        axes.set_aspect("equal")
        axes.set_axis_off()
        axes.set_title("two classes, two spirals", fontsize=11)

    def _losses(figure):
        axes = figure.subplots()
        for name, (colour, dash) in STYLES.items():
            smooth = np.convolve(curves[name], np.ones(10) / 10, "valid")
            axes.plot(smooth, dash, color=colour, label=f"{name}: {final[name]:.2f}", linewidth=2)
        axes.axhline(np.log(2), color="grey", linewidth=0.8)
        axes.text(len(smooth), 0.71, "guessing", fontsize=9, color="dimgrey", ha="right")
        axes.set(xlabel="step", ylabel="training loss, nats", ylim=(0, 0.85))
        axes.legend(frameon=False, fontsize=9, loc="lower left")
        axes.spines[["top", "right"]].set_visible(False)

    pictures(Plot((4.4, 3.4), _spirals), Plot((4.4, 3.4), _losses))
    return


@app.cell(hide_code=True)
def _(Tensor, classes, final, mo, nets, no_grad, np, points):
    def wrong(model):
        with no_grad():
            return float((model(Tensor(points)).array.argmax(-1) != classes).mean())

    errors = {name: wrong(model) for name, model in nets.items()}
    _size = {name: sum(p.numel() for p in model.parameters()) for name, model in nets.items()}
    mo.md(f"""
    Plain: {final["plain 20"]:.3f} with 20 layers and {final["plain 56"]:.3f} with 56, next to the {np.log(2):.3f} of
    guessing. The deeper one still has {errors["plain 56"]:.0%} of its own training points wrong. Residual:
    {final["residual 20"]:.3f} with 20 layers, {final["residual 56"]:.3f} with 56, and {errors["residual 56"]:.0%} wrong. The
    same layers, the same start; depth hurts the one and helps the other.

    Two wrong explanations suggest themselves. Too small a net? The worst of the four has {_size["plain 56"]:,} parameters for
    {len(points)} points, and the one of 20 layers does better with {_size["plain 20"]:,}. Overfitting? These are the points
    it was trained on, no others were looked at. Had only fresh points been measured, that error would have been easy to make.

    ## What the first layer hears

    If the search is at fault, look at what it has to go by. Before the first step, ask each layer how the loss would change
    with its weights: the size of their gradient. The first picture is the size of what each layer passes on, the second the
    gradient of its weights, both by powers of ten. Move the depth. Then take the norms away. Then go over to residual.
    """)
    return (errors,)


@app.cell(hide_code=True)
def _(mo):
    depth = mo.ui.slider(2, 56, 2, value=56, label="layers", show_value=True, full_width=True)
    kind = mo.ui.radio(["plain", "residual", "residual × 0.01"], value="plain", inline=True, label="kind")
    with_norm = mo.ui.switch(value=True, label="norm in each layer")
    mo.vstack([depth, kind, with_norm])
    return depth, kind, with_norm


@app.cell(hide_code=True)
def _(F, Tensor, classes, net, np, points):
    def at_start(depth, add, norm=True, scale=None):
        """For each layer of an untrained net: the size of its output, and of the gradient of its weights."""
        model, sizes = net(depth, add, norm=norm, scale=scale), []
        for each in model.layers:
            each.register_forward_hook(lambda m, args, out: sizes.append(float(np.sqrt(np.square(out.array).mean()))))
        F.cross_entropy(model(Tensor(points)), classes).backward()
        weights = [p for name, p in model.named_parameters() if name.startswith("layers") and p.ndim == 2]
        return sizes, [float(np.linalg.norm(w.grad.array)) for w in weights]

    return (at_start,)


@app.cell(hide_code=True)
def _(Plot, at_start, depth, kind, mo, np, pictures, with_norm):
    _sizes, _gradients = at_start(depth.value, kind.value != "plain", with_norm.value, 0.01 if "×" in kind.value else None)

    def _along(values, colour, title):
        def draw(figure):
            axes = figure.subplots()
            axes.plot(range(1, len(values) + 1), np.maximum(values, 1e-30), "o-", markersize=3, color=colour)
            axes.set(yscale="log", xlabel="layer", ylim=(min(max(1e-30, min(values) / 3), 1e-3), max(max(values) * 3, 1e3)))
            axes.set_title(title, fontsize=11)
            axes.spines[["top", "right"]].set_visible(False)

        return Plot((4.4, 3.2), draw)

    _ratio = _gradients[0] / max(_gradients[-1], 1e-38)
    mo.vstack([
        pictures(
            _along(_sizes, "#D55E00", "size of what each layer passes on"),
            _along(_gradients, "#0072B2", "gradient of its weights"),
        ),
        mo.md(f"Gradient of the first layer over that of the last: **{_ratio:{',.0f' if 10 < _ratio < 1e6 else '.3g'}}**."),
    ])
    return


@app.cell(hide_code=True)
def _(at_start, mo):
    def _first_over_last(add, norm):
        gradients = at_start(56, add, norm)[1]
        return gradients[0] / gradients[-1]

    _plain, _bare, _residual = _first_over_last(False, True), _first_over_last(False, False), _first_over_last(True, True)
    mo.md(f"""
    In the plain net of 56 layers the first layer's gradient is {_plain:,.0f} times the last one's: a product of 55 factors of
    about {_plain ** (1 / 55):.2f}. The norm is what makes them larger than 1. It divides by the spread of what comes in, and
    the gradient on its way back is divided by the same number; that number is well below 1, as the first picture shows for the
    plain net. A step small enough for the first layers leaves the last ones where they are.

    Without the norms the factors are about {_bare ** (1 / 55):.2f}, and the product is {_bare:.0e}: the first layers hear
    nothing at all. So a plain net fails in two opposite ways, and a factor that is right on average would not save it: it
    would have to be right 55 times in a row. In the residual net the direct path contributes a factor of exactly 1 at each
    layer, whatever the branch does, and the ratio is {_residual:.0f}.

    ## The layers that do nothing

    Now the argument from the beginning can be carried out. Take the trained residual net of 20 layers, put 36 layers on top
    in which every number is zero, and compare. Then do it to the plain one.
    """)
    return


@app.cell
def _(F, Tensor, classes, net, nets, no_grad, np, points):
    def deepen(name, add):
        """56 layers: the 20 of a trained net, and 36 in which every number is zero."""
        deeper, trained = net(56, add), nets[name].state_dict()
        zeros = {key: np.zeros(p.shape, np.float32) for key, p in deeper.state_dict().items()}
        deeper.load_state_dict({**zeros, **trained})
        return deeper

    with no_grad():
        same = deepen("residual 20", True)(Tensor(points)).equal(nets["residual 20"](Tensor(points)))
        forgets = F.cross_entropy(deepen("plain 20", False)(Tensor(points)), classes).item()
    assert same
    return forgets, same


@app.cell(hide_code=True)
def _(final, forgets, mo):
    mo.md(f"""
    The residual net gives the same output, bit for bit. The plain one forgets everything: its loss goes from
    {final["plain 20"]:.3f} to {forgets:.3f}. “Fits just as well with 36 layers more” is a plain fact for the one, and for the
    other something that would have to be learned first.

    ## Broken on purpose: the path alone is not enough

    It would be a mistake to conclude that adding cures everything. Leave the norms out. Each layer then adds an update in
    proportion to the stream, the stream grows, and the next update with it. Take an easier task, with fewer turns, so that
    nobody can blame the task; and a third net with one remedy other than the norm, each update times a learned number that
    starts at 0.01.
    """)
    return


@app.cell
def _(net, np, spirals, train):
    easy = spirals(128, turns=3)
    bare = {name: net(depth, True, norm=False, scale=scale)
            for name, depth, scale in (("20", 20, None), ("56", 56, None), ("56, scaled by 0.01", 56, 0.01))}
    bare_final = {name: float(np.mean(train(each, *easy, steps=200, lr=3e-3)[-10:])) for name, each in bare.items()}
    return bare, bare_final


@app.cell(hide_code=True)
def _(at_start, bare, bare_final, mo, np):
    def _growth(depth, scale):
        sizes = at_start(depth, True, False, scale)[0]
        return sizes[-1] / sizes[0]

    _scales = np.concatenate([layer.branch[2].weight.array for layer in bare["56, scaled by 0.01"].layers])
    mo.md(f"""
    Before training the stream of the 56 layers is {_growth(56, None):.0e} times as large at its end as after the first layer;
    with 20 layers it is {_growth(20, None):.0f} times. The first layers' words are drowned out: the loss stays at
    {bare_final["56"]:.3f}, guessing, though the path is there. With 20 layers it reaches {bare_final["20"]:.3f}. Had one
    stopped at 20, the norm would have looked like an ornament.

    The learned number is called **LayerScale**. With it the net starts as nearly the identity (the stream grows by a factor
    of {_growth(56, 0.01):.2f}), and each layer is let in as far as it is of use. The loss becomes
    {bare_final["56, scaled by 0.01"]:.4f}. After training the scales lie between −{-_scales.min():.2f} and
    {_scales.max():.2f}.
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(18, again)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **To carry on with:** a residual layer starts near “do nothing” and learns a difference; the direct path keeps the
    gradient alive, and a norm or a small scale keeps the stream from growing. The 96 layers of GPT-3 stand on these
    two.
    """)
    return


@app.cell(hide_code=True)
def _(bare, bare_final, errors, final, same, show):
    numbers = {
        **{f"S5 training loss, {name} layers": value for name, value in final.items()},
        **{f"S5 share of training points wrong, {name} layers": value for name, value in errors.items()},
        "S5 plain 56 has a higher training loss than plain 20": final["plain 56"] > final["plain 20"] + 0.05,
        "S5 residual 56 has a higher training loss than residual 20": final["residual 56"] > final["residual 20"] + 0.05,
        "S5 residual 56 is below plain 20": final["residual 56"] < final["plain 20"],
        "S5 36 residual layers of zero change nothing, bit for bit": same,
        **{f"S5 without norms, residual {name}": value for name, value in bare_final.items()},
        "S5 LayerScale starts at": bare["56, scaled by 0.01"].layers[0].branch[2].start,
        "S5 without norms, 56 layers learn with LayerScale only": bare_final["56, scaled by 0.01"] < 0.05 < bare_final["56"],
    }
    show(numbers)
    return


@app.cell(hide_code=True)
def _(links):
    links(18)
    return


if __name__ == "__main__":
    app.run()
