"""Generate, and what the cache keeps

The model ends with a vector of numbers. How does a word come of it, and what has to be computed again for the next one?

Systems: S32, S33
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(
    width="medium",
    app_title="16 · Generate, and what the cache keeps",
)


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from lessons.page import check_button, exercises, links, show

    return check_button, exercises, links, mo, show


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Generate, and what the cache keeps

    After the last block there is one vector at each position, and no word. Three steps are missing: a norm, a table with a
    row for each word of the vocabulary, and a choice. Then the word is appended, and everything begins again, one token
    longer. Nearly all of what is then computed has been computed before. Keeping it is what makes writing bearable.
    """)
    return


@app.cell
def _():
    import math

    import numpy as np

    import viz
    from tinygrad_tf import no_grad
    from tinygrad_tf.generate import GenerationStats, generate, probabilities
    from tinygrad_tf.models import TransformerConfig, build
    from tinygrad_tf.models.presets import named
    from viz.figures import Figure
    from viz.figures.token_trip import WORDS
    from viz.figures.token_trip import model as small_decoder

    return (
        Figure,
        GenerationStats,
        TransformerConfig,
        WORDS,
        build,
        generate,
        math,
        named,
        no_grad,
        np,
        probabilities,
        small_decoder,
        viz,
    )


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## From a vector to a word, by hand

    A decoder with two numbers a token and five words has read "the cat sat". (It is the one of the trip in lesson 13, and
    its first block that of lesson 12.) Take the vector of "sat" after its last block, and do the rest with NumPy: divide by
    the root mean square, multiply with the row of each word, take the softmax.
    """)
    return


@app.cell
def _(WORDS, no_grad, np, probabilities, small_decoder):
    model = small_decoder("pre-norm")
    ids = np.array([[0, 1, 2]])  # the cat sat
    seen = {}
    model.norm.register_forward_pre_hook(lambda m, args: seen.update(stream=args[0].array[0, -1]))
    with no_grad():
        logits = model(ids).numpy()[0, -1]

    stream = seen["stream"]
    normed = stream / np.sqrt((stream**2).mean())
    scores = model.lm_head.weight.array @ normed  # a row for each word
    chances = np.exp(scores) / np.exp(scores).sum()
    assert np.allclose(scores, logits) and np.allclose(chances, probabilities(logits))
    dict(zip(WORDS, chances.round(3).tolist()))
    return chances, logits, scores


@app.cell(hide_code=True)
def _(WORDS, chances, mo):
    mo.md(f"""
    A score, a logit, is large where the vector points the way of the word's row. The largest is that of
    "{WORDS[int(chances.argmax())]}", with a probability of {chances.max():.3f}. But a probability is not yet a choice.

    ## The choice

    - **Greedy**: always the most probable. The same beginning gives the same text, and over a long one often the same
      phrase again and again.
    - **Sampling**: draw with these probabilities. True to the model, including its doubts.
    - **Temperature** T: divide the logits by T before the softmax. Below 1 the favourites gain, above 1 the outsiders;
      towards 0 it becomes greedy.
    - **Top-k**: only the k most probable may be drawn. **Top-p**: only the shortest list of the most probable whose
      probabilities reach p, so the list is short where the model is sure and long where it is not.

    The engine applies them in that order: temperature, then top-k, then top-p, each followed by a division that makes the
    sum 1 again.
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    how = mo.ui.batch(
        mo.hstack(["{temperature}", "{top_k}", "{top_p}"], justify="start", gap=2, wrap=True),
        {
            "temperature": mo.ui.slider(
                steps=[0, 0.1, 0.2, 0.5, 0.8, 1, 1.5, 2, 5, 20], value=1, label="Temperature", show_value=True
            ),
            "top_k": mo.ui.slider(1, 5, 1, value=5, label="Top-k", show_value=True),
            "top_p": mo.ui.slider(0.05, 1, 0.05, value=1, label="Top-p", show_value=True),
        },
    )
    how
    return (how,)


@app.cell(hide_code=True)
def _(Figure, WORDS, chances, how, logits, math, np, probabilities):
    from viz.figures.paint import number, rect, svg, text

    _after = probabilities(logits, how.value["temperature"], how.value["top_k"], how.value["top_p"])
    _marks = [text(70, 20, "thin: as the model says", "soft", size=14), text(448, 20, "drawn", "soft", anchor="end", size=14)]
    for _i in np.argsort(-chances, kind="stable"):
        _y = 34 + 44 * (len(_marks) - 2) // 4
        _marks += [text(60, _y + 20, WORDS[_i], anchor="end"), rect(70, _y + 4, 300 * chances[_i], 8, "faint", radius=2),
                   rect(70, _y + 14, 300 * _after[_i], 14, "stream", radius=2),
                   text(448, _y + 26, number(_after[_i], 3), anchor="end")]
    _list = ", ".join(f"{word} {number(p, 3)}" for word, p in zip(WORDS, _after) if p)
    _words = f"Drawn from: {_list}. Surprise to expect: {-sum(p * math.log(p) for p in _after if p):.3f} nats."
    Figure({}, svg(460, 256, _marks), _words, "What is drawn from")
    return


@app.cell
def _(logits, np, probabilities, scores):
    draws = probabilities(logits, temperature=0.5), probabilities(logits, top_k=2), probabilities(logits, top_p=0.8)
    sharper = np.exp(scores / 0.5) / np.exp(scores / 0.5).sum()
    assert np.allclose(draws[0], sharper) and np.allclose(draws[1], draws[2])
    assert probabilities(logits, temperature=0).tolist() == np.eye(5)[logits.argmax()].tolist()
    return (draws,)


@app.cell(hide_code=True)
def _(chances, mo):
    mo.md(f"""
    With top-p 0.8 "on" alone does not suffice ({chances[3]:.3f}); "sat" is the one that takes the sum past the mark, to
    {chances[2] + chances[3]:.3f}, and it stays in. The word that crosses the line belongs to the list: otherwise a model
    that is 90 % sure of one word would have nothing left to say at p = 0.8.

    ## The loop, and its waste

    Append the word, run the model again. At the next step the model reads four tokens instead of three, and computes the
    first three once more. Over a long text the waste is enormous: a text of n tokens has cost 1 + 2 + … + n positions. Has
    anything about those earlier positions changed? Ask a model of the ordinary kind, with random weights: its vectors at
    twelve positions, with twelve tokens to read, and with twenty.
    """)
    return


@app.cell
def _(TransformerConfig, build, no_grad, np):
    config = TransformerConfig(50, block_size=32, n_layer=3, n_head=4, n_embd=32, bias=True)
    decoder = build(config, np.random.default_rng(0)).eval()
    words = np.random.default_rng(1).integers(0, 50, (1, 20))
    with no_grad():
        shorter, longer = decoder.hidden(words[:, :12]), decoder.hidden(words)
    unchanged = bool(np.allclose(shorter.numpy(), longer.numpy()[:, :12], atol=1e-6))
    assert unchanged
    return config, decoder, unchanged, words


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    Nothing has. A causal position never sees what comes after it, so its vectors in every layer are what they were. They
    are not even needed any more, except for one thing: later queries meet their keys and mix their values. Keep those, for
    each layer, and a new token costs one position. That is the **KV cache**. By hand, for one head: the new row asks, and
    looks at all that was kept, itself included.
    """)
    return


@app.cell
def _(math, np):
    _rng = np.random.default_rng(2)
    x, w_q, w_k, w_v = _rng.normal(size=(6, 8)), *_rng.normal(size=(3, 8, 8))

    def read(q, k, v):
        scores = q @ k.T / math.sqrt(8)
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True) @ v

    keys, values, reads = np.zeros((0, 8)), np.zeros((0, 8)), []
    for row in x:  # one token after another
        keys, values = np.vstack([keys, row @ w_k]), np.vstack([values, row @ w_v])
        reads.append(read(row @ w_q, keys, values))

    whole = np.stack([read(x[t] @ w_q, x[: t + 1] @ w_k, x[: t + 1] @ w_v) for t in range(6)])  # everything again each time
    assert np.allclose(reads, whole)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    There is no mask in it: what may not be seen is not there yet. The engine's `new_cache` holds such a pair of arrays for
    each layer. Fed one token at a time with a cache, or all at once without, the logits must be the same at every position:
    """)
    return


@app.cell
def _(decoder, no_grad, np, words):
    cache = decoder.new_cache()
    with no_grad():
        stepwise = np.concatenate([decoder(words[:, t : t + 1], cache=cache).numpy() for t in range(20)], axis=1)
        at_once = decoder(words).numpy()
    agree = bool(np.abs(stepwise - at_once).max() < 1e-5)
    assert agree and cache.length == 20
    return agree, at_once, cache


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    As a graph, the step of one new token: every shape says 1 where the text had its length. What was kept comes in at the
    side of each attention, `k` and `v`, as constants: they were not made in this step, and no gradient flows back into
    them.
    """)
    return


@app.cell
def _(decoder, no_grad, viz, words):
    _cache = decoder.new_cache()
    with no_grad():
        decoder(words[:, :19], cache=_cache)
    viz.draw(decoder(words[:, 19:], cache=_cache), view="modules", collapse=["*.ffn"], fold="first", params=False, legend=False)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Counted

    `generate` counts what it computes. Twenty new tokens after a prompt of eight, with the cache and without; the same
    tokens come out.
    """)
    return


@app.cell
def _(GenerationStats, decoder, generate, words):
    def written(new, keep):
        stats = GenerationStats()
        return list(generate(decoder, words[0, :8], new, temperature=0, cache=keep, stats=stats)), stats

    (kept_text, kept), (again_text, fresh) = written(20, True), written(20, False)
    assert kept_text == again_text and fresh.computed == sum(8 + t for t in range(20))
    (_, beyond) = written(40, True)  # 8 + 40 tokens, and a context of 32
    return again_text, beyond, fresh, kept, kept_text


@app.cell(hide_code=True)
def _(beyond, config, fresh, kept, mo):
    mo.md(f"""
    | | positions computed | of those, computed before | read from the cache |
    | --- | ---: | ---: | ---: |
    | without a cache, 20 tokens | {fresh.computed} | {fresh.recomputed} | {fresh.reused} |
    | with a cache, 20 tokens | {kept.computed} | {kept.recomputed} | {kept.reused} |
    | with a cache, 40 tokens | {beyond.computed} | {beyond.recomputed} | {beyond.reused} |

    With the cache it is {fresh.computed / kept.computed:.0f} times less, and the longer the text, the greater the gain. The
    last row shows where it ends: the context is {config.block_size}. Once text and prompt are longer, the window moves on
    with every token; each position then stands one place further left and rests on other tokens than before. Nothing that
    was kept is valid any more, and the whole window is computed for every token.

    What remains with the cache is reading: each new query still meets every key. So a step is not free of the length; and
    it is one step after the other, while in training all positions go through at once. **Reading is wide, writing is
    long.**

    ## What it costs to keep

    Two arrays for each layer, with a row of head width for each position and head of keys. That adds up: the cache is often
    what limits how many texts a machine can write at a time. It is why modern models share heads of keys and values among
    heads of queries.
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    _choices = ["gpt2", "gpt2-xl", "llama-2-7b", "llama-3-8b", "llama-2-70b", "mistral-7b", "helium-1-preview-2b"]
    which = mo.ui.batch(
        mo.hstack(["{model}", "{tokens}"], justify="start", gap=2, wrap=True),
        {
            "model": mo.ui.dropdown(options=_choices, value="llama-3-8b", label="Model", allow_select_none=False),
            "tokens": mo.ui.slider(steps=[2**i for i in range(7, 16)], value=1024, label="Tokens", show_value=True),
        },
    )
    which
    return (which,)


@app.cell(hide_code=True)
def _(mo, named, which):
    def cache_bytes(c, tokens, each=4):
        """Keys and values, each layer, position and head of keys, `each` bytes a number."""
        return 2 * c.n_layer * tokens * (c.n_kv_head or c.n_head) * c.head_dim * each


    _c, _n = named(which.value["model"]).config, which.value["tokens"]
    _heads = _c.n_kv_head or _c.n_head
    _shared = _c.n_head // _heads
    _less = f"; {_shared} heads of queries share one of keys, or it would be {_shared} times as much" if _shared > 1 else ""
    mo.md(f"""
    2 · {_c.n_layer} layers · {_n:,} tokens · {_heads} heads · {_c.head_dim} numbers · 2 bytes
    = **{cache_bytes(_c, _n, 2) / 2**20:,.1f} MiB** for one text{_less}.
    """)
    return (cache_bytes,)


@app.cell(hide_code=True)
def _(cache, cache_bytes, config, mo):
    mo.md(f"""
    The same formula for the small decoder above, with four bytes a number and room for its whole context:
    {cache_bytes(config, 32):,} bytes; the cache itself says {cache.nbytes:,}.
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Broken on purpose

    A new token comes alone, as an array of length one. To anybody who does not ask, it is at position 0. Here is the step
    written out, with the position as an argument; first as it should be, then restarted at 0 for every token.
    """)
    return


@app.cell
def _(at_once, decoder, no_grad, np, words):
    def step(token, position, caches):
        x = decoder.token_embedding(np.array([[token]])) + decoder.position_embedding.weight[position]
        for block, kept in zip(decoder.blocks, caches.layers):
            x = block(x, causal=True, cache=kept)
        return decoder.lm_head(decoder.norm(x)).numpy()[0, 0]

    with no_grad():
        _right, _wrong = decoder.new_cache(), decoder.new_cache()
        right = np.stack([step(token, t, _right) for t, token in enumerate(words[0])])
        wrong = np.stack([step(token, 0, _wrong) for token in words[0]])
    assert np.allclose(right, at_once[0], atol=1e-5)
    off = np.abs(wrong - at_once[0]).max(axis=-1)
    return (off,)


@app.cell(hide_code=True)
def _(at_once, mo, off):
    mo.md(f"""
    With the right positions the logits are those of before. Restarted, the first token is right, since 0 is its place (off
    by {off[0]:.0e}), and every later one is wrong, by {off[1:].min():.2f} to {off[1:].max():.2f} at logits whose spread is
    {at_once.std():.2f}. Nothing fails; the shapes are the same; the model forgets the order of its own words. The test that
    finds it is the one above: **cached and uncached, at every step, not only at the first**.
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(16, again)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    **To carry on with:** norm, table, softmax, choice, append. What a causal model has computed for a position stays true,
    so keys and values are kept, and a token costs one position until the context is full. The cache grows in line with the
    text, the layers and the heads of keys.
    """)
    return


@app.cell(hide_code=True)
def _(
    WORDS,
    again_text,
    agree,
    beyond,
    cache,
    cache_bytes,
    chances,
    config,
    draws,
    fresh,
    kept,
    kept_text,
    logits,
    named,
    np,
    off,
    scores,
    unchanged,
):
    numbers = {
        "S33 scores after “the cat sat”": logits,
        "S33 probabilities": chances,
        "S33 by hand as by the engine": bool(np.allclose(scores, logits)),
        "S33 greedy": WORDS[int(chances.argmax())],
        "S33 temperature 0.5": draws[0],
        "S33 top-k 2": draws[1],
        "S33 top-p 0.8": draws[2],
        "S32 earlier positions unchanged by later tokens": unchanged,
        "S32 cached and uncached logits agree at every step": agree,
        "S32 the same text with and without the cache": kept_text == again_text,
        "S32 positions computed without the cache": fresh.computed,
        "S32 of those computed before": fresh.recomputed,
        "S32 positions computed with the cache": kept.computed,
        "S32 positions read from the cache": kept.reused,
        "S32 positions computed again once the window moves": beyond.recomputed,
        "S32 bytes of the cache": cache.nbytes,
        "S32 bytes by the formula": cache_bytes(config, 32),
        "S32 bytes for GPT-2 small, 1,024 tokens": cache_bytes(named("gpt2").config, 1024),
        "largest error with positions restarted": off.max(),
    }
    return (numbers,)


@app.cell(hide_code=True)
def _(numbers, show):
    show(numbers)
    return


@app.cell(hide_code=True)
def _(links):
    links(16)
    return


if __name__ == "__main__":
    app.run()
