"""Where the parameters live

A model has 124 million numbers. Where are they, and what does each choice cost: more layers, more heads, a longer text?

Systems: S26
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="14 · Where the parameters live")


@app.cell(hide_code=True)
def _():
    import marimo as mo

    from lessons.page import check_button, exercises, links, show

    return check_button, exercises, links, mo, show


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # Where the parameters live

    "124M", "7B", "70B": the size in a model's name counts its parameters, the numbers that training adjusts. They are not
    spread evenly. Nearly all stand in a few kinds of matrices, and with pencil and paper you can say how many, for any
    model, before a line of it is built. That matters in practice: memory, download, time for each token and the price of
    training all follow from the count.

    A matrix that takes vectors of width $a$ to vectors of width $b$ has $a \cdot b$ numbers. With a bias, one number added
    to each output, there are $b$ more. That is all the mathematics of this page.
    """)
    return


@app.cell
def _():
    import math

    import numpy as np

    import viz
    from tinygrad_tf import Tensor, nn
    from tinygrad_tf.models import TransformerConfig, build
    from tinygrad_tf.models.ledger import count, ledger, multiplications
    from tinygrad_tf.models.presets import named
    from tinygrad_tf.nn.transformer import block_of_gpt2

    return (
        Tensor,
        TransformerConfig,
        block_of_gpt2,
        build,
        count,
        ledger,
        math,
        multiplications,
        named,
        nn,
        np,
        viz,
    )


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## By hand

    The smallest GPT-2 has a stream of width d = 768 and 12 blocks. Attention has four square matrices: for queries, keys,
    values, and for the way back into the stream. The feed-forward network widens to 4 d and narrows again. Each of a
    block's two norms has a gain and a bias for each coordinate.
    """)
    return


@app.cell
def _():
    d, layers, vocabulary, context = 768, 12, 50257, 1024
    attention = 4 * (d * d + d)
    feed_forward = (d * 4 * d + 4 * d) + (4 * d * d + d)  # wider, and back
    norms = 2 * (d + d)
    block = attention + feed_forward + norms
    outside = vocabulary * d + context * d + (d + d)  # a row for each token, a row for each position, the last norm
    total = layers * block + outside
    return (
        attention,
        block,
        context,
        d,
        feed_forward,
        layers,
        norms,
        outside,
        total,
        vocabulary,
    )


@app.cell(hide_code=True)
def _(
    attention,
    block,
    d,
    feed_forward,
    layers,
    mo,
    norms,
    outside,
    total,
    vocabulary,
):
    mo.md(f"""
    One block: {attention:,} + {feed_forward:,} + {norms:,} = **{block:,}**. Twelve: **{layers * block:,}**. Outside the
    blocks {outside:,}, which makes **{total:,}**. In a block, two of three numbers belong to the feed-forward network
    ({feed_forward / block:.1%}), though attention is the part that everybody talks about. Close to a third of the whole
    model ({vocabulary * d / total:.1%}) is one table: a row of {d} numbers for each of {vocabulary:,} tokens.

    What scores the tokens at the end is missing from the sum, and not by mistake. It would be another {vocabulary * d:,}
    numbers; in GPT-2 it *is* the token table, used a second time: a **tied head**.

    Now the engine: the block is really built, and its numbers are counted; then the whole model, from its configuration.
    """)
    return


@app.cell
def _(attention, block, block_of_gpt2, count, d, feed_forward, named, total):
    real_block = block_of_gpt2(d, heads=12)
    parts = {name: sum(p.numel() for p in part.parameters()) for name, part in real_block.named_children()}
    assert parts["attn"] == attention and parts["ffn"] == feed_forward
    assert sum(parts.values()) == block and count(named("gpt2").config) == total
    " + ".join(f"{n:,} {name}" for name, n in parts.items())
    return (real_block,)


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    The same block as a graph, with the count in each box. The orange line, and the two sums on it, have nothing to learn:
    **the residual path is free.**
    """)
    return


@app.cell
def _(Tensor, d, np, real_block, viz):
    viz.draw(
        real_block, inputs=Tensor(np.ones((1, 4, d), np.float32)), view="modules", collapse=["attn", "ffn"],
        params=False, shapes=False, legend=False,
    )
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Move it

    Five choices make the size. Move one at a time and say first what will happen. Twice the layers? Twice the width? Which
    slider moves nothing at all?
    """)
    return


@app.cell(hide_code=True)
def _():
    from viz.figures import Figure, controls, parameters

    settings = controls(parameters)
    settings
    return Figure, parameters, settings


@app.cell(hide_code=True)
def _(parameters, settings):
    parameters(**settings.value)
    return


@app.cell
def _(TransformerConfig, context, count, d, layers, nn, vocabulary):
    def size(**others):
        gpt2 = {"vocab_size": vocabulary, "block_size": context, "n_layer": layers, "n_head": 12, "n_embd": d, "bias": True}
        return count(TransformerConfig(**{**gpt2, **others}))

    def blocks(**others):
        return size(**others) - (vocabulary + context + 2) * others.get("n_embd", d)

    heads = {h: sum(p.numel() for p in nn.MultiHeadAttention(48, h).parameters()) for h in (1, 2, 3, 4, 6, 8, 12)}
    growth = {"layers": blocks(n_layer=24) / blocks(), "width": blocks(n_embd=2 * d) / blocks()}
    assert len(set(heads.values())) == 1
    return growth, heads, size


@app.cell(hide_code=True)
def _(block, d, growth, heads, layers, mo):
    mo.md(f"""
    - **Layers** count once: twice as many blocks have {growth["layers"]:g} times the parameters.
    - **Width** counts twice, in the rows and in the columns of each matrix: twice as wide, {growth["width"]:.3f} times as
      many. Biases and norms grow in line with d; they are why it is not exactly 4.
    - **Vocabulary** and **context** cost a row each. They weigh in small models and vanish in large ones.
    - **Heads** cost nothing. Twelve heads of 64 have the same four matrices as one head of 768: heads are a way to cut the
      vectors between them into pieces. The engine built attention with 1 to 12 heads above, and counted the same
      {heads[1]:,} each time.

    Leave out biases, norms and tables and a rule for the head remains: **12 N d²**, four square matrices for attention and
    eight for the feed-forward network, in each of N blocks. For GPT-2 it gives {12 * layers * d * d:,}, where {layers *
    block:,} is right: {1 - 12 * layers * d * d / (layers * block):.2%} too little.
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## A longer text costs no parameter, but time

    Neither formula above knows how many tokens are read. The matrices are the same for each position; only the position
    table has a row for each, and with rotary positions not even that is left. What a longer text does cost is
    multiplications. There are two kinds, and they grow differently:

    - each token goes through every matrix: 12 d² multiplications a block and token, so **n times 12 d²**, in line with the
      length n;
    - each token meets each other: n · n scores of d products, and n · n weights times values, **2 n² d** a block. Twice the
      text, four times the work.

    Count them in a run of a real block of width 32: the graph knows every matrix product, and what met in it.
    """)
    return


@app.cell
def _(Tensor, block_of_gpt2, math, np, viz):
    def counted(n, d=32):
        """(in matrices, between tokens): what the matrix products of one run multiplied."""
        graph = viz.trace(block_of_gpt2(d, 4), inputs=Tensor(np.ones((1, n, d), np.float32)), fused=False, numbers=False)
        shapes, found = {node.id: node.shape for node in graph.nodes}, [0, 0]
        left = {edge.target: shapes[edge.source] for edge in graph.edges if edge.slot == 0}
        for product in (node for node in graph.nodes if node.op == "matmul"):
            found["attention" in product.module] += math.prod(product.shape) * left[product.id][-1]
        return found

    work = {n: counted(n) for n in (1, 64, 128, 192)}
    assert all(work[n] == [n * 12 * 32**2, 2 * n**2 * 32] for n in work)
    return (work,)


@app.cell(hide_code=True)
def _(mo, work):
    mo.md(f"""
    | tokens | in matrices | between tokens |
    | ---: | ---: | ---: |
    {chr(10).join(f"| {n} | {matrices:,} | {between:,} |" for n, (matrices, between) in work.items())}

    Each row has both kinds as the two formulas say. Now for GPT-2 small, at any length:
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    length = mo.ui.slider(steps=[2**i for i in range(7, 18)], value=1024, label="Tokens n", show_value=True)
    length
    return (length,)


@app.cell(hide_code=True)
def _(Figure, length, multiplications, named):
    from viz.figures.paint import rect, svg, text

    _n = length.value
    _matrices, _between = multiplications(named("gpt2").config, _n)
    _all = _matrices + _between
    _bars = []
    _kinds = (("in the matrices, 12 N d² n", _matrices, "branch"), ("between tokens, 2 N n² d", _between, "grad"))
    for _i, (_name, _work, _kind) in enumerate(_kinds):
        _y = 28 + 66 * _i
        _bars += [text(12, _y, _name), text(448, _y, f"{_work / 1e9:,.1f} billion", anchor="end"),
                  rect(12, _y + 10, 436, 18, "faint", radius=3), rect(12, _y + 10, 436 * _work / _all, 18, _kind, radius=3)]
    _words = (f"GPT-2 small reading {_n:,} tokens at once: {_all / 1e9:,.1f} billion multiplications in its blocks, "
              f"{100 * _between / _all:.1f} % of them between tokens.")
    Figure({}, svg(460, 132, _bars), _words, "Where the multiplications are")
    return


@app.cell(hide_code=True)
def _(context, d, mo):
    mo.md(f"""
    The two are equal when 2 n² d = 12 d² n, at n = 6 d: {6 * d:,} tokens for GPT-2 small, whose context ends at
    {context:,}. Up to there the matrices are the larger part; far beyond it, nearly everything is spent between tokens. (A
    causal mask allows half of those pairs to be left out. It moves the place, not the square.)
    """)
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    ## Broken on purpose

    Counting seems too simple to go wrong. Here is how it usually does: add up everything that a saved model holds.
    """)
    return


@app.cell
def _(TransformerConfig, build, np):
    small = build(TransformerConfig(500, 32, n_layer=2, n_head=2, n_embd=24, bias=True), np.random.default_rng(0))
    saved = sum(tensor.numel() for tensor in small.state_dict().values())
    learned = sum(p.numel() for p in small.parameters())
    assert saved - learned == small.token_embedding.weight.numel()
    return learned, saved


@app.cell(hide_code=True)
def _(d, learned, mo, saved, size, total, vocabulary):
    mo.md(f"""
    {saved:,} against {learned:,}: the difference, {saved - learned:,}, is 500 rows of 24. The tied matrix has two names,
    `token_embedding.weight` and `lm_head.weight`, and was counted under both. For GPT-2 small the same slip gives
    {total + vocabulary * d:,}, a figure that circulates. `parameters()` names each array once. The reverse happens as well: a
    model whose head is *not* tied, like Llama's, really has both.

    The rule of thumb breaks too, where its small print applies. A model of width 64 with GPT-2's vocabulary and two blocks:
    12 N d² says {12 * 2 * 64**2:,}, the count is {size(n_layer=2, n_embd=64, n_head=1):,}. It is a table with a small model
    attached.
    """)
    return


@app.cell(hide_code=True)
def _(check_button):
    again = check_button()
    return (again,)


@app.cell(hide_code=True)
def _(again, exercises):
    exercises(14, again)
    return


@app.cell(hide_code=True)
def _(mo, total):
    mo.md(f"""
    **To carry on with:** 12 N d², plus the tables. Heads are free, the residual path is free, a longer text costs work and
    no parameter. While a model learns, each parameter needs company: its gradient and, with AdamW, two running means. Four
    numbers of four bytes for each of {total:,} are {16 * total / 1e9:.1f} GB, before the first activation is kept. The next
    lesson trains one that is a thousand times smaller.
    """)
    return


@app.cell(hide_code=True)
def _(
    block,
    count,
    d,
    feed_forward,
    growth,
    heads,
    layers,
    ledger,
    multiplications,
    named,
    total,
    vocabulary,
):
    _rows = {row.part: row for row in ledger(named("gpt2").config)}
    _reads = {n: multiplications(named("gpt2").config, n) for n in (1024, 2048)}
    numbers = {
        "S26 attention": _rows["attention"].each,
        "S26 feed-forward": _rows["feed-forward"].each,
        "S26 one block": block,
        "S26 twelve blocks": layers * block,
        "S26 GPT-2 small": count(named("gpt2").config),
        "S26 GPT-2 small by hand": total,
        "S26 formula of attention": _rows["attention"].formula,
        "S26 formula of feed-forward": _rows["feed-forward"].formula,
        "S26 12 N d² over the blocks": 12 * layers * d * d / (layers * block),
        "S26 different counts for 1 to 12 heads": len(set(heads.values())),
        "S26 share of feed-forward in a block": feed_forward / block,
        "S26 share of the token table": vocabulary * d / total,
        "S26 twice the width, times the parameters of the blocks": growth["width"],
        "S26 twice the text, times the work in matrices": _reads[2048][0] / _reads[1024][0],
        "S26 twice the text, times the work between tokens": _reads[2048][1] / _reads[1024][1],
        "S26 tokens at which both are equal": 6 * d,
        "counted twice, GPT-2 small": total + vocabulary * d,
    }
    return (numbers,)


@app.cell(hide_code=True)
def _(numbers, show):
    show(numbers)
    return


@app.cell(hide_code=True)
def _(links):
    links(14)
    return


if __name__ == "__main__":
    app.run()
