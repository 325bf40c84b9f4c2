"""Train a character decoder

How do a hundred thousand random numbers turn into something that writes sentences?

Systems: S31
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="15 · Train a character decoder")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from lessons.page import check_button, exercises, links, show

    return check_button, exercises, links, mo, show


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Train a character decoder

    Nobody tells the model what a word is. It gets a text, guesses at every place which character comes next, and is told
    which one did. Each guess that was poor pulls on all of its numbers, a little. A minute of that, some thousand steps on
    a laptop, and it writes stories that nobody wrote.

    The text is one that this package makes itself: small stories from a **grammar**, a list of choices with probabilities.
    That has one great advantage over real text. How well *anybody* can predict it is known exactly, so there is a line on
    the loss curve that says: here ends what can be learned.
    """)
    return


@app.cell
def _():
    import math

    import numpy as np

    import viz
    from tinygrad_tf import grammar, no_grad
    from tinygrad_tf.data import get_batch, load_corpus, windows
    from tinygrad_tf.evaluation import evaluate
    from tinygrad_tf.generate import generate, probabilities
    from tinygrad_tf.memory import keep_freed_memory
    from tinygrad_tf.nn.utils import clip_grad_norm_
    from tinygrad_tf.optim import warmup_cosine
    from tinygrad_tf.run import Run
    from tinygrad_tf.settings import PRESETS
    from tinygrad_tf.threads import threads_for

    corpus = load_corpus("stories")
    return (
        PRESETS,
        Run,
        clip_grad_norm_,
        corpus,
        evaluate,
        generate,
        get_batch,
        grammar,
        keep_freed_memory,
        math,
        no_grad,
        np,
        probabilities,
        threads_for,
        viz,
        warmup_cosine,
        windows,
    )


@app.cell(hide_code=True)
def _(corpus, mo):
    _story = corpus.vocabulary.decode(corpus.train[:400].tolist()).split("\n\n")[0]
    mo.md(f"""
    > {_story}

    {len(corpus.train):,} characters to learn from, {len(corpus.val):,} held out for the examination, {len(corpus.vocabulary)}
    different ones. A character's number is its place in the alphabet of the text; for the model it is only the number of a row.
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## The question and its answer, one place apart

    The model reads a window of the text. The right answers are the same window, one character later. Nothing else is
    needed: every text is full of questions whose answers stand right beside them. That is why so much can be learned from
    text that nobody has prepared. Here are the first row of a batch and its answers:
    """)
    return


@app.cell
def _(corpus, get_batch, np):
    x, y = get_batch(corpus.train, 24, 2, np.random.default_rng(1))  # (B, T) each
    assert (x[:, 1:] == y[:, :-1]).all()
    [corpus.vocabulary.decode(row.tolist()) for row in (x[0], y[0])]
    return x, y


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Feeding the real text, whatever the model would have said itself, is called **teacher forcing**: at every place it
    starts from the right beginning, and one slip does not spoil the rest.

    How is a guess scored? The model gives a number to each character, a **logit**; softmax makes probabilities of them. The
    loss at a place is minus the logarithm of the probability that the right character got: 0 if it was certain of it, and
    more the less it expected it. The mean over all places is the **cross-entropy**. In NumPy, and by the engine, for a
    model that has learned nothing. (The preset lets every branch of the residual path start at exactly zero, which trains
    well; but then no token sees another yet, and there would be little to check. So here they start small instead.)
    """)
    return


@app.cell
def _(PRESETS, Run, corpus, no_grad, np, x, y):
    config = PRESETS["tiny"]
    fresh = Run.new(config.changed(zero_init=False), corpus.vocabulary, "").model
    with no_grad():
        logits = fresh(x).numpy()  # (B, T, V)
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    each = -np.log(np.take_along_axis(p, y[..., None], axis=-1))[..., 0]  # (B, T)
    assert abs(each.mean() - fresh.loss(x, y).item()) < 1e-5
    return config, each, fresh, logits


@app.cell(hide_code=True)
def _(corpus, each, math, mo, x):
    mo.md(f"""
    The loss is {each.mean():.2f}. A model that finds all {len(corpus.vocabulary)} characters equally likely would have ln
    {len(corpus.vocabulary)} = {math.log(len(corpus.vocabulary)):.2f}. That is where every training begins, and a first loss
    far from it is a first sign that something is wrong. Logarithms are natural here, so the unit is the **nat**; divide by
    ln 2 for bits.

    ## One pass, as many lessons as characters

    Each window gives {x.shape[1]} questions, and one pass through the model answers them all. That is what the causal mask
    is for. The answer at a place is the one that the model would have given with nothing but the text up to there. Two
    things can be checked. First, run each beginning of the window by itself, {x.shape[1]} passes, and look at the last
    answer of each:
    """)
    return


@app.cell
def _(fresh, logits, no_grad, np, x):
    with no_grad():
        alone = np.stack([fresh(x[:1, : t + 1]).numpy()[0, -1] for t in range(x.shape[1])])
    assert np.allclose(alone, logits[0], atol=1e-5)
    return (alone,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Second, change one character in the middle. Which of the losses move?
    """)
    return


@app.cell
def _(corpus, fresh, no_grad, np):
    def losses_of(model, text):
        """(T + 1,) -> (T,), the loss of each character but the first, given those before it."""
        with no_grad():
            log_p = model(text[None, :-1]).log_softmax(-1).numpy()[0]
        return -log_p[np.arange(len(text) - 1), text[1:]]

    _text = corpus.val[:65].astype(np.int64)
    _changed = _text.copy()
    _changed[40] = (_changed[40] + 7) % len(corpus.vocabulary)
    moved = losses_of(fresh, _changed) != losses_of(fresh, _text)
    before, after = int(moved[:39].sum()), int(moved[39:].sum())  # moved[39] is the loss of character 40
    assert before == 0
    return after, before, moved


@app.cell(hide_code=True)
def _(after, before, mo, moved):
    mo.md(f"""
    Of the 39 losses before it, **{before}**; from the changed character on, {after} of {len(moved) - 39}. No later
    character has any part in an earlier answer. So {len(moved)} predictions come from one pass over {len(moved)}
    characters, all computed at once. A network that reads one character after another, as recurrent ones do, would need
    {len(moved)} passes in a row.

    ## The graph of one step

    Two blocks on the residual stream, folded to a box each sublayer, and the loss at the end. The width of a line is how
    much gradient flows back along it.
    """)
    return


@app.cell
def _(fresh, viz, x, y):
    drawn = fresh.loss(x, y)
    drawn.backward()
    viz.draw(drawn, view="modules", collapse=["*.attn", "*.ffn"], grads="edges", params=False, shapes=False, legend=False)
    return


@app.cell(hide_code=True)
def _(config, mo):
    mo.md(f"""
    ## The loop

    Take a batch, compute the loss, send the gradient back, limit its length, take a step, forget the gradient. That is all
    training is; the rest is choosing numbers. Here they are those of the preset `tiny`: {config.n_layer} blocks, width
    {config.n_embd}, {config.n_head} heads, windows of {config.block_size}, {config.batch_size} at a time, {config.steps:,}
    steps. The learning rate rises for {config.warmup} steps, because the first gradients are wild, and then falls along
    half a cosine to 0, because the last ones should settle. `clip_grad_norm_` shortens a gradient that is longer than
    {config.clip:g}: one odd batch must not undo what a hundred others have taught. The optimizer is the preset's: **Muon**
    for the matrices in the blocks, which makes a step equally long in all directions of a matrix, and AdamW for the rest.
    All random numbers come from five streams of one seed, so the same minute gives the same model.

    At some steps the model is asked to write, always from the same random numbers, so that what changes between the samples
    is the model alone. Watch the order in which it learns: how often each letter comes, then which letters stand together,
    then words, then what was said a sentence ago. Press the button; it takes about a minute.
    """)
    return


@app.cell
def _(
    Run,
    clip_grad_norm_,
    config,
    corpus,
    get_batch,
    keep_freed_memory,
    np,
    threads_for,
    warmup_cosine,
    writer,
):
    LOOK = (0, 50, 200, 500, 1000)  # when to let it write

    def train(watch=None):
        run, losses, samples = Run.new(config, corpus.vocabulary, ""), [], {}
        parameters, write = list(run.model.parameters()), writer(run)
        keep_freed_memory()
        with threads_for(config.batch_size * config.block_size * config.n_embd**2):
            for step in range(config.steps):
                if step in LOOK:
                    samples[step] = write()
                share = warmup_cosine(step, lr=1.0, warmup=config.warmup, total=config.steps)
                for group in run.optimizer.param_groups:
                    group["lr"] = share * group["peak"]
                ids, targets = get_batch(corpus.train, config.block_size, config.batch_size, run.streams["batches"])
                loss = run.model.loss(ids, targets)
                loss.backward()
                clip_grad_norm_(parameters, config.clip)
                run.optimizer.step()
                run.optimizer.zero_grad()
                losses.append(loss.item())
                if watch and (step % 25 == 24 or step in LOOK):
                    watch(losses, samples)
            samples[config.steps] = write()
        return run.model, np.array(losses), samples

    return LOOK, train


@app.cell(hide_code=True)
def _(config, corpus, generate, math, mo, np):
    from html import escape

    from viz.figures import Figure
    from viz.figures.figure import sheet
    from viz.figures.paint import line, svg, text


    def writer(run, start=""):
        """write() -> how the model goes on now from a start, or begins a story; the same random numbers each time."""
        begin = corpus.vocabulary.encode(start or corpus.start())

        def write():
            rng = np.random.default_rng(5)
            made = generate(run.model, begin, 150, temperature=0.8, generator=rng)
            return corpus.vocabulary.decode(list(made)).strip("\n")

        return write


    def curve(losses):
        """The loss so far, each point the mean of some steps, between knowing nothing and the entropy of the text."""
        wide, high, left, top = 390, 200, 50, 16
        most = math.log(len(corpus.vocabulary))
        at = lambda step, loss: (left + wide * step / config.steps, top + high * (1 - min(loss, 4.0) / 4.0))
        size = max(1, len(losses) // 150)
        means = [(i + size / 2, float(np.mean(losses[i : i + size]))) for i in range(0, len(losses), size)]
        marks = [
            line([at(0, most), at(config.steps, most)], "line", dashed=True),
            text(left + wide, at(0, most)[1] - 6, f"nothing known: {most:.2f}", "soft", anchor="end"),
            line([at(0, corpus.floor), at(config.steps, corpus.floor)], "good", width=2),
            text(left + wide, at(0, corpus.floor)[1] - 30, f"nobody can pass: {corpus.floor:.3f}", "good", anchor="end"),
            *(text(left - 8, at(0, v)[1] + 5, str(v), "soft", anchor="end") for v in range(5)),
            *(text(at(s, 0)[0], top + high + 20, f"{s:,}", "soft", anchor="middle") for s in range(0, config.steps, 500)),
            line([at(*point) for point in means], "branch", width=2.5),
        ]
        words = f"After {len(losses):,} of {config.steps:,} steps the loss is {np.mean(losses[-25:]):.3f} nats per character."
        return Figure({}, svg(460, 246, marks), words, "Loss over the steps").html()


    def watched(losses, samples):
        """The curve, and what the model wrote on the way."""
        said = {step: escape(sample).replace("\n", " ⏎ ") for step, sample in samples.items()}
        rows = "".join(f"<p style='margin: 0 0 0.6em'><b>step {step:,}</b><br>{words}</p>" for step, words in said.items())
        return mo.Html(f"<style>{sheet('figure.css')}</style>{curve(losses)}<div>{rows}</div>")

    return escape, watched, writer


@app.cell(hide_code=True)
def _(mo):
    go = mo.ui.run_button(label="Train for a minute")
    go if mo.running_in_notebook() else None
    return (go,)


@app.cell(hide_code=True)
def _(go, mo, train, watched):
    trained, losses, samples = None, None, None
    if go.value or not mo.running_in_notebook():
        trained, losses, samples = train((lambda *seen: mo.output.replace(watched(*seen))) if go.value else None)
    watched(losses, samples) if trained else mo.md("*The loss curve and the first words will stand here.*")
    return losses, samples, trained


@app.cell(hide_code=True)
def _(LOOK, config, corpus, evaluate, grammar, mo, trained, windows):
    def examine():
        """(the model's held-out loss, the grammar's own) in nats per character."""
        ids = corpus.val[:20_000]
        text = corpus.vocabulary.decode(ids.tolist())
        first = text.index("\n\n") + 2  # the grammar's own judge begins with a story
        mine = evaluate(trained, windows(ids, config.block_size, config.batch_size, config.context_only))
        return mine, float(grammar.surprisals(text[first:]).mean())


    def report():
        times = config.steps * config.batch_size * config.block_size / len(corpus.train)
        return mo.md(f"""
    It began with noise and found the blank and the commonest letters within {LOOK[1]} steps. Then came words, and last what
    takes longest: that the animal of the first sentence is the one that was cold in the second, that "she" is Ada and "he"
    is Tom.

    The curve is the loss on what it was learning from. The examination is text that it never saw: **{examined:.4f}** nats
    per character, where the grammar itself, which knows every probability, has {best:.4f} on these very characters. What is
    left to learn is {examined / best - 1:.1%}. It did not learn the stories by heart: in {config.steps:,} steps each
    character of the training text came up {times:.1f} times on average.
    """)


    examined, best = examine() if trained else (None, None)
    report() if trained else None
    return best, examined


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## What it knows, place by place

    A held-out story. The redder a character, the less the model expected it. Most of a story is certain, once a word has
    begun: the uncertainty sits where the grammar has a choice. Move along it. The table says how likely each next character
    truly is, by the grammar, and what the model says.
    """)
    return


@app.cell(hide_code=True)
def _(config, corpus, mo, trained):
    _text = corpus.vocabulary.decode(corpus.val[:4000].tolist())
    _at = _text.index("\n\n", 200) + 2
    story, earlier = _text[_at : _text.index("\n\n", _at)], _text[_at - config.block_size : _at]
    place = mo.ui.slider(0, len(story) - 1, value=story.index(" ", 8) + 1, label="Place", show_value=True, full_width=True)
    place if trained else mo.md("*After the training.*")
    return earlier, place, story


@app.cell(hide_code=True)
def _(config, corpus, earlier, no_grad, np, probabilities, story, trained):
    def expected():
        """(characters of the story, V), what the model says before each of them."""
        ids = corpus.vocabulary.encode(earlier + story).astype(np.int64)
        rows = np.stack([ids[t : t + config.block_size] for t in range(len(story))])  # each ends just before character t
        with no_grad():
            said = np.stack([probabilities(row) for row in trained(rows).numpy()[:, -1]])
        return said, -np.log(said[np.arange(len(story)), ids[config.block_size :]])


    said, surprise = expected() if trained else (None, None)
    return said, surprise


@app.cell(hide_code=True)
def _(corpus, escape, grammar, mo, place, said, story, surprise, trained):
    def look(at):
        letters = [corpus.vocabulary.decode([i]) for i in range(len(corpus.vocabulary))]
        truth, model = grammar.next_character(story[:at]), dict(zip(letters, said[at].tolist()))
        marks = "".join(
            f"<span style='background: rgba(213, 94, 0, {min(0.85, surprise[t] / 3):.2f})"
            f"{'; outline: 2px solid' if t == at else ''}'>{escape(letter)}</span>" for t, letter in enumerate(story)
        )
        likely = {*truth, *sorted(letters, key=model.__getitem__)[-4:]}
        names = {" ": "␣", "\n": "⏎"}
        rows = "".join(
            f"<tr><th>{names.get(c, c)}</th><td>{truth.get(c, 0):.3f}</td>"
            f"<td style='padding-left: 2em'>{model[c]:.3f}</td></tr>"
            for c in sorted(likely, key=lambda c: (-truth.get(c, 0), -model[c]))[:12]
        )
        head = "<tr><th>next</th><td>grammar</td><td style='padding-left: 2em'>model</td></tr>"
        return mo.Html(f"<p style='line-height: 1.9'>{marks}</p><table style='text-align: left'>{head}{rows}</table>")


    look(place.value) if trained else None
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Broken on purpose

    The most common mistake in this loop is a quiet one: the targets are not shifted, and the model is asked for the
    character that it has just been given.
    """)
    return


@app.cell
def _(Run, config, corpus, get_batch, writer):
    def train_unshifted(steps=100):
        run = Run.new(config, corpus.vocabulary, "")
        for _ in range(steps):
            ids, _ = get_batch(corpus.train, config.block_size, config.batch_size, run.streams["batches"])
            loss = run.model.loss(ids, ids)
            loss.backward()
            run.optimizer.step()
            run.optimizer.zero_grad()
        return loss.item(), writer(run, "Ada met a")()

    unshifted, says = train_unshifted()
    return says, unshifted


@app.cell(hide_code=True)
def _(corpus, mo, says, unshifted):
    mo.md(f"""
    After 100 steps the loss is **{unshifted:.4f}**, far below the {corpus.floor:.4f} that nobody can pass. A triumph, until
    it is asked how "Ada met a" goes on:

    > {says[:24]}…

    It repeats what it was given, for that is what it was taught. Two alarms would have gone off: the loss below the entropy
    of the text (known here; for English prose Shannon's estimate of 1951, 0.6 to 1.3 bits, is 0.4 to 0.9 nats), and one
    look at a sample. **Look at samples.**
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(15, again)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **To carry on with:** a text is its own teacher, shifted by one. One causal pass gives a prediction for every place, and
    none of them has seen its answer. A loss wants two marks beside it: what knowing nothing gives, and what nobody can
    pass. The next lesson takes the trained part for granted and looks at writing: one character at a time, and what need
    not be computed again.
    """)
    return


@app.cell(hide_code=True)
def _(
    after,
    alone,
    before,
    best,
    config,
    corpus,
    each,
    examined,
    logits,
    losses,
    math,
    moved,
    np,
    samples,
    trained,
    unshifted,
):
    numbers = {} if trained is None else {
        "loss at the end, last 50 steps": losses[-50:].mean(),
        "S31 held-out loss": examined,
        "S31 held-out loss of the grammar itself": best,
        "held-out loss above it, in percent": 100 * (examined / best - 1),
        "a story": samples[config.steps].split("\n")[0],
    }
    numbers |= {
        "S31 entropy of the text, nats per character": corpus.floor,
        "S31 predictions from one pass over 64 characters": len(moved),
        "S31 losses that move before the changed character": before,
        "S31 losses that move from it on, of 25": after,
        "S31 one pass gives what as many passes give": bool(np.allclose(alone, logits[0], atol=1e-5)),
        "S31 loss of the untrained model": each.mean(),
        "S31 loss of equal chances": math.log(len(corpus.vocabulary)),
        "loss with targets that are not shifted": unshifted,
    }
    return (numbers,)


@app.cell(hide_code=True)
def _(numbers, show):
    show(numbers)
    return


@app.cell(hide_code=True)
def _(links):
    links(15)
    return


if __name__ == "__main__":
    app.run()
