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

    from lessons.page import check_button, exercises, links, show

    return check_button, exercises, links, mo, show


@app.cell
def _():
    import numpy as np

    import viz
    from tinygrad_tf import Tensor, nn, no_grad, optim
    from tinygrad_tf.nn import functional as F
    from tinygrad_tf.nn.residual import LayerScale
    from viz.reading import Plot

    return F, LayerScale, Plot, Tensor, nn, no_grad, np, optim, viz


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Depth

    Take a network of 20 layers that fits its data. Put 36 more on top that do nothing. Now there are 56, and they fit the
    data just as well. So the best network of 56 layers is never worse than the best one of 20, and if training finds
    something worse, the fault lies with the search and not with the network. In 2015 it was found that it does: of two plain
    networks the deeper one had the higher error, on the very data that it was trained on. This is called **degradation**. It
    is not overfitting, which shows on new data only.

    What would a layer have to learn in order to do nothing?
    """)
    return


@app.cell
def _(np):
    x = np.array([1.0, -2.0, 0.5])

    def relu(z):
        return np.maximum(z, 0)

    plain_zero = relu(np.zeros((3, 3)) @ x)
    plain_identity = relu(np.eye(3) @ x)
    residual_zero = x + relu(np.zeros((3, 3)) @ x)
    plain_zero, plain_identity, residual_zero
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
    assert np.array_equal(quiet(Tensor(x)).array, residual_zero)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## The experiment

    One network, with one switch. Each layer is a norm, a linear map and ReLU. Either what comes out replaces what went in, or
    it is added. The numbers that it starts with are the same either way, and so are the data and the optimizer.
    """)
    return


@app.cell
def _(LayerScale, nn, np):
    class Net(nn.Module):
        """(N, 2) -> (N, 2)   a map to the width, `depth` equal layers, and the scores of two classes"""

        def __init__(self, depth, add, norm=True, scale=None, width=16):
            rng = np.random.default_rng(2)

            def layer():
                parts = [nn.LayerNorm(width)] if norm else []
                parts += [nn.Linear(width, width, generator=rng), nn.ReLU()]
                parts += [] if scale is None else [LayerScale(width, scale)]
                return nn.Residual(nn.Sequential(*parts)) if add else nn.Sequential(*parts)

            self.first = nn.Linear(2, width, generator=rng)
            self.layers = nn.ModuleList(layer() for _ in range(depth))
            self.norm, self.last = nn.LayerNorm(width), nn.Linear(width, 2, generator=rng)

        def forward(self, x):
            x = self.first(x)
            for layer in self.layers:
                x = layer(x)
            return self.last(self.norm(x))

    return (Net,)


@app.cell
def _(Net, np, viz):
    point = np.ones((1, 2), np.float32)
    viz.draw(Net(3, add=True), inputs=point, view="modules", fold="off", title="Three layers, each a side trip")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    The task is to tell apart the points of two spirals, one wound into the other. More turns make it harder.
    """)
    return


@app.cell
def _(F, Tensor, np, optim):
    def spirals(n, turns):
        """Points (n, 2) and their classes (n,): two arms that wind half `turns` times round the middle."""
        rng = np.random.default_rng(0)
        classes = np.arange(n) % 2
        radius = rng.uniform(0.1, 1, n)
        angle = np.pi * (turns * radius + classes)
        return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).astype(np.float32), classes

    def train(net, points, classes, steps=250, lr=1e-3):
        """The loss of each step, all points in every one."""
        optimizer = optim.AdamW(net.parameters(), lr=lr, weight_decay=0.0)
        losses = []
        for step in range(steps):
            optimizer.param_groups[0]["lr"] = optim.warmup_cosine(step, lr=lr, warmup=20, total=steps)
            loss = F.cross_entropy(net(Tensor(points)), classes)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    return spirals, train


@app.cell
def _(Net, np, spirals, train):
    points, classes = spirals(192, turns=8)
    nets = {f"{'residual' if add else 'plain'} {depth}": Net(depth, add) for add in (False, True) for depth in (20, 56)}
    curves = {name: train(net, points, classes) for name, net in nets.items()}
    final = {name: float(np.mean(curve[-10:])) for name, curve in curves.items()}
    final
    return classes, curves, final, nets, points


@app.cell(hide_code=True)
def _(Plot, classes, curves, final, mo, np, points):
    def pictures(*drawn, size=(4.4, 3.4)):
        """Plots on white paper, side by side where there is room."""
        shown = []
        for draw in drawn:
            svg = Plot(size, lambda figure, draw=draw: draw(figure.subplots())).render().decode()
            svg = svg[svg.index("<svg") :].replace("<svg", "<svg style='max-width:100%;height:auto'", 1)
            shown.append(mo.Html(f"<div style='background:white;border-radius:6px'>{svg}</div>"))
        return mo.hstack(shown, wrap=True, justify="start")

    STYLES = {"plain 20": ("#E69F00", "-"), "plain 56": ("#D55E00", "--"),
              "residual 20": ("#56B4E9", "-"), "residual 56": ("#0072B2", "--")}  # fmt: skip

    def _spirals(axes):
        for kind, colour, mark in ((0, "#D55E00", "o"), (1, "#0072B2", "^")):
            axes.scatter(*points[classes == kind].T, s=14, color=colour, marker=mark)
        axes.set_aspect("equal")
        axes.set_axis_off()
        axes.set_title("two classes, two spirals", fontsize=11)

    def _losses(axes):
        for name, (colour, dash) in STYLES.items():
            smooth = np.convolve(curves[name], np.ones(10) / 10, "valid")
            axes.plot(smooth, dash, color=colour, label=f"{name}: {final[name]:.2f}", linewidth=2)
        axes.axhline(np.log(2), color="grey", linewidth=0.8)
        axes.text(0, 0.78, "grey line: guessing", fontsize=8, color="grey")
        axes.set(xlabel="step", ylabel="training loss, nats", ylim=(0, 0.85))
        axes.legend(frameon=False, fontsize=9, loc="lower left")
        axes.spines[["top", "right"]].set_visible(False)

    pictures(_spirals, _losses)
    return (pictures,)


@app.cell(hide_code=True)
def _(Tensor, classes, final, mo, nets, no_grad, np, points):
    def wrong(net):
        with no_grad():
            return float((net(Tensor(points)).array.argmax(-1) != classes).mean())

    errors = {name: wrong(net) for name, net in nets.items()}
    mo.md(f"""
    Plain: {final["plain 20"]:.3f} with 20 layers and {final["plain 56"]:.3f} with 56, next to the {np.log(2):.3f} of
    guessing. The deeper one still has {errors["plain 56"]:.0%} of its own training points wrong. Residual:
    {final["residual 20"]:.3f} with 20 layers, {final["residual 56"]:.3f} with 56, and {errors["residual 56"]:.0%} wrong. The
    same layers, the same start; depth hurts the one and helps the other.

    ## What the first layer hears

    Before the first step, ask each layer how the loss would change with its weights: the size of their gradient. Move the
    depth.
    """)
    return (errors,)


@app.cell(hide_code=True)
def _(mo):
    depth = mo.ui.slider(2, 56, 2, value=56, label="layers", show_value=True, full_width=True)
    kind = mo.ui.radio(["plain", "residual", "residual × 0.01"], value="plain", inline=True, label="kind")
    with_norm = mo.ui.switch(value=True, label="norm in each layer")
    mo.vstack([depth, kind, with_norm])
    return depth, kind, with_norm


@app.cell
def _(F, Net, Tensor, classes, np, points):
    def at_start(depth, add, norm=True, scale=None):
        """For each layer of an untrained net: the size of its output, and of the gradient of its weights."""
        net = Net(depth, add, norm, scale)
        sizes = []
        handles = [each.register_forward_hook(lambda m, args, out: sizes.append(float(np.sqrt(np.square(out.array).mean()))))
                   for each in net.layers]
        F.cross_entropy(net(Tensor(points)), classes).backward()
        for handle in handles:
            handle.remove()
        weights = [p for name, p in net.named_parameters() if name.startswith("layers") and p.ndim == 2]
        return sizes, [float(np.linalg.norm(w.grad.array)) for w in weights]

    return (at_start,)


@app.cell(hide_code=True)
def _(at_start, depth, kind, mo, np, pictures, with_norm):
    _sizes, _gradients = at_start(depth.value, kind.value != "plain", with_norm.value, 0.01 if "×" in kind.value else None)

    def _along(values, colour, title):
        def draw(axes):
            axes.plot(range(1, len(values) + 1), np.maximum(values, 1e-30), "o-", markersize=3, color=colour)
            axes.set(yscale="log", xlabel="layer", ylim=(min(max(1e-30, min(values) / 3), 1e-3), max(max(values) * 3, 1e3)))
            axes.set_title(title, fontsize=11)
            axes.spines[["top", "right"]].set_visible(False)

        return draw

    mo.vstack([
        pictures(
            _along(_sizes, "#D55E00", "size of what each layer passes on"),
            _along(_gradients, "#0072B2", "gradient of its weights"),
        ),
        mo.md(f"Gradient of the first layer over that of the last: **{_gradients[0] / max(_gradients[-1], 1e-38):.1e}**."),
    ])
    return


@app.cell(hide_code=True)
def _(at_start, mo):
    ratio = {}
    for _name, _add, _norm, _scale in (
        ("plain", False, True, None), ("residual", True, True, None),
        ("plain, no norm", False, False, None),
    ):
        _g = at_start(56, _add, _norm, _scale)[1]
        ratio[_name] = _g[0] / _g[-1]
    mo.md(f"""
    In the plain net of 56 layers the first layer's gradient is {ratio["plain"]:,.0f} times the last one's: a product of 55
    factors of about {ratio["plain"] ** (1 / 55):.2f}. A step small enough for the first layers leaves the last ones where
    they are. Without the norms the factors are below 1, about {ratio["plain, no norm"] ** (1 / 55):.2f}, and the product is
    {ratio["plain, no norm"]:.0e}: the first layers hear nothing at all. In the residual net the direct path contributes a
    factor of exactly 1 at each layer, whatever the branch does, and the ratio is {ratio["residual"]:.0f}.

    ## The layers that do nothing

    Now the argument from the beginning can be carried out. Take the trained residual net of 20 layers, put 36 layers on top
    in which every number is zero, and compare. Then do it to the plain one.
    """)
    return


@app.cell
def _(F, Net, Tensor, classes, nets, no_grad, np, points):
    def deepen(name, add):
        """A net of 56 layers: the 20 of a trained one, and 36 in which every number is zero."""
        deeper, trained = Net(56, add), nets[name].state_dict()
        state = {key: trained.get(key, np.zeros(p.shape, np.float32)) for key, p in deeper.state_dict().items()}
        deeper.load_state_dict(state)
        return deeper

    with no_grad():
        grafted = {name: F.cross_entropy(deepen(name, add)(Tensor(points)), classes).item()
                   for name, add in (("residual 20", True), ("plain 20", False))}
        same = deepen("residual 20", True)(Tensor(points)).equal(nets["residual 20"](Tensor(points)))
    grafted, same
    return grafted, same


@app.cell(hide_code=True)
def _(grafted, mo):
    mo.md(f"""
    The residual net gives the same output, bit for bit. The plain one forgets everything: {grafted["plain 20"]:.3f}.

    ## Broken on purpose: the path alone is not enough

    Leave the norms out. Each layer then adds an update in proportion to the stream, the stream grows, and the next update
    with it. On an easier task, with fewer turns:
    """)
    return


@app.cell
def _(Net, at_start, np, spirals, train):
    easy = spirals(128, turns=3)
    bare = {name: Net(depth, True, norm=False, scale=scale)
            for name, depth, scale in (("20", 20, None), ("56", 56, None), ("56, scaled by 0.01", 56, 0.01))}
    bare_curves = {name: train(net, *easy, steps=300, lr=3e-3) for name, net in bare.items()}
    bare_final = {name: float(np.mean(curve[-10:])) for name, curve in bare_curves.items()}
    growth = {name: at_start(int(name[:2]), True, False, 0.01 if "scaled" in name else None)[0] for name in bare}
    bare_final, {name: sizes[-1] / sizes[0] for name, sizes in growth.items()}
    return bare, bare_final, growth


@app.cell(hide_code=True)
def _(bare, bare_final, growth, mo, np):
    scales = np.concatenate([layer.branch[2].weight.array for layer in bare["56, scaled by 0.01"].layers])
    mo.md(f"""
    Before training the stream of the 56 layers is {growth["56"][-1] / growth["56"][0]:.0e} times as large at its end as after
    the first layer, where with 20 layers it is {growth["20"][-1] / growth["20"][0]:.0f} times. The first layers' words are
    drowned out; the loss stays at {bare_final["56"]:.3f}, though the path is there. With 20 layers it reaches
    {bare_final["20"]:.3f}.

    A remedy other than the norm: multiply each update by a learned number that starts at 0.01, **LayerScale**. The net then
    starts as nearly the identity (the stream grows by a factor of
    {growth["56, scaled by 0.01"][-1] / growth["56, scaled by 0.01"][0]:.2f}), and each layer is let in as far as it is of
    use. The loss becomes {bare_final["56, scaled by 0.01"]:.4f}. After training the scales lie between −{-scales.min():.2f}
    and {scales.max():.2f}.
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    again
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(18, again)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **To carry on with:** a residual layer starts near “do nothing” and learns a difference; the direct path keeps the
    gradient alive, and a norm or a small scale keeps the stream from growing.
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
