"""Read the residual stream

A model has given its answer. Which of its parts said so, and how would one know?

Systems: S6, S34
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="17 · Read the residual stream")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from lessons.page import check_button, exercises, links, pictures, show
    from viz import reading as plots

    return check_button, exercises, links, mo, pictures, plots, show


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Read the residual stream

    The last vector of a model is a hundred numbers, and none of them says where it came from. But look at how it was made. In
    a pre-norm block nothing is ever replaced: a branch reads the vector, computes an update, and the update is added. So the
    last vector is a sum, the summands have names, and a sum can be taken apart.

    Say three parts have written to a stream of width 2, and a token's logit is the dot product of the stream with the token's
    vector *u*. Multiplying the sum, or multiplying each part and adding up, is the same:
    """)
    return


@app.cell
def _():
    from dataclasses import replace

    import numpy as np

    import viz
    from tinygrad_tf.edits import head_effects, replaced, zeroed
    from tinygrad_tf.models import Decoder, DecoderConfig
    from tinygrad_tf.reading import read
    from tinygrad_tf.tasks import fit

    return (
        Decoder,
        DecoderConfig,
        fit,
        head_effects,
        np,
        read,
        replace,
        replaced,
        viz,
        zeroed,
    )


@app.cell
def _(np):
    parts = {"embedding": np.array([1.0, 0.0]), "attention": np.array([2.0, -1.0]), "feed-forward": np.array([-1.0, 3.0])}
    u = np.array([1.0, 0.5])

    added = {name: part @ u for name, part in parts.items()}
    logit = sum(parts.values()) @ u
    assert logit == sum(added.values())
    return added, logit


@app.cell(hide_code=True)
def _(added, logit, mo):
    mo.md(f"""
    The logit is {logit:g}, and attention brought {added["attention"]:g} of it, the embedding {added["embedding"]:g}, the
    feed-forward network {added["feed-forward"]:g}. All that follows is this one line, on a model that has learned something,
    and what can be wrongly concluded from it.

    ## A model with something to find

    The texts are a random word of five to ten different letters, repeated: `kdbak…`. In its first round nobody can know the
    next letter. From the second round on everybody can: find where the present letter stood before, and say what followed it.
    No table of pairs helps, for each text has a word of its own. What has to be learned is the looking up.

    The model is small enough to know whole: two blocks, two heads in each, a stream of width 32. Its norm is RMSNorm, and its
    last matrix is not tied to the embedding.
    """)
    return


@app.cell
def _(Decoder, DecoderConfig, fit, np):
    LETTERS = "abcdefghijklmnop"

    def repeats(size, generator, length=24):
        """ids and targets, both (size, length): each row one random word, over and over."""
        words = [generator.permutation(len(LETTERS))[: generator.integers(5, 11)] for _ in range(size)]
        rows = np.stack([np.resize(word, length + 1) for word in words])
        return rows[:, :-1], rows[:, 1:]

    config = DecoderConfig(len(LETTERS), block_size=24, n_layer=2, n_head=2, n_embd=32, n_hidden=64, norm="rms", tied=False)
    model = Decoder(config, np.random.default_rng(0))
    losses = fit(model, lambda generator: repeats(32, generator), 600, np.random.default_rng(1))
    return LETTERS, config, losses, model, repeats


@app.cell(hide_code=True)
def _(LETTERS, losses, mo, model, np, repeats):
    test_ids, test_targets = repeats(64, np.random.default_rng(5))
    known = np.array([[i >= len(set(row)) for i in range(len(row))] for row in test_ids])  # from the second round on
    right = model(test_ids).array.argmax(-1) == test_targets
    ids = np.resize([7, 3, 1, 10, 4], 15)[None]
    letters = [LETTERS[i] for i in ids[0]]
    mo.md(f"""
    The loss fell from {losses[0]:.2f} to {losses[-1]:.2f} nats in {len(losses)} steps. On fresh texts, from the second round
    on, it says the right letter in {right[known].mean():.1%} of the places; in the first round, where it can only guess, in
    {right[~known].mean():.1%}. The text for the rest of this page is `{"".join(letters)}`.

    ## The stream, written down by hand

    Run the model line by line, and keep what each branch adds. The norm stands *before* the branch: it changes what the
    branch reads, and writes nothing.
    """)
    return ids, known, letters, right, test_ids, test_targets


@app.cell
def _(ids, model, np):
    x = model.token_embedding(ids) + model.position_embedding(np.arange(ids.shape[1]))
    written = {"embedding": x}
    for i, block in enumerate(model.blocks):
        written[f"blocks.{i}.attn"] = block.attn(block.attn_norm(x), causal=True)
        x = x + written[f"blocks.{i}.attn"]
        written[f"blocks.{i}.ffn"] = block.ffn(block.ffn_norm(x))
        x = x + written[f"blocks.{i}.ffn"]
    last_stream = x.array
    return last_stream, written


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Nothing here is special to this model. `read` does it for any pre-norm model, and gives each update its name:
    """)
    return


@app.cell
def _(ids, model, np, read, written):
    run = read(model, ids)
    assert list(run.updates) == list(written)
    assert all(np.allclose(run.updates[name], written[name].array, atol=1e-5) for name in written)
    return (run,)


@app.cell(hide_code=True)
def _(last_stream, mo, np, run):
    off = abs(sum(run.updates.values()) - last_stream).max()
    size = {name: np.linalg.norm(part[0, -1]) for name, part in run.updates.items()}
    mo.md(f"""
    Embedding plus four updates differ from the final stream by {off:g}: they are the same additions, in the same order. At
    the last position the lengths of the five summands are {", ".join(f"{value:.1f}" for value in size.values())}: the letter
    itself is the smallest voice in the sum. But a long vector may point where no token is, and a long one may cancel another.
    Length is not yet importance. In the graph the updates hang to the side of one straight line:
    """)
    return (off,)


@app.cell
def _(ids, model, viz):
    branches = ["blocks.*.attn", "blocks.*.ffn"]
    viz.draw(model, inputs=ids, view="modules", collapse=branches, title="Two blocks, four side trips, one stream")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Who spoke for this letter?

    Between the stream and the logits stand the last norm and one matrix. The matrix is linear: it can be applied to each
    part. The norm is not quite. It divides by a size that all parts make together. But that size is known after the run; hold
    it where it was, and dividing by it is linear as well. What each update then adds to the logit of one token is its
    **direct logit attribution**. An attention update splits further, because its heads stand side by side before the output
    projection: each head has its own rows of that matrix, and its own share of the update.

    Below, for every position, the token is the letter that comes next. The shares must add up to the logit that the model
    gave, exactly; if they did not, something would have been left out.
    """)
    return


@app.cell
def _(ids, np, run):
    following = np.resize(ids[0, :5], ids.shape[1] + 1)[1:]  # the letter that comes next, at each position
    shares = run.attribution(following, heads=True)
    logits = np.take_along_axis(run.out, following[None, :, None], -1)[..., 0]
    assert np.allclose(sum(shares.values()), logits, atol=1e-4)
    return following, logits, shares


@app.cell(hide_code=True)
def _(ids, mo):
    place = mo.ui.slider(1, ids.shape[1], value=ids.shape[1], label="letters read", show_value=True, full_width=True)
    place
    return (place,)


@app.cell(hide_code=True)
def _(
    LETTERS,
    following,
    letters,
    logits,
    mo,
    pictures,
    plots,
    place,
    shares,
):
    _at = place.value - 1
    _right = LETTERS[following[_at]]
    mo.vstack([
        mo.md(f"`{''.join(letters[: place.value])}` → **{_right}**, its logit {logits[0, _at]:.2f}"),
        pictures(plots.contributions(shares, position=_at, title=f"what speaks for “{_right}”")),
    ])
    return


@app.cell(hide_code=True)
def _(mo, shares):
    mean = {name: share[0, 5:].mean() for name, share in shares.items()}
    loudest, second, *_ = sorted(mean, key=mean.get, reverse=True)
    mo.md(f"""
    From the second round on two parts do most of the talking: on average `{loudest}` adds {mean[loudest]:.1f} to the right
    logit, `{second}` {mean[second]:.1f}. Go back to the first round, and they say other things. A part may also speak
    *against* the right letter; its bar then points to the left.

    ## What it would say if it stopped here

    The last norm and matrix can be put on the stream earlier, after each block: the **logit lens**. It shows where on the way
    the answer appears. The norm belongs to it; there it takes the size of what it gets.
    """)
    return loudest, mean


@app.cell(hide_code=True)
def _(LETTERS, letters, pictures, plots, run):
    pictures(plots.lens(run, letters, LETTERS))
    return


@app.cell(hide_code=True)
def _(following, ids, mo, np, run):
    lens = run.lens()
    told = {name: p[0, np.arange(ids.shape[1]), following][5:].mean() for name, p in lens.items()}
    mo.md(f"""
    Read from below. The probability of the right letter in the second and third round, on average: {told["embedding"]:.2f}
    after the embedding, {told["blocks.0"]:.2f} after the first block, {told["blocks.1"]:.2f} after the second. The first
    block's work is not visible here at all. It says nothing about the next letter. Is it idle?

    ## Where the heads look

    An **attention map** has a row for each position, and shows how that row shared out its weight. Two numbers stand for a
    map in the table: `spread` is the entropy of its rows, 0 for a head that looks at one place alone, and `reach` says how
    many positions back it looks, on average. `loss` and `change` are about something else; they come in a moment. From the
    maps alone: which of the four heads would you keep?
    """)
    return (lens,)


@app.cell
def _(head_effects, mo, model, test_ids, test_targets):
    effects = head_effects(model, test_ids, test_targets)
    mo.plain_text(str(effects))
    return (effects,)


@app.cell(hide_code=True)
def _(mo):
    layer = mo.ui.dropdown(["blocks.0.attn", "blocks.1.attn"], value="blocks.1.attn", label="layer")
    layer
    return (layer,)


@app.cell(hide_code=True)
def _(effects, layer, letters, pictures, plots, run):
    pictures(plots.maps(run, layer.value, letters, effects=effects))
    return


@app.cell(hide_code=True)
def _(effects, mo, np, run, test_ids):
    def on(weights, *away):
        """How much of its weight a head puts so many positions back, the mean over the second round and later."""
        return float(np.mean([sum(weights[i, i - n] for n in away if n <= i) for i in range(5, len(weights))]))

    maps_of = {name: run.maps(name)[0] for name in ("blocks.0.attn", "blocks.1.attn")}
    before = {f"{name}.heads.{r}": on(maps_of[name][r], 1) for name in maps_of for r in range(2)}
    copied = {f"{name}.heads.{r}": on(maps_of[name][r], 4, 9, 14) for name in maps_of for r in range(2)}
    reader = max(copied, key=copied.get)
    change = {head.path: head.change for head in effects.heads}
    spread = {head.path: head.spread for head in effects.heads}
    first = [path for path in change if path.startswith("blocks.0")]
    wide = max(first, key=change.get)
    idle = min(change, key=lambda path: abs(change[path]))
    mo.md(f"""
    The word has five letters. `{reader}` puts {copied[reader]:.2f} of its weight four, nine or fourteen positions back: on
    the letters that *followed* the present one in earlier rounds. Such a head is called an **induction head**. How can it
    know? A key tells what stands at its own place, and the present letter stands one place further to the left. Unless
    somebody has written there, before, which letter came in front of it. That takes a head in the first block that looks one
    position back: {" and ".join(f"`{path}` puts {before[path]:.2f}" for path in first)} of its weight there.

    ## Take it away, and measure

    A map is a hypothesis. The test is to run the model without the head: **ablation**. The table above did so for each, on
    {len(test_ids)} texts: `loss` is what is left of the model, `change` how much worse that is. The title of each map says it
    too. Below is what a model without one head writes.
    """)
    return change, copied, first, idle, on, reader, spread, wide


@app.cell(hide_code=True)
def _(change, mo, reader):
    chosen = mo.ui.dropdown(list(change), value=reader, label="without the head")
    chosen
    return (chosen,)


@app.cell(hide_code=True)
def _(
    LETTERS,
    change,
    chosen,
    effects,
    following,
    ids,
    letters,
    mo,
    model,
    run,
    zeroed,
):
    with zeroed(model, chosen.value):
        _said = model(ids).array[0].argmax(-1)
    mo.md(f"""
    | | loss {effects.loss + change[chosen.value]:.3f} instead of {effects.loss:.3f} |
    | --- | --- |
    | the text | `{"".join(letters)}` |
    | what follows | `{"".join(LETTERS[i] for i in following)}` |
    | said, whole | `{"".join(LETTERS[i] for i in run.out[0].argmax(-1))}` |
    | said, without | `{"".join(LETTERS[i] for i in _said)}` |
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Zero is only one thing to put there, and an odd one: the parts that come later have never met a head that says nothing.
    Two milder replacements are the head's own mean, and what it reads in some other text.
    """)
    return


@app.cell
def _(change, effects, model, replaced, test_ids, test_targets):
    FILLS = {
        "zero": 0,
        "its mean": lambda mixture: mixture.mean(dim=(0, 1), keepdim=True),
        "from another text": lambda mixture: mixture.array[::-1],  # the batch turned round
    }

    def loss_with(path, fill):
        with replaced(model, path, fill):
            return model.loss(test_ids, test_targets).item()

    instead = {path: {name: loss_with(path, fill) - effects.loss for name, fill in FILLS.items()} for path in change}
    return FILLS, instead


@app.cell(hide_code=True)
def _(FILLS, instead, mo, reader):
    _odd = max(instead, key=lambda path: max(instead[path].values()) / min(instead[path].values()))
    _rows = [f"| `{path}` | {' | '.join(f'{by:+.2f}' for by in row.values())} |" for path, row in instead.items()]
    _zero, _mean, _other = instead[_odd].values()
    _lines = "\n    ".join(_rows)
    mo.md(f"""
    | what the loss does, with | {" | ".join(FILLS)} |
    | :-- {"| --: " * len(FILLS)}|
    {_lines}

    For `{reader}` all three agree: what it brings has to come from *this* text. For `{_odd}` they do not: zero costs
    {_zero:.2f}, its mean {_mean:.2f}, what it brings in another text {_other:.2f}. How important a head is has no single
    number; say what was put in its place.
    """)
    return


@app.cell(hide_code=True)
def _(change, idle, ids, mo, np, spread, wide):
    mo.md(f"""
    ## What a map does not show

    **That a head matters.** `{wide}` spreads its weight widely ({spread[wide]:.2f} nats; even weights over all {ids.shape[1]}
    letters of the text above would be {np.log(ids.shape[1]):.2f}), and one would pass it over. Without it the loss rises by
    {change[wide]:.2f}. `{idle}` changes it by {change[idle]:.2f}. Give that one a beautiful map: multiply its queries by 40.
    """)
    return


@app.cell
def _(Decoder, config, head_effects, idle, model, test_ids, test_targets):
    sharpened = Decoder(config)
    sharpened.load_state_dict({name: p.array.copy() for name, p in model.state_dict().items()})
    width = config.n_embd // config.n_head
    where, r = idle.split(".heads.")
    _q = dict(sharpened.named_parameters())[f"{where}.q_proj.weight"]
    _q.array[int(r) * width : (int(r) + 1) * width] *= 40  # the rows that make this head's queries
    after = head_effects(sharpened, test_ids, test_targets)
    sharp = next(head for head in after.heads if head.path == idle)
    return after, sharp, sharpened, where


@app.cell(hide_code=True)
def _(
    after,
    effects,
    idle,
    ids,
    letters,
    mo,
    pictures,
    plots,
    read,
    reader,
    sharp,
    sharpened,
    spread,
    where,
):
    mo.vstack([
        pictures(plots.maps(read(sharpened, ids), where, letters, effects=after)),
        mo.md(f"""
    The spread of `{idle}` went from {spread[idle]:.2f} to {sharp.spread:.2f} nats: nearly every row now has one dark cell.
    The loss went from {effects.loss:.3f} to {after.loss:.3f}, and without the head it changes by {sharp.change:.2f}. The map
    looks like a finding; it is none.

    **What is being carried.** A map says from which *place* a head reads, not what stands there. `{reader}` reads what the
    first block has written. Take a head of the first block away, and look at the weight that `{reader}`, itself untouched,
    puts on the right letters:
    """),
    ])
    return


@app.cell
def _(copied, first, ids, model, on, read, reader, zeroed):
    layer_of, head_of = reader.split(".heads.")
    found = {"the whole model": copied[reader]}
    for path in first:
        with zeroed(model, path):  # this head writes nothing; all the others do as before
            found[f"without {path}"] = on(read(model, ids).maps(layer_of)[0, int(head_of)], 4, 9, 14)
    return (found,)


@app.cell(hide_code=True)
def _(found, loudest, mo):
    mo.md(f"""
    Without one of the two it falls from {found["the whole model"]:.2f} to {min(found.values()):.2f}. The lens was right that
    the first block says nothing about the next letter. It tells the second block *where to look*.

    Attribution has its blind side too: it counts what a part adds to the logit itself, and not what it does through others.
    `{loudest}` was the loudest. Does it know the answer, or does it repeat what it was told?
    """)
    return


@app.cell
def _(following, ids, loudest, mean, model, read, reader, zeroed):
    with zeroed(model, reader):
        deaf = read(model, ids).attribution(following)
    told_by = {"whole model": mean[loudest], f"without {reader}": deaf[loudest][0, 5:].mean()}
    return (told_by,)


@app.cell(hide_code=True)
def _(mo, reader, told_by):
    _deaf = f"{told_by[f'without {reader}']:.1f}".replace("-", "−")
    mo.md(f"""
    It adds {told_by["whole model"]:.1f} to the right logit, and {_deaf} when the head is silent: it amplifies. So attribution
    sees the direct way only; a map sees where, and not what; ablation sees that something is needed, and not how it is used.

    ## Broken on purpose

    In a post-norm model the norm stands on the stream. After each addition it rescales all that was written before. Do the
    updates still add up?
    """)
    return


@app.cell
def _(Decoder, config, ids, np, replace):
    post = Decoder(replace(config, norm_order="post"), np.random.default_rng(0))
    x_post = post.token_embedding(ids) + post.position_embedding(np.arange(ids.shape[1]))
    sum_post = x_post
    for b in post.blocks:
        _update = b.attn(x_post, causal=True)
        x_post, sum_post = b.attn_norm(x_post + _update), sum_post + _update
        _update = b.ffn(x_post)
        x_post, sum_post = b.ffn_norm(x_post + _update), sum_post + _update
    broken = abs(x_post.array - sum_post.array).max()
    return broken, post


@app.cell(hide_code=True)
def _(broken, ids, mo, off, post, read):
    try:
        read(post, ids)
    except ValueError as error:
        _refused = str(error)
    mo.md(f"""
    Off by {broken:.2f}, where the pre-norm model was off by {off:g}. `read` refuses, and says why:

    > {_refused}

    This is not a fault of the model; it only means that its last vector is no sum, and that nobody can say of one part what
    it added. A program that divided it up all the same would print numbers, and they would look like those above.
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(17, again)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **To carry on with:** a pre-norm stream is the embedding plus every update, so an answer can be divided among its authors;
    and what a picture suggests, an ablation has to confirm.
    """)
    return


@app.cell(hide_code=True)
def _(
    change,
    copied,
    effects,
    found,
    idle,
    known,
    lens,
    logits,
    np,
    off,
    reader,
    right,
    run,
    shares,
    sharp,
    show,
    written,
):
    def close(a, b):
        return bool(np.allclose(a, b, atol=1e-4))

    numbers = {
        "S6 the updates": list(run.updates),
        "S6 embedding and updates differ from the final stream by less than 1e-4": bool(off < 1e-4),
        "S6 by hand and by `read` they are the same": all(close(run.updates[name], written[name].array) for name in written),
        "S6 heads add up to the update of their layer": close(
            sum(run.heads("blocks.1.attn").values()), run.updates["blocks.1.attn"]
        ),
        "S34 contributions add up to the logits": close(sum(shares.values()), logits),
        "S34 the last row of the lens is what the model says": close(lens["blocks.1"].argmax(-1), run.out.argmax(-1)),
        "S34 rows of the maps add up to 1": close(run.maps("blocks.0.attn").sum(-1), 1),
        "S34 loss of the whole model": effects.loss,
        "S34 loss without the head that looks the letter up": effects.loss + change[reader],
        "S34 that is more than 1 nat worse": bool(change[reader] > 1),
        "S34 loss without the idle head": effects.loss + change[idle],
        "S34 the idle head, made sharp, still changes the loss by less than 0.1": (
            sharp.spread < 0.5 and abs(sharp.change) < 0.1
        ),
        "S34 a head of block 0 decides where one of block 1 looks": min(found.values()) < 0.5 * copied[reader],
        "S34 right from the second round on": float(right[known].mean()),
    }
    show(numbers)
    return


@app.cell(hide_code=True)
def _(links):
    links(17)
    return


if __name__ == "__main__":
    app.run()
