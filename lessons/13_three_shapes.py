"""Three shapes

BERT, GPT-2 and a translator are all called transformers. What is the same in them, what differs, and who needs which?

Systems: S27, S28, S29, S30
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="13 · Three shapes")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from lessons.page import check_button, exercises, links, show

    return check_button, exercises, links, mo, show


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Three shapes

    BERT fills gaps in a text, GPT-2 continues one, the model of 2017 translates one into another. All three are stacks of
    the same block: attention adds an update, a feed-forward network adds another. What differs fits into one question,
    asked of each pair of positions: **may this one look at that one?**

    - In an **encoder** every position sees the whole text. It reads.
    - In a **decoder** each position sees itself and what came before. It writes: what it says next must not be looked up.
    - In an **encoder–decoder** an encoder reads the source; a decoder writes the target, and each of its positions also
      looks at all of the source, by **cross-attention**: queries from the one text, keys and values from the other.
    """)
    return


@app.cell
def _():
    import math

    import numpy as np

    import viz
    from tinygrad_tf import Tensor, no_grad, optim
    from tinygrad_tf.models import TransformerConfig, build
    from tinygrad_tf.models.ledger import count, ledger
    from tinygrad_tf.models.presets import MODELS, named, reduced
    from tinygrad_tf.nn import functional as F

    return (
        F,
        MODELS,
        Tensor,
        TransformerConfig,
        build,
        count,
        ledger,
        math,
        named,
        no_grad,
        np,
        optim,
        reduced,
        viz,
    )


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## By hand: one table of yes and no

    Attention gives each query a weight for each key. Who may look is a table of true and false with a row for each query:
    where it says false, the score becomes −∞ before the softmax, and the weight is 0. Three lines of NumPy, and three
    tables:
    """)
    return


@app.cell
def _(math, np):
    def weights(scores, may_look):
        scores = np.where(may_look, scores, -np.inf)
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    _rng = np.random.default_rng(0)
    read, ask = _rng.normal(size=(4, 8)), _rng.normal(size=(3, 8))  # four positions of one text, three of another
    tables = {
        "encoder": (read, read, np.ones((4, 4), bool)),
        "decoder": (read, read, np.tri(4, dtype=bool)),  # row i: true up to column i
        "cross": (ask, read, np.ones((3, 4), bool)),
    }
    by_hand = {name: weights(q @ k.T / math.sqrt(8), seen) @ k for name, (q, k, seen) in tables.items()}
    weights(read @ read.T / math.sqrt(8), tables["decoder"][2]).round(2)
    return by_hand, tables


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Read it row by row: the first position has nobody but itself to look at and gives itself the whole weight; each row sums
    to 1 over what it may see. The table of "cross" is not even square: three positions ask, four answer, and each of the
    three gets one read. The two texts need not have the same length, nor the same language; all they share is the width of
    their vectors. The engine's own attention takes the same tables and gives the same reads:
    """)
    return


@app.cell
def _(F, Tensor, by_hand, np, tables):
    by_engine = {
        name: F.scaled_dot_product_attention(Tensor(q), Tensor(k), Tensor(k), attn_mask=seen)
        for name, (q, k, seen) in tables.items()
    }
    assert all(np.allclose(by_engine[name].numpy(), by_hand[name]) for name in tables)
    ", ".join(f"{name} {read.shape}" for name, read in by_engine.items())
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## What one changed token changes

    A table of yes and no is one layer's rule. Does a whole model keep it, with several layers, norms and networks in
    between? Ask the model itself: build one of each shape, change one token of its input, and see at which positions the
    output moves. Nothing is trained here. What may reach what is decided by the wiring, whatever the weights are.
    """)
    return


@app.cell
def _(build, named, no_grad, np, reduced):
    def outputs_that_move(model, inputs, which):
        """Row j: the positions whose output moves when token j of inputs[which] is another one."""
        with no_grad():
            before, rows = model(*inputs).numpy(), []
            for j in range(inputs[which].shape[1]):
                changed = [ids.copy() for ids in inputs]
                changed[which][0, j] = (changed[which][0, j] + 1) % 29
                rows.append(np.abs(model(*changed).numpy() - before).max(axis=(0, 2)) > 0)
        return np.array(rows)

    _ids, _source = np.array([[3, 1, 4, 1, 5]]), np.array([[9, 2, 6, 5]])
    _names = ("bert-base", "gpt2", "2017-base")
    _models = {name: build(reduced(named(name).config), np.random.default_rng(0)).eval() for name in _names}
    moved = {
        "encoder": outputs_that_move(_models["bert-base"], [_ids], 0),
        "decoder": outputs_that_move(_models["gpt2"], [_ids], 0),
        "target": outputs_that_move(_models["2017-base"], [_source, _ids], 1),
        "source": outputs_that_move(_models["2017-base"], [_source, _ids], 0),
    }
    assert moved["encoder"].all() and moved["source"].all()
    assert (moved["decoder"] == np.triu(np.ones((5, 5)))).all() and (moved["target"] == moved["decoder"]).all()
    return (moved,)


@app.cell(hide_code=True)
def _(moved, np):
    from viz.figures import Figure
    from viz.figures.paint import rect, svg, text

    _says = {"encoder": "encoder", "decoder": "decoder", "target": "translator: target", "source": "translator: source"}
    _marks = []
    for _i, (_name, _table) in enumerate(moved.items()):
        _left, _top = 34 + 226 * (_i % 2), 46 + 196 * (_i // 2)
        _marks.append(text(_left, _top - 20, _says[_name], bold=True))
        for (_r, _c), _on in np.ndenumerate(_table):
            _marks.append(rect(_left + 28 * _c, _top + 28 * _r, 25, 25, "branch" if _on else "faint", radius=3))
        _marks += [text(_left - 10, _top + 18 + 28 * r, str(r + 1), "soft", anchor="end", size=14) for r in range(len(_table))]
    _words = ("Row: the token that was changed. Blue: the positions, from left to right, whose output moved. "
              "In a decoder nothing moves to the left of the change.")
    Figure({}, svg(460, 400, _marks), _words, "What one changed token changes")
    return


@app.cell(hide_code=True)
def _(mo, moved):
    mo.md(f"""
    In the encoder each of the {moved["encoder"].size} pairs is blue. In the decoder {int(moved["decoder"].sum())} of
    {moved["decoder"].size} are, those on and right of the diagonal: a token has a say in its own row and the later ones, in
    no earlier one. This holds after all the layers, because no layer ever let anything through to the left. The translator
    obeys both rules at once: full sight of the source, causal sight of its own target.

    ## The three as graphs

    The orange line is the residual stream. The translator has two of them, side by side: the encoder's, and the decoder's,
    whose block has a third sublayer, *cross*, where the other stream comes in: twice, as keys and as values. Take away the
    right half and *cross*, and a decoder is left; take away the left half, and an encoder.
    """)
    return


@app.cell
def _(build, named, np, reduced, viz):
    viz.draw(
        build(reduced(named("2017-base").config, n_layer=1, dropout=0.0), np.random.default_rng(0)),
        inputs=(np.array([[9, 2, 6, 5]]), np.array([[3, 1, 4, 1, 5]])),
        view="modules", collapse=["*.attn", "*.cross", "*.ffn"], params=False, shapes=False, legend=False,
    )
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## The second difference: where the norms stand

    In the drawing each norm interrupts the orange line. BERT and the model of 2017 take the norm of each sum: Norm(x +
    F(x)), post-norm. GPT-2 moved the norm into the branch: x + F(Norm(x)), pre-norm, with a single one left on the stream,
    after the last block. The parts are the same, and nearly so their number of parameters. Follow a word through both,
    number by number; the first block is the one that lesson 12 computes. In pre-norm the vector is only ever added to. In
    post-norm it is brought back to one length four times on the way, with everything that was in it.
    """)
    return


@app.cell(hide_code=True)
def _():
    from viz.figures import controls, token_trip, walk

    settings = controls(token_trip)
    settings
    return settings, token_trip, walk


@app.cell(hide_code=True)
def _(settings, token_trip, walk):
    walk(token_trip, **settings.value)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## From names to configurations

    A few fields of a configuration make the difference. Here are the models that have a name, each as such a list. Where an
    exact size is public, ours is counted and compared: a mistake in the arrangement, one bias too many, would show.
    """)
    return


@app.cell
def _(MODELS, count):
    sizes = {name: count(model.config) for name, model in MODELS.items()}
    exact = {name: sizes[name] + MODELS[name].other == MODELS[name].published for name in MODELS if MODELS[name].published}
    assert all(exact.values())
    len(exact)
    return exact, sizes


@app.cell(hide_code=True)
def _(MODELS, mo):
    chosen = mo.ui.dropdown(options=list(MODELS), value="gpt2", label="Model", allow_select_none=False)
    chosen
    return (chosen,)


@app.cell(hide_code=True)
def _(MODELS, chosen, ledger, mo, sizes):
    _model, _c = MODELS[chosen.value], MODELS[chosen.value].config
    _where = {"pre": "norms in the branches", "post": "a norm after each sum", "both": "norms on both sides"}[_c.norm_order]
    _kv = f", keys and values in {_c.n_kv_head} heads" if _c.n_kv_head not in (None, _c.n_head) else ""
    _size = sizes[chosen.value]
    _says = f"{_model.published:,}" if _model.published else "no exact figure"
    _rows = "\n".join(
        f"| {row.part} | {row.formula} | {row.times} | {row.total:,} |" for row in ledger(_c)
    )
    mo.md(f"""
    **{chosen.value}**: {_c.arrangement}, {_c.n_layer} layers of width {_c.n_embd:,}, {_c.n_head} heads{_kv}; {_where}
    ({'LayerNorm' if _c.norm == 'layer' else 'RMSNorm'}); positions {_c.positions}; feed-forward {_c.ffn.replace('_', ', by ')}.
    Counted: **{_size:,}**. Public: **{_says}** ({_model.source}).

    | part | formula | times | parameters |
    | --- | --- | ---: | ---: |
    {_rows}
    """)
    return


@app.cell(hide_code=True)
def _(mo, named):
    mo.md(f"""
    Three of them are worth a second look. **bert-base**: an encoder with post-norm, a learned row for each position, and
    two kinds of segments. **llama-3-8b**, a decoder as they are built today: RMSNorm, rotary positions, a gated
    feed-forward network (SwiGLU), no biases, and {named("llama-3-8b").config.n_kv_head} heads of keys and values for
    {named("llama-3-8b").config.n_head} heads of queries. **whisper-tiny**: an encoder–decoder like that of 2017 in its two
    streams, but with the norms in the branches; its encoder has fixed sines for positions, its decoder a learned table.

    A list of fields is quickly written, and says little if nothing can be run from it. So each of them is built at a width
    that takes a blink, with everything that says *how* left as it is, and run on a text of six tokens.
    """)
    return


@app.cell(hide_code=True)
def _(MODELS, Tensor, build, mo, no_grad, np, reduced):
    def runs(config):
        small = reduced(config)
        model = build(small, np.random.default_rng(0)).eval()
        ids = np.arange(6)[None]
        with no_grad():
            if small.arrangement == "stack":
                y = model(Tensor(np.ones((1, 6, small.n_embd), np.float32)), causal=True)
            elif small.n_mels:  # sound in, text out
                y = model(Tensor(np.ones((1, small.n_mels, 12), np.float32)), ids)
            else:
                y = model(ids, ids) if small.arrangement == "encoder-decoder" else model(ids)
        return y.shape[1] == 6 and bool(np.isfinite(y.numpy()).all())

    all_run = all(runs(model.config) for model in MODELS.values())
    assert all_run
    mo.md(f"All {len(MODELS)} of them, built small and run once: finite numbers at every position.")
    return (all_run,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Broken on purpose

    Is the causal mask really needed to train a writer? The loss asks for the next token at every position at once. Take a
    text in which nothing can be predicted: each of 8 tokens equally likely, drawn afresh for every step. The best that
    anybody can do is to say "1 in 8" each time, a loss of ln 8. Train the same small model twice, with the mask and
    without.
    """)
    return


@app.cell
def _(TransformerConfig, build, math, np, optim):
    def losses(arrangement, steps=150):
        rng = np.random.default_rng(0)
        model = build(TransformerConfig(8, block_size=8, n_layer=2, n_head=2, n_embd=32, arrangement=arrangement), rng)
        adam, found = optim.AdamW(model.parameters(), lr=1e-2), []
        for _ in range(steps):
            text = rng.integers(0, 8, (32, 9))
            loss = model.loss(text[:, :-1], text[:, 1:])  # at each position, the token that comes next
            adam.zero_grad()
            loss.backward()
            adam.step()
            found.append(loss.item())
        return np.array(found)

    honest, cheating = losses("decoder"), losses("encoder")
    bound = math.log(8)
    return bound, cheating, honest


@app.cell(hide_code=True)
def _(bound, cheating, honest, mo):
    mo.md(f"""
    With the mask the loss ends at {honest[-20:].mean():.3f}, where ln 8 = {bound:.3f}: nothing to learn, nothing learned.
    Without it, at **{cheating[-20:].mean():.3f}**, better than anybody can be. It did not learn to predict. The next token
    stands in the input, one place to the right, and all but the last position look there and copy. (The last has no such
    place: it alone keeps the loss above 0, by {bound:.3f} / 8 = {bound / 8:.3f}.) When it then has to write, the place to
    the right is empty. **A training loss that is too good is a leak, until shown otherwise.**

    BERT does look both ways, so it cannot be trained in this manner. It hides some tokens of its input and is asked for
    those alone (**masked language modelling**): a reader, good for finding, sorting and comparing texts. If you want text
    written, take a decoder; if one text is to be turned into another of its own kind, either an encoder–decoder, or, as is
    common today, a decoder that has the source as the beginning of its text.
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(13, again)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **To carry on with:** one block, three shapes. Who may look at whom makes the shape; where the norms stand is a second,
    separate choice. A decoder's output at one place never depends on what comes later, and that is what makes it trainable
    on all places at once.
    """)
    return


@app.cell(hide_code=True)
def _(MODELS, all_run, bound, cheating, exact, honest, moved, np, sizes):
    _c = {name: model.config for name, model in MODELS.items()}
    _bert, _gpt2, _llama, _2017, _whisper = map(_c.get, ("bert-base", "gpt2", "llama-3-8b", "2017-base", "whisper-tiny"))
    _past = np.triu(np.ones((5, 5), bool))
    numbers = {
        "S27 order of the norms": _bert.norm_order,
        "S27 positions": _bert.positions,
        "S27 pairs of positions that see each other, of 25": int(moved["encoder"].sum()),
        "S27 bert-base": sizes["bert-base"],
        "S27 bert-large": sizes["bert-large"],
        "S28 GPT-2": f"{_gpt2.norm_order}-norm, {_gpt2.norm}, {_gpt2.ffn}, {_gpt2.positions}",
        "S28 GPT-2: head tied to the embedding": _gpt2.tied,
        "S28 modern": f"{_llama.norm_order}-norm, {_llama.norm}, {_llama.ffn}, {_llama.positions}",
        "S28 modern: heads of queries for one of keys": _llama.n_head // _llama.n_kv_head,
        "S28 no output moves before the change": bool((moved["decoder"] == _past).all()),
        "S29 2017": f"{_2017.norm_order}-norm, {_2017.norm}, {_2017.ffn}, {_2017.positions}",
        "S29 every position of the target sees all of the source": bool(moved["source"].all()),
        "S29 the target sees its own past alone": bool((moved["target"] == _past).all()),
        "S29 Whisper": f"{_whisper.norm_order}-norm, {_whisper.encoder_positions} and {_whisper.positions}",
        "S30 gpt2": sizes["gpt2"],
        "S30 gpt2-medium": sizes["gpt2-medium"],
        "S30 gpt2-large": sizes["gpt2-large"],
        "S30 gpt2-xl": sizes["gpt2-xl"],
        "S30 sizes that are public": len(exact),
        "S30 sizes that are public and are met": sum(exact.values()),
        "S30 every named model runs at reduced width": all_run,
        "S30 Mimi starts its updates at": _c["mimi"].layer_scale,
        "loss with the mask, at the end": honest[-20:].mean(),
        "loss without the mask, at the end": cheating[-20:].mean(),
        "loss that nobody can pass": bound,
    }
    return (numbers,)


@app.cell(hide_code=True)
def _(numbers, show):
    show(numbers)
    return


@app.cell(hide_code=True)
def _(links):
    links(13)
    return


if __name__ == "__main__":
    app.run()
